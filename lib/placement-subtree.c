/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <syslog.h>
#include <unistd.h>

#include "placement-cgroup.h"

/* The placement below a cgroup of ours: HOME/trees/ID, one directory for each tree. */

#define BIRTH_LOOK_USEC     (10 * USEC_PER_MSEC)
#define REMOVE_GIVE_UP_USEC (200 * USEC_PER_MSEC)

/* ---- birth ---------------------------------------------------------------------------------------------------- */

/* The tree's directory; the owner's own is made anew when somebody removed it. */
static int create_cgroup(cgtree_tree *tree) {
        cgtree_owner *owner = tree->owner;
        bool renewed;
        int r = home_create_tree(&owner->home, tree->record.id, &tree->cgroup, &renewed);
        if (renewed)
                owner_log(owner, LOG_NOTICE, "the cgroup of this owner was removed by somebody: it is made anew");
        if (r == -ENODEV && owner->home.scope && owner_choose_again(owner) >= 0)
                return -EAGAIN;
        if (r < 0)
                return tree_fail(tree, CGTREE_STEP_PLACE, r, "cannot make a cgroup in %s: %s", owner->home.base.path,
                        strerror(-r));
        r = cgroup_set_xattr(&tree->cgroup, CGROUP_XATTR_ID, tree->record.id);
        if (r < 0 && r != -EOPNOTSUPP) /* kernels before 5.7 have none: the inode alone proves it there */
                return tree_fail(
                        tree, CGTREE_STEP_PLACE, r, "cannot mark cgroup %s: %s", tree->cgroup.path, strerror(-r));
        return 0;
}

