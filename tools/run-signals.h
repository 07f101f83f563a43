/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/signalfd.h>

/* The signals of `cgtree run`: what it found at its start, for the command; and what it takes itself, as a descriptor. */
struct run_signals {
        uint64_t blocked, ignored; /* at the start; bit N-1 is signal N */
        int fd;                    /* signalfd, non-blocking */
};

/* 0 or -errno. From here on nothing but what the descriptor takes, and SIGTTOU, is blocked, and SIGCHLD is not ignored. */
int run_signals_take(struct run_signals *signals);
void run_signals_close(struct run_signals *signals);

/* The next one that has arrived: true, or false if there is none. */
bool run_signals_next(const struct run_signals *signals, struct signalfd_siginfo *ret_info);

/* TERM, HUP, INT, QUIT: they end the tree. All others that arrive are the command's. */
bool run_signal_ends(int signal);
/* The terminal, or the kernel on its behalf, sent it: to every member of the foreground group, not to us alone. */
bool run_signal_is_typed(const struct signalfd_siginfo *info);
