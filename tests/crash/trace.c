/* SPDX-License-Identifier: MIT */
#include "trace.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "process.h"

#define SILENCE_SEC 60
#define KNOWN_MAX   64

#define EVENTS (PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC)

enum role {
        ROLE_NEW,     /* its first stop came before its parent's word */
        ROLE_FREE,    /* traced, so that its children are; not stopped at system calls */
        ROLE_STOPPED, /* at system calls */
};

struct traced {
        pid_t pid;
        enum role role;
};

/* ---- who is traced ---------------------------------------------------------------------------------------------- */

static struct traced *find(struct trace *trace, pid_t pid) {
        for (size_t i = 0; i < trace->n_known; i++)
                if (trace->known[i].pid == pid)
                        return trace->known + i;
        return NULL;
}

static struct traced *add(struct trace *trace, pid_t pid, enum role role) {
        if (trace->n_known == KNOWN_MAX)
                return NULL;
        trace->known[trace->n_known] = (struct traced){ .pid = pid, .role = role };
        return &trace->known[trace->n_known++];
}

static void forget(struct trace *trace, pid_t pid) {
        struct traced *traced = find(trace, pid);
        if (traced)
                *traced = trace->known[--trace->n_known];
}

static void go_on(const struct traced *traced, int signal) {
        (void)ptrace(traced->role == ROLE_STOPPED ? PTRACE_SYSCALL : PTRACE_CONT, traced->pid, NULL,
                (void *)(intptr_t)signal);
}

static void let_go(struct trace *trace, pid_t pid) {
        (void)ptrace(PTRACE_DETACH, pid, NULL, NULL);
        forget(trace, pid);
}

/* ---- the beginning ---------------------------------------------------------------------------------------------- */

static void run_child(int gate, int (*fn)(void *), void *userdata) {
        char word;
        while (read(gate, &word, 1) < 0 && errno == EINTR)
                ;
        close(gate);
        _exit(fn(userdata));
}

static int seize(const struct trace *trace) {
        long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL | (trace->helper ? EVENTS : 0);
        int status;
        if (ptrace(PTRACE_SEIZE, trace->pid, NULL, (void *)options) < 0 ||
                ptrace(PTRACE_INTERRUPT, trace->pid, NULL, NULL) < 0)
                return -errno;
        return waitpid(trace->pid, &status, __WALL) == trace->pid && WIFSTOPPED(status) ? 0 : -ECHILD;
}

int trace_begin(struct trace *trace, int (*fn)(void *), void *userdata, const char *helper) {
        int gate[2];
        *trace = (struct trace){ .helper = helper, .known = calloc(KNOWN_MAX, sizeof(struct traced)) };
        if (!trace->known || pipe(gate) < 0)
                return -ENOMEM;
        trace->pid = fork();
        if (trace->pid == 0) {
                close(gate[1]);
                run_child(gate[0], fn, userdata);
        }
        int r = trace->pid < 0 ? -errno : seize(trace);
        close(gate[0]);
        close(gate[1]);
        if (r >= 0)
                go_on(add(trace, trace->pid, helper ? ROLE_FREE : ROLE_STOPPED), 0);
        return r;
}

/* ---- events ----------------------------------------------------------------------------------------------------- */

/* A child of the guard is the guard; other children are looked at when they execute something. */
static void adopt(struct trace *trace, const struct traced *parent) {
        unsigned long message = 0;
        if (ptrace(PTRACE_GETEVENTMSG, parent->pid, NULL, &message) < 0)
                return;
        bool is_guard = parent->role == ROLE_STOPPED && strcmp(trace->helper, "cgtree-guard") == 0;
        enum role role = is_guard ? ROLE_STOPPED : ROLE_FREE;
        struct traced *child = find(trace, (pid_t)message);
        if (!child) {
                add(trace, (pid_t)message, role);
                return;
        }
        child->role = role;
        go_on(child, 0);
}

static void on_exec(struct trace *trace, struct traced *traced) {
        struct process_stat stat;
        if (traced->pid == trace->pid) {
                go_on(traced, 0);
                return;
        }
        bool is_helper = process_read_stat(traced->pid, &stat) >= 0 && strcmp(stat.comm, trace->helper) == 0;
        if (!is_helper || trace->helper_done) {
                let_go(trace, traced->pid);
                return;
        }
        traced->role = ROLE_STOPPED;
        go_on(traced, 0);
}

/* True: a stop at a system call. */
static bool on_stop(struct trace *trace, struct traced *traced, int status) {
        int signal = WSTOPSIG(status), event = status >> 16;
        pid_t pid = traced->pid;
        if (signal == (SIGTRAP | 0x80)) {
                trace->n_stops++;
                return true;
        }
        switch (event) {
        case PTRACE_EVENT_FORK:
        case PTRACE_EVENT_VFORK:
        case PTRACE_EVENT_CLONE:
                adopt(trace, traced);
                go_on(find(trace, pid), 0);
                break;
        case PTRACE_EVENT_EXEC: on_exec(trace, traced); break;
        case PTRACE_EVENT_STOP:
                if (signal == SIGTRAP)
                        go_on(traced, 0);
                else
                        (void)ptrace(PTRACE_LISTEN, pid, NULL, NULL);
                break;
        default: go_on(traced, signal); break;
        }
        return false;
}

