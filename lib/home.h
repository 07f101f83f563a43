/* SPDX-License-Identifier: MIT */
#pragma once

/* An owner's place in the cgroup hierarchy: BASE/cgtree-PID-RANDOM with the directory of its trees, and the guard that watches over it. No
 * tree is born into it before the guard has said that it is there. */

#include <pthread.h>

#include "cgroup.h"
#include "guard.h"
#include "kill-set.h"

struct home {
        pthread_mutex_t lock; /* births and ends of several threads */
        struct cgroup base, directory, trees;
        char *stamp;
        struct guard guard;
        struct guard_options guard_options;
        struct kill_set *kill_set;
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
/* 1: births may begin. 0: the guard has not said so yet (home->guard.socket tells). A dead guard is started anew; < 0: that
 * failed. */
int home_look(struct home *home);
/* Makes a tree's directory; the home is made anew if somebody removed it: *ret_renewed. */
int home_create_tree(struct home *home, const char *id, struct cgroup *ret_cgroup, bool *ret_renewed);
/* rmdir, see cgroup_remove(). */
int home_remove_tree(struct home *home, const char *id, uint64_t retry_usec);
/* Nothing is left in it: the guard goes, the directories too. */
void home_leave(struct home *home);
/* Something is left in it, and is the guard's from now on: it takes us for dead. Also the end of a forked child's copy. */
void home_abandon(struct home *home);
void home_done(struct home *home);

/* Between the making of the directories and the start of the guard: what home->limits need. On failure home->problem is a
 * sentence. */
int home_take_limits(struct home *home);
/* Before the directories are removed: the base is left as it was found, and so are we. */
void home_give_back_limits(struct home *home);
