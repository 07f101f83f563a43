/* SPDX-License-Identifier: MIT */
#include "tree.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bus.h"
#include "owner.h"

cgtree_tree *tree_allocate(cgtree_owner *owner) {
        cgtree_tree *tree = calloc(1, sizeof(*tree));
        if (!tree)
                return NULL;
        tree->owner = owner;
        tree->gate = (struct gate)GATE_NONE;
        tree->cgroup = (struct cgroup)CGROUP_NONE;
        tree->root_pidfd = tree->events_fd = tree->poll_fd = tree->lock_fd = -1;
        tree->wakeup = tree->timeout_at = USEC_FOREVER;
        return tree;
}

void tree_release(cgtree_tree *tree) {
        if (!tree)
                return;
        /* A forked child lets go of its copies alone: locks and freezes are shared with the owner. */
        if (tree->placement && owner_check(tree->owner) >= 0)
                tree->placement->done(tree);
        cgroup_done(&tree->cgroup);
        close_fd(&tree->events_fd);
        close_fd(&tree->gate.pidfd);
        close_fd(&tree->lock_fd);
        birth_free(tree->birth);
        child_plan_free(tree->plan);
        for (size_t i = 0; i < tree->n_pipes; i++) {
                close_fd(&tree->pipes[i].our_fd);
                close_fd(&tree->pipes[i].child_fd);
        }
        free(tree->pipes);
        close_fd(&tree->gate.socket);
        close_fd(&tree->root_pidfd);
        close_fd(&tree->poll_fd);
        record_done(&tree->record);
        free(tree->error_message);
        free(tree->stray);
        free(tree->survivors);
        free(tree);
}

int tree_fail(cgtree_tree *tree, enum cgtree_step step, int error, const char *template, ...) {
        if (tree->error < 0)
                return error;
        va_list arguments;
        va_start(arguments, template);
        if (vasprintf(&tree->error_message, template, arguments) < 0)
                tree->error_message = NULL;
        va_end(arguments);
        tree->error = error;
        tree->error_step = step;
        return error;
}

int tree_fail_child(cgtree_tree *tree, int step, int error) {
        if (step == CHILD_EXEC)
                return tree_fail(tree, CGTREE_STEP_EXEC, -error, "%s", strerror(error));
        if (step == CHILD_JOIN && tree->record.cgroup)
                return tree_fail(tree, CGTREE_STEP_PLACE, -error, "cannot join cgroup %s: %s", tree->record.cgroup,
                        strerror(error));
        if (step == CHILD_JOIN) /* of a group: the reaper cannot fork */
                return tree_fail(tree, CGTREE_STEP_CHILD, -error, "cannot start the child: %s", strerror(error));
        return tree_fail(tree, CGTREE_STEP_CHILD, -error, "cannot %s: %s", child_step_to_string(step), strerror(error));
}

void tree_tell(cgtree_tree *tree, unsigned events) {
        tree->news |= events;
}

void tree_set_exit(cgtree_tree *tree, int code, int status) {
        tree->exit_known = true;
        tree->exit_code = code;
        tree->exit_status = status;
}

int tree_write_record(cgtree_tree *tree) {
        int r = record_write(tree->owner->records_fd, &tree->record);
        if (r == -EEXIST && tree->record.name)
                return tree_fail(
                        tree, CGTREE_STEP_RECORD, r, "the name '%s' is taken by another tree", tree->record.name);
        if (r < 0)
                return tree_fail(tree, CGTREE_STEP_RECORD, r, "cannot write a record in %s: %s",
                        tree->owner->records_path, strerror(-r));
        tree->recorded = true;
        return 0;
}

bool tree_record_stands(const cgtree_tree *tree) {
        char file[sizeof(tree->record.id) + sizeof(".json")];
        snprintf(file, sizeof(file), "%s.json", tree->record.id);
        return faccessat(tree->owner->records_fd, file, F_OK, 0) >= 0;
}

bool tree_is_out_of_memory(const cgtree_tree *tree) {
        return tree->owner->limits & 1U << CGTREE_LIMIT_MEMORY && tree->cgroup.fd >= 0 &&
               limits_out_of_memory(&tree->cgroup) == 1;
}

bool tree_reap_root(cgtree_tree *tree) {
        if (tree->root_pidfd < 0)
                return true;
        siginfo_t info = { 0 };
        if (waitid(P_PIDFD, (id_t)tree->root_pidfd, &info, WEXITED | WNOHANG) >= 0) {
                if (info.si_pid == 0)
                        return false;
                tree_set_exit(tree, info.si_code, info.si_status);
                return true;
        }
        /* Not ours to reap any more: our program did, or ignores SIGCHLD. */
        if (pidfd_is_dead(tree->root_pidfd) != 1)
                return false;
        int status;
        if (pidfd_get_exit(tree->root_pidfd, &status) >= 0)
                tree_set_exit(tree,
                        WIFEXITED(status)   ? CLD_EXITED
                        : WCOREDUMP(status) ? CLD_DUMPED
                                            : CLD_KILLED,
                        WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
        return true;
}

void tree_close_fd(cgtree_tree *tree, int *fd) {
        if (*fd < 0)
                return;
        owner_unwatch_fd(tree->owner, tree, *fd);
        close_fd(fd);
}

static void add_source(struct pollfd *sources, size_t *n, int fd, short events) {
        if (fd >= 0)
                sources[(*n)++] = (struct pollfd){ .fd = fd, .events = events };
}

size_t tree_sources(const cgtree_tree *tree, struct pollfd ret_sources[TREE_SOURCES_MAX]) {
        size_t n = 0;
        if (tree_is_over(tree) || tree->state == TREE_EMPTY)
                return 0;
        bool reaper_speaks = tree->gate.socket >= 0 && !tree->reaper_done;
        if (reaper_speaks)
                add_source(ret_sources, &n, tree->gate.socket, POLLIN);
        else
                add_source(ret_sources, &n, tree->gate.pidfd, POLLIN);
        if (!tree->root_ended && (tree->placement->kind != CGTREE_PLACEMENT_GROUP || tree->outside))
                add_source(ret_sources, &n, tree->root_pidfd, POLLIN);
        add_source(ret_sources, &n, tree->events_fd, POLLPRI);
        short events;
        if (tree->bus)
                add_source(ret_sources, &n, bus_fd(tree->bus, &events), POLLIN);
        return n;
}

void tree_wake_at(cgtree_tree *tree, uint64_t when) {
        if (when < tree->wakeup)
                tree->wakeup = when;
}
