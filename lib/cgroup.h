/* SPDX-License-Identifier: MIT */
#pragma once

/* One cgroup v2 directory, held by fd. Paths are those of /proc/PID/cgroup: below the root of our cgroup namespace,
 * beginning with '/'. A path is resolved once, to a fd; what follows goes by that fd. */

#include "util.h"

struct cgroup {
        int fd;      /* O_DIRECTORY; an old fd never sees a new cgroup of the same name: safe as identity */
        char *path;  /* for records and messages */
        uint64_t id; /* inode = cgroup id, 64 bit, not reused within a boot */
};

#define CGROUP_NONE                                                                                                    \
        { .fd = -1 }

/* The cgroup2 mount, found through /proc/self/mountinfo and proven by fstatfs and mount id: the one that shows our own cgroup,
 * writable rather than not. ret_prefix: the part of our paths that the mount itself stands for ("" for an ordinary one; its
 * root field otherwise). -ENOENT: none mounted. -ENOLINK: only ones from outside of our cgroup namespace. -EACCES, ... */
int cgroup_open_root(int *ret_fd, char **ret_prefix);

/* The path of the `0::` line of /proc/PID/cgroup; pid 0: ourselves. -ENODATA: no such line (v1 only). -ENOLINK: the path
 * lies outside of our cgroup namespace ("/../"). -ESTALE: "(deleted)". -ESRCH; -ENOENT: /proc hides it. */
int cgroup_path_of(pid_t pid, char **ret_path);
/* The same of one thread: in threaded cgroups each may be somewhere else. */
int cgroup_path_of_thread(pid_t pid, pid_t tid, char **ret_path);
/* What `path` has below `above`, without the slash ("": it is the same); NULL: it does not lie there. */
const char *cgroup_path_below(const char *path, const char *above);

/* openat2 BENEATH | NO_SYMLINKS | NO_XDEV below the root; without openat2 (before 5.6, ENOSYS) component by component.
 * `path` as of cgroup_path_of(). -ENOENT, -EXDEV (outside of the mount), -EINVAL ("..", not absolute). */
int cgroup_open(const char *path, struct cgroup *ret_cgroup);
/* The same from a root that is open: -ENOENT then says that it is not there. */
int cgroup_open_from(int root, const char *prefix, const char *path, struct cgroup *ret_cgroup);
/* A child of an open one. */
int cgroup_open_child(const struct cgroup *parent, const char *name, struct cgroup *ret_cgroup);
/* mkdir and open. -EEXIST; -EAGAIN: cgroup.max.descendants or depth; -ENOENT, -ENODEV: the parent is gone. */
int cgroup_create(const struct cgroup *parent, const char *name, struct cgroup *ret_cgroup);
void cgroup_done(struct cgroup *cgroup);
struct cgroup cgroup_take(struct cgroup *cgroup);

/* user.* xattrs of cgroups: Linux 5.7. -EOPNOTSUPP before; -ENODATA: not set; -ERANGE: longer than the buffer. */
#define CGROUP_XATTR_ID    "user.cgtree.id"    /* on a tree: its id */
#define CGROUP_XATTR_OWNER "user.cgtree.owner" /* on an owner's directory: identity_stamp() */
int cgroup_set_xattr(const struct cgroup *cgroup, const char *name, const char *value);
int cgroup_get_xattr(const struct cgroup *cgroup, const char *name, char *buffer, size_t size);

/* cgroup.events, for reading again and again with cgroup_events_*(). -ENODEV: the cgroup is gone. -ENOENT: it is the root. */
int cgroup_open_events(const struct cgroup *cgroup);
/* 1 or 0. A cgroup that is gone (ENODEV) is neither populated nor frozen: 0. Zombies do not count. */
int cgroup_events_populated(int events_fd);
int cgroup_events_frozen(int events_fd);
/* One read by name, without a fd to keep. */
int cgroup_is_populated(const struct cgroup *cgroup);

/* cgroup.kill. 0 also when the cgroup is gone. -ENOENT (before 5.14), -EOPNOTSUPP (threaded), -EROFS, -EACCES. */
int cgroup_kill(const struct cgroup *cgroup);
/* cgroup.freeze, asks only. 0 also when gone. -ENOENT (before 5.2), -EROFS, -EACCES. */
int cgroup_freeze(const struct cgroup *cgroup, bool freeze);

/* Calls fn for the cgroup itself (dirfd, path relative to it: "") and every one below, parents first, with few descriptors
 * however deep they are nested. What vanishes meanwhile, or is another user's and closed to us, is skipped. A directory
 * without rwx that is ours is opened up first, since a member may have done chmod 0. fn < 0 ends the walk and is returned. */
typedef int (*cgroup_walk_fn)(void *userdata, int dirfd, const char *relative_path);
int cgroup_walk(const struct cgroup *cgroup, cgroup_walk_fn fn, void *userdata);

/* Thread-group ids of all members, recursively, each once and in ascending order (also those seen only through
 * cgroup.threads, and leaders that have exited while threads live). 0 (another pid namespace) is left out and counted. */
int cgroup_members(const struct cgroup *cgroup, pid_t **ret_pids, size_t *ret_n, size_t *ret_n_foreign);

/* Is that process, or one of its threads, in this cgroup or below it now? 1, 0, -errno. By path of /proc/PID/cgroup.
 * pid 0: ourselves. */
int cgroup_contains(const struct cgroup *cgroup, pid_t pid);

/* rmdir of `name` below parent and all below it, bottom-up; EBUSY is retried for about `retry_usec` (kernels from 6.19
 * unlink the dead late), sleeping; what a member made unreadable is opened up first. 0 also when gone. Directories of
 * another user that cannot be removed: -EPERM; populated: -EBUSY. */
int cgroup_remove(const struct cgroup *parent, const char *name, uint64_t retry_usec);
