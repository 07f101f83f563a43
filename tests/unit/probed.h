/* SPDX-License-Identifier: MIT */
#pragma once

/* Runs the probe (probe.c) by one of the ways into a child, and reads what it says that it was given. */

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "gate.h"
#include "probe.h"
#include "spawn.h"

#define PROBE_BOUND_USEC (20 * USEC_PER_SEC) /* far above what it takes, also under valgrind on a busy machine */

enum way {
        WAY_FORKED, /* child_run() in a forked child */
        WAY_BORN,   /* spawn.c */
        WAY_GATED,  /* gate.c */
        _WAY_MAX,
};

struct probed {
        pid_t pid;
        int pidfd;
        struct child_result result; /* step CHILD_OK: it has exec'd */
        int report_fd;
        char *report;
};

/* NAME beside the running test. */
static inline char *probe_path(const char *name) {
        char self[4096];
        ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

        if (n < 0)
                abort();
        self[n] = '\0';
        strrchr(self, '/')[1] = '\0';
        return format("%s%s", self, name);
}

/* The plan to run `executable` (NULL: the probe) with these arguments; nothing else is asked for. */
static inline struct child_plan *plan_new(const char *executable, const char *const argv[]) {
        struct child_plan *plan = calloc(1, sizeof(*plan));

        ck_assert_ptr_nonnull(plan);
        plan->argv = strv_copy(argv);
        plan->envp = strv_copy((const char *const[]){ "A=b c", "EMPTY=", "odd", NULL });
        plan->executables = calloc(2, sizeof(char *));
        plan->executables[0] = executable ? strdup(executable) : probe_path("probe");
        plan->directory_fd = AT_FDCWD;
        plan->fds = calloc(1, sizeof(*plan->fds));
        return plan;
}

static inline void plan_fd(struct child_plan *plan, int target, int source) {
        plan->fds = reallocarray(plan->fds, plan->n_fds + 1, sizeof(*plan->fds));
        ck_assert_ptr_nonnull(plan->fds);
        plan->fds[plan->n_fds++] = (struct child_fd){ .target = target, .source = source };
}

/* False where clone3 is not to be had, as under valgrind: then direct birth has to say ENOSYS. */
static inline bool can_be_born(void) {
        struct child_plan *plan = calloc(1, sizeof(*plan));
        struct birth *birth = NULL;
        int r, pidfd = -1;
        pid_t pid;

        plan->directory_fd = AT_FDCWD;
        plan->argv = strv_copy((const char *const[]){ "nothing", NULL });
        plan->envp = strv_copy((const char *const[]){ NULL });
        plan->executables = strv_copy((const char *const[]){ "/nowhere/nothing", NULL });
        r = birth_begin(plan, -1, &birth, &pid, &pidfd);
        if (r == -ENOSYS) {
                child_plan_free(plan);
                return false;
        }
        if (r < 0 || birth_wait(birth, pidfd, PROBE_BOUND_USEC) != BIRTH_FAILED || waitpid(pid, NULL, 0) != pid)
                abort();
        birth_free(birth);
        close(pidfd);
        return true;
}

static bool born; /* clone3 is to be had here */

/* For main(), where check does not take assertions yet. The stubs are two folders further, in tools. */
static inline void probe_setup(void) {
        _cleanup_free_ char *libexec = probe_path("../../tools");

        setenv("CGTREE_LIBEXEC", libexec, 0);
        born = can_be_born();
}

/* ---- the ways ------------------------------------------------------------------------------------------------- */

static inline void wait_forked(struct child_plan *plan, struct probed *probed) {
        struct child_result *result =
                mmap(NULL, sizeof(*result), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        siginfo_t info;
        int ends[2];
        char byte;

        ck_assert_ptr_ne(result, MAP_FAILED);
        ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0); /* its end of file is the exec, or the end */
        probed->pid = fork();
        ck_assert_int_ge(probed->pid, 0);
        if (probed->pid == 0) {
                sigset_t all;

                sigfillset(&all);
                sigprocmask(SIG_SETMASK, &all, NULL);
                close(ends[0]);
                child_run(plan, result);
                _exit(127);
        }
        probed->pidfd = (int)syscall(SYS_pidfd_open, probed->pid, 0);
        close(ends[1]);
        while (read(ends[0], &byte, 1) > 0 || errno == EINTR)
                errno = 0;
        close(ends[0]);
        if (result->step != CHILD_OK) /* what it wrote is there when it is dead */
                waitid(P_PID, (id_t)probed->pid, &info, WEXITED | WNOWAIT);
        probed->result = *result;
        munmap(result, sizeof(*result));
        child_plan_free(plan);
}

