/* SPDX-License-Identifier: MIT */
#include "owned.h"

/* A tree's life as its owner sees it, by blocking calls. Each test runs in both placements. */

START_TEST(ends_as_its_command_did) {
        owned_open(placements[_i]);
        cgtree_tree *tree = owned_spawn("exit 7");
        ck_assert_int_eq(cgtree_tree_wait_root(tree, LONG_USEC), 0);
        ck_assert_int_eq(cgtree_tree_wait_empty(tree, LONG_USEC), 0);
        owned_exit_is(tree, CLD_EXITED, 7);
        ck_assert_int_eq(cgtree_tree_get_cause(tree), CGTREE_CAUSE_ENDED);
        ck_assert_int_eq(cgtree_tree_get_root(tree), 0);
        cgtree_tree_free(tree);

        tree = owned_spawn("kill -9 $$");
        ck_assert_int_eq(cgtree_tree_wait_empty(tree, LONG_USEC), 0);
        owned_exit_is(tree, CLD_KILLED, SIGKILL);
        cgtree_tree_free(tree);
        owned_close();
}
END_TEST

START_TEST(runs_in_one_call) {
        owned_open(placements[_i]);
        cgtree_command *command = owned_command("sleep 1000 & exit 3");
        int code, status;
        ck_assert_int_eq(cgtree_run(owner, command, &code, &status), 0);
        ck_assert_int_eq(code, CLD_EXITED);
        ck_assert_int_eq(status, 3);
        cgtree_command_free(command);
        owned_close();
}
END_TEST

START_TEST(keeps_what_a_finished_command_left) {
        owned_open(placements[_i]);
        int output;
        cgtree_tree *tree = owned_spawn_ready(owned_command("(trap : USR1; echo ready; sleep 1000) & exit 3"), &output);
        ck_assert_int_eq(cgtree_tree_wait_root(tree, LONG_USEC), 0);
        owned_exit_is(tree, CLD_EXITED, 3);
        pid_t *pids;
        size_t n;
        ck_assert_int_eq(cgtree_tree_get_members(tree, &pids, &n), 0);
        /* Who cannot be pinned (valgrind has no pidfd_open) is not counted by its marks alone. */
        ck_assert_uint_ge(n, placement == CGTREE_PLACEMENT_SUBTREE || owned_can_pin());
        free(pids);
        ck_assert_int_eq(cgtree_tree_wait_empty(tree, 0), -ETIMEDOUT);
        ck_assert_uint_eq(scratch_count(records), 1);
        ck_assert_int_eq(cgtree_tree_terminate(tree, CGTREE_DEFAULT, LONG_USEC), 0);
        owned_output_ends(output);
        ck_assert_uint_eq(scratch_count(records), 0);
        ck_assert_int_eq(cgtree_tree_terminate(tree, CGTREE_DEFAULT, LONG_USEC), 0);
        cgtree_tree_free(tree);
        owned_close();
}
END_TEST

START_TEST(ends_what_is_left_with_its_root_if_told_so) {
        owned_open(placements[_i]);
        cgtree_command *command = owned_command("setsid sleep 1000 & echo ready; read x; exit 4");
        cgtree_command_set_end_with_root(command, true);
        cgtree_command_set_fd(command, 0, CGTREE_FD_PIPE);
        int output;
        cgtree_tree *tree = owned_spawn_ready(command, &output);
        close(cgtree_tree_take_fd(tree, 0));
        ck_assert_int_eq(cgtree_tree_take_fd(tree, 0), -ENOENT);
        ck_assert_int_eq(cgtree_tree_wait_empty(tree, LONG_USEC), 0);
        owned_output_ends(output);
        owned_exit_is(tree, CLD_EXITED, 4);
        cgtree_tree_free(tree);
        owned_close();
}
END_TEST

START_TEST(kills_after_the_grace_what_ignores_the_signal) {
        owned_open(placements[_i]);
        int output;
        cgtree_command *command = owned_command("trap '' TERM; echo ready; sleep 1000");
        cgtree_tree *tree = owned_spawn_ready(command, &output);
        ck_assert_int_eq(cgtree_tree_signal(tree, SIGTERM, false), 0);
        ck_assert_int_eq(cgtree_tree_wait_empty(tree, 20 * USEC_PER_MSEC), -ETIMEDOUT);
        ck_assert_int_eq(cgtree_tree_terminate(tree, 50 * USEC_PER_MSEC, LONG_USEC), 0);
        owned_output_ends(output);
        owned_exit_is(tree, CLD_KILLED, SIGKILL);
        ck_assert_int_eq(cgtree_tree_get_cause(tree), CGTREE_CAUSE_CANCELLED);
        cgtree_tree_free(tree);
        owned_close();
}
END_TEST

