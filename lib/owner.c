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
#define OPEN_BOUND_USEC    (3 * USEC_PER_SEC)
#define LOOK_AGAIN_USEC    (60 * USEC_PER_SEC)

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

/* ---- the place ------------------------------------------------------------------------------------------------ */

static void set_reason(cgtree_owner *owner, enum cgtree_placement placement, char *reason) {
        free(owner->reasons[placement]);
        owner->reasons[placement] = reason;
}

static void set_error(cgtree_owner *owner, const char *template, ...) __attribute__((format(printf, 2, 3)));
static void set_error(cgtree_owner *owner, const char *template, ...) {
        va_list arguments;
        va_start(arguments, template);
        char *message = NULL;
        if (vasprintf(&message, template, arguments) < 0)
                message = NULL;
        va_end(arguments);
        free(owner->error);
        owner->error = message;
}

static int make_home(cgtree_owner *owner) {
        struct home *home = &owner->home;
        free(home->stamp);
        home->stamp = identity_stamp(&owner->origin);
        if (!home->stamp)
                return -ENOMEM;
        home->guard_options.records_fd = owner->records_fd;
        home->guard_options.grace_usec = owner->grace_usec;
        home->guard_options.death_grace_usec = owner->death_grace_usec;
        home->guard_options.as_child = owner->guard_is_child;
        home->limits = owner->limits;
        home->may_move_self = owner->may_move_self;
        return home_make(home);
}

int owner_is_ready(cgtree_owner *owner) {
        return owner->placement == &placement_subtree ? home_look(&owner->home) : 1;
}

static int open_subtree(cgtree_owner *owner) {
        char *reason = NULL;
        const char *wanted = owner->base ? owner->base : getenv("CGTREE_BASE");
        cgroup_done(&owner->home.base);
        int r = base_open(wanted && wanted[0] ? wanted : NULL, &owner->home.base, &reason);
        if (r >= 0) {
                if (owner->limits != 0 && !(wanted && wanted[0]))
                        base_make_room(&owner->home.base);
                r = make_home(owner);
                if (r < 0)
                        reason = owner->home.problem ? take_pointer(&owner->home.problem)
                                                     : format("no guarded cgroup can be made in %s: %s",
                                                               owner->home.base.path, strerror(-r));
        }
        set_reason(owner, CGTREE_PLACEMENT_SUBTREE, reason);
        if (r >= 0)
                owner->placement = &placement_subtree;
        return r;
}

static void take_group(cgtree_owner *owner) {
        owner->placement = &placement_group;
        owner_log(owner, LOG_NOTICE, "placement group: %s",
                owner->reasons[CGTREE_PLACEMENT_SUBTREE] ? owner->reasons[CGTREE_PLACEMENT_SUBTREE] : "as asked for");
}

/* Nothing limits a process group. */
static int refuse_group(cgtree_owner *owner) {
        _cleanup_free_ char *limits = limits_name(owner->limits);
        set_reason(owner, CGTREE_PLACEMENT_GROUP,
                format("a process group cannot be limited in %s", limits ? limits : "this"));
        set_error(owner, "%s: it takes a cgroup", owner->reasons[CGTREE_PLACEMENT_GROUP]);
        return -EOPNOTSUPP;
}

