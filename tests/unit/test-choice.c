/* SPDX-License-Identifier: MIT */
#include "owned.h"

#include "scope.h"

/* What an owner makes of a manager of systemd's that is slow, gone, or does as it likes. Needs one: tests/e2e/userhost.sh. */

#define A_CALL_USEC   USEC_PER_SEC       /* on a busy machine; a manager that is waited for takes 3 s */
#define GIVEN_UP_USEC (8 * USEC_PER_SEC) /* on a busy machine; 3.2 s on an idle one */

static pid_t manager;

static void find_manager(void) {
        _cleanup_free_ char *path = format("%s/manager/init.scope/cgroup.procs", getenv("CG"));
        char text[64];
        ck_assert_int_gt(read_file_at(AT_FDCWD, path, text, sizeof(text)), 0);
        text[strcspn(text, "\n")] = '\0';
        ck_assert_int_eq(parse_pid(text, &manager), 0);
}

static void stop_manager(void) {
        ck_assert_int_eq(kill(manager, SIGSTOP), 0);
}

static void continue_manager(void) {
        ck_assert_int_eq(kill(manager, SIGCONT), 0);
}

/* As from a login: what lies above us and the manager's part is not ours. */
static void set_distance(bool far) {
        _cleanup_free_ char *path = format("%s/cgroup.procs", getenv("CG"));
        ck_assert_int_eq(chmod(path, far ? 0444 : 0644), 0);
}

/* As a test that failed may not have left it. */
static void begin(void) {
        find_manager();
        continue_manager();
        set_distance(false);
}

static uint64_t longest;

static int dispatch_once(cgtree_tree **ret_tree, unsigned *ret_events) {
        uint64_t before = now_usec();
        int r = cgtree_owner_dispatch(owner, ret_tree, ret_events);
        uint64_t took = now_usec() - before;
        if (took > longest)
                longest = took;
        return r;
}

static void await_event(cgtree_tree *wanted_tree, unsigned wanted) {
        for (uint64_t until = now_usec() + LONG_USEC; now_usec() < until;) {
                struct pollfd source = { .fd = cgtree_owner_get_fd(owner), .events = POLLIN };
                cgtree_tree *tree;
                unsigned events;
                (void)poll(&source, 1, 100);
                int r;
                while ((r = dispatch_once(&tree, &events)) > 0)
                        if (tree == wanted_tree && (events & wanted))
                                return;
                ck_assert_int_eq(r, 0);
        }
        ck_abort_msg("the event did not come");
}

static char *cgroup_of(pid_t pid) {
        char *path = NULL;
        ck_assert_int_eq(cgroup_path_of(pid, &path), 0);
        return path;
}

START_TEST(a_stopped_manager_holds_nobody_up) {
        uint64_t began = now_usec();
        stop_manager();
        owner = owned_new(CGTREE_PLACEMENT_AUTO);
        placement = CGTREE_PLACEMENT_GROUP;
        ck_assert_int_eq(cgtree_owner_begin_open(owner), 0);
        ck_assert_uint_lt(now_usec() - began, A_CALL_USEC);
        await_event(NULL, CGTREE_EVENT_OPENED);
        ck_assert_int_eq(cgtree_owner_get_placement(owner), CGTREE_PLACEMENT_GROUP);
        ck_assert_ptr_nonnull(strstr(cgtree_owner_get_reason(owner, CGTREE_PLACEMENT_SUBTREE), "does not answer"));
        cgtree_command *command = owned_command("sleep 1000");
        cgtree_tree *tree;
        ck_assert_int_eq(cgtree_begin_spawn(owner, command, &tree), 0);
        await_event(tree, CGTREE_EVENT_STARTED);
        ck_assert_uint_lt(now_usec() - began, GIVEN_UP_USEC);
        ck_assert_uint_lt(longest, A_CALL_USEC);

        /* Whatever it finds when it goes on, the command is where it was. */
        _cleanup_free_ char *before = cgroup_of(cgtree_tree_get_root(tree));
        continue_manager();
        usleep(300000);
        _cleanup_free_ char *after = cgroup_of(cgtree_tree_get_root(tree));
        ck_assert_str_eq(before, after);
        ck_assert_int_eq(cgtree_tree_wait_root(tree, 0), -ETIMEDOUT);
        ck_assert_int_eq(cgtree_tree_kill(tree, LONG_USEC), 0);
        cgtree_tree_free(tree);
        cgtree_command_free(command);
        owned_close();
}
END_TEST

