/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cgroup-limits.h"
#include "home.h"

/* Controllers on the way from the base to the trees: BASE, HOME and HOME/trees have them enabled for their children. If we live in
 * BASE, that takes a leaf for us to live in: HOME/leaf. */

#define LEAF         "leaf"
#define GUARD_LEAVES (20 * USEC_PER_MSEC) /* one that is not our child exits a moment after it was told to */

/* In a scope that was made for us the guard is who lives there. */
static int enter_leaf(struct home *home) {
        const pid_t self = home->scope ? home->guard.guard_pid : getpid();
        int r = cgroup_create(&home->directory, LEAF, &home->leaf);
        if (r < 0)
                return r;
        free(home->problem);
        home->problem = NULL;
        return limits_move_members(&home->base, &home->leaf, &self, 1, &home->problem);
}

int home_take_limits(struct home *home) {
        unsigned ours;
        free(home->problem);
        home->problem = NULL;
        if (home->limits == 0)
                return 0;
        int r = limits_enable(&home->base, home->limits, &home->enabled, &home->problem);
        if (r == -EBUSY && (home->may_move_self || home->scope)) {
                r = enter_leaf(home);
                if (r >= 0)
                        r = limits_enable(&home->base, home->limits, &home->enabled, &home->problem);
        }
        if (r >= 0)
                r = limits_enable(&home->directory, home->limits, &ours, &home->problem);
        if (r >= 0)
                r = limits_enable(&home->trees, home->limits, &ours, &home->problem);
        return r;
}

/* Others may have been put below the base since, and rely on what they found. */
static bool is_alone(const struct cgroup *base) {
        struct stat status;
        return fstat(base->fd, &status) >= 0 && status.st_nlink <= 3;
}

void home_give_back_limits(struct home *home) {
        if (home->limits == 0)
                return;
        if (home->trees.fd >= 0)
                limits_disable(&home->trees, home->limits);
        limits_disable(&home->directory, home->limits);
        if (home->enabled != 0 && is_alone(&home->base))
                limits_disable(&home->base, home->enabled);
        home->enabled = 0;
        if (home->leaf.fd < 0)
                return;
        if (!home->scope)
                (void)write_file_at(home->base.fd, "cgroup.procs", "0");
        (void)cgroup_remove(&home->directory, LEAF, GUARD_LEAVES);
        cgroup_done(&home->leaf);
}
