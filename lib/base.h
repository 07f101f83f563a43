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
