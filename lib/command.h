/* SPDX-License-Identifier: MIT */
#pragma once

#include "cgroup-limits.h"
#include "child.h"

struct cgtree_command {
        char **argv, **environment; /* environment NULL: ours at the spawn */
        char *executable, *directory, *name;
        int directory_fd;
        struct child_fd *fds; /* as set by the caller: CGTREE_FD_* or a descriptor; by target, each once */
        size_t n_fds;
        bool inherit_fds;
        enum cgtree_session session;
        uint64_t blocked, ignored;
        bool set_user;
        uid_t uid;
        gid_t gid;
        gid_t *groups;
        size_t n_groups;

        uint64_t timeout_usec, grace_usec;
        int end_signal;
        bool root_only, end_with_root;
        struct limits limits;

        enum cgtree_step error_step;
        char *error_message;
};

/* A deep copy of what the child needs, with PATH searched. Descriptors that are CGTREE_FD_PIPE stay so in the plan: the caller of
 * the spawn makes the pipes. */
int command_plan(const cgtree_command *command, struct child_plan **ret_plan);
/* Replaces or appends one "NAME=value". */
int command_put_environment(char ***environment, const char *assignment);
/* What a record says of it: the last component of the program's name. */
const char *command_short_name(const cgtree_command *command);
void command_set_error(cgtree_command *command, enum cgtree_step step, const char *message);
