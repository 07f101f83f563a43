/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#include "owner.h"

#define READY_LOOK_USEC     UINT64_C(300)
#define READY_LOOK_MAX_USEC (5 * USEC_PER_MSEC)

/* A tree's life. One row for each state and input: where it goes, and what is done on the way. What is not in the
 * table has no meaning in that state, and changes nothing. */

/* ---- actions -------------------------------------------------------------------------------------------------- */

static void close_child_ends(cgtree_tree *tree) {
        for (size_t i = 0; i < tree->n_pipes; i++)
                close_fd(&tree->pipes[i].child_fd);
        tree->plan = child_plan_free(tree->plan);
}

static void begin_kill(cgtree_tree *tree) {
        tree->bound_until = usec_add(now_usec(), TREE_KILL_BOUND_USEC);
        __atomic_store_n(&tree->bound_told, false, __ATOMIC_RELAXED);
        tree->placement->begin_kill(tree);
}

static void start(cgtree_tree *tree) {
        close_child_ends(tree);
        if (tree->timeout_usec > 0)
                tree->timeout_at = usec_add(now_usec(), tree->timeout_usec);
        tree_tell(tree, CGTREE_EVENT_STARTED);
}

/* The child may be anywhere between its birth and the exec, or not exist. */
static void give_up_birth(cgtree_tree *tree) {
        close_child_ends(tree);
        if (tree->root_pidfd < 0 && tree->gate.pidfd < 0)
                tree->root_ended = true;
        begin_kill(tree);
}

static void cancel_birth(cgtree_tree *tree) {
        tree_fail(tree, CGTREE_STEP_CHILD, -ECANCELED, "cancelled before the command started");
        give_up_birth(tree);
}

static void note_root_end(cgtree_tree *tree) {
        tree->root_ended = true;
        tree->root_pid = 0;
        tree_close_fd(tree, &tree->root_pidfd);
        if (tree->error < 0)
                return;
        if (tree->cause == CGTREE_CAUSE_NONE)
                tree->cause = tree_is_out_of_memory(tree) ? CGTREE_CAUSE_OOM : CGTREE_CAUSE_ENDED;
        tree_tell(tree, CGTREE_EVENT_ROOT_ENDED);
}

static void begin_terminate(cgtree_tree *tree) {
        tree->grace_until = usec_add(now_usec(), tree->grace_usec);
        tree->placement->begin_terminate(tree, tree->begin_signal);
}

static void time_out(cgtree_tree *tree) {
        tree->cause = CGTREE_CAUSE_TIMEOUT;
        tree->begin_signal = tree->end_signal;
        begin_terminate(tree);
}

/* A second terminate may bring the end nearer, never put it off. */
static void shorten_grace(cgtree_tree *tree) {
        uint64_t until = usec_add(now_usec(), tree->grace_usec);
        if (until < tree->grace_until)
                tree->grace_until = until;
}

static void name_survivors(cgtree_tree *tree) {
        __atomic_store_n(&tree->bound_told, true, __ATOMIC_RELAXED);
        free(tree->survivors);
        tree->survivors = tree->placement->survivors(tree);
        owner_log(tree->owner, LOG_ERR, "tree %s lives on after SIGKILL: %s", tree->record.id,
                tree->survivors ? tree->survivors : "members cannot be seen from here");
        tree_tell(tree, CGTREE_EVENT_SURVIVORS);
}

static void unlink_record(cgtree_tree *tree) {
        if (!tree->recorded)
                return;
        int r = record_unlink(tree->owner->records_fd, tree->record.id, tree->record.name);
        if (r < 0)
                owner_log(tree->owner, LOG_WARNING, "record %s.json cannot be removed: %s", tree->record.id,
                        strerror(-r));
        tree->recorded = false;
}

/* The record of our own tree goes before its place: if we are killed in between, the guard finds the place, not the
 * record. Who ends another's tree is found again by the record alone. */
static void see_empty(cgtree_tree *tree) {
        if (!tree->found)
                unlink_record(tree);
        /* The root may have ended before, or somewhere else. */
        if (tree->cause == CGTREE_CAUSE_ENDED && tree_is_out_of_memory(tree))
                tree->cause = CGTREE_CAUSE_OOM;
        tree->bound_until = 0;
        free(tree->survivors);
        tree->survivors = NULL;
        tree->birth = birth_free(tree->birth);
        close_child_ends(tree);
}

