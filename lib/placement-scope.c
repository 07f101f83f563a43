/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <syslog.h>
#include <unistd.h>

#include "bus.h"
#include "placement-cgroup.h"
#include "scope.h"

/* The placement with a scope of systemd's for each tree: for places from which the kernel lets nothing be born into the part of the
 * hierarchy that our manager has. A stub waits at its gate until the manager has moved it, the record is written and the guard
 * holds the scope's directory; then it becomes the command. */

#define MANAGER_USEC     (3 * USEC_PER_SEC)
#define STOP_MORE_USEC   (2 * USEC_PER_SEC) /* than the grace: it is ours to end */
#define WRITE_LOOK_USEC  (1 * USEC_PER_MSEC)
#define GUARD_LOOK_USEC  UINT64_C(300)
#define MOVED_LOOK_USEC  (100 * USEC_PER_MSEC)
#define REMOVE_LOOK_USEC (4 * USEC_PER_MSEC)
#define REMOVE_WAIT_USEC (1 * USEC_PER_SEC)

/* ---- asking --------------------------------------------------------------------------------------------------- */

/* Once the name could only be taken by chance; by the second it is not. */
static char *make_unit_name(const cgtree_tree *tree) {
        const char *name = tree->record.name ? tree->record.name : tree->record.command;
        _cleanup_free_ char *word = scope_escape(name && *name ? name : "tree");
        char more[ID_LENGTH + 1] = "";
        if (!word || (tree->retried && id_random(more) < 0))
                return NULL;
        return format("app-cgtree-%.160s%s%.6s-%s.scope", word, tree->retried ? "_" : "", more, tree->record.id);
}

static int ask(cgtree_tree *tree) {
        _cleanup_free_ char *unit = make_unit_name(tree), *description = NULL;
        const char *name = tree->record.name ? tree->record.name : tree->record.command;
        description = format("%s, a tree of %s (pid %d), by cgtree", name, tree->record.owner_comm, (int)getpid());
        int r = unit && description ? owner_name_unit(tree->owner, unit, &tree->record) : -ENOMEM;
        if (r < 0)
                return r;
        struct scope_request request = {
                .unit = unit,
                .description = description,
                .slice = tree->owner->slice,
                .pid = tree->root_pid,
                .pidfd = tree->root_pidfd,
                .stop_usec = usec_add(tree->grace_usec, STOP_MORE_USEC),
                .limits = tree->limits,
        };
        return scope_begin(tree->bus, &request, &tree->scope);
}

/* What was asked for and not answered must not find the stub alive: the connection goes before the stub does. */
static void leave_manager(cgtree_tree *tree) {
        short events;
        tree->scope = scope_free(tree->scope);
        if (tree->bus)
                owner_unwatch_fd(tree->owner, tree, bus_fd(tree->bus, &events));
        tree->bus = bus_close(tree->bus);
}

static int scope_begin_birth(cgtree_tree *tree) {
        char *reason = NULL;
        int r = gate_start(tree->plan, -1, &tree->gate);
        if (r < 0)
                return tree_fail(tree, CGTREE_STEP_CHILD, r, "cannot start the child: %s", strerror(-r));
        tree->root_pid = tree->gate.pid;
        tree->root_pidfd = take_fd(&tree->gate.pidfd);
        bool user = strcmp(tree->owner->manager, "user") == 0;
        r = bus_open(user ? BUS_USER : BUS_SYSTEM, MANAGER_USEC, &tree->bus, &reason);
        if (r >= 0)
                r = ask(tree);
        if (r < 0)
                (void)tree_fail(tree, CGTREE_STEP_PLACE, r, "%s", reason ? reason : strerror(-r));
        free(reason);
        return 0; /* what failed is seen at the first look */
}

/* ---- what becomes of it --------------------------------------------------------------------------------------- */

