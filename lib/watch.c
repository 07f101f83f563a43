/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "identity.h"
#include "records.h"
#include "sweep.h"

/* Sweep as things happen: inotify tells of new records, a pidfd of each owner's end. Nothing is polled while nothing happens. */

#define GUARD_PATIENCE_USEC (20 * USEC_PER_MSEC) /* a living guard needs a tenth of it */
#define EVENTS_AT_ONCE      64

struct watched_owner {
        struct process process;
};

struct watched_directory {
        int fd, descriptor; /* of inotify */
};

struct cgtree_watch {
        char *records; /* NULL: the defaults */
        int poll_fd, inotify_fd, timer_fd;
        struct watched_directory *directories;
        size_t n_directories;
        void *owners; /* search.h: that live */
        struct doomed_list doomed;
        bool look_again; /* some were ended: they leave empty directories */
        uint64_t sweep_at;
        bool reload; /* a directory was replaced */
};

/* ---- when ---------------------------------------------------------------------------------------------------- */

static void sweep_at(cgtree_watch *watch, uint64_t when) {
        if (when >= watch->sweep_at)
                return;
        struct itimerspec spec = {
                .it_value = { (time_t)(when / USEC_PER_SEC), (long)(when % USEC_PER_SEC * 1000) },
        };
        watch->sweep_at = when;
        (void)timerfd_settime(watch->timer_fd, TFD_TIMER_ABSTIME, &spec, NULL);
}

/* ---- owners -------------------------------------------------------------------------------------------------- */

static int compare_owners(const void *a, const void *b) {
        const struct process_identity *x = &((const struct watched_owner *)a)->process.identity,
                                      *y = &((const struct watched_owner *)b)->process.identity;

        if (x->pid != y->pid)
                return x->pid < y->pid ? -1 : 1;
        if (x->start_time != y->start_time)
                return x->start_time < y->start_time ? -1 : 1;
        return x->inode == y->inode ? 0 : x->inode < y->inode ? -1 : 1;
}

static void free_owner(void *pointer) {
        struct watched_owner *owner = pointer;
        process_done(&owner->process);
        free(owner);
}

/* What cannot be told is for the sweep to say. */
static void pin_owner(cgtree_watch *watch, struct watched_owner *owner) {
        struct process_identity recorded = owner->process.identity;
        enum process_life life = process_identify(&recorded, &owner->process);
        owner->process.identity = recorded;
        struct epoll_event event = { .events = EPOLLIN, .data.ptr = owner };
        if (life == PROCESS_ALIVE && epoll_ctl(watch->poll_fd, EPOLL_CTL_ADD, owner->process.pidfd, &event) >= 0)
                return;
        if (life != PROCESS_ALIVE)
                sweep_at(watch, now_usec() + GUARD_PATIENCE_USEC);
        (void)tdelete(owner, &watch->owners, compare_owners);
        free_owner(owner);
}

static int add_owner(cgtree_watch *watch, const struct record *record) {
        const char *reason;
        if (identity_origin(record, &reason) != IDENTITY_PROVEN)
                return 0;
        struct watched_owner *owner = malloc(sizeof(*owner));
        if (!owner)
                return -ENOMEM;
        owner->process = (struct process){ .identity = record->owner, .pidfd = -1 };
        struct watched_owner **known = tsearch(owner, &watch->owners, compare_owners);
        if (!known || *known != owner) {
                free(owner);
                return known ? 0 : -ENOMEM;
        }
        pin_owner(watch, owner);
        return 0;
}

static void owner_has_ended(cgtree_watch *watch, struct watched_owner *owner) {
        /* Closing it is not enough: a child that somebody has forked may have it still. */
        (void)epoll_ctl(watch->poll_fd, EPOLL_CTL_DEL, owner->process.pidfd, NULL);
        (void)tdelete(owner, &watch->owners, compare_owners);
        free_owner(owner);
        sweep_at(watch, now_usec() + GUARD_PATIENCE_USEC);
}

