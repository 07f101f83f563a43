/* SPDX-License-Identifier: MIT */
#include "owner.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <syslog.h>
#include <unistd.h>

#include "base.h"
#include "identity.h"
#include "records.h"

#define DEFAULT_GRACE_USEC (1500 * USEC_PER_MSEC)
#define OPEN_BOUND_USEC    (4 * USEC_PER_SEC) /* a manager that does not answer takes three */

/* ---- options -------------------------------------------------------------------------------------------------- */

/* A child of fork(2) finds the page wiped, whatever its pid says (pids can be equal across namespaces). */
static char *make_fork_mark(void) {
        long size = sysconf(_SC_PAGESIZE);
        char *page = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (page == MAP_FAILED)
                return NULL;
        (void)madvise(page, (size_t)size, MADV_WIPEONFORK);
        *page = 1;
        return page;
}

int cgtree_owner_new(cgtree_owner **ret_owner) {
        if (!ret_owner)
                return -EINVAL;
        cgtree_owner *owner = calloc(1, sizeof(*owner));
        if (!owner)
                return -ENOMEM;
        pthread_mutex_init(&owner->lock, NULL);
        owner->records_fd = owner->poll_fd = owner->timer_fd = owner->ready_fd = owner->alarm_fd = -1;
        owner->choice_fd = -1;
        pthread_mutex_init(&owner->choice_lock, NULL);
        home_init(&owner->home, &owner->kill_set);
        owner->minimum = CGTREE_GUARANTEE_GROUP;
        owner->grace_usec = DEFAULT_GRACE_USEC;
        owner->timer_at = USEC_FOREVER;
        owner->fork_mark = make_fork_mark();
        if (!owner->fork_mark) {
                free(owner);
                return -ENOMEM;
        }
        *ret_owner = owner;
        return 0;
}

int owner_check(const cgtree_owner *owner) {
        return *owner->fork_mark ? 0 : -ECHILD;
}

void owner_log(cgtree_owner *owner, int priority, const char *template, ...) {
        if (!owner->log)
                return;
        va_list arguments;
        va_start(arguments, template);
        _cleanup_free_ char *message = NULL;
        if (vasprintf(&message, template, arguments) >= 0)
                owner->log(owner->log_userdata, priority, message);
        va_end(arguments);
}

/* Options are for the time before open. */
static int check_option(cgtree_owner *owner) {
        if (!owner)
                return -EINVAL;
        int r = owner_check(owner);
        return r < 0 ? r : owner->open ? -EALREADY : 0;
}

int cgtree_owner_set_placement(cgtree_owner *owner, enum cgtree_placement wanted, enum cgtree_guarantee minimum) {
        int r = check_option(owner);
        if (r < 0)
                return r;
        if ((unsigned)wanted > CGTREE_PLACEMENT_GROUP || minimum < CGTREE_GUARANTEE_WHOLE ||
                minimum > CGTREE_GUARANTEE_GROUP)
                return -EINVAL;
        if (wanted == CGTREE_PLACEMENT_GROUP && minimum == CGTREE_GUARANTEE_WHOLE)
                return -EINVAL;
        owner->wanted = wanted;
        owner->minimum = minimum;
        return 0;
}

static int set_string(cgtree_owner *owner, char **field, const char *value) {
        int r = check_option(owner);
        if (r < 0)
                return r;
        char *copy = NULL;
        if (value && !(copy = strdup(value)))
                return -ENOMEM;
        free(*field);
        *field = copy;
        return 0;
}

int cgtree_owner_set_base(cgtree_owner *owner, const char *cgroup) {
        return owner ? set_string(owner, &owner->base, cgroup) : -EINVAL;
}

int cgtree_owner_set_records(cgtree_owner *owner, const char *directory) {
        return owner ? set_string(owner, &owner->records, directory) : -EINVAL;
}

int cgtree_owner_set_grace(cgtree_owner *owner, uint64_t terminate_usec, uint64_t owner_death_usec) {
        int r = check_option(owner);
        if (r < 0)
                return r;
        owner->grace_usec = terminate_usec == CGTREE_DEFAULT ? DEFAULT_GRACE_USEC : terminate_usec;
        owner->death_grace_usec = owner_death_usec == CGTREE_DEFAULT ? 0 : owner_death_usec;
        return 0;
}

