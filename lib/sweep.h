/* SPDX-License-Identifier: MIT */
#pragma once

/* Inside of sweep, and what watch takes of it: what is told (sweep-report.c), the trees that are being ended
 * (sweep-doomed.c), and the directories that dead owners have left (sweep-home.c). */

#include "find.h"

/* ---- what is told --------------------------------------------------------------------------------------- */

struct report {
        cgtree_sweep_fn fn; /* may be NULL */
        void *userdata;
        size_t n_ended; /* or would be */
        bool problem;   /* something could not be swept, or is bad */
};

void report_tell(struct report *report, const char *id, const char *decision, const char *reason);
/* The same of something that is not well. */
void report_problem(struct report *report, const char *id, const char *decision, const char *reason);

/* ---- the trees that are being ended, side by side ------------------------------------------------------- */

struct doomed {
        struct doomed *next;
        cgtree_tree *tree; /* which has the record */
        bool was_populated;
        bool due; /* a step, says its descriptor */
        const char *reason;
};

struct doomed_list {
        struct doomed *first;
        size_t n;
        int poll_fd; /* an epoll set that each is put into, with its address as data; -1: none */
};

#define DOOMED_NONE                                                                                                    \
        { .poll_fd = -1 }

/* Begins the end of a proven tree, which is taken over: SIGKILL after grace_usec. What could not be begun is reported. */
void doomed_add(struct doomed_list *list, cgtree_tree *tree, bool was_populated, const char *reason,
        uint64_t grace_usec, struct report *report);
bool doomed_has(const struct doomed_list *list, const char *id);
/* One step of each that is due; those that are over, or that SIGKILL did not end within its bound, are reported and let
 * go. */
void doomed_step(struct doomed_list *list, struct report *report);
/* Waits until something is due for one of them, or `until`. */
void doomed_wait(const struct doomed_list *list, uint64_t until);
/* Reports all as failed for lack of time, and lets go. */
void doomed_give_up(struct doomed_list *list, struct report *report);
void doomed_done(struct doomed_list *list);

/* ---- the cgroups below which owners made their directories: those that records name, and our own base --- */

struct homes {
        void *bases; /* search.h: paths, each once */
        char *last;  /* of them */
};

void homes_done(struct homes *homes);
/* The base of a tree's path, BASE/cgtree-PID-RANDOM/trees/ID. */
int homes_add(struct homes *homes, const char *tree_path);
int homes_add_own(struct homes *homes);

/* Each directory that is stamped with an owner that is gone, empty, and to be ended from here: told to fn by its path
 * first, then removed, unless dry_run. A base that cannot be opened is passed over. */
typedef void (*homes_fn)(void *userdata, const char *path);
void homes_tidy(const struct homes *homes, bool dry_run, homes_fn fn, void *userdata);

/* ---- sweep.c -------------------------------------------------------------------------------------------- */

/* One look at all records, without waiting: trees of dead owners that are not on the list are put on it. */
int sweep_look(const char *records, struct doomed_list *list, struct report *report);
