/* SPDX-License-Identifier: MIT */
#pragma once

/* The directories that hold records. */

#include "record.h"

/* The directory in which new records are written: `wanted`, else $CGTREE_RECORDS, else the first that can be made ours of
 * /run/cgtree (root), $XDG_RUNTIME_DIR/cgtree, /dev/shm/cgtree-UID, /tmp/cgtree-UID. Made 0700 if missing; must be a
 * directory, ours, not a symlink, not writable by others (checked by fd). *ret_path is set on failure too (NULL: out of
 * memory): which one failed. -ENOTDIR (a symlink, too), -EPERM (not ours alone to write), or what mkdir and open say. */
int records_open(const char *wanted, int *ret_dirfd, char **ret_path);
/* The failure of records_open() in words; NULL: those of its errno say it. */
const char *records_error(int error);

/* Every directory that is to be read: the explicit one alone, else each of the defaults. One that does not exist holds
 * nothing; one that cannot be trusted is an error if it was asked for, or is ours (dirfd is the errno, negative), and
 * none of our business if it is another's. fn != 0 ends it and is returned. */
typedef int (*records_dir_fn)(void *userdata, int dirfd, const char *path);
int records_each_directory(const char *wanted, records_dir_fn fn, void *userdata);

/* Every file NAME.json of one directory, in the order of names. `record` NULL: bad, problem says why. fn may take the
 * record over. fn != 0 ends it and is returned. */
typedef int (*records_fn)(void *userdata, int dirfd, const char *file, struct record *record, const char *problem);
int records_each(int dirfd, records_fn fn, void *userdata);