int cgtree_owner_set_limits(cgtree_owner *owner, unsigned limits) {
        int r = check_option(owner);
        if (r >= 0 && limits >> N_LIMITS != 0)
                r = -EINVAL;
        if (r >= 0)
                owner->limits = limits;
        return r;
}

int cgtree_owner_set_may_move_self(cgtree_owner *owner, bool yes) {
        int r = check_option(owner);
        if (r >= 0)
                owner->may_move_self = yes;
        return r;
}

int cgtree_owner_set_guard_is_child(cgtree_owner *owner, bool yes) {
        int r = check_option(owner);
        if (r >= 0)
                owner->guard_is_child = yes;
        return r;
}

int cgtree_owner_set_log(cgtree_owner *owner, cgtree_log_fn fn, void *userdata) {
        int r = check_option(owner);
        if (r < 0)
                return r;
        owner->log = fn;
        owner->log_userdata = userdata;
        return 0;
}

void owner_set_error(cgtree_owner *owner, const char *template, ...) {
        va_list arguments;
        va_start(arguments, template);
        char *message = NULL;
        if (vasprintf(&message, template, arguments) < 0)
                message = NULL;
        va_end(arguments);
        free(owner->error);
        owner->error = message;
}

/* ---- open and close ------------------------------------------------------------------------------------------- */

static int open_records(cgtree_owner *owner) {
        int r = records_open(owner->records, &owner->records_fd, &owner->records_path);
        if (r < 0)
                owner_set_error(owner, "the records directory %s cannot be used: %s",
                        owner->records_path ? owner->records_path : "(none)",
                        records_error(r) ? records_error(r) : strerror(-r));
        return r;
}

