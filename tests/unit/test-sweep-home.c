/* SPDX-License-Identifier: MIT */
#include "swept.h"

/* ---- directories that owners left ----------------------------------------------------------------------- */

struct left_home {
        char *name, *path;
        struct cgroup trees;
};

/* Without a record. */
static struct left_home left_home_new(const struct cgroup *where, struct process_identity owner) {
        struct record record = orphan_record(where);
        struct left_home home = { .trees = CGROUP_NONE };

        record.owner = owner;
        make_home(where, &record, &home.trees);
        home.path = strndup(home.trees.path, strlen(home.trees.path) - strlen("/trees"));
        home.name = strdup(strrchr(home.path, '/') + 1);
        record_done(&record);
        return home;
}

static void left_home_done(struct left_home *home) {
        cgroup_done(&home->trees);
        free(home->name);
        free(home->path);
}

START_TEST(test_leftover_home) {
        struct left_home home = left_home_new(&base, dead_owner);
        struct cgroup tree = CGROUP_NONE, deeper = CGROUP_NONE;
        struct heard heard = { 0 };

        ck_assert_int_eq(cgroup_create(&home.trees, "v7k2m9q4x1c8r5t0", &tree), 0);
        ck_assert_int_eq(cgroup_create(&tree, "deeper", &deeper), 0);
        ck_assert_int_eq(cgtree_sweep(records_path, true, 0, hear, &heard), 0);
        assert_heard(&heard, home.name, "would tidy", "directory");
        ck_assert(exists(home.path));
        heard = sweep(0);
        assert_heard(&heard, home.name, "tidied", "directory");
        ck_assert_uint_eq(heard.n, 1);
        ck_assert(!exists(home.path));
        heard = sweep(0);
        ck_assert_uint_eq(heard.n, 0);
        cgroup_done(&deeper);
        cgroup_done(&tree);
        left_home_done(&home);
}
END_TEST

static void set_stamp(const struct left_home *home, const char *stamp) {
        struct cgroup cgroup = CGROUP_NONE;

        ck_assert_int_eq(cgroup_open(home->path, &cgroup), 0);
        ck_assert_int_eq(cgroup_set_xattr(&cgroup, CGROUP_XATTR_OWNER, stamp), 0);
        cgroup_done(&cgroup);
}

START_TEST(test_homes_that_stay) {
        struct left_home living = left_home_new(&base, identity_of(canary.pid)), bad = left_home_new(&base, dead_owner),
                         populated = left_home_new(&base, dead_owner), above = left_home_new(&base, dead_owner),
                         below = left_home_new(&above.trees, identity_of(canary.pid));
        struct member member = member_start(&populated.trees, NULL);
        struct cgroup unstamped = CGROUP_NONE, other = CGROUP_NONE;
        _cleanup_free_ char *stamp = NULL;
        struct record origin = orphan_record(&base);

        set_stamp(&bad, "4711");
        ck_assert_int_eq(cgroup_create(&base, "cgtree-1-unstamped", &unstamped), 0);
        ck_assert_int_eq(cgroup_create(&base, "somebody's", &other), 0);
        origin.owner = dead_owner;
        stamp = identity_stamp(&origin);
        ck_assert_int_eq(cgroup_set_xattr(&other, CGROUP_XATTR_OWNER, stamp), 0);
        ck_assert_uint_eq(sweep(0).n, 0);
        ck_assert(exists(living.path) && exists(bad.path) && exists(populated.path) && exists(above.path) &&
                  exists(below.path) && exists(unstamped.path) && exists(other.path));
        ck_assert(member_lives(&member));

        /* Nobody is in it any more. */
        member_end(&member);
        ck_assert_uint_eq(sweep(0).n, 1);
        ck_assert(!exists(populated.path));
        cgroup_done(&unstamped);
        cgroup_done(&other);
        record_done(&origin);
        left_home_done(&living);
        left_home_done(&bad);
        left_home_done(&populated);
        left_home_done(&above);
        left_home_done(&below);
}
END_TEST

/* A base that is not ours is known by the records that name it. */
START_TEST(test_homes_of_other_bases) {
        struct cgroup other = CGROUP_NONE;
        struct orphan orphan;
        struct left_home home;

        ck_assert_int_eq(cgroup_create(&base, "other", &other), 0);
        orphan = orphan_in(&other, 0);
        home = left_home_new(&other, dead_owner);
        ck_assert_uint_eq(sweep(0).n, 2);
        assert_gone(&orphan);
        ck_assert(!exists(home.path));
        left_home_done(&home);
        orphan_done(&orphan);
        cgroup_done(&other);
}
END_TEST

