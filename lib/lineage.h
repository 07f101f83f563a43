/* SPDX-License-Identifier: MIT */
#pragma once

/* Descendants by parent links, and members of a group by their marks: what the group placement has instead of a cgroup. */

#include "process.h"

/* All living descendants of `ancestor`, itself left out: /proc/PID/task/TID/children of every thread where the kernel has it, else one pass over /proc. */
int lineage_descendants(pid_t ancestor, pid_t **ret_pids, size_t *ret_n);

/* Pins pid and checks, after pinning, that it still is a descendant of ancestor (by walking its parents up). -ESRCH: it is not. */
int lineage_pin(pid_t ancestor, pid_t pid, struct process *ret_process);

/* One pass: signals every descendant that is not in `seen` yet and adds it (sorted set, malloc'd). Returns how many were new. -EPERM: some could not be. */
struct pid_set {
        pid_t *pids;
        size_t n, allocated;
};
void pid_set_done(struct pid_set *set);
int lineage_signal_new(pid_t ancestor, int signal, struct pid_set *seen);
