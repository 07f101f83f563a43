/* SPDX-License-Identifier: MIT */
#include "placement-cgroup.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#include "identity.h"
#include "records.h"

#define OWNER_BOUND_USEC    (1 * USEC_PER_SEC)
#define TAKEN_LOOK_USEC     (100 * USEC_PER_MSEC)
#define TAKEN_BELIEVED_USEC (20 * USEC_PER_MSEC)

/* ---- birth ---------------------------------------------------------------------------------------------------- */

enum tree_input placed_look_gated(cgtree_tree *tree) {
        struct gate_message message;
        int r = gate_receive(&tree->gate, &message, NULL);
        if (r == -EAGAIN)
                return INPUT_NONE;
        tree_close_fd(tree, &tree->gate.socket);
        if (r >= 0 && message.type == GATE_FAILED) {
                tree_fail_child(tree, message.step, message.error);
                return INPUT_BIRTH_FAILED;
        }
        /* End of file: the exec closed it, or a SIGKILL did; then the status of the root says so. */
        return INPUT_EXECED;
}

/* ---- life ----------------------------------------------------------------------------------------------------- */

/* Opened anew: a descriptor from before does not tell what is gone from what is empty. */
bool placed_is_gone(const struct cgroup *cgroup) {
        _cleanup_close_ int fd = cgroup_open_events(cgroup);
        return fd == -ENODEV || fd == -ENOENT;
}

/* Whoever ends a tree removes its cgroup; the kernel does not wake those who wait for that, so it is looked at now and
 * then where the root has left. Or it is dying: its pidfd tells of its end a moment after its cgroup. */
bool placed_is_taken(cgtree_tree *tree) {
        if (tree->taken_at == 0) {
                if (tree->events_fd < 0)
                        tree->events_fd = cgroup_open_events(&tree->cgroup);
                if (tree->events_fd < 0)
                        tree->events_fd = -1;
                else if (cgroup_events_populated(tree->events_fd) != 0)
                        return false;
                if (!placed_is_gone(&tree->cgroup)) {
                        tree_wake_at(tree, usec_add(now_usec(), TAKEN_LOOK_USEC));
                        return false;
                }
                tree_close_fd(tree, &tree->events_fd); /* it would be ready for ever */
                tree->taken_at = usec_add(now_usec(), TAKEN_BELIEVED_USEC);
        }
        tree_wake_at(tree, tree->taken_at);
        return now_usec() >= tree->taken_at;
}

int placed_look_empty(cgtree_tree *tree) {
        if (tree->cgroup.fd < 0)
                return 1; /* never made */
        if (tree->events_fd < 0) {
                int fd = cgroup_open_events(&tree->cgroup);
                if (fd == -ENODEV || fd == -ENOENT)
                        return 1;
                if (fd < 0) {
                        tree_wake_at(tree, now_usec() + 10 * USEC_PER_MSEC);
                        return 0;
                }
                tree->events_fd = fd;
        }
        if (tree->ending.phase == ENDING_IDLE)
                return cgroup_events_populated(tree->events_fd) == 0;

        uint64_t wakeup = USEC_FOREVER;
        int r = ending_step(&tree->ending, &tree->cgroup, tree->events_fd, &wakeup);
        tree_wake_at(tree, wakeup);
        return r == 1;
}

/* A root that has left the tree is not reached through the cgroup: it is followed by its pidfd, and reported. */
void placed_note_stray(cgtree_tree *tree) {
        if (tree->root_ended || tree->root_pidfd < 0 || tree->stray)
                return;
        if (tree->taken_at == 0 && cgroup_contains(&tree->cgroup, tree->root_pid) != 0)
                return;
        char *path = NULL;
        if (cgroup_path_of(tree->root_pid, &path) < 0 || pidfd_is_dead(tree->root_pidfd) != 0) {
                free(path);
                return;
        }
        tree->stray = path;
        owner_log(tree->owner, LOG_NOTICE, "the root of tree %s (pid %d) has left its cgroup for %s", tree->record.id,
                (int)tree->root_pid, path);
}

static void signal_root(cgtree_tree *tree, int signal) {
        if (!tree->root_ended && tree->root_pidfd >= 0)
                (void)process_signal(&(struct process){ .pidfd = tree->root_pidfd }, signal);
}

void placed_begin_terminate(cgtree_tree *tree, int signal) {
        placed_note_stray(tree);
        if (tree->root_only && !tree->root_ended) {
                signal_root(tree, signal);
                signal_root(tree, SIGCONT);
                return;
        }
        if (tree->stray) {
                signal_root(tree, signal);
                signal_root(tree, SIGCONT);
        }
        (void)ending_terminate(&tree->ending, &tree->cgroup, signal, tree->hangup, tree->grace_usec);
}

void placed_begin_kill(cgtree_tree *tree) {
        if (tree->cgroup.fd < 0)
                return;
        placed_note_stray(tree);
        (void)ending_kill(&tree->ending, &tree->cgroup);
        signal_root(tree, SIGKILL);
}

int placed_signal_all(cgtree_tree *tree, int signal) {
        int r = kill_signal_members(&tree->cgroup, signal, false);
        placed_note_stray(tree);
        if (tree->stray)
                signal_root(tree, signal);
        return r < 0 ? r : 0;
}

int placed_members(cgtree_tree *tree, pid_t **ret_pids, size_t *ret_n) {
        return cgroup_members(&tree->cgroup, ret_pids, ret_n, NULL);
}

char *placed_survivors(cgtree_tree *tree) {
        char *survivors = kill_survivors(&tree->cgroup);
        if (survivors || tree->root_ended)
                return survivors;
        return process_describe(tree->root_pid);
}

/* ---- end ------------------------------------------------------------------------------------------------------ */

/* Records of trees inside this one: their cgroups lay below ours, so they went with it. */
static int unlink_inner(void *userdata, int dirfd, const char *file, struct record *record, const char *problem) {
        const cgtree_tree *tree = userdata;
        (void)file, (void)problem;
        size_t length = strlen(tree->cgroup.path);
        if (record && record->cgroup && strncmp(record->cgroup, tree->cgroup.path, length) == 0 &&
                record->cgroup[length] == '/' && record->cgroup_namespace == tree->record.cgroup_namespace &&
                strcmp(record->boot_id, tree->record.boot_id) == 0)
                (void)record_unlink(dirfd, record->id, record->name);
        return 0;
}

void placed_unlink_inner(cgtree_tree *tree) {
        (void)records_each(tree->owner->records_fd, unlink_inner, tree);
}

/* The kernel tells a living owner up to 18 ms late that its tree is empty, and not at all once the cgroup is gone: so the
 * owner removes it, unless it does not move. */
bool placed_is_left_to_owner(cgtree_tree *tree) {
        uint64_t now = now_usec();
        const char *reason;
        if (!tree->found)
                return false;
        if (tree->leave_until == 0)
                tree->leave_until =
                        identity_owner(&tree->record, &reason) == PROCESS_ALIVE ? usec_add(now, OWNER_BOUND_USEC) : now;
        if (now >= tree->leave_until || placed_is_gone(&tree->cgroup))
                return false;
        tree_wake_at(tree, now + PLACED_REMOVE_RETRY_USEC);
        return true;
}

void placed_done(cgtree_tree *tree) {
        ending_done(&tree->ending, &tree->cgroup);
        tree_close_fd(tree, &tree->events_fd);
        cgroup_done(&tree->cgroup);
}
