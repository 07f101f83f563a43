/* SPDX-License-Identifier: MIT */
#pragma once

/* One owner: its place, its trees, and the one descriptor that says when something is to be done. */

#include <pthread.h>

#include "deadlines.h"
#include "home.h"
#include "tree.h"

struct cgtree_owner {
        pthread_mutex_t lock; /* all below, but what a busy tree holds */
        char *fork_mark;      /* a page that a forked child sees wiped */
        struct exit_hook *exit_hook;

        /* options */
        enum cgtree_placement wanted;
        enum cgtree_guarantee minimum;
        char *base, *records;
        uint64_t grace_usec, death_grace_usec;
        cgtree_log_fn log;
        void *log_userdata;

        bool guard_is_child;
        unsigned limits; /* bits of 1 << enum cgtree_limit */
        bool may_move_self;

        bool open, opened_told, closed;
        char *error;
        char *reasons[CGTREE_PLACEMENT_GROUP + 1];

        /* the choice: owner-choice.c */
        pthread_mutex_t choice_lock;
        const struct placement *placement; /* NULL: not chosen yet */
        struct choice *choice;             /* under way */
        int choice_error;
        int choice_fd; /* readable when the choice can go on; -1: it never had to wait */
        uint64_t chosen_at;
        const char *manager; /* "user" or "system": of home.scope, and of the scopes of trees */
        char *slice;         /* of the latter */

        struct record origin; /* what every record of ours begins with */
        int records_fd;
        char *records_path;

        /* subtree */
        struct home home;
        bool no_clone_into; /* learned: births go through the gate */

        /* trees */
        cgtree_tree *trees; /* all living, and all whose handle is not freed */
        size_t n_trees, n_living;
        cgtree_tree *news_first, *news_last;

        /* waiting: made by the first get_fd() or dispatch() */
        struct deadlines deadlines;
        int poll_fd, timer_fd, ready_fd;
        bool ready;
        uint64_t timer_at;

        /* teardown */
        int alarm_fd; /* readable while a teardown wants threads in blocking calls to end their own trees */
        bool teardown;
        bool teardown_asked; /* cgtree_owner_begin_teardown(): for good */
        unsigned n_kills;    /* cgtree_owner_kill_now(), so far */
        struct kill_set kill_set;
        uint64_t teardown_grace_usec;
};

/* It is about to be freed: exit(3) leaves it alone. Waits for one under way. */
void owner_leave_exit(cgtree_owner *owner);
/* 0, or -ECHILD in a forked child. */
int owner_check(const cgtree_owner *owner);
void owner_log(cgtree_owner *owner, int priority, const char *template, ...) __attribute__((format(printf, 3, 4)));

void owner_set_error(cgtree_owner *owner, const char *template, ...) __attribute__((format(printf, 2, 3)));
/* Undoes an open, with the lock held. */
void owner_fail_open(cgtree_owner *owner);

/* ---- owner-choice.c: which placement. None needs the owner's lock ---------------------------------------------- */

/* Begins, and mostly ends it: then it is made. < 0: there is none, owner->error says why. */
int owner_choose(cgtree_owner *owner);
/* 1: trees may be born. 0: not yet. < 0: there is no place for them. Goes on with a choice under way. */
int owner_is_ready(cgtree_owner *owner);
/* Ends a choice under way as if what it waits for had failed. */
int owner_end_choice(cgtree_owner *owner, const char *reason);
void owner_forget_choice(cgtree_owner *owner);
/* AUTO in a group: a better placement may be there by now. */
int owner_look_again(cgtree_owner *owner);
/* The scope that was the home is gone. */
int owner_choose_again(cgtree_owner *owner);
/* The placement turned out to have no place for a tree: group, from now on. False: it is not to be taken. */
bool owner_fall_back(cgtree_owner *owner, enum cgtree_placement from, const char *reason);
/* Of a record: the unit, if any, and whose it is. */
int owner_name_unit(const cgtree_owner *owner, const char *unit, struct record *record);

/* ---- owner-trees.c: who may touch a tree --------------------------------------------------------------------- */

/* Books a new tree, taken for the calling thread. With the lock held. */
int owner_add(cgtree_owner *owner, cgtree_tree *tree);
/* Takes it: no other thread touches it until owner_leave(). -EBUSY, -ECHILD. */
int owner_enter(cgtree_tree *tree);
/* Steps it, brings the books in line, lets others in. A tree that is over and has no handle is gone afterwards. */
void owner_leave(cgtree_tree *tree);
/* Within enter and leave: steps and waits until done(tree). -ETIMEDOUT. */
int owner_wait(cgtree_tree *tree, bool (*done)(const cgtree_tree *tree), uint64_t timeout_usec);
/* The books after a step, with the lock held; false: the tree is gone. */
bool owner_settle_books(cgtree_owner *owner, cgtree_tree *tree);
/* Ends all trees, see cgtree_owner_terminate_all(). */
int owner_tear_down(cgtree_owner *owner, uint64_t grace_usec, uint64_t timeout_usec);

/* ---- owner-loop.c: the one descriptor. All with the lock held ------------------------------------------------- */

int owner_loop_enable(cgtree_owner *owner);
/* Brings epoll and deadlines in line with what the tree waits for. */
void owner_watch(cgtree_owner *owner, cgtree_tree *tree);
/* An fd of the tree is about to be closed. Needs no lock. */
void owner_unwatch_fd(cgtree_owner *owner, cgtree_tree *tree, int fd);
void owner_queue_news(cgtree_owner *owner, cgtree_tree *tree);
void owner_forget_news(cgtree_owner *owner, cgtree_tree *tree);
/* Lets the descriptor speak of trees alone, for a wait that does not take news. */
void owner_mute_news(cgtree_owner *owner, bool mute);
/* Waits for the descriptor, without the lock. */
void owner_poll(cgtree_owner *owner, uint64_t until);
/* Steps every tree that something happened to, but those that a thread has taken. */
void owner_run_due(cgtree_owner *owner);
