/* SPDX-License-Identifier: MIT */
#pragma once

/* Inside of cgroup: its directories by bare fd. What belongs to us and was made inaccessible by a member (same user, so it
 * may chmod 0 its own directory and files) is opened up again. */

#include "util.h"

/* After -EACCES: gives us back u+rwx on the directory, u+rw on the file in it (NULL: none), where they are ours. True if
 * that changed anything: worth another try. */
bool cgroup_dir_open_up(int dirfd, const char *file);

/* A directory below dirfd ("" or "." is dirfd itself, opened once more): no symlink, no mount point, no ".." on the way. */
int cgroup_dir_open(int dirfd, const char *path);

/* openat, read_whole_file_at and write_file_at, opening up what is ours. -ENOENT only when the file is missing in a
 * directory that is there; a directory that is gone is -ENODEV. */
int cgroup_dir_open_file(int dirfd, const char *file, int flags);
int cgroup_dir_read(int dirfd, const char *file, char **ret_text);
int cgroup_dir_write(int dirfd, const char *file, const char *text);

/* Depth first with few descriptors, however deep. enter: each directory that could be opened, the top ("") too; leave: each
 * one below the top, after all below it, also when it could not be opened. Either may be NULL; < 0 ends the walk. */
struct cgroup_dir_visit {
        int (*enter)(void *userdata, int dirfd, const char *relative_path);
        int (*leave)(void *userdata, int parent_fd, const char *name);
        void *userdata;
};
int cgroup_dir_walk(int dirfd, const struct cgroup_dir_visit *visit);
