/* SPDX-License-Identifier: MIT */
#include "find.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "group.h"
#include "identity.h"
#include "records.h"

/* ---- one record ----------------------------------------------------------------------------------------- */

static enum identity_verdict prove_group(const struct record *record, const char **ret_reason) {
        enum identity_verdict verdict = identity_origin(record, ret_reason);

        if (verdict != IDENTITY_PROVEN)
                return verdict;
        switch (group_is_empty(record)) {
        case 0: *ret_reason = "members of its group live"; return IDENTITY_PROVEN;
        case 1: *ret_reason = "its group is gone"; return IDENTITY_NOTHING;
        default: *ret_reason = "it cannot be told who is in its group"; return IDENTITY_SKIP;
        }
}

int find_prove(int dirfd, struct record *record, cgtree_tree **ret_tree, const char **ret_reason) {
        bool group = record->placement == CGTREE_PLACEMENT_GROUP;
        struct cgroup cgroup = CGROUP_NONE;
        int r;

        switch (group ? prove_group(record, ret_reason) : identity_cgroup(record, &cgroup, ret_reason)) {
        case IDENTITY_NOTHING: return 0;
        case IDENTITY_SKIP: return -ESTALE;
        case IDENTITY_PROVEN:
        default: break;
        }
        r = tree_new_found(dirfd, record, &cgroup, ret_tree);
        if (r >= 0)
                return 1;
        cgroup_done(&cgroup);
        if (r == -ENOENT) { /* between the proof and now */
                *ret_reason = "its cgroup is gone";
                return 0;
        }
        *ret_reason = r == -ENOMEM ? "there is no memory" : "there are no descriptors left";
        return r;
}

/* ---- find ----------------------------------------------------------------------------------------------- */

struct search {
        const char *wanted;
        int (*look)(struct search *search, int dirfd);
        size_t n;  /* records that match, bad ones too */
        int error; /* of the last of them; 0: tree */
        cgtree_tree *tree;
};

/* `r` and `record` as they were read. */
static void search_match(struct search *search, int dirfd, int r, struct record *record) {
        const char *reason;

        if (r == -ENOENT)
                return;
        if (++search->n > 1)
                return;
        if (r >= 0) {
                r = find_prove(dirfd, record, &search->tree, &reason);
                /* A record of another boot is void, but it is there. */
                if (r == 0)
                        r = identity_origin(record, &reason) == IDENTITY_NOTHING ? -ESTALE : -ENOENT;
        }
        search->error = r < 0 ? r : 0;
}

static int look_for_id(struct search *search, int dirfd) {
        struct record record = { 0 };
        const char *problem;
        int r = record_read_id(dirfd, search->wanted, &record, &problem);

        search_match(search, dirfd, r, &record);
        record_done(&record);
        return 0;
}

static int look_for_name(struct search *search, int dirfd) {
        struct record record = { 0 };
        const char *problem;
        int r = record_read_name(dirfd, search->wanted, &record, &problem);

        search_match(search, dirfd, r, &record);
        record_done(&record);
        return 0;
}

static int match_prefix(void *userdata, int dirfd, const char *file, struct record *record, const char *problem) {
        struct search *search = userdata;

        (void)problem;
        if (strncmp(file, search->wanted, strlen(search->wanted)) == 0)
                search_match(search, dirfd, record ? 0 : -EBADMSG, record);
        return 0;
}

static int look_for_prefix(struct search *search, int dirfd) {
        return records_each(dirfd, match_prefix, search);
}

static int search_directory(void *userdata, int dirfd, const char *path) {
        struct search *search = userdata;

        (void)path;
        return dirfd < 0 ? 0 : search->look(search, dirfd);
}

/* -ENOENT: no record matches. */
static int search_all(const char *records, const char *wanted, int (*look)(struct search *search, int dirfd),
        cgtree_tree **ret_tree) {
        struct search search = { .wanted = wanted, .look = look };
        int r = records_each_directory(records, search_directory, &search);

        if (r >= 0)
                r = search.n == 0 ? -ENOENT : search.n > 1 ? -ENOTUNIQ : search.error;
        if (r >= 0)
                *ret_tree = search.tree;
        else
                cgtree_tree_free(search.tree);
        return r;
}

int cgtree_find(const char *records, const char *id_or_name, cgtree_tree **ret_tree) {
        int r;

        if (!id_or_name || !ret_tree)
                return -EINVAL;
        if (!*id_or_name)
                return -ENOENT;
        if (id_is_valid(id_or_name))
                return search_all(records, id_or_name, look_for_id, ret_tree);
        r = search_all(records, id_or_name, look_for_name, ret_tree);
        if (r == -ENOENT && strlen(id_or_name) < ID_LENGTH)
                r = search_all(records, id_or_name, look_for_prefix, ret_tree);
        return r;
}

/* ---- list ----------------------------------------------------------------------------------------------- */

struct listing {
        cgtree_list_fn fn;
        void *userdata;
};

static int list_record(void *userdata, int dirfd, const char *file, struct record *record, const char *problem) {
        const struct listing *listing = userdata;
        cgtree_tree *tree = NULL;
        int r;

        if (!record)
                return listing->fn(listing->userdata, NULL, file, problem);
        r = find_prove(dirfd, record, &tree, &problem);
        if (r == 0) /* there is no tree any more; sweep will tidy its record away */
                return 0;
        r = listing->fn(listing->userdata, tree, file, tree ? NULL : problem);
        cgtree_tree_free(tree);
        return r;
}

static int list_directory(void *userdata, int dirfd, const char *path) {
        const struct listing *listing = userdata;
        const char *problem;

        if (dirfd >= 0)
                return records_each(dirfd, list_record, userdata);
        problem = records_error(dirfd);
        return listing->fn(listing->userdata, NULL, path, problem ? problem : "the directory cannot be read");
}

int cgtree_list(const char *records, cgtree_list_fn fn, void *userdata) {
        struct listing listing = { .fn = fn, .userdata = userdata };

        return fn ? records_each_directory(records, list_directory, &listing) : -EINVAL;
}
