/* SPDX-License-Identifier: MIT */
#include "identity.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static enum identity_verdict verdict(enum identity_verdict verdict, const char **ret_reason, const char *reason) {
        *ret_reason = reason;
        return verdict;
}

/* ---- origin and owner ----------------------------------------------------------------------------------- */

static enum identity_verdict compare_origin(
        const struct record *record, const struct record *here, const char **ret_reason) {
        if (strcmp(record->boot_id, here->boot_id) != 0)
                return verdict(IDENTITY_NOTHING, ret_reason, "it is of another boot");
        /* The number of a namespace may be reissued when that has ended; but then all that lived in it has ended, too. */
        if (record->pid_namespace == 0 || record->pid_namespace != here->pid_namespace)
                return verdict(IDENTITY_SKIP, ret_reason, "it is of another pid namespace");
        return verdict(IDENTITY_PROVEN, ret_reason, "it is of this boot and pid namespace");
}

static enum identity_verdict judge_origin(
        const struct record *record, uint64_t *ret_cgroup_namespace, const char **ret_reason) {
        struct record here = { 0 };

        if (record_fill_place(&here) < 0)
                return verdict(IDENTITY_SKIP, ret_reason, "we cannot tell where we are ourselves");
        *ret_cgroup_namespace = here.cgroup_namespace;
        return compare_origin(record, &here, ret_reason);
}

enum identity_verdict identity_origin(const struct record *record, const char **ret_reason) {
        uint64_t cgroup_namespace;

        return judge_origin(record, &cgroup_namespace, ret_reason);
}

enum process_life identity_owner(const struct record *record, const char **ret_reason) {
        struct record here = { 0 };

        if (record_fill_place(&here) < 0) {
                *ret_reason = "we cannot tell where we are ourselves";
                return PROCESS_UNKNOWN;
        }
        return identity_owner_from(&here, record, ret_reason);
}

enum process_life identity_owner_from(const struct record *here, const struct record *record, const char **ret_reason) {
        switch (compare_origin(record, here, ret_reason)) {
        case IDENTITY_NOTHING: return PROCESS_GONE;
        case IDENTITY_SKIP: return PROCESS_UNKNOWN;
        case IDENTITY_PROVEN:
        default: break;
        }
        switch (process_identify(&record->owner, NULL)) {
        case PROCESS_GONE: *ret_reason = "its owner is gone"; return PROCESS_GONE;
        case PROCESS_ALIVE: *ret_reason = "its owner lives"; return PROCESS_ALIVE;
        case PROCESS_UNKNOWN:
        default: *ret_reason = "it cannot be told whether its owner lives"; return PROCESS_UNKNOWN;
        }
}

/* ---- stamps --------------------------------------------------------------------------------------------- */

char *identity_stamp(const struct record *origin) {
        return format("%d %" PRIu64 " %" PRIu64 " %s %" PRIu64, (int)origin->owner.pid, origin->owner.start_time,
                origin->owner.inode, origin->boot_id, origin->pid_namespace);
}

static int parse_stamp(char *text, struct record *ret_origin) {
        struct record origin = { 0 };
        char *fields[5], *rest = text;

        for (size_t i = 0; i < 5; i++) {
                fields[i] = strsep(&rest, " ");
                if (!fields[i])
                        return -EBADMSG;
        }
        if (rest || parse_pid(fields[0], &origin.owner.pid) < 0 || parse_u64(fields[1], &origin.owner.start_time) < 0 ||
                parse_u64(fields[2], &origin.owner.inode) < 0 || strlen(fields[3]) != sizeof(origin.boot_id) - 1 ||
                parse_u64(fields[4], &origin.pid_namespace) < 0)
                return -EBADMSG;
        memcpy(origin.boot_id, fields[3], sizeof(origin.boot_id));
        *ret_origin = origin;
        return 0;
}

int identity_read_stamp(const struct cgroup *cgroup, struct record *ret_origin) {
        char text[160];
        int r = cgroup_get_xattr(cgroup, CGROUP_XATTR_OWNER, text, sizeof(text));

        if (r < 0)
                return r == -ERANGE ? -EBADMSG : r;
        return parse_stamp(text, ret_origin);
}

/* ---- who is in it --------------------------------------------------------------------------------------- */

struct inside {
        pid_t *pids; /* ascending */
        size_t n;
};

static int compare_pids(const void *a, const void *b) {
        const pid_t *left = a, *right = b;

        return (*left > *right) - (*left < *right);
}

static bool is_inside(const struct inside *inside, pid_t pid) {
        return inside->n > 0 && bsearch(&pid, inside->pids, inside->n, sizeof(pid), compare_pids);
}

