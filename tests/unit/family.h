/* SPDX-License-Identifier: MIT */
#pragma once

/* Families of processes that are hard to find or to end (family.c), and the reaper above one. */

#define FAMILY_LIFE  3
#define FAMILY_LEASH 4

#ifdef FAMILY_TEST
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gate.h"

#define FAMILY_BOUND_MSEC 45000 /* far above what it takes, also under valgrind on a busy machine */

struct family {
        struct gate gate;
        int life; /* end of file: no member is left */
        pid_t root;
        int root_pidfd;
};

/* NAME relative to the running test's folder. */
static inline char *family_path(const char *name) {
        char self[PATH_MAX];
        ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

        ck_assert_int_gt(n, 0);
        self[n] = '\0';
        strrchr(self, '/')[1] = '\0';
        return format("%s%s", self, name);
}

/* Not before Linux 5.3, nor under valgrind. */
static inline bool family_can_be_pinned(void) {
        _cleanup_close_ int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);

        if (fd < 0)
                printf("skipped: there is no pidfd_open\n");
        return fd >= 0;
}

static inline void family_setup(void) {
        _cleanup_free_ char *libexec = family_path("../../tools");

        setenv("CGTREE_LIBEXEC", libexec, 0);
        signal(SIGPIPE, SIG_IGN);
}

/* The plan to run `family MODE...`, and in *ret_life the end of the pipe whose other end every member holds. */
static inline struct child_plan *family_plan(const char *const modes[], const char *lineage, int *ret_life) {
        struct child_plan *plan = calloc(1, sizeof(*plan));
        size_t n = strv_length(modes);
        int life[2];

        ck_assert_int_eq(pipe2(life, O_CLOEXEC), 0);
        *ret_life = life[0];
        plan->argv = calloc(n + 2, sizeof(char *));
        plan->argv[0] = strdup("family");
        for (size_t i = 0; i < n; i++)
                plan->argv[i + 1] = strdup(modes[i]);
        plan->envp = calloc(2, sizeof(char *));
        plan->envp[0] = format("CGTREE_ID=%s", lineage);
        plan->executables = calloc(2, sizeof(char *));
        plan->executables[0] = family_path("family");
        plan->directory_fd = AT_FDCWD;
        plan->fds = calloc(4, sizeof(*plan->fds));
        for (int target = 0; target < 3; target++)
                plan->fds[plan->n_fds++] = (struct child_fd){ .target = target, .source = CGTREE_FD_NULL };
        plan->fds[plan->n_fds++] = (struct child_fd){ .target = FAMILY_LIFE, .source = life[1] };
        return plan;
}

/* The next message of the reaper; an error of gate_receive(). */
static inline int family_hear(const struct family *family, struct gate_message *ret_message, int *ret_fd) {
        struct pollfd socket = { .fd = family->gate.socket, .events = POLLIN };

        ck_assert_int_eq(poll(&socket, 1, FAMILY_BOUND_MSEC), 1);
        return gate_receive(&family->gate, ret_message, ret_fd);
}

/* Hears what is expected next, and nothing else. */
static inline struct gate_message family_expect(const struct family *family, enum gate_message_type type) {
        struct gate_message message;

        ck_assert_int_eq(family_hear(family, &message, NULL), 0);
        ck_assert_int_eq(message.type, type);
        return message;
}

static inline void family_send(const struct family *family, struct gate_message message) {
        ck_assert_int_eq(gate_send(&family->gate, &message), 0);
}

/* The same without a reaper, as our child. All of it ends by itself at the end of file of *ret_leash, unless it is
 * stopped. */
static inline pid_t family_run_with(const char *const modes[], const char *lineage, int *ret_life, int *ret_leash) {
        struct child_plan *plan = family_plan(modes, lineage, ret_life);
        int leash[2], life = plan->fds[plan->n_fds - 1].source;
        pid_t pid;

        ck_assert_int_eq(pipe2(leash, O_CLOEXEC), 0);
        pid = fork();
        ck_assert_int_ge(pid, 0);
        if (pid == 0) {
                int from_life = fcntl(life, F_DUPFD_CLOEXEC, 10), from_leash = fcntl(leash[0], F_DUPFD_CLOEXEC, 10);

                signal(SIGTERM, SIG_DFL); /* check has a handler */
                dup2(from_life, FAMILY_LIFE);
                dup2(from_leash, FAMILY_LEASH);
                execve(plan->executables[0], plan->argv, plan->envp);
                _exit(127);
        }
        close(life);
        close(leash[0]);
        *ret_leash = leash[1];
        child_plan_free(plan);
        return pid;
}

