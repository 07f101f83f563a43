/* SPDX-License-Identifier: MIT */
#pragma once

/* The cgroup below which an owner may make its own: DESIGN's first step of placement. */

#include "cgroup.h"

/* Opens it. `wanted`: NULL, "self" or a path. On failure *ret_reason is a sentence, malloc'd (or NULL: out of
 * memory): why not, and what would help. */
int base_open(const char *wanted, struct cgroup *ret_base, char **ret_reason);
/* For limits, which nothing can have beside a process: if others are in the base, goes up to the nearest cgroup that was handed over
 * with it and has none. (systemd's DelegateSubgroup= puts a service one below the cgroup that it hands over.) */
void base_make_room(struct cgroup *base);
/* systemd manages this machine: cgroups are to be had from it. */
bool base_is_managed(void);
/* Paths, all three. A tree of cgtree's own lies around `path`, or is it. */
bool base_is_in_tree(const char *path);
/* May a process be born into `to` from `from`, as far as the kernel is asked? */
int base_check_way(const char *to, const char *from, char **ret_reason);
/* The last component of `path` that is a unit's own cgroup, which lasts *ret_length; NULL: none. */
const char *base_find_unit(const char *path, size_t *ret_length);
