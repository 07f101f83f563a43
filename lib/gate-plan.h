/* SPDX-License-Identifier: MIT */
#pragma once

/* What passes between an owner and its stubs: the plan as arguments and environment of the stub, messages as packets. */

#include "gate.h"

/* The plan as the stub has it. Strings are borrowed from its argv and environ. */
struct gate_plan {
        struct child_plan child;
        int socket;
        int cgroup_fd;      /* -1: none */
        bool introduce;     /* say hello */
        int *close_on_exec; /* sources that were so in the owner: only their copies are for the command */
        size_t n_close_on_exec;
};

/* The owner's side: the arguments for `program`, malloc'd. Sources travel under the numbers that they have. */
int gate_plan_encode(const char *program, const struct child_plan *plan, int socket, int cgroup_fd, bool introduce,
        char ***ret_argv);
/* The stub's side. -EINVAL: not of gate_plan_encode()'s making. */
int gate_plan_decode(char *argv[], char *envp[], struct gate_plan *ret_plan);
/* Still the stub's side, once, before anything else is opened: what is not for the command becomes CLOEXEC, the socket
 * moves out of the way of the targets, and what nobody needs is closed (unless the command inherits all). Says hello. */
int gate_plan_settle(struct gate_plan *plan);
void gate_plan_done(struct gate_plan *plan);

/* One packet; fd -1: none to pass. -EPIPE: nobody is there any more. `flags` as of send(2) and recv(2): MSG_DONTWAIT. */
int gate_message_send(int socket, const struct gate_message *message, int fd, int flags);
/* -ECONNRESET: end of file. -EBADMSG: no message of ours. ret_fd may be NULL; CLOEXEC, or -1. */
int gate_message_receive(int socket, struct gate_message *ret_message, int *ret_fd, int flags);
/* The same with a text, of less than `size` bytes, which the others neither send nor take. */
int gate_message_send_text(int socket, const struct gate_message *message, const char *text, int fd, int flags);
int gate_message_receive_text(
        int socket, struct gate_message *ret_message, char *ret_text, size_t size, int *ret_fd, int flags);
