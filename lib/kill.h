/* SPDX-License-Identifier: MIT */
#pragma once

/* Ends one cgroup, as a state machine that never waits. The caller calls ending_step() when told to, or when something
 * happened (a member's end, cgroup.events), until the cgroup is seen empty. Reading cgroup.events again at growing intervals
 * is not optional: its notification is up to 18 ms late (CGROUP_FILE_NOTIFY_MIN_INTV). */

#include "cgroup.h"

enum ending_phase {
        ENDING_IDLE,
        ENDING_LOCKING,   /* somebody else holds the flock on the directory: it is being ended already */
        ENDING_FREEZING,  /* asked to freeze, so that one signal reaches every member once */
        ENDING_SIGNALLED, /* the grace is running */
        ENDING_KILLING,   /* cgroup.kill written; then the walk over what is left */
};

/* All zero: idle. */
struct ending {
        enum ending_phase phase;
        int signal;             /* what members get first */
        bool hangup;            /* SIGHUP after it (a tree with a controlling terminal of its own) */
        bool locked;            /* we hold the flock */
        bool froze;             /* to be thawed on every way out */
        bool only_walk;         /* no cgroup.kill to be had: each member is killed by itself */
        uint64_t since;         /* when this phase began */
        uint64_t lock_deadline; /* then we take over without the lock */
        uint64_t interval;      /* between two looks */
        uint64_t walk_at;       /* when the walk is due next */
        uint64_t walk_pause;    /* and how long after that again */
        size_t n_left;          /* members at the last walk */
};

/* Begin: `signal` to every member (freeze, signal, thaw, SIGCONT), once. `grace_usec` only bounds the wait for another ender.
 * Nothing is done when an ending is under way. -EDEADLK: we are a member ourselves, so it would stop half-way: nothing was
 * done. */
int ending_terminate(struct ending *ending, const struct cgroup *cgroup, int signal, bool hangup, uint64_t grace_usec);
/* Begin or go over to: SIGKILL to everything below, at once, also while somebody else holds the lock. Thaws what we froze.
 * Shortens a terminate, may be repeated. -EDEADLK as above. */
int ending_kill(struct ending *ending, const struct cgroup *cgroup);
/* Does what is due. `events_fd`: of cgroup_open_events(). 1: seen empty (populated 0). 0: not yet; *ret_wakeup is when to call
 * again at the latest (CLOCK_MONOTONIC). A failure of a single member or file is not an error: the look at `populated` decides;
 * an error is that the look itself is not possible. Idle: looks only. */
int ending_step(struct ending *ending, const struct cgroup *cgroup, int events_fd, uint64_t *ret_wakeup);
/* Gives back what it holds on the way out: thaws what we froze, unlocks. */
void ending_done(struct ending *ending, const struct cgroup *cgroup);

/* One signal to every member but ourselves, each pinned by pidfd and seen to be in the cgroup after that. Repeats while a pass
 * finds new members, at most 8 passes; with `once` set a single pass (the cgroup is frozen). Returns the number signalled;
 * -EPERM: some could not be. */
int kill_signal_members(const struct cgroup *cgroup, int signal, bool once);
/* "pid 71 (dd) in state D at folio_wait_bit; pid 72 ..." of those that live there now, at most 8 named. NULL: none. */
char *kill_survivors(const struct cgroup *cgroup);
