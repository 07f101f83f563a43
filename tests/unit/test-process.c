/* SPDX-License-Identifier: MIT */
#include "process.h"

#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "deny.h"

/* A child that has said one byte; it dies with us. */
static pid_t start_child(void (*fn)(int ready)) {
        int fds[2];
        char byte;
        pid_t pid;

        ck_assert_int_eq(pipe(fds), 0);
        pid = fork();
        ck_assert_int_ge(pid, 0);
        if (pid == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                close(fds[0]);
                fn(fds[1]);
                for (;;)
                        pause();
        }
        close(fds[1]);
        ck_assert_int_eq(read(fds[0], &byte, 1), 1);
        close(fds[0]);
        return pid;
}

static void say_ready(int ready) {
        if (write(ready, "r", 1) != 1)
                _exit(99);
}

static void say_and_exit(int ready) {
        say_ready(ready);
        _exit(7);
}

static void *say_once_alone(void *fd) {
        struct process_stat stat;

        while (process_read_stat(getpid(), &stat) < 0 || stat.state != 'Z')
                sched_yield();
        say_ready(*(int *)fd);
        for (;;)
                pause();
        return NULL;
}

static void lose_main_thread(int ready) {
        static int fd;
        pthread_t thread;

        fd = ready;
        signal(SIGTERM, SIG_IGN);
        if (pthread_create(&thread, NULL, say_once_alone, &fd) != 0)
                _exit(99);
        syscall(SYS_exit, 0);
}