START_TEST(far_from_the_manager_each_tree_has_a_scope) {
        set_distance(true);
        owned_open(CGTREE_PLACEMENT_AUTO);
        ck_assert_int_eq(cgtree_owner_get_placement(owner), CGTREE_PLACEMENT_SCOPE);
        ck_assert_ptr_nonnull(strstr(cgtree_owner_get_reason(owner, CGTREE_PLACEMENT_SUBTREE), "not writable"));
        cgtree_tree *tree = owned_spawn("exit 4");
        ck_assert_int_eq(cgtree_tree_wait_empty(tree, LONG_USEC), 0);
        owned_exit_is(tree, CLD_EXITED, 4);
        cgtree_tree_free(tree);

        /* The manager stops: then a group it is, for good. */
        stop_manager();
        cgtree_command *command = owned_command("exit 5");
        uint64_t began = now_usec();
        ck_assert_int_eq(cgtree_begin_spawn(owner, command, &tree), 0);
        ck_assert_uint_lt(now_usec() - began, A_CALL_USEC);
        await_event(tree, CGTREE_EVENT_ROOT_ENDED);
        ck_assert_uint_lt(now_usec() - began, GIVEN_UP_USEC);
        ck_assert_uint_lt(longest, A_CALL_USEC);
        owned_exit_is(tree, CLD_EXITED, 5);
        ck_assert_int_eq(cgtree_tree_get_placement(tree), CGTREE_PLACEMENT_GROUP);
        ck_assert_int_eq(cgtree_tree_kill(tree, LONG_USEC), 0);
        cgtree_tree_free(tree);
        cgtree_command_free(command);
        continue_manager();
        ck_assert_int_eq(cgtree_owner_get_placement(owner), CGTREE_PLACEMENT_GROUP);
        owned_close();
        set_distance(false);
}
END_TEST

START_TEST(asked_for_it_fails_instead) {
        owned_open(CGTREE_PLACEMENT_SCOPE);
        stop_manager();
        cgtree_command *command = owned_command("exit 0");
        const char *message;
        ck_assert_int_eq(cgtree_spawn(owner, command, NULL), -ETIMEDOUT);
        ck_assert_int_eq(cgtree_command_get_error(command, &message), CGTREE_STEP_PLACE);
        ck_assert_ptr_nonnull(strstr(message, "does not answer"));
        cgtree_command_free(command);
        continue_manager();
        owned_close();
}
END_TEST

START_TEST(cancelled_while_the_scope_is_awaited) {
        owned_open(CGTREE_PLACEMENT_SCOPE);
        stop_manager();
        cgtree_command *command = owned_command("exit 0");
        cgtree_tree *tree;
        ck_assert_int_eq(cgtree_begin_spawn(owner, command, &tree), 0);
        ck_assert_int_eq(cgtree_tree_kill(tree, USEC_PER_SEC), 0);
        ck_assert_int_eq(cgtree_tree_get_error(tree, NULL, NULL), -ECANCELED);
        cgtree_tree_free(tree);
        cgtree_command_free(command);
        continue_manager();
        owned_close();
}
END_TEST

START_TEST(closed_while_it_opens) {
        stop_manager();
        for (int guarded = 0; guarded < 2; guarded++) {
                owner = owned_new(CGTREE_PLACEMENT_AUTO);
                ck_assert_int_eq(cgtree_owner_set_guard_is_child(owner, true), 0);
                if (guarded) { /* as far as the guard, then it stops */
                        continue_manager();
                        ck_assert_int_eq(cgtree_owner_begin_open(owner), 0);
                        for (uint64_t until = now_usec() + LONG_USEC;
                                owner->home.guard.socket < 0 && now_usec() < until;)
                                ck_assert_int_ge(owner_is_ready(owner), 0);
                        stop_manager();
                        (void)owner_is_ready(owner);
                } else
                        ck_assert_int_eq(cgtree_owner_begin_open(owner), 0);
                uint64_t before = now_usec();
                owned_close();
                ck_assert_uint_lt(now_usec() - before, USEC_PER_SEC);
        }
        continue_manager();
}
END_TEST

