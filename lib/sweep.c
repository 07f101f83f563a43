/* SPDX-License-Identifier: MIT */
#include "sweep.h"

#include <errno.h>
#include <fcntl.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "group.h"
#include "identity.h"
#include "records.h"

#define DESCRIPTORS_EACH 16                 /* that a tree holds while it is ended, twice over */
#define ENDING_MAX       4096               /* trees that are ended side by side */
#define KILL_USEC        (2 * USEC_PER_SEC) /* of the time given: for SIGKILL, when the graces are over */

/* One owner has many trees: its life is judged once in each pass. */
struct judged_owner {
        struct process_identity identity;
        char boot_id[37];
        uint64_t pid_namespace;
        unsigned pass;
        enum process_life life;
        const char *reason;
};

/* What was kept: no more than it takes to come back to it. */
struct item {
        struct judged_owner *owner;
        unsigned directory; /* of sweep->directories */
        bool done;
        char id[ID_LENGTH + 1];
};

struct sweep {
        bool dry_run;
        uint64_t deadline;    /* of everything */
        uint64_t graces_over; /* SIGKILL, however long a grace is */
        struct report *report;
        struct doomed_list *doomed;
        size_t doomed_max; /* SIZE_MAX: nothing is waited for */

        struct record here; /* record_fill_place() */
        int *directories;
        size_t n_directories;
        struct item *items;
        size_t n_items, n_allocated;
        void *owners; /* search.h */
        struct judged_owner *last_owner;
        unsigned pass;
        struct homes homes;
        char **told; /* the cgroups of trees that something was decided of */
        size_t n_told;
};

static void sweep_done(struct sweep *sweep) {
        for (size_t i = 0; i < sweep->n_directories; i++)
                close_fd(&sweep->directories[i]);
        for (size_t i = 0; i < sweep->n_told; i++)
                free(sweep->told[i]);
        free(sweep->told);
        free(sweep->directories);
        free(sweep->items);
        tdestroy(sweep->owners, free);
        homes_done(&sweep->homes);
}

/* ---- is the owner gone? --------------------------------------------------------------------------------- */

#define COMPARE(a, b) (((a) > (b)) - ((a) < (b)))

static int compare_owners(const void *a, const void *b) {
        const struct judged_owner *x = a, *y = b;
        int r = COMPARE(x->identity.pid, y->identity.pid);

        if (r == 0)
                r = COMPARE(x->identity.start_time, y->identity.start_time);
        if (r == 0)
                r = COMPARE(x->identity.inode, y->identity.inode);
        if (r == 0)
                r = COMPARE(x->pid_namespace, y->pid_namespace);
        return r == 0 ? strcmp(x->boot_id, y->boot_id) : r;
}

/* The one that is known already, or a new one. */
static struct judged_owner *find_owner(struct sweep *sweep, const struct record *record) {
        struct judged_owner wanted = { .identity = record->owner, .pid_namespace = record->pid_namespace }, *owner,
                            **place;

        memcpy(wanted.boot_id, record->boot_id, sizeof(wanted.boot_id));
        if (sweep->last_owner && compare_owners(sweep->last_owner, &wanted) == 0)
                return sweep->last_owner;
        place = tfind(&wanted, &sweep->owners, compare_owners);
        if (!place) {
                owner = malloc(sizeof(*owner));
                if (!owner)
                        return NULL;
                *owner = wanted;
                place = tsearch(owner, &sweep->owners, compare_owners);
                if (!place)
                        free(owner);
        }
        sweep->last_owner = place ? *place : NULL;
        return sweep->last_owner;
}

static void judge_owner(struct sweep *sweep, struct judged_owner *owner) {
        struct record record = { .owner = owner->identity, .pid_namespace = owner->pid_namespace };

        if (owner->pass == sweep->pass)
                return;
        memcpy(record.boot_id, owner->boot_id, sizeof(record.boot_id));
        owner->life = identity_owner_from(&sweep->here, &record, &owner->reason);
        owner->pass = sweep->pass;
}