START_TEST(timeout_terminates) {
        owned_open(placements[_i]);
        cgtree_command *command = owned_command("trap '' TERM; sleep 1000");
        cgtree_command_set_timeout(command, 50 * USEC_PER_MSEC);
        cgtree_command_set_grace(command, SIGTERM, false, 50 * USEC_PER_MSEC);
        cgtree_tree *tree = owned_spawn_command(command);
        ck_assert_int_eq(cgtree_tree_wait_empty(tree, LONG_USEC), 0);
        ck_assert_int_eq(cgtree_tree_get_cause(tree), CGTREE_CAUSE_TIMEOUT);
        owned_exit_is(tree, CLD_KILLED, SIGKILL);
        cgtree_tree_free(tree);
        owned_close();
}
END_TEST

START_TEST(root_alone_gets_the_signal_if_told_so) {
        owned_open(placements[_i]);
        int output;
        cgtree_command *command =
                owned_command("sh -c 'trap \"echo told\" TERM; echo ready; while :; do sleep 0.02; done' &"
                              "trap 'exit 9' TERM; wait");
        cgtree_command_set_grace(command, SIGTERM, true, 200 * USEC_PER_MSEC);
        cgtree_tree *tree = owned_spawn_ready(command, &output);
        ck_assert_int_eq(cgtree_tree_terminate(tree, CGTREE_DEFAULT, LONG_USEC), 0);
        owned_exit_is(tree, CLD_EXITED, 9);
        char text[64];
        ck_assert_int_eq(read(output, text, sizeof(text)), 0);
        close(output);
        cgtree_tree_free(tree);
        owned_close();
}
END_TEST

/* A caller that blocks and ignores passes none of it on: a child that dies of TERM by default does so. */
START_TEST(child_begins_with_an_empty_mask_and_defaults) {
        owned_open(placements[_i]);
        sigset_t all, old;
        sigfillset(&all);
        sigprocmask(SIG_BLOCK, &all, &old);
        signal(SIGTERM, SIG_IGN);
        signal(SIGINT, SIG_IGN);
        int output;
        cgtree_tree *tree = owned_spawn_ready(
                owned_command("grep -E '^Sig(Blk|Ign)' /proc/self/status | tr -d '\\n'; exec sleep 1000"), &output);
        ck_assert_int_eq(cgtree_tree_terminate(tree, CGTREE_DEFAULT, LONG_USEC), 0);
        owned_exit_is(tree, CLD_KILLED, SIGTERM);
        close(output);
        cgtree_tree_free(tree);

        /* Not by a shell: dash clears its mask. */
        cgtree_command *command;
        ck_assert_int_eq(cgtree_command_new(
                                 &command, (const char *const[]){ "sed", "-n", "s/^Sig\\(Blk\\|Ign\\):[[:space:]]*//p",
                                                   "/proc/self/status", NULL }),
                0);
        cgtree_command_set_fd(command, 1, CGTREE_FD_PIPE);
        cgtree_command_set_signals(command, UINT64_C(1) << (SIGUSR2 - 1), UINT64_C(1) << (SIGUSR1 - 1));
        tree = owned_spawn_command(command);
        output = cgtree_tree_take_fd(tree, 1);
        ck_assert_int_eq(cgtree_tree_wait_empty(tree, LONG_USEC), 0);
        char text[128] = "";
        ck_assert_int_gt(read(output, text, sizeof(text) - 1), 0);
        ck_assert_str_eq(text, "0000000000000800\n0000000000000200\n");
        close(output);
        cgtree_tree_free(tree);
        sigprocmask(SIG_SETMASK, &old, NULL);
        owned_close();
}
END_TEST

START_TEST(pipes_go_both_ways) {
        owned_open(placements[_i]);
        cgtree_command *command = owned_command("read x; echo $x $x; echo err >&2; echo five >&5");
        for (int target = 0; target < 3; target++)
                cgtree_command_set_fd(command, target, CGTREE_FD_PIPE);
        cgtree_command_set_fd(command, 5, CGTREE_FD_PIPE);
        cgtree_tree *tree = owned_spawn_command(command);
        int in = cgtree_tree_take_fd(tree, 0), out = cgtree_tree_take_fd(tree, 1);
        int err = cgtree_tree_take_fd(tree, 2), five = cgtree_tree_take_fd(tree, 5);
        ck_assert_int_eq(write(in, "ab\n", 3), 3);
        close(in);
        ck_assert_int_eq(cgtree_tree_wait_empty(tree, LONG_USEC), 0);
        char text[16];
        ck_assert_int_eq(read(out, text, sizeof(text)), 6);
        ck_assert_int_eq(memcmp(text, "ab ab\n", 6), 0);
        ck_assert_int_eq(read(err, text, sizeof(text)), 4);
        ck_assert_int_eq(read(five, text, sizeof(text)), 5);
        close(out), close(err), close(five);
        cgtree_tree_free(tree);
        owned_close();
}
END_TEST

