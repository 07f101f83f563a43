/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "owner.h"

/* Who may touch a tree: one thread at a time, either in a call on it or in the owner's dispatch. Births and waits
 * thus run without the owner's lock. */

#define BIRTH_WAIT_USEC (20 * USEC_PER_MSEC) /* then see whether a teardown has begun */
#define BUSY_LOOK_USEC  (5 * USEC_PER_MSEC)

int owner_add(cgtree_owner *owner, cgtree_tree *tree) {
        int r = deadlines_reserve(&owner->deadlines, owner->n_trees + 1);
        if (r < 0)
                return r;
        tree->busy = true;
        tree->next = owner->trees;
        if (owner->trees)
                owner->trees->previous = tree;
        owner->trees = tree;
        owner->n_trees++;
        owner->n_living++;
        return 0;
}

static void remove_tree(cgtree_owner *owner, cgtree_tree *tree) {
        owner_forget_news(owner, tree);
        deadlines_remove(&owner->deadlines, tree);
        if (tree->previous)
                tree->previous->next = tree->next;
        else
                owner->trees = tree->next;
        if (tree->next)
                tree->next->previous = tree->previous;
        owner->n_trees--;
}

bool owner_settle_books(cgtree_owner *owner, cgtree_tree *tree) {
        owner_watch(owner, tree);
        if (tree_is_over(tree) && !tree->unbooked) {
                tree->unbooked = true;
                owner->n_living--;
        }
        if (tree->handle_freed && tree_is_over(tree)) {
                remove_tree(owner, tree);
                tree_release(tree);
                return false;
        }
        if (tree->handle_freed)
                tree->news = 0;
        if (tree->news)
                owner_queue_news(owner, tree);
        else
                owner_forget_news(owner, tree);
        return true;
}

int owner_enter(cgtree_tree *tree) {
        cgtree_owner *owner = tree->owner;
        int r = owner_check(owner);
        if (r < 0)
                return r;
        pthread_mutex_lock(&owner->lock);
        if (tree->busy)
                r = -EBUSY;
        else
                tree->busy = true;
        pthread_mutex_unlock(&owner->lock);
        return r;
}

static bool is_teardown(const cgtree_owner *owner) {
        return __atomic_load_n(&owner->teardown, __ATOMIC_ACQUIRE) ||
               __atomic_load_n(&owner->teardown_asked, __ATOMIC_ACQUIRE);
}

/* During a teardown each thread that is in a call on a tree ends its own. */
static void join_teardown(cgtree_tree *tree) {
        if (tree->torn_down || tree_is_over(tree))
                return;
        tree->torn_down = true;
        if (tree->owner->teardown && tree->owner->teardown_grace_usec != CGTREE_DEFAULT)
                tree->grace_usec = tree->owner->teardown_grace_usec;
        if (tree->cause == CGTREE_CAUSE_NONE)
                tree->cause = CGTREE_CAUSE_OWNER;
        tree->begin_signal = tree->end_signal;
        tree_apply(tree, tree->grace_usec == 0 ? INPUT_KILL : INPUT_TERMINATE);
}

void owner_leave(cgtree_tree *tree) {
        cgtree_owner *owner = tree->owner;
        tree_step(tree);
        pthread_mutex_lock(&owner->lock);
        if (is_teardown(owner) && !tree->torn_down) {
                join_teardown(tree);
                tree_step(tree);
        }
        tree->busy = false;
        (void)owner_settle_books(owner, tree);
        pthread_mutex_unlock(&owner->lock);
}

static void wait_for_sources(cgtree_tree *tree, uint64_t until) {
        struct pollfd sources[TREE_SOURCES_MAX + 1];
        size_t n = tree_sources(tree, sources);
        if (!tree->torn_down)
                sources[n++] = (struct pollfd){ .fd = tree->owner->alarm_fd, .events = POLLIN };
        uint64_t now = now_usec(), wait = until > now ? until - now : 0;
        struct timespec timeout = {
                .tv_sec = (time_t)(wait / USEC_PER_SEC),
                .tv_nsec = (long)(wait % USEC_PER_SEC * 1000),
        };
        (void)ppoll(sources, n, until == USEC_FOREVER ? NULL : &timeout, NULL);
}

static void wait_for_birth(cgtree_tree *tree, uint64_t until) {
        uint64_t now = now_usec(), wait = until > now ? until - now : 0;
        (void)birth_wait(tree->birth, tree->root_pidfd, wait < BIRTH_WAIT_USEC ? wait : BIRTH_WAIT_USEC);
}