/* Nothing of it has run: the stub goes, and the next placement begins anew. */
static bool begin_elsewhere(cgtree_tree *tree) {
        siginfo_t info = { 0 };
        if (tree->error_step != CGTREE_STEP_PLACE || tree->recorded || tree->cgroup.fd >= 0 ||
                !owner_fall_back(tree->owner, CGTREE_PLACEMENT_SCOPE, tree->error_message))
                return false;
        leave_manager(tree);
        (void)pidfd_signal(tree->root_pidfd, SIGKILL);
        while (waitid(P_PIDFD, (id_t)tree->root_pidfd, &info, WEXITED) < 0 && errno == EINTR)
                ;
        tree_close_fd(tree, &tree->root_pidfd);
        tree_close_fd(tree, &tree->gate.socket);
        tree->root_pid = 0;
        (void)owner_name_unit(tree->owner, NULL, &tree->record);
        owner_log(tree->owner, LOG_WARNING, "tree %s gets no scope: %s; it begins in a process group", tree->record.id,
                tree->error_message ? tree->error_message : "out of memory");
        tree->error = 0;
        tree->error_step = CGTREE_STEP_NONE;
        free(tree->error_message);
        tree->error_message = NULL;
        tree->begun = tree->retried = false;
        return true;
}

/* The manager may take the properties and have no controllers for them. That all of a tree is killed where memory runs out is no
 * property before 253. */
static int see_limits(cgtree_tree *tree) {
        _cleanup_free_ char *reason = NULL;
        const struct limits none = { { 0 } };
        int r = limits_check(&tree->cgroup, &tree->limits, &reason);
        if (r >= 0)
                r = limits_set(&tree->cgroup, &none, limits_mask(&tree->limits), &reason);
        return r < 0 ? tree_fail(tree, CGTREE_STEP_PLACE, r, "%s", reason ? reason : "out of memory") : 0;
}

static int take_place(cgtree_tree *tree, const char *path) {
        int r = cgroup_open(path, &tree->cgroup);
        if (r >= 0)
                r = cgroup_set_xattr(&tree->cgroup, CGROUP_XATTR_ID, tree->record.id);
        if (r < 0 && r != -EOPNOTSUPP) /* kernels before 5.7 have none: the inode alone proves it there */
                return tree_fail(tree, CGTREE_STEP_PLACE, r, "cannot mark cgroup %s: %s", path, strerror(-r));
        r = see_limits(tree);
        if (r < 0)
                return r;
        tree->record.cgroup = strdup(path);
        tree->record.cgroup_id = tree->cgroup.id;
        if (!tree->record.cgroup)
                return tree_fail(tree, CGTREE_STEP_RECORD, -ENOMEM, "out of memory");
        r = tree_write_record(tree);
        if (r < 0)
                return r;
        pthread_mutex_lock(&tree->owner->home.lock);
        tree->kill_slot = kill_set_add(&tree->owner->kill_set, KILL_TREE, tree->cgroup.fd);
        pthread_mutex_unlock(&tree->owner->home.lock);
        if (!tree->kill_slot)
                return tree_fail(tree, CGTREE_STEP_PLACE, -ENOMEM, "out of memory");
        tree->membership.id = tree->record.id;
        tree->membership.cgroup = &tree->cgroup;
        r = home_give(&tree->owner->home, &tree->membership);
        return r < 0 ? tree_fail(tree, CGTREE_STEP_PLACE, r, "cgtree-guard is gone: %s", strerror(-r)) : 0;
}

static int step_manager(cgtree_tree *tree) {
        _cleanup_free_ char *path = NULL, *reason = NULL;
        int r = scope_step(tree->scope, &path, &reason);
        if (r > 0) {
                leave_manager(tree);
                return take_place(tree, path);
        }
        if (r == -EEXIST && !tree->retried) {
                tree->retried = true;
                tree->scope = scope_free(tree->scope);
                r = ask(tree);
        }
        if (r < 0)
                return tree_fail(tree, CGTREE_STEP_PLACE, r, "%s", reason ? reason : strerror(-r));
        short events;
        (void)bus_fd(tree->bus, &events);
        tree_wake_at(tree, events & POLLOUT ? now_usec() + WRITE_LOOK_USEC : bus_wakeup(tree->bus));
        return 0;
}

