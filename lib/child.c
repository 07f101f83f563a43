/* SPDX-License-Identifier: MIT */
#include "child.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/ioctl.h>

#include "raw-syscall.h"

/* Everything here is _child_side_, and the object refers to nothing outside of itself (tests/unit/alone.sh): a call through
 * the PLT would write to the TLS that a running parent uses. */

#ifndef CLOSE_RANGE_CLOEXEC /* Linux 5.11 */
#define CLOSE_RANGE_CLOEXEC (1U << 2)
#endif
/* 32-bit architectures have an older, 16-bit form under the plain name. */
#ifdef SYS_setresuid32
#define CHILD_SYS_SETGROUPS SYS_setgroups32
#define CHILD_SYS_SETRESGID SYS_setresgid32
#define CHILD_SYS_SETRESUID SYS_setresuid32
#else
#define CHILD_SYS_SETGROUPS SYS_setgroups
#define CHILD_SYS_SETRESGID SYS_setresgid
#define CHILD_SYS_SETRESUID SYS_setresuid
#endif

/* As getdents64(2) has it. */
struct directory_entry {
        uint64_t inode;
        int64_t offset;
        unsigned short length;
        unsigned char type;
        char name[];
};

static _child_side_ long open_at(int dirfd, const char *path, int flags) {
        return raw_syscall(SYS_openat, dirfd, (long)path, flags | O_CLOEXEC, 0);
}

static _child_side_ long control_fd(int fd, int operation, long argument) {
        return raw_syscall(SYS_fcntl, fd, operation, argument, 0);
}

static _child_side_ void close_number(int fd) {
        raw_syscall(SYS_close, fd, 0, 0, 0);
}

/* ---- session and terminal ------------------------------------------------------------------------------------- */

static _child_side_ long enter_session(enum cgtree_session session) {
        if (session == CGTREE_SESSION_NEW || session == CGTREE_SESSION_TTY)
                return raw_syscall(SYS_setsid, 0, 0, 0, 0);
        if (session == CGTREE_SESSION_GROUP || session == CGTREE_SESSION_FOREGROUND)
                return raw_syscall(SYS_setpgid, 0, 0, 0, 0);
        return 0;
}

/* The descriptor that will be 0. */
static _child_side_ int stdin_source(const struct child_plan *plan) {
        for (size_t i = 0; i < plan->n_fds; i++)
                if (plan->fds[i].target == STDIN_FILENO)
                        return plan->fds[i].source;
        return plan->inherit_fds ? STDIN_FILENO : -1;
}

/* SIGTTOU is blocked here, like everything: a background group may do it so. */
static _child_side_ long become_foreground(long former_group) {
        long r = 0, tty = open_at(AT_FDCWD, "/dev/tty", O_RDWR | O_NOCTTY | O_NONBLOCK);
        pid_t group = -1, own = (pid_t)raw_syscall(SYS_getpid, 0, 0, 0, 0);

        if (tty < 0)
                return 0; /* no terminal, nothing to take */
        if (raw_syscall(SYS_ioctl, tty, TIOCGPGRP, (long)&group, 0) >= 0 && group == former_group)
                r = raw_syscall(SYS_ioctl, tty, TIOCSPGRP, (long)&own, 0);
        close_number((int)tty);
        return r;
}

static _child_side_ long take_terminal(const struct child_plan *plan, long former_group) {
        if (plan->session == CGTREE_SESSION_TTY)
                return raw_syscall(SYS_ioctl, stdin_source(plan), TIOCSCTTY, 0, 0);
        if (plan->session == CGTREE_SESSION_FOREGROUND)
                return become_foreground(former_group);
        return 0;
}

/* ---- signals, user, directory --------------------------------------------------------------------------------- */

static _child_side_ long set_dispositions(uint64_t ignored) {
        for (int number = 1; number <= 64; number++)
                if (number != SIGKILL && number != SIGSTOP)
                        raw_signal(number, ignored & UINT64_C(1) << (number - 1));
        return 0;
}

