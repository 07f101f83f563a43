/* SPDX-License-Identifier: MIT */
#include "kill.h"

#include "drive.h"

/* What woke it may have been heard before. */
static void hear_term(const struct payload *payload) {
        while (payload_hear(payload) != 'T')
                ;
}

static void exit_on_term(int signal) {
        tell_signal(signal);
        _exit(0);
}

static void payload_exit_on_term(int out) {
        tell_signals(out);
        signal(SIGTERM, exit_on_term);
        payload_say(out, 'r');
}

static void help_on_term(int signal) {
        tell_signal(signal);
        if (fork() == 0)
                payload_say(payload_out, 'n');
}

static void payload_helper_on_term(int out) {
        tell_signals(out);
        signal(SIGTERM, help_on_term);
        payload_say(out, 'r');
}

/* ---- the signal -------------------------------------------------------------------------------------------------- */

START_TEST(test_terminate_obeyed) {
        struct cgroup cgroup = cgroups_new("obeyed"), inner = cgroups_child(&cgroup, "in");
        struct drive drive = drive_new(&cgroup);
        struct payload payloads[5];

        for (size_t i = 0; i < 5; i++)
                payloads[i] = payload_start(i % 2 ? &inner : &cgroup, payload_exit_on_term);
        ck_assert_int_eq(ending_terminate(&drive.ending, &cgroup, SIGTERM, false, USEC_FOREVER), 0);
        drive_to_empty(&drive, &cgroup);
        for (size_t i = 0; i < 5; i++) {
                hear_term(&payloads[i]);
                payload_await_eof(&payloads[i]);
        }
        cgroup_done(&inner);
        drive_done(&drive, &cgroup);
}
END_TEST

/* Reads to the end of file. */
static void count_signals(const struct payload *payload, unsigned counts[256]) {
        unsigned char byte;

        while (read(payload->from, &byte, 1) == 1)
                counts[byte]++;
}

START_TEST(test_terminate_ignored) {
        struct cgroup cgroup = cgroups_new("ignored");
        struct drive drive = drive_new(&cgroup);
        struct payload payload = payload_start(&cgroup, payload_tell_signals);
        unsigned counts[256] = { 0 };
        uint64_t wakeup, last = 0;

        ck_assert_int_eq(ending_terminate(&drive.ending, &cgroup, SIGTERM, _i == 1, USEC_FOREVER), 0);
        ck_assert(drive.ending.locked);
        drive_to(&drive, &cgroup, ENDING_SIGNALLED);
        ck_assert_int_eq(ending_terminate(&drive.ending, &cgroup, SIGTERM, false, 0), 0); /* TERM once */
        for (size_t i = 0; i < 8; i++) {
                uint64_t before = now_usec();

                ck_assert_int_eq(ending_step(&drive.ending, &cgroup, drive.events, &wakeup), 0);
                ck_assert_uint_ge(wakeup, before);
                ck_assert_uint_le(wakeup, now_usec() + 100 * USEC_PER_MSEC);
                ck_assert_uint_ge(drive.ending.interval, last);
                last = drive.ending.interval;
        }
        ck_assert_int_eq(drive.ending.phase, ENDING_SIGNALLED); /* how long the grace is, is not ours to say */
        for (int i = 0; i < 2 + _i; i++)
                counts[(unsigned char)payload_hear(&payload)]++;
        ck_assert_int_eq(ending_kill(&drive.ending, &cgroup), 0);
        drive_to_empty(&drive, &cgroup);
        count_signals(&payload, counts);
        ck_assert_uint_eq(counts['T'], 1);
        ck_assert_uint_eq(counts['C'], 1);
        ck_assert_uint_eq(counts['H'], (unsigned)_i);
        drive_done(&drive, &cgroup);
}
END_TEST

