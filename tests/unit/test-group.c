/* SPDX-License-Identifier: MIT */
#define FAMILY_TEST
#include "family.h"

#include "cgroups.h"
#include "group.h"

#define OUTER "0000000000000000"
#define OTHER "zzzzzzzzzzzzzzzz"

/* Every test has its own: what another one may have left is nobody's member here. */
static char id[ID_LENGTH + 1];

/* The test lives in a cgroup of its own, and what it starts is born there. */
static struct cgroup home;

static void setup(void) {
        family_setup();
        ck_assert_int_eq(id_random(id), 0);
        home = cgroups_new("group");
        ck_assert_int_eq(write_file_at(home.fd, "cgroup.procs", "0"), 0);
        ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
}

static struct process_identity identity_of(pid_t pid) {
        struct process process = PROCESS_NONE;
        struct process_identity identity;

        ck_assert_int_eq(process_open(pid, &process), 0);
        identity = process.identity;
        process_done(&process);
        return identity;
}

#define _cleanup_record_ __attribute__((cleanup(record_done)))

/* As an owner would have written it. */
static struct record record_of(const struct family *family) {
        struct record record = { .placement = CGTREE_PLACEMENT_GROUP };

        memcpy(record.id, id, sizeof(id));
        ck_assert_int_eq(record_fill_origin(&record), 0);
        record.group.leader = identity_of(family->root);
        record.group.reaper = identity_of(family->gate.pid);
        ck_assert_int_eq(group_cgroup_id(family->root, &record.group.birth_cgroup_id), 0);
        ck_assert_uint_eq(record.group.birth_cgroup_id, home.id);
        return record;
}

static struct family start(const char *const modes[]) {
        return family_start(modes, CGTREE_SESSION_INHERIT, id);
}

/* Its members come to us, as they would to init. */
static void kill_reaper(struct family *family) {
        kill(family->gate.pid, SIGKILL);
        family_reap(family, NULL);
}

static size_t count_members(const struct record *record, size_t *ret_n_unproven) {
        pid_t *pids;
        size_t n;

        ck_assert_int_eq(group_members(record, &pids, &n, ret_n_unproven), 0);
        for (size_t i = 0; i < n; i++) {
                ck_assert_int_gt(pids[i], 1);
                ck_assert_int_ne(pids[i], getpid());
                ck_assert_int_ne(pids[i], record->group.reaper.pid);
        }
        free(pids);
        return n;
}

/* How many calls it takes; all is dead when that is said. */
static int kill_until_empty(const struct record *record, const struct family *family) {
        uint64_t deadline = now_usec() + FAMILY_BOUND_MSEC * USEC_PER_MSEC;
        int rounds = 0, r;

        do {
                ck_assert_uint_lt(now_usec(), deadline);
                r = group_signal(record, SIGKILL);
                ck_assert_msg(r >= 0, "%s", strerror(-r));
                r = group_is_empty(record);
                ck_assert_int_ge(r, 0);
                rounds++;
        } while (r == 0);
        ck_assert_uint_eq(count_members(record, NULL), 0);
        family_await_end(family);
        return rounds;
}

/* ---- marks ---------------------------------------------------------------------------------------------------- */

static void lineage_is(const char *outer, const char *prefix) {
        _cleanup_free_ char *lineage = NULL, *expected = format("%s%s", prefix, id);

        if (outer)
                setenv("CGTREE_ID", outer, 1);
        else
                unsetenv("CGTREE_ID");
        lineage = group_lineage(id);
        ck_assert_str_eq(lineage, expected);
}