static inline void wait_born(struct child_plan *plan, int cgroup_fd, struct probed *probed) {
        struct birth *birth;
        enum birth_state state;

        ck_assert_int_eq(birth_begin(plan, cgroup_fd, &birth, &probed->pid, &probed->pidfd), 0);
        ck_assert_int_eq(fcntl(probed->pidfd, F_GETFD), FD_CLOEXEC);
        state = birth_wait(birth, probed->pidfd, PROBE_BOUND_USEC);
        probed->result = *birth_result(birth);
        ck_assert_int_eq(state, probed->result.step == CHILD_OK ? BIRTH_EXECED : BIRTH_FAILED);
        birth_free(birth);
}

/* One message, or the error of gate_receive(). */
static inline int gate_await(const struct gate *gate, struct gate_message *ret_message) {
        struct pollfd socket = { .fd = gate->socket, .events = POLLIN };
        int r;

        while ((r = poll(&socket, 1, (int)(PROBE_BOUND_USEC / USEC_PER_MSEC))) < 0 && errno == EINTR)
                continue;
        ck_assert_int_eq(r, 1);
        return gate_receive(gate, ret_message, NULL);
}

static inline void wait_gated(struct child_plan *plan, int cgroup_fd, struct probed *probed) {
        struct gate_message message = { .type = GATE_GO };
        struct gate gate = GATE_NONE;
        int r;

        ck_assert_int_eq(gate_start(plan, cgroup_fd, &gate), 0);
        child_plan_free(plan);
        ck_assert_int_eq(fcntl(gate.pidfd, F_GETFD), FD_CLOEXEC);
        ck_assert_int_eq(gate_send(&gate, &message), 0);
        r = gate_await(&gate, &message);
        if (r >= 0) {
                ck_assert_int_eq(message.type, GATE_FAILED);
                probed->result.step = message.step;
                probed->result.error = message.error;
                r = gate_await(&gate, &message);
        }
        ck_assert_int_eq(r, -ECONNRESET);
        probed->pid = gate.pid;
        probed->pidfd = take_fd(&gate.pidfd);
        gate_done(&gate);
}

/* Takes the plan over. The report goes to a file without a name. */
static inline struct probed probe_start(enum way way, struct child_plan *plan, int cgroup_fd) {
        struct probed probed = { .pidfd = -1 };

        probed.report_fd = (int)syscall(SYS_memfd_create, "report", 1 /* MFD_CLOEXEC */);
        ck_assert_int_ge(probed.report_fd, 0);
        plan_fd(plan, PROBE_REPORT, probed.report_fd);
        switch (way) {
        case WAY_FORKED: wait_forked(plan, &probed); break;
        case WAY_BORN: wait_born(plan, cgroup_fd, &probed); break;
        case WAY_GATED: wait_gated(plan, cgroup_fd, &probed); break;
        case _WAY_MAX: ck_abort();
        }
        return probed;
}

/* ---- what it says --------------------------------------------------------------------------------------------- */

/* Waits for its end and reads the report. Returns the status of waitid(2), code in *ret_code. */
static inline int probe_end(struct probed *probed, int *ret_code) {
        siginfo_t info = { 0 };
        off_t size;

        while (waitid(P_PID, (id_t)probed->pid, &info, WEXITED) < 0)
                ck_assert_int_eq(errno, EINTR);
        close(probed->pidfd);
        size = lseek(probed->report_fd, 0, SEEK_END);
        probed->report = calloc(1, (size_t)size + 1);
        ck_assert_int_eq(pread(probed->report_fd, probed->report, (size_t)size, 0), size);
        close(probed->report_fd);
        if (ret_code)
                *ret_code = info.si_code;
        return info.si_status;
}

static inline void probed_done(struct probed *probed) {
        free(probed->report);
        probed->report = NULL;
}