/* ---- ending --------------------------------------------------------------------------------------------- */

/* Until no more than `n` are being ended. */
static void await_endings(struct sweep *sweep, size_t n) {
        while (sweep->doomed->n > n && sweep->doomed_max < SIZE_MAX) {
                doomed_step(sweep->doomed, sweep->report);
                if (sweep->doomed->n <= n)
                        return;
                if (now_usec() >= sweep->deadline)
                        doomed_give_up(sweep->doomed, sweep->report);
                else
                        doomed_wait(sweep->doomed, sweep->deadline);
        }
}

static uint64_t grace_of(const struct sweep *sweep, const struct record *record) {
        uint64_t now = now_usec(), left = sweep->graces_over > now ? sweep->graces_over - now : 0;

        return record->owner_death_grace_usec < left ? record->owner_death_grace_usec : left;
}

static bool are_below(const struct process_identity *ancestor) {
        struct process us = PROCESS_NONE;
        bool below = ancestor->pid == getpid();

        if (process_identify(ancestor, NULL) != PROCESS_ALIVE)
                return false;
        if (!below && lineage_pin(ancestor->pid, getpid(), &us) >= 0)
                below = true;
        process_done(&us);
        return below;
}

/* `sweep` typed in a group: below its root, or with its id and where it was born. */
static bool is_our_group(const struct record *record) {
        const char *lineage = getenv("CGTREE_ID"), *at = lineage ? strstr(lineage, record->id) : NULL;
        uint64_t cgroup_id;

        if (are_below(&record->group.reaper) || are_below(&record->group.leader))
                return true;
        if (!at || (at > lineage && at[-1] != ':') || (at[ID_LENGTH] != '\0' && at[ID_LENGTH] != ':'))
                return false;
        return group_cgroup_id(getpid(), &cgroup_id) < 0 || cgroup_id == record->group.birth_cgroup_id;
}

static const char *check_end(const cgtree_tree *tree) {
        if (tree->record.placement == CGTREE_PLACEMENT_GROUP)
                return is_our_group(&tree->record) ? "we are in it" : NULL;
        return identity_check_end(&tree->cgroup);
}

static void drop_record(struct sweep *sweep, int dirfd, const struct record *record, const char *reason) {
        int r = sweep->dry_run ? 0 : record_unlink(dirfd, record->id, record->name);

        if (r < 0)
                report_problem(sweep->report, record->id, "failed", "its record cannot be removed");
        else
                report_tell(sweep->report, record->id, sweep->dry_run ? "would tidy" : "tidied", reason);
}

/* Proven. */
static void end_tree(struct sweep *sweep, cgtree_tree *tree, const char *reason) {
        bool populated = tree->record.placement == CGTREE_PLACEMENT_GROUP || cgroup_is_populated(&tree->cgroup) == 1;
        const char *problem = check_end(tree);

        if (problem)
                report_problem(sweep->report, tree->record.id, "skipped", problem);
        else if (sweep->dry_run) {
                sweep->report->n_ended += populated;
                report_tell(sweep->report, tree->record.id, populated ? "would end" : "would tidy", reason);
        } else {
                doomed_add(sweep->doomed, tree, populated, reason, grace_of(sweep, &tree->record), sweep->report);
                await_endings(sweep, sweep->doomed_max);
                return;
        }
        cgtree_tree_free(tree);
}

static void remember_told(struct sweep *sweep, const struct record *record) {
        char *path = record->cgroup ? strdup(record->cgroup) : NULL;
        char **larger = path ? reallocarray(sweep->told, sweep->n_told + 1, sizeof(*larger)) : NULL;

        if (!larger) { /* its directory may be told of, too */
                free(path);
                return;
        }
        sweep->told = larger;
        larger[sweep->n_told++] = path;
}

