/* SPDX-License-Identifier: MIT */
#pragma once

/* Cgroups of a test program's own, all below one, which main() makes, empties and removes, whatever became of the tests. */

#include <check.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cgroup.h"

static struct cgroup boxes = CGROUP_NONE, boxes_parent = CGROUP_NONE;
static char boxes_name[64];

/* False: this user or machine has none to give; said on stdout. */
static inline bool boxes_make(const char *noun) {
        _cleanup_free_ char *path = NULL;
        int r = cgroup_path_of(0, &path);

        snprintf(boxes_name, sizeof(boxes_name), "cgtree-test-%s-%d", noun, (int)getpid());
        if (r >= 0)
                r = cgroup_open(path, &boxes_parent);
        if (r >= 0)
                r = cgroup_create(&boxes_parent, boxes_name, &boxes);
        if (r < 0)
                printf("no cgroup of our own (%s): its tests do not run\n", strerror(-r));
        return r >= 0;
}

static inline struct cgroup box_new(const char *name) {
        struct cgroup box;

        ck_assert_int_eq(cgroup_create(&boxes, name, &box), 0);
        return box;
}

static inline void boxes_remove(void) {
        uint64_t deadline = now_usec() + 5 * USEC_PER_SEC;

        if (boxes.fd >= 0) {
                cgroup_kill(&boxes);
                while (cgroup_is_populated(&boxes) == 1 && now_usec() < deadline)
                        poll(NULL, 0, 1);
                cgroup_remove(&boxes_parent, boxes_name, USEC_PER_SEC);
        }
        cgroup_done(&boxes);
        cgroup_done(&boxes_parent);
}
