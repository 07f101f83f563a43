/* SPDX-License-Identifier: MIT */

/* Direct birth: into a cgroup, bounded, beside threads and signals, and through the kernel's own bugs. */

#include <pthread.h>
#include <sched.h>
#include <sys/time.h>

#include "boxes.h"
#include "deny.h"
#include "probed.h"
#include "process.h"

static void wait_dead(int pidfd) {
        struct pollfd p = { .fd = pidfd, .events = POLLIN };
        int r;

        while ((r = poll(&p, 1, (int)(PROBE_BOUND_USEC / USEC_PER_MSEC))) < 0 && errno == EINTR)
                continue;
        ck_assert_int_eq(r, 1);
}

/* Its status of waitid(2). */
static int reap(pid_t pid, int pidfd, int *ret_code) {
        siginfo_t info = { 0 };

        wait_dead(pidfd);
        ck_assert_int_eq(waitid(P_PID, (id_t)pid, &info, WEXITED), 0);
        close(pidfd);
        *ret_code = info.si_code;
        return info.si_status;
}

static struct child_plan *plan_true(void) {
        return plan_new("/bin/true", (const char *const[]){ "true", NULL });
}

/* How many births have their memory: by their guard pages, of which libc and sanitizers have a few of their own. */
static size_t count_births(void) {
        _cleanup_free_ char *text = NULL;
        size_t n = 0, page = (size_t)sysconf(_SC_PAGESIZE);
        unsigned long from, to;

        ck_assert_int_eq(read_whole_file_at(AT_FDCWD, "/proc/self/maps", &text, NULL), 0);
        for (const char *line = text; *line; line = strchr(line, '\n') + 1)
                if (sscanf(line, "%lx-%lx ---p", &from, &to) == 2 && to - from == page && strstr(line, " ---p "))
                        n++;
        return n;
}

static size_t count_fds(void) {
        DIR *dir = opendir("/proc/self/fd");
        size_t n = 0;

        ck_assert_ptr_nonnull(dir);
        while (readdir(dir))
                n++;
        closedir(dir);
        return n;
}

/* ---- where it runs ---------------------------------------------------------------------------------------------- */

START_TEST(test_into_cgroup) {
        struct cgroup box = box_new("into");
        struct probed probed = probe_whole(WAY_BORN, plan_new(NULL, (const char *const[]){ "probe", NULL }), box.fd);
        _cleanup_free_ char *line = probed_get(&probed, "0");

        ck_assert_str_eq(line + 1, box.path); /* "0::/path" */
        ck_assert_int_eq(cgroup_is_populated(&box), 0);
        probed_done(&probed);
        cgroup_done(&box);
}
END_TEST

START_TEST(test_without_cgroup) {
        struct probed probed = probe_whole(WAY_BORN, plan_new(NULL, (const char *const[]){ "probe", NULL }), -1);
        _cleanup_free_ char *line = probed_get(&probed, "0"), *here = NULL;

        if (line && cgroup_path_of(0, &here) == 0)
                ck_assert_str_eq(line + 1, here);
        probed_done(&probed);
}
END_TEST

/* ---- what became of it ------------------------------------------------------------------------------------------ */

START_TEST(test_states) {
        struct child_plan *plan = plan_new("/nowhere/x", (const char *const[]){ "x", NULL });
        struct birth *birth;
        enum birth_state state;
        pid_t pid;
        int pidfd, code;

        ck_assert_int_eq(birth_begin(plan, -1, &birth, &pid, &pidfd), 0);
        do
                state = birth_wait(birth, pidfd, 0);
        while (state == BIRTH_PENDING);
        ck_assert_int_eq(state, BIRTH_FAILED);
        ck_assert_int_eq(birth_result(birth)->step, CHILD_EXEC);
        ck_assert_int_eq(birth_result(birth)->error, ENOENT);
        ck_assert_int_eq(birth_result(birth)->reached, 1);
        ck_assert_ptr_null(birth_free(birth));
        ck_assert_int_eq(reap(pid, pidfd, &code), 127);

        /* Asked after its end: that it was the command, all the same. */
        ck_assert_int_eq(birth_begin(plan_true(), -1, &birth, &pid, &pidfd), 0);
        wait_dead(pidfd);
        ck_assert_int_eq(birth_wait(birth, pidfd, 0), BIRTH_EXECED);
        ck_assert_int_eq(birth_wait(birth, pidfd, CGTREE_FOREVER), BIRTH_EXECED);
        birth_free(birth);
        ck_assert_int_eq(reap(pid, pidfd, &code), 0);
        ck_assert_ptr_null(birth_free(NULL));
}
END_TEST

