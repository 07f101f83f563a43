/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <syslog.h>
#include <unistd.h>

#include "command.h"
#include "group.h"
#include "owner.h"

#define BEGIN_BOUND_USEC (2 * USEC_PER_MSEC)

/* Target 0 is read by the command, all others are written by it. */
static int make_pipe(cgtree_tree *tree, struct child_fd *fd) {
        int ends[2];
        if (pipe2(ends, O_CLOEXEC) < 0)
                return -errno;
        struct tree_pipe *pipe = &tree->pipes[tree->n_pipes++];
        bool command_reads = fd->target == 0;
        *pipe = (struct tree_pipe){
                .target = fd->target,
                .our_fd = ends[command_reads ? 1 : 0],
                .child_fd = ends[command_reads ? 0 : 1],
        };
        fd->source = pipe->child_fd;
        return fcntl(pipe->our_fd, F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;
}

static int make_pipes(cgtree_tree *tree) {
        struct child_plan *plan = tree->plan;
        tree->pipes = calloc(plan->n_fds + 1, sizeof(*tree->pipes));
        if (!tree->pipes)
                return -ENOMEM;
        for (size_t i = 0; i < plan->n_fds; i++) {
                int r = plan->fds[i].source == CGTREE_FD_PIPE ? make_pipe(tree, &plan->fds[i]) : 0;
                if (r < 0)
                        return r;
        }
        return 0;
}

static int copy_string(char **to, const char *from) {
        if (!from)
                return 0;
        *to = strdup(from);
        return *to ? 0 : -ENOMEM;
}

static int fill_record(cgtree_tree *tree, const cgtree_command *command) {
        const cgtree_owner *owner = tree->owner;
        struct record *record = &tree->record;
        *record = owner->origin;
        record->owner_comm = NULL;
        record->grace_usec = tree->grace_usec;
        record->owner_death_grace_usec = owner->death_grace_usec;
        record->created_usec = now_realtime_usec();
        int r = id_random(record->id);
        if (r >= 0)
                r = copy_string(&record->owner_comm, owner->origin.owner_comm);
        if (r >= 0)
                r = copy_string(&record->name, command->name);
        if (r >= 0)
                r = copy_string(&record->command, command_short_name(command));
        return r;
}

static void take_options(cgtree_tree *tree, const cgtree_command *command) {
        tree->end_signal = command->end_signal;
        tree->root_only = command->root_only;
        tree->end_with_root = command->end_with_root;
        tree->limits = command->limits;
        tree->hangup = command->session == CGTREE_SESSION_TTY;
        tree->timeout_usec = command->timeout_usec;
        tree->grace_usec = command->grace_usec == CGTREE_DEFAULT ? tree->owner->grace_usec : command->grace_usec;
        tree->birth_deadline = now_usec() + TREE_BIRTH_BOUND_USEC;
}

static int make_plan(cgtree_tree *tree, const cgtree_command *command) {
        int r = command_plan(command, &tree->plan);
        return r < 0 ? r : make_pipes(tree);
}

static int mark_environment(cgtree_tree *tree) {
        struct record *record = &tree->record;
        free(record->group.lineage);
        record->group.lineage = group_lineage(record->id);
        _cleanup_free_ char *mark = record->group.lineage ? format("CGTREE_ID=%s", record->group.lineage) : NULL;
        return mark ? command_put_environment(&tree->plan->envp, mark) : -ENOMEM;
}

int tree_take_placement(cgtree_tree *tree) {
        tree->placement = tree->owner->placement;
        tree->record.placement = tree->placement->kind;
        return tree->placement == &placement_group ? mark_environment(tree) : 0;
}

static int new_tree(cgtree_owner *owner, const cgtree_command *command, cgtree_tree **ret_tree) {
        cgtree_tree *tree = tree_allocate(owner);
        if (!tree)
                return -ENOMEM;
        tree->placement = owner->placement ? owner->placement : &placement_subtree; /* until it is taken up */
        take_options(tree, command);
        int r = fill_record(tree, command);
        if (r >= 0)
                r = make_plan(tree, command);
        if (r < 0) {
                tree_release(tree);
                return r;
        }
        *ret_tree = tree;
        return 0;
}

static int check_limits(const cgtree_owner *owner, cgtree_command *command) {
        unsigned beyond = limits_mask(&command->limits) & ~owner->limits;
        if (beyond == 0)
                return 0;
        _cleanup_free_ char *name = limits_name(beyond);
        _cleanup_free_ char *message = format("the owner was not opened for a limit of %s", name ? name : "this kind");
        command_set_error(command, CGTREE_STEP_PLACE, message);
        return -EOPNOTSUPP;
}

/* With the tree taken for us. */
static int admit(cgtree_owner *owner, cgtree_command *command, cgtree_tree **ret_tree) {
        pthread_mutex_lock(&owner->lock);
        cgtree_tree *tree = NULL;
        int r = !owner->open ? -ENOTCONN : owner->closed || owner->teardown || owner->teardown_asked ? -ESHUTDOWN : 0;
        if (r >= 0)
                r = check_limits(owner, command);
        if (r >= 0)
                r = owner_look_again(owner);
        if (r >= 0)
                r = new_tree(owner, command, &tree);
        if (r >= 0)
                r = owner_add(owner, tree);
        if (r < 0)
                tree_release(tree);
        else
                *ret_tree = tree;
        pthread_mutex_unlock(&owner->lock);
        return r;
}

static bool is_born(const cgtree_tree *tree) {
        return tree->state != TREE_OPENING && tree->state != TREE_STARTING && (tree->error == 0 || tree_is_over(tree));
}

/* Keeps what went wrong; what is left of the tree, if anything, stays owned without a handle. */
static int give_up(cgtree_command *command, cgtree_tree *tree) {
        int r = tree->error;
        command_set_error(command, tree->error_step, tree->error_message);
        tree->handle_freed = true;
        owner_leave(tree);
        return r;
}

/* AUTO goes on with the next placement when this one has no place for a tree, and keeps to it. */
static bool falls_back(cgtree_owner *owner, const cgtree_tree *tree) {
        return tree->error_step == CGTREE_STEP_PLACE && tree->placement == &placement_subtree &&
               owner_fall_back(owner, CGTREE_PLACEMENT_SUBTREE, tree->error_message);
}

static int spawn_once(
        cgtree_owner *owner, cgtree_command *command, bool wait, bool *ret_again, cgtree_tree **ret_tree) {
        cgtree_tree *tree;
        int r = admit(owner, command, &tree);
        if (r < 0)
                return r;
        r = owner_wait(tree, is_born, wait ? TREE_BIRTH_BOUND_USEC + TREE_KILL_BOUND_USEC : BEGIN_BOUND_USEC);
        if (r < 0 && tree->error == 0 && !wait)
                r = 0; /* it is on its way */
        if (tree->error < 0) {
                *ret_again = falls_back(owner, tree);
                return give_up(command, tree);
        }
        if (r >= 0 && wait)
                tree->news &= ~(unsigned)CGTREE_EVENT_STARTED;
        *ret_tree = tree;
        return r;
}

static int spawn(cgtree_owner *owner, cgtree_command *command, bool wait, cgtree_tree **ret_tree) {
        if (!owner || !command)
                return -EINVAL;
        int r = owner_check(owner);
        if (r < 0)
                return r;
        command_set_error(command, CGTREE_STEP_NONE, NULL);

        cgtree_tree *tree;
        bool again = false;
        r = spawn_once(owner, command, wait, &again, &tree);
        if (r < 0 && again)
                r = spawn_once(owner, command, wait, &again, &tree);
        if (r < 0) {
                if (!command->error_message)
                        command_set_error(command, CGTREE_STEP_CHILD, strerror(-r));
                return r;
        }
        if (ret_tree)
                *ret_tree = tree;
        else
                tree->handle_freed = true;
        owner_leave(tree);
        return 0;
}

int cgtree_spawn(cgtree_owner *owner, cgtree_command *command, cgtree_tree **ret_tree) {
        return spawn(owner, command, true, ret_tree);
}

int cgtree_begin_spawn(cgtree_owner *owner, cgtree_command *command, cgtree_tree **ret_tree) {
        return spawn(owner, command, false, ret_tree);
}

int cgtree_run(cgtree_owner *owner, cgtree_command *command, int *ret_code, int *ret_status) {
        cgtree_tree *tree;
        int r = cgtree_spawn(owner, command, &tree);
        if (r < 0)
                return r;
        r = cgtree_tree_wait_root(tree, CGTREE_FOREVER);
        if (r >= 0)
                r = cgtree_tree_terminate(tree, CGTREE_DEFAULT, CGTREE_FOREVER);
        if (r >= 0)
                r = cgtree_tree_get_exit(tree, ret_code, ret_status);
        cgtree_tree_free(tree);
        return r;
}
