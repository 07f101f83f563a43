/* SPDX-License-Identifier: MIT */
#pragma once

/* The owner's side of its guard (tools/cgtree-guard.c): a small process that ends the owner's trees when the owner is gone, however it
 * went. It holds the directories of the trees and that of the records, and nothing else of the owner's. */

#include "cgroup.h"

struct guard {
        pid_t pid;       /* of what we started: the guard itself, or the one that forked it and has to be reaped */
        pid_t guard_pid; /* of the guard, once it has told */
        int pidfd;       /* of the guard; -1: it has not told yet */
        int socket;      /* its end of file means to the guard that the owner is gone */
        bool is_child;
        unsigned n_given, n_held; /* directories: sent, and answered */
        unsigned refused;         /* the number of the last one that it could not hold; 0: none */
};

#define GUARD_NONE                                                                                                     \
        { .pidfd = -1, .socket = -1 }

struct guard_options {
        int records_fd;
        const struct cgroup *trees; /* HOME/trees: HOME is removed in the end, too; NULL: there is none (yet) */
        uint64_t grace_usec;        /* of a teardown */
        uint64_t death_grace_usec;  /* 0: SIGKILL at once */
        bool as_child; /* it stays our child, and guard_done() reaps it; else it is nobody's that we know */
};

/* Starts it. Never waits for more than the exec of a small executable. -ENOENT: it is not installed. */
int guard_start(const struct guard_options *options, struct guard *ret_guard);
/* 1: it holds all that it was given, and pidfd is set: births may begin. 0: not yet. -ECONNRESET: it died. Never waits. */
int guard_look(struct guard *guard);
/* To be acknowledged, which guard_look() or guard_holds() tell: the directory of the trees, or that of one tree. */
int guard_give_trees(struct guard *guard, const struct cgroup *trees);
int guard_give_tree(struct guard *guard, const char *id, const struct cgroup *cgroup, unsigned *ret_number);
/* 1: it does. 0: not answered yet. -ENOBUFS: it could not. */
int guard_holds(const struct guard *guard, unsigned number);
void guard_drop_tree(const struct guard *guard, const char *id);
bool guard_is_dead(const struct guard *guard);
/* TERM to all trees now, KILL after the grace, even if we are killed meanwhile. Async-signal-safe. -EPIPE: there is none. */
int guard_tear_down(const struct guard *guard);
/* It is dead, or never was: closes, and reaps what is ours to reap. */
void guard_bury(struct guard *guard);
/* Nothing is left to guard: it goes. Reaps what is ours to reap. */
void guard_done(struct guard *guard);
/* SIGKILL, and what is to be reaped. It must hold nothing. */
void guard_kill(struct guard *guard);
/* Closes, no more: a forked child's copy, or an owner that gives its trees up. */
void guard_close(struct guard *guard);
