/* SPDX-License-Identifier: MIT */
#pragma once

/* What is the same for every tree that has a cgroup of its own, whoever made it: life, signals and end. */

#include "owner.h"

#define PLACED_REMOVE_RETRY_USEC (2 * USEC_PER_MSEC)

/* What has become of a stub that was told to go. */
enum tree_input placed_look_gated(cgtree_tree *tree);

bool placed_is_taken(cgtree_tree *tree);
int placed_look_empty(cgtree_tree *tree);
void placed_begin_terminate(cgtree_tree *tree, int signal);
void placed_begin_kill(cgtree_tree *tree);
int placed_signal_all(cgtree_tree *tree, int signal);
int placed_members(cgtree_tree *tree, pid_t **ret_pids, size_t *ret_n);
char *placed_survivors(cgtree_tree *tree);
void placed_done(cgtree_tree *tree);

/* By opening it anew: a descriptor from before does not tell what is gone from what is empty. */
bool placed_is_gone(const struct cgroup *cgroup);
/* A root that has left its tree is followed by its pidfd, and reported. */
void placed_note_stray(cgtree_tree *tree);
/* A found tree that is empty is its owner's to remove, for a moment. May lower tree->wakeup. */
bool placed_is_left_to_owner(cgtree_tree *tree);
/* The records of trees whose cgroups lay below this one, and went with it. */
void placed_unlink_inner(cgtree_tree *tree);
