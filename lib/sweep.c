/* SPDX-License-Identifier: MIT */
#include "sweep.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "group.h"
#include "identity.h"
#include "owner.h"
#include "records.h"

#define ENDING_MAX 64 /* trees that are ended side by side; each holds some 4 descriptors */

enum item_state {
        ITEM_OPEN,   /* not decided, or kept */
        ITEM_ENDING, /* tree */
        ITEM_DONE,   /* told */
};

struct item {
        enum item_state state;
        int dirfd; /* of sweep->directories */
        char id[ID_LENGTH + 1];
        char *cgroup; /* path of a subtree */
        struct record record;
        cgtree_tree *tree; /* which has the record */
        bool was_populated;
        const char *reason;
};

/* One owner has many trees: its life is judged once in each pass. */
struct judged_owner {
        struct process_identity identity;
        char boot_id[37];
        uint64_t pid_namespace;
        enum process_life life;
        const char *reason;
};

struct sweep {
        bool dry_run;
        uint64_t deadline;
        cgtree_sweep_fn fn;
        void *userdata;

        int *directories;
        size_t n_directories;
        struct item *items;
        size_t n_items;
        struct judged_owner *owners;
        size_t n_owners;
        struct homes homes;

        size_t n_ending, n_ended;
        bool problem; /* something could not be swept, or is bad */
};

static void sweep_done(struct sweep *sweep) {
        for (size_t i = 0; i < sweep->n_items; i++) {
                record_done(&sweep->items[i].record);
                cgtree_tree_free(sweep->items[i].tree);
                free(sweep->items[i].cgroup);
        }
        for (size_t i = 0; i < sweep->n_directories; i++)
                close_fd(&sweep->directories[i]);
        free(sweep->directories);
        free(sweep->items);
        free(sweep->owners);
        homes_done(&sweep->homes);
}

/* ---- what is told --------------------------------------------------------------------------------------- */

static void tell(struct sweep *sweep, const char *id, const char *decision, const char *reason) {
        if (sweep->fn)
                sweep->fn(sweep->userdata, id, decision, reason);
}

static void tell_problem(struct sweep *sweep, const char *id, const char *decision, const char *reason) {
        sweep->problem = true;
        tell(sweep, id, decision, reason);
}

static void decide(struct sweep *sweep, struct item *item, const char *decision, const char *reason) {
        item->state = ITEM_DONE;
        tell(sweep, item->id, decision, reason);
}

static void decide_problem(struct sweep *sweep, struct item *item, const char *decision, const char *reason) {
        sweep->problem = true;
        decide(sweep, item, decision, reason);
}

/* ---- all records ---------------------------------------------------------------------------------------- */

static int collect_record(void *userdata, int dirfd, const char *file, struct record *record, const char *problem) {
        struct sweep *sweep = userdata;
        struct item item = { 0 }, *larger;

        (void)dirfd;
        if (!record) {
                _cleanup_free_ char *reason = format("a bad record: %s", problem);

                tell_problem(sweep, file, "skipped", reason ? reason : problem);
                return 0;
        }
        larger = reallocarray(sweep->items, sweep->n_items + 1, sizeof(*larger));
        if (!larger)
                return -ENOMEM;
        sweep->items = larger;
        if (record->cgroup) {
                item.cgroup = strdup(record->cgroup);
                if (!item.cgroup || homes_add(&sweep->homes, record->cgroup) < 0) {
                        free(item.cgroup);
                        return -ENOMEM;
                }
        }
        memcpy(item.id, record->id, sizeof(item.id));
        item.dirfd = sweep->directories[sweep->n_directories - 1];
        item.record = record_take(record);
        sweep->items[sweep->n_items++] = item;
        return 0;
}