/* The host ignores SIGCHLD: nothing is left to reap, and what became of it is known nevertheless. */
START_TEST(test_host_ignores_sigchld) {
        struct birth *birth;
        pid_t pid;
        int pidfd;

        signal(SIGCHLD, SIG_IGN);
        ck_assert_int_eq(birth_begin(plan_true(), -1, &birth, &pid, &pidfd), 0);
        wait_dead(pidfd);
        ck_assert_int_eq(birth_wait(birth, pidfd, PROBE_BOUND_USEC), BIRTH_EXECED);
        birth_free(birth);
        close(pidfd);

        ck_assert_int_eq(
                birth_begin(plan_new("/nowhere/x", (const char *const[]){ "x", NULL }), -1, &birth, &pid, &pidfd), 0);
        ck_assert_int_eq(birth_wait(birth, pidfd, PROBE_BOUND_USEC), BIRTH_FAILED);
        birth_free(birth);
        close(pidfd);
}
END_TEST

static void is_refused(struct child_plan *plan, int cgroup_fd, int expected, int or_expected) {
        struct birth *birth;
        pid_t pid;
        int pidfd, r = birth_begin(plan, cgroup_fd, &birth, &pid, &pidfd);

        ck_assert_msg(r == expected || r == or_expected, "%d, expected %d", r, expected);
}

START_TEST(test_refusals) {
        struct cgroup box = box_new("refused"), threaded = CGROUP_NONE, invalid = CGROUP_NONE;
        _cleanup_close_ int plain = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct child_plan *plan = plan_true();
        size_t regions = count_births(), fds;

        plan->set_user = true;
        is_refused(plan, -1, -EINVAL, -EINVAL);
        plan->set_user = false;
        is_refused(plan, plain, -EBADF, -EBADF);
        fds = count_fds();
        for (int i = 0; i < 100; i++)
                is_refused(plan, 999, -EBADF, -EBADF);
        ck_assert_uint_eq(count_births(), regions);
        ck_assert_uint_eq(count_fds(), fds);

        ck_assert_int_eq(cgroup_create(&box, "threaded", &threaded), 0);
        ck_assert_int_eq(write_file_at(threaded.fd, "cgroup.type", "threaded"), 0);
        ck_assert_int_eq(cgroup_create(&threaded, "invalid", &invalid), 0);
        is_refused(plan, invalid.fd, -EOPNOTSUPP, -EOPNOTSUPP);
        cgroup_done(&invalid);
        cgroup_done(&threaded);

        ck_assert_int_eq(cgroup_remove(&boxes, "refused", USEC_PER_SEC), 0);
        is_refused(plan, box.fd, -ENODEV, -ENOENT);
        cgroup_done(&box);

        /* The plan is still ours, and as good as before. */
        {
                struct birth *birth;
                pid_t pid;
                int pidfd, code;

                ck_assert_int_eq(birth_begin(plan, -1, &birth, &pid, &pidfd), 0);
                ck_assert_int_eq(birth_wait(birth, pidfd, PROBE_BOUND_USEC), BIRTH_EXECED);
                birth_free(birth);
                ck_assert_int_eq(reap(pid, pidfd, &code), 0);
        }
}
END_TEST

static const int denials[][2] = { { EPERM, -EPERM }, { ENOSYS, -ENOSYS }, { E2BIG, -E2BIG }, { EAGAIN, -EAGAIN },
        { EINVAL, -ENOSYS } }; /* the last: a kernel that does not know a flag */

START_TEST(test_denied) {
        struct child_plan *plan = plan_true();
        size_t regions = count_births();
        sigset_t before, after;

        sigprocmask(SIG_SETMASK, NULL, &before);
        deny_syscall(SYS_clone3, (unsigned)denials[_i][0]);
        is_refused(plan, -1, denials[_i][1], denials[_i][1]);
        sigprocmask(SIG_SETMASK, NULL, &after);
        ck_assert_mem_eq(&before, &after, 8);
        ck_assert_uint_eq(count_births(), regions);
        child_plan_free(plan);
}
END_TEST

