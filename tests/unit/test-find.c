/* SPDX-License-Identifier: MIT */
#include "find.h"
#include "orphan.h"

#include <sys/resource.h>

static char records_path[128];
static int records;

/* Each test has a directory of its own. */
static void setup(void) {
        records = scratch_open(records_path, sizeof(records_path));
}

static void teardown(void) {
        close(records);
}

static void assert_find(const char *wanted, int expected) {
        cgtree_tree *tree = NULL;

        ck_assert_msg(cgtree_find(records_path, wanted, &tree) == expected, "%s", wanted);
        ck_assert_int_eq(tree != NULL, expected == 0);
        cgtree_tree_free(tree);
}

static cgtree_tree *find(const char *wanted) {
        cgtree_tree *tree;

        ck_assert_int_eq(cgtree_find(records_path, wanted, &tree), 0);
        return tree;
}

/* A recorded tree, ours, with that id (NULL: any) and name. */
struct made {
        struct record record;
        struct cgroup cgroup;
};

static struct made make(const char *id, const char *name) {
        struct made made = { .record = orphan_record(&orphan_base), .cgroup = CGROUP_NONE };

        if (id) {
                char *last = strrchr(made.record.cgroup, '/') + 1;

                strcpy(made.record.id, id);
                strcpy(last, id);
        }
        made.record.name = name ? strdup(name) : NULL;
        if (id) { /* ids of tests are alike at their beginning, so homes cannot be named after them */
                struct record unlike = orphan_record(&orphan_base);
                struct cgroup trees = CGROUP_NONE;

                free(made.record.cgroup);
                made.record.cgroup = format("%.*s%s", (int)(strlen(unlike.cgroup) - ID_LENGTH), unlike.cgroup, id);
                make_home(&orphan_base, &unlike, &trees);
                ck_assert_int_eq(cgroup_create(&trees, id, &made.cgroup), 0);
                ck_assert_int_eq(cgroup_set_xattr(&made.cgroup, CGROUP_XATTR_ID, id), 0);
                made.record.cgroup_id = made.cgroup.id;
                cgroup_done(&trees);
                record_done(&unlike);
        } else
                made.cgroup = orphan_make(&orphan_base, &made.record);
        ck_assert_int_eq(record_write(records, &made.record), 0);
        return made;
}

static void made_done(struct made *made) {
        cgroup_done(&made->cgroup);
        record_done(&made->record);
}

/* Writes the record anew, as somebody changed it. */
static void forge(const struct made *made) {
        ck_assert_int_eq(record_unlink(records, made->record.id, made->record.name), 0);
        ck_assert_int_eq(record_write(records, &made->record), 0);
}

/* ---- find ----------------------------------------------------------------------------------------------- */

START_TEST(test_find_what_is_there) {
        struct made made = make(NULL, "side-car");
        struct member member = member_start(&made.cgroup, NULL);
        cgtree_tree *tree = find(made.record.id);
        const char *comm;
        pid_t *pids;
        int alive;
        size_t n;

        ck_assert_str_eq(cgtree_tree_get_id(tree), made.record.id);
        ck_assert_str_eq(cgtree_tree_get_name(tree), "side-car");
        ck_assert_str_eq(cgtree_tree_get_command(tree), "sleep");
        ck_assert_str_eq(cgtree_tree_get_cgroup(tree), made.record.cgroup);
        ck_assert_int_eq(cgtree_tree_get_placement(tree), CGTREE_PLACEMENT_SUBTREE);
        ck_assert_int_eq(cgtree_tree_get_guarantee(tree), CGTREE_GUARANTEE_WHOLE);
        ck_assert_int_eq(cgtree_tree_get_owner(tree, &comm, &alive), getpid());
        ck_assert_str_eq(comm, made.record.owner_comm);
        ck_assert_int_eq(alive, orphan_has_pidfd() ? 1 : -ENODATA);
        ck_assert_int_eq(cgtree_tree_get_root(tree), 0);
        ck_assert_int_eq(cgtree_tree_wait_root(tree, 0), -ENODATA);
        ck_assert_int_eq(cgtree_tree_get_members(tree, &pids, &n), 0);
        ck_assert_uint_eq(n, 1);
        ck_assert_int_eq(pids[0], member.pid);
        free(pids);
        cgtree_tree_free(tree);
        ck_assert(member_lives(&member));
        member_end(&member);
        made_done(&made);
}
END_TEST

