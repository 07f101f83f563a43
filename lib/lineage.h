/* SPDX-License-Identifier: MIT */
#pragma once

/* Descendants by parent links: what the group placement has instead of a cgroup.
 * Once a process is a descendant of a living subreaper, it stays one: whoever loses its parent is given to a living
 * ancestor, at the latest to that subreaper. So an ancestor that is no subreaper may lose descendants, a subreaper
 * never. Every call wants an `ancestor` that lives, pinned by the caller (or the caller itself).
 * -EXDEV of any call: there is no /proc, or it is of another pid namespace: its numbers are other processes' here. */

#include "process.h"

/* Calls fn for each child of any thread of `parent`: by /proc/PID/task/TID/children (tens of microseconds), on kernels
 * without it (CONFIG_PROC_CHILDREN) by one pass over /proc. A child that is born or ends meanwhile may be missed.
 * fn < 0 ends the call and is returned. A parent that is gone has no children: 0. */
typedef int (*lineage_fn)(void *userdata, pid_t pid);
int lineage_children(pid_t parent, lineage_fn fn, void *userdata);

/* The same for every process there is (but pid 1), by ascending pid: a child mostly comes after its parent. */
int lineage_each_process(lineage_fn fn, void *userdata);

/* All descendants, also the unreaped dead, parents before their children, the ancestor left out. malloc'd. */
int lineage_descendants(pid_t ancestor, pid_t **ret_pids, size_t *ret_n);
/* Its two ways. -EOPNOTSUPP: this kernel has no children files. */
int lineage_descendants_by_children(pid_t ancestor, pid_t **ret_pids, size_t *ret_n);
int lineage_descendants_by_scan(pid_t ancestor, pid_t **ret_pids, size_t *ret_n);

/* Pins pid, and proves after that, by its parents, that it is a descendant of ancestor. -ESRCH: it is not. The identity
 * has pid and start time alone. */
int lineage_pin(pid_t ancestor, pid_t pid, struct process *ret_process);

/* Processes proven to be descendants, sorted by pid. */
struct lineage_member {
        pid_t pid;
        uint64_t start_time;
};
struct lineage_set {
        struct lineage_member *members;
        size_t n, allocated;
};
void lineage_set_done(struct lineage_set *set);
bool lineage_set_has(const struct lineage_set *set, pid_t pid);
int lineage_set_add(struct lineage_set *set, pid_t pid, uint64_t start_time); /* 0 also if it is in already */

/* The same; the way up is shorter when it meets one that is proven already. */
int lineage_pin_below(pid_t ancestor, pid_t pid, const struct lineage_set *proven, struct process *ret_process);

/* For an ancestor that is a subreaper (another one loses those whose parent the signal ends before their turn comes).
 * One pass: signals each descendant that is not in `seen` yet, pinned and proven, and adds it, even when it could not
 * be signalled. Returns how many were new; -EPERM: at least one of them could not be signalled, all others were. */
int lineage_signal_new(pid_t ancestor, int signal, struct lineage_set *seen);
/* Passes until one finds no new descendant, at most 8. Returns how many were signalled, or as above. */
int lineage_signal_all(pid_t ancestor, int signal);