static _child_side_ long become_user(const struct child_plan *plan) {
        long r;

        if (!plan->set_user)
                return 0;
        r = raw_syscall(CHILD_SYS_SETGROUPS, (long)plan->n_groups, (long)plan->groups, 0, 0);
        if (r >= 0)
                r = raw_syscall(CHILD_SYS_SETRESGID, (long)plan->gid, (long)plan->gid, (long)plan->gid, 0);
        if (r >= 0)
                r = raw_syscall(CHILD_SYS_SETRESUID, (long)plan->uid, (long)plan->uid, (long)plan->uid, 0);
        return r;
}

static _child_side_ long change_directory(const struct child_plan *plan) {
        if (!plan->directory)
                return 0;
        if (plan->directory_fd >= 0 && plan->directory[0] != '/') {
                long r = raw_syscall(SYS_fchdir, plan->directory_fd, 0, 0, 0);

                if (r < 0)
                        return r;
        }
        return raw_syscall(SYS_chdir, (long)plan->directory, 0, 0, 0);
}

/* ---- descriptors ---------------------------------------------------------------------------------------------- */

static _child_side_ bool is_kept(const int kept[], size_t n_kept, long fd) {
        for (size_t i = 0; i < n_kept; i++)
                if (kept[i] == fd)
                        return true;
        return false;
}

/* -1: no number. */
static _child_side_ long number_of(const char *name) {
        long number = 0;

        for (; *name; name++) {
                if (*name < '0' || *name > '9' || number > 0x7fffffff / 10 - 1)
                        return -1;
                number = number * 10 + (*name - '0');
        }
        return number;
}

/* Without close_range: every open descriptor that is not kept is closed, or made CLOEXEC. */
static _child_side_ long walk_fds(const int kept[], size_t n_kept, bool cloexec) {
        _Alignas(struct directory_entry) char buffer[1024];
        long n, directory = open_at(AT_FDCWD, "/proc/self/fd", O_RDONLY | O_DIRECTORY);

        if (directory < 0)
                return directory;
        while ((n = raw_syscall(SYS_getdents64, directory, (long)buffer, sizeof(buffer), 0)) > 0)
                for (long position = 0; position < n;) {
                        const struct directory_entry *entry = (const void *)(buffer + position);
                        long fd = entry->name[0] == '.' ? -1 : number_of(entry->name);

                        position += entry->length;
                        if (fd < 0 || fd == directory || is_kept(kept, n_kept, fd))
                                continue;
                        if (cloexec)
                                control_fd((int)fd, F_SETFD, FD_CLOEXEC);
                        else
                                close_number((int)fd);
                }
        close_number((int)directory);
        return n;
}

/* Everything is to be closed by the exec, not before: until then each descriptor is as good as it was, for this step, for
 * the exec of a script, and for the report of a failure. */
static _child_side_ long mark_all(void) {
        if (raw_syscall(SYS_close_range, 0, ~0U, CLOSE_RANGE_CLOEXEC, 0) >= 0)
                return 0;
        return walk_fds(NULL, 0, true);
}

static _child_side_ bool is_target(const struct child_plan *plan, long fd) {
        for (size_t i = 0; i < plan->n_fds; i++)
                if (plan->fds[i].target == fd)
                        return true;
        return false;
}

/* A copy, CLOEXEC, under a number that is no target. */
static _child_side_ long move_clear(const struct child_plan *plan, int fd) {
        long lowest = 0;

        for (;;) {
                long moved = control_fd(fd, F_DUPFD_CLOEXEC, lowest);

                if (moved < 0 || !is_target(plan, moved))
                        return moved;
                close_number((int)moved);
                lowest = moved + 1;
        }
}