static void unbook(cgtree_tree *tree) {
        unlink_record(tree);
        tree->placement->done(tree);
}

static void settle(cgtree_tree *tree) {
        unbook(tree);
        tree_tell(tree, CGTREE_EVENT_EMPTY);
}

static void fail(cgtree_tree *tree) {
        unbook(tree);
        tree_tell(tree, CGTREE_EVENT_FAILED);
}

/* ---- the table ------------------------------------------------------------------------------------------------ */

struct transition {
        enum tree_state next;
        void (*action)(cgtree_tree *tree);
        bool valid;
};

#define TO(next_state, action_fn)                                                                                      \
        { .next = (next_state), .action = (action_fn), .valid = true }

/* clang-format off */
static const struct transition transitions[_TREE_STATE_MAX][_INPUT_MAX] = {
        [TREE_OPENING] = {
                [INPUT_PLACED]       = TO(TREE_STARTING,    NULL),
                [INPUT_BIRTH_FAILED] = TO(TREE_KILLING,     give_up_birth),
                [INPUT_TERMINATE]    = TO(TREE_KILLING,     cancel_birth),
                [INPUT_KILL]         = TO(TREE_KILLING,     cancel_birth),
        },
        [TREE_STARTING] = {
                [INPUT_EXECED]       = TO(TREE_RUNNING,     start),
                [INPUT_BIRTH_FAILED] = TO(TREE_KILLING,     give_up_birth),
                [INPUT_TERMINATE]    = TO(TREE_KILLING,     cancel_birth),
                [INPUT_KILL]         = TO(TREE_KILLING,     cancel_birth),
        },
        [TREE_RUNNING] = {
                [INPUT_ROOT_ENDED]   = TO(TREE_ROOT_ENDED,  note_root_end),
                [INPUT_TERMINATE]    = TO(TREE_TERMINATING, begin_terminate),
                [INPUT_TIMEOUT]      = TO(TREE_TERMINATING, time_out),
                [INPUT_KILL]         = TO(TREE_KILLING,     begin_kill),
        },
        [TREE_ROOT_ENDED] = {
                [INPUT_EMPTY]        = TO(TREE_EMPTY,       see_empty),
                [INPUT_TERMINATE]    = TO(TREE_TERMINATING, begin_terminate),
                [INPUT_TIMEOUT]      = TO(TREE_TERMINATING, time_out),
                [INPUT_KILL]         = TO(TREE_KILLING,     begin_kill),
        },
        [TREE_TERMINATING] = {
                [INPUT_ROOT_ENDED]   = TO(TREE_TERMINATING, note_root_end),
                [INPUT_EMPTY]        = TO(TREE_EMPTY,       see_empty),
                [INPUT_TERMINATE]    = TO(TREE_TERMINATING, shorten_grace),
                [INPUT_GRACE_OVER]   = TO(TREE_KILLING,     begin_kill),
                [INPUT_KILL]         = TO(TREE_KILLING,     begin_kill),
        },
        [TREE_KILLING] = {
                [INPUT_ROOT_ENDED]   = TO(TREE_KILLING,     note_root_end),
                [INPUT_EMPTY]        = TO(TREE_EMPTY,       see_empty),
                [INPUT_BOUND_OVER]   = TO(TREE_KILLING,     name_survivors),
                [INPUT_KILL]         = TO(TREE_KILLING,     begin_kill),
        },
        [TREE_EMPTY] = {
                [INPUT_REMOVED]      = TO(TREE_SETTLED,     settle),
                [INPUT_BIRTH_FAILED] = TO(TREE_FAILED,      fail),
        },
};
/* clang-format on */

void tree_apply(cgtree_tree *tree, enum tree_input input) {
        const struct transition *transition = &transitions[tree->state][input];
        if (!transition->valid)
                return;
        tree->state = transition->next;
        if (transition->action)
                transition->action(tree);
}

/* ---- looking around ------------------------------------------------------------------------------------------- */

