/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "owner.h"

/* A tree of another process, by its record. It begins where its root is nobody's to see any more: what is left is
 * its members. */

static int open_parent(const struct record *record, struct cgroup *ret_parent) {
        _cleanup_free_ char *path = strdup(record->cgroup);
        if (!path)
                return -ENOMEM;
        char *slash = strrchr(path, '/');
        if (slash == path)
                slash++;
        *slash = '\0';
        return cgroup_open(path, ret_parent);
}

/* Pins the reaper, if it lives: its end is what says that the group may be empty. */
static void watch_reaper(cgtree_tree *tree) {
        struct process reaper = PROCESS_NONE;
        if (process_identify(&tree->record.group.reaper, &reaper) != PROCESS_ALIVE)
                return;
        tree->gate.pid = reaper.identity.pid;
        tree->gate.pidfd = take_fd(&reaper.pidfd);
        process_done(&reaper);
}

#define WATCH_USEC (20 * USEC_PER_MSEC) /* the end of a record makes no noise */

bool tree_is_watched_only(cgtree_tree *tree) {
        if (!tree->found || tree->state != TREE_ROOT_ENDED || !tree_record_stands(tree))
                return false;
        tree_wake_at(tree, now_usec() + WATCH_USEC);
        return true;
}

static int new_private_owner(int records_fd, cgtree_owner **ret_owner) {
        cgtree_owner *owner;
        int r = cgtree_owner_new(&owner);
        if (r < 0)
                return r;
        owner->records_fd = fcntl(records_fd, F_DUPFD_CLOEXEC, 3);
        if (owner->records_fd < 0) {
                r = -errno;
                cgtree_owner_free(owner);
                return r;
        }
        owner->open = owner->opened_told = true;
        *ret_owner = owner;
        return 0;
}

static int place(cgtree_tree *tree, struct cgroup *cgroup) {
        if (tree->record.placement == CGTREE_PLACEMENT_GROUP) {
                tree->placement = &placement_group;
                tree->outside = true;
                watch_reaper(tree);
                return 0;
        }
        bool scope = tree->record.placement == CGTREE_PLACEMENT_SCOPE; /* whose directory is its manager's to remove */
        int r = scope ? 0 : open_parent(&tree->record, &tree->owner->home.trees);
        if (r < 0)
                return r;
        tree->placement = scope ? &placement_scope : &placement_subtree;
        tree->cgroup = cgroup_take(cgroup);
        return 0;
}

int tree_new_found(int records_fd, struct record *record, struct cgroup *cgroup, cgtree_tree **ret_tree) {
        cgtree_owner *owner = NULL;
        int r = new_private_owner(records_fd, &owner);
        if (r < 0)
                return r;
        cgtree_tree *tree = tree_allocate(owner);
        r = tree ? owner_add(owner, tree) : -ENOMEM;
        if (r < 0) {
                free(tree);
                cgtree_owner_free(owner);
                return r;
        }
        tree->busy = false;
        tree->found = tree->recorded = tree->root_ended = true;
        tree->state = TREE_ROOT_ENDED;
        tree->end_signal = SIGTERM;
        tree->grace_usec = record->grace_usec;
        tree->record = record_take(record);
        r = place(tree, cgroup);
        if (r < 0) {
                *record = record_take(&tree->record);
                cgtree_owner_free(owner);
                return r;
        }
        *ret_tree = tree;
        return 0;
}
