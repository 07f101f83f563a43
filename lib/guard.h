/* SPDX-License-Identifier: MIT */
#pragma once

/* The owner's side of its guard (tools/cgtree-guard.c): a small process that ends the owner's trees when the owner is gone, however it
 * went. It holds the directory of the trees and that of the records, and nothing else of the owner's. */

#include "util.h"

struct guard {
        pid_t pid;  /* of what we started: the guard itself, or the one that forked it and has to be reaped */
        int pidfd;  /* of the guard; -1: it has not told yet */
        int socket; /* its end of file means to the guard that the owner is gone */
        bool is_child;
};

#define GUARD_NONE                                                                                                     \
        { .pidfd = -1, .socket = -1 }

struct guard_options {
        int trees_fd, records_fd;
        const char *trees_path;    /* HOME/trees: HOME is removed in the end, too */
        uint64_t grace_usec;       /* of a teardown */
        uint64_t death_grace_usec; /* 0: SIGKILL at once */
        bool as_child;             /* it stays our child, and guard_done() reaps it; else it is nobody's that we know */
};

/* Starts it. Never waits for more than the exec of a small executable. -ENOENT: it is not installed. */
int guard_start(const struct guard_options *options, struct guard *ret_guard);
/* 1: it holds what it has to hold, and pidfd is set: births may begin. 0: not yet. -ECONNRESET: it died. Never waits. */
int guard_look(struct guard *guard);
bool guard_is_dead(const struct guard *guard);
/* TERM to all trees now, KILL after the grace, even if we are killed meanwhile. Async-signal-safe. -EPIPE: there is none. */
int guard_tear_down(const struct guard *guard);
/* Nothing is left to guard: it goes. Reaps what is ours to reap. */
void guard_done(struct guard *guard);
/* Closes, no more: a forked child's copy, or an owner that gives its trees up. */
void guard_close(struct guard *guard);
