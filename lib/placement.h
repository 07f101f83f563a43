/* SPDX-License-Identifier: MIT */
#pragma once

/* Where a tree lives, and how it is seen and ended there: one table of functions for each placement. */

#include "cgtree.h"

enum tree_input {
        INPUT_NONE,
        INPUT_PLACED,       /* the place and the record are there; the child may go */
        INPUT_EXECED,       /* it runs the command */
        INPUT_BIRTH_FAILED, /* tree->error says why */
        INPUT_ROOT_ENDED,
        INPUT_EMPTY, /* no member left, and the root has ended */
        INPUT_TERMINATE,
        INPUT_KILL,
        INPUT_TIMEOUT,    /* the tree's own */
        INPUT_GRACE_OVER, /* what is left after the grace gets SIGKILL */
        INPUT_BOUND_OVER, /* what is left after SIGKILL is named */
        INPUT_REMOVED,    /* cgroup and record are gone */
        _INPUT_MAX,
};

struct placement {
        enum cgtree_placement kind;
        enum cgtree_guarantee guarantee;

        /* Makes the place and starts the child; writes the record before any process of the tree can run. Takes over
         * tree->plan. Failures are told through tree_fail(). Never waits. */
        int (*begin_birth)(cgtree_tree *tree);
        /* What has become of the birth: PLACED, EXECED, BIRTH_FAILED or NONE. Never waits. */
        enum tree_input (*look_birth)(cgtree_tree *tree);
        /* Has the root ended? Reaps it. Only asked while it has not. */
        bool (*look_root)(cgtree_tree *tree);
        /* Has somebody else removed the place while the root runs? Then it had left, and nobody but us follows it. NULL:
         * cannot be. May lower tree->wakeup. */
        bool (*is_taken)(cgtree_tree *tree);
        /* 1: no member is left. Does what an ending in progress needs. May lower tree->wakeup. */
        int (*look_empty)(cgtree_tree *tree);
        void (*begin_terminate)(cgtree_tree *tree, int signal);
        void (*begin_kill)(cgtree_tree *tree);
        int (*signal_all)(cgtree_tree *tree, int signal);
        int (*members)(cgtree_tree *tree, pid_t **ret_pids, size_t *ret_n);
        char *(*survivors)(cgtree_tree *tree);
        /* Removes what is left of the place. -EAGAIN: not yet. */
        int (*remove)(cgtree_tree *tree);
        /* Releases what the tree holds there; its members are not touched. */
        void (*done)(cgtree_tree *tree);
};

extern const struct placement placement_subtree, placement_scope, placement_group;
