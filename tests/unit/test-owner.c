/* SPDX-License-Identifier: MIT */
#include "owned.h"

#include <pthread.h>
#include <sys/file.h>

/* An owner: opening, its one descriptor, threads, forks and teardown. */

START_TEST(says_why_it_cannot_open) {
        owner = owned_new(CGTREE_PLACEMENT_SUBTREE);
        ck_assert_int_eq(cgtree_owner_set_base(owner, "/there-is-no-such-cgroup"), 0);
        ck_assert_int_eq(cgtree_owner_open(owner, 0), -EOPNOTSUPP);
        ck_assert_ptr_nonnull(strstr(cgtree_owner_get_error(owner), "/there-is-no-such-cgroup"));
        ck_assert_ptr_nonnull(cgtree_owner_get_reason(owner, CGTREE_PLACEMENT_SUBTREE));
        cgtree_command *command = owned_command("exit 0");
        ck_assert_int_eq(cgtree_spawn(owner, command, NULL), -ENOTCONN);
        cgtree_command_free(command);
        ck_assert_int_eq(cgtree_owner_set_placement(owner, CGTREE_PLACEMENT_AUTO, CGTREE_GUARANTEE_GROUP), 0);
        ck_assert_int_eq(cgtree_owner_open(owner, 0), 0);
        ck_assert_int_eq(cgtree_owner_get_placement(owner), CGTREE_PLACEMENT_GROUP);
        ck_assert_int_eq(cgtree_owner_get_guarantee(owner), CGTREE_GUARANTEE_GROUP);
        ck_assert_ptr_nonnull(cgtree_owner_get_reason(owner, CGTREE_PLACEMENT_SUBTREE));
        ck_assert_ptr_null(cgtree_owner_get_reason(owner, CGTREE_PLACEMENT_GROUP));
        ck_assert_int_eq(cgtree_owner_open(owner, 0), -EALREADY);
        ck_assert_int_eq(cgtree_owner_set_records(owner, "/tmp"), -EALREADY);
        owned_close();

        owner = owned_new(CGTREE_PLACEMENT_AUTO);
        ck_assert_int_eq(cgtree_owner_set_records(owner, "/proc/nonexistent/x"), 0);
        ck_assert_int_lt(cgtree_owner_open(owner, 0), 0);
        ck_assert_ptr_nonnull(strstr(cgtree_owner_get_error(owner), "/proc/nonexistent/x"));
        cgtree_owner_free(owner);
        close(records);
}
END_TEST

START_TEST(every_call_takes_nonsense) {
        ck_assert_int_eq(cgtree_owner_new(NULL), -EINVAL);
        ck_assert_int_eq(cgtree_owner_open(NULL, 0), -EINVAL);
        ck_assert_int_eq(cgtree_owner_close(NULL, 0, 0), -EINVAL);
        ck_assert_int_eq(cgtree_owner_terminate_all(NULL, 0, 0), -EINVAL);
        ck_assert_int_eq(cgtree_owner_dispatch(NULL, NULL, NULL), -EINVAL);
        ck_assert_int_eq(cgtree_owner_get_fd(NULL), -EINVAL);
        ck_assert_int_eq(cgtree_spawn(NULL, NULL, NULL), -EINVAL);
        ck_assert_int_eq(cgtree_tree_kill(NULL, 0), -EINVAL);
        ck_assert_int_eq(cgtree_tree_terminate(NULL, 0, 0), -EINVAL);
        ck_assert_int_eq(cgtree_tree_signal(NULL, 15, false), -EINVAL);
        ck_assert_int_eq(cgtree_tree_get_fd(NULL), -EINVAL);
        ck_assert_int_eq(cgtree_tree_dispatch(NULL), -EINVAL);
        ck_assert_ptr_null(cgtree_tree_get_id(NULL));
        cgtree_tree_free(NULL);
        cgtree_owner_free(NULL);
}
END_TEST

/* ---- the loop ------------------------------------------------------------------------------------------------- */

static void wait_readable(int fd) {
        struct pollfd source = { .fd = fd, .events = POLLIN };
        ck_assert_int_eq(poll(&source, 1, (int)(LONG_USEC / 1000)), 1);
}

