/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>

#include "identity.h"
#include "owner.h"

/* What a tree says of itself. Nothing here waits or changes it. */

static bool is_ours(const cgtree_tree *tree) {
        return tree && owner_check(tree->owner) >= 0;
}

void cgtree_tree_set_userdata(cgtree_tree *tree, void *userdata) {
        if (tree)
                tree->userdata = userdata;
}

void *cgtree_tree_get_userdata(cgtree_tree *tree) {
        return tree ? tree->userdata : NULL;
}

const char *cgtree_tree_get_id(cgtree_tree *tree) {
        if (!is_ours(tree))
                return NULL;
        return tree->record.id;
}

const char *cgtree_tree_get_name(cgtree_tree *tree) {
        if (!is_ours(tree))
                return NULL;
        return tree->record.name;
}

const char *cgtree_tree_get_command(cgtree_tree *tree) {
        if (!is_ours(tree))
                return NULL;
        return tree->record.command;
}

const char *cgtree_tree_get_cgroup(cgtree_tree *tree) {
        if (!is_ours(tree))
                return NULL;
        return tree->record.cgroup;
}

enum cgtree_placement cgtree_tree_get_placement(cgtree_tree *tree) {
        if (!is_ours(tree))
                return CGTREE_PLACEMENT_AUTO;
        return tree->placement->kind;
}

enum cgtree_guarantee cgtree_tree_get_guarantee(cgtree_tree *tree) {
        if (!is_ours(tree))
                return 0;
        return tree->placement->guarantee;
}

uint64_t cgtree_tree_get_created(cgtree_tree *tree) {
        if (!is_ours(tree))
                return 0;
        return tree->record.created_usec;
}

pid_t cgtree_tree_get_owner(cgtree_tree *tree, const char **ret_comm, int *ret_alive) {
        if (!is_ours(tree))
                return 0;
        if (ret_comm)
                *ret_comm = tree->record.owner_comm ? tree->record.owner_comm : "";
        if (ret_alive) {
                const char *reason;
                enum process_life life = identity_owner(&tree->record, &reason);
                *ret_alive = life == PROCESS_ALIVE ? 1 : life == PROCESS_GONE ? 0 : -ENODATA;
        }
        return tree->record.owner.pid;
}

pid_t cgtree_tree_get_root(cgtree_tree *tree) {
        if (!is_ours(tree))
                return 0;
        return tree->root_ended ? 0 : tree->root_pid;
}

int cgtree_tree_get_root_pidfd(cgtree_tree *tree) {
        if (!is_ours(tree))
                return -1;
        return tree->root_pidfd;
}

int cgtree_tree_take_fd(cgtree_tree *tree, int target) {
        if (!is_ours(tree))
                return -ECHILD;
        for (size_t i = 0; i < tree->n_pipes; i++)
                if (tree->pipes[i].target == target && tree->pipes[i].our_fd >= 0)
                        return take_fd(&tree->pipes[i].our_fd);
        return -ENOENT;
}

int cgtree_tree_get_exit(cgtree_tree *tree, int *ret_code, int *ret_status) {
        if (!is_ours(tree))
                return -ECHILD;
        if (!tree->root_ended || (tree->found && !tree_is_over(tree)))
                return -EBUSY;
        if (!tree->exit_known || tree->error < 0)
                return -ENODATA;
        if (ret_code)
                *ret_code = tree->exit_code;
        if (ret_status)
                *ret_status = tree->exit_status;
        return 0;
}

enum cgtree_cause cgtree_tree_get_cause(cgtree_tree *tree) {
        if (!is_ours(tree))
                return CGTREE_CAUSE_NONE;
        return tree->cause;
}

int cgtree_tree_get_error(cgtree_tree *tree, enum cgtree_step *ret_step, const char **ret_message) {
        if (!is_ours(tree))
                return -ECHILD;
        if (ret_step)
                *ret_step = tree->error_step;
        if (ret_message)
                *ret_message = tree->error_message ? tree->error_message : "";
        return tree->error;
}

const char *cgtree_tree_get_survivors(cgtree_tree *tree) {
        if (!is_ours(tree))
                return NULL;
        return tree->survivors;
}

const char *cgtree_tree_get_stray(cgtree_tree *tree) {
        if (!is_ours(tree))
                return NULL;
        return tree->stray;
}