START_TEST(test_find_by_name_and_prefix) {
        struct made one = make("00aa000000000001", "one"), two = make("00ab000000000002", "00aa"),
                    three = make("zz00000000000003", NULL);

        assert_find("one", 0);
        assert_find("00aa", 0); /* a name, before the beginning of an id */
        assert_find("00ab", 0);
        assert_find("z", 0);
        assert_find("00a", -ENOTUNIQ);
        assert_find("0", -ENOTUNIQ);
        assert_find("00ac", -ENOENT);
        assert_find("", -ENOENT);
        assert_find("../one", -ENOENT);
        assert_find("zz00000000000004", -ENOENT);
        assert_find("zz000000000000034", -ENOENT);
        made_done(&one);
        made_done(&two);
        made_done(&three);
}
END_TEST

START_TEST(test_find_bad_records) {
        cgtree_tree *tree;

        scratch_write(records, "0000000000000001.json", "{", 1, 0600);
        scratch_write(records, "0100000000000001.json", "{", 1, 0600);
        assert_find("0000000000000001", -EBADMSG);
        assert_find("00", -EBADMSG);
        assert_find("0", -ENOTUNIQ);
        ck_assert_int_eq(cgtree_find(records_path, NULL, &tree), -EINVAL);
        ck_assert_int_eq(cgtree_find(records_path, "0", NULL), -EINVAL);
        ck_assert_int_eq(cgtree_find("/nonexistent/records", "0", &tree), -ENOENT);
}
END_TEST

START_TEST(test_find_what_does_not_prove_itself) {
        struct made made = make(NULL, NULL);
        uint64_t id = made.record.cgroup_id;

        assert_find(made.record.id, 0);
        made.record.cgroup_id = orphan_base.id;
        forge(&made);
        assert_find(made.record.id, -ESTALE);
        made.record.cgroup_id = id;
        made.record.pid_namespace++;
        forge(&made);
        assert_find(made.record.id, -ESTALE);
        made.record.boot_id[0] = made.record.boot_id[0] == '0' ? '1' : '0';
        forge(&made);
        assert_find(made.record.id, -ESTALE);
        made_done(&made);
}
END_TEST

START_TEST(test_find_what_is_gone) {
        struct made made = make(NULL, NULL);
        _cleanup_free_ char *path = strdup(made.record.cgroup);
        struct cgroup trees = CGROUP_NONE;

        *strrchr(path, '/') = '\0';
        ck_assert_int_eq(cgroup_open(path, &trees), 0);
        ck_assert_int_eq(cgroup_remove(&trees, made.record.id, 0), 0);
        assert_find(made.record.id, -ENOENT);
        ck_assert_uint_eq(scratch_count(records), 1);
        cgroup_done(&trees);
        made_done(&made);
}
END_TEST

/* ---- what can be done with it --------------------------------------------------------------------------- */

static void ignore_term(void) {
        signal(SIGTERM, SIG_IGN);
}

static void assert_gone(const struct made *made) {
        struct cgroup cgroup = CGROUP_NONE;

        ck_assert_uint_eq(scratch_count(records), 0);
        ck_assert_int_eq(cgroup_open(made->record.cgroup, &cgroup), -ENOENT);
}

START_TEST(test_kill) {
        struct made made = make(NULL, "victim");
        struct member first = member_start(&made.cgroup, ignore_term), second = member_start(&made.cgroup, ignore_term),
                      canary = member_start(NULL, NULL);
        cgtree_tree *tree = find("victim");

        ck_assert_int_eq(cgtree_tree_kill(tree, CGTREE_FOREVER), 0);
        member_await_death(&first);
        member_await_death(&second);
        assert_gone(&made);
        ck_assert_int_eq(cgtree_tree_kill(tree, CGTREE_FOREVER), 0);
        cgtree_tree_free(tree);
        ck_assert(member_lives(&canary));
        member_end(&canary);
        made_done(&made);
}
END_TEST

