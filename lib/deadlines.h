/* SPDX-License-Identifier: MIT */
#pragma once

/* The trees of an owner by the time of their next step: a binary heap, so that the cost of one does not grow with their number. */

#include "cgtree.h"

struct deadlines {
        cgtree_tree **trees; /* 1-based: trees[1] is due first; tree->heap_position says where one is */
        size_t n, allocated;
};

void deadlines_done(struct deadlines *deadlines);
/* Room for one more tree, so that deadlines_update() cannot fail later. */
int deadlines_reserve(struct deadlines *deadlines, size_t n);
/* Puts the tree where its wakeup says; takes it out when that is never. */
void deadlines_update(struct deadlines *deadlines, cgtree_tree *tree);
void deadlines_remove(struct deadlines *deadlines, cgtree_tree *tree);
cgtree_tree *deadlines_first(const struct deadlines *deadlines);