/* Waits until it is a zombie, without reaping it. */
static void await_end(pid_t pid) {
        siginfo_t info;

        ck_assert_int_eq(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
}

static void reap(pid_t pid) {
        ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

static void end(pid_t pid) {
        kill(pid, SIGKILL);
        reap(pid);
}

START_TEST(test_life) {
        struct process process = PROCESS_NONE;
        pid_t pid = start_child(say_ready);

        ck_assert_int_eq(process_open(pid, &process), 0);
        ck_assert_int_eq(process.identity.pid, pid);
        ck_assert_uint_gt(process.identity.start_time, 0);
        ck_assert_int_eq(process_life(&process), PROCESS_ALIVE);
        ck_assert_int_eq(process_signal(&process, 0), 0);

        ck_assert_int_eq(process_signal(&process, SIGKILL), 0);
        await_end(pid);
        ck_assert_int_eq(process_life(&process), PROCESS_GONE); /* a zombie has exited */
        ck_assert_int_eq(process_identify(&process.identity, NULL), PROCESS_GONE);
        reap(pid);
        ck_assert_int_eq(process_life(&process), PROCESS_GONE);
        ck_assert_int_eq(process_signal(&process, SIGKILL), 0); /* needs none any more */
        ck_assert_int_eq(pidfd_signal(process.pidfd, SIGKILL), -ESRCH);
        ck_assert_int_eq(process_identify(&process.identity, NULL), PROCESS_GONE);
        process_done(&process);
        process_done(&process);
        process_done(NULL);
        ck_assert_int_eq(process_life(&process), PROCESS_UNKNOWN);
}
END_TEST

START_TEST(test_open_refuses) {
        struct process process = PROCESS_NONE;
        pid_t pid = start_child(say_and_exit);

        reap(pid);
        ck_assert_int_eq(process_open(pid, &process), -ESRCH);
        ck_assert_int_eq(process_open(0, &process), -EINVAL);
        ck_assert_int_eq(process_open(-1, &process), -EINVAL);
        ck_assert_int_eq(process.pidfd, -1);
        ck_assert_int_eq(process_from_pidfd(-1, 2, &process), -EBADF);
        ck_assert_int_eq(pidfd_is_dead(-1), -EBADF);
        ck_assert_int_eq(pidfd_is_dead(1000000), -EBADF);
}
END_TEST

static void *tell_tid(void *ret) {
        *(pid_t *)ret = (pid_t)syscall(SYS_gettid);
        pause();
        return NULL;
}

START_TEST(test_thread_is_no_process) {
        struct process process = PROCESS_NONE;
        volatile pid_t tid = 0;
        pthread_t thread;

        ck_assert_int_eq(pthread_create(&thread, NULL, tell_tid, (void *)&tid), 0);
        while (tid == 0)
                sched_yield();
        ck_assert_int_eq(process_open(tid, &process), -ESRCH);
        pthread_cancel(thread);
        pthread_join(thread, NULL);
}
END_TEST

START_TEST(test_group_outlives_leader) {
        struct process process = PROCESS_NONE;
        int fds[2];
        pid_t leader;
        char byte;

        ck_assert_int_eq(pipe(fds), 0);
        leader = fork();
        if (leader == 0) {
                setpgid(0, 0);
                if (fork() == 0) { /* keeps the group, until we close our end */
                        close(fds[1]);
                        _exit((int)read(fds[0], &byte, 1));
                }
                _exit(0);
        }
        reap(leader);
        ck_assert_int_eq(kill(-leader, 0), 0);
        ck_assert_int_eq(process_open(leader, &process), -ESRCH);
        close(fds[0]);
        close(fds[1]);
}
END_TEST

START_TEST(test_from_pidfd) {
        struct process process = PROCESS_NONE;
        pid_t pid = start_child(say_and_exit);
        int pidfd = pidfd_pin(pid);
        uint64_t inode = 0;

        ck_assert_int_ge(pidfd, 0);
        await_end(pid);
        ck_assert_int_eq(process_from_pidfd(pidfd, pid, &process), 0);
        ck_assert_uint_gt(process.identity.start_time, 0);
        inode = process.identity.inode;
        reap(pid);
        ck_assert_int_eq(process_from_pidfd(pidfd, pid, &process), 0);
        ck_assert_int_eq(process.pidfd, pidfd);
        ck_assert_int_eq(process.identity.pid, pid);
        ck_assert_uint_eq(process.identity.inode, inode);
        ck_assert_uint_eq(process.identity.start_time, 0); /* nobody knows any more */
        process_done(&process);
}
END_TEST

START_TEST(test_identify) {
        struct process_identity self, changed;
        struct process process = PROCESS_NONE;

        ck_assert_int_eq(process_self(&self), 0);
        ck_assert_int_eq(self.pid, getpid());
        ck_assert_int_eq(process_identify(&self, &process), PROCESS_ALIVE);
        ck_assert_int_eq(process_life(&process), PROCESS_ALIVE);
        process_done(&process);

        if (self.inode != 0) { /* it alone decides */
                changed = self;
                changed.start_time++;
                ck_assert_int_eq(process_identify(&changed, NULL), PROCESS_ALIVE);
                changed = self;
                changed.inode++;
                ck_assert_int_eq(process_identify(&changed, &process), PROCESS_GONE);
                ck_assert_int_eq(process.pidfd, -1);
        }
        changed = self;
        changed.inode = 0;
        ck_assert_int_eq(process_identify(&changed, NULL), PROCESS_ALIVE);
        changed.start_time++;
        ck_assert_int_eq(process_identify(&changed, NULL), PROCESS_GONE);
        changed.start_time = 0;
        ck_assert_int_eq(process_identify(&changed, NULL), PROCESS_UNKNOWN);
        changed.pid = 0;
        ck_assert_int_eq(process_identify(&changed, NULL), PROCESS_UNKNOWN);
        changed.pid = -1;
        ck_assert_int_eq(process_identify(&changed, NULL), PROCESS_UNKNOWN);
}
END_TEST

START_TEST(test_inodes_differ) {
        struct process one = PROCESS_NONE, other = PROCESS_NONE, again = PROCESS_NONE;
        pid_t pid = start_child(say_ready), other_pid = start_child(say_ready);

        ck_assert_int_eq(process_open(pid, &one), 0);
        ck_assert_int_eq(process_open(other_pid, &other), 0);
        ck_assert_int_eq(process_open(pid, &again), 0);
        ck_assert_uint_eq(one.identity.inode, again.identity.inode);
        if (one.identity.inode != 0)
                ck_assert_uint_ne(one.identity.inode, other.identity.inode);
        process_done(&one);
        process_done(&other);
        process_done(&again);
        end(pid);
        end(other_pid);
}
END_TEST

START_TEST(test_exited_main_thread_is_alive) {
        struct process process = PROCESS_NONE;
        _cleanup_free_ char *description = NULL;
        struct process_stat stat;
        pid_t pid = start_child(lose_main_thread);

        ck_assert_int_eq(process_read_stat(pid, &stat), 0);
        ck_assert_int_eq(stat.state, 'Z');
        ck_assert_int_eq(process_open(pid, &process), 0);
        ck_assert_int_eq(process_life(&process), PROCESS_ALIVE);
        ck_assert_int_eq(process_identify(&process.identity, NULL), PROCESS_ALIVE);
        description = process_describe(pid);
        ck_assert_ptr_nonnull(description);
        ck_assert_msg(strstr(description, " in state Z") && strstr(description, ", its thread "), "%s", description);

        ck_assert_int_eq(process_signal(&process, SIGKILL), 0);
        await_end(pid);
        ck_assert_int_eq(process_life(&process), PROCESS_GONE);
        reap(pid);
        process_done(&process);
}
END_TEST

static const char *const names[] = { "plain", "a) S 1 1 (b", ") (", "two words", "tab\there", "line\nfeed", "" };

static const char *name;
static void rename_and_say(int ready) {
        prctl(PR_SET_NAME, name);
        say_ready(ready);
}

START_TEST(test_stat) {
        _cleanup_free_ char *description = NULL;
        struct process_stat stat, unchanged = { .parent = 4711 };
        pid_t pid;

        name = names[_i];
        pid = start_child(rename_and_say);
        ck_assert_int_eq(process_read_stat(pid, &stat), 0);
        ck_assert_str_eq(stat.comm, name);
        ck_assert_int_eq(stat.parent, getpid());
        ck_assert_int_eq(stat.group, getpgrp());
        ck_assert_int_eq(stat.session, getsid(0));
        ck_assert_ptr_nonnull(strchr("RS", stat.state));
        ck_assert_uint_gt(stat.start_time, 0);
        description = process_describe(pid);
        ck_assert_ptr_nonnull(description);
        ck_assert_msg(strstr(description, " in state ") && !strpbrk(description, "\n\t"), "%s", description);
        end(pid);
        ck_assert_int_eq(process_read_stat(pid, &unchanged), -ESRCH);
        ck_assert_int_eq(process_read_stat(0, &unchanged), -EINVAL);
        ck_assert_int_eq(unchanged.parent, 4711);
}
END_TEST

START_TEST(test_describe_unknown) {
        _cleanup_free_ char *description = NULL, *expected = NULL;
        pid_t pid = start_child(say_and_exit);

        reap(pid);
        description = process_describe(pid);
        expected = format("pid %d", (int)pid);
        ck_assert_str_eq(description, expected);
}
END_TEST

START_TEST(test_exit_status) {
        pid_t pid = start_child(say_and_exit);
        int pidfd = pidfd_pin(pid), status = 4711, r;

        await_end(pid);
        ck_assert_int_eq(pidfd_get_exit(pidfd, &status), -ENODATA); /* whoever reaps it is to have it */
        reap(pid);
        r = pidfd_get_exit(pidfd, &status);
        if (r == 0)
                ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 7);
        else {
                ck_assert_int_eq(r, -ENODATA); /* before Linux 6.15 */
                ck_assert_int_eq(status, 4711);
        }
        close(pidfd);
}
END_TEST

START_TEST(test_without_pidfd_open) {
        struct process_identity self, other;
        struct process process = PROCESS_NONE;
        pid_t pid = start_child(say_ready);

        deny_syscall(SYS_pidfd_open, ENOSYS);
        ck_assert_int_eq(process_open(pid, &process), -ENOSYS);
        ck_assert_int_eq(process_self(&self), 0);
        ck_assert_int_eq(self.pid, getpid());
        ck_assert_uint_eq(self.inode, 0);
        ck_assert_uint_gt(self.start_time, 0);
        other = (struct process_identity){ .pid = pid, .start_time = self.start_time };
        ck_assert_int_eq(process_identify(&other, NULL), PROCESS_UNKNOWN);
        end(pid);
        ck_assert_int_eq(process_identify(&other, NULL), PROCESS_GONE);
}
END_TEST

START_TEST(test_without_pidfd_send_signal) {
        pid_t pid = start_child(say_ready);
        int pidfd = pidfd_pin(pid), status;

        deny_syscall(SYS_pidfd_send_signal, ENOSYS);
        ck_assert_int_eq(pidfd_signal(pidfd, 0), 0);
        ck_assert_int_eq(pidfd_signal(pidfd, SIGKILL), 0);
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        ck_assert_int_eq(pidfd_signal(pidfd, SIGKILL), -ESRCH);
        close(pidfd);
        ck_assert_int_lt(pidfd_signal(pidfd, SIGKILL), 0);
}
END_TEST

static void add_pinned(TCase *tcase) {
        tcase_set_timeout(tcase, 60);
        tcase_add_test(tcase, test_life);
        tcase_add_test(tcase, test_open_refuses);
        tcase_add_test(tcase, test_thread_is_no_process);
        tcase_add_test(tcase, test_group_outlives_leader);
        tcase_add_test(tcase, test_from_pidfd);
        tcase_add_test(tcase, test_identify);
        tcase_add_test(tcase, test_inodes_differ);
        tcase_add_test(tcase, test_exited_main_thread_is_alive);
        tcase_add_test(tcase, test_exit_status);
        tcase_add_test(tcase, test_without_pidfd_send_signal);
}

int main(void) {
        Suite *suite = suite_create("process");
        TCase *tcase = tcase_create("process"), *pinned = tcase_create("pinned");
        SRunner *runner = srunner_create(suite);
        int self = pidfd_pin(getpid()), failed;

        tcase_set_timeout(tcase, 60);
        tcase_add_loop_test(tcase, test_stat, 0, sizeof(names) / sizeof(names[0]));
        tcase_add_test(tcase, test_describe_unknown);
        tcase_add_test(tcase, test_without_pidfd_open);
        suite_add_tcase(suite, tcase);

        suite_add_tcase(suite, pinned);
        if (self >= 0)
                add_pinned(pinned);
        else
                printf("left out: what needs pidfds (pidfd_open: %s)\n", strerror(-self));
        close_fd(&self);

        srunner_run_all(runner, CK_NORMAL);
        failed = srunner_ntests_failed(runner);
        srunner_free(runner);
        return failed == 0 ? 0 : 1;
}