/* Its owner is gone. */
static void judge_tree(struct sweep *sweep, int dirfd, struct record *record, const char *reason) {
        const char *problem = reason;
        cgtree_tree *tree = NULL;
        int r;

        remember_told(sweep, record);
        r = find_prove(dirfd, record, &tree, &problem);
        if (r == 0)
                drop_record(sweep, dirfd, record, problem);
        else if (r < 0)
                report_problem(sweep->report, record->id, r == -ESTALE ? "skipped" : "failed", problem);
        else
                end_tree(sweep, tree, reason);
}

/* ---- all records ---------------------------------------------------------------------------------------- */

static int add_item(struct sweep *sweep, struct judged_owner *owner, const char *id) {
        struct item *item;

        if (sweep->n_items == sweep->n_allocated) {
                size_t n = sweep->n_allocated * 2 + 16;
                struct item *larger = reallocarray(sweep->items, n, sizeof(*larger));

                if (!larger)
                        return -ENOMEM;
                sweep->items = larger;
                sweep->n_allocated = n;
        }
        item = &sweep->items[sweep->n_items++];
        *item = (struct item){ .owner = owner, .directory = (unsigned)(sweep->n_directories - 1) };
        memcpy(item->id, id, sizeof(item->id));
        return 0;
}

static int collect_record(void *userdata, int dirfd, const char *file, struct record *record, const char *problem) {
        struct sweep *sweep = userdata;
        struct judged_owner *owner;

        (void)dirfd;
        if (!record) {
                _cleanup_free_ char *reason = format("a bad record: %s", problem);

                report_problem(sweep->report, file, "skipped", reason ? reason : problem);
                return 0;
        }
        owner = find_owner(sweep, record);
        if (!owner || (record->cgroup && homes_add(&sweep->homes, record->cgroup) < 0))
                return -ENOMEM;
        judge_owner(sweep, owner);
        return add_item(sweep, owner, record->id);
}

static int collect_directory(void *userdata, int dirfd, const char *path) {
        struct sweep *sweep = userdata;
        int *larger, fd;

        if (dirfd < 0) {
                const char *problem = records_error(dirfd);

                report_problem(sweep->report, path, "skipped", problem ? problem : "the directory cannot be read");
                return 0;
        }
        larger = reallocarray(sweep->directories, sweep->n_directories + 1, sizeof(*larger));
        if (!larger)
                return -ENOMEM;
        sweep->directories = larger;
        fd = fcntl(dirfd, F_DUPFD_CLOEXEC, 3);
        if (fd < 0)
                return -errno;
        sweep->directories[sweep->n_directories++] = fd;
        if (!sweep->dry_run)
                (void)record_tidy(fd);
        return records_each(fd, collect_record, sweep);
}

/* ---- one pass ------------------------------------------------------------------------------------------- */

/* Unlinked since it was collected: by its guard; or, in a later pass, since it lay in a tree that was ended. */
static void record_is_gone(struct sweep *sweep, const struct item *item) {
        if (sweep->pass == 1)
                return;
        sweep->report->n_ended++;
        report_tell(sweep->report, item->id, "ended", "it lay in a tree that was ended");
}

static void judge_orphan(struct sweep *sweep, const struct item *item) {
        int dirfd = sweep->directories[item->directory], r;
        struct record record = { 0 };
        const char *problem = NULL;

        r = record_read_id(dirfd, item->id, &record, &problem);
        if (r == -ENOENT)
                record_is_gone(sweep, item);
        else if (r < 0)
                report_problem(sweep->report, item->id, "skipped", problem ? problem : strerror(-r));
        else if (!doomed_has(sweep->doomed, item->id))
                judge_tree(sweep, dirfd, &record, item->owner->reason);
        record_done(&record);
}

static void judge(struct sweep *sweep, struct item *item) {
        judge_owner(sweep, item->owner);
        if (item->owner->life == PROCESS_ALIVE)
                return;
        item->done = true;
        if (item->owner->life == PROCESS_GONE)
                judge_orphan(sweep, item);
        else
                report_problem(sweep->report, item->id, "skipped", item->owner->reason);
}

