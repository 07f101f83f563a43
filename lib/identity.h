/* SPDX-License-Identifier: MIT */
#pragma once

/* The one check that stands before every kill by record: nothing is killed on a guess. */

#include "cgroup.h"
#include "record.h"

enum identity_verdict {
        IDENTITY_PROVEN,  /* the container is that of the record */
        IDENTITY_NOTHING, /* proven that nothing of it is left: the record may go */
        IDENTITY_SKIP,    /* cannot be judged from here, or does not match: never signalled, the record is kept */
};

/* May the numbers in it be compared with ours? PROVEN: same boot, same pid namespace. NOTHING: another boot. In all that
 * follows *ret_reason is a static string, a clause that says why. */
enum identity_verdict identity_origin(const struct record *record, const char **ret_reason);

/* The owner, by pidfd alone. What cannot be told (another namespace, no access) is UNKNOWN: to be treated as alive. */
enum process_life identity_owner(const struct record *record, const char **ret_reason);
/* The same by who judges many: `here` is of record_fill_place(). */
enum process_life identity_owner_from(const struct record *here, const struct record *record, const char **ret_reason);

/* The cgroup of a subtree: has the recorded inode, carries the id in its xattr (where the kernel has them), and is not the
 * root. Its absence proves something from the same cgroup namespace alone. *ret_cgroup is set if PROVEN. */
enum identity_verdict identity_cgroup(const struct record *record, struct cgroup *ret_cgroup, const char **ret_reason);
/* May it be ended from here? Why not, as a static string; NULL: it may. It must hold neither us nor an ancestor of ours,
 * nor the place of another owner that lives outside of it (an owner inside of it is nested, and ends with it). */
const char *identity_check_end(const struct cgroup *cgroup);

/* The value of CGROUP_XATTR_OWNER on the directory of the owner of `origin`: "PID START_TIME INODE BOOT_ID PID_NAMESPACE".
 * malloc'd. */
char *identity_stamp(const struct record *origin);
/* Reads it into the fields it was made from. -ENODATA: not stamped; -EOPNOTSUPP; -EBADMSG. */
int identity_read_stamp(const struct cgroup *cgroup, struct record *ret_origin);
