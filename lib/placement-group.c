/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <syslog.h>
#include <unistd.h>

#include "group.h"
#include "owner.h"

/* The placement without a cgroup: a reaper of its own above each root (tools/cgtree-reaper.c), to which every
 * orphan of the tree comes back. When the reaper itself was killed, and for trees of others, members are found by
 * their marks (group.c). */

#define OUTSIDE_LOOK_MIN_USEC (1 * USEC_PER_MSEC)
#define OUTSIDE_LOOK_MAX_USEC (50 * USEC_PER_MSEC)

/* ---- birth ---------------------------------------------------------------------------------------------------- */

/* Before there is a record: there must be no moment at which it would be left to nobody. */
static int tell_record(cgtree_tree *tree) {
        struct gate_message message = {
                .type = GATE_RECORD,
                .grace_usec = tree->grace_usec,
                .death_grace_usec = tree->record.owner_death_grace_usec,
        };
        memcpy(message.id, tree->record.id, sizeof(message.id));
        return gate_send_fd(&tree->gate, &message, tree->owner->records_fd);
}

static int group_begin_birth(cgtree_tree *tree) {
        int r = reaper_start(tree->plan, &tree->gate);
        if (r >= 0)
                r = tell_record(tree);
        if (r < 0)
                return tree_fail(tree, CGTREE_STEP_PLACE, r, "cannot start cgtree-reaper: %s", strerror(-r));
        pthread_mutex_lock(&tree->owner->home.lock);
        tree->kill_slot = kill_set_add(&tree->owner->kill_set, KILL_REAPER, tree->gate.socket);
        pthread_mutex_unlock(&tree->owner->home.lock);
        return tree->kill_slot ? 0 : tree_fail(tree, CGTREE_STEP_PLACE, -ENOMEM, "out of memory");
}

static int identify_child(pid_t pid, int pidfd, struct process_identity *ret_identity) {
        struct process_stat stat;
        int r = process_read_stat(pid, &stat);
        if (r < 0)
                return r;
        *ret_identity = (struct process_identity){ .pid = pid, .start_time = stat.start_time };
        (void)pidfd_get_inode(pidfd, &ret_identity->inode); /* before 6.9 there is none: start time alone */
        return 0;
}

/* The root waits at its gate: record it, then let it go. */
static int admit_root(cgtree_tree *tree, pid_t pid, int *pidfd) {
        tree->root_pid = pid;
        tree->root_pidfd = take_fd(pidfd);
        int r = identify_child(pid, tree->root_pidfd, &tree->record.group.leader);
        if (r >= 0)
                r = identify_child(tree->gate.pid, tree->gate.pidfd, &tree->record.group.reaper);
        if (r < 0)
                return tree_fail(tree, CGTREE_STEP_CHILD, r, "cannot identify the child: %s", strerror(-r));
        (void)group_cgroup_id(pid, &tree->record.group.birth_cgroup_id); /* without cgroup v2: 0, proves nothing */
        r = tree_write_record(tree);
        if (r < 0)
                return r;
        r = gate_send(&tree->gate, &(struct gate_message){ .type = GATE_GO });
        if (r < 0)
                return tree_fail(tree, CGTREE_STEP_CHILD, r, "cgtree-reaper is gone: %s", strerror(-r));
        return 0;
}

static void close_socket(cgtree_tree *tree) {
        pthread_mutex_lock(&tree->owner->home.lock);
        kill_set_remove(&tree->owner->kill_set, &tree->kill_slot);
        pthread_mutex_unlock(&tree->owner->home.lock);
        tree_close_fd(tree, &tree->gate.socket);
}

static void lose_reaper(cgtree_tree *tree) {
        close_socket(tree);
        if (tree->reaper_done || tree->outside)
                return;
        tree->outside = true;
        owner_log(tree->owner, LOG_WARNING, "the reaper of tree %s was killed: members are found by their marks",
                tree->record.id);
}

/* One message, while the tree is being born. */
static enum tree_input birth_message(cgtree_tree *tree, const struct gate_message *message, int *fd) {
        switch (message->type) {
        case GATE_READY: return admit_root(tree, message->pid, fd) < 0 ? INPUT_BIRTH_FAILED : INPUT_PLACED;
        case GATE_STARTED: return INPUT_EXECED;
        case GATE_FAILED: tree_fail_child(tree, message->step, message->error); return INPUT_BIRTH_FAILED;
        default: return INPUT_NONE;
        }
}

static enum tree_input group_look_birth(cgtree_tree *tree) {
        struct gate_message message;
        _cleanup_close_ int fd = -1;
        int r = gate_receive(&tree->gate, &message, &fd);
        if (r == -EAGAIN)
                return INPUT_NONE;
        if (r >= 0)
                return birth_message(tree, &message, &fd);
        lose_reaper(tree);
        tree_fail(tree, CGTREE_STEP_CHILD, -ECANCELED, "cgtree-reaper was killed before the command started");
        return INPUT_BIRTH_FAILED;
}

/* ---- life ----------------------------------------------------------------------------------------------------- */

/* Takes in what the reaper has said since. */
static void listen(cgtree_tree *tree) {
        while (tree->gate.socket >= 0) {
                struct gate_message message;
                _cleanup_close_ int fd = -1;
                int r = gate_receive(&tree->gate, &message, &fd);
                if (r == -EAGAIN)
                        return;
                if (r < 0) {
                        lose_reaper(tree);
                        return;
                }
                if (message.type == GATE_ROOT_ENDED) {
                        tree->root_reported = true;
                        tree_set_exit(tree, message.code, message.status);
                } else if (message.type == GATE_ROOT_STOPPED)
                        tree_tell(tree, CGTREE_EVENT_ROOT_STOPPED);
                else if (message.type == GATE_EMPTY)
                        tree->reaper_done = true;
        }
}