/* A tree for another user is that user's to divide: cgtree works inside. */
static int hand_over(cgtree_tree *tree, uid_t uid, gid_t gid) {
        static const char *const files[] = { ".", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control" };
        for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
                if (fchownat(tree->cgroup.fd, files[i], uid, gid, AT_SYMLINK_NOFOLLOW) < 0)
                        return tree_fail(tree, CGTREE_STEP_PLACE, -errno, "cannot give cgroup %s to uid %u: %s",
                                tree->cgroup.path, (unsigned)uid, strerror(errno));
        return 0;
}

static int set_limits(cgtree_tree *tree) {
        _cleanup_free_ char *reason = NULL;
        int r = limits_set(&tree->cgroup, &tree->limits, tree->owner->limits, &reason);
        return r < 0 ? tree_fail(tree, CGTREE_STEP_PLACE, r, "%s", reason ? reason : "out of memory") : 0;
}

static int make_place(cgtree_tree *tree) {
        int r = create_cgroup(tree);
        if (r >= 0 && tree->owner->limits != 0)
                r = set_limits(tree);
        if (r >= 0 && tree->plan->set_user)
                r = hand_over(tree, tree->plan->uid, tree->plan->gid);
        if (r < 0)
                return r;
        tree->record.cgroup = strdup(tree->cgroup.path);
        tree->record.cgroup_id = tree->cgroup.id;
        r = tree->record.cgroup ? owner_name_unit(tree->owner, tree->owner->home.scope, &tree->record) : -ENOMEM;
        if (r < 0)
                return tree_fail(tree, CGTREE_STEP_RECORD, -ENOMEM, "out of memory");
        return tree_write_record(tree);
}

static int begin_gated(cgtree_tree *tree) {
        int r = gate_start(tree->plan, tree->cgroup.fd, &tree->gate);
        if (r >= 0) {
                tree->root_pid = tree->gate.pid;
                tree->root_pidfd = take_fd(&tree->gate.pidfd);
                r = gate_send(&tree->gate, &(struct gate_message){ .type = GATE_GO });
        }
        if (r < 0)
                return tree_fail(tree, CGTREE_STEP_CHILD, r, "cannot start the child: %s", strerror(-r));
        return 0;
}

/* What says that clone3 into a cgroup is not to be had here at all, as against: not for this one. */
static bool is_unsupported(int error) {
        return error == -ENOSYS || error == -EPERM || error == -E2BIG || error == -EINVAL;
}

static int begin_direct(cgtree_tree *tree) {
        int r = birth_begin(tree->plan, tree->cgroup.fd, &tree->birth, &tree->root_pid, &tree->root_pidfd);
        if (r >= 0) {
                tree->plan = NULL;
                return 0;
        }
        if (!is_unsupported(r))
                return tree_fail(tree, r == -EAGAIN ? CGTREE_STEP_CHILD : CGTREE_STEP_PLACE, r,
                        "cannot start a child in %s: %s", tree->cgroup.path, strerror(-r));
        owner_log(
                tree->owner, LOG_DEBUG, "no clone3 into a cgroup here (%s): children join by themselves", strerror(-r));
        tree->owner->no_clone_into = true;
        return begin_gated(tree);
}

static int subtree_begin_birth(cgtree_tree *tree) {
        int r = make_place(tree);
        if (r < 0)
                return r;
        /* Until its exec a direct child shares our memory: if that is what its limit is exceeded by, the kernel kills all who
         * share it, us too. */
        bool gated = tree->owner->no_clone_into || tree->plan->set_user || tree->limits.values[CGTREE_LIMIT_MEMORY] > 0;
        return gated ? begin_gated(tree) : begin_direct(tree);
}

/* A child that was SIGKILLed before its first instruction: either somebody ended the tree, or the kernel took it
 * for a member of the cgroup's killed past (spurious SIGKILL of CLONE_INTO_CGROUP children, 6.12.14 to 6.12.114
 * and 6.18). An ender holds the lock until the record is gone. */
static bool was_asked_for(cgtree_tree *tree) {
        return tree->owner->teardown || tree->owner->teardown_asked || tree->owner->n_kills != tree->n_kills_before ||
               flock(tree->cgroup.fd, LOCK_EX | LOCK_NB) < 0 || !tree_record_stands(tree);
}

/* Once, in a new cgroup with a new record, the child joining by itself: then the kernel does not compare. */
static enum tree_input retry_birth(cgtree_tree *tree) {
        cgtree_owner *owner = tree->owner;
        if (tree->retried || was_asked_for(tree)) {
                tree_fail(tree, CGTREE_STEP_CHILD, -ECANCELED, "the child was killed before it started");
                return INPUT_BIRTH_FAILED;
        }
        tree->retried = true;
        /* It has let go of our memory, so it is a few instructions from its end. */
        siginfo_t info = { 0 };
        while (waitid(P_PIDFD, (id_t)tree->root_pidfd, &info, WEXITED) < 0 && errno == EINTR)
                ;
        tree_close_fd(tree, &tree->root_pidfd);
        tree->root_pid = 0;
        owner_log(owner, LOG_NOTICE, "the kernel killed a child born into %s: once more, joining by itself",
                tree->cgroup.path);
        (void)record_unlink(owner->records_fd, tree->record.id, tree->record.name);
        tree->recorded = false;
        cgroup_done(&tree->cgroup);
        (void)home_remove_tree(&owner->home, tree->record.id, REMOVE_GIVE_UP_USEC);
        free(tree->record.cgroup);
        tree->record.cgroup = NULL;
        owner->no_clone_into = true;
        return make_place(tree) < 0 || begin_gated(tree) < 0 ? INPUT_BIRTH_FAILED : INPUT_NONE;
}

static enum tree_input look_direct(cgtree_tree *tree) {
        enum birth_state state = birth_wait(tree->birth, tree->root_pidfd, 0);
        if (state == BIRTH_PENDING) {
                tree_wake_at(tree, now_usec() + BIRTH_LOOK_USEC);
                return INPUT_NONE;
        }
        struct child_result result = *birth_result(tree->birth);
        tree->plan = birth_take_plan(tree->birth);
        tree->birth = birth_free(tree->birth);
        if (state == BIRTH_EXECED)
                return INPUT_EXECED;
        if (state == BIRTH_KILLED)
                return retry_birth(tree);
        tree_fail_child(tree, result.step, result.error);
        return INPUT_BIRTH_FAILED;
}

static enum tree_input subtree_look_birth(cgtree_tree *tree) {
        if (tree->state == TREE_OPENING)
                return INPUT_PLACED;
        return tree->birth ? look_direct(tree) : placed_look_gated(tree);
}

/* ---- end ------------------------------------------------------------------------------------------------------ */

static int subtree_remove(cgtree_tree *tree) {
        if (tree->cgroup.fd < 0)
                return 0;
        if (placed_is_left_to_owner(tree))
                return -EAGAIN;
        struct stat status;
        bool had_inner = fstat(tree->cgroup.fd, &status) >= 0 && status.st_nlink > 2;
        int r = home_remove_tree(&tree->owner->home, tree->record.id, 0);
        if (r == -EBUSY) {
                /* From 6.19 on the dead may be unlinked after they were reaped. */
                uint64_t now = now_usec();
                if (tree->bound_until == 0)
                        tree->bound_until = now + REMOVE_GIVE_UP_USEC;
                if (now < tree->bound_until) {
                        tree_wake_at(tree, now + PLACED_REMOVE_RETRY_USEC);
                        return -EAGAIN;
                }
        }
        if (r < 0)
                owner_log(tree->owner, LOG_WARNING, "cgroup %s is empty but cannot be removed: %s", tree->cgroup.path,
                        strerror(-r));
        if (had_inner)
                placed_unlink_inner(tree);
        return 0;
}

const struct placement placement_subtree = {
        .kind = CGTREE_PLACEMENT_SUBTREE,
        .guarantee = CGTREE_GUARANTEE_WHOLE,
        .begin_birth = subtree_begin_birth,
        .look_birth = subtree_look_birth,
        .look_root = tree_reap_root,
        .is_taken = placed_is_taken,
        .look_empty = placed_look_empty,
        .begin_terminate = placed_begin_terminate,
        .begin_kill = placed_begin_kill,
        .signal_all = placed_signal_all,
        .members = placed_members,
        .survivors = placed_survivors,
        .remove = subtree_remove,
        .done = placed_done,
};
