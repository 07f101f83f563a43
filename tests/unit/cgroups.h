/* SPDX-License-Identifier: MIT */
#pragma once

/* Real cgroups for tests, below our own: made by the program, and removed with all that lives there when it ends, however
 * that is (a janitor sees to it if it was killed). */

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cgroup.h"

static struct cgroup cgroups_own = CGROUP_NONE, cgroups_base = CGROUP_NONE;
static char cgroups_name[48];
static pid_t cgroups_janitor;

/* Linux 5.14. */
static inline bool cgroups_have_kill(void) {
        return faccessat(cgroups_base.fd, "cgroup.kill", F_OK, 0) == 0;
}

/* SIGKILL to all that is there, by other means than those under test. */
static inline void cgroups_strike(const struct cgroup *cgroup) {
        _cleanup_free_ pid_t *pids = NULL;
        size_t n = 0;

        (void)write_file_at(cgroup->fd, "cgroup.kill", "1");
        (void)cgroup_members(cgroup, &pids, &n, NULL);
        for (size_t i = 0; i < n; i++)
                kill(pids[i], SIGKILL);
}

/* Also what is broken leaves nothing behind. */
static inline bool cgroups_wipe(void) {
        uint64_t deadline = now_usec() + 20 * USEC_PER_SEC;

        while (cgroup_is_populated(&cgroups_base) == 1 && now_usec() < deadline) {
                cgroups_strike(&cgroups_base);
                usleep(1000);
        }
        return cgroup_remove(&cgroups_own, cgroups_name, USEC_PER_SEC) == 0;
}

static inline void cgroups_watch_parent(void) {
        sigset_t set;
        int signal;

        setsid();
        sigemptyset(&set);
        sigaddset(&set, SIGUSR1);
        sigprocmask(SIG_BLOCK, &set, NULL);
        prctl(PR_SET_PDEATHSIG, SIGUSR1);
        sigwait(&set, &signal);
        cgroups_wipe();
        _exit(0);
}

/* Processes can be put there? */
static inline int cgroups_try_join(void) {
        int status;
        pid_t pid = fork();

        if (pid == 0)
                _exit(-write_file_at(cgroups_base.fd, "cgroup.procs", "0"));
        if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
                return -ECHILD;
        return -WEXITSTATUS(status);
}

/* False: not possible here, and said why. */
static inline bool cgroups_make(void) {
        _cleanup_free_ char *own = NULL;
        int r = cgroup_path_of(0, &own);

        snprintf(cgroups_name, sizeof(cgroups_name), "cgtree-test-%d", (int)getpid());
        if (r >= 0)
                r = cgroup_open(own, &cgroups_own);
        if (r >= 0)
                r = cgroup_create(&cgroups_own, cgroups_name, &cgroups_base);
        if (r >= 0) {
                r = cgroups_try_join();
                if (r < 0)
                        cgroups_wipe();
        }
        if (r < 0) {
                printf("skipped: no cgroup v2 below our own that we could use: %s\n", strerror(-r));
                return false;
        }
        prctl(PR_SET_CHILD_SUBREAPER, 1); /* orphans of tests end as our zombies, not as somebody's who does not reap */
        cgroups_janitor = fork();
        if (cgroups_janitor == 0)
                cgroups_watch_parent();
        return true;
}

static inline bool cgroups_remove(void) {
        bool clean = cgroups_wipe();

        if (!clean)
                printf("left behind: %s\n", cgroups_base.path);
        kill(cgroups_janitor, SIGKILL);
        waitpid(cgroups_janitor, NULL, 0);
        while (waitpid(-1, NULL, WNOHANG) > 0)
                ;
        cgroup_done(&cgroups_base);
        cgroup_done(&cgroups_own);
        return clean;
}

/* The whole of main(): 77 where there are no cgroups to be had. */
static inline int cgroups_run(Suite *suite) {
        SRunner *runner = srunner_create(suite);
        bool clean = true;
        int status = 77;

        if (cgroups_make()) {
                srunner_run_all(runner, CK_NORMAL);
                clean = cgroups_remove();
                status = srunner_ntests_failed(runner) == 0 && clean ? 0 : 1;
        }
        srunner_free(runner);
        return status;
}

/* One for the test that runs, of a name not used before in this program. */
static inline struct cgroup cgroups_new(const char *name) {
        struct cgroup cgroup = CGROUP_NONE;
        char full[64];

        snprintf(full, sizeof(full), "%s-%d", name, (int)getpid());
        ck_assert_int_eq(cgroup_create(&cgroups_base, full, &cgroup), 0);
        return cgroup;
}

static inline struct cgroup cgroups_child(const struct cgroup *parent, const char *name) {
        struct cgroup cgroup = CGROUP_NONE;

        ck_assert_int_eq(cgroup_create(parent, name, &cgroup), 0);
        return cgroup;
}

/* A process in a cgroup, and what it says: its end of file is the kernel's word that it, and all its children, are gone. */
struct payload {
        pid_t pid;
        int from;
};

typedef void (*payload_fn)(int out);

static inline void payload_say(int out, char byte) {
        if (write(out, &byte, 1) != 1)
                _exit(99);
}

static inline char payload_hear(const struct payload *payload) {
        char byte = 0;

        ck_assert_int_eq(read(payload->from, &byte, 1), 1);
        return byte;
}

static inline void payload_await_eof(const struct payload *payload) {
        char byte;

        while (read(payload->from, &byte, 1) > 0)
                ;
}

/* Check's own handlers would end the test. */
static inline void payload_reset_signals(void) {
        for (int signal_number = 1; signal_number < NSIG; signal_number++)
                signal(signal_number, SIG_DFL);
}

/* Returns once it has said 'r'. */
static inline struct payload payload_start(const struct cgroup *cgroup, payload_fn fn) {
        struct payload payload;
        int fds[2];

        ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
        payload.pid = fork();
        ck_assert_int_ge(payload.pid, 0);
        if (payload.pid == 0) {
                close(fds[0]);
                payload_reset_signals();
                if (write_file_at(cgroup->fd, "cgroup.procs", "0") < 0)
                        _exit(98);
                fn(fds[1]);
                for (;;)
                        pause();
        }
        close(fds[1]);
        payload.from = fds[0];
        ck_assert_int_eq(payload_hear(&payload), 'r');
        return payload;
}

static inline void payload_obedient(int out) {
        payload_say(out, 'r');
}

static inline void payload_ignore_term(int out) {
        signal(SIGTERM, SIG_IGN);
        payload_say(out, 'r');
}

static int payload_out;

static inline void *payload_speak_when_alone(void *unused) {
        char line[512] = "";

        (void)unused;
        while (!strstr(line, ") Z ")) {
                sched_yield();
                if (read_file_at(AT_FDCWD, "/proc/self/stat", line, sizeof(line)) < 0)
                        _exit(99);
        }
        payload_say(payload_out, 'r');
        for (;;)
                pause();
        return NULL;
}

/* Its main thread has exited, another lives on. */
static inline void payload_lose_main_thread(int out) {
        pthread_t thread;

        payload_out = out;
        signal(SIGTERM, SIG_IGN);
        if (pthread_create(&thread, NULL, payload_speak_when_alone, NULL) != 0)
                _exit(99);
        syscall(SYS_exit, 0);
}