START_TEST(test_terminate_spares_helpers) {
        struct cgroup cgroup = cgroups_new("helpers");
        struct drive drive = drive_new(&cgroup);
        struct payload payload = payload_start(&cgroup, payload_helper_on_term);
        unsigned counts[256] = { 0 };

        ck_assert_int_eq(ending_terminate(&drive.ending, &cgroup, SIGTERM, false, USEC_FOREVER), 0);
        drive_to(&drive, &cgroup, ENDING_SIGNALLED);
        while (counts['n'] == 0 || counts['C'] == 0)
                counts[(unsigned char)payload_hear(&payload)]++;
        ck_assert_int_eq(ending_kill(&drive.ending, &cgroup), 0);
        drive_to_empty(&drive, &cgroup);
        count_signals(&payload, counts);
        ck_assert_uint_eq(counts['T'], 1);
        ck_assert_uint_eq(counts['n'], 1);
        drive_done(&drive, &cgroup);
}
END_TEST

START_TEST(test_terminate_stopped) {
        struct cgroup cgroup = cgroups_new("stopped");
        struct drive drive = drive_new(&cgroup);
        struct payload payload = payload_start(&cgroup, payload_exit_on_term);
        siginfo_t info;

        kill(payload.pid, SIGSTOP);
        ck_assert_int_eq(waitid(P_PID, (id_t)payload.pid, &info, WSTOPPED | WNOWAIT), 0);
        if (_i == 1)
                ck_assert_int_eq(cgroup_freeze(&cgroup, true), 0); /* by an ender that died on the way */
        ck_assert_int_eq(ending_terminate(&drive.ending, &cgroup, SIGTERM, false, USEC_FOREVER), 0);
        drive_to_empty(&drive, &cgroup);
        hear_term(&payload);
        drive_done(&drive, &cgroup);
}
END_TEST

START_TEST(test_terminate_does_not_wait_for_the_freezer) {
        struct cgroup cgroup = cgroups_new("vfork");
        struct drive drive = drive_new(&cgroup);
        struct payload stuck = payload_start(&cgroup, payload_in_vfork),
                       payload = payload_start(&cgroup, payload_exit_on_term);

        ck_assert_int_eq(ending_terminate(&drive.ending, &cgroup, SIGTERM, false, USEC_FOREVER), 0);
        drive_to_empty(&drive, &cgroup);
        hear_term(&payload);
        payload_await_eof(&stuck);
        drive_done(&drive, &cgroup);
}
END_TEST

START_TEST(test_done_thaws) {
        struct cgroup cgroup = cgroups_new("thaw");
        struct drive drive = drive_new(&cgroup);
        struct payload payload = payload_start(&cgroup, payload_tell_signals);
        char text[8];

        ck_assert_int_eq(ending_terminate(&drive.ending, &cgroup, SIGTERM, false, 0), 0);
        ck_assert_int_eq(drive.ending.phase, ENDING_FREEZING);
        ck_assert_int_gt(read_file_at(cgroup.fd, "cgroup.freeze", text, sizeof(text)), 0);
        ck_assert_str_eq(text, "1\n");
        if (_i == 0)
                ending_done(&drive.ending, &cgroup);
        else
                ck_assert_int_eq(ending_kill(&drive.ending, &cgroup), 0);
        ck_assert_int_gt(read_file_at(cgroup.fd, "cgroup.freeze", text, sizeof(text)), 0);
        ck_assert_str_eq(
                text, drive.ending.only_walk ? "1\n" : "0\n"); /* who is killed one by one is not let go before */
        ck_assert_int_eq(ending_kill(&drive.ending, &cgroup), 0);
        drive_to_empty(&drive, &cgroup);
        payload_await_eof(&payload);
        drive_done(&drive, &cgroup);
}
END_TEST

/* ---- one ender at a time ---------------------------------------------------------------------------------------- */

enum other_ender { UNLOCKS, HOLDS, EMPTIES, _OTHER_ENDER_MAX };