START_TEST(names_the_step_that_failed) {
        static const struct {
                const char *program;
                int error;
        } cases[] = {
                { "/nonexistent/x", -ENOENT },
                { "nonexistent-program-x", -ENOENT },
                { "/etc/passwd", -EACCES },
                { "/etc/passwd/x", -ENOTDIR },
        };
        owned_open(placements[_i]);
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                cgtree_command *command;
                cgtree_tree *tree;
                const char *message;
                ck_assert_int_eq(cgtree_command_new(&command, (const char *const[]){ cases[i].program, NULL }), 0);
                ck_assert_int_eq(cgtree_spawn(owner, command, &tree), cases[i].error);
                ck_assert_int_eq(cgtree_command_get_error(command, &message), CGTREE_STEP_EXEC);
                ck_assert_str_eq(message, strerror(-cases[i].error));
                cgtree_command_free(command);
        }
        cgtree_command *command = owned_command("exit 0");
        cgtree_command_set_directory(command, AT_FDCWD, "/nonexistent");
        ck_assert_int_eq(cgtree_spawn(owner, command, NULL), -ENOENT);
        ck_assert_int_eq(cgtree_command_get_error(command, NULL), CGTREE_STEP_CHILD);
        cgtree_command_free(command);
        owned_close();
}
END_TEST

START_TEST(a_name_is_taken_once) {
        owned_open(placements[_i]);
        cgtree_command *command = owned_command("sleep 1000");
        ck_assert_int_eq(cgtree_command_set_name(command, "web"), 0);
        cgtree_tree *first, *second;
        ck_assert_int_eq(cgtree_spawn(owner, command, &first), 0);
        ck_assert_int_eq(cgtree_spawn(owner, command, &second), -EEXIST);
        ck_assert_int_eq(cgtree_command_get_error(command, NULL), CGTREE_STEP_RECORD);
        ck_assert_int_eq(cgtree_tree_kill(first, LONG_USEC), 0);
        ck_assert_int_eq(cgtree_spawn(owner, command, &second), 0);
        ck_assert_int_eq(cgtree_tree_kill(second, LONG_USEC), 0);
        cgtree_tree_free(first);
        cgtree_tree_free(second);
        cgtree_command_free(command);
        owned_close();
}
END_TEST

/* It came before, and was not heard in time: who continues the root is not told of it any more. */
START_TEST(a_stop_that_was_resumed_is_no_news) {
        owned_open(CGTREE_PLACEMENT_GROUP);
        cgtree_command *command = owned_command("kill -STOP $$; exit 3");
        ck_assert_int_eq(cgtree_command_set_session(command, CGTREE_SESSION_FOREGROUND), 0);
        cgtree_tree *tree = owned_spawn_command(command);
        struct pollfd stopped = { .fd = tree->gate.socket, .events = POLLIN };
        ck_assert_int_eq(poll(&stopped, 1, (int)(LONG_USEC / 1000)), 1);
        ck_assert_int_eq(cgtree_tree_resume(tree), 0);
        unsigned seen = 0, events;
        while (!(seen & CGTREE_EVENT_EMPTY)) {
                struct pollfd source = { .fd = cgtree_owner_get_fd(owner), .events = POLLIN };
                ck_assert_int_eq(poll(&source, 1, (int)(LONG_USEC / 1000)), 1);
                while (cgtree_owner_dispatch(owner, NULL, &events) == 1)
                        seen |= events;
        }
        ck_assert_uint_eq(seen & CGTREE_EVENT_ROOT_STOPPED, 0);
        owned_exit_is(tree, CLD_EXITED, 3);
        cgtree_tree_free(tree);
        owned_close();
}
END_TEST

