/* SPDX-License-Identifier: MIT */
#pragma once

/* Birth through a stub: `cgtree-gate`, a tiny static executable started by posix_spawn (never a fork of a big owner). It
 * waits at its gate, joins the cgroup by itself, becomes another user where asked, and execs. The way for uid/gid changes,
 * for kernels and sandboxes without clone3 into a cgroup, and for every architecture. `cgtree-reaper` is the same with a
 * subreaper above it (group placement). */

#include "child.h"

struct gate {
        pid_t pid; /* of the stub: the root to be; or the reaper */
        int pidfd;
        int socket; /* SOCK_SEQPACKET, to the stub; its end is closed by the exec */
};

#define GATE_NONE                                                                                                      \
        { .pidfd = -1, .socket = -1 }

/* Messages, each one packet. */
enum gate_message_type {
        GATE_GO = 1, /* to: join, and become the command. Nothing happens before it; EOF instead: the stub exits */
        GATE_FAILED, /* from: step and error; then it exits */
        GATE_HELLO,  /* from, within gate_start(), only where we cannot open a pidfd: its own as SCM_RIGHTS */
        /* reaper only */
        GATE_RECORD,       /* to, before its record is written: id, graces; the directory as SCM_RIGHTS */
        GATE_READY,        /* from: the root to be exists, blocked; pid, and its pidfd as SCM_RIGHTS */
        GATE_STARTED,      /* from: the root has exec'd */
        GATE_ROOT_ENDED,   /* from: code (CLD_*), status */
        GATE_ROOT_STOPPED, /* from: status = the signal */
        GATE_SIGNAL,       /* to: status = signal; pid != 0: the root alone; else all, then SIGCONT if `code` */
        GATE_KILL,         /* to: SIGKILL until no child is left */
        GATE_RESUME,       /* to: foreground and SIGCONT for the root's group */
        GATE_EMPTY,        /* from: no child is left; it exits after this */
        /* guard only (guard.h), which says GATE_READY too, with its own pidfd */
        GATE_TEARDOWN, /* to: end all trees within the grace; the owner may go meanwhile */
        GATE_BYE,      /* to: nothing is left to guard; it exits */
        GATE_TREES,    /* to, where it was started without: the directory of the trees, its path as text */
        GATE_HOLD,     /* to: id, directory and path of one tree that lies elsewhere */
        GATE_DROP,     /* to: id of a tree that is over */
        GATE_HELD,     /* from: TREES or HOLD, in the order in which they were told */
};
struct gate_message {
        int type, step, error, code, status;
        pid_t pid;
        char id[ID_LENGTH + 1];                /* of the record that goes with the tree */
        uint64_t grace_usec, death_grace_usec; /* of a TEARDOWN, and of the owner's death */
};

/* Where the stubs are: $CGTREE_LIBEXEC (then nowhere else); when the running executable is cgtree itself, beside it or in
 * ../libexec/cgtree of it; else the configured libexecdir. -ENOENT; -EACCES: not executable. */
int gate_find(const char *program, char **ret_path);

/* Starts the stub, which waits for GATE_GO. The plan is borrowed (its strings travel as arguments and environment).
 * `cgroup_fd`: directory of the cgroup that the stub joins at GO; -1: none.
 * -EBADF: a source of the plan is not open. -ENOENT: no stub (gate_find). -ECONNRESET: it died at once. -ETIMEDOUT: where
 * there is no pidfd_open (valgrind, filters), the stub is waited for, and did not say hello within 5 s. */
int gate_start(const struct child_plan *plan, int cgroup_fd, struct gate *ret_gate);
int reaper_start(const struct child_plan *plan, struct gate *ret_gate);
/* -EPIPE: it has exec'd or died. Never waits. */
int gate_send(const struct gate *gate, const struct gate_message *message);
int gate_send_fd(const struct gate *gate, const struct gate_message *message, int fd);
/* -EAGAIN: nothing yet. -ECONNRESET: end of file: the stub has exec'd or died (tell by its pidfd). ret_fd (may be NULL): a
 * passed descriptor, or -1. Never waits. */
int gate_receive(const struct gate *gate, struct gate_message *ret_message, int *ret_fd);
void gate_done(struct gate *gate); /* closes; does not kill, does not reap */
