/* SPDX-License-Identifier: MIT */

/* The descriptors that a child is to have at its exec, told by itself, for each of the ways into it. */

#include <sys/resource.h>

#include "deny.h"
#include "probed.h"

TEST_EACH_WAY(test_fds_swap) {
        int a = new_file_at(33), b = new_file_at(34), c = new_file_at(35);
        struct child_plan *plan = probe_plan();
        struct probed probed;

        plan_fd(plan, a, b);
        plan_fd(plan, b, a);
        probed = probe_whole(way, plan, -1);
        fd_is(&probed, a, b);
        fd_is(&probed, b, a);
        fd_is(&probed, c, -1);
        probed_done(&probed);

        /* A ring of three, and the small numbers that scratch copies would like to have. */
        plan = probe_plan();
        plan_fd(plan, b, a);
        plan_fd(plan, c, b);
        plan_fd(plan, a, c);
        for (int target = 0; target < 20; target++)
                plan_fd(plan, target, a);
        probed = probe_whole(way, plan, -1);
        fd_is(&probed, b, a);
        fd_is(&probed, c, b);
        fd_is(&probed, a, c);
        for (int target = 0; target < 20; target++)
                fd_is(&probed, target, a);
        fd_is(&probed, 20, -1);
        probed_done(&probed);
}

TEST_EACH_WAY(test_fds_chain) {
        int a = new_file_at(33), b = new_file_at(34), c = new_file_at(35);
        struct child_plan *plan = probe_plan();
        struct probed probed;

        plan_fd(plan, a, c); /* a source above its target */
        plan_fd(plan, b, a);
        plan_fd(plan, 200, b); /* and below */
        plan_fd(plan, c, c);   /* its own */
        probed = probe_whole(way, plan, -1);
        fd_is(&probed, a, c);
        fd_is(&probed, b, a);
        fd_is(&probed, 200, b);
        fd_is(&probed, c, c);
        probed_done(&probed);
}

/* Also where all three standard descriptors are closed here, so that everything that is opened gets their numbers. */
TEST_EACH_WAY(test_fds_null) {
        int null = open("/dev/null", O_RDWR | O_CLOEXEC), file = new_file_at(33);

        for (int closed = 0; closed < 2; closed++) {
                struct child_plan *plan = probe_plan();
                struct probed probed;

                plan_fd(plan, 0, CGTREE_FD_NULL);
                plan_fd(plan, 2, CGTREE_FD_NULL);
                plan_fd(plan, 7, CGTREE_FD_NULL);
                plan_fd(plan, 1, file);
                if (closed)
                        for (int fd = 0; fd <= 2; fd++)
                                close(fd);
                probed = probe_whole(way, plan, -1);
                fd_is(&probed, 0, null);
                fd_is(&probed, 1, file);
                fd_is(&probed, 2, null);
                fd_is(&probed, 7, null);
                fd_is(&probed, 8, -1);
                probed_done(&probed);
        }
}

TEST_EACH_WAY(test_fds_inherit) {
        int passed = new_file_at(33), source = new_file_at(34), closed = new_file_at(35), own = new_file_at(36);
        int directory = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct child_plan *plan = probe_plan();
        struct probed probed;

        fcntl(passed, F_SETFD, 0);
        plan->inherit_fds = true;
        plan->directory_fd = directory;
        plan->directory = strdup("proc");
        plan_fd(plan, 40, source);
        plan_fd(plan, 3, source);
        plan_fd(plan, own, own);
        probed = probe_whole(way, plan, -1);
        for (int fd = 0; fd <= 2; fd++)
                fd_is(&probed, fd, fd);
        fd_is(&probed, passed, passed);
        fd_is(&probed, 40, source);
        fd_is(&probed, 3, source);
        fd_is(&probed, own, own);
        fd_is(&probed, source, -1);
        fd_is(&probed, closed, -1);
        for (int fd = 4; fd < 33; fd++) { /* what the test's runner has open is passed on; our own things are not */
                int flags = fcntl(fd, F_GETFD);

                fd_is(&probed, fd, flags >= 0 && !(flags & FD_CLOEXEC) ? fd : -1);
        }
        probed_done(&probed);
        /* A caller's descriptors are as they were. */
        ck_assert_int_eq(fcntl(source, F_GETFD), FD_CLOEXEC);
        ck_assert_int_eq(fcntl(own, F_GETFD), FD_CLOEXEC);
        ck_assert_int_eq(fcntl(directory, F_GETFD), FD_CLOEXEC);
}

