/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "identity.h"
#include "lineage.h"
#include "owner.h"

/* Signalling, ending and awaiting a tree: each call takes the tree, gives it an input, and waits as long as it may. */

static bool is_over(const cgtree_tree *tree) {
        return tree_is_over(tree);
}

static bool is_settled_or_surviving(const cgtree_tree *tree) {
        return tree_is_over(tree) || (tree->state == TREE_KILLING && tree->bound_told);
}

static bool has_root_ended(const cgtree_tree *tree) {
        return tree->root_ended || tree_is_over(tree);
}

/* We, or those above us, would die half-way through; or another owner would lose its trees. */
static bool must_not_end(const cgtree_tree *tree) {
        if (!tree->found || tree_is_over(tree))
                return false;
        if (tree->placement != &placement_group)
                return identity_check_end(&tree->cgroup) != NULL;
        struct process us = PROCESS_NONE;
        const struct process_identity *reaper = &tree->record.group.reaper;
        if (process_identify(reaper, NULL) != PROCESS_ALIVE || lineage_pin(reaper->pid, getpid(), &us) < 0)
                return false;
        process_done(&us);
        return true;
}

static int terminate(cgtree_tree *tree, int signal, uint64_t grace_usec) {
        if (must_not_end(tree))
                return -EDEADLK;
        if (grace_usec != CGTREE_DEFAULT)
                tree->grace_usec = grace_usec;
        if (tree->cause == CGTREE_CAUSE_NONE)
                tree->cause = CGTREE_CAUSE_CANCELLED;
        tree_step(tree); /* a command that runs already is no birth to be cancelled */
        tree->begin_signal = signal;
        tree_apply(tree, tree->grace_usec == 0 ? INPUT_KILL : INPUT_TERMINATE);
        return 0;
}

static int begin_kill(cgtree_tree *tree) {
        if (must_not_end(tree))
                return -EDEADLK;
        if (tree->cause == CGTREE_CAUSE_NONE)
                tree->cause = CGTREE_CAUSE_CANCELLED;
        tree_apply(tree, INPUT_KILL);
        return 0;
}

/* -ETIMEDOUT both at the caller's bound and when the kernel does not let go of the members. */
static int wait_over(cgtree_tree *tree, uint64_t timeout_usec) {
        int r = owner_wait(tree, is_settled_or_surviving, timeout_usec);
        if (r == -ETIMEDOUT && tree->state == TREE_KILLING && !tree->survivors)
                tree->survivors = tree->placement->survivors(tree);
        return r >= 0 && !tree_is_over(tree) ? -ETIMEDOUT : r;
}

static int terminate_and_wait(cgtree_tree *tree, int signal, uint64_t grace_usec, uint64_t timeout_usec) {
        if (!tree)
                return -EINVAL;
        int r = owner_enter(tree);
        if (r < 0)
                return r;
        r = terminate(tree, signal, grace_usec);
        if (r >= 0 && timeout_usec > 0)
                r = wait_over(tree, timeout_usec);
        owner_leave(tree);
        return r;
}

int cgtree_tree_terminate(cgtree_tree *tree, uint64_t grace_usec, uint64_t timeout_usec) {
        int r = terminate_and_wait(tree, tree ? tree->end_signal : 0, grace_usec, timeout_usec);
        return r >= 0 && timeout_usec == 0 && !tree_is_over(tree) ? -ETIMEDOUT : r;
}

int cgtree_tree_begin_terminate(cgtree_tree *tree, uint64_t grace_usec) {
        return terminate_and_wait(tree, tree ? tree->end_signal : 0, grace_usec, 0);
}

int cgtree_tree_begin_terminate_with(cgtree_tree *tree, int signal, uint64_t grace_usec) {
        if (signal < 1 || signal > SIGRTMAX)
                return -EINVAL;
        return terminate_and_wait(tree, signal, grace_usec, 0);
}

static int kill_and_wait(cgtree_tree *tree, uint64_t timeout_usec) {
        if (!tree)
                return -EINVAL;
        int r = owner_enter(tree);
        if (r < 0)
                return r;
        r = begin_kill(tree);
        if (r >= 0 && timeout_usec > 0)
                r = wait_over(tree, timeout_usec);
        owner_leave(tree);
        return r;
}

int cgtree_tree_kill(cgtree_tree *tree, uint64_t timeout_usec) {
        int r = kill_and_wait(tree, timeout_usec);
        return r >= 0 && timeout_usec == 0 && !tree_is_over(tree) ? -ETIMEDOUT : r;
}

int cgtree_tree_begin_kill(cgtree_tree *tree) {
        return kill_and_wait(tree, 0);
}

static int await(cgtree_tree *tree, bool (*done)(const cgtree_tree *tree), uint64_t timeout_usec) {
        int r = owner_enter(tree);
        if (r < 0)
                return r;
        r = owner_wait(tree, done, timeout_usec);
        owner_leave(tree);
        return r;
}

int cgtree_tree_wait_root(cgtree_tree *tree, uint64_t timeout_usec) {
        if (!tree)
                return -EINVAL;
        return tree->found ? -ENODATA : await(tree, has_root_ended, timeout_usec);
}

int cgtree_tree_wait_empty(cgtree_tree *tree, uint64_t timeout_usec) {
        return tree ? await(tree, is_over, timeout_usec) : -EINVAL;
}

static int signal_tree(cgtree_tree *tree, int signal, bool root_only) {
        if (tree->state < TREE_RUNNING || tree->state >= TREE_EMPTY)
                return 0;
        if (!root_only)
                return tree->placement->signal_all(tree, signal);
        if (tree->found)
                return -ENODATA;
        if (tree->root_ended || tree->root_pidfd < 0)
                return 0;
        return process_signal(&(struct process){ .pidfd = tree->root_pidfd }, signal);
}

int cgtree_tree_signal(cgtree_tree *tree, int signal, bool root_only) {
        if (!tree || signal < 0 || signal > SIGRTMAX)
                return -EINVAL;
        int r = owner_enter(tree);
        if (r < 0)
                return r;
        r = signal_tree(tree, signal, root_only);
        owner_leave(tree);
        return r;
}

int cgtree_tree_resume(cgtree_tree *tree) {
        if (!tree)
                return -EINVAL;
        int r = owner_enter(tree);
        if (r < 0)
                return r;
        tree_step(tree);
        tree->news &= ~(unsigned)CGTREE_EVENT_ROOT_STOPPED; /* what has stopped before this goes on */
        if (tree->gate.socket >= 0)
                r = gate_send(&tree->gate, &(struct gate_message){ .type = GATE_RESUME });
        else
                r = tree->state == TREE_RUNNING ? tree->placement->signal_all(tree, SIGCONT) : 0;
        owner_leave(tree);
        return r;
}

int cgtree_tree_get_members(cgtree_tree *tree, pid_t **ret_pids, size_t *ret_n) {
        if (!tree || !ret_pids || !ret_n)
                return -EINVAL;
        int r = owner_enter(tree);
        if (r < 0)
                return r;
        if (tree->state < TREE_STARTING || tree->state >= TREE_EMPTY) {
                *ret_n = 0;
                *ret_pids = calloc(1, sizeof(pid_t));
                r = *ret_pids ? 0 : -ENOMEM;
        } else
                r = tree->placement->members(tree, ret_pids, ret_n);
        owner_leave(tree);
        return r;
}
