/* SPDX-License-Identifier: MIT */
#pragma once

/* The group placement seen from outside of its reaper (by kill, by sweep, and by the owner when the reaper was killed): who belongs to it, each proven. */

#include "lineage.h"
#include "record.h"

/* The value of CGTREE_ID for a tree: our own CGTREE_ID (if sane) ":" id. */
char *group_lineage(const char *id);

/* Members, each pinned and proven: descendants of the recorded reaper if that reaper is alive (identity); the recorded leader if it is; and of those that
 * carry `:id` as a component of CGTREE_ID in /proc/PID/environ, the ones that also lie in the birth cgroup (inode) and started after the record's leader did.
 * Processes that carry the id but do not prove themselves are counted in *ret_n_unproven (reported, never signalled). A leaderless group is never signalled as a group. */
int group_members(const struct record *record, struct process **ret_members, size_t *ret_n, size_t *ret_n_unproven);

/* One pass: the signal to every proven member; the reaper itself gets SIGCONT only. Returns the number signalled. -EPERM: some could not be. */
int group_signal(const struct record *record, int signal);
/* 1: no member is left and the reaper is gone; 0; -errno. */
int group_is_empty(const struct record *record);
char *group_survivors(const struct record *record); /* as kill_survivors() */
