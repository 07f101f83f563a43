/* SPDX-License-Identifier: MIT */
#pragma once

/* A process that is stopped at each entry to a system call and each return from it (ptrace), and killed at one of them. */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* A stop: its number, and what the process was about. */
struct stop {
        size_t number; /* from 1; 0: it has ended before */
        pid_t pid;
        long syscall;
        bool entry;
};

/* A child of this process that calls `fn` and exits with what it returns, traced from the first instruction of `fn`. With
 * `helper` (a name) it runs freely, and its helpers of that name are what is stopped, from their exec on. */
struct trace {
        pid_t pid; /* 0: it has ended */
        int status;
        const char *helper;
        bool helper_done; /* the others of that name run freely, too */
        struct traced *known;
        size_t n_known;
        size_t n_stops;
};

int trace_begin(struct trace *trace, int (*fn)(void *), void *userdata, const char *helper);
/* Up to the stop of that number. -ETIMEDOUT: nothing happened for a minute. */
int trace_run(struct trace *trace, size_t number, struct stop *ret_stop);
/* SIGKILL to who is stopped. */
int trace_kill_stopped(struct trace *trace, const struct stop *stop);
/* SIGKILL to the first of all, and waits for its end. */
int trace_kill(struct trace *trace);
/* Nobody is stopped any more; waits until the first of all has ended by itself. */
int trace_finish(struct trace *trace);
void trace_done(struct trace *trace);