/* The value of the first line with that key; malloc'd, NULL: there is none. */
static inline char *probed_get(const struct probed *probed, const char *key) {
        size_t length = strlen(key);

        for (const char *line = probed->report; *line; line = strchr(line, '\n') + 1)
                if (strncmp(line, key, length) == 0 && line[length] == ':') {
                        const char *value = line + length + 1 + strspn(line + length + 1, " \t");

                        return strndup(value, strcspn(value, "\n"));
                }
        return NULL;
}

static inline void probed_is(const struct probed *probed, const char *key, const char *expected) {
        _cleanup_free_ char *value = probed_get(probed, key);

        if (!expected)
                ck_assert_msg(!value, "%s: %s, but is not to be there", key, value);
        else
                ck_assert_msg(value && strcmp(value, expected) == 0, "%s: %s, expected %s", key, value, expected);
}

static inline long probed_number(const struct probed *probed, const char *key, int base) {
        _cleanup_free_ char *value = probed_get(probed, key);

        ck_assert_msg(value, "no %s", key);
        return (long)strtoull(value, NULL, base);
}

/* Runs it to its end; it has to have got there. */
static inline struct probed probe_whole(enum way way, struct child_plan *plan, int cgroup_fd) {
        struct probed probed = probe_start(way, plan, cgroup_fd);
        int code, status;

        ck_assert_msg(probed.result.step == CHILD_OK, "could not %s: %s", child_step_to_string(probed.result.step),
                strerror(probed.result.error));
        status = probe_end(&probed, &code);
        ck_assert_int_eq(code, CLD_EXITED);
        ck_assert_int_eq(status, 0);
        probed_is(&probed, "complete", "yes");
        return probed;
}

/* Fails as expected, and is dead. */
static inline void probe_fails(enum way way, struct child_plan *plan, int cgroup_fd, int step, int error) {
        struct probed probed = probe_start(way, plan, cgroup_fd);

        ck_assert_str_eq(child_step_to_string(probed.result.step), child_step_to_string(step));
        ck_assert_str_eq(strerror(probed.result.error), strerror(error));
        probe_end(&probed, NULL);
        ck_assert_str_eq(probed.report, "");
        probed_done(&probed);
}

/* ---- tests of every way -----------------------------------------------------------------------------------------*/

/* Every test of a way; nothing to test where it does not exist. */
#define TEST_EACH_WAY(name)                                                                                            \
        static void name##_by(enum way way);                                                                           \
        START_TEST(name) {                                                                                             \
                if (_i != WAY_BORN || born)                                                                            \
                        name##_by((enum way)_i);                                                                       \
        }                                                                                                              \
        END_TEST                                                                                                       \
        static void name##_by(enum way way)

static inline struct child_plan *probe_plan(void) {
        return plan_new(NULL, (const char *const[]){ "the probe", NULL });
}

/* The probe's descriptor `target` is what `fd` is here; -1: it has none of that number. */
static inline void fd_is(const struct probed *probed, int target, int fd) {
        _cleanup_free_ char *key = format("fd%d", target), *expected = NULL;
        struct stat st;

        if (fd >= 0) {
                ck_assert_int_eq(fstat(fd, &st), 0);
                expected = format("%lx:%lx %d", (unsigned long)st.st_dev, (unsigned long)st.st_ino,
                        fcntl(fd, F_GETFL) & O_ACCMODE);
        }
        probed_is(probed, key, expected);
}

static inline int new_file(void) {
        int fd = (int)syscall(SYS_memfd_create, "x", 1 /* MFD_CLOEXEC */);

        ck_assert_int_ge(fd, 3);
        return fd;
}

/* The same under a number of choice. */
static inline int new_file_at(int number) {
        int fd = new_file();

        if (fd != number) {
                ck_assert_int_eq(dup3(fd, number, O_CLOEXEC), number);
                close(fd);
        }
        return number;
}

static inline void add_each_way(Suite *suite, const char *name, const TTest *const tests[]) {
        TCase *tcase = tcase_create(name);

        tcase_set_timeout(tcase, 60);
        for (size_t i = 0; tests[i]; i++)
                tcase_add_loop_test(tcase, tests[i], 0, _WAY_MAX);
        suite_add_tcase(suite, tcase);
}
