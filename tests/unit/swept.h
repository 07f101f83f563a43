/* SPDX-License-Identifier: MIT */
#pragma once

/* A base, a records directory, an owner that is gone and a bystander for each test of sweep, and what it decided. */

#include "orphan.h"

static char records_path[128];
static int records;
static struct process_identity dead_owner;
static struct member canary;
static struct cgroup base; /* where owners of this test have their directories */

static inline void setup(void) {
        char name[32];

        snprintf(name, sizeof(name), "base-%d", (int)getpid());
        ck_assert_int_eq(cgroup_create(&orphan_base, name, &base), 0);
        setenv("CGTREE_BASE", base.path, 1); /* our own is that of others' tests, too */
        records = scratch_open(records_path, sizeof(records_path));
        dead_owner = identity_of_dead();
        canary = member_start(NULL, NULL);
}

/* Whatever was swept: not what stood beside it. */
static inline void teardown(void) {
        ck_assert(member_lives(&canary));
        member_end(&canary);
        cgroup_done(&base);
        close(records);
}

/* ---- what was decided ----------------------------------------------------------------------------------- */

struct heard {
        char text[4096]; /* "ID DECISION (REASON)\n" each */
        size_t n;
};

static inline void hear(void *userdata, const char *id, const char *decision, const char *reason) {
        struct heard *heard = userdata;
        size_t length = strlen(heard->text);

        ck_assert_ptr_nonnull(reason);
        snprintf(heard->text + length, sizeof(heard->text) - length, "%s %s (%s)\n", id, decision, reason);
        heard->n++;
}

static inline struct heard sweep(int expected) {
        struct heard heard = { 0 };
        int r = cgtree_sweep(records_path, false, ORPHAN_BOUND_MSEC * USEC_PER_MSEC, hear, &heard);

        ck_assert_msg(r == expected, "%d, expected %d:\n%s", r, expected, heard.text);
        return heard;
}

static inline void assert_heard(const struct heard *heard, const char *id, const char *decision, const char *words) {
        _cleanup_free_ char *line = format("%s %s (", id, decision);
        const char *at = strstr(heard->text, line), *reason = at ? strstr(at, words) : NULL;

        ck_assert_msg(reason && reason < strchr(at, '\n'), "no '%s %s (%s)' in:\n%s", id, decision, words, heard->text);
}

/* ---- trees ---------------------------------------------------------------------------------------------- */

struct orphan {
        struct record record;
        struct cgroup cgroup;
        char id[ID_LENGTH + 1];
};

static inline struct orphan orphan_in(const struct cgroup *where, uint64_t death_grace_usec) {
        struct orphan orphan = { .record = orphan_record(where) };

        orphan.record.owner = dead_owner;
        orphan.record.owner_death_grace_usec = death_grace_usec;
        orphan.cgroup = orphan_make(where, &orphan.record);
        ck_assert_int_eq(record_write(records, &orphan.record), 0);
        strcpy(orphan.id, orphan.record.id);
        return orphan;
}

static inline struct orphan orphan_new(void) {
        return orphan_in(&base, 0);
}

static inline void orphan_done(struct orphan *orphan) {
        cgroup_done(&orphan->cgroup);
        record_done(&orphan->record);
}

static inline void forge(const struct orphan *orphan) {
        ck_assert_int_eq(record_unlink(records, orphan->id, NULL), 0);
        ck_assert_int_eq(record_write(records, &orphan->record), 0);
}

static inline bool exists(const char *path) {
        struct cgroup cgroup = CGROUP_NONE;
        bool there = cgroup_open(path, &cgroup) >= 0;

        cgroup_done(&cgroup);
        return there;
}

static inline char *home_of(const struct orphan *orphan) {
        return strndup(orphan->record.cgroup, strlen(orphan->record.cgroup) - strlen("/trees/") - ID_LENGTH);
}

/* Its directories, and the record. */
static inline void assert_gone(const struct orphan *orphan) {
        _cleanup_free_ char *home = home_of(orphan), *file = format("%s.json", orphan->id);

        ck_assert(!exists(home));
        ck_assert(!scratch_has(records, file));
}

static inline void assert_untouched(const struct orphan *orphan) {
        _cleanup_free_ char *file = format("%s.json", orphan->id);

        ck_assert(exists(orphan->record.cgroup));
        ck_assert(scratch_has(records, file));
}

static inline int sweep_run(Suite *suite, TCase *tcase) {
        SRunner *runner = srunner_create(suite);
        int r = 77;

        suite_add_tcase(suite, tcase);
        if (orphan_has_pidfd() && orphan_can_be_made()) {
                orphan_setup_helpers();
                tcase_add_unchecked_fixture(tcase, scratch_make, scratch_remove);
                tcase_add_checked_fixture(tcase, setup, teardown);
                tcase_set_timeout(tcase, 60);
                srunner_run_all(runner, CK_NORMAL);
                orphan_teardown();
                r = srunner_ntests_failed(runner) ? EXIT_FAILURE : EXIT_SUCCESS;
        }
        srunner_free(runner);
        return r;
}
