/* SPDX-License-Identifier: MIT */
#pragma once

/* One tree: its state, what it waits for, and the table by which it goes from state to state (tree-state.c). */

#include <poll.h>

#include "cgroup-limits.h"
#include "cgroup.h"
#include "gate.h"
#include "home.h"
#include "kill.h"
#include "placement.h"
#include "record.h"
#include "spawn.h"

enum tree_state {
        TREE_OPENING,     /* its place is being made: no process yet, or one that waits at a gate */
        TREE_STARTING,    /* its child is on the way to the exec */
        TREE_RUNNING,     /* the root runs */
        TREE_ROOT_ENDED,  /* others may run: they stay owned */
        TREE_TERMINATING, /* signalled, within its grace */
        TREE_KILLING,     /* SIGKILLed */
        TREE_EMPTY,       /* seen empty; cgroup and record are being removed */
        TREE_SETTLED,     /* nothing is left of it */
        TREE_FAILED,      /* it never ran; nothing is left of it */
        _TREE_STATE_MAX,
};

#define TREE_BIRTH_BOUND_USEC (10 * USEC_PER_SEC) /* no exec by then: killed */
#define TREE_KILL_BOUND_USEC  (5 * USEC_PER_SEC)  /* alive after that: named as survivors */
#define TREE_SOURCES_MAX      3

struct tree_pipe {
        int target, our_fd, child_fd;
};

struct cgtree_tree {
        cgtree_owner *owner;
        cgtree_tree *previous, *next; /* all trees of the owner */
        cgtree_tree *next_news;       /* those with something to tell */
        bool in_news, busy, due, handle_freed, unbooked, torn_down;
        void *userdata;

        const struct placement *placement;
        struct record record;
        bool recorded; /* the file exists, as far as we know */
        bool found;    /* by its record: another process's tree */

        enum tree_state state;
        unsigned news; /* enum cgtree_event bits not told yet */
        enum cgtree_cause cause;
        int error; /* why the birth failed, negative; 0: it did not */
        enum cgtree_step error_step;
        char *error_message;

        /* birth */
        struct child_plan *plan;
        struct birth *birth;         /* direct */
        struct kill_slot *kill_slot; /* group: the reaper's */
        struct gate gate;            /* through a stub; for the group placement the reaper, kept as long as the tree */
        bool begun;                  /* the owner was ready for it */
        bool retried;
        unsigned n_kills_before; /* owner->n_kills when it began */
        uint64_t birth_deadline;
        struct tree_pipe *pipes;
        size_t n_pipes;

        /* root */
        pid_t root_pid;
        int root_pidfd;
        bool root_ended, exit_known;
        int exit_code, exit_status; /* as waitid(2) */
        char *stray;                /* the cgroup it went to */

        /* place */
        struct limits limits;
        struct cgroup cgroup;
        int events_fd;
        uint64_t leave_until; /* found and empty: so long its owner may remove it */
        uint64_t taken_at;    /* when somebody else's removal of the place is believed; 0: not seen */
        struct ending ending;
        bool reaper_done;              /* group: it said that no child is left */
        bool root_reported;            /* group: it said that the root has ended */
        bool outside;                  /* group: no reaper of ours to ask; members are found by their marks */
        uint64_t look_interval;        /* group, outside: between two looks */
        struct bus *bus;               /* scope: while it is asked for */
        struct scope *scope;           /* the same */
        struct home_member membership; /* scope: what the guard holds */
        int lock_fd;                   /* group: on the record, while we end it */

        /* end */
        int end_signal;
        bool root_only, end_with_root, hangup, bound_told;
        uint64_t grace_usec, timeout_usec, timeout_at, grace_until, bound_until;
        int begin_signal; /* of the terminate that is to begin */
        char *survivors;

        /* waiting */
        uint64_t wakeup;      /* step again at the latest then */
        size_t heap_position; /* in the owner's deadlines; 0: not in */
        struct pollfd watched[TREE_SOURCES_MAX];
        int poll_fd;     /* the tree's own, made on request */
        bool poll_ready; /* and it says that there is news */
};

/* Allocates; the tree belongs to nobody yet. */
cgtree_tree *tree_allocate(cgtree_owner *owner);
/* Closes and frees everything; members, record and cgroup are not touched. */
void tree_release(cgtree_tree *tree);

/* tree-state.c: applies one input by the table; looks around until nothing is due any more and sets tree->wakeup. */
void tree_apply(cgtree_tree *tree, enum tree_input input);
void tree_step(cgtree_tree *tree);

/* Records the failure of a birth, for get_error(); the first one stands. Returns `error`. */
int tree_fail(cgtree_tree *tree, enum cgtree_step step, int error, const char *template, ...)
        __attribute__((format(printf, 4, 5)));
/* The failure that the child itself reported. */
int tree_fail_child(cgtree_tree *tree, int step, int error);
void tree_tell(cgtree_tree *tree, unsigned events);
void tree_set_exit(cgtree_tree *tree, int code, int status);
/* Takes up what the owner has chosen. Before the birth begins, and again if it is to begin elsewhere. */
int tree_take_placement(cgtree_tree *tree);
/* Writes the record; failure is told through tree_fail(). */
int tree_write_record(cgtree_tree *tree);
bool tree_record_stands(const cgtree_tree *tree); /* its file is there still */
/* Has the kernel killed members because memory ran out? False where memory is not limited. Asked while the cgroup is there. */
bool tree_is_out_of_memory(const cgtree_tree *tree);
/* Has the root ended? Reaps it, if it is our child and nobody else did; the status may stay unknown. */
bool tree_reap_root(cgtree_tree *tree);
/* Closes an fd of the tree that may be watched. */
void tree_close_fd(cgtree_tree *tree, int *fd);
/* The descriptors whose readiness means that a step is due. */
size_t tree_sources(const cgtree_tree *tree, struct pollfd ret_sources[TREE_SOURCES_MAX]);
void tree_wake_at(cgtree_tree *tree, uint64_t when);

static inline bool tree_is_over(const cgtree_tree *tree) {
        return tree->state == TREE_SETTLED || tree->state == TREE_FAILED;
}

/* A found tree that we were not told to end, while its record stands: empty it may be because its first process is not
 * born yet. Its owner, or who ends it, sees to its end. */
bool tree_is_watched_only(cgtree_tree *tree);

/* A tree of another process, proven by identity.c, with a private owner as its loop. Both are taken over on success. */
int tree_new_found(int records_fd, struct record *record, struct cgroup *cgroup, cgtree_tree **ret_tree);