/* ---- directories --------------------------------------------------------------------------------------------- */

static int on_record(void *userdata, int dirfd, const char *file, struct record *record, const char *problem) {
        (void)dirfd, (void)file, (void)problem; /* bad ones are for the sweep to name */
        return record ? add_owner(userdata, record) : 0;
}

static void forget_directories(cgtree_watch *watch) {
        for (size_t i = 0; i < watch->n_directories; i++) {
                (void)inotify_rm_watch(watch->inotify_fd, watch->directories[i].descriptor);
                close_fd(&watch->directories[i].fd);
        }
        free(watch->directories);
        watch->directories = NULL;
        watch->n_directories = 0;
}

static int on_directory(void *userdata, int dirfd, const char *path) {
        cgtree_watch *watch = userdata;
        (void)path;
        if (dirfd < 0)
                return 0; /* for the sweep to name */
        struct watched_directory *larger = reallocarray(watch->directories, watch->n_directories + 1, sizeof(*larger));
        if (!larger)
                return -ENOMEM;
        watch->directories = larger;
        /* By the fd that was checked, whatever the path leads to by now. */
        char checked[64];
        snprintf(checked, sizeof(checked), "/proc/self/fd/%d", dirfd);
        struct watched_directory directory = {
                .fd = fcntl(dirfd, F_DUPFD_CLOEXEC, 3),
                .descriptor = inotify_add_watch(watch->inotify_fd, checked,
                        IN_CREATE | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR),
        };
        if (directory.fd < 0 || directory.descriptor < 0) {
                int r = -errno;
                close_fd(&directory.fd);
                return r;
        }
        watch->directories[watch->n_directories++] = directory;
        return records_each(directory.fd, on_record, watch);
}

/* The directory for new records is made if there is none, so that there is something to watch. */
static int load(cgtree_watch *watch) {
        _cleanup_free_ char *path = NULL;
        int fd = -1;
        forget_directories(watch);
        watch->reload = false;
        int r = records_open(watch->records, &fd, &path);
        close_fd(&fd);
        if (r >= 0)
                r = records_each_directory(watch->records, on_directory, watch);
        sweep_at(watch, now_usec());
        return r;
}

static void on_name(cgtree_watch *watch, int descriptor, const char *file) {
        const char *problem;
        struct record record = { 0 };
        for (size_t i = 0; i < watch->n_directories; i++)
                if (watch->directories[i].descriptor == descriptor &&
                        record_read(watch->directories[i].fd, file, &record, &problem) >= 0)
                        (void)add_owner(watch, &record);
        record_done(&record);
}

static bool is_record_name(const struct inotify_event *event) {
        const char *ending = event->len > 0 ? strrchr(event->name, '.') : NULL;
        return ending && event->name[0] != '.' && strcmp(ending, ".json") == 0;
}

static void hear_directories(cgtree_watch *watch) {
        char buffer[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
        ssize_t n;
        while ((n = read(watch->inotify_fd, buffer, sizeof(buffer))) > 0)
                for (char *at = buffer; at < buffer + n;) {
                        const struct inotify_event *event = (const void *)at;
                        if (event->mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_Q_OVERFLOW | IN_UNMOUNT))
                                watch->reload = true;
                        else if (is_record_name(event))
                                on_name(watch, event->wd, event->name);
                        at += sizeof(*event) + event->len;
                }
}

/* ---- the calls ----------------------------------------------------------------------------------------------- */