static int collect_directory(void *userdata, int dirfd, const char *path) {
        struct sweep *sweep = userdata;
        int *larger, fd;

        if (dirfd < 0) {
                const char *problem = records_error(dirfd);

                tell_problem(sweep, path, "skipped", problem ? problem : "the directory cannot be read");
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

/* ---- is the owner gone? --------------------------------------------------------------------------------- */

static bool is_owner_of(const struct judged_owner *owner, const struct record *record) {
        return owner->identity.pid == record->owner.pid && owner->identity.start_time == record->owner.start_time &&
               owner->identity.inode == record->owner.inode && owner->pid_namespace == record->pid_namespace &&
               strcmp(owner->boot_id, record->boot_id) == 0;
}

static enum process_life judge_owner(struct sweep *sweep, const struct record *record, const char **ret_reason) {
        struct judged_owner owner = { .identity = record->owner, .pid_namespace = record->pid_namespace }, *larger;

        for (size_t i = sweep->n_owners; i > 0; i--) /* records of one owner tend to follow each other */
                if (is_owner_of(&sweep->owners[i - 1], record)) {
                        *ret_reason = sweep->owners[i - 1].reason;
                        return sweep->owners[i - 1].life;
                }
        owner.life = identity_owner(record, ret_reason);
        owner.reason = *ret_reason;
        memcpy(owner.boot_id, record->boot_id, sizeof(owner.boot_id));
        larger = reallocarray(sweep->owners, sweep->n_owners + 1, sizeof(*larger));
        if (larger) { /* without memory it will be judged again */
                sweep->owners = larger;
                sweep->owners[sweep->n_owners++] = owner;
        }
        return owner.life;
}

/* ---- ending --------------------------------------------------------------------------------------------- */

static void item_close(struct sweep *sweep, struct item *item) {
        cgtree_tree_free(item->tree);
        item->tree = NULL;
        sweep->n_ending--;
}

/* Its marks may be on others, too: they are named, not touched. */
static char *describe_unproven(const struct record *record, const char *reason) {
        _cleanup_free_ pid_t *pids = NULL;
        size_t n, n_unproven = 0;

        if (record->placement != CGTREE_PLACEMENT_GROUP || group_members(record, &pids, &n, &n_unproven) < 0 ||
                n_unproven == 0)
                return strdup(reason);
        return format(
                "%s; %zu that carry its CGTREE_ID but do not prove to be of it were left alone", reason, n_unproven);
}

static void finish(struct sweep *sweep, struct item *item) {
        _cleanup_free_ char *reason = describe_unproven(&item->tree->record, item->reason);

        item_close(sweep, item);
        sweep->n_ended += item->was_populated;
        decide(sweep, item, item->was_populated ? "ended" : "tidied", reason ? reason : item->reason);
}

static void give_up(struct sweep *sweep, struct item *item) {
        const char *survivors = item->tree->survivors;
        _cleanup_free_ char *reason = survivors ? format("it lives on after SIGKILL: %s", survivors) : NULL;

        item_close(sweep, item);
        decide_problem(sweep, item, "failed", reason ? reason : "it was not seen empty within the time given");
}

/* One step of each. */
static void step_all(struct sweep *sweep) {
        for (size_t i = 0; i < sweep->n_items; i++) {
                struct item *item = &sweep->items[i];

                if (item->state != ITEM_ENDING)
                        continue;
                if (owner_enter(item->tree) >= 0)
                        owner_leave(item->tree); /* steps it */
                if (tree_is_over(item->tree))
                        finish(sweep, item);
                else if ((item->tree->state == TREE_KILLING && item->tree->bound_told) || now_usec() >= sweep->deadline)
                        give_up(sweep, item);
        }
}

static void wait_for_any(struct sweep *sweep) {
        struct pollfd sources[ENDING_MAX * TREE_SOURCES_MAX];
        uint64_t until = sweep->deadline, now = now_usec();
        struct timespec timeout;
        size_t n = 0;

        for (size_t i = 0; i < sweep->n_items; i++) {
                const struct item *item = &sweep->items[i];

                if (item->state != ITEM_ENDING)
                        continue;
                n += tree_sources(item->tree, sources + n);
                if (item->tree->wakeup < until)
                        until = item->tree->wakeup;
        }
        now = until > now ? until - now : 0;
        timeout.tv_sec = (time_t)(now / USEC_PER_SEC);
        timeout.tv_nsec = (long)(now % USEC_PER_SEC * 1000);
        (void)ppoll(sources, n, until == USEC_FOREVER ? NULL : &timeout, NULL);
}

/* Until no more than `n` are being ended. */
static void await_endings(struct sweep *sweep, size_t n) {
        step_all(sweep);
        while (sweep->n_ending > n) {
                wait_for_any(sweep);
                step_all(sweep);
        }
}

/* Proven, and the owner is gone. */
static void begin_end(struct sweep *sweep, struct item *item) {
        uint64_t grace = item->tree->record.owner_death_grace_usec;
        int r;

        item->state = ITEM_ENDING;
        sweep->n_ending++;
        r = grace == 0 ? cgtree_tree_begin_kill(item->tree) : cgtree_tree_begin_terminate(item->tree, grace);
        if (r >= 0)
                return;
        item_close(sweep, item);
        decide_problem(sweep, item, "skipped", r == -EDEADLK ? "we are in it" : strerror(-r));
}

/* ---- judging -------------------------------------------------------------------------------------------- */

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

static void drop_record(struct sweep *sweep, struct item *item) {
        int r = sweep->dry_run ? 0 : record_unlink(item->dirfd, item->record.id, item->record.name);

        if (r < 0) {
                decide_problem(sweep, item, "failed", "its record cannot be removed");
                return;
        }
        decide(sweep, item, sweep->dry_run ? "would tidy" : "tidied", item->reason);
}

/* Its owner is gone. */
static void judge_tree(struct sweep *sweep, struct item *item) {
        const char *reason = NULL;
        int r = find_prove(item->dirfd, &item->record, &item->tree, &reason);

        if (r == 0) {
                item->reason = reason;
                drop_record(sweep, item);
                return;
        }
        if (r < 0) {
                decide_problem(sweep, item, r == -ESTALE ? "skipped" : "failed", reason);
                return;
        }
        reason = check_end(item->tree);
        item->was_populated =
                item->tree->record.placement == CGTREE_PLACEMENT_GROUP || cgroup_is_populated(&item->tree->cgroup) == 1;
        if (!reason && !sweep->dry_run) {
                begin_end(sweep, item);
                return;
        }
        cgtree_tree_free(item->tree);
        item->tree = NULL;
        if (reason) {
                decide_problem(sweep, item, "skipped", reason);
                return;
        }
        sweep->n_ended += item->was_populated;
        decide(sweep, item, item->was_populated ? "would end" : "would tidy", item->reason);
}

static bool record_is_gone(const struct item *item) {
        char file[ID_LENGTH + sizeof(".json")];

        snprintf(file, sizeof(file), "%s.json", item->id);
        return faccessat(item->dirfd, file, F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT;
}

static void judge(struct sweep *sweep, struct item *item, bool again) {
        switch (judge_owner(sweep, &item->record, &item->reason)) {
        case PROCESS_ALIVE: return;
        case PROCESS_UNKNOWN: decide_problem(sweep, item, "skipped", item->reason); return;
        case PROCESS_GONE:
        default: break;
        }
        if (again && record_is_gone(item)) {
                sweep->n_ended++;
                decide(sweep, item, "ended", "it lay in a tree that was ended");
                return;
        }
        judge_tree(sweep, item);
}

/* True: something was ended; owners that lived before may have died of it. */
static bool pass(struct sweep *sweep, bool again) {
        size_t n_ended = sweep->n_ended;

        sweep->n_owners = 0;
        for (size_t i = 0; i < sweep->n_items; i++) {
                if (sweep->items[i].state == ITEM_OPEN)
                        judge(sweep, &sweep->items[i], again);
                if (sweep->n_ending >= ENDING_MAX)
                        await_endings(sweep, ENDING_MAX - 1);
        }
        await_endings(sweep, 0);
        return !sweep->dry_run && sweep->n_ended > n_ended;
}

/* ---- the whole ------------------------------------------------------------------------------------------ */

/* Those of trees that were not told already. */
static void tell_home(void *userdata, const char *path) {
        struct sweep *sweep = userdata;

        for (size_t i = 0; i < sweep->n_items; i++)
                if (sweep->items[i].cgroup && cgroup_path_below(sweep->items[i].cgroup, path))
                        return;
        tell(sweep, strrchr(path, '/') + 1, sweep->dry_run ? "would tidy" : "tidied",
                "an empty directory of an owner that is gone");
}

static void sweep_all(struct sweep *sweep) {
        bool again = false;

        while (pass(sweep, again))
                again = true;
        for (size_t i = 0; i < sweep->n_items; i++)
                if (sweep->items[i].state == ITEM_OPEN && !record_is_gone(&sweep->items[i]))
                        decide(sweep, &sweep->items[i], "kept", sweep->items[i].reason);
        homes_tidy(&sweep->homes, sweep->dry_run, tell_home, sweep);
}

int cgtree_sweep(const char *records, bool dry_run, uint64_t timeout_usec, cgtree_sweep_fn fn, void *userdata) {
        struct sweep sweep = {
                .dry_run = dry_run,
                .deadline = usec_add(now_usec(), timeout_usec),
                .fn = fn,
                .userdata = userdata,
        };
        int r = records_each_directory(records, collect_directory, &sweep);

        if (r >= 0)
                r = homes_add_own(&sweep.homes);
        if (r >= 0) {
                sweep_all(&sweep);
                r = sweep.problem ? -EBADMSG : (int)sweep.n_ended;
        }
        sweep_done(&sweep);
        return r;
}