static int open_owner(cgtree_owner *owner) {
        int r = record_fill_origin(&owner->origin);
        if (r < 0) {
                owner_set_error(owner, "cannot tell who we are (is /proc mounted?): %s", strerror(-r));
                return r;
        }
        r = open_records(owner);
        if (r >= 0)
                r = owner_choose(owner);
        if (r >= 0 && (owner->alarm_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0)
                r = -errno;
        return r;
}

static void close_descriptors(cgtree_owner *owner) {
        close_fd(&owner->records_fd);
        close_fd(&owner->alarm_fd);
        close_fd(&owner->ready_fd);
        close_fd(&owner->timer_fd);
        close_fd(&owner->poll_fd);
        close_fd(&owner->choice_fd);
        owner->ready = false;
        owner->timer_at = USEC_FOREVER;
}

int cgtree_owner_begin_open(cgtree_owner *owner) {
        int r = check_option(owner);
        if (r < 0)
                return r;
        pthread_mutex_lock(&owner->lock);
        record_done(&owner->origin);
        free(owner->records_path);
        owner->records_path = NULL;
        close_descriptors(owner); /* of an earlier try */
        owner_set_error(owner, "%s", "");
        r = open_owner(owner);
        if (r >= 0)
                owner->open = true;
        else
                owner_fail_open(owner);
        pthread_mutex_unlock(&owner->lock);
        return r;
}

void owner_fail_open(cgtree_owner *owner) {
        owner_forget_choice(owner);
        home_leave(&owner->home);
        owner->open = false;
        if (owner->n_trees == 0)
                close_descriptors(owner);
}

/* 1, 0: not within the time, or an error. */
static int await_ready(cgtree_owner *owner, uint64_t deadline) {
        int r;
        while ((r = owner_is_ready(owner)) == 0) {
                uint64_t now = now_usec();
                if (now >= deadline)
                        return 0;
                struct pollfd source = {
                        .fd = owner->choice_fd >= 0 ? owner->choice_fd : owner->home.guard.socket,
                        .events = POLLIN,
                };
                (void)poll(&source, 1, (int)((deadline - now) / 1000) + 1);
        }
        return r;
}

/* A guard that is slow is waited for by the first tree; but what was not chosen by then is not had. */
int cgtree_owner_open(cgtree_owner *owner, uint64_t timeout_usec) {
        int r = cgtree_owner_begin_open(owner);
        if (r < 0)
                return r;
        r = await_ready(owner, usec_add(now_usec(), timeout_usec < OPEN_BOUND_USEC ? timeout_usec : OPEN_BOUND_USEC));
        if (r == 0)
                r = owner_end_choice(owner, "it took too long");
        pthread_mutex_lock(&owner->lock);
        if (r < 0)
                owner_fail_open(owner);
        else
                owner->opened_told = true;
        pthread_mutex_unlock(&owner->lock);
        return r < 0 ? r : 0;
}

enum cgtree_placement cgtree_owner_get_placement(cgtree_owner *owner) {
        return owner && owner->placement ? owner->placement->kind : CGTREE_PLACEMENT_AUTO;
}

enum cgtree_guarantee cgtree_owner_get_guarantee(cgtree_owner *owner) {
        return owner && owner->placement ? owner->placement->guarantee : 0;
}

const char *cgtree_owner_get_reason(cgtree_owner *owner, enum cgtree_placement placement) {
        if (!owner || (unsigned)placement > CGTREE_PLACEMENT_GROUP)
                return NULL;
        return owner->placement && owner->placement->kind == placement ? NULL : owner->reasons[placement];
}

const char *cgtree_owner_get_error(cgtree_owner *owner) {
        return owner && owner->error ? owner->error : "";
}

int cgtree_owner_terminate_all(cgtree_owner *owner, uint64_t grace_usec, uint64_t timeout_usec) {
        if (!owner)
                return -EINVAL;
        int r = owner_check(owner);
        return r < 0 ? r : owner_tear_down(owner, grace_usec, timeout_usec);
}

/* [signal-safe], both. The mark is read first: in a forked child nothing else may be. */
int cgtree_owner_kill_now(cgtree_owner *owner) {
        if (!owner)
                return -EINVAL;
        if (owner_check(owner) < 0)
                return -ECHILD;
        __atomic_add_fetch(&owner->n_kills, 1, __ATOMIC_SEQ_CST);
        return kill_set_kill(&owner->kill_set);
}

int cgtree_owner_begin_teardown(cgtree_owner *owner) {
        if (!owner)
                return -EINVAL;
        if (owner_check(owner) < 0)
                return -ECHILD;
        if (__atomic_exchange_n(&owner->teardown_asked, true, __ATOMIC_SEQ_CST))
                return 0;
        return kill_set_tear_down(&owner->kill_set);
}

int cgtree_owner_close(cgtree_owner *owner, uint64_t grace_usec, uint64_t timeout_usec) {
        if (!owner)
                return -EINVAL;
        int r = owner_check(owner);
        if (r < 0)
                return r;
        pthread_mutex_lock(&owner->lock);
        bool was_open = owner->open && !owner->closed;
        owner_forget_choice(owner);
        owner->closed = true;
        pthread_mutex_unlock(&owner->lock);
        if (!was_open)
                return 0;
        r = owner_tear_down(owner, grace_usec, timeout_usec);
        pthread_mutex_lock(&owner->lock);
        if (r >= 0)
                home_leave(&owner->home);
        else
                home_abandon(&owner->home);
        pthread_mutex_unlock(&owner->lock);
        return r;
}

void cgtree_owner_free(cgtree_owner *owner) {
        if (!owner)
                return;
        owner_leave_exit(owner);
        bool ours = owner_check(owner) >= 0;
        if (ours) /* of a forked child's copy the lock may be held for ever */
                owner_forget_choice(owner);
        if (ours && owner->open && owner->n_living == 0)
                home_leave(&owner->home);
        /* Before the trees, so that a forked child takes nothing out of an epoll set that it shares with us. */
        close_descriptors(owner);
        for (cgtree_tree *tree = owner->trees, *next; tree; tree = next) {
                next = tree->next;
                tree_release(tree);
        }
        home_done(&owner->home);
        kill_set_done(&owner->kill_set);
        deadlines_done(&owner->deadlines);
        record_done(&owner->origin);
        for (size_t i = 0; i < sizeof(owner->reasons) / sizeof(owner->reasons[0]); i++)
                free(owner->reasons[i]);
        free(owner->error);
        free(owner->slice);
        free(owner->base);
        free(owner->records);
        free(owner->records_path);
        (void)munmap(owner->fork_mark, (size_t)sysconf(_SC_PAGESIZE));
        if (ours)
                pthread_mutex_destroy(&owner->lock);
        free(owner);
}
