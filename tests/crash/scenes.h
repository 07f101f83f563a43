/* SPDX-License-Identifier: MIT */
#pragma once

/* What owners do while they are killed. Each is a function for a process of its own, which returns its exit status: 0, all
 * went well. */

#include <stdbool.h>

#include "cgtree.h"

struct scene {
        int (*run)(void *scene);
        enum cgtree_placement placement;
        bool tries_again; /* a birth whose helper is killed fails, and says so */
};

/* open, and every way for a tree to be born and to end, close */
int scene_life(void *scene);
/* open, spawn, begin_teardown, close */
int scene_teardown(void *scene);
/* open, two trees (one ignores TERM), begin_teardown, and SIGKILL to itself: its helper is left with the rest */
int scene_orphan(void *scene);
/* open, one tree, and then nothing */
int scene_keeper(void *scene);
/* `cgtree run` */
int scene_run(void *scene);
/* a sweep of what is there */
int scene_sweep(void *scene);
