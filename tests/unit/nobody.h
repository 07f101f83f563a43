/* SPDX-License-Identifier: MIT */
#pragma once

/* The test as an unprivileged user in a cgroup that was handed over to that user. */

#include <check.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cgroup.h"

#define NOBODY 65534

static inline bool nobody_possible(void) {
        if (geteuid() == 0)
                return true;
        printf("left out: being another user needs root\n");
        return false;
}

static inline void nobody_own(const struct cgroup *cgroup) {
        static const char *const files[] = { ".", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control" };

        for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
                ck_assert_int_eq(fchownat(cgroup->fd, files[i], NOBODY, NOBODY, 0), 0);
}

/* For the rest of this test's process. */
static inline void nobody_become_in(const struct cgroup *cgroup) {
        ck_assert_int_eq(write_file_at(cgroup->fd, "cgroup.procs", "0"), 0);
        ck_assert_int_eq(setgroups(0, NULL), 0);
        ck_assert_int_eq(setresgid(NOBODY, NOBODY, NOBODY), 0);
        ck_assert_int_eq(setresuid(NOBODY, NOBODY, NOBODY), 0);
}
