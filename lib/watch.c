/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "find.h"
#include "identity.h"
#include "records.h"

/* Sweep as things happen: inotify tells of new records, a pidfd of each owner's end. Nothing is polled while nothing happens. */

#define GUARD_PATIENCE_USEC (20 * USEC_PER_MSEC) /* a living guard needs a tenth of it */
#define SWEEP_BOUND_USEC    (10 * USEC_PER_SEC)
#define EVENTS_AT_ONCE      64

struct watched_owner {
        struct process process;
        struct watched_owner *next;
};

struct watched_directory {
        int fd, descriptor; /* of inotify */
};

struct cgtree_watch {
        char *records; /* NULL: the defaults */
        int poll_fd, inotify_fd, timer_fd;
        struct watched_directory *directories;
        size_t n_directories;
        struct watched_owner *owners; /* that live */
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

static bool knows_owner(const cgtree_watch *watch, const struct process_identity *identity) {
        for (const struct watched_owner *owner = watch->owners; owner; owner = owner->next)
                if (owner->process.identity.pid == identity->pid &&
                        owner->process.identity.start_time == identity->start_time &&
                        owner->process.identity.inode == identity->inode)
                        return true;
        return false;
}

static int add_owner(cgtree_watch *watch, const struct record *record) {
        const char *reason;
        if (identity_origin(record, &reason) != IDENTITY_PROVEN || knows_owner(watch, &record->owner))
                return 0;
        struct watched_owner *owner = calloc(1, sizeof(*owner));
        if (!owner)
                return -ENOMEM;
        enum process_life life = process_identify(&record->owner, &owner->process);
        struct epoll_event event = { .events = EPOLLIN, .data.ptr = owner };
        if (life != PROCESS_ALIVE || epoll_ctl(watch->poll_fd, EPOLL_CTL_ADD, owner->process.pidfd, &event) < 0) {
                /* What cannot be told is for the sweep to say. */
                if (life != PROCESS_ALIVE)
                        sweep_at(watch, now_usec() + GUARD_PATIENCE_USEC);
                else
                        process_done(&owner->process);
                free(owner);
                return 0;
        }
        owner->process.identity = record->owner;
        owner->next = watch->owners;
        watch->owners = owner;
        return 0;
}

static void remove_owner(cgtree_watch *watch, struct watched_owner *gone) {
        for (struct watched_owner **owner = &watch->owners; *owner; owner = &(*owner)->next)
                if (*owner == gone) {
                        *owner = gone->next;
                        break;
                }
        process_done(&gone->process);
        free(gone);
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
        watch->sweep_at = USEC_FOREVER;
        int r = records && !(watch->records = strdup(records)) ? -ENOMEM : open_descriptors(watch);
        if (r >= 0)
                r = load(watch);
        if (r < 0)
                cgtree_watch_free(watch);
        else
                *ret_watch = watch;
        return r;
}

void cgtree_watch_free(cgtree_watch *watch) {
        if (!watch)
                return;
        while (watch->owners)
                remove_owner(watch, watch->owners);
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

static void hear(cgtree_watch *watch) {
        struct epoll_event events[EVENTS_AT_ONCE];
        int n;
        do {
                n = epoll_wait(watch->poll_fd, events, EVENTS_AT_ONCE, 0);
                for (int i = 0; i < n; i++) {
                        if (events[i].data.ptr == &watch->inotify_fd)
                                hear_directories(watch);
                        else if (events[i].data.ptr != &watch->timer_fd) {
                                remove_owner(watch, events[i].data.ptr);
                                sweep_at(watch, now_usec() + GUARD_PATIENCE_USEC);
                        }
                }
        } while (n == EVENTS_AT_ONCE);
}

int cgtree_watch_dispatch(cgtree_watch *watch, cgtree_sweep_fn fn, void *userdata) {
        if (!watch)
                return -EINVAL;
        hear(watch);
        if (watch->reload) {
                int r = load(watch);
                if (r < 0)
                        return r;
        }
        if (now_usec() < watch->sweep_at)
                return 0;
        uint64_t expired;
        (void)!read(watch->timer_fd, &expired, sizeof(expired));
        watch->sweep_at = USEC_FOREVER;
        int r = cgtree_sweep(watch->records, false, SWEEP_BOUND_USEC, fn, userdata);
        return r == -EBADMSG ? 0 : r;
}
