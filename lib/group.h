/* SPDX-License-Identifier: MIT */
#pragma once

/* The group placement seen from outside of its reaper (by kill, by sweep, and by the owner when the reaper was killed):
 * who belongs to the tree, each proven, each signalled alone by pidfd. A process group is never signalled as such from
 * here: its number can have been reissued since it was recorded.
 *
 * While the recorded reaper lives, its descendants are the members, all of them, and nobody else is looked at. Without
 * it the members have gone to other parents; then these are proven:
 *   - the recorded leader, if it lives (same start time or pidfd inode);
 *   - who carries the id as a component of CGTREE_ID in /proc/PID/environ, lies in the cgroup in which the root was
 *     born (by inode), and started no earlier than the leader. The id alone only nominates: whole environments are
 *     copied. Never ourselves, our ancestors, the owner, or pid 1;
 *   - the living descendants of any of these.
 * What that proves: where cgroups are divided (a service, a scope, a login), that the process was forked in the tree or
 * handed its environment within the same service. On a machine where everything lives in one cgroup, the cgroup proves
 * nothing, and a process that was handed the tree's environment and started after it counts as a member. Without
 * cgroup v2 nobody is proven by the id.
 * What it cannot see: an orphan that cleared its environment, made itself undumpable, belongs to another user, or moved
 * to another cgroup. The latter is counted as unproven if its environment can be read; the others are not seen at all.
 */

#include "lineage.h"
#include "record.h"

/* The value of CGTREE_ID for a tree: our own CGTREE_ID, if sane, ":", and the id. malloc'd; NULL: out of memory. */
char *group_lineage(const char *id);

/* The inode of the cgroup that pid is in: birth_cgroup_id of the record. -ENODATA: no cgroup v2. */
int group_cgroup_id(pid_t pid, uint64_t *ret_id);

/* Pids of the members that live at some moment during the call; free(3). *ret_n_unproven (may be NULL): those that
 * carry the id but do not prove themselves, to be reported, never signalled; not looked for while the reaper lives. */
int group_members(const struct record *record, pid_t **ret_pids, size_t *ret_n, size_t *ret_n_unproven);

/* The signal once to every member, in passes until one finds no new member, at most 8; SIGCONT alone for the reaper,
 * which a member may have stopped. Returns how many were signalled. -EPERM: some could not be. -EDEADLK: we are a
 * member. */
int group_signal(const struct record *record, int signal);

/* 1: the reaper is gone, and two looks in a row saw no member. 0: else. */
int group_is_empty(const struct record *record);

/* "pid 71 (dd) in state D at folio_wait_bit; pid 72 ...", at most 8 named. NULL: none (or out of memory). */
char *group_survivors(const struct record *record);