static inline pid_t family_run(const char *const modes[], int *ret_life, int *ret_leash) {
        return family_run_with(modes, "", ret_life, ret_leash);
}

/* Takes the plan over. The root waits at its gate. */
static inline struct family family_place(struct child_plan *plan, int life) {
        struct family family = { .gate = GATE_NONE, .life = life, .root_pidfd = -1 };
        struct gate_message message;
        int our_end = plan->fds[plan->n_fds - 1].source;

        ck_assert_int_eq(reaper_start(plan, &family.gate), 0);
        close(our_end);
        child_plan_free(plan);
        ck_assert_int_eq(family_hear(&family, &message, &family.root_pidfd), 0);
        ck_assert_int_eq(message.type, GATE_READY);
        ck_assert_int_gt(message.pid, 1);
        ck_assert_int_ge(family.root_pidfd, 0);
        family.root = message.pid;
        return family;
}

/* Reads the word of the family: "ready". */
static inline void family_await_word(int fd) {
        struct pollfd life = { .fd = fd, .events = POLLIN };
        char word[256];
        ssize_t n;

        ck_assert_int_eq(poll(&life, 1, FAMILY_BOUND_MSEC), 1);
        n = read(fd, word, sizeof(word) - 1);
        ck_assert_int_ge(n, 0);
        word[n] = '\0';
        ck_assert_str_eq(word, "ready\n");
}

static inline struct family family_start(const char *const modes[], enum cgtree_session session, const char *lineage) {
        int life;
        struct child_plan *plan = family_plan(modes, lineage, &life);
        struct family family;

        plan->session = session;
        family = family_place(plan, life);
        family_send(&family, (struct gate_message){ .type = GATE_GO });
        family_expect(&family, GATE_STARTED);
        family_await_word(family.life);
        return family;
}
#define FAMILY(...) ((const char *const[]){ __VA_ARGS__, NULL })

/* Waits until no member is left; the kernel's word for it. */
static inline void life_await_end(int fd) {
        struct pollfd life = { .fd = fd, .events = POLLIN };
        char rest[256];
        ssize_t n;

        do {
                ck_assert_int_eq(poll(&life, 1, FAMILY_BOUND_MSEC), 1);
                n = read(fd, rest, sizeof(rest));
        } while (n > 0);
        ck_assert_int_eq(n, 0);
}

static inline bool life_goes_on(int fd) {
        struct pollfd life = { .fd = fd, .events = POLLIN };

        return poll(&life, 1, 0) == 0;
}

static inline void family_await_end(const struct family *family) {
        life_await_end(family->life);
}

static inline bool family_lives(const struct family *family) {
        return life_goes_on(family->life);
}

/* Reaps the reaper; its code and status as waitid(2). */
static inline int family_reap(struct family *family, int *ret_code) {
        siginfo_t info = { 0 };

        while (waitid(P_PIDFD, (id_t)family->gate.pidfd, &info, WEXITED) < 0)
                ck_assert_int_eq(errno, EINTR);
        if (ret_code)
                *ret_code = info.si_code;
        return info.si_status;
}

static inline void family_done(struct family *family) {
        gate_done(&family->gate);
        close_fd(&family->life);
        close_fd(&family->root_pidfd);
}

/* It says that it is empty, it is, and exits with 0. */
static inline void family_expect_empty(struct family *family) {
        int code;

        family_expect(family, GATE_EMPTY);
        ck_assert(!family_lives(family));
        ck_assert_int_eq(family_reap(family, &code), 0);
        ck_assert_int_eq(code, CLD_EXITED);
        family_done(family);
}
#endif