START_TEST(one_descriptor_tells_of_all_trees) {
        enum { N = 20 };
        unsigned seen[N] = { 0 };
        owner = owned_new(placements[_i]);
        ck_assert_int_eq(cgtree_owner_begin_open(owner), 0);
        cgtree_tree *tree;
        unsigned events;
        int r;
        do {
                wait_readable(cgtree_owner_get_fd(owner));
                r = cgtree_owner_dispatch(owner, &tree, &events);
        } while (r == 0);
        ck_assert_int_eq(r, 1);
        ck_assert_ptr_null(tree);
        ck_assert_uint_eq(events, CGTREE_EVENT_OPENED);

        cgtree_command *command = owned_command("sleep 1000 & exit 5");
        cgtree_command_set_end_with_root(command, true);
        for (size_t i = 0; i < N; i++) {
                ck_assert_int_eq(cgtree_begin_spawn(owner, command, &tree), 0);
                cgtree_tree_set_userdata(tree, &seen[i]);
        }
        cgtree_command_free(command);
        for (size_t n_empty = 0; n_empty < N;) {
                wait_readable(cgtree_owner_get_fd(owner));
                while (cgtree_owner_dispatch(owner, &tree, &events) == 1) {
                        unsigned *mine = cgtree_tree_get_userdata(tree);
                        ck_assert_uint_eq(*mine & events, 0); /* each event once */
                        *mine |= events;
                        if (!(events & CGTREE_EVENT_EMPTY))
                                continue;
                        owned_exit_is(tree, CLD_EXITED, 5);
                        cgtree_tree_free(tree);
                        n_empty++;
                }
        }
        for (size_t i = 0; i < N; i++)
                ck_assert_uint_eq(seen[i], CGTREE_EVENT_STARTED | CGTREE_EVENT_ROOT_ENDED | CGTREE_EVENT_EMPTY);
        struct pollfd quiet = { .fd = cgtree_owner_get_fd(owner), .events = POLLIN };
        ck_assert_int_eq(poll(&quiet, 1, 0), 0);
        owned_close();
}
END_TEST

/* Its successor has a socket of its own, mostly of the same number: that is what the descriptor has to wait for. */
START_TEST(a_guard_killed_at_once_has_a_successor) {
        owner = owned_new(CGTREE_PLACEMENT_SUBTREE);
        ck_assert_int_eq(cgtree_owner_set_guard_is_child(owner, true), 0);
        ck_assert_int_eq(cgtree_owner_begin_open(owner), 0);
        if (owner->home.guard.pid > 0)
                ck_assert_int_eq(kill(owner->home.guard.pid, SIGKILL), 0);
        unsigned events;
        int r;
        do {
                wait_readable(cgtree_owner_get_fd(owner));
                r = cgtree_owner_dispatch(owner, NULL, &events);
        } while (r == 0);
        ck_assert_int_eq(r, 1);
        ck_assert_uint_eq(events, CGTREE_EVENT_OPENED);
        owned_close();
}
END_TEST

START_TEST(a_trees_own_descriptor_is_enough) {
        owned_open(placements[_i]);
        cgtree_tree *other = owned_spawn("exit 1");
        cgtree_tree *tree = owned_spawn("trap '' TERM; sleep 1000 & sleep 0.05; exit 6");
        int fd = cgtree_tree_get_fd(tree);
        ck_assert_int_ge(fd, 0);
        ck_assert_int_eq(cgtree_tree_get_fd(tree), fd);
        unsigned seen = 0;
        while (!(seen & CGTREE_EVENT_ROOT_ENDED)) {
                wait_readable(fd);
                seen |= (unsigned)cgtree_tree_dispatch(tree);
        }
        ck_assert_int_eq(cgtree_tree_begin_terminate(tree, 50 * USEC_PER_MSEC), 0);
        while (!(seen & CGTREE_EVENT_EMPTY)) {
                wait_readable(fd);
                int events = cgtree_tree_dispatch(tree);
                ck_assert_int_eq(events & (int)seen, 0);
                seen |= (unsigned)events;
        }
        owned_exit_is(tree, CLD_EXITED, 6);
        cgtree_tree_free(tree);
        ck_assert_int_eq(cgtree_tree_wait_empty(other, LONG_USEC), 0);
        cgtree_tree_free(other);
        owned_close();
}
END_TEST