static _child_side_ long open_null(const struct child_plan *plan) {
        long moved, null = open_at(AT_FDCWD, "/dev/null", O_RDWR | O_NOCTTY);

        if (null < 0 || !is_target(plan, null))
                return null;
        moved = move_clear(plan, (int)null);
        close_number((int)null);
        return moved;
}

/* After it no source is a target, except where it is its own. */
static _child_side_ long clear_targets(const struct child_plan *plan) {
        long null = -1;

        for (size_t i = 0; i < plan->n_fds; i++) {
                struct child_fd *fd = &plan->fds[i];
                long source = fd->source;

                if (source == CGTREE_FD_NULL) {
                        if (null < 0)
                                null = open_null(plan);
                        source = null;
                } else if (source == fd->target)
                        source = control_fd(fd->target, F_SETFD, 0);
                else if (is_target(plan, source))
                        source = move_clear(plan, fd->source);
                if (source < 0)
                        return source;
                fd->moved = (int)source;
        }
        return 0;
}

static _child_side_ long arrange_fds(const struct child_plan *plan) {
        long r = plan->inherit_fds ? 0 : mark_all();

        if (r >= 0)
                r = clear_targets(plan);
        for (size_t i = 0; r >= 0 && i < plan->n_fds; i++)
                if (plan->fds[i].source != plan->fds[i].target)
                        r = raw_syscall(SYS_dup3, plan->fds[i].moved, plan->fds[i].target, 0, 0);
        return r;
}

_child_side_ int child_close_others(const int kept[], size_t n_kept) {
        unsigned first = 0;

        for (;;) {
                unsigned last = ~0U;

                for (size_t i = 0; i < n_kept; i++)
                        if (kept[i] >= 0 && (unsigned)kept[i] >= first && (unsigned)kept[i] <= last)
                                last = (unsigned)kept[i];
                /* `last` is the next kept one; what lies before it goes. */
                if (last > first && raw_syscall(SYS_close_range, first, last == ~0U ? last : last - 1, 0, 0) < 0)
                        return (int)walk_fds(kept, n_kept, false);
                if (last == ~0U)
                        return 0;
                first = last + 1;
        }
}

/* ---- exec ----------------------------------------------------------------------------------------------------- */

/* A place where it is not, rather than one where it cannot be run. */
static _child_side_ bool is_absence(long error) {
        return error == -ENOENT || error == -ENOTDIR || error == -ESTALE || error == -ENODEV || error == -ETIMEDOUT;
}

static _child_side_ long execute(const struct child_plan *plan) {
        bool denied = false;
        long r = -ENOENT;

        for (size_t i = 0; plan->executables[i]; i++) {
                r = raw_syscall(SYS_execve, (long)plan->executables[i], (long)plan->argv, (long)plan->envp, 0);
                denied |= r == -EACCES;
                if (r != -EACCES && !is_absence(r))
                        return r;
        }
        return denied ? -EACCES : r;
}

static _child_side_ bool failed(volatile struct child_result *result, int step, long r) {
        if (r >= 0)
                return false;
        result->error = (int)-r;
        result->step = step;
        return true;
}

_child_side_ void child_run(const struct child_plan *plan, volatile struct child_result *result) {
        long group;

        result->reached = 1;
        group = raw_syscall(SYS_getpgid, 0, 0, 0, 0);
        if (failed(result, CHILD_SESSION, enter_session(plan->session)) ||
                failed(result, CHILD_TERMINAL, take_terminal(plan, group)) ||
                failed(result, CHILD_SIGNALS, set_dispositions(plan->ignored)) ||
                failed(result, CHILD_USER, become_user(plan)) ||
                failed(result, CHILD_DIRECTORY, change_directory(plan)) ||
                failed(result, CHILD_FDS, arrange_fds(plan)) ||
                failed(result, CHILD_SIGNALS, raw_set_mask(plan->blocked)))
                return;
        failed(result, CHILD_EXEC, execute(plan));
}