START_TEST(test_terminate) {
        struct made made = make(NULL, NULL);
        struct member obedient = member_start(&made.cgroup, NULL), stubborn = member_start(&made.cgroup, ignore_term);
        cgtree_tree *tree = find(made.record.id);
        uint64_t begun = now_usec();

        ck_assert_int_eq(cgtree_tree_terminate(tree, 200 * USEC_PER_MSEC, CGTREE_FOREVER), 0);
        ck_assert_uint_ge(now_usec() - begun, 200 * USEC_PER_MSEC);
        member_await_death(&obedient);
        member_await_death(&stubborn);
        assert_gone(&made);
        cgtree_tree_free(tree);
        made_done(&made);
}
END_TEST

/* The record's own grace. */
START_TEST(test_terminate_by_record) {
        struct made made = make(NULL, NULL);
        struct member stubborn;
        cgtree_tree *tree;
        uint64_t begun;

        made.record.grace_usec = 100 * USEC_PER_MSEC;
        forge(&made);
        stubborn = member_start(&made.cgroup, ignore_term);
        tree = find(made.record.id);
        begun = now_usec();
        ck_assert_int_eq(cgtree_tree_terminate(tree, CGTREE_DEFAULT, CGTREE_FOREVER), 0);
        ck_assert_uint_ge(now_usec() - begun, 100 * USEC_PER_MSEC);
        member_await_death(&stubborn);
        assert_gone(&made);
        cgtree_tree_free(tree);
        made_done(&made);
}
END_TEST

/* We would not live to see it through. */
START_TEST(test_kill_from_inside) {
        struct made made = make(NULL, NULL);
        int status = -1;
        pid_t pid = fork();

        if (pid == 0) {
                cgtree_tree *tree;

                if (write_file_at(made.cgroup.fd, "cgroup.procs", "0") < 0 ||
                        cgtree_find(records_path, made.record.id, &tree) < 0)
                        _exit(1);
                if (cgtree_tree_kill(tree, CGTREE_FOREVER) != -EDEADLK ||
                        cgtree_tree_terminate(tree, 0, CGTREE_FOREVER) != -EDEADLK)
                        _exit(2);
                _exit(0);
        }
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_int_eq(status, 0);
        ck_assert_uint_eq(scratch_count(records), 1);
        made_done(&made);
}
END_TEST

/* An owner that lives outside has its trees in this one: not ours to take. */
START_TEST(test_kill_above_another_owner) {
        struct made made = make(NULL, NULL);
        struct record inner = orphan_record(&made.cgroup);
        struct member canary = member_start(NULL, NULL);
        struct cgroup inner_cgroup;
        cgtree_tree *tree;

        inner.owner = identity_of(canary.pid);
        inner_cgroup = orphan_make(&made.cgroup, &inner);
        tree = find(made.record.id);
        ck_assert_int_eq(cgtree_tree_kill(tree, CGTREE_FOREVER), -EDEADLK);
        member_end(&canary);
        ck_assert_int_eq(cgtree_tree_kill(tree, CGTREE_FOREVER), 0);
        assert_gone(&made);
        cgtree_tree_free(tree);
        cgroup_done(&inner_cgroup);
        record_done(&inner);
        made_done(&made);
}
END_TEST

static int count_trees(void *userdata, cgtree_tree *tree, const char *file, const char *problem) {
        size_t *n = userdata, n_pids;
        pid_t *pids;

        (void)file;
        ck_assert_msg(tree != NULL, "%s", problem);
        ck_assert_int_eq(cgtree_tree_get_members(tree, &pids, &n_pids), 0);
        free(pids);
        ++*n;
        return 0;
}