START_TEST(a_birth_can_be_cancelled) {
        owned_open(CGTREE_PLACEMENT_SUBTREE);
        ck_assert_int_eq(cgroup_freeze(&owner->home.trees, true), 0);
        cgtree_command *command = owned_command("exit 0");
        cgtree_tree *tree;
        uint64_t before = now_usec();
        ck_assert_int_eq(cgtree_begin_spawn(owner, command, &tree), 0);
        ck_assert_uint_lt(now_usec() - before, USEC_PER_SEC);
        ck_assert_int_eq(cgtree_tree_begin_kill(tree), 0);
        unsigned seen = 0;
        while (!(seen & (CGTREE_EVENT_FAILED | CGTREE_EVENT_EMPTY))) {
                wait_readable(cgtree_owner_get_fd(owner));
                unsigned events;
                while (cgtree_owner_dispatch(owner, NULL, &events) == 1)
                        seen |= events;
        }
        ck_assert_uint_eq(seen, CGTREE_EVENT_FAILED);
        ck_assert_int_eq(cgtree_tree_get_error(tree, NULL, NULL), -ECANCELED);
        ck_assert_int_eq(cgroup_freeze(&owner->home.trees, false), 0);
        cgtree_tree_free(tree);
        cgtree_command_free(command);
        owned_close();
}
END_TEST

/* ---- the kernel kills the newborn ------------------------------------------------------------------------------ */

/* Bug B2: a parent that lives in a cgroup that was killed once gets its children SIGKILLed when they are born into another.
 * On kernels without it the first birth succeeds: then this says no more than that. */
START_TEST(a_newborn_killed_by_the_kernel_is_born_again) {
        struct cgroup own = CGROUP_NONE, base = CGROUP_NONE;
        _cleanup_free_ char *path = NULL;
        char name[32];
        ck_assert_int_eq(cgroup_path_of(0, &path), 0);
        ck_assert_int_eq(cgroup_open(path, &own), 0);
        snprintf(name, sizeof(name), "cgtree-test-%d", (int)getpid());
        ck_assert_int_eq(cgroup_create(&own, name, &base), 0);
        ck_assert_int_eq(cgroup_kill(&base), 0);

        pid_t pid = fork();
        if (pid == 0) {
                if (write_file_at(base.fd, "cgroup.procs", "0") < 0)
                        _exit(9);
                owned_open(CGTREE_PLACEMENT_SUBTREE);
                cgtree_command *command = owned_command("exit 3");
                int code = 0, status = 0;
                for (int i = 0; i < 3; i++)
                        if (cgtree_run(owner, command, &code, &status) < 0 || status != 3)
                                _exit(8);
                cgtree_command_free(command);
                _exit(cgtree_owner_close(owner, 0, LONG_USEC) == 0 && scratch_count(records) == 0 ? 0 : 7);
        }
        int status;
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_int_eq(cgroup_remove(&own, name, LONG_USEC), 0);
        cgroup_done(&base);
        cgroup_done(&own);
        ck_assert_int_eq(status, 0);
}
END_TEST

/* An ender holds the lock: then a SIGKILL was asked for, and nothing is born again. */
START_TEST(a_newborn_killed_on_purpose_stays_dead) {
        owned_open(CGTREE_PLACEMENT_SUBTREE);
        ck_assert_int_eq(cgroup_freeze(&owner->home.trees, true), 0);
        cgtree_command *command = owned_command("exit 0");
        cgtree_tree *tree;
        ck_assert_int_eq(cgtree_begin_spawn(owner, command, &tree), 0);
        struct cgroup same = CGROUP_NONE;
        ck_assert_int_eq(cgroup_open(cgtree_tree_get_cgroup(tree), &same), 0);
        ck_assert_int_eq(flock(same.fd, LOCK_EX | LOCK_NB), 0);
        ck_assert_int_eq(cgroup_kill(&same), 0);
        ck_assert_int_eq(cgtree_tree_wait_empty(tree, LONG_USEC), 0);
        if (owner->no_clone_into) /* valgrind: its stub is the root already, and that was killed */
                owned_exit_is(tree, CLD_KILLED, SIGKILL);
        else
                ck_assert_int_eq(cgtree_tree_get_error(tree, NULL, NULL), -ECANCELED);
        ck_assert_int_eq(cgroup_freeze(&owner->home.trees, false), 0);
        cgroup_done(&same);
        cgtree_tree_free(tree);
        cgtree_command_free(command);
        owned_close();
}
END_TEST

