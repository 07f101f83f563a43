/* SPDX-License-Identifier: MIT */
#include "swept.h"

/* The watch is in the test's own process; owners are keepers (orphan.h), or forged. */

static cgtree_watch *watch;
static struct heard heard;

static void watch_setup(void) {
        heard = (struct heard){ 0 };
        ck_assert_int_eq(cgtree_watch_new(records_path, &watch), 0);
}

static void watch_teardown(void) {
        cgtree_watch_free(watch);
}

static bool is_heard(const char *id, const char *decision) {
        _cleanup_free_ char *line = format("%s %s (", id, decision);

        return strstr(heard.text, line);
}

static bool wait_for_news(int msec) {
        struct pollfd source = { .fd = cgtree_watch_get_fd(watch), .events = POLLIN };

        return poll(&source, 1, msec) == 1;
}

/* Turns until it has said that. */
static void turn_until(const char *id, const char *decision) {
        while (!is_heard(id, decision)) {
                ck_assert_msg(wait_for_news(ORPHAN_BOUND_MSEC), "no '%s %s' in:\n%s", id, decision, heard.text);
                ck_assert_int_ge(cgtree_watch_dispatch(watch, hear, &heard), 0);
        }
}

static void turn_for(uint64_t usec) {
        uint64_t until = now_usec() + usec;

        while (now_usec() < until) {
                (void)wait_for_news(10);
                ck_assert_int_ge(cgtree_watch_dispatch(watch, hear, &heard), 0);
        }
}

/* Turns until there is nothing to do. */
static void turn_until_quiet(void) {
        do
                ck_assert_int_ge(cgtree_watch_dispatch(watch, hear, &heard), 0);
        while (wait_for_news(100));
}

static void become_owner_of(struct orphan *orphan, const struct member *owner) {
        orphan->record.owner = identity_of(owner->pid);
        forge(orphan);
}

/* ---- what it ends --------------------------------------------------------------------------------------- */

START_TEST(what_is_there_already) {
        struct orphan orphan = orphan_new();
        struct member member = member_start(&orphan.cgroup, NULL);

        watch_setup();
        turn_until(orphan.id, "ended");
        member_await_death(&member);
        turn_until_quiet();
        assert_gone(&orphan);
        orphan_done(&orphan);
        watch_teardown();
}
END_TEST

START_TEST(the_trees_of_an_owner_that_dies) {
        struct member owner = member_start(NULL, NULL);
        struct orphan before = orphan_new(), after;
        struct member first = member_start(&before.cgroup, NULL), second;

        become_owner_of(&before, &owner);
        watch_setup();
        turn_until(before.id, "kept");
        after = orphan_new();
        record_unlink(records, after.id, NULL);
        second = member_start(&after.cgroup, NULL);
        become_owner_of(&after, &owner);
        turn_until_quiet();
        ck_assert(member_lives(&first) && member_lives(&second));

        member_end(&owner);
        turn_until(before.id, "ended");
        turn_until(after.id, "ended");
        member_await_death(&first);
        member_await_death(&second);
        turn_until_quiet();
        assert_gone(&before);
        assert_gone(&after);
        orphan_done(&before);
        orphan_done(&after);
        watch_teardown();
}
END_TEST

/* An owner that died before its record could be looked at. */
START_TEST(a_record_that_comes_too_late) {
        struct orphan orphan;
        struct member member;

        watch_setup();
        turn_until_quiet();
        orphan = orphan_new();
        member = member_start(&orphan.cgroup, NULL);
        turn_until(orphan.id, "ended");
        member_await_death(&member);
        orphan_done(&orphan);
        watch_teardown();
}
END_TEST

/* The guard goes first, then its owner: nobody else is left. */
START_TEST(an_owner_without_its_guard) {
        struct keeper wanted = { .records = records_path,
                .placement = CGTREE_PLACEMENT_SUBTREE,
                .lose_guard = true,
                .script = "setsid sleep 1000 & trap '' TERM; echo ready; while :; do sleep 1000; done" };
        struct member keeper;
        char line[16];
        int output;

        watch_setup();
        keeper = keeper_start(wanted, &output);
        ck_assert_str_eq(output_line(output, line, sizeof(line)), "ready");
        turn_until_quiet();
        ck_assert(output_lives(output));
        kill(keeper.pid, SIGKILL);
        while (output_lives(output) && wait_for_news(ORPHAN_BOUND_MSEC))
                ck_assert_int_ge(cgtree_watch_dispatch(watch, hear, &heard), 0);
        ck_assert_str_eq(output_line(output, line, sizeof(line)), "");
        turn_until_quiet();
        ck_assert_uint_eq(scratch_count(records), 0);
        member_await_death(&keeper);
        watch_teardown();
}
END_TEST

/* ---- side by side --------------------------------------------------------------------------------------- */

static void ignore_term(void) {
        signal(SIGTERM, SIG_IGN);
}