START_TEST(test_lineage) {
        char longest[17 * 61 + 1] = "";

        lineage_is(NULL, "");
        lineage_is(OUTER, OUTER ":");
        lineage_is(OUTER ":" OTHER, OUTER ":" OTHER ":");
        lineage_is("", "");
        lineage_is(":", "");
        lineage_is(OUTER ":", "");
        lineage_is(":" OUTER, "");
        lineage_is("0000000000000000x", "");
        lineage_is("000000000000000", "");
        lineage_is("V7K2M9Q4X1C8R5T0", "");
        lineage_is("v7k2m9q4x1c8r5tu", "");
        lineage_is("../../../etc/pas", "");
        for (int i = 0; i < 61; i++)
                strcat(longest, i > 0 ? ":" OUTER : OUTER);
        lineage_is(longest, "");
}
END_TEST

START_TEST(test_cgroup_id) {
        uint64_t inode = 0;
        pid_t pid = fork();

        if (pid == 0)
                _exit(0);
        waitpid(pid, NULL, 0);
        ck_assert_int_eq(group_cgroup_id(getpid(), &inode), 0);
        ck_assert_uint_eq(inode, home.id);
        ck_assert_int_lt(group_cgroup_id(pid, &inode), 0);
        ck_assert_uint_eq(inode, home.id);
}
END_TEST

/* ---- below a living reaper ------------------------------------------------------------------------------------ */

static const struct {
        const char *modes[3];
        size_t n;          /* members; 0: they come and go */
        size_t n_nameless; /* of them: without a mark, and orphans */
} families[] = {
        { { "stay" }, 1, 0 },
        { { "plain" }, 2, 0 },
        { { "setsid" }, 2, 0 },
        { { "daemon" }, 2, 0 },
        { { "ignorer" }, 2, 0 },
        { { "dead-leader" }, 2, 0 },
        { { "stopped" }, 2, 0 },
        { { "nameless" }, 2, 1 },
        { { "subreaper" }, 3, 0 },
        { { "threaded-parent" }, 3, 0 },
        { { "nest", "30" }, 31, 0 },
        { { "all" }, 17, 1 },
        { { "chains", "3" }, 0, 0 },
        { { "bomb", "200" }, 0, 0 },
};
#define N_FAMILIES (int)(sizeof(families) / sizeof(*families))

START_TEST(test_members) {
        struct family canary = family_start(FAMILY("stay"), CGTREE_SESSION_INHERIT, OTHER),
                      family = start(families[_i].modes);
        _cleanup_record_ struct record record = record_of(&family), canary_record = record_of(&canary);
        size_t n_unproven = 1;

        ck_assert_int_eq(group_is_empty(&record), 0);
        if (families[_i].n > 0)
                ck_assert_uint_eq(count_members(&record, &n_unproven), families[_i].n);
        else
                count_members(&record, &n_unproven);
        ck_assert_uint_eq(n_unproven, 0);
        kill_until_empty(&record, &family);
        family_expect(&family, GATE_ROOT_ENDED);
        family_expect_empty(&family);
        ck_assert(family_lives(&canary));
        memcpy(canary_record.id, OTHER, sizeof(canary_record.id));
        kill_until_empty(&canary_record, &canary);
}
END_TEST

START_TEST(test_signal) {
        struct family family = start(FAMILY("daemon"));
        _cleanup_record_ struct record record = record_of(&family);

        ck_assert_int_eq(group_signal(&record, SIGURG), 2);
        ck_assert(family_lives(&family));
        kill(family.gate.pid, SIGSTOP); /* as a member may do */
        ck_assert_int_eq(group_signal(&record, SIGTERM), 2);
        ck_assert_int_eq(family_expect(&family, GATE_ROOT_ENDED).status, SIGTERM);
        family_expect_empty(&family);
        ck_assert_int_eq(group_is_empty(&record), 1);
        ck_assert_int_eq(group_signal(&record, SIGTERM), 0);
}
END_TEST