/* The guard takes a moment, a manager of systemd's several, and longer where it is slow. */
static void await_owner(cgtree_tree *tree) {
        tree->look_interval = tree->look_interval == 0 ? READY_LOOK_USEC : tree->look_interval * 5 / 4;
        if (tree->look_interval > READY_LOOK_MAX_USEC)
                tree->look_interval = READY_LOOK_MAX_USEC;
        tree_wake_at(tree, now_usec() + tree->look_interval);
}

/* Once the owner is ready, which it mostly is at once. -EAGAIN: it has to become ready once more. */
static enum tree_input begin_birth(cgtree_tree *tree) {
        int r = owner_is_ready(tree->owner);
        if (r > 0) {
                tree->look_interval = 0;
                tree->n_kills_before = __atomic_load_n(&tree->owner->n_kills, __ATOMIC_SEQ_CST);
                r = tree_take_placement(tree);
                if (r < 0)
                        tree_fail(tree, CGTREE_STEP_CHILD, r, "out of memory");
                else
                        r = tree->placement->begin_birth(tree);
                tree->begun = r != -EAGAIN || tree->error < 0;
        } else if (r < 0) {
                tree->begun = true;
                tree_fail(tree, CGTREE_STEP_PLACE, r, "no place can be had: %s", cgtree_owner_get_error(tree->owner));
        }
        return tree->begun && r < 0 ? INPUT_BIRTH_FAILED : INPUT_NONE;
}

static enum tree_input look_at_birth(cgtree_tree *tree) {
        enum tree_input input = tree->begun ? INPUT_NONE : begin_birth(tree);
        if (input == INPUT_NONE && tree->begun)
                input = tree->placement->look_birth(tree);
        if (input == INPUT_NONE && !tree->begun)
                await_owner(tree);
        if (input != INPUT_NONE)
                return input;
        if (now_usec() < tree->birth_deadline) {
                tree_wake_at(tree, tree->birth_deadline);
                return INPUT_NONE;
        }
        tree_fail(tree, CGTREE_STEP_CHILD, -ETIMEDOUT,
                "the command did not start within 10 s (a frozen cgroup, or a filesystem that does not answer)");
        return INPUT_BIRTH_FAILED;
}

/* An input is given once its time has come; until then it is a reason to wake up. */
static bool is_due(cgtree_tree *tree, uint64_t when) {
        if (when == USEC_FOREVER)
                return false;
        if (now_usec() >= when)
                return true;
        tree_wake_at(tree, when);
        return false;
}

static enum tree_input look_at_life(cgtree_tree *tree) {
        if (!tree->root_ended && tree->placement->look_root(tree))
                return INPUT_ROOT_ENDED;
        if (tree->state != TREE_RUNNING && tree->placement->look_empty(tree) == 1 && tree->root_ended &&
                !tree_is_watched_only(tree))
                return INPUT_EMPTY;

        if (tree->state == TREE_RUNNING || tree->state == TREE_ROOT_ENDED) {
                if (is_due(tree, tree->timeout_at))
                        return INPUT_TIMEOUT;
                bool ends = tree->state == TREE_ROOT_ENDED
                                    ? tree->end_with_root
                                    : tree->placement->is_taken && tree->placement->is_taken(tree);
                if (!ends)
                        return INPUT_NONE;
                tree->begin_signal = tree->end_signal;
                return INPUT_TERMINATE;
        }
        if (tree->state == TREE_TERMINATING)
                return is_due(tree, tree->grace_until) ? INPUT_GRACE_OVER : INPUT_NONE;
        return !tree->bound_told && is_due(tree, tree->bound_until) ? INPUT_BOUND_OVER : INPUT_NONE;
}

static enum tree_input look(cgtree_tree *tree) {
        if (tree->state <= TREE_STARTING)
                return look_at_birth(tree);
        if (tree->state < TREE_EMPTY)
                return look_at_life(tree);
        if (tree->state > TREE_EMPTY || tree->placement->remove(tree) == -EAGAIN)
                return INPUT_NONE;
        return tree->error < 0 ? INPUT_BIRTH_FAILED : INPUT_REMOVED;
}

void tree_step(cgtree_tree *tree) {
        for (;;) {
                tree->wakeup = USEC_FOREVER;
                enum tree_input input = look(tree);
                if (input == INPUT_NONE)
                        return;
                tree_apply(tree, input);
        }
}