int owner_wait(cgtree_tree *tree, bool (*done)(const cgtree_tree *tree), uint64_t timeout_usec) {
        uint64_t deadline = usec_add(now_usec(), timeout_usec);
        for (;;) {
                tree_step(tree);
                if (done(tree))
                        return 0;
                if (is_teardown(tree->owner) && !tree->torn_down) {
                        join_teardown(tree);
                        continue;
                }
                if (now_usec() >= deadline)
                        return -ETIMEDOUT;
                if (tree->state == TREE_STARTING && tree->birth)
                        wait_for_birth(tree, deadline);
                else
                        wait_for_sources(tree, deadline < tree->wakeup ? deadline : tree->wakeup);
        }
}

void cgtree_tree_free(cgtree_tree *tree) {
        if (!tree)
                return;
        cgtree_owner *owner = tree->owner;
        if (tree->found) {
                cgtree_owner_free(owner);
                return;
        }
        if (owner_check(owner) < 0)
                return; /* its memory goes with the owner */
        pthread_mutex_lock(&owner->lock);
        tree->handle_freed = true;
        if (!tree->busy)
                (void)owner_settle_books(owner, tree);
        pthread_mutex_unlock(&owner->lock);
}

/* ---- teardown ------------------------------------------------------------------------------------------------- */

/* Gives every tree that no thread has taken its end. Returns how many are left to their threads. */
static size_t tear_down_free_trees(cgtree_owner *owner) {
        size_t n_busy = 0;
        for (cgtree_tree *tree = owner->trees, *next; tree; tree = next) {
                next = tree->next;
                if (tree->unbooked)
                        continue;
                if (tree->busy) {
                        n_busy++; /* nothing tells us when it is done */
                        continue;
                }
                if (tree->torn_down)
                        continue;
                join_teardown(tree);
                tree_step(tree);
                (void)owner_settle_books(owner, tree);
        }
        return n_busy;
}

static void kill_free_trees(cgtree_owner *owner) {
        for (cgtree_tree *tree = owner->trees, *next; tree; tree = next) {
                next = tree->next;
                if (tree->busy || tree->unbooked)
                        continue;
                tree_apply(tree, INPUT_KILL);
                tree_step(tree);
                (void)owner_settle_books(owner, tree);
        }
}

/* A tree whose bound is over is not waited for any longer: the kernel does not let go of its members. By the books, not
 * by its state, which is its thread's while it is busy: that may have seen the end, and not have written it down yet. */
static bool is_anything_ending(const cgtree_owner *owner) {
        for (const cgtree_tree *tree = owner->trees; tree; tree = tree->next)
                if (!tree->unbooked && !__atomic_load_n(&tree->bound_told, __ATOMIC_RELAXED))
                        return true;
        return false;
}

static void end_teardown(cgtree_owner *owner) {
        __atomic_store_n(&owner->teardown, false, __ATOMIC_RELEASE);
        eventfd_t count;
        (void)eventfd_read(owner->alarm_fd, &count);
        for (cgtree_tree *tree = owner->trees; tree; tree = tree->next)
                tree->torn_down = false;
}

int owner_tear_down(cgtree_owner *owner, uint64_t grace_usec, uint64_t timeout_usec) {
        uint64_t deadline = usec_add(now_usec(), timeout_usec);
        pthread_mutex_lock(&owner->lock);
        int r = !owner->open ? -ENOTCONN : owner->n_living > 0 ? owner_loop_enable(owner) : 0;
        if (r < 0 || owner->n_living == 0) {
                pthread_mutex_unlock(&owner->lock);
                return r;
        }
        owner->teardown_grace_usec = grace_usec;
        __atomic_store_n(&owner->teardown, true, __ATOMIC_RELEASE);
        (void)eventfd_write(owner->alarm_fd, 1);
        owner_mute_news(owner, true);

        for (;;) {
                size_t n_busy = tear_down_free_trees(owner);
                owner_run_due(owner);
                uint64_t now = now_usec();
                if (!is_anything_ending(owner) || now >= deadline)
                        break;
                uint64_t first =
                        deadlines_first(&owner->deadlines) ? deadlines_first(&owner->deadlines)->wakeup : USEC_FOREVER;
                uint64_t until = first < deadline ? first : deadline;
                if (n_busy > 0 && now + BUSY_LOOK_USEC < until)
                        until = now + BUSY_LOOK_USEC;
                pthread_mutex_unlock(&owner->lock);
                owner_poll(owner, until);
                pthread_mutex_lock(&owner->lock);
        }
        if (owner->n_living > 0) {
                kill_free_trees(owner);
                r = owner->n_living > 0 ? -ETIMEDOUT : 0;
        }
        owner_mute_news(owner, false);
        end_teardown(owner);
        pthread_mutex_unlock(&owner->lock);
        return r;
}