/* We first, then parent after parent. Where /proc hides one, its number is known still, but not who is above it. */
static bool holds_us(const struct cgroup *cgroup, const struct inside *inside) {
        pid_t pid = getpid(), parent = getppid();

        if (cgroup_contains(cgroup, 0) != 0) /* what cannot be told may well be so */
                return true;
        while (inside->n > 0 && pid > 0) {
                struct process_stat stat;

                if (is_inside(inside, pid))
                        return true;
                pid = parent;
                parent = process_read_stat(pid, &stat) < 0 ? 0 : stat.parent;
        }
        return false;
}

/* An owner of another pid namespace that has its place in here is taken for nested: from outside its number says nothing. */
static bool is_foreign_owner(const struct record *origin, const struct inside *inside) {
        const char *reason;

        if (identity_origin(origin, &reason) != IDENTITY_PROVEN || is_inside(inside, origin->owner.pid))
                return false;
        return identity_owner(origin, &reason) != PROCESS_GONE;
}

static int find_foreign_owner(void *userdata, int dirfd, const char *relative_path) {
        struct cgroup cgroup = { .fd = dirfd };
        struct record origin;

        if (!*relative_path || identity_read_stamp(&cgroup, &origin) < 0)
                return 0;
        return is_foreign_owner(&origin, userdata) ? -EEXIST : 0;
}

const char *identity_check_end(const struct cgroup *cgroup) {
        _cleanup_free_ pid_t *pids = NULL;
        struct inside inside = { 0 };
        int r;

        if (cgroup_members(cgroup, &pids, &inside.n, NULL) < 0)
                return "it cannot be told who is in its cgroup";
        inside.pids = pids;
        if (holds_us(cgroup, &inside))
                return "we, or an ancestor of ours, are in it";
        r = cgroup_walk(cgroup, find_foreign_owner, &inside);
        if (r == -EEXIST)
                return "another owner, who lives, has its trees in it";
        return r < 0 ? "its cgroup cannot be walked" : NULL;
}

/* ---- the cgroup ----------------------------------------------------------------------------------------- */

#define ROOT_ID 1 /* of every hierarchy of cgroups */

static const char *check_marks(const struct record *record, const struct cgroup *cgroup) {
        char id[ID_LENGTH + 2];
        int r;

        if (cgroup->id == ROOT_ID)
                return "its cgroup is the root";
        if (cgroup->id != record->cgroup_id)
                return "its path leads to another cgroup";
        r = cgroup_get_xattr(cgroup, CGROUP_XATTR_ID, id, sizeof(id));
        if (r == -EOPNOTSUPP) /* before Linux 5.7: the inode alone */
                return NULL;
        if (r < 0)
                return "its cgroup does not carry its id";
        return strcmp(id, record->id) == 0 ? NULL : "its cgroup carries another id";
}

static enum identity_verdict judge_absence(
        const struct record *record, uint64_t cgroup_namespace, const char **ret_reason) {
        if (record->cgroup_namespace == 0 || record->cgroup_namespace != cgroup_namespace)
                return verdict(IDENTITY_SKIP, ret_reason, "it is of another cgroup namespace");
        return verdict(IDENTITY_NOTHING, ret_reason, "its cgroup is gone");
}

enum identity_verdict identity_cgroup(const struct record *record, struct cgroup *ret_cgroup, const char **ret_reason) {
        _cleanup_close_ int root = -1;
        _cleanup_free_ char *prefix = NULL;
        struct cgroup cgroup = CGROUP_NONE;
        uint64_t cgroup_namespace = 0;
        const char *problem;
        enum identity_verdict v = judge_origin(record, &cgroup_namespace, ret_reason);
        int r;

        if (v != IDENTITY_PROVEN)
                return v;
        r = cgroup_open_root(&root, &prefix);
        if (r == -ENOENT) /* without a mount every path is absent */
                return verdict(IDENTITY_SKIP, ret_reason, "no cgroup2 can be seen from here");
        if (r >= 0)
                r = cgroup_open_from(root, prefix, record->cgroup, &cgroup);
        if (r == -ENOENT)
                return judge_absence(record, cgroup_namespace, ret_reason);
        if (r < 0)
                return verdict(IDENTITY_SKIP, ret_reason, "its cgroup cannot be opened");
        problem = check_marks(record, &cgroup);
        if (problem) {
                cgroup_done(&cgroup);
                return verdict(IDENTITY_SKIP, ret_reason, problem);
        }
        *ret_cgroup = cgroup_take(&cgroup);
        return verdict(IDENTITY_PROVEN, ret_reason, "its cgroup is the recorded one");
}
