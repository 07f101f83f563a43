/* SPDX-License-Identifier: MIT */
#pragma once

/* Birth of a root, directly: clone3 into the cgroup, sharing our memory on a stack of its own, without CLONE_VFORK (a parent in
 * vfork cannot be bounded: with a frozen cgroup, or an exec on a dead filesystem, it hangs in D). */

#include "child.h"

struct birth; /* stack, plan and result of one child; unmapped only when the kernel has cleared its tid word */

enum birth_state {
        BIRTH_PENDING,
        BIRTH_EXECED, /* it runs the command (or has ended since) */
        BIRTH_FAILED, /* result tells; it has exited and has to be reaped */
        BIRTH_KILLED, /* SIGKILLed before its first instruction: B2, or a kill that was asked for */
};

/* Takes the plan over (freed with the birth), also on failure. cgroup_fd -1: no CLONE_INTO_CGROUP.
 * Errors of clone3: -ENOSYS, -EPERM (seccomp), -E2BIG (before 5.7), -EACCES (no W on the common ancestor), -EBUSY (domain controllers), -EOPNOTSUPP (invalid
 * domain), -ENODEV / -ENOENT (cgroup gone), -EAGAIN (limits). -ENOSYS too where this architecture has no direct birth. */
int birth_begin(struct child_plan *plan, int cgroup_fd, struct birth **ret_birth, pid_t *ret_pid, int *ret_pidfd);
/* Waits on the tid word, `timeout_usec` at most (0: looks only). `pidfd` tells death from exec. */
enum birth_state birth_wait(struct birth *birth, int pidfd, uint64_t timeout_usec);
const struct child_result *birth_result(const struct birth *birth);
/* Frees; while the child still uses the memory (PENDING) it is kept aside for good: it must not be unmapped. */
struct birth *birth_free(struct birth *birth);
