/* SPDX-License-Identifier: MIT */
#pragma once

/* Birth of a root, directly: clone3 into the cgroup, sharing our memory on a stack of its own, without CLONE_VFORK (a
 * parent in vfork cannot be bounded: with a frozen cgroup, or an exec on a dead filesystem, it hangs in D). */

#include "child.h"

struct birth; /* stack, plan and result of one child; unmapped only when the kernel has cleared its tid word */

enum birth_state {
        BIRTH_PENDING,
        BIRTH_EXECED, /* it runs the command (or has ended since; or was killed on the way to it) */
        BIRTH_FAILED, /* result tells; it exits and has to be reaped */
        BIRTH_KILLED, /* SIGKILLed before its first instruction: B2, or a kill that was asked for; to be reaped too */
};

/* Takes the plan over, on success only; it is freed with the birth. cgroup_fd -1: no CLONE_INTO_CGROUP. The pidfd is
 * CLOEXEC. Holds the caller for the clone alone. No handler of the host runs in the child, and no thread of it has to hold still.
 * Errors of clone3: -ENOSYS, -EPERM (seccomp), -E2BIG (before 5.7), -EACCES (no W on the common ancestor), -EBUSY (domain
 * controllers), -EOPNOTSUPP (invalid domain), -ENODEV / -ENOENT (cgroup gone), -EAGAIN (limits). -ENOSYS too where this
 * architecture has no direct birth, and on kernels before 5.5. -EINVAL: set_user, which is the gate's (the memory that
 * the child shares with us would become undumpable). */
int birth_begin(struct child_plan *plan, int cgroup_fd, struct birth **ret_birth, pid_t *ret_pid, int *ret_pidfd);
/* Waits on the tid word, `timeout_usec` at most (0: looks only). `pidfd` (of birth_begin): a child that is dead without
 * having cleared the word is seen by it. */
enum birth_state birth_wait(struct birth *birth, int pidfd, uint64_t timeout_usec);
const struct child_result *birth_result(const struct birth *birth);
/* Gives the plan back, for another try. NULL while PENDING: the child reads it. */
struct child_plan *birth_take_plan(struct birth *birth);
/* Frees; while the child still uses the memory (PENDING) it is kept aside for good: it must not be unmapped.
 * Returns NULL. */
struct birth *birth_free(struct birth *birth);