/* ---- bounds ----------------------------------------------------------------------------------------------------- */

static void on_signal(int number) {
        (void)number;
}

/* A frozen cgroup: the child does not get to its first instruction. The wait ends at its bound, signals or not; the child
 * does not hang where nothing reaches it, and its memory comes back. */
START_TEST(test_frozen) {
        struct sigaction action = { .sa_handler = on_signal }; /* no SA_RESTART */
        struct itimerval often = { .it_interval.tv_usec = 3000, .it_value.tv_usec = 3000 }, never = { 0 };
        struct cgroup box = box_new("frozen");
        size_t regions, fds;
        uint64_t began;
        struct birth *birth;
        struct process_stat stat;
        pid_t pid;
        int pidfd, code;

        sigaction(SIGALRM, &action, NULL);
        ck_assert_int_eq(cgroup_freeze(&box, true), 0);
        regions = count_births();
        fds = count_fds();
        ck_assert_int_eq(birth_begin(plan_true(), box.fd, &birth, &pid, &pidfd), 0);
        ck_assert_int_eq(birth_wait(birth, pidfd, 0), BIRTH_PENDING);
        setitimer(ITIMER_REAL, &often, NULL);
        began = now_usec();
        ck_assert_int_eq(birth_wait(birth, pidfd, 60 * USEC_PER_MSEC), BIRTH_PENDING);
        ck_assert_uint_ge(now_usec() - began, 60 * USEC_PER_MSEC);
        ck_assert_uint_lt(now_usec() - began, 2 * USEC_PER_SEC);
        setitimer(ITIMER_REAL, &never, NULL);
        ck_assert_int_eq(process_read_stat(pid, &stat), 0);
        ck_assert_int_ne(stat.state, 'D');
        ck_assert_int_eq(birth_result(birth)->reached, 0);

        ck_assert_int_eq(cgroup_kill(&box), 0);
        ck_assert_int_eq(birth_wait(birth, pidfd, PROBE_BOUND_USEC), BIRTH_KILLED);
        birth_free(birth);
        ck_assert_int_eq(reap(pid, pidfd, &code), SIGKILL);
        ck_assert_int_eq(code, CLD_KILLED);
        ck_assert_uint_eq(count_births(), regions);
        ck_assert_uint_eq(count_fds(), fds);
        cgroup_done(&box);
}
END_TEST

struct begun {
        const struct cgroup *box;
        struct child_plan *plan;
        pid_t pid;
        int pidfd;
};

static void *begin_and_go(void *userdata) {
        struct begun *begun = userdata;
        struct birth *birth;

        ck_assert_int_eq(birth_begin(begun->plan, begun->box->fd, &birth, &begun->pid, &begun->pidfd), 0);
        ck_assert_int_eq(birth_wait(birth, begun->pidfd, USEC_PER_MSEC), BIRTH_PENDING);
        ck_assert_ptr_null(birth_take_plan(birth));
        birth_free(birth);
        return NULL;
}

static struct child_plan
        *volatile kept_aside; /* by design; leak checkers look here and not into the memory of a birth */

/* Given up, and the thread that began it is gone with its stack and TLS: what the child uses is still there when it goes
 * on. */
START_TEST(test_given_up) {
        struct cgroup box = box_new("given-up");
        struct begun begun = { .box = &box };
        pthread_attr_t attributes;
        pthread_t thread;
        size_t size = 1 << 20;
        char *stack = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        struct probed probed = { .report_fd = (int)syscall(SYS_memfd_create, "report", 1 /* MFD_CLOEXEC */) };
        int code;

        ck_assert_ptr_ne(stack, MAP_FAILED);
        begun.plan = plan_new(NULL, (const char *const[]){ "probe", "exit", "7", NULL });
        kept_aside = begun.plan;
        plan_fd(begun.plan, PROBE_REPORT, probed.report_fd);
        ck_assert_int_eq(cgroup_freeze(&box, true), 0);
        pthread_attr_init(&attributes);
        ck_assert_int_eq(pthread_attr_setstack(&attributes, stack, size), 0);
        ck_assert_int_eq(pthread_create(&thread, &attributes, begin_and_go, &begun), 0);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
        pthread_attr_destroy(&attributes);
        munmap(stack, size); /* its TLS was at the upper end of it */

        ck_assert_int_eq(cgroup_freeze(&box, false), 0);
        probed.pid = begun.pid;
        probed.pidfd = begun.pidfd;
        ck_assert_int_eq(probe_end(&probed, &code), 7);
        ck_assert_int_eq(code, CLD_EXITED);
        probed_is(&probed, "complete", "yes");
        probed_done(&probed);
        cgroup_done(&box);
}
END_TEST

