/* SPDX-License-Identifier: MIT */
#pragma once

/* Where owners are killed: a cgroup for them, one for their trees, a directory for the records; and what the kernel says is
 * left there. */

#include "cgroup.h"

struct ground {
        struct cgroup runners; /* this process, the owners, their helpers, and trees of the placement group */
        struct cgroup trees;   /* the base of all owners */
        char top[32], records[48], ran[48], unrecorded[48];
        int records_fd;
        const char *witness, *cgtree;
};

extern struct ground ground;

/* Below `base`. */
int ground_make(const struct cgroup *base);
int ground_enter(void); /* this process moves there */
void ground_remove(void);
void ground_clear(void); /* ends and removes whatever is left */

/* NULL, or what is left, malloc'd. */
char *ground_left(void);
/* The same once nothing is left, or after a bound. */
char *ground_wait_clean(void);
/* Nothing but directories in which nobody lives. */
bool ground_has_directories_alone(void);
bool ground_has_run(void);
size_t ground_unrecorded(void);

/* Processes of that name (NULL: helpers of cgtree) among the runners; `kill` ends them, until there is none. */
size_t ground_helpers(const char *name, bool kill);
/* What a sweep believes to be unfinished rather than left, as long as it is young: temporary files, directories without a stamp.
 * Made old. */
size_t ground_age_unfinished(void);
