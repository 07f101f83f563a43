/* SPDX-License-Identifier: MIT */
#pragma once

/* Limits of a tree: the controllers of cgroup v2 that enforce them. A controller is had in a cgroup whose parent has it enabled for its
 * children; and a cgroup that does so may have no members of its own, unless it is the root. */

#include "cgroup.h"
#include "cgtree.h"

#define N_LIMITS (CGTREE_LIMIT_CPU + 1)

/* By enum cgtree_limit; 0: none. */
struct limits {
        uint64_t values[N_LIMITS];
};

/* Those that are set, as bits of 1 << enum cgtree_limit, as everywhere here. */
unsigned limits_mask(const struct limits *limits);
/* "memory and tasks" */
char *limits_name(unsigned mask);

/* What the children of a cgroup could be limited in. */
int limits_available(const struct cgroup *cgroup, unsigned *ret_mask);
/* Enables what `mask` needs for the children of a cgroup; *ret_enabled: what was not before. -EBUSY: it has members of its own.
 * -EOPNOTSUPP: it has not got the controller itself. On failure *ret_reason is a sentence, malloc'd (or NULL: out of memory). */
int limits_enable(const struct cgroup *cgroup, unsigned mask, unsigned *ret_enabled, char **ret_reason);
/* Takes back what was enabled, as far as nobody needs it. */
void limits_disable(const struct cgroup *cgroup, unsigned mask);
/* Writes them into a tree's own cgroup. With memory in `enabled`, whoever is out of memory takes the whole tree along. */
int limits_set(const struct cgroup *cgroup, const struct limits *limits, unsigned enabled, char **ret_reason);
/* Are they in force there, by whomever they were set? */
int limits_check(const struct cgroup *cgroup, const struct limits *limits, char **ret_reason);
/* Has the kernel killed a member because memory ran out? 1 or 0; -errno: cannot be told. */
int limits_out_of_memory(const struct cgroup *cgroup);

/* Are processes but this one, and that other one, members of the cgroup itself? 0: there is no other one. */
bool limits_has_others(const struct cgroup *cgroup, pid_t other);
/* Moves the processes that are members of `from` itself to `to`, if they are all among `pids`. -EBUSY: another is there; the reason
 * names it. */
int limits_move_members(
        const struct cgroup *from, const struct cgroup *to, const pid_t *pids, size_t n, char **ret_reason);