/* ---- bug B2: a cgroup that was killed once kills what is born into it ---------------------------------------------- */

START_TEST(test_killed_cgroup) {
        struct cgroup box = box_new("killed"), fresh = box_new("fresh");
        struct child_plan *plan;
        struct birth *birth;
        enum birth_state state;
        pid_t pid;
        int pidfd, code, status;

        ck_assert_int_eq(cgroup_kill(&box), 0);
        ck_assert_int_eq(birth_begin(plan_true(), box.fd, &birth, &pid, &pidfd), 0);
        state = birth_wait(birth, pidfd, PROBE_BOUND_USEC);
        status = reap(pid, pidfd, &code);
        if (state == BIRTH_KILLED) {
                ck_assert_int_eq(birth_result(birth)->reached, 0);
                ck_assert_int_eq(code, CLD_KILLED);
                ck_assert_int_eq(status, SIGKILL);
        } else { /* a kernel that has it mended */
                ck_assert_int_eq(state, BIRTH_EXECED);
                ck_assert_int_eq(code, CLD_EXITED);
                ck_assert_int_eq(status, 0);
        }
        plan = birth_take_plan(birth);
        ck_assert_ptr_nonnull(plan);
        birth_free(birth);

        /* The same once more, elsewhere. */
        ck_assert_int_eq(birth_begin(plan, fresh.fd, &birth, &pid, &pidfd), 0);
        ck_assert_int_eq(birth_wait(birth, pidfd, PROBE_BOUND_USEC), BIRTH_EXECED);
        birth_free(birth);
        ck_assert_int_eq(reap(pid, pidfd, &code), 0);
        ck_assert_int_eq(code, CLD_EXITED);
        cgroup_done(&box);
        cgroup_done(&fresh);
}
END_TEST

/* ---- many at once ----------------------------------------------------------------------------------------------- */

#define N_THREADS 8
#define N_BIRTHS  25

static pid_t host;
static int handled_in_host, handled_elsewhere, over; /* atomic */

static void on_bombardment(int number) {
        (void)number;
        /* Elsewhere: seen by the host, the memory is the same. */
        __atomic_store_n(syscall(SYS_getpid) == host ? &handled_in_host : &handled_elsewhere, 1, __ATOMIC_RELAXED);
}

static void *bombard(void *userdata) {
        (void)userdata;
        while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
                kill(0, SIGUSR1); /* the host, its threads in turn, and every child */
                sched_yield();
        }
        return NULL;
}

static void *give_birth(void *userdata) {
        const struct cgroup *box = userdata;

        for (int i = 0; i < N_BIRTHS; i++) {
                struct birth *birth;
                pid_t pid;
                int pidfd, code, status;

                ck_assert_int_eq(birth_begin(plan_true(), box ? box->fd : -1, &birth, &pid, &pidfd), 0);
                ck_assert_int_eq(birth_wait(birth, pidfd, PROBE_BOUND_USEC), BIRTH_EXECED);
                ck_assert_int_eq(birth_result(birth)->step, CHILD_OK);
                birth_free(birth);
                status = reap(pid, pidfd, &code);
                ck_assert_msg((code == CLD_EXITED && status == 0) || (code == CLD_KILLED && status == SIGUSR1),
                        "code %d, status %d", code, status);
        }
        return NULL;
}

