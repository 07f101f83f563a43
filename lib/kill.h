/* SPDX-License-Identifier: MIT */
#pragma once

/* Ends one cgroup: DESIGN's five steps as a state machine that never waits. The caller calls ending_step() when told to,
 * or when something happened (a member's end, cgroup.events), until the cgroup is seen empty. Reading cgroup.events again at
 * growing intervals is not optional: its notification is up to 18 ms late (CGROUP_FILE_NOTIFY_MIN_INTV). */

#include "cgroup.h"

enum ending_phase {
        ENDING_IDLE,
        ENDING_LOCKING,   /* somebody else holds the flock on the directory: it is being ended already */
        ENDING_FREEZING,  /* asked to freeze, so that one signal reaches every member once */
        ENDING_SIGNALLED, /* the grace is running */
        ENDING_KILLING,   /* cgroup.kill written; then the walk over what is left */
};

struct ending {
        enum ending_phase phase;
        int signal;             /* what members get first */
        bool hangup;            /* SIGHUP after it (a tree with a controlling terminal of its own) */
        bool locked;            /* we hold the flock */
        bool kill_wanted;       /* kill was asked for while waiting for the lock */
        uint64_t since;         /* when this phase began */
        uint64_t lock_deadline; /* then we take over without the lock */
        uint64_t freeze_deadline;
        uint64_t interval;    /* between two looks */
        uint64_t kill_walked; /* when the walk of step 3 was last done; 0: never */
};

/* Begin: TERM to every member (freeze, signal, thaw, CONT), once. `grace_usec` only bounds the wait for another ender. */
int ending_terminate(struct ending *ending, const struct cgroup *cgroup, int signal, bool hangup, uint64_t grace_usec);
/* Begin or go over to: SIGKILL to everything below. Thaws what we froze. Shortens a terminate, may be repeated. */
int ending_kill(struct ending *ending, const struct cgroup *cgroup);
/* Does what is due. `events_fd`: of cgroup_open_events(). 1: seen empty (populated 0). 0: not yet; *ret_wakeup is when to call
 * again at the latest (CLOCK_MONOTONIC). A failure of a single member or file is not an error: the look at `populated` decides. */
int ending_step(struct ending *ending, const struct cgroup *cgroup, int events_fd, uint64_t *ret_wakeup);
/* Gives back what it holds on the way out: thaws what we froze, unlocks. */
void ending_done(struct ending *ending, const struct cgroup *cgroup);

/* One signal to every member, each pinned by pidfd and seen to be in the cgroup after that. Repeats while a pass finds new
 * members, at most 8 passes; with `once` set a single pass (the cgroup is frozen). Returns the number signalled; -EPERM: some could not be. */
int kill_signal_members(const struct cgroup *cgroup, int signal, bool once);
/* "pid 71 (dd) in state D at folio_wait_bit; pid 72 ..." of those that live there now, at most 8 named. NULL: none. */
char *kill_survivors(const struct cgroup *cgroup);