static int open_descriptors(cgtree_watch *watch) {
        struct epoll_event inotify = { .events = EPOLLIN, .data.ptr = &watch->inotify_fd };
        struct epoll_event timer = { .events = EPOLLIN, .data.ptr = &watch->timer_fd };
        if ((watch->poll_fd = epoll_create1(EPOLL_CLOEXEC)) < 0 ||
                (watch->inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) < 0 ||
                (watch->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) < 0 ||
                epoll_ctl(watch->poll_fd, EPOLL_CTL_ADD, watch->inotify_fd, &inotify) < 0 ||
                epoll_ctl(watch->poll_fd, EPOLL_CTL_ADD, watch->timer_fd, &timer) < 0)
                return -errno;
        return 0;
}

int cgtree_watch_new(const char *records, cgtree_watch **ret_watch) {
        if (!ret_watch)
                return -EINVAL;
        cgtree_watch *watch = calloc(1, sizeof(*watch));
        if (!watch)
                return -ENOMEM;
        watch->poll_fd = watch->inotify_fd = watch->timer_fd = -1;
        watch->doomed = (struct doomed_list)DOOMED_NONE;
        watch->sweep_at = USEC_FOREVER;
        int r = records && !(watch->records = strdup(records)) ? -ENOMEM : open_descriptors(watch);
        if (r >= 0)
                r = load(watch);
        watch->doomed.poll_fd = watch->poll_fd;
        if (r < 0)
                cgtree_watch_free(watch);
        else
                *ret_watch = watch;
        return r;
}

void cgtree_watch_free(cgtree_watch *watch) {
        if (!watch)
                return;
        doomed_done(&watch->doomed);
        tdestroy(watch->owners, free_owner);
        forget_directories(watch);
        close_fd(&watch->timer_fd);
        close_fd(&watch->inotify_fd);
        close_fd(&watch->poll_fd);
        free(watch->records);
        free(watch);
}

int cgtree_watch_get_fd(cgtree_watch *watch) {
        return watch ? watch->poll_fd : -EINVAL;
}

static struct doomed *find_doomed(const cgtree_watch *watch, const void *pointer) {
        struct doomed *doomed = watch->doomed.first;
        while (doomed && doomed != pointer)
                doomed = doomed->next;
        return doomed;
}

static void hear(cgtree_watch *watch) {
        struct epoll_event events[EVENTS_AT_ONCE];
        struct doomed *doomed;
        int n;
        do {
                n = epoll_wait(watch->poll_fd, events, EVENTS_AT_ONCE, 0);
                for (int i = 0; i < n; i++) {
                        if (events[i].data.ptr == &watch->inotify_fd)
                                hear_directories(watch);
                        else if (events[i].data.ptr == &watch->timer_fd)
                                continue;
                        else if ((doomed = find_doomed(watch, events[i].data.ptr)))
                                doomed->due = true;
                        else
                                owner_has_ended(watch, events[i].data.ptr);
                }
        } while (n == EVENTS_AT_ONCE && watch->doomed.n == 0);
}

static void step_doomed(cgtree_watch *watch, struct report *report) {
        size_t n = watch->doomed.n;
        doomed_step(&watch->doomed, report);
        /* Not for those that cannot be ended: that would go on for ever. */
        if (watch->doomed.n < n && !report->problem)
                watch->look_again = true;
        if (watch->look_again && watch->doomed.n == 0) {
                watch->look_again = false;
                sweep_at(watch, now_usec());
        }
}

static int look(cgtree_watch *watch, struct report *report) {
        uint64_t expired;
        (void)!read(watch->timer_fd, &expired, sizeof(expired));
        watch->sweep_at = USEC_FOREVER;
        return sweep_look(watch->records, &watch->doomed, report);
}

int cgtree_watch_dispatch(cgtree_watch *watch, cgtree_sweep_fn fn, void *userdata) {
        struct report report = { .fn = fn, .userdata = userdata };
        int r = 0;
        if (!watch)
                return -EINVAL;
        hear(watch);
        if (watch->reload)
                r = load(watch);
        step_doomed(watch, &report);
        if (r >= 0 && now_usec() >= watch->sweep_at)
                r = look(watch, &report);
        return r < 0 ? r : (int)report.n_ended;
}
