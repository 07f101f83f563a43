/* SPDX-License-Identifier: MIT */
#pragma once

/* The directories that hold records. */

#include "record.h"

/* The directory in which new records are written: `wanted`, else $CGTREE_RECORDS, else the first that can be made ours of /run/cgtree (root),
 * $XDG_RUNTIME_DIR/cgtree, /dev/shm/cgtree-UID, /tmp/cgtree-UID. Made 0700 if missing; must be a directory, ours, not a symlink, not writable by
 * others (checked by fd). An explicit one that fails is an error, with the path in *ret_path all the same. */
int records_open(const char *wanted, int *ret_dirfd, char **ret_path);

/* Every existing directory that is to be read: the explicit one alone, else each of the defaults. fn < 0 or > 0 ends it and is returned. */
typedef int (*records_dir_fn)(void *userdata, int dirfd, const char *path);
int records_each_directory(const char *wanted, records_dir_fn fn, void *userdata);

/* Every ID.json of one directory, in the order of names. `record` NULL: bad, problem says why. */
typedef int (*records_fn)(void *userdata, int dirfd, const char *file, struct record *record, const char *problem);
int records_each(int dirfd, records_fn fn, void *userdata);