START_TEST(the_home_is_made_anew) {
        owned_open(CGTREE_PLACEMENT_SUBTREE);
        ck_assert_int_eq(unlinkat(owner->home.directory.fd, "trees", AT_REMOVEDIR), 0);
        ck_assert_int_eq(unlinkat(owner->home.base.fd, strrchr(owner->home.directory.path, '/') + 1, AT_REMOVEDIR), 0);
        cgtree_tree *tree = owned_spawn("exit 2");
        ck_assert_int_eq(cgtree_tree_wait_empty(tree, LONG_USEC), 0);
        owned_exit_is(tree, CLD_EXITED, 2);
        cgtree_tree_free(tree);
        owned_close();
}
END_TEST

/* ---- fork and threads ----------------------------------------------------------------------------------------- */

START_TEST(a_forked_child_is_not_the_owner) {
        owned_open(placements[_i]);
        cgtree_tree *tree = owned_spawn("sleep 1000");
        cgtree_command *command = owned_command("exit 0");
        pid_t pid = fork();
        if (pid == 0) {
                bool right = cgtree_spawn(owner, command, NULL) == -ECHILD && cgtree_tree_kill(tree, 0) == -ECHILD &&
                             cgtree_owner_terminate_all(owner, 0, 0) == -ECHILD &&
                             cgtree_owner_close(owner, 0, 0) == -ECHILD && cgtree_owner_get_fd(owner) == -ECHILD &&
                             cgtree_tree_wait_root(tree, 0) == -ECHILD && cgtree_tree_get_id(tree) == NULL &&
                             cgtree_tree_dispatch(tree) == -ECHILD && cgtree_tree_get_root(tree) == 0;
                cgtree_tree_free(tree);
                cgtree_owner_free(owner);
                _exit(right ? 0 : 1);
        }
        int status;
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_int_eq(status, 0);
        ck_assert_int_eq(cgtree_tree_wait_root(tree, 0), -ETIMEDOUT); /* it lives */
        ck_assert_int_eq(cgtree_tree_kill(tree, LONG_USEC), 0);
        cgtree_tree_free(tree);
        cgtree_command_free(command);
        owned_close();
}
END_TEST

static void *spawn_many(void *argument) {
        for (int i = 0; i < 10; i++) {
                cgtree_command *command = owned_command("sleep 1000 & exit 5");
                int code = 0, status = 0;
                if (cgtree_run(owner, command, &code, &status) < 0 || code != CLD_EXITED || status != 5)
                        return argument;
                cgtree_command_free(command);
        }
        return NULL;
}

START_TEST(threads_share_an_owner) {
        owned_open(placements[_i]);
        pthread_t threads[4];
        for (size_t i = 0; i < 4; i++)
                ck_assert_int_eq(pthread_create(&threads[i], NULL, spawn_many, owner), 0);
        for (size_t i = 0; i < 4; i++) {
                void *failed;
                ck_assert_int_eq(pthread_join(threads[i], &failed), 0);
                ck_assert_ptr_null(failed);
        }
        owned_close();
}
END_TEST

static void *wait_forever(void *argument) {
        return (void *)(intptr_t)cgtree_tree_wait_empty(argument, CGTREE_FOREVER);
}

static bool is_taken(const cgtree_tree *tree) {
        pthread_mutex_lock(&owner->lock);
        bool taken = tree->busy;
        pthread_mutex_unlock(&owner->lock);
        return taken;
}

