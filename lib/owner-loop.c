/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "owner.h"

/* One descriptor for everything of an owner: an epoll set of what its trees wait for, one timer for all their
 * deadlines, and an eventfd that says that there is news. A tree's own descriptor is the same for one tree. */

#define EVENTS_AT_ONCE 64

static int epoll_add(int poll_fd, int fd, uint32_t events, cgtree_tree *tree) {
        struct epoll_event event = { .events = events, .data.ptr = tree };
        return epoll_ctl(poll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

static void epoll_remove(int poll_fd, int fd) {
        if (poll_fd >= 0)
                (void)epoll_ctl(poll_fd, EPOLL_CTL_DEL, fd, NULL);
}

/* ---- news ----------------------------------------------------------------------------------------------------- */

/* The eventfd is readable as long as there is news. */
static void show_readiness(cgtree_owner *owner) {
        bool ready = owner->news_first || (!owner->opened_told && owner_is_ready(owner) != 0);
        if (owner->ready_fd < 0 || ready == owner->ready)
                return;
        eventfd_t count;
        (void)(ready ? eventfd_write(owner->ready_fd, 1) : eventfd_read(owner->ready_fd, &count));
        owner->ready = ready;
}

static void show_tree_readiness(cgtree_owner *owner, cgtree_tree *tree) {
        bool ready = tree->news != 0;
        if (tree->poll_fd < 0 || ready == tree->poll_ready)
                return;
        if (ready)
                (void)epoll_add(tree->poll_fd, owner->ready_fd, EPOLLIN, tree);
        else
                epoll_remove(tree->poll_fd, owner->ready_fd);
        tree->poll_ready = ready;
}

void owner_queue_news(cgtree_owner *owner, cgtree_tree *tree) {
        show_tree_readiness(owner, tree);
        if (tree->in_news)
                return;
        tree->in_news = true;
        tree->next_news = NULL;
        if (owner->news_last)
                owner->news_last->next_news = tree;
        else
                owner->news_first = tree;
        owner->news_last = tree;
        show_readiness(owner);
}

void owner_forget_news(cgtree_owner *owner, cgtree_tree *tree) {
        if (!tree->in_news)
                return;
        cgtree_tree *before = NULL;
        for (cgtree_tree *t = owner->news_first; t && t != tree; t = t->next_news)
                before = t;
        if (before)
                before->next_news = tree->next_news;
        else
                owner->news_first = tree->next_news;
        if (owner->news_last == tree)
                owner->news_last = before;
        tree->in_news = false;
        show_tree_readiness(owner, tree);
        show_readiness(owner);
}

void owner_mute_news(cgtree_owner *owner, bool mute) {
        if (mute)
                epoll_remove(owner->poll_fd, owner->ready_fd);
        else
                (void)epoll_add(owner->poll_fd, owner->ready_fd, EPOLLIN, NULL);
}

/* ---- sources -------------------------------------------------------------------------------------------------- */

static bool is_watched(const struct pollfd *set, const struct pollfd *source) {
        for (size_t i = 0; i < TREE_SOURCES_MAX; i++)
                if (set[i].events != 0 && set[i].fd == source->fd)
                        return true;
        return false;
}

static uint32_t epoll_events(const struct pollfd *source) {
        return source->events == POLLPRI ? EPOLLPRI : EPOLLIN;
}

static void add_source(cgtree_owner *owner, cgtree_tree *tree, const struct pollfd *source) {
        (void)epoll_add(owner->poll_fd, source->fd, epoll_events(source), tree);
        if (tree->poll_fd >= 0)
                (void)epoll_add(tree->poll_fd, source->fd, epoll_events(source), tree);
}

void owner_unwatch_fd(cgtree_owner *owner, cgtree_tree *tree, int fd) {
        for (size_t i = 0; i < TREE_SOURCES_MAX; i++)
                if (tree->watched[i].events != 0 && tree->watched[i].fd == fd) {
                        epoll_remove(owner->poll_fd, fd);
                        epoll_remove(tree->poll_fd, fd);
                        tree->watched[i].events = 0;
                }
}

static void arm_timer(cgtree_owner *owner) {
        const cgtree_tree *first = deadlines_first(&owner->deadlines);
        uint64_t when = first ? first->wakeup : USEC_FOREVER;
        if (when == owner->timer_at)
                return;
        /* 0 disarms; a time that has passed fires at once. */
        struct itimerspec spec = { 0 };
        if (when != USEC_FOREVER) {
                uint64_t at = when > 0 ? when : 1;
                spec.it_value.tv_sec = (time_t)(at / USEC_PER_SEC);
                spec.it_value.tv_nsec = (long)(at % USEC_PER_SEC * 1000);
        }
        (void)timerfd_settime(owner->timer_fd, TFD_TIMER_ABSTIME, &spec, NULL);
        owner->timer_at = when;
}

void owner_watch(cgtree_owner *owner, cgtree_tree *tree) {
        if (owner->poll_fd < 0)
                return;
        struct pollfd sources[TREE_SOURCES_MAX] = { 0 };
        size_t n = tree_sources(tree, sources);
        for (size_t i = 0; i < TREE_SOURCES_MAX; i++)
                if (tree->watched[i].events != 0 && !is_watched(sources, &tree->watched[i]))
                        owner_unwatch_fd(owner, tree, tree->watched[i].fd);
        for (size_t i = 0; i < n; i++)
                if (!is_watched(tree->watched, &sources[i]))
                        add_source(owner, tree, &sources[i]);
        memcpy(tree->watched, sources, sizeof(sources));
        deadlines_update(&owner->deadlines, tree);
        arm_timer(owner);
}

/* Until all is ready, the choice or the guard is what the owner waits for. */
static int opening_fd(const cgtree_owner *owner) {
        return owner->choice_fd >= 0 ? owner->choice_fd : owner->home.guard.socket;
}

static int watch_opening(cgtree_owner *owner) {
        int fd = owner->opened_told ? -1 : opening_fd(owner);
        return fd >= 0 ? epoll_add(owner->poll_fd, fd, EPOLLIN, NULL) : 0;
}

static int make_loop(cgtree_owner *owner) {
        if ((owner->poll_fd = epoll_create1(EPOLL_CLOEXEC)) < 0 ||
                (owner->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) < 0 ||
                (owner->ready_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0)
                return -errno;
        int r = epoll_add(owner->poll_fd, owner->timer_fd, EPOLLIN, NULL);
        if (r >= 0)
                r = epoll_add(owner->poll_fd, owner->ready_fd, EPOLLIN, NULL);
        return r < 0 ? r : watch_opening(owner);
}

int owner_loop_enable(cgtree_owner *owner) {
        if (owner->poll_fd >= 0)
                return 0;
        int r = make_loop(owner);
        if (r < 0) {
                close_fd(&owner->ready_fd);
                close_fd(&owner->timer_fd);
                close_fd(&owner->poll_fd);
                return r;
        }
        for (cgtree_tree *tree = owner->trees; tree; tree = tree->next)
                if (!tree->busy)
                        owner_watch(owner, tree);
        show_readiness(owner);
        return 0;
}

/* ---- running -------------------------------------------------------------------------------------------------- */

static void step(cgtree_owner *owner, cgtree_tree *tree) {
        tree->due = false;
        if (tree->busy)
                return;
        tree_step(tree);
        (void)owner_settle_books(owner, tree);
}

/* Trees are marked first: a step may free one, and one tree may have several descriptors in the batch. */
static void run_ready(cgtree_owner *owner) {
        struct epoll_event events[EVENTS_AT_ONCE];
        cgtree_tree *due[EVENTS_AT_ONCE];
        int n = epoll_wait(owner->poll_fd, events, EVENTS_AT_ONCE, 0), n_due = 0;
        for (int i = 0; i < n; i++) {
                cgtree_tree *tree = events[i].data.ptr;
                if (!tree || tree->due)
                        continue;
                tree->due = true;
                due[n_due++] = tree;
        }
        for (int i = 0; i < n_due; i++)
                step(owner, due[i]);
}

static void run_expired(cgtree_owner *owner) {
        uint64_t now = now_usec();
        cgtree_tree *tree;
        if (owner->timer_at <= now)
                owner->timer_at = 0; /* has fired: to be set again in any case */
        for (size_t n = owner->deadlines.n; n > 0 && (tree = deadlines_first(&owner->deadlines)); n--) {
                if (tree->wakeup > now)
                        break;
                deadlines_remove(&owner->deadlines, tree); /* a thread that has taken it puts it back */
                step(owner, tree);
        }
        arm_timer(owner);
}

void owner_run_due(cgtree_owner *owner) {
        run_ready(owner);
        run_expired(owner);
}

void owner_poll(cgtree_owner *owner, uint64_t until) {
        uint64_t now = now_usec(), wait = until > now ? until - now : 0;
        struct timespec timeout = {
                .tv_sec = (time_t)(wait / USEC_PER_SEC),
                .tv_nsec = (long)(wait % USEC_PER_SEC * 1000),
        };
        struct pollfd source = { .fd = owner->poll_fd, .events = POLLIN };
        (void)ppoll(&source, 1, until == USEC_FOREVER ? NULL : &timeout, NULL);
}

int cgtree_owner_get_fd(cgtree_owner *owner) {
        if (!owner)
                return -EINVAL;
        int r = owner_check(owner);
        if (r < 0)
                return r;
        pthread_mutex_lock(&owner->lock);
        r = owner->open ? owner_loop_enable(owner) : -ENOTCONN;
        pthread_mutex_unlock(&owner->lock);
        return r < 0 ? r : owner->poll_fd;
}

static int next_news(cgtree_owner *owner, cgtree_tree **ret_tree, unsigned *ret_events) {
        cgtree_tree *tree = NULL;
        unsigned events = CGTREE_EVENT_OPENED;
        if (!owner->opened_told) {
                int r = owner_is_ready(owner);
                if (r < 0)
                        owner_fail_open(owner);
                else if (r == 0)
                        (void)watch_opening(owner); /* the guard may have a successor, with a socket of its own */
                if (r <= 0)
                        return r;
                owner->opened_told = true;
                epoll_remove(owner->poll_fd, opening_fd(owner));
        } else if ((tree = owner->news_first)) {
                events = tree->news;
                tree->news = 0;
                owner_forget_news(owner, tree);
        } else
                return 0;
        show_readiness(owner);
        if (ret_tree)
                *ret_tree = tree;
        if (ret_events)
                *ret_events = events;
        return 1;
}

int cgtree_owner_dispatch(cgtree_owner *owner, cgtree_tree **ret_tree, unsigned *ret_events) {
        if (!owner)
                return -EINVAL;
        int r = owner_check(owner);
        if (r < 0)
                return r;
        pthread_mutex_lock(&owner->lock);
        r = owner->open ? owner_loop_enable(owner) : -ENOTCONN;
        if (r >= 0) {
                owner_run_due(owner);
                r = next_news(owner, ret_tree, ret_events);
        }
        pthread_mutex_unlock(&owner->lock);
        return r;
}

/* ---- a tree's own --------------------------------------------------------------------------------------------- */

static int make_tree_fd(cgtree_owner *owner, cgtree_tree *tree) {
        int r = owner_loop_enable(owner);
        if (r < 0)
                return r;
        tree->poll_fd = epoll_create1(EPOLL_CLOEXEC);
        if (tree->poll_fd < 0)
                return -errno;
        r = epoll_add(tree->poll_fd, owner->timer_fd, EPOLLIN, tree);
        for (size_t i = 0; r >= 0 && i < TREE_SOURCES_MAX; i++)
                if (tree->watched[i].events != 0)
                        r = epoll_add(tree->poll_fd, tree->watched[i].fd, epoll_events(&tree->watched[i]), tree);
        if (r < 0)
                close_fd(&tree->poll_fd);
        else
                show_tree_readiness(owner, tree);
        return r;
}

int cgtree_tree_get_fd(cgtree_tree *tree) {
        if (!tree)
                return -EINVAL;
        cgtree_owner *owner = tree->owner;
        int r = owner_check(owner);
        if (r < 0)
                return r;
        pthread_mutex_lock(&owner->lock);
        r = tree->busy ? -EBUSY : tree->poll_fd < 0 ? make_tree_fd(owner, tree) : 0;
        pthread_mutex_unlock(&owner->lock);
        return r < 0 ? r : tree->poll_fd;
}

int cgtree_tree_dispatch(cgtree_tree *tree) {
        if (!tree)
                return -EINVAL;
        cgtree_owner *owner = tree->owner;
        int r = owner_check(owner);
        if (r < 0)
                return r;
        pthread_mutex_lock(&owner->lock);
        r = tree->busy ? -EBUSY : owner_loop_enable(owner);
        if (r >= 0) {
                owner_run_due(owner);
                r = (int)tree->news;
                tree->news = 0;
                owner_forget_news(owner, tree);
        }
        pthread_mutex_unlock(&owner->lock);
        return r;
}
