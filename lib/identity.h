/* SPDX-License-Identifier: MIT */
#pragma once

/* The one check that stands before every kill by record: nothing is killed on a guess. */

#include "cgroup.h"
#include "record.h"

enum identity_verdict {
        IDENTITY_PROVEN,  /* the container is that of the record: its cgroup is open, or its group has proven members */
        IDENTITY_NOTHING, /* proven that nothing of it is left: the record may go */
        IDENTITY_SKIP, /* cannot be judged from here, or does not match: never signalled, record kept; reason says why */
};

/* Same boot, same pid namespace; owner alive, gone, or unknown. *ret_reason: static string. */
enum process_life identity_owner(const struct record *record, const char **ret_reason);

/* SUBTREE: opens the cgroup and proves it (inode = cgroup_id, xattr = id where the kernel has xattrs; not the root, not above any process of ours or of
 * our ancestors, not above another owner's directory). *ret_cgroup set on PROVEN. GROUP: judged through group_prove() by the caller. */
enum identity_verdict identity_cgroup(const struct record *record, struct cgroup *ret_cgroup, const char **ret_reason);