/* Only it knows that nobody is left, and how the root ended. */
START_TEST(test_reaper_is_last) {
        struct family family = start(FAMILY("stay"));
        _cleanup_record_ struct record record = record_of(&family);

        kill(family.gate.pid, SIGSTOP);
        kill(family.root, SIGKILL);
        family_await_end(&family);
        while (pidfd_is_dead(family.root_pidfd) == 0)
                usleep(500);
        ck_assert_uint_eq(count_members(&record, NULL), 0);
        ck_assert_int_eq(group_is_empty(&record), 0);
        kill(family.gate.pid, SIGCONT);
        family_expect(&family, GATE_ROOT_ENDED);
        family_expect_empty(&family);
        ck_assert_int_eq(group_is_empty(&record), 1);
}
END_TEST

START_TEST(test_not_from_inside) {
        struct family family = start(FAMILY("stay"));
        _cleanup_record_ struct record record = record_of(&family);
        struct record inside = record;

        inside.group.reaper = identity_of(getppid());
        ck_assert_int_eq(group_signal(&inside, SIGKILL), -EDEADLK);
        kill_reaper(&family);
        inside.group.reaper = record.group.reaper;
        inside.group.leader = identity_of(getpid());
        ck_assert_int_eq(group_signal(&inside, SIGKILL), -EDEADLK);
        ck_assert(family_lives(&family));
        kill_until_empty(&record, &family);
}
END_TEST

START_TEST(test_survivors) {
        struct family family = start(FAMILY("nest", "11"));
        _cleanup_record_ struct record record = record_of(&family);
        _cleanup_free_ char *text = group_survivors(&record), *root = format("pid %d (family) in state", family.root);
        size_t n = 0;

        ck_assert_ptr_nonnull(text);
        ck_assert_msg(strstr(text, root) && strstr(text, "; and 4 more"), "%s", text);
        for (const char *at = text; (at = strstr(at, "pid ")); at++)
                n++;
        ck_assert_uint_eq(n, 8);
        kill_until_empty(&record, &family);
        free(text);
        text = group_survivors(&record);
        ck_assert_ptr_null(text);
}
END_TEST

/* ---- when the reaper was killed ------------------------------------------------------------------------------- */

/* What has no mark and no parent is out of sight, and all that is. */
static void end_nameless(const struct record *record, const struct family *family) {
        ck_assert(family_lives(family));
        ck_assert_uint_eq(count_members(record, NULL), 0);
        lineage_signal_all(getpid(), SIGKILL);
        family_await_end(family);
}

START_TEST(test_members_without_reaper) {
        struct family family = start(families[_i].modes);
        _cleanup_record_ struct record record = record_of(&family);
        size_t n_unproven = 1;

        kill_reaper(&family);
        ck_assert_int_eq(group_is_empty(&record), 0);
        if (families[_i].n > 0)
                ck_assert_uint_eq(count_members(&record, &n_unproven), families[_i].n - families[_i].n_nameless);
        else
                count_members(&record, &n_unproven);
        ck_assert_uint_eq(n_unproven, 0);
        if (families[_i].n_nameless == 0) {
                kill_until_empty(&record, &family);
        } else {
                while (group_is_empty(&record) != 1) {
                        ck_assert_int_ge(group_signal(&record, SIGKILL), 0);
                }
                end_nameless(&record, &family);
        }
        family_done(&family);
}
END_TEST

/* Nobody stands between the marked and their own children, marked or not. */
START_TEST(test_nameless_child) {
        struct family family = start(FAMILY("nameless-child"));
        _cleanup_record_ struct record record = record_of(&family);

        kill_reaper(&family);
        ck_assert_uint_eq(count_members(&record, NULL), 2);
        kill_until_empty(&record, &family);
}
END_TEST

START_TEST(test_payload_kills_reaper) {
        int life;
        struct child_plan *plan = family_plan(FAMILY("regicide"), id, &life);
        struct family family = family_place(plan, life);
        _cleanup_record_ struct record record = record_of(&family);
        struct gate_message message;

        family_send(&family, (struct gate_message){ .type = GATE_GO });
        family_await_word(family.life);
        while (family_hear(&family, &message, NULL) == 0)
                ck_assert_int_eq(message.type, GATE_STARTED);
        family_reap(&family, NULL);
        ck_assert_uint_eq(count_members(&record, NULL), 2);
        kill_until_empty(&record, &family);
}
END_TEST