static bool group_look_root(cgtree_tree *tree) {
        listen(tree);
        if (tree->root_reported || tree->reaper_done)
                return true;
        /* Never born, or no longer to be heard of: then its status may be lost with the reaper. */
        return tree->outside && tree_reap_root(tree);
}

static void reap_reaper(cgtree_tree *tree) {
        siginfo_t info = { 0 };
        if (tree->gate.pidfd >= 0 && !tree->found)
                (void)waitid(P_PIDFD, (id_t)tree->gate.pidfd, &info, WEXITED | WNOHANG);
}

/* Only reached when the reaper does not do it: members by their marks, again and again at growing intervals. */
static int look_from_outside(cgtree_tree *tree) {
        /* Where there are no pidfds (valgrind, filters) a zombie of ours would be taken for a reaper that lives. */
        reap_reaper(tree);
        /* Without a record nobody was let through the gate, and who waits there exits with the reaper. */
        if (!tree->recorded || group_is_empty(&tree->record) == 1)
                return 1;
        if (tree->state == TREE_KILLING)
                (void)group_signal(&tree->record, SIGKILL);
        tree->look_interval = tree->look_interval == 0 ? OUTSIDE_LOOK_MIN_USEC : tree->look_interval * 3 / 2;
        if (tree->look_interval > OUTSIDE_LOOK_MAX_USEC)
                tree->look_interval = OUTSIDE_LOOK_MAX_USEC;
        tree_wake_at(tree, now_usec() + tree->look_interval);
        return 0;
}

static int group_look_empty(cgtree_tree *tree) {
        listen(tree);
        if (tree->outside)
                return look_from_outside(tree);
        /* It exits right after it said so: wait for that, lest a zombie of ours stays. */
        if (tree->reaper_done && tree->gate.pidfd >= 0 && pidfd_is_dead(tree->gate.pidfd) == 0)
                return 0;
        if (tree->gate.pidfd >= 0 && !tree->reaper_done)
                return 0;
        return 1;
}

static void to_reaper(cgtree_tree *tree, struct gate_message message) {
        /* A member may have stopped it. */
        (void)process_signal(&(struct process){ .pidfd = tree->gate.pidfd }, SIGCONT);
        /* One that has gone needs no word any more: what it said last is still to be heard. One that does not read its
         * messages is gone around. */
        if (gate_send(&tree->gate, &message) == -EAGAIN)
                lose_reaper(tree);
}

static int group_signal_all(cgtree_tree *tree, int signal) {
        if (!tree->outside)
                to_reaper(tree, (struct gate_message){ .type = GATE_SIGNAL, .status = signal });
        if (!tree->outside)
                return 0;
        int r = group_signal(&tree->record, signal);
        return r < 0 ? r : 0;
}

static void group_begin_terminate(cgtree_tree *tree, int signal) {
        pid_t root = tree->root_only && !tree->root_ended ? tree->root_pid : 0;
        tree->look_interval = 0;
        if (tree->lock_fd < 0 && record_lock(tree->owner->records_fd, tree->record.id, &tree->lock_fd) == -EWOULDBLOCK)
                return; /* somebody else has begun it: the grace runs all the same */
        if (!tree->outside)
                to_reaper(tree, (struct gate_message){ .type = GATE_SIGNAL, .status = signal, .pid = root, .code = 1 });
        if (!tree->outside && tree->hangup)
                to_reaper(tree, (struct gate_message){ .type = GATE_SIGNAL, .status = SIGHUP, .pid = root });
        if (tree->outside) {
                (void)group_signal(&tree->record, signal);
                (void)group_signal(&tree->record, SIGCONT);
        }
}

static void group_begin_kill(cgtree_tree *tree) {
        tree->look_interval = 0;
        if (!tree->outside && tree->gate.socket >= 0)
                to_reaper(tree, (struct gate_message){ .type = GATE_KILL });
        if (tree->outside && tree->recorded)
                (void)group_signal(&tree->record, SIGKILL);
}

static int group_list_members(cgtree_tree *tree, pid_t **ret_pids, size_t *ret_n) {
        return group_members(&tree->record, ret_pids, ret_n, NULL);
}

static char *group_name_survivors(cgtree_tree *tree) {
        return group_survivors(&tree->record);
}

static int group_remove(cgtree_tree *tree) {
        reap_reaper(tree);
        return 0;
}

static void group_done(cgtree_tree *tree) {
        reap_reaper(tree);
        close_fd(&tree->lock_fd);
        close_socket(tree);
        tree_close_fd(tree, &tree->gate.pidfd);
}

const struct placement placement_group = {
        .kind = CGTREE_PLACEMENT_GROUP,
        .guarantee = CGTREE_GUARANTEE_GROUP,
        .begin_birth = group_begin_birth,
        .look_birth = group_look_birth,
        .look_root = group_look_root,
        .look_empty = group_look_empty,
        .begin_terminate = group_begin_terminate,
        .begin_kill = group_begin_kill,
        .signal_all = group_signal_all,
        .members = group_list_members,
        .survivors = group_name_survivors,
        .remove = group_remove,
        .done = group_done,
};
