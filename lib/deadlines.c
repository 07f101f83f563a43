/* SPDX-License-Identifier: MIT */
#include "deadlines.h"

#include <errno.h>
#include <stdlib.h>

#include "tree.h"

void deadlines_done(struct deadlines *deadlines) {
        free(deadlines->trees);
        *deadlines = (struct deadlines){ 0 };
}

int deadlines_reserve(struct deadlines *deadlines, size_t n) {
        if (n < deadlines->allocated)
                return 0;
        size_t allocated = n * 2 + 16;
        cgtree_tree **grown = realloc(deadlines->trees, allocated * sizeof(*grown));
        if (!grown)
                return -ENOMEM;
        deadlines->trees = grown;
        deadlines->allocated = allocated;
        return 0;
}

static void put(struct deadlines *deadlines, size_t position, cgtree_tree *tree) {
        deadlines->trees[position] = tree;
        tree->heap_position = position;
}

static bool is_due_before(const cgtree_tree *a, const cgtree_tree *b) {
        return a->wakeup < b->wakeup;
}

/* Moves the tree up or down from `position` until the heap is in order. */
static void settle(struct deadlines *deadlines, size_t position, cgtree_tree *tree) {
        while (position > 1 && is_due_before(tree, deadlines->trees[position / 2])) {
                put(deadlines, position, deadlines->trees[position / 2]);
                position /= 2;
        }
        for (size_t child; (child = position * 2) <= deadlines->n; position = child) {
                if (child < deadlines->n && is_due_before(deadlines->trees[child + 1], deadlines->trees[child]))
                        child++;
                if (!is_due_before(deadlines->trees[child], tree))
                        break;
                put(deadlines, position, deadlines->trees[child]);
        }
        put(deadlines, position, tree);
}

void deadlines_remove(struct deadlines *deadlines, cgtree_tree *tree) {
        size_t position = tree->heap_position;
        if (position == 0)
                return;
        tree->heap_position = 0;
        cgtree_tree *last = deadlines->trees[deadlines->n--];
        if (last != tree)
                settle(deadlines, position, last);
}

void deadlines_update(struct deadlines *deadlines, cgtree_tree *tree) {
        if (tree->wakeup == USEC_FOREVER) {
                deadlines_remove(deadlines, tree);
                return;
        }
        settle(deadlines, tree->heap_position ? tree->heap_position : ++deadlines->n, tree);
}

cgtree_tree *deadlines_first(const struct deadlines *deadlines) {
        return deadlines->n > 0 ? deadlines->trees[1] : NULL;
}