/* Between its record and its first process a tree is empty, too: a look must not remove it. */
START_TEST(test_a_look_settles_nothing) {
        struct made made = make(NULL, NULL);
        cgtree_tree *tree = find(made.record.id);
        size_t n = 0;

        ck_assert_int_eq(cgtree_list(records_path, count_trees, &n), 0);
        ck_assert_uint_eq(n, 1);
        ck_assert_int_eq(cgtree_tree_wait_empty(tree, 100 * USEC_PER_MSEC), -ETIMEDOUT);
        assert_find(made.record.id, 0);
        ck_assert_int_eq(record_unlink(records, made.record.id, NULL), 0);
        ck_assert_int_eq(cgtree_tree_wait_empty(tree, CGTREE_FOREVER), 0);
        cgtree_tree_free(tree);
        made_done(&made);
}
END_TEST

START_TEST(test_no_descriptor_is_left) {
        struct made made = make(NULL, NULL);
        int fds = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        size_t before = scratch_count(fds), n = 0;

        assert_find(made.record.id, 0);
        ck_assert_int_eq(cgtree_list(records_path, count_trees, &n), 0);
        made.record.cgroup_id++;
        forge(&made);
        assert_find(made.record.id, -ESTALE);
        close(fds);
        fds = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        ck_assert_uint_eq(scratch_count(fds), before);
        close(fds);
        made_done(&made);
}
END_TEST

/* Whatever it runs out of, it says so, and leaves nothing open. */
START_TEST(test_without_descriptors) {
        struct made made = make(NULL, NULL);
        struct rlimit limit;
        size_t n = 0, failed = 0;
        int r = -1;

        ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
        for (limit.rlim_cur = 3; r < 0 && limit.rlim_cur < 64; limit.rlim_cur++) {
                cgtree_tree *tree = NULL;

                ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
                r = cgtree_find(records_path, made.record.id, &tree);
                failed += r < 0;
                ck_assert_int_eq(tree != NULL, r == 0);
                cgtree_tree_free(tree);
                (void)cgtree_sweep(records_path, false, 0, NULL, NULL);
        }
        ck_assert_int_eq(r, 0);
        ck_assert_uint_gt(failed, 3);
        limit.rlim_cur = 64;
        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
        ck_assert_int_eq(cgtree_list(records_path, count_trees, &n), 0);
        ck_assert_uint_eq(n, 1);
        made_done(&made);
}
END_TEST

/* ---- list ----------------------------------------------------------------------------------------------- */

struct seen {
        char text[512];
        int stop_with;
};

static int see(void *userdata, cgtree_tree *tree, const char *file, const char *problem) {
        struct seen *seen = userdata;
        size_t length = strlen(seen->text);

        ck_assert_int_eq(tree == NULL, problem != NULL);
        snprintf(seen->text + length, sizeof(seen->text) - length, "%s%.2s ", tree ? "" : "bad ",
                tree ? cgtree_tree_get_id(tree) : file);
        return seen->stop_with;
}

START_TEST(test_list) {
        struct made b = make("bb00000000000001", NULL), a = make("aa00000000000001", NULL),
                    forged = make("cc00000000000001", NULL), gone = make("dd00000000000001", NULL);
        struct seen seen = { 0 }, stopped = { .stop_with = 7 }, none = { 0 };

        forged.record.cgroup_id++;
        forge(&forged);
        free(gone.record.cgroup);
        gone.record.cgroup = strdup("/nowhere/dd00000000000001");
        forge(&gone);
        scratch_write(records, "0000000000000001.json", "{", 1, 0600);
        ck_assert_int_eq(cgtree_list(records_path, see, &seen), 0);
        ck_assert_str_eq(seen.text, "bad 00 aa bb bad cc ");
        ck_assert_int_eq(cgtree_list(records_path, see, &stopped), 7);
        ck_assert_str_eq(stopped.text, "bad 00 ");
        ck_assert_int_eq(cgtree_list(records_path, NULL, NULL), -EINVAL);
        ck_assert_int_eq(cgtree_list("/nonexistent/records", see, &none), 0);
        ck_assert_str_eq(none.text, "");
        ck_assert_int_eq(fchmod(records, 0777), 0);
        ck_assert_int_eq(cgtree_list(records_path, see, &none), -EPERM);
        made_done(&a);
        made_done(&b);
        made_done(&forged);
        made_done(&gone);
}
END_TEST

