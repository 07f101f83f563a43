/* SPDX-License-Identifier: MIT */
#include "cgroup-limits.h"
#include "cgroups.h"
#include "owned.h"

/* Limits, as far as a machine goes without controllers: what they are called, who is moved, and how each refusal reads. What they
 * hold is seen by tests/vm/limits.py. */

START_TEST(are_named) {
        static const char *const names[] = { "", "memory", "tasks", "memory and tasks", "cpu", "memory and cpu",
                "tasks and cpu", "memory, tasks and cpu" };
        for (unsigned mask = 0; mask < 8; mask++) {
                _cleanup_free_ char *name = limits_name(mask);
                ck_assert_str_eq(name, names[mask]);
        }
        const struct limits limits = { { [CGTREE_LIMIT_MEMORY] = 1, [CGTREE_LIMIT_CPU] = 500 } };
        ck_assert_uint_eq(limits_mask(&limits), 1U << CGTREE_LIMIT_MEMORY | 1U << CGTREE_LIMIT_CPU);
}
END_TEST

START_TEST(options_take_no_nonsense) {
        cgtree_command *command = owned_command("exit 0");
        ck_assert_int_eq(cgtree_command_set_limit(NULL, CGTREE_LIMIT_MEMORY, 1), -EINVAL);
        ck_assert_int_eq(cgtree_command_set_limit(command, CGTREE_LIMIT_CPU + 1, 1), -EINVAL);
        ck_assert_int_eq(cgtree_command_set_limit(command, CGTREE_LIMIT_CPU, UINT64_MAX), -EINVAL);
        ck_assert_int_eq(cgtree_command_set_limit(command, CGTREE_LIMIT_CPU, 0), 0);
        cgtree_command_free(command);
        owner = owned_new(CGTREE_PLACEMENT_AUTO);
        ck_assert_int_eq(cgtree_owner_set_limits(NULL, 0), -EINVAL);
        ck_assert_int_eq(cgtree_owner_set_limits(owner, 8), -EINVAL);
        ck_assert_int_eq(cgtree_owner_set_may_move_self(NULL, true), -EINVAL);
        ck_assert_int_eq(cgtree_examine(NULL, NULL, NULL), -EINVAL);
        cgtree_owner_free(owner);
        close(records);
}
END_TEST

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

/* In a cgroup of its own, which has what its parent enables for it: nothing. */
START_TEST(a_controller_that_is_not_there) {
        struct cgroup cgroup = cgroups_new("bare");
        _cleanup_free_ char *reason = NULL, *unset = NULL;
        unsigned enabled;
        ck_assert_int_eq(limits_enable(&cgroup, 1U << CGTREE_LIMIT_TASKS, &enabled, &reason), -EOPNOTSUPP);
        ck_assert_ptr_nonnull(strstr(reason, cgroup.path));
        ck_assert_ptr_nonnull(strstr(reason, "no 'pids' controller"));
        const struct limits limits = { { [CGTREE_LIMIT_TASKS] = 5 } };
        ck_assert_int_eq(limits_set(&cgroup, &limits, 0, &unset), -ENOENT);
        ck_assert_ptr_nonnull(strstr(unset, "pids.max"));
        _cleanup_free_ char *unseen = NULL, *none = NULL;
        ck_assert_int_eq(limits_check(&cgroup, &limits, &unseen), -EOPNOTSUPP);
        ck_assert_ptr_nonnull(strstr(unseen, "not limited in tasks"));
        ck_assert_ptr_nonnull(strstr(unseen, "'pids' controller"));
        ck_assert_int_eq(limits_check(&cgroup, &(const struct limits){ { 0 } }, &none), 0);
        ck_assert_int_lt(limits_out_of_memory(&cgroup), 0);
        cgroup_done(&cgroup);
}
END_TEST

static void check_refusal(enum cgtree_placement wanted, unsigned limits, const char *word) {
        owner = owned_new(wanted);
        ck_assert_int_eq(cgtree_owner_set_base(owner, cgroups_base.path), 0);
        ck_assert_int_eq(cgtree_owner_set_limits(owner, limits), 0);
        ck_assert_int_eq(cgtree_owner_open(owner, LONG_USEC), -EOPNOTSUPP);
        ck_assert_msg(strstr(cgtree_owner_get_error(owner), word), "%s", cgtree_owner_get_error(owner));
        ck_assert_ptr_nonnull(cgtree_owner_get_reason(owner, CGTREE_PLACEMENT_SUBTREE));
        cgtree_owner_free(owner);
        ck_assert_uint_eq(scratch_count(records), 0);
        close(records);
}

