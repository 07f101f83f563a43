/* SPDX-License-Identifier: MIT */
#pragma once

/* One process: pid, pidfd, start time and pidfs inode. Every signal to a process goes through here. */

#include "util.h"

/* Who a process is, as recorded: valid within one boot and one pid namespace. */
struct process_identity {
        pid_t pid;
        uint64_t start_time; /* field 22 of /proc/PID/stat, clock ticks; 0: not known */
        uint64_t inode;      /* of its pidfd in pidfs; 0: not known (before Linux 6.9) */
};

struct process {
        struct process_identity identity;
        int pidfd;
};

#define PROCESS_NONE                                                                                                   \
        { .pidfd = -1 }

enum process_life {
        PROCESS_ALIVE,
        PROCESS_GONE,    /* proven: ESRCH, a readable pidfd, or another process under that pid */
        PROCESS_UNKNOWN, /* could not be told: to be treated as alive */
};

/* What /proc/PID/stat says. comm may hold anything, blanks and parentheses too. */
struct process_stat {
        char comm[64];
        char state;
        pid_t parent, group, session;
        uint64_t start_time;
};

/* Pins the process. -ESRCH: there is none. start_time stays 0 where /proc does not show it (hidepid). */
int process_open(pid_t pid, struct process *ret_process);
/* The same for a pidfd that we hold; taken over on success. */
int process_from_pidfd(int pidfd, pid_t pid, struct process *ret_process);
int process_self(struct process_identity *ret_identity); /* what cannot be told is 0 */
void process_done(struct process *process);

/* By pidfd alone: readable means that the whole thread group has exited. A Z in stat proves nothing (its threads may run). */
enum process_life process_life(const struct process *process);
/* Pins whoever has that pid now and compares: the inode decides where both sides have one, else the start time.
 * ret_process (may be NULL) is set when PROCESS_ALIVE only. */
enum process_life process_identify(const struct process_identity *identity, struct process *ret_process);

/* pidfd_send_signal. 0 also when it has exited (-ESRCH is success: it needs no signal any more). */
int process_signal(const struct process *process, int signal);

int process_read_stat(pid_t pid, struct process_stat *ret_stat); /* -ESRCH, -ENOENT (hidden) */
int pidfd_pin(pid_t pid);                                        /* pidfd_open; -ESRCH: no process of that pid */
int pidfd_signal(int pidfd, int signal);                         /* -ESRCH: it was reaped; -EPERM */
int pidfd_get_inode(int pidfd, uint64_t *ret_inode);             /* -EOPNOTSUPP: no pidfs */
int pidfd_is_dead(int pidfd);                                    /* 1 exited, 0 not, or -errno */
/* Exit status of a process that somebody else reaped, kernels with PIDFD_INFO_EXIT (6.15). wait(2) form. -ENODATA. */
int pidfd_get_exit(int pidfd, int *ret_wait_status);

/* "pid 71 (dd) in state D at folio_wait_bit" */
char *process_describe(pid_t pid);
