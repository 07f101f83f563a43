/* SPDX-License-Identifier: MIT */
#pragma once

/* What a child does between its birth and its exec, as data (child-plan.c), and the doing of it (child.c). */

#include "cgtree.h"
#include "util.h"

struct child_fd {
        int target;
        int source; /* >= 0, or CGTREE_FD_NULL */
        int moved;  /* the child's own: where the source is after it was moved out of the way */
};

/* All of it belongs to the plan (deep copies): it must outlive the exec, not the command it was made from. */
struct child_plan {
        char **argv, **envp;
        char **executables; /* paths tried in turn: one, or PATH's; NULL-terminated */
        int directory_fd;   /* AT_FDCWD or a caller's fd */
        char *directory;    /* NULL: stay */
        enum cgtree_session session;
        uint64_t blocked, ignored; /* the mask and the ignored signals at exec; all others default */
        struct child_fd *fds;      /* each target once; source == target: passed on as it is, without CLOEXEC */
        size_t n_fds;
        bool inherit_fds; /* else everything that is no target is closed */
        bool set_user;    /* through the gate only */
        uid_t uid;
        gid_t gid;
        gid_t *groups;
        size_t n_groups;
};

struct child_plan *child_plan_free(struct child_plan *plan); /* returns NULL */

/* Set by the child, read by the parent: shared memory, or sent through a socket by the gate. */
struct child_result {
        int reached; /* the child ran its first instruction: a SIGKILL before that is kernel bug B2, or was asked for */
        int step;    /* the enum child_step that failed; CHILD_OK: none */
        int error;   /* positive errno of it */
};

enum child_step {
        CHILD_OK,
        CHILD_JOIN, /* write to cgroup.procs */
        CHILD_SESSION,
        CHILD_TERMINAL,
        CHILD_SIGNALS,
        CHILD_USER,
        CHILD_DIRECTORY,
        CHILD_FDS,
        CHILD_EXEC,
};
const char *child_step_to_string(int step); /* "change to the working directory", ... for messages */

/* To be called with all signals blocked. Does not return when the exec succeeds; else result holds step and error, and
 * every descriptor is still open. execve rules are execvp's, without the shell for ENOEXEC: ENOENT, ENOTDIR and the like
 * go to the next of `executables`, EACCES too, but is what is reported in the end.
 * May run in a child that shares its memory, and its thread's TLS, with a running parent (spawn.c): raw system calls
 * only, no errno, no malloc, no function outside of child.c.
 * SESSION_FOREGROUND compares the terminal's foreground group with the group that the caller is in. */
void child_run(const struct child_plan *plan, volatile struct child_result *result);

/* For the stubs: closes every descriptor that is not one of `kept`. */
int child_close_others(const int kept[], size_t n_kept);