/* Nobody waits for the grace of another; and no call waits for any. */
START_TEST(a_grace_holds_nobody_up) {
        struct member owner = member_start(NULL, NULL), other = member_start(NULL, NULL);
        struct orphan slow = orphan_in(&base, USEC_FOREVER), quick = orphan_new();
        struct member stubborn = member_start(&slow.cgroup, ignore_term), member = member_start(&quick.cgroup, NULL);

        become_owner_of(&slow, &owner);
        become_owner_of(&quick, &other);
        watch_setup();
        turn_until_quiet();
        member_end(&owner);
        turn_for(200 * USEC_PER_MSEC);
        ck_assert(!is_heard(slow.id, "ended") && !is_heard(slow.id, "failed"));
        member_end(&other);
        turn_until(quick.id, "ended");
        member_await_death(&member);
        ck_assert(member_lives(&stubborn));
        assert_untouched(&slow);

        member_end(&stubborn);
        turn_until(slow.id, "ended");
        turn_until_quiet();
        assert_gone(&slow);
        assert_gone(&quick);
        orphan_done(&slow);
        orphan_done(&quick);
        watch_teardown();
}
END_TEST

/* ---- nothing to do -------------------------------------------------------------------------------------- */

START_TEST(living_owners_cost_nothing) {
        enum { N = 50 };
        struct member owners[N];

        for (int i = 0; i < N; i++) {
                struct record record = orphan_record(&base);

                owners[i] = member_start(NULL, NULL);
                record.owner = identity_of(owners[i].pid);
                record.cgroup_id = 1234567;
                ck_assert_int_eq(record_write(records, &record), 0);
                record_done(&record);
        }
        watch_setup();
        turn_until_quiet();
        ck_assert(!wait_for_news(300));
        for (int i = 0; i < N; i++)
                member_end(&owners[i]);
        turn_until_quiet();
        ck_assert_uint_eq(scratch_count(records), 0);
        watch_teardown();
}
END_TEST

/* What comes in the new directory is seen. */
START_TEST(a_directory_that_is_replaced) {
        _cleanup_free_ char *aside = format("%s.aside", records_path);
        struct orphan orphan;
        struct member member;

        watch_setup();
        turn_until_quiet();
        ck_assert_int_eq(rename(records_path, aside), 0);
        while (access(records_path, F_OK) < 0) {
                ck_assert(wait_for_news(ORPHAN_BOUND_MSEC));
                ck_assert_int_ge(cgtree_watch_dispatch(watch, hear, &heard), 0);
        }
        close(records);
        records = open(records_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        ck_assert_int_ge(records, 0);
        orphan = orphan_new();
        member = member_start(&orphan.cgroup, NULL);
        turn_until(orphan.id, "ended");
        member_await_death(&member);
        orphan_done(&orphan);
        watch_teardown();
}
END_TEST

/* ---- strangers ------------------------------------------------------------------------------------------ */

/* The number of a dead owner is a living stranger's by now: the owner is gone, and the stranger nobody's business. */
START_TEST(a_reused_pid) {
        struct orphan orphan = orphan_new();
        struct member stranger = member_start(NULL, NULL), member = member_start(&orphan.cgroup, NULL);

        orphan.record.owner = identity_of(stranger.pid);
        orphan.record.owner.start_time--;
        if (orphan.record.owner.inode != 0)
                orphan.record.owner.inode--;
        forge(&orphan);
        watch_setup();
        turn_until(orphan.id, "ended");
        member_await_death(&member);
        turn_until_quiet();
        ck_assert(member_lives(&stranger));
        member_end(&stranger);
        orphan_done(&orphan);
        watch_teardown();
}
END_TEST

/* What cannot be judged is named once, and left alone however often there is something to do. */
START_TEST(what_cannot_be_judged) {
        struct orphan foreign = orphan_new(), moved = orphan_new(), bystander = orphan_new();
        struct member first = member_start(&foreign.cgroup, NULL), second = member_start(&moved.cgroup, NULL),
                      owner = member_start(NULL, NULL);
        uint64_t cgroup_id = moved.record.cgroup_id;

        foreign.record.pid_namespace++;
        forge(&foreign);
        moved.record.cgroup_id = base.id;
        forge(&moved);
        become_owner_of(&bystander, &owner);
        watch_setup();
        turn_until(foreign.id, "skipped");
        turn_until(moved.id, "skipped");
        member_end(&owner);
        turn_until(bystander.id, "tidied");
        turn_until_quiet();
        ck_assert(member_lives(&first) && member_lives(&second));
        assert_untouched(&foreign);
        assert_untouched(&moved);
        watch_teardown();

        foreign.record.pid_namespace--;
        forge(&foreign);
        moved.record.cgroup_id = cgroup_id;
        forge(&moved);
        sweep(2);
        member_await_death(&first);
        member_await_death(&second);
        orphan_done(&foreign);
        orphan_done(&moved);
        orphan_done(&bystander);
}
END_TEST

int main(void) {
        TCase *tcase = tcase_create("watch");

        tcase_add_test(tcase, what_is_there_already);
        tcase_add_test(tcase, the_trees_of_an_owner_that_dies);
        tcase_add_test(tcase, a_record_that_comes_too_late);
        tcase_add_test(tcase, an_owner_without_its_guard);
        tcase_add_test(tcase, a_grace_holds_nobody_up);
        tcase_add_test(tcase, living_owners_cost_nothing);
        tcase_add_test(tcase, a_directory_that_is_replaced);
        tcase_add_test(tcase, a_reused_pid);
        tcase_add_test(tcase, what_cannot_be_judged);
        return sweep_run(suite_create("watch"), tcase);
}