START_TEST(test_lock) {
        struct cgroup cgroup = cgroups_new("lock"), other = CGROUP_NONE;
        struct drive drive = drive_new(&cgroup);
        struct payload payload = payload_start(&cgroup, payload_exit_on_term);
        uint64_t begun = now_usec(), wakeup;

        ck_assert_int_eq(cgroup_open(cgroup.path, &other), 0);
        ck_assert_int_eq(flock(other.fd, LOCK_EX | LOCK_NB), 0);
        ck_assert_int_eq(ending_terminate(&drive.ending, &cgroup, SIGTERM, false, 0), 0);
        ck_assert_int_eq(ending_step(&drive.ending, &cgroup, drive.events, &wakeup), 0);
        ck_assert_int_eq(drive.ending.phase, ENDING_LOCKING);
        ck_assert_uint_le(wakeup, now_usec() + 10 * USEC_PER_MSEC);

        if (_i == UNLOCKS)
                ck_assert_int_eq(flock(other.fd, LOCK_UN), 0);
        else if (_i == EMPTIES)
                cgroups_strike(&other);
        drive_to_empty(&drive, &cgroup);
        if (_i == EMPTIES)
                payload_await_eof(&payload);
        else
                hear_term(&payload);
        ck_assert_int_eq(drive.ending.locked, _i == UNLOCKS);
        if (_i == HOLDS)
                ck_assert_uint_ge(now_usec(), begun + USEC_PER_SEC);
        cgroup_done(&other);
        drive_done(&drive, &cgroup);
}
END_TEST

START_TEST(test_kill_does_not_wait_for_the_lock) {
        struct cgroup cgroup = cgroups_new("locked"), other = CGROUP_NONE;
        struct payload payload = payload_start(&cgroup, payload_ignore_term);
        struct drive drive = drive_new(&cgroup);

        ck_assert_int_eq(cgroup_open(cgroup.path, &other), 0);
        ck_assert_int_eq(flock(other.fd, LOCK_EX | LOCK_NB), 0);
        if (_i == 1)
                ck_assert_int_eq(ending_terminate(&drive.ending, &cgroup, SIGTERM, false, USEC_FOREVER), 0);
        ck_assert_int_eq(ending_kill(&drive.ending, &cgroup), 0);
        ck_assert_int_eq(drive.ending.phase, ENDING_KILLING);
        drive_to_empty(&drive, &cgroup);
        payload_await_eof(&payload);
        ck_assert(!drive.ending.locked);
        cgroup_done(&other);
        drive_done(&drive, &cgroup);
}
END_TEST

static struct cgroup own_tree = CGROUP_NONE;

static void payload_end_itself(int out) {
        struct ending ending = { 0 };
        char text[8] = "";

        if (ending_terminate(&ending, &own_tree, SIGTERM, false, 0) != -EDEADLK || ending.phase != ENDING_IDLE ||
                ending_kill(&ending, &own_tree) != -EDEADLK || ending.phase != ENDING_IDLE || ending.locked)
                _exit(99);
        if (read_file_at(own_tree.fd, "cgroup.freeze", text, sizeof(text)) < 0 || strcmp(text, "0\n") != 0)
                _exit(99);
        if (kill_signal_members(&own_tree, SIGKILL, false) != 1) /* the other one */
                _exit(99);
        payload_say(out, 'r');
}

START_TEST(test_not_from_inside) {
        struct cgroup inner;
        struct payload other, payload;

        own_tree = cgroups_new("inside");
        inner = cgroups_child(&own_tree, "in");
        other = payload_start(&own_tree, payload_obedient);
        payload = payload_start(_i == 0 ? &own_tree : &inner, payload_end_itself);
        payload_await_eof(&other);
        ck_assert_int_eq(cgroup_is_populated(&own_tree), 1);
        cgroup_done(&inner);
        check_kill(&own_tree);
        payload_await_eof(&payload);
}
END_TEST

static TCase *terminate_cases(void) {
        TCase *tcase = tcase_create("terminate");

        tcase_set_timeout(tcase, 100);
        tcase_add_test(tcase, test_terminate_obeyed);
        tcase_add_loop_test(tcase, test_terminate_ignored, 0, 2);
        tcase_add_test(tcase, test_terminate_spares_helpers);
        tcase_add_loop_test(tcase, test_terminate_stopped, 0, 2);
        tcase_add_test(tcase, test_terminate_does_not_wait_for_the_freezer);
        tcase_add_loop_test(tcase, test_done_thaws, 0, 2);
        tcase_add_loop_test(tcase, test_lock, 0, _OTHER_ENDER_MAX);
        tcase_add_loop_test(tcase, test_kill_does_not_wait_for_the_lock, 0, 2);
        tcase_add_loop_test(tcase, test_not_from_inside, 0, 2);
        return tcase;
}

int main(void) {
        Suite *suite = suite_create("terminate");

        suite_add_tcase(suite, terminate_cases());
        return cgroups_run(suite);
}