/* In a process group of its own: the signals go to all of it. */
static void be_bombarded(const struct cgroup *box) {
        struct sigaction action = { .sa_handler = on_bombardment, .sa_flags = SA_RESTART };
        pthread_t threads[N_THREADS], bomber;
        size_t fds = count_fds();

        host = getpid();
        setpgid(0, 0);
        sigaction(SIGUSR1, &action, NULL);
        ck_assert_int_eq(pthread_create(&bomber, NULL, bombard, NULL), 0);
        for (int i = 0; i < N_THREADS; i++)
                ck_assert_int_eq(pthread_create(&threads[i], NULL, give_birth, (void *)(uintptr_t)box), 0);
        for (int i = 0; i < N_THREADS; i++)
                pthread_join(threads[i], NULL);
        __atomic_store_n(&over, 1, __ATOMIC_RELAXED);
        pthread_join(bomber, NULL);
        ck_assert(__atomic_load_n(&handled_in_host, __ATOMIC_RELAXED));
        ck_assert(!handled_elsewhere);
        ck_assert_uint_eq(count_fds(), fds);
        ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1); /* none is left */
}

/* 0: where we are; 1: all into one cgroup. */
START_TEST(test_threads) {
        struct cgroup box = CGROUP_NONE;
        int status;
        pid_t pid;

        if (_i == 1) {
                if (boxes.fd < 0)
                        return;
                box = box_new("threads");
        }
        pid = fork();
        if (pid == 0) {
                be_bombarded(_i == 1 ? &box : NULL);
                _exit(0);
        }
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_int_eq(status, 0);
        cgroup_done(&box);
}
END_TEST

START_TEST(test_nothing_grows) {
        size_t regions = 0, fds = 0;
        struct birth *birth;
        pid_t pid;
        int pidfd, code;

        for (int i = 0; i < 200; i++) {
                bool exists = i % 2 == 0;
                struct child_plan *plan =
                        exists ? plan_true() : plan_new("/nowhere/x", (const char *const[]){ "x", NULL });

                ck_assert_int_eq(birth_begin(plan, -1, &birth, &pid, &pidfd), 0);
                ck_assert_int_eq(birth_wait(birth, pidfd, PROBE_BOUND_USEC), exists ? BIRTH_EXECED : BIRTH_FAILED);
                birth_free(birth);
                ck_assert_int_eq(reap(pid, pidfd, &code), exists ? 0 : 127);
                if (i == 20) {
                        regions = count_births();
                        fds = count_fds();
                }
        }
        ck_assert_uint_eq(count_births(), regions);
        ck_assert_uint_eq(count_fds(), fds);
}
END_TEST

/* ---- without clone3 --------------------------------------------------------------------------------------------- */

START_TEST(test_not_to_be_had) {
        struct birth *birth;
        pid_t pid;
        int pidfd;
        size_t regions = count_births();
        struct child_plan *plan = plan_true();

        ck_assert_int_eq(birth_begin(plan, -1, &birth, &pid, &pidfd), -ENOSYS);
        child_plan_free(plan);
        ck_assert_uint_eq(count_births(), regions);
}
END_TEST

int main(void) {
        Suite *suite = suite_create("spawn");
        TCase *tcase = tcase_create("birth");
        SRunner *runner;
        int failed;

        probe_setup();
        tcase_set_timeout(tcase, 60);
        suite_add_tcase(suite, tcase);
        if (!born)
                tcase_add_test(tcase, test_not_to_be_had);
        else {
                tcase_add_test(tcase, test_without_cgroup);
                tcase_add_test(tcase, test_states);
                tcase_add_test(tcase, test_host_ignores_sigchld);
                tcase_add_test(tcase, test_nothing_grows);
                tcase_add_loop_test(tcase, test_threads, 0, 2);
                tcase_add_loop_test(tcase, test_denied, 0, sizeof(denials) / sizeof(denials[0]));
                if (boxes_make("spawn")) {
                        tcase_add_test(tcase, test_into_cgroup);
                        tcase_add_test(tcase, test_refusals);
                        tcase_add_test(tcase, test_frozen);
                        tcase_add_test(tcase, test_given_up);
                        tcase_add_test(tcase, test_killed_cgroup);
                }
        }
        runner = srunner_create(suite);
        srunner_run_all(runner, CK_NORMAL);
        failed = srunner_ntests_failed(runner);
        srunner_free(runner);
        boxes_remove();
        return failed > 0;
}