static int choose_placement(cgtree_owner *owner) {
        owner->chosen_at = now_usec();
        if (owner->wanted == CGTREE_PLACEMENT_GROUP && owner->limits != 0)
                return refuse_group(owner);
        if (owner->wanted == CGTREE_PLACEMENT_GROUP) {
                set_reason(owner, CGTREE_PLACEMENT_SUBTREE, strdup("placement group was asked for"));
                take_group(owner);
                return 0;
        }
        int r = open_subtree(owner);
        if (r >= 0) {
                set_reason(owner, CGTREE_PLACEMENT_GROUP, strdup("there is a better one"));
                return 0;
        }
        if (owner->limits != 0) {
                (void)refuse_group(owner);
                _cleanup_free_ char *limits = limits_name(owner->limits);
                set_error(owner, "no limit of %s can be had here: %s", limits ? limits : "any kind",
                        owner->reasons[CGTREE_PLACEMENT_SUBTREE]);
                return r == -ENOMEM ? r : -EOPNOTSUPP;
        }
        if (owner->wanted == CGTREE_PLACEMENT_AUTO && owner->minimum != CGTREE_GUARANTEE_WHOLE) {
                set_reason(owner, CGTREE_PLACEMENT_GROUP, NULL);
                take_group(owner);
                return 0;
        }
        set_reason(owner, CGTREE_PLACEMENT_GROUP, strdup("the weaker guarantee was not asked for"));
        set_error(owner, "no subtree: %s", owner->reasons[CGTREE_PLACEMENT_SUBTREE]);
        return r == -ENOMEM ? r : -EOPNOTSUPP;
}

int owner_look_again(cgtree_owner *owner) {
        if (owner->wanted != CGTREE_PLACEMENT_AUTO || owner->placement == &placement_subtree ||
                now_usec() - owner->chosen_at < LOOK_AGAIN_USEC)
                return 0;
        owner->chosen_at = now_usec();
        if (open_subtree(owner) >= 0)
                owner_log(owner, LOG_NOTICE, "placement subtree, from now on");
        return 0;
}

void owner_fall_back(cgtree_owner *owner, const char *reason) {
        pthread_mutex_lock(&owner->lock);
        set_reason(owner, CGTREE_PLACEMENT_SUBTREE, reason ? strdup(reason) : NULL);
        set_reason(owner, CGTREE_PLACEMENT_GROUP, NULL);
        owner->chosen_at = now_usec();
        take_group(owner);
        pthread_mutex_unlock(&owner->lock);
}

/* ---- open and close ------------------------------------------------------------------------------------------- */

static int open_records(cgtree_owner *owner) {
        int r = records_open(owner->records, &owner->records_fd, &owner->records_path);
        if (r < 0)
                set_error(owner, "the records directory %s cannot be used: %s",
                        owner->records_path ? owner->records_path : "(none)",
                        records_error(r) ? records_error(r) : strerror(-r));
        return r;
}

static int open_owner(cgtree_owner *owner) {
        int r = record_fill_origin(&owner->origin);
        if (r < 0) {
                set_error(owner, "cannot tell who we are (is /proc mounted?): %s", strerror(-r));
                return r;
        }
        r = open_records(owner);
        if (r >= 0)
                r = choose_placement(owner);
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
}

int cgtree_owner_begin_open(cgtree_owner *owner) {
        int r = check_option(owner);
        if (r < 0)
                return r;
        pthread_mutex_lock(&owner->lock);
        record_done(&owner->origin);
        free(owner->records_path);
        owner->records_path = NULL;
        set_error(owner, "%s", "");
        r = open_owner(owner);
        if (r >= 0)
                owner->open = true;
        else {
                home_leave(&owner->home);
                close_descriptors(owner);
        }
        pthread_mutex_unlock(&owner->lock);
        return r;
}

int cgtree_owner_open(cgtree_owner *owner, uint64_t timeout_usec) {
        int r = cgtree_owner_begin_open(owner);
        if (r < 0)
                return r;
        uint64_t deadline = usec_add(now_usec(), timeout_usec < OPEN_BOUND_USEC ? timeout_usec : OPEN_BOUND_USEC);
        while ((r = owner_is_ready(owner)) == 0) {
                uint64_t now = now_usec();
                if (now >= deadline)
                        break;
                struct pollfd source = { .fd = owner->home.guard.socket, .events = POLLIN };
                (void)poll(&source, 1, (int)((deadline - now) / 1000) + 1);
        }
        owner->opened_told = true;
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
        free(owner->base);
        free(owner->records);
        free(owner->records_path);
        (void)munmap(owner->fork_mark, (size_t)sysconf(_SC_PAGESIZE));
        if (ours)
                pthread_mutex_destroy(&owner->lock);
        free(owner);
}