/* A program that reaps everything loses the status at most (kernels with PIDFD_INFO_EXIT tell it all the same). */
START_TEST(settles_though_the_host_reaped_the_root) {
        owned_open(placements[_i]);
        cgtree_command *command = owned_command("read x; exit 7");
        cgtree_command_set_fd(command, 0, CGTREE_FD_PIPE);
        cgtree_tree *tree = owned_spawn_command(command);
        pid_t root = cgtree_tree_get_root(tree);
        close(cgtree_tree_take_fd(tree, 0));
        if (placement == CGTREE_PLACEMENT_SUBTREE)
                ck_assert_int_eq(waitpid(-1, NULL, 0), root);
        else
                while (waitpid(-1, NULL, 0) > 0)
                        ;
        ck_assert_int_eq(cgtree_tree_wait_empty(tree, LONG_USEC), 0);
        int code = 0, status = 0, r = cgtree_tree_get_exit(tree, &code, &status);
        ck_assert(r == -ENODATA || (r == 0 && code == CLD_EXITED && status == 7));
        cgtree_tree_free(tree);

        signal(SIGCHLD, SIG_IGN);
        tree = owned_spawn("exit 8");
        ck_assert_int_eq(cgtree_tree_wait_empty(tree, LONG_USEC), 0);
        r = cgtree_tree_get_exit(tree, &code, &status);
        ck_assert(r == -ENODATA || (r == 0 && code == CLD_EXITED && status == 8));
        cgtree_tree_free(tree);
        owned_close();
}
END_TEST

START_TEST(many_cycles_leave_nothing) {
        owned_open(placements[_i]);
        cgtree_command *command = owned_command("exit 0");
        int code, status;
        ck_assert_int_eq(cgtree_run(owner, command, &code, &status), 0);
        size_t n_fds = owned_count_fds();
        for (int i = 0; i < 100; i++)
                ck_assert_int_eq(cgtree_run(owner, command, &code, &status), 0);
        ck_assert_uint_eq(owned_count_fds(), n_fds);
        cgtree_command_free(command);
        owned_close();
}
END_TEST

START_TEST(a_living_tree_costs_three_descriptors_at_most) {
        owned_open(placements[_i]);
        ck_assert_int_ge(cgtree_owner_get_fd(owner), 0);
        size_t n_fds = owned_count_fds();
        for (int i = 0; i < 10; i++)
                cgtree_tree_free(owned_spawn(i % 2 ? "sleep 1000" : "sleep 1000 & exit 0"));
        ck_assert_uint_le(owned_count_fds(), n_fds + 30);
        ck_assert_int_eq(cgtree_owner_terminate_all(owner, CGTREE_DEFAULT, LONG_USEC), 0);
        ck_assert_uint_eq(owned_count_fds(), n_fds);
        owned_close();
}
END_TEST

int main(void) {
        Suite *suite = suite_create("tree");
        TCase *tcase = tcase_create("tree");
        tcase_set_timeout(tcase, 60);
        tcase_add_loop_test(tcase, ends_as_its_command_did, 0, N_PLACEMENTS);
        tcase_add_loop_test(tcase, runs_in_one_call, 0, N_PLACEMENTS);
        tcase_add_loop_test(tcase, keeps_what_a_finished_command_left, 0, N_PLACEMENTS);
        tcase_add_loop_test(tcase, ends_what_is_left_with_its_root_if_told_so, 0, N_PLACEMENTS);
        tcase_add_loop_test(tcase, kills_after_the_grace_what_ignores_the_signal, 0, N_PLACEMENTS);
        tcase_add_loop_test(tcase, timeout_terminates, 0, N_PLACEMENTS);
        tcase_add_loop_test(tcase, root_alone_gets_the_signal_if_told_so, 0, N_PLACEMENTS);
        tcase_add_loop_test(tcase, child_begins_with_an_empty_mask_and_defaults, 0, N_PLACEMENTS);
        tcase_add_loop_test(tcase, pipes_go_both_ways, 0, N_PLACEMENTS);
        tcase_add_loop_test(tcase, names_the_step_that_failed, 0, N_PLACEMENTS);
        tcase_add_loop_test(tcase, a_name_is_taken_once, 0, N_PLACEMENTS);
        tcase_add_test(tcase, a_stop_that_was_resumed_is_no_news);
        tcase_add_loop_test(tcase, settles_though_the_host_reaped_the_root, 0, N_PLACEMENTS);
        tcase_add_loop_test(tcase, many_cycles_leave_nothing, 0, N_PLACEMENTS);
        tcase_add_loop_test(tcase, a_living_tree_costs_three_descriptors_at_most, 0, N_PLACEMENTS);
        suite_add_tcase(suite, tcase);
        return owned_run(suite);
}
