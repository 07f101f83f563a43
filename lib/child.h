/* SPDX-License-Identifier: MIT */
#pragma once

/* What a child does between its birth and its exec, as data, and the doing of it. child_run() may run in a child that shares its
 * memory with a running parent (spawn.c): it uses raw system calls only, never errno, never malloc, nothing that a lock guards. */

#include "cgtree.h"
#include "util.h"

struct child_fd {
        int target;
        int source; /* >= 0, or CGTREE_FD_NULL */
};

/* All of it belongs to the plan (deep copies): it must outlive the exec, not the command it was made from. */
struct child_plan {
        char **argv, **envp;
        char **executables; /* paths tried in turn: one, or PATH's; NULL-terminated */
        int directory_fd;   /* AT_FDCWD or a caller's fd; */
        char *directory;    /* NULL: stay */
        enum cgtree_session session;
        uint64_t blocked, ignored; /* the mask and the ignored signals at exec; all others default */
        struct child_fd *
                fds; /* by target, each target once; CGTREE_FD_INHERIT ones are left out of it or listed with source == target */
        size_t n_fds;
        bool inherit_fds; /* else everything that is no target is closed */
        bool set_user;
        uid_t uid;
        gid_t gid;
        gid_t *groups;
        size_t n_groups;
};

struct child_plan *child_plan_free(struct child_plan *plan);

/* Set by the child, read by the parent: shared memory, or sent through a socket by the gate. */
struct child_result {
        int reached; /* the child ran its first instruction: a SIGKILL before that is kernel bug B2, or a kill that was asked for */
        int step;  /* the enum child_step that failed; CHILD_OK: none */
        int error; /* positive errno of it */
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

/* Does not return when the exec succeeds; else result holds step and error. execve rules are execvp's, without the shell for
 * ENOEXEC: ENOENT, ENOTDIR go to the next of `executables`, EACCES too but is what is reported in the end. */
void child_run(const struct child_plan *plan, volatile struct child_result *result);
