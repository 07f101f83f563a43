/* SPDX-License-Identifier: MIT */
#pragma once

/* An owner's place in the cgroup hierarchy: BASE/cgtree-PID-RANDOM with the directory of its trees, and the guard that watches over it. No
 * tree is born into it before the guard has said that it is there.
 *
 * In a scope of the owner's own, BASE is that scope, and the guard its first member: so the guard is started first, and given the
 * directory later. Trees that have cgroups elsewhere need the guard alone, which is given each. */

#include <pthread.h>

#include "cgroup.h"
#include "guard.h"
#include "kill-set.h"

/* A tree's own cgroup that lies elsewhere, as long as it is the guard's to watch. */
struct home_member {
        struct home_member *previous, *next;
        bool given;
        const char *id;
        const struct cgroup *cgroup;
        unsigned number; /* of its acknowledgement */
};

struct home {
        pthread_mutex_t lock; /* births and ends of several threads */
        struct cgroup base, directory, trees;
        char *stamp;
        struct guard guard;
        bool guard_was_lost; /* before it was there */
        struct guard_options guard_options;
        struct kill_set *kill_set;
        char *scope; /* name of the unit that BASE is, made for us; NULL: none */
        bool guard_enters;
        struct home_member *members;
        int kill_fd; /* cgroup.kill of trees; -1: this kernel has none */
        struct kill_slot *kill_slot, *guard_slot;

        /* limits: home-limits.c */
        unsigned limits;    /* that its trees can be given; bits of 1 << enum cgtree_limit */
        bool may_move_self; /* out of the base, whose children could not be limited otherwise */
        unsigned enabled;   /* in the base, by us */
        struct cgroup leaf; /* where we went */
        char *problem;      /* why the limits are not to be had */
};

void home_init(struct home *home, struct kill_set *kill_set);
/* Below home->base, which is open: makes the directories and starts the guard, without waiting for it. */
int home_make(struct home *home);
/* The guard alone. */
int home_start_guard(struct home *home);
/* With the guard in it already: below home->base, which is the scope `unit`. */
int home_make_in_scope(struct home *home, const char *unit);
/* 1: births may begin. 0: the guard has not said so yet (home->guard.socket tells). A dead guard is started anew; < 0: that
 * failed. */
int home_look(struct home *home);
/* Gives the guard a tree's cgroup; home_holds(): it has acknowledged. < 0: it is dead. */
int home_give(struct home *home, struct home_member *member);
int home_holds(struct home *home, struct home_member *member);
void home_take_back(struct home *home, struct home_member *member);
/* Makes a tree's directory; the home is made anew if somebody removed it: *ret_renewed. */
int home_create_tree(struct home *home, const char *id, struct cgroup *ret_cgroup, bool *ret_renewed);
/* rmdir, see cgroup_remove(). */
int home_remove_tree(struct home *home, const char *id, uint64_t retry_usec);
/* Nothing is left in it: the guard goes, the directories too. */
void home_leave(struct home *home);
/* It turned out not to be had: the guard is killed, lest it be found by whoever was asked for a place for it. */
void home_give_up(struct home *home);
/* Something is left in it, and is the guard's from now on: it takes us for dead. Also the end of a forked child's copy. */
void home_abandon(struct home *home);
void home_done(struct home *home);

/* Between the making of the directories and the start of the guard: what home->limits need. On failure home->problem is a
 * sentence. */
int home_take_limits(struct home *home);
/* Before the directories are removed: the base is left as it was found, and so are we. */
void home_give_back_limits(struct home *home);