static volatile sig_atomic_t silence;

static void on_alarm(int number) {
        (void)number;
        silence = 1;
}

static pid_t await(int *ret_status) {
        const struct sigaction action = { .sa_handler = on_alarm };
        silence = 0;
        sigaction(SIGALRM, &action, NULL);
        alarm(SILENCE_SEC);
        pid_t pid;
        do
                pid = waitpid(-1, ret_status, __WALL);
        while (pid < 0 && errno == EINTR && !silence);
        alarm(0);
        return pid;
}

/* One piece of news. 1: a stop at a system call, of *ret_pid. 0: something else. */
static int listen_once(struct trace *trace, pid_t *ret_pid) {
        int status;
        pid_t pid = await(&status);
        if (pid < 0)
                return -ETIMEDOUT;
        struct traced *traced = find(trace, pid);
        if (WIFEXITED(status) || WIFSIGNALED(status)) {
                if (pid == trace->pid) {
                        trace->pid = 0;
                        trace->status = status;
                }
                forget(trace, pid);
                return 0;
        }
        *ret_pid = pid;
        if (!traced) {
                add(trace, pid, ROLE_NEW); /* it waits for its parent's word */
                return 0;
        }
        return on_stop(trace, traced, status);
}

/* ---- up to a stop, and what then -------------------------------------------------------------------------------- */

static void describe(pid_t pid, size_t number, struct stop *ret_stop) {
        struct __ptrace_syscall_info info = { 0 };
        (void)ptrace(PTRACE_GET_SYSCALL_INFO, pid, (void *)sizeof(info), &info);
        bool entry = info.op == PTRACE_SYSCALL_INFO_ENTRY;
        *ret_stop = (struct stop){
                .number = number, .pid = pid, .syscall = entry ? (long)info.entry.nr : -1, .entry = entry
        };
}

static bool has_ended(const struct trace *trace) {
        for (size_t i = 0; i < trace->n_known; i++)
                if (trace->known[i].role == ROLE_STOPPED)
                        return false;
        return trace->pid == 0;
}

int trace_run(struct trace *trace, size_t number, struct stop *ret_stop) {
        *ret_stop = (struct stop){ 0 };
        long last_entry = -1;
        while (!has_ended(trace)) {
                pid_t pid;
                int r = listen_once(trace, &pid);
                if (r < 0)
                        return r;
                if (r == 0)
                        continue;
                struct stop stop;
                describe(pid, trace->n_stops, &stop);
                if (!stop.entry)
                        stop.syscall = last_entry;
                last_entry = stop.syscall;
                if (trace->n_stops == number) {
                        *ret_stop = stop;
                        return 0;
                }
                go_on(find(trace, pid), 0);
        }
        return 0;
}

/* Their parent was killed before it could say a word. */
static void let_orphans_go(struct trace *trace) {
        for (size_t i = trace->n_known; i > 0; i--)
                if (trace->known[i - 1].role == ROLE_NEW)
                        let_go(trace, trace->known[i - 1].pid);
}

int trace_kill_stopped(struct trace *trace, const struct stop *stop) {
        if (kill(stop->pid, SIGKILL) < 0)
                return -errno;
        trace->helper_done = true;
        while (find(trace, stop->pid)) {
                pid_t pid;
                int r = listen_once(trace, &pid);
                if (r < 0)
                        return r;
                if (r > 0 && find(trace, pid))
                        go_on(find(trace, pid), 0);
        }
        let_orphans_go(trace);
        return 0;
}

int trace_kill(struct trace *trace) {
        if (trace->pid > 0 && kill(trace->pid, SIGKILL) < 0)
                return -errno;
        return trace_finish(trace);
}

int trace_finish(struct trace *trace) {
        trace->helper_done = true;
        while (trace->pid > 0) {
                pid_t pid;
                int r = listen_once(trace, &pid);
                if (r < 0)
                        return r;
                struct traced *traced = r > 0 ? find(trace, pid) : NULL;
                if (!traced)
                        continue;
                if (pid == trace->pid)
                        go_on(traced, 0);
                else
                        let_go(trace, pid);
        }
        return 0;
}

/* Who is still traced is let go; who runs is stopped for it. */
void trace_done(struct trace *trace) {
        if (trace->pid > 0)
                (void)trace_kill(trace);
        while (trace->n_known > 0) {
                pid_t pid = trace->known[0].pid;
                int status;
                if (ptrace(PTRACE_DETACH, pid, NULL, NULL) < 0 && ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) >= 0 &&
                        waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status))
                        (void)ptrace(PTRACE_DETACH, pid, NULL, NULL);
                forget(trace, pid);
        }
        free(trace->known);
        trace->known = NULL;
}