/* Two trees of one owner: its directory goes with the last of them. */
START_TEST(test_home_of_two_trees) {
        struct orphan orphan = orphan_new();
        struct cgroup trees = CGROUP_NONE, second = CGROUP_NONE;
        _cleanup_free_ char *home = home_of(&orphan), *path = format("%s/trees", home);
        struct member first_member = member_start(&orphan.cgroup, NULL), second_member;
        struct record record = orphan_record(&base);

        ck_assert_int_eq(cgroup_open(path, &trees), 0);
        ck_assert_int_eq(cgroup_create(&trees, record.id, &second), 0);
        ck_assert_int_eq(cgroup_set_xattr(&second, CGROUP_XATTR_ID, record.id), 0);
        free(record.cgroup);
        record.cgroup = strdup(second.path);
        record.cgroup_id = second.id;
        record.owner = dead_owner;
        second_member = member_start(&second, NULL);
        ck_assert_int_eq(record_write(records, &record), 0);
        sweep(2);
        member_await_death(&first_member);
        member_await_death(&second_member);
        assert_gone(&orphan);
        ck_assert_uint_eq(scratch_count(records), 0);
        cgroup_done(&second);
        cgroup_done(&trees);
        record_done(&record);
        orphan_done(&orphan);
}
END_TEST

/* ---- trees in trees ------------------------------------------------------------------------------------- */

/* How far it is gone when it is looked at is a matter of microseconds. */
START_TEST(test_inner_tree_goes_with_the_outer_one) {
        struct orphan outer = orphan_new(), inner = orphan_in(&outer.cgroup, 0);
        struct member inner_owner = member_start(&outer.cgroup, NULL), member = member_start(&inner.cgroup, NULL);
        struct heard heard = { 0 };

        inner.record.owner = identity_of(inner_owner.pid);
        forge(&inner);
        ck_assert_int_ge(cgtree_sweep(records_path, false, CGTREE_FOREVER, hear, &heard), 1);
        assert_heard(&heard, outer.id, "ended", "gone");
        if (!strstr(heard.text, " tidied ("))
                assert_heard(&heard, inner.id, "ended", "");
        ck_assert_uint_eq(heard.n, 2);
        member_await_death(&inner_owner);
        member_await_death(&member);
        assert_gone(&outer);
        ck_assert_uint_eq(scratch_count(records), 0);
        orphan_done(&inner);
        orphan_done(&outer);
}
END_TEST

static void ignore_term(void) {
        signal(SIGTERM, SIG_IGN);
}

/* Its owner lives when it is looked at first, and dies of this sweep. */
START_TEST(test_tree_elsewhere_of_an_owner_that_is_ended) {
        struct orphan outer = orphan_in(&base, 200 * USEC_PER_MSEC), other = orphan_new();
        struct member other_owner = member_start(&outer.cgroup, ignore_term),
                      member = member_start(&other.cgroup, NULL);
        struct heard heard;

        other.record.owner = identity_of(other_owner.pid);
        forge(&other);
        heard = sweep(2);
        assert_heard(&heard, other.id, "ended", "gone");
        member_await_death(&other_owner);
        member_await_death(&member);
        assert_gone(&outer);
        assert_gone(&other);
        orphan_done(&other);
        orphan_done(&outer);
}
END_TEST

START_TEST(test_outer_tree_with_the_trees_of_a_living_stranger) {
        struct orphan outer = orphan_new();
        struct left_home home = left_home_new(&outer.cgroup, identity_of(canary.pid));
        struct member member = member_start(&outer.cgroup, NULL);
        struct heard heard = sweep(-EBADMSG);

        assert_heard(&heard, outer.id, "skipped", "another owner");
        ck_assert(member_lives(&member));
        assert_untouched(&outer);
        member_end(&member);
        left_home_done(&home);
        orphan_done(&outer);
}
END_TEST

/* ---- the records directory ------------------------------------------------------------------------------ */

START_TEST(test_temporary_files) {
        struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, { .tv_sec = 1 } };

        scratch_write(records, ".0000000000000001.tmp", "", 0, 0600);
        scratch_write(records, ".0000000000000002.tmp", "", 0, 0600);
        ck_assert_int_eq(utimensat(records, ".0000000000000001.tmp", times, 0), 0);
        ck_assert_int_eq(cgtree_sweep(records_path, true, 0, NULL, NULL), 0);
        ck_assert_uint_eq(scratch_count(records), 2);
        sweep(0);
        ck_assert_uint_eq(scratch_count(records), 1);
        ck_assert(scratch_has(records, ".0000000000000002.tmp"));
}
END_TEST

START_TEST(test_named_orphan) {
        struct orphan orphan = orphan_new();

        orphan.record.name = strdup("name");
        forge(&orphan);
        ck_assert_uint_eq(scratch_count(records), 2);
        sweep(0);
        ck_assert_uint_eq(scratch_count(records), 0);
        orphan_done(&orphan);
}
END_TEST

int main(void) {
        TCase *tcase = tcase_create("home");

        tcase_add_test(tcase, test_leftover_home);
        tcase_add_test(tcase, test_homes_that_stay);
        tcase_add_test(tcase, test_homes_of_other_bases);
        tcase_add_test(tcase, test_home_of_two_trees);
        tcase_add_test(tcase, test_inner_tree_goes_with_the_outer_one);
        tcase_add_test(tcase, test_tree_elsewhere_of_an_owner_that_is_ended);
        tcase_add_test(tcase, test_outer_tree_with_the_trees_of_a_living_stranger);
        tcase_add_test(tcase, test_temporary_files);
        tcase_add_test(tcase, test_named_orphan);
        return sweep_run(suite_create("sweep-home"), tcase);
}
