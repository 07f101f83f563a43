/* SPDX-License-Identifier: MIT */
#pragma once

/* Inside of sweep: the directories that dead owners have left (sweep-home.c). */

#include "find.h"

/* The cgroups below which owners made their directories: those that records name, and our own base. */
struct homes {
        struct cgroup *bases;
        size_t n;
};

void homes_done(struct homes *homes);
/* The base of a tree's path, BASE/cgtree-PID-RANDOM/trees/ID. One that cannot be opened is passed over. */
int homes_add(struct homes *homes, const char *tree_path);
int homes_add_own(struct homes *homes);

/* Each directory that is stamped with an owner that is gone, empty, and to be ended from here: told to fn by its path
 * first, then removed, unless dry_run. */
typedef void (*homes_fn)(void *userdata, const char *path);
void homes_tidy(const struct homes *homes, bool dry_run, homes_fn fn, void *userdata);