START_TEST(an_owner_says_which_limit_it_cannot_have_and_why) {
        struct stat before, after;
        fstat(cgroups_base.fd, &before);
        check_refusal(CGTREE_PLACEMENT_SUBTREE, 1U << CGTREE_LIMIT_MEMORY, "no limit of memory");
        check_refusal(CGTREE_PLACEMENT_AUTO, 1U << CGTREE_LIMIT_MEMORY, "no 'memory' controller");
        check_refusal(CGTREE_PLACEMENT_AUTO, 1U << CGTREE_LIMIT_CPU, cgroups_base.path);
        fstat(cgroups_base.fd, &after);
        ck_assert_uint_eq(before.st_nlink, after.st_nlink); /* nothing was left in it */
}
END_TEST

START_TEST(a_process_group_is_never_limited) {
        owner = owned_new(CGTREE_PLACEMENT_GROUP);
        ck_assert_int_eq(cgtree_owner_set_limits(owner, 1U << CGTREE_LIMIT_TASKS), 0);
        ck_assert_int_eq(cgtree_owner_open(owner, 0), -EOPNOTSUPP);
        ck_assert_ptr_nonnull(strstr(cgtree_owner_get_error(owner), "process group cannot be limited in tasks"));
        ck_assert_ptr_nonnull(cgtree_owner_get_reason(owner, CGTREE_PLACEMENT_GROUP));
        cgtree_owner_free(owner);
        close(records);
}
END_TEST

START_TEST(a_command_has_limits_that_its_owner_was_opened_for) {
        const char *words;
        owned_open(placements[_i]);
        cgtree_command *command = owned_command("exit 0");
        ck_assert_int_eq(cgtree_command_set_limit(command, CGTREE_LIMIT_TASKS, 5), 0);
        ck_assert_int_eq(cgtree_spawn(owner, command, NULL), -EOPNOTSUPP);
        ck_assert_int_eq(cgtree_command_get_error(command, &words), CGTREE_STEP_PLACE);
        ck_assert_ptr_nonnull(strstr(words, "limit of tasks"));
        ck_assert_int_eq(cgtree_command_set_limit(command, CGTREE_LIMIT_TASKS, 0), 0);
        ck_assert_int_eq(cgtree_run(owner, command, NULL, NULL), 0);
        cgtree_command_free(command);
        owned_close();
}
END_TEST

/* ---- who is moved ------------------------------------------------------------------------------------------------ */

START_TEST(moves_those_it_may_and_all_or_none) {
        struct cgroup from = cgroups_new("from"), to = cgroups_child(&from, "to");
        struct payload first = payload_start(&from, payload_obedient), second = payload_start(&from, payload_obedient);
        _cleanup_free_ char *reason = NULL;
        pid_t pids[] = { first.pid, getpid() };
        char name[32];

        ck_assert_int_eq(limits_move_members(&from, &to, pids, 2, &reason), -EBUSY);
        snprintf(name, sizeof(name), "pid %d (", (int)second.pid);
        ck_assert_msg(strstr(reason, name), "%s", reason);
        ck_assert_int_eq(cgroup_is_populated(&to), 0);

        /* We are not in it, so we stay where we are. */
        pid_t all[] = { first.pid, second.pid, getpid() };
        ck_assert_int_eq(limits_move_members(&from, &to, all, 3, &reason), 0);
        ck_assert_int_eq(cgroup_contains(&to, first.pid), 1);
        ck_assert_int_eq(cgroup_contains(&to, second.pid), 1);
        ck_assert_int_eq(cgroup_contains(&to, 0), 0);
        ck_assert_int_eq(limits_move_members(&from, &to, NULL, 0, &reason), 0);
        cgroups_strike(&from);
        payload_await_eof(&first);
        payload_await_eof(&second);
        cgroup_done(&to);
        cgroup_done(&from);
}
END_TEST

int main(void) {
        Suite *suite = suite_create("limits");
        TCase *tcase = tcase_create("limits");
        tcase_set_timeout(tcase, 60);
        tcase_add_test(tcase, are_named);
        tcase_add_test(tcase, options_take_no_nonsense);
        tcase_add_test(tcase, a_controller_that_is_not_there);
        tcase_add_test(tcase, an_owner_says_which_limit_it_cannot_have_and_why);
        tcase_add_test(tcase, a_process_group_is_never_limited);
        tcase_add_loop_test(tcase, a_command_has_limits_that_its_owner_was_opened_for, 0, N_PLACEMENTS);
        tcase_add_test(tcase, moves_those_it_may_and_all_or_none);
        suite_add_tcase(suite, tcase);
        return cgroups_run(suite);
}