START_TEST(test_signal_without_reaper) {
        struct family family = start(FAMILY("daemon"));
        _cleanup_record_ struct record record = record_of(&family);

        kill_reaper(&family);
        ck_assert_int_eq(group_signal(&record, SIGURG), 2);
        ck_assert(family_lives(&family));
        ck_assert_int_eq(group_signal(&record, SIGTERM), 2);
        family_await_end(&family);
        ck_assert_int_eq(group_is_empty(&record), 1);
}
END_TEST

/* ---- whoever only looks like a member ------------------------------------------------------------------------- */

struct bystander {
        pid_t pid;
        int life, leash;
};

/* Carries the lineage, and has nothing to do with the tree. */
static struct bystander bystander_start(const char *lineage) {
        struct bystander bystander;

        bystander.pid = family_run_with(FAMILY("stay"), lineage, &bystander.life, &bystander.leash);
        family_await_word(bystander.life);
        return bystander;
}

static void bystander_end(struct bystander *bystander) {
        ck_assert(life_goes_on(bystander->life));
        close(bystander->leash);
        life_await_end(bystander->life);
        close(bystander->life);
        waitpid(bystander->pid, NULL, 0);
}

static void bystander_is_spared(struct bystander *bystander, bool nominated) {
        struct family family = start(FAMILY("daemon"));
        _cleanup_record_ struct record record = record_of(&family);
        size_t n_unproven;

        kill_reaper(&family);
        ck_assert_uint_eq(count_members(&record, &n_unproven), 2);
        ck_assert_uint_eq(n_unproven, nominated);
        kill_until_empty(&record, &family);
        ck_assert_int_eq(group_signal(&record, SIGKILL), 0);
        ck_assert_int_eq(group_is_empty(&record), 1);
        bystander_end(bystander);
}

/* The clock of start times ticks every 10 ms. */
static void await_tick(const struct bystander *bystander) {
        uint64_t before = identity_of(bystander->pid).start_time, now;

        do {
                pid_t pid = fork();

                if (pid == 0)
                        pause();
                now = identity_of(pid).start_time;
                kill(pid, SIGKILL);
                waitpid(pid, NULL, 0);
        } while (now == before);
}

START_TEST(test_bystander_started_before) {
        struct bystander bystander = bystander_start(id);

        await_tick(&bystander);
        bystander_is_spared(&bystander, true);
}
END_TEST

START_TEST(test_bystander_in_another_cgroup) {
        struct cgroup elsewhere = cgroups_new("elsewhere");
        struct family family = start(FAMILY("daemon"));
        _cleanup_record_ struct record record = record_of(&family);
        struct bystander bystander;
        size_t n_unproven;

        ck_assert_int_eq(write_file_at(elsewhere.fd, "cgroup.procs", "0"), 0);
        bystander = bystander_start(id);
        kill_reaper(&family);
        ck_assert_uint_eq(count_members(&record, &n_unproven), 2);
        ck_assert_uint_eq(n_unproven, 1);
        kill_until_empty(&record, &family);
        bystander_end(&bystander);
        cgroup_done(&elsewhere);
}
END_TEST

START_TEST(test_bystander_of_another_lineage) {
        _cleanup_free_ char *longer = format("%s0", id), *later = format("0%s", id), *shorter = strndup(id, 15);
        const char *const others[] = { OTHER, OTHER ":" OUTER, longer, later, shorter, "", ":" };
        struct bystander bystander = bystander_start(others[_i]);

        bystander_is_spared(&bystander, false);
}
END_TEST