static void pass(struct sweep *sweep) {
        for (size_t i = 0; i < sweep->n_items; i++)
                if (!sweep->items[i].done)
                        judge(sweep, &sweep->items[i]);
        await_endings(sweep, 0);
}

static void tell_kept(struct sweep *sweep) {
        for (size_t i = 0; i < sweep->n_items; i++) {
                const struct item *item = &sweep->items[i];
                char file[ID_LENGTH + sizeof(".json")];

                if (item->done)
                        continue;
                snprintf(file, sizeof(file), "%s.json", item->id);
                /* Others may have ended it since; but a single pass takes no time. */
                if (sweep->pass <= 2 || faccessat(sweep->directories[item->directory], file, F_OK, 0) >= 0)
                        report_tell(sweep->report, item->id, "kept", item->owner->reason);
        }
}

/* Those of trees that were not told already. */
static void tell_home(void *userdata, const char *path) {
        struct sweep *sweep = userdata;

        for (size_t i = 0; i < sweep->n_told; i++)
                if (cgroup_path_below(sweep->told[i], path))
                        return;
        report_tell(sweep->report, strrchr(path, '/') + 1, sweep->dry_run ? "would tidy" : "tidied",
                "an empty directory of an owner that is gone");
}

/* ---- the whole ------------------------------------------------------------------------------------------ */

static size_t descriptors_for_endings(void) {
        struct rlimit limit;
        size_t n = getrlimit(RLIMIT_NOFILE, &limit) < 0 ? 1024 : limit.rlim_cur;

        n /= DESCRIPTORS_EACH;
        return n > ENDING_MAX ? ENDING_MAX : n;
}

static int collect(struct sweep *sweep, const char *records) {
        int r = record_fill_place(&sweep->here);

        sweep->pass = 1;
        if (r >= 0)
                r = records_each_directory(records, collect_directory, sweep);
        return r < 0 ? r : homes_add_own(&sweep->homes);
}

/* As long as something was ended: owners that lived before may have died of it. */
static void sweep_all(struct sweep *sweep) {
        size_t n_ended;

        do {
                n_ended = sweep->report->n_ended;
                pass(sweep);
                sweep->pass++;
        } while (!sweep->dry_run && sweep->report->n_ended > n_ended);
        tell_kept(sweep);
        homes_tidy(&sweep->homes, sweep->dry_run, tell_home, sweep);
}

int cgtree_sweep(const char *records, bool dry_run, uint64_t timeout_usec, cgtree_sweep_fn fn, void *userdata) {
        struct report report = { .fn = fn, .userdata = userdata };
        struct doomed_list doomed = DOOMED_NONE;
        uint64_t now = now_usec(), for_kill = timeout_usec / 4 < KILL_USEC ? timeout_usec / 4 : KILL_USEC;
        struct sweep sweep = {
                .dry_run = dry_run,
                .deadline = usec_add(now, timeout_usec),
                .graces_over = timeout_usec == CGTREE_FOREVER ? USEC_FOREVER : usec_add(now, timeout_usec - for_kill),
                .report = &report,
                .doomed = &doomed,
                .doomed_max = descriptors_for_endings(),
        };
        int r = collect(&sweep, records);

        if (r >= 0) {
                sweep_all(&sweep);
                r = report.problem ? -EBADMSG : (int)report.n_ended;
        }
        sweep_done(&sweep);
        return r;
}

int sweep_look(const char *records, struct doomed_list *list, struct report *report) {
        struct sweep sweep = {
                .deadline = USEC_FOREVER,
                .graces_over = USEC_FOREVER,
                .report = report,
                .doomed = list,
                .doomed_max = SIZE_MAX,
        };
        int r = collect(&sweep, records);

        if (r >= 0) {
                pass(&sweep);
                tell_kept(&sweep);
                homes_tidy(&sweep.homes, false, tell_home, &sweep);
        }
        sweep_done(&sweep);
        return r;
}