/* A shell in the tree may look at the tree. */
START_TEST(test_list_from_inside) {
        struct made made = make("aa00000000000001", NULL);
        int status = -1;
        pid_t pid = fork();

        if (pid == 0) {
                struct seen seen = { 0 };

                if (write_file_at(made.cgroup.fd, "cgroup.procs", "0") < 0)
                        _exit(1);
                cgtree_list(records_path, see, &seen);
                _exit(strcmp(seen.text, "aa ") == 0 ? 0 : 2);
        }
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_int_eq(status, 0);
        made_done(&made);
}
END_TEST

/* ---- groups --------------------------------------------------------------------------------------------- */

START_TEST(test_group_of_another_owner) {
        char line[64];
        int output;
        struct member canary = member_start(NULL, NULL),
                      owner = keeper_start((struct keeper){ .records = records_path,
                                                   .name = "group",
                                                   .placement = CGTREE_PLACEMENT_GROUP,
                                                   .death_grace_usec = 0,
                                                   .script = "setsid sleep 60 & echo ready; exec sleep 60" },
                              &output);
        cgtree_tree *tree;
        pid_t *pids;
        size_t n;
        int alive;

        ck_assert_str_eq(output_line(output, line, sizeof(line)), "ready");
        tree = find("group");
        ck_assert_int_eq(cgtree_tree_get_placement(tree), CGTREE_PLACEMENT_GROUP);
        ck_assert_int_eq(cgtree_tree_get_guarantee(tree), CGTREE_GUARANTEE_GROUP);
        ck_assert_int_eq(cgtree_tree_get_owner(tree, NULL, &alive), owner.pid);
        ck_assert_int_eq(alive, 1);
        ck_assert_int_eq(cgtree_tree_get_members(tree, &pids, &n), 0);
        ck_assert_uint_eq(n, 2);
        free(pids);
        ck_assert(output_lives(output));
        ck_assert_int_eq(cgtree_tree_terminate(tree, 5 * USEC_PER_SEC, CGTREE_FOREVER), 0);
        ck_assert_str_eq(output_line(output, line, sizeof(line)), "");
        ck_assert_uint_eq(scratch_count(records), 0);
        cgtree_tree_free(tree);
        ck_assert(member_lives(&canary));
        member_end(&owner);
        member_end(&canary);
        close(output);
}
END_TEST

static TCase *new_case(const char *name) {
        TCase *tcase = tcase_create(name);

        tcase_add_unchecked_fixture(tcase, scratch_make, scratch_remove);
        tcase_add_checked_fixture(tcase, setup, teardown);
        tcase_set_timeout(tcase, 60);
        return tcase;
}

int main(void) {
        Suite *suite = suite_create("find");
        TCase *find_case = new_case("find"), *use = new_case("use");
        SRunner *runner = srunner_create(suite);
        int r = 77;

        tcase_add_test(find_case, test_find_what_is_there);
        tcase_add_test(find_case, test_find_by_name_and_prefix);
        tcase_add_test(find_case, test_find_bad_records);
        tcase_add_test(find_case, test_find_what_does_not_prove_itself);
        tcase_add_test(find_case, test_find_what_is_gone);
        tcase_add_test(find_case, test_list);
        tcase_add_test(find_case, test_list_from_inside);
        suite_add_tcase(suite, find_case);
        tcase_add_test(use, test_kill);
        tcase_add_test(use, test_terminate);
        tcase_add_test(use, test_terminate_by_record);
        tcase_add_test(use, test_kill_from_inside);
        tcase_add_test(use, test_a_look_settles_nothing);
        tcase_add_test(use, test_no_descriptor_is_left);
        tcase_add_test(use, test_without_descriptors);
        if (orphan_has_pidfd()) {
                tcase_add_test(use, test_kill_above_another_owner);
                tcase_add_test(use, test_group_of_another_owner);
        }
        suite_add_tcase(suite, use);

        if (orphan_can_be_made()) {
                orphan_setup_helpers();
                srunner_run_all(runner, CK_NORMAL);
                orphan_teardown();
                r = srunner_ntests_failed(runner) ? EXIT_FAILURE : EXIT_SUCCESS;
        }
        srunner_free(runner);
        return r;
}