/* An inner tree's member is one of the outer tree. */
START_TEST(test_inner_lineage) {
        struct family family = start(FAMILY("stay"));
        _cleanup_record_ struct record record = record_of(&family);
        _cleanup_free_ char *lineage = format(OUTER ":%s:" OTHER, id);
        struct bystander inner = bystander_start(lineage);

        kill_reaper(&family);
        ck_assert_uint_eq(count_members(&record, NULL), 2);
        kill_until_empty(&record, &family);
        life_await_end(inner.life);
}
END_TEST

/* What was recorded as the leader's number belongs to somebody else by now. */
START_TEST(test_reissued_leader) {
        struct family canary = start(FAMILY("plain")), family = start(FAMILY("stay"));
        _cleanup_record_ struct record record = record_of(&family), canary_record = record_of(&canary);

        family_send(&family, (struct gate_message){ .type = GATE_KILL });
        family_expect(&family, GATE_ROOT_ENDED);
        family_expect_empty(&family);
        record.group.leader.pid = canary.root;
        memcpy(record.id, OTHER, sizeof(record.id));
        ck_assert_uint_eq(count_members(&record, NULL), 0);
        ck_assert_int_eq(group_signal(&record, SIGKILL), 0);
        ck_assert_int_eq(group_is_empty(&record), 1);
        /* The same for the reaper's. */
        record.group.reaper.pid = canary.gate.pid;
        ck_assert_int_eq(group_signal(&record, SIGKILL), 0);
        ck_assert_int_eq(group_is_empty(&record), 1);
        ck_assert(family_lives(&canary));
        kill_until_empty(&canary_record, &canary);
}
END_TEST

/* Nothing to compare a cgroup with: marks prove nothing, the leader's identity does. */
START_TEST(test_no_birth_cgroup) {
        struct family family = start(FAMILY("daemon"));
        _cleanup_record_ struct record record = record_of(&family);
        size_t n_unproven;

        record.group.birth_cgroup_id = 0;
        kill_reaper(&family);
        ck_assert_uint_eq(count_members(&record, &n_unproven), 1);
        ck_assert_uint_eq(n_unproven, 1);
        while (group_is_empty(&record) != 1) {
                ck_assert_int_ge(group_signal(&record, SIGKILL), 0);
        }
        end_nameless(&record, &family);
}
END_TEST

static TCase *add_case(Suite *suite, const char *name) {
        TCase *tcase = tcase_create(name);

        tcase_set_timeout(tcase, 100);
        tcase_add_checked_fixture(tcase, setup, NULL);
        suite_add_tcase(suite, tcase);
        return tcase;
}

static void add_families(Suite *suite) {
        TCase *below = add_case(suite, "below"), *without = add_case(suite, "without"),
              *bystanders = add_case(suite, "bystanders");

        tcase_add_loop_test(below, test_members, 0, N_FAMILIES);
        tcase_add_test(below, test_signal);
        tcase_add_test(below, test_reaper_is_last);
        tcase_add_test(below, test_not_from_inside);
        tcase_add_test(below, test_survivors);
        tcase_add_loop_test(without, test_members_without_reaper, 0, N_FAMILIES);
        tcase_add_test(without, test_nameless_child);
        tcase_add_test(without, test_payload_kills_reaper);
        tcase_add_test(without, test_signal_without_reaper);
        tcase_add_test(bystanders, test_bystander_started_before);
        tcase_add_test(bystanders, test_bystander_in_another_cgroup);
        tcase_add_loop_test(bystanders, test_bystander_of_another_lineage, 0, 7);
        tcase_add_test(bystanders, test_inner_lineage);
        tcase_add_test(bystanders, test_reissued_leader);
        tcase_add_test(bystanders, test_no_birth_cgroup);
}

int main(void) {
        Suite *suite = suite_create("group");
        TCase *marks = add_case(suite, "marks");

        tcase_add_test(marks, test_lineage);
        tcase_add_test(marks, test_cgroup_id);
        if (family_can_be_pinned())
                add_families(suite);
        return cgroups_run(suite);
}