START_TEST(teardown_reaches_trees_that_threads_wait_for) {
        owned_open(placements[_i]);
        cgtree_tree *tree = owned_spawn("trap '' TERM; sleep 1000");
        cgtree_tree *other = owned_spawn("sleep 1000");
        pthread_t thread;
        ck_assert_int_eq(pthread_create(&thread, NULL, wait_forever, tree), 0);
        while (!is_taken(tree))
                sched_yield();
        ck_assert_int_eq(cgtree_tree_kill(tree, 0), -EBUSY);
        uint64_t before = now_usec();
        ck_assert_int_eq(cgtree_owner_terminate_all(owner, 50 * USEC_PER_MSEC, LONG_USEC), 0);
        ck_assert_uint_lt(now_usec() - before, LONG_USEC); /* it did not wait for its bound */
        void *result;
        ck_assert_int_eq(pthread_join(thread, &result), 0);
        ck_assert_ptr_null(result);
        ck_assert_int_eq(cgtree_tree_get_cause(tree), CGTREE_CAUSE_OWNER);
        int code, status;
        ck_assert_int_eq(cgtree_tree_get_exit(other, &code, &status), 0);
        ck_assert(status == SIGTERM || status == SIGKILL); /* on a slow machine the grace is short */
        cgtree_tree_free(tree);
        cgtree_tree_free(other);
        cgtree_tree_free(owned_spawn("sleep 1000")); /* it may spawn again */
        owned_close();
}
END_TEST

START_TEST(graces_run_side_by_side) {
        owned_open(placements[_i]);
        for (int i = 0; i < 5; i++)
                cgtree_tree_free(owned_spawn_ready(owned_command("trap '' TERM; echo ready; sleep 1000"), NULL));
        uint64_t before = now_usec();
        ck_assert_int_eq(cgtree_owner_terminate_all(owner, 300 * USEC_PER_MSEC, LONG_USEC), 0);
        uint64_t took = now_usec() - before;
        ck_assert_uint_ge(took, 300 * USEC_PER_MSEC);
        ck_assert_uint_lt(took, 5 * 300 * USEC_PER_MSEC);
        owned_close();
}
END_TEST

START_TEST(closed_means_closed) {
        owned_open(placements[_i]);
        cgtree_tree *tree = owned_spawn("sleep 1000");
        cgtree_tree_free(tree);
        ck_assert_int_eq(cgtree_owner_close(owner, CGTREE_DEFAULT, LONG_USEC), 0);
        ck_assert_int_eq(cgtree_owner_close(owner, CGTREE_DEFAULT, LONG_USEC), 0);
        cgtree_command *command = owned_command("exit 0");
        ck_assert_int_eq(cgtree_spawn(owner, command, NULL), -ESHUTDOWN);
        cgtree_command_free(command);
        ck_assert_uint_eq(scratch_count(records), 0);
        cgtree_owner_free(owner);
        close(records);
}
END_TEST

int main(void) {
        Suite *suite = suite_create("owner");
        TCase *tcase = tcase_create("owner");
        tcase_set_timeout(tcase, 60);
        tcase_add_test(tcase, says_why_it_cannot_open);
        tcase_add_test(tcase, every_call_takes_nonsense);
        tcase_add_loop_test(tcase, one_descriptor_tells_of_all_trees, 0, N_PLACEMENTS);
        tcase_add_test(tcase, a_guard_killed_at_once_has_a_successor);
        tcase_add_loop_test(tcase, a_trees_own_descriptor_is_enough, 0, N_PLACEMENTS);
        tcase_add_test(tcase, a_birth_can_be_cancelled);
        tcase_add_test(tcase, a_newborn_killed_by_the_kernel_is_born_again);
        tcase_add_test(tcase, a_newborn_killed_on_purpose_stays_dead);
        tcase_add_test(tcase, the_home_is_made_anew);
        tcase_add_loop_test(tcase, a_forked_child_is_not_the_owner, 0, N_PLACEMENTS);
        tcase_add_loop_test(tcase, threads_share_an_owner, 0, N_PLACEMENTS);
        tcase_add_loop_test(tcase, teardown_reaches_trees_that_threads_wait_for, 0, N_PLACEMENTS);
        tcase_add_loop_test(tcase, graces_run_side_by_side, 0, N_PLACEMENTS);
        tcase_add_loop_test(tcase, closed_means_closed, 0, N_PLACEMENTS);
        suite_add_tcase(suite, tcase);
        return owned_run(suite);
}
