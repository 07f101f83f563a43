/* SPDX-License-Identifier: MIT */
#pragma once

/* One transient scope of systemd's around a process that waits: asked for, awaited, and seen to be so by the kernel. */

#include "bus.h"
#include "cgroup-limits.h"

struct scope_request {
        const char *unit; /* NAME.scope; a taken name is an error */
        const char *description, *slice;
        pid_t pid;
        int pidfd; /* where the manager takes it (255 and later), it decides who is meant; -1: none */
        uint64_t stop_usec;
        struct limits limits; /* asked for; limits_check() tells what came of it */
};

struct scope;

/* Asks for it, delegated to us. The strings are copied, the pidfd is not. */
int scope_begin(struct bus *bus, const struct scope_request *request, struct scope **ret_scope);
/* Does what can be done without waiting, bus_step() included. 1: the process is in it, *ret_cgroup (malloc'd) is its path. 0: not yet.
 * < 0: it could not be had, and why; nothing of it is left, unless the manager does not answer: then the connection is
 * to be closed, and after that the process is to be killed, never released, since the manager may yet move it.
 * -EEXIST: the name is taken. */
int scope_step(struct scope *scope, char **ret_cgroup, char **ret_reason);
/* Before the connection is closed. NULL is fine. */
struct scope *scope_free(struct scope *scope);

/* Text as one word of a unit's name: what is not a letter, a digit, '_' or '.' becomes \xNN. malloc'd. */
char *scope_escape(const char *text);