/* Somebody has put the root elsewhere: the scope, empty, goes, and the command does not. */
START_TEST(a_root_that_is_taken_away) {
        owned_open(CGTREE_PLACEMENT_SCOPE);
        cgtree_command *command = owned_command("trap 'exit 7' USR1; echo ready; while :; do sleep 0.01; done");
        cgtree_tree *tree = owned_spawn_ready(command, NULL);
        char id[ID_LENGTH + 1];
        ck_assert_int_eq(id_random(id), 0);
        _cleanup_free_ char *unit = format("cgtree\\x2dtest-%s.scope", id), *cgroup = NULL, *reason = NULL;
        struct scope_request request = {
                .unit = unit,
                .description = "a test of cgtree",
                .slice = "app.slice",
                .pid = cgtree_tree_get_root(tree),
                .pidfd = -1,
                .stop_usec = USEC_PER_SEC,
        };
        struct bus *bus;
        struct scope *scope;
        ck_assert_int_eq(bus_open(BUS_USER, LONG_USEC, &bus, &reason), 0);
        ck_assert_int_eq(scope_begin(bus, &request, &scope), 0);
        int r;
        while ((r = scope_step(scope, &cgroup, &reason)) == 0)
                usleep(1000);
        ck_assert_msg(r == 1, "%s", reason);
        scope_free(scope);
        bus_close(bus);
        for (uint64_t until = now_usec() + LONG_USEC; !cgtree_tree_get_stray(tree) && now_usec() < until;)
                ck_assert_int_eq(cgtree_tree_wait_root(tree, 50 * USEC_PER_MSEC), -ETIMEDOUT);
        ck_assert_str_eq(cgtree_tree_get_stray(tree), cgroup);
        ck_assert_int_eq(cgtree_tree_signal(tree, SIGUSR1, true), 0);
        ck_assert_int_eq(cgtree_tree_wait_empty(tree, LONG_USEC), 0);
        owned_exit_is(tree, CLD_EXITED, 7);
        cgtree_tree_free(tree);
        owned_close();
}
END_TEST

START_TEST(without_a_record_nothing_runs) {
        owned_open(CGTREE_PLACEMENT_SCOPE);
        ck_assert_int_eq(fchmod(records, 0500), 0);
        cgtree_command *command = owned_command("exit 0");
        ck_assert_int_eq(cgtree_spawn(owner, command, NULL), -EACCES);
        ck_assert_int_eq(cgtree_command_get_error(command, NULL), CGTREE_STEP_RECORD);
        cgtree_command_free(command);
        ck_assert_int_eq(fchmod(records, 0700), 0);
        owned_close();
}
END_TEST

static void kill_guard(void) {
        ck_assert_int_eq(pidfd_signal(owner->home.guard.pidfd, SIGKILL), 0);
        while (pidfd_is_dead(owner->home.guard.pidfd) != 1)
                usleep(1000);
}

/* With nobody in it the scope goes, too. */
START_TEST(a_scope_whose_guard_was_killed) {
        owned_open(CGTREE_PLACEMENT_SUBTREE);
        _cleanup_free_ char *first = strdup(owner->home.scope);
        kill_guard();
        struct cgroup gone = CGROUP_NONE;
        while (cgroup_open(owner->home.base.path, &gone) >= 0) {
                cgroup_done(&gone);
                usleep(1000);
        }
        cgtree_tree *tree = owned_spawn("exit 3");
        ck_assert_str_ne(owner->home.scope, first);
        ck_assert_ptr_nonnull(strstr(cgtree_tree_get_cgroup(tree), owner->home.scope));
        ck_assert_int_eq(cgtree_tree_wait_empty(tree, LONG_USEC), 0);
        owned_exit_is(tree, CLD_EXITED, 3);
        cgtree_tree_free(tree);

        /* With a tree in it, it stays, and gets a new guard. */
        free(first);
        first = strdup(owner->home.scope);
        tree = owned_spawn("sleep 1000");
        kill_guard();
        cgtree_tree *second = owned_spawn("exit 4");
        ck_assert_str_eq(owner->home.scope, first);
        _cleanup_free_ char *where = cgroup_of(owner->home.guard.guard_pid);
        ck_assert_str_eq(where, owner->home.base.path);
        ck_assert_int_eq(cgtree_tree_wait_empty(second, LONG_USEC), 0);
        cgtree_tree_free(second);
        ck_assert_int_eq(cgtree_tree_kill(tree, LONG_USEC), 0);
        cgtree_tree_free(tree);
        owned_close();
}
END_TEST

int main(void) {
        if (!getenv("CGTREE_TEST_MANAGER")) {
                printf("skipped: it takes a manager of systemd's: choice-manager has one\n");
                return 77;
        }
        Suite *suite = suite_create("choice");
        TCase *tcase = tcase_create("choice");
        tcase_set_timeout(tcase, 60);
        tcase_add_checked_fixture(tcase, begin, NULL);
        tcase_add_test(tcase, a_stopped_manager_holds_nobody_up);
        tcase_add_test(tcase, far_from_the_manager_each_tree_has_a_scope);
        tcase_add_test(tcase, asked_for_it_fails_instead);
        tcase_add_test(tcase, cancelled_while_the_scope_is_awaited);
        tcase_add_test(tcase, closed_while_it_opens);
        tcase_add_test(tcase, a_root_that_is_taken_away);
        tcase_add_test(tcase, without_a_record_nothing_runs);
        tcase_add_test(tcase, a_scope_whose_guard_was_killed);
        suite_add_tcase(suite, tcase);
        return owned_run(suite);
}