/* The last step before the command: everything that would find it is there. */
static enum tree_input look_at_guard(cgtree_tree *tree) {
        int r = home_holds(&tree->owner->home, &tree->membership);
        if (r == 0) {
                tree_wake_at(tree, now_usec() + GUARD_LOOK_USEC);
                return INPUT_NONE;
        }
        if (r > 0 && tree->n_kills_before != __atomic_load_n(&tree->owner->n_kills, __ATOMIC_SEQ_CST))
                r = -ECANCELED;
        if (r > 0)
                r = gate_send(&tree->gate, &(struct gate_message){ .type = GATE_GO });
        if (r >= 0)
                return INPUT_PLACED;
        tree_fail(tree, CGTREE_STEP_CHILD, r, "the child was killed before the command started: %s", strerror(-r));
        return INPUT_BIRTH_FAILED;
}

static enum tree_input scope_look_birth(cgtree_tree *tree) {
        if (tree->state != TREE_OPENING)
                return placed_look_gated(tree);
        if (tree->error == 0 && tree->scope)
                (void)step_manager(tree);
        if (tree->error < 0)
                return begin_elsewhere(tree) ? INPUT_NONE : INPUT_BIRTH_FAILED;
        return tree->scope ? INPUT_NONE : look_at_guard(tree);
}

/* ---- life ----------------------------------------------------------------------------------------------------- */

/* The manager removes a scope that is empty. Where the root runs on, somebody has moved it; if the record is gone too, the tree was
 * ended, else its command may go on. */
static bool scope_is_taken(cgtree_tree *tree) {
        if (tree->taken_at == 0 && !placed_is_taken(tree))
                return false;
        if (!tree_record_stands(tree))
                return true;
        placed_note_stray(tree);
        tree_wake_at(tree, now_usec() + MOVED_LOOK_USEC);
        return false;
}

static void scope_begin_kill(cgtree_tree *tree) {
        leave_manager(tree);
        if (tree->cgroup.fd < 0 && tree->root_pidfd >= 0)
                (void)pidfd_signal(tree->root_pidfd, SIGKILL);
        placed_begin_kill(tree);
}

/* ---- end ------------------------------------------------------------------------------------------------------ */

/* Its manager removes the directory, with all that is below. */
static int scope_remove(cgtree_tree *tree) {
        if (tree->cgroup.fd < 0)
                return 0;
        if (placed_is_gone(&tree->cgroup)) {
                placed_unlink_inner(tree);
                return 0;
        }
        uint64_t now = now_usec();
        if (tree->bound_until == 0)
                tree->bound_until = usec_add(now, REMOVE_WAIT_USEC);
        if (now < tree->bound_until) {
                tree_wake_at(tree, now + REMOVE_LOOK_USEC);
                return -EAGAIN;
        }
        owner_log(tree->owner, LOG_NOTICE, "scope %s is empty, but its manager does not remove it", tree->record.unit);
        placed_unlink_inner(tree);
        return 0;
}

static void scope_done(cgtree_tree *tree) {
        leave_manager(tree);
        pthread_mutex_lock(&tree->owner->home.lock);
        kill_set_remove(&tree->owner->kill_set, &tree->kill_slot);
        pthread_mutex_unlock(&tree->owner->home.lock);
        if (tree_is_over(tree)) /* else its owner goes, and leaves it to the guard */
                home_take_back(&tree->owner->home, &tree->membership);
        placed_done(tree);
}

const struct placement placement_scope = {
        .kind = CGTREE_PLACEMENT_SCOPE,
        .guarantee = CGTREE_GUARANTEE_WHOLE,
        .begin_birth = scope_begin_birth,
        .look_birth = scope_look_birth,
        .look_root = tree_reap_root,
        .is_taken = scope_is_taken,
        .look_empty = placed_look_empty,
        .begin_terminate = placed_begin_terminate,
        .begin_kill = scope_begin_kill,
        .signal_all = placed_signal_all,
        .members = placed_members,
        .survivors = placed_survivors,
        .remove = scope_remove,
        .done = scope_done,
};
