/* SPDX-License-Identifier: MIT */
#include "command.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static cgtree_command *new_command(const char *program) {
        cgtree_command *command;
        ck_assert_int_eq(cgtree_command_new(&command, (const char *const[]){ program, "x", NULL }), 0);
        return command;
}

START_TEST(refuses_what_makes_no_sense) {
        cgtree_command *command;
        ck_assert_int_eq(cgtree_command_new(NULL, (const char *const[]){ "a", NULL }), -EINVAL);
        ck_assert_int_eq(cgtree_command_new(&command, (const char *const[]){ NULL }), -EINVAL);
        ck_assert_int_eq(cgtree_command_new(&command, (const char *const[]){ "", NULL }), -EINVAL);
        command = new_command("a");
        ck_assert_int_eq(cgtree_command_set_fd(command, -1, 0), -EINVAL);
        ck_assert_int_eq(cgtree_command_set_fd(command, 0, -4), -EINVAL);
        ck_assert_int_eq(cgtree_command_set_name(command, "-x"), -EINVAL);
        ck_assert_int_eq(cgtree_command_set_name(command, "a/b"), -EINVAL);
        ck_assert_int_eq(cgtree_command_set_name(command, "v7k2m9q4x1c8r5t0"), -EINVAL);
        ck_assert_int_eq(cgtree_command_set_name(command, "web-1"), 0);
        ck_assert_int_eq(cgtree_command_set_grace(command, 0, false, 1), -EINVAL);
        ck_assert_int_eq(cgtree_command_set_grace(command, 65, false, 1), -EINVAL);
        ck_assert_int_eq(cgtree_command_set_directory(command, -3, "x"), -EINVAL);
        ck_assert_int_eq(cgtree_command_set_user(command, (uid_t)-1, 0, NULL, 0), -EINVAL);
        ck_assert_int_eq(cgtree_command_set_session(command, 17), -EINVAL);
        cgtree_command_free(command);
        cgtree_command_free(NULL);
}
END_TEST

START_TEST(searches_the_path_the_command_will_have) {
        cgtree_command *command = new_command("prog");
        struct child_plan *plan;
        ck_assert_int_eq(
                cgtree_command_set_environment(command, (const char *const[]){ "PATH=/a::/b", "HOME=/h", NULL }), 0);
        ck_assert_int_eq(command_plan(command, &plan), 0);
        ck_assert_str_eq(plan->executables[0], "/a/prog");
        ck_assert_str_eq(plan->executables[1], "./prog");
        ck_assert_str_eq(plan->executables[2], "/b/prog");
        ck_assert_ptr_null(plan->executables[3]);
        child_plan_free(plan);

        ck_assert_int_eq(cgtree_command_set_environment(command, (const char *const[]){ "A=1", NULL }), 0);
        ck_assert_int_eq(command_plan(command, &plan), 0);
        ck_assert_str_eq(plan->executables[0], "/usr/local/bin/prog");
        child_plan_free(plan);

        ck_assert_int_eq(cgtree_command_set_executable(command, "./here"), 0);
        ck_assert_int_eq(command_plan(command, &plan), 0);
        ck_assert_str_eq(plan->executables[0], "./here");
        ck_assert_ptr_null(plan->executables[1]);
        ck_assert_str_eq(plan->argv[0], "prog");
        ck_assert_str_eq(command_short_name(command), "here");
        child_plan_free(plan);
        cgtree_command_free(command);
}
END_TEST

START_TEST(puts_one_assignment_into_the_environment) {
        cgtree_command *command = new_command("/bin/true");
        struct child_plan *plan;
        ck_assert_int_eq(
                cgtree_command_set_environment(command, (const char *const[]){ "A=1", "M=old", "MM=2", NULL }), 0);
        ck_assert_int_eq(command_plan(command, &plan), 0);
        ck_assert_int_eq(command_put_environment(&plan->envp, "M=new"), 0);
        ck_assert_str_eq(plan->envp[1], "M=new");
        ck_assert_str_eq(plan->envp[2], "MM=2");
        ck_assert_ptr_null(plan->envp[3]);
        child_plan_free(plan);
        ck_assert_int_eq(command_plan(command, &plan), 0);
        ck_assert_int_eq(command_put_environment(&plan->envp, "Z=9"), 0);
        ck_assert_str_eq(plan->envp[3], "Z=9");
        ck_assert_ptr_null(plan->envp[4]);
        child_plan_free(plan);
        cgtree_command_free(command);
}
END_TEST

START_TEST(lists_each_target_once_and_what_is_closed_not_at_all) {
        cgtree_command *command = new_command("/bin/true");
        struct child_plan *plan;
        int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        ck_assert_int_eq(cgtree_command_set_fd(command, 9, fd), 0);
        ck_assert_int_eq(cgtree_command_set_fd(command, 5, CGTREE_FD_PIPE), 0);
        ck_assert_int_eq(cgtree_command_set_fd(command, 9, CGTREE_FD_NULL), 0);
        ck_assert_int_eq(cgtree_command_set_fd(command, 800, CGTREE_FD_INHERIT), 0);
        ck_assert_int_eq(command_plan(command, &plan), 0);
        ck_assert_uint_eq(plan->n_fds, 5);
        ck_assert_int_eq(plan->fds[0].source, CGTREE_FD_NULL);
        ck_assert_int_eq(plan->fds[1].source, 1);
        ck_assert_int_eq(plan->fds[3].target, 5);
        ck_assert_int_eq(plan->fds[3].source, CGTREE_FD_PIPE);
        ck_assert_int_eq(plan->fds[4].target, 9);
        ck_assert_int_eq(plan->fds[4].source, CGTREE_FD_NULL);
        child_plan_free(plan);
        cgtree_command_free(command);
        close(fd);
}
END_TEST

int main(void) {
        Suite *suite = suite_create("command");
        TCase *tcase = tcase_create("command");
        tcase_add_test(tcase, refuses_what_makes_no_sense);
        tcase_add_test(tcase, searches_the_path_the_command_will_have);
        tcase_add_test(tcase, puts_one_assignment_into_the_environment);
        tcase_add_test(tcase, lists_each_target_once_and_what_is_closed_not_at_all);
        suite_add_tcase(suite, tcase);
        SRunner *runner = srunner_create(suite);
        srunner_run_all(runner, CK_ENV);
        int failed = srunner_ntests_failed(runner);
        srunner_free(runner);
        return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