TEST_EACH_WAY(test_fds_not_open) {
        struct child_plan *plan = probe_plan();

        plan_fd(plan, 5, 999);
        if (way == WAY_GATED) {
                struct gate gate;

                ck_assert_int_eq(gate_start(plan, -1, &gate), -EBADF);
                child_plan_free(plan);
                return;
        }
        probe_fails(way, plan, -1, CHILD_FDS, EBADF);
}

/* Numbers up to the very limit, which leave no room above for scratch copies. */
TEST_EACH_WAY(test_fds_at_the_limit) {
        struct rlimit limit = { .rlim_cur = 128, .rlim_max = 128 };
        int a = new_file_at(127), b = new_file_at(126);
        struct child_plan *plan = probe_plan();
        struct probed probed;

        if (setrlimit(RLIMIT_NOFILE, &limit) < 0) { /* valgrind has its own above the limit */
                ck_assert(!born);
                child_plan_free(plan);
                return;
        }
        plan_fd(plan, a, b);
        plan_fd(plan, b, a);
        if (way == WAY_GATED) { /* its socket has to be above */
                probe_fails(way, plan, -1, CHILD_FDS, EINVAL);
                return;
        }
        probed = probe_whole(way, plan, -1);
        fd_is(&probed, a, b);
        fd_is(&probed, b, a);
        probed_done(&probed);
}

TEST_EACH_WAY(test_fds_without_close_range) {
        int file = new_file_at(33);
        struct child_plan *plan = probe_plan();
        struct probed probed;

        for (int fd = 200; fd < 500; fd++) /* more than one read of the directory */
                ck_assert_int_eq(dup2(file, fd), fd);
        deny_syscall(SYS_close_range, ENOSYS); /* as before Linux 5.9 */
        plan_fd(plan, 0, file);
        plan_fd(plan, 300, file);
        plan_fd(plan, 301, 301);
        probed = probe_whole(way, plan, -1);
        fd_is(&probed, 0, file);
        fd_is(&probed, 300, file);
        fd_is(&probed, 301, file);
        for (int fd = 1; fd < 520; fd++)
                if (fd != 300 && fd != 301)
                        fd_is(&probed, fd, -1);
        probed_done(&probed);
}

/* 0: with close_range; 1: without. */
START_TEST(test_close_others) {
        int file = new_file_at(300), kept[] = { 305, 301, 2, -1, 301, 300 };

        for (int fd = 301; fd < 310; fd++)
                ck_assert_int_eq(dup2(file, fd), fd);
        if (fork() == 0) { /* check's own descriptors go too */
                if (_i == 1)
                        deny_syscall(SYS_close_range, ENOSYS); /* as before Linux 5.9 */
                if (child_close_others(kept, sizeof(kept) / sizeof(kept[0])) < 0)
                        _exit(1);
                for (int fd = 0; fd < 400; fd++)
                        if ((fcntl(fd, F_GETFD) >= 0) != (fd == 305 || fd == 301 || fd == 300 || fd == 2))
                                _exit(fd > 2 ? fd : 100 + fd);
                _exit(0);
        }
        int status;
        ck_assert_int_gt(wait(&status), 0);
        ck_assert_int_eq(status, 0);
}
END_TEST

int main(void) {
        Suite *suite = suite_create("child-fds");
        TCase *plain = tcase_create("plain");
        SRunner *runner;
        int failed;

        probe_setup();
        add_each_way(suite, "fds",
                (const TTest *const[]){ test_fds_swap, test_fds_chain, test_fds_null, test_fds_inherit,
                        test_fds_not_open, test_fds_at_the_limit, test_fds_without_close_range, NULL });
        tcase_add_loop_test(plain, test_close_others, 0, 2);
        suite_add_tcase(suite, plain);
        runner = srunner_create(suite);
        srunner_run_all(runner, CK_NORMAL);
        failed = srunner_ntests_failed(runner);
        srunner_free(runner);
        return failed > 0;
}
