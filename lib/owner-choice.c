/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <syslog.h>
#include <unistd.h>

#include "base.h"
#include "identity.h"
#include "owner.h"
#include "scope.h"
#include "unit.h"

/* Which placement an owner's trees get: the best that is to be had here. What needs no systemd manager is decided at once. Else the
 * manager is asked about the unit that we are in, then for a scope with our guard in it, in which the home is made; nothing of it
 * waits. The reason why a better one was not taken is kept. */

#define LOOK_AGAIN_USEC (60 * USEC_PER_SEC)
#define MANAGER_USEC    (3 * USEC_PER_SEC)     /* from the connect to the scope */
#define CHOICE_USEC     (3200 * USEC_PER_MSEC) /* with what comes before and after */
#define STOP_MORE_USEC  (2 * USEC_PER_SEC)     /* than the grace, before the manager takes over from the guard */

enum stage {
        STAGE_ASKING,  /* the manager, about our unit */
        STAGE_GUARD,   /* which has to be there before the scope */
        STAGE_SCOPE,   /* around the guard */
        STAGE_GUARDED, /* all is made; the guard has to say that it holds it */
};

struct choice {
        enum stage stage;
        uint64_t deadline;
        struct bus *bus;
        struct unit unit;
        struct scope *scope;
        char *scope_unit;
        bool retried;
        char *own;                     /* our cgroup */
        const struct placement *taken; /* GUARDED */
        int timer_fd, watched_fd;
};

static void set_reason(cgtree_owner *owner, enum cgtree_placement placement, char *reason) {
        free(owner->reasons[placement]);
        owner->reasons[placement] = reason;
}

static const char *reason_of(const cgtree_owner *owner, enum cgtree_placement placement) {
        return owner->reasons[placement] ? owner->reasons[placement] : "as asked for";
}

int owner_name_unit(const cgtree_owner *owner, const char *unit, struct record *record) {
        free(record->unit);
        free(record->manager);
        record->unit = unit ? strdup(unit) : NULL;
        record->manager = unit && owner->manager ? strdup(owner->manager) : NULL;
        return unit && (!record->unit || !record->manager) ? -ENOMEM : 0;
}

/* ---- what a choice waits for ---------------------------------------------------------------------------------- */

static void unwatch(cgtree_owner *owner, struct choice *choice) {
        if (choice->watched_fd >= 0)
                (void)epoll_ctl(owner->choice_fd, EPOLL_CTL_DEL, choice->watched_fd, NULL);
        choice->watched_fd = -1;
}

static void watch_fd(cgtree_owner *owner, struct choice *choice, int fd, short events) {
        struct epoll_event event = { .events = (events & POLLIN ? EPOLLIN : 0U) | (events & POLLOUT ? EPOLLOUT : 0U) };
        if (choice->watched_fd != fd)
                unwatch(owner, choice);
        /* A new guard's socket may have the number of the old one's, which left the set when it was closed. */
        if (choice->watched_fd != fd || epoll_ctl(owner->choice_fd, EPOLL_CTL_MOD, fd, &event) < 0)
                (void)epoll_ctl(owner->choice_fd, EPOLL_CTL_ADD, fd, &event);
        choice->watched_fd = fd;
}

static void watch(cgtree_owner *owner, struct choice *choice) {
        uint64_t wakeup = choice->deadline;
        short events = POLLIN;
        bool on_bus = choice->stage == STAGE_ASKING || choice->stage == STAGE_SCOPE;
        int fd = on_bus ? bus_fd(choice->bus, &events) : owner->home.guard.socket;
        if (on_bus && bus_wakeup(choice->bus) < wakeup)
                wakeup = bus_wakeup(choice->bus);
        watch_fd(owner, choice, fd, events);
        wakeup = wakeup > 0 ? wakeup : 1; /* 0 disarms */
        struct itimerspec spec = {
                .it_value = { (time_t)(wakeup / USEC_PER_SEC), (long)(wakeup % USEC_PER_SEC * 1000) },
        };
        (void)timerfd_settime(choice->timer_fd, TFD_TIMER_ABSTIME, &spec, NULL);
}

static int new_choice(cgtree_owner *owner, struct choice **ret_choice) {
        struct choice *choice = calloc(1, sizeof(*choice));
        if (!choice)
                return -ENOMEM;
        choice->watched_fd = -1;
        choice->deadline = usec_add(now_usec(), CHOICE_USEC);
        choice->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
        if (owner->choice_fd < 0)
                owner->choice_fd = epoll_create1(EPOLL_CLOEXEC);
        struct epoll_event event = { .events = EPOLLIN };
        if (choice->timer_fd < 0 || owner->choice_fd < 0 ||
                epoll_ctl(owner->choice_fd, EPOLL_CTL_ADD, choice->timer_fd, &event) < 0) {
                int r = -errno;
                close_fd(&choice->timer_fd);
                free(choice);
                return r;
        }
        *ret_choice = choice;
        return 0;
}

/* Nothing that was asked for and not answered may find anything of ours any more: the connection goes first. */
static void leave_manager(cgtree_owner *owner, struct choice *choice) {
        unwatch(owner, choice);
        choice->scope = scope_free(choice->scope);
        unit_done(&choice->unit);
        choice->bus = bus_close(choice->bus);
}

static void forget(cgtree_owner *owner) {
        struct choice *choice = owner->choice;
        if (!choice)
                return;
        leave_manager(owner, choice);
        close_fd(&choice->timer_fd);
        free(choice->scope_unit);
        free(choice->own);
        free(choice);
        owner->choice = NULL;
}

void owner_forget_choice(cgtree_owner *owner) {
        pthread_mutex_lock(&owner->choice_lock);
        forget(owner);
        pthread_mutex_unlock(&owner->choice_lock);
}

/* ---- a cgroup that is ours ------------------------------------------------------------------------------------ */

static int prepare_home(cgtree_owner *owner) {
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
        return 0;
}

static char *describe_home_failure(cgtree_owner *owner, int error) {
        return owner->home.problem
                       ? take_pointer(&owner->home.problem)
                       : format("no guarded cgroup can be made in %s: %s",
                                 owner->home.base.path ? owner->home.base.path : "the scope", strerror(-error));
}

static const char *wanted_base(const cgtree_owner *owner) {
        const char *wanted = owner->base ? owner->base : getenv("CGTREE_BASE");
        return wanted && wanted[0] ? wanted : NULL;
}

static int open_subtree(cgtree_owner *owner, const char *base) {
        char *reason = NULL;
        cgroup_done(&owner->home.base);
        int r = base_open(base, &owner->home.base, &reason);
        if (r >= 0) {
                if (owner->limits != 0 && !wanted_base(owner))
                        base_make_room(&owner->home.base);
                r = prepare_home(owner);
                if (r >= 0)
                        r = home_make(&owner->home);
                if (r < 0)
                        reason = describe_home_failure(owner, r);
        }
        set_reason(owner, CGTREE_PLACEMENT_SUBTREE, reason);
        return r;
}

static void take(cgtree_owner *owner, const struct placement *placement) {
        bool changed = owner->placement && owner->placement != placement;
        owner->placement = placement;
        for (enum cgtree_placement worse = placement->kind + 1; worse <= CGTREE_PLACEMENT_GROUP; worse++)
                set_reason(owner, worse, strdup("there is a better one"));
        set_reason(owner, placement->kind, NULL);
        if (changed)
                owner_log(owner, LOG_NOTICE, "another placement from now on");
}

/* ---- the last one --------------------------------------------------------------------------------------------- */

static void take_group(cgtree_owner *owner) {
        take(owner, &placement_group);
        owner_log(owner, LOG_NOTICE, "placement group: %s", reason_of(owner, CGTREE_PLACEMENT_SUBTREE));
}

/* Nothing limits a process group. */
static int refuse_group(cgtree_owner *owner) {
        _cleanup_free_ char *limits = limits_name(owner->limits);
        set_reason(owner, CGTREE_PLACEMENT_GROUP,
                format("a process group cannot be limited in %s", limits ? limits : "this"));
        owner_set_error(owner, "%s: it takes a cgroup", owner->reasons[CGTREE_PLACEMENT_GROUP]);
        return -EOPNOTSUPP;
}

/* Neither subtree nor scope is to be had. */
static int settle_for_less(cgtree_owner *owner) {
        forget(owner);
        const char *reason = reason_of(
                owner, owner->wanted == CGTREE_PLACEMENT_SCOPE ? CGTREE_PLACEMENT_SCOPE : CGTREE_PLACEMENT_SUBTREE);
        if (owner->limits != 0) {
                (void)refuse_group(owner);
                _cleanup_free_ char *limits = limits_name(owner->limits);
                owner_set_error(owner, "no limit of %s can be had here: %s", limits ? limits : "any kind", reason);
        } else if (owner->wanted == CGTREE_PLACEMENT_AUTO && owner->minimum != CGTREE_GUARANTEE_WHOLE) {
                take_group(owner);
                return 0;
        } else {
                set_reason(owner, CGTREE_PLACEMENT_GROUP, strdup("the weaker guarantee was not asked for"));
                owner_set_error(
                        owner, "no %s: %s", owner->wanted == CGTREE_PLACEMENT_SCOPE ? "scope" : "subtree", reason);
        }
        owner->placement = NULL;
        return owner->choice_error = -EOPNOTSUPP;
}

/* ---- a manager of systemd's ----------------------------------------------------------------------------------- */

/* Takes the reason over: why there is no scope, neither for us nor for a tree. */
static int refuse_scopes(cgtree_owner *owner, char *reason) {
        char *subtree = owner->reasons[CGTREE_PLACEMENT_SUBTREE];
        if (subtree && reason && owner->wanted != CGTREE_PLACEMENT_SCOPE)
                set_reason(owner, CGTREE_PLACEMENT_SUBTREE, format("%s; no scope either: %s", subtree, reason));
        set_reason(owner, CGTREE_PLACEMENT_SCOPE, reason);
        return settle_for_less(owner);
}

/* In a group of cgtree's: below a reaper. The variable alone may have been copied from anywhere. */
static bool is_in_group(void) {
        struct process_stat stat;
        if (!secure_getenv("CGTREE_ID"))
                return false;
        for (pid_t pid = getppid(); pid > 1 && process_read_stat(pid, &stat) >= 0; pid = stat.parent)
                if (strcmp(stat.comm, "cgtree-reaper") == 0)
                        return true;
        return false;
}

/* Why no manager is to be asked at all, in words; NULL: one may. */
static char *find_obstacle(cgtree_owner *owner, struct choice *choice) {
        if (wanted_base(owner))
                return strdup("a cgroup was asked for by name");
        if (!base_is_managed())
                return strdup("systemd does not manage this machine");
        int r = cgroup_path_of(0, &choice->own);
        if (r < 0)
                return format("our own cgroup cannot be told: %s", strerror(-r));
        if (base_is_in_tree(choice->own) || is_in_group())
                return strdup("we are in a tree of cgtree's, which a scope would leave");
        return NULL;
}

static int ask_manager(cgtree_owner *owner) {
        struct choice *choice = NULL;
        int r = new_choice(owner, &choice);
        if (r < 0)
                return refuse_scopes(owner, format("a manager cannot be asked: %s", strerror(-r)));
        owner->choice = choice;
        char *reason = find_obstacle(owner, choice);
        if (reason) { /* the want of a scope is not what stands in the way */
                set_reason(owner, CGTREE_PLACEMENT_SCOPE, reason);
                return settle_for_less(owner);
        }
        enum bus_manager manager = geteuid() == 0 ? BUS_SYSTEM : BUS_USER;
        owner->manager = manager == BUS_SYSTEM ? "system" : "user";
        r = bus_open(manager, MANAGER_USEC, &choice->bus, &reason);
        if (r < 0)
                return refuse_scopes(owner, reason);
        r = unit_ask(&choice->unit, choice->bus);
        if (r < 0)
                return refuse_scopes(owner, format("%s cannot be asked: %s", bus_manager_name(manager), strerror(-r)));
        choice->stage = STAGE_ASKING;
        watch(owner, choice);
        return 0;
}

/* Who leaves a service for a scope leaves what binds the service. Of one that is not our manager's, nothing is known. */
static char *find_bond(const struct choice *choice) {
        if (choice->unit.name)
                return choice->unit.limit ? format("%s would be left, which sets %s: set Delegate=yes on it",
                                                    choice->unit.name, choice->unit.limit)
                                          : NULL;
        size_t length = 0;
        const char *unit = base_find_unit(choice->own, &length);
        if (!unit || length < strlen(".service") || memcmp(unit + length - strlen(".service"), ".service", 8) != 0)
                return NULL;
        return format("%.*s would be left, which is not our manager's: set Delegate=yes on it", (int)length, unit);
}

/* The same one, so that its limits go on; but not that of a login, whose end is not ours. */
static const char *find_slice(const struct choice *choice) {
        const char *slice = choice->unit.slice;
        if (slice && strcmp(slice, "-.slice") != 0 && strncmp(slice, "user-", 5) != 0 &&
                strcmp(slice, "user.slice") != 0)
                return slice;
        return choice->bus->manager == BUS_SYSTEM ? "system.slice" : "app.slice";
}

static int await_guard(cgtree_owner *owner, const struct placement *taken) {
        struct choice *choice = owner->choice;
        leave_manager(owner, choice);
        choice->taken = taken;
        choice->stage = STAGE_GUARDED;
        watch(owner, choice);
        return 0;
}

static int take_scopes(cgtree_owner *owner) {
        int r = prepare_home(owner);
        if (r >= 0)
                r = home_start_guard(&owner->home);
        if (r < 0)
                return refuse_scopes(owner, format("cgtree-guard cannot be started: %s", strerror(-r)));
        return await_guard(owner, &placement_scope);
}

/* Why trees cannot be born into one scope for all of them; NULL: they can. */
static char *find_distance(const struct choice *choice) {
        _cleanup_free_ char *there = format("%s/%s/cgtree.scope", choice->unit.manager_cgroup, find_slice(choice));
        char *reason = NULL;
        if (!there)
                return strdup("out of memory");
        return base_check_way(there, choice->own, &reason) < 0 ? reason ? reason : strdup("out of memory") : NULL;
}

static int begin_scope(cgtree_owner *owner) {
        struct choice *choice = owner->choice;
        char id[ID_LENGTH + 1];
        _cleanup_free_ char *comm = scope_escape(owner->origin.owner_comm ? owner->origin.owner_comm : "owner");
        _cleanup_free_ char *description = format("Trees of %s (pid %d), by cgtree",
                owner->origin.owner_comm ? owner->origin.owner_comm : "a process", (int)getpid());
        int r = id_random(id);
        free(choice->scope_unit);
        choice->scope_unit = r >= 0 && comm ? format("cgtree-%s-%.8s.scope", comm, id) : NULL;
        if (!choice->scope_unit || !description)
                return r < 0 ? r : -ENOMEM;
        struct scope_request request = {
                .unit = choice->scope_unit,
                .description = description,
                .slice = find_slice(choice),
                .pid = owner->home.guard.guard_pid,
                .pidfd = owner->home.guard.pidfd,
                .stop_usec = usec_add(owner->grace_usec, STOP_MORE_USEC),
        };
        choice->stage = STAGE_SCOPE;
        return scope_begin(choice->bus, &request, &choice->scope);
}

static int give_up(cgtree_owner *owner, char *reason) {
        leave_manager(owner, owner->choice);
        home_give_up(&owner->home);
        return refuse_scopes(owner, reason);
}

/* The manager has told of our unit. */
static int decide(cgtree_owner *owner) {
        struct choice *choice = owner->choice;
        bool want_scope = owner->wanted == CGTREE_PLACEMENT_SCOPE;
        if (choice->unit.delegated && !want_scope && open_subtree(owner, "self") >= 0)
                return await_guard(owner, &placement_subtree);
        char *reason = choice->unit.delegated && owner->limits != 0 && !want_scope
                               ? strdup("a unit that is ours to divide is not left for limits")
                               : find_bond(choice);
        if (reason)
                return refuse_scopes(owner, reason);
        free(owner->slice);
        owner->slice = strdup(find_slice(choice));
        if (want_scope)
                return take_scopes(owner);
        reason = find_distance(choice);
        if (reason && owner->wanted == CGTREE_PLACEMENT_SUBTREE)
                return refuse_scopes(owner, reason);
        if (reason) {
                set_reason(owner, CGTREE_PLACEMENT_SUBTREE, reason);
                return take_scopes(owner);
        }
        int r = prepare_home(owner);
        if (r >= 0)
                r = home_start_guard(&owner->home);
        if (r < 0)
                return refuse_scopes(owner, format("cgtree-guard cannot be started: %s", strerror(-r)));
        choice->stage = STAGE_GUARD;
        return 0;
}

/* The guard is in the scope. */
static int make_home_in(cgtree_owner *owner, const char *path) {
        struct choice *choice = owner->choice;
        cgroup_done(&owner->home.base);
        int r = cgroup_open(path, &owner->home.base);
        if (r >= 0)
                r = home_make_in_scope(&owner->home, choice->scope_unit);
        if (r < 0)
                return give_up(owner, describe_home_failure(owner, r));
        owner_log(owner, LOG_DEBUG, "scope %s of the %s manager was made for the trees of this owner",
                choice->scope_unit, owner->manager);
        return await_guard(owner, &placement_subtree);
}

/* ---- going on ------------------------------------------------------------------------------------------------- */

static int step_asking(cgtree_owner *owner) {
        struct choice *choice = owner->choice;
        char *reason = NULL;
        int r = bus_step(choice->bus, &reason);
        if (r < 0)
                return refuse_scopes(owner, reason);
        r = unit_step(&choice->unit);
        if (r < 0)
                return refuse_scopes(
                        owner, format("what %s says is not understood", bus_manager_name(choice->bus->manager)));
        return r == 0 ? 0 : decide(owner);
}

static int step_guard(cgtree_owner *owner) {
        int r = home_look(&owner->home);
        if (r > 0)
                r = begin_scope(owner);
        return r < 0 ? give_up(owner, format("cgtree-guard cannot be given a scope: %s", strerror(-r))) : 0;
}

static int step_scope(cgtree_owner *owner) {
        struct choice *choice = owner->choice;
        _cleanup_free_ char *path = NULL;
        char *reason = NULL;
        int r = scope_step(choice->scope, &path, &reason);
        if (r > 0)
                return make_home_in(owner, path);
        if (r == -EEXIST && !choice->retried) {
                choice->retried = true;
                free(reason);
                choice->scope = scope_free(choice->scope);
                r = begin_scope(owner);
                reason = r < 0 ? strdup("out of memory") : NULL;
        }
        return r < 0 ? give_up(owner, reason) : 0;
}

static int step_guarded(cgtree_owner *owner) {
        int r = home_look(&owner->home);
        if (r < 0)
                return give_up(owner, format("cgtree-guard cannot be had: %s", strerror(-r)));
        if (r == 0)
                return 0;
        const struct placement *taken = owner->choice->taken;
        forget(owner);
        take(owner, taken);
        return 0;
}

static int step(cgtree_owner *owner) {
        enum stage stage;
        int r;
        do {
                stage = owner->choice->stage;
                r = stage == STAGE_ASKING  ? step_asking(owner)
                    : stage == STAGE_GUARD ? step_guard(owner)
                    : stage == STAGE_SCOPE ? step_scope(owner)
                                           : step_guarded(owner);
        } while (r >= 0 && owner->choice && owner->choice->stage != stage);
        if (r < 0 || !owner->choice)
                return r;
        if (now_usec() >= owner->choice->deadline)
                return give_up(owner, strdup("it took too long"));
        watch(owner, owner->choice);
        return 0;
}

/* ---- the whole ------------------------------------------------------------------------------------------------ */

static int choose(cgtree_owner *owner) {
        forget(owner);
        owner->chosen_at = now_usec();
        owner->choice_error = 0;
        if (owner->wanted == CGTREE_PLACEMENT_GROUP) {
                if (owner->limits != 0)
                        return owner->choice_error = refuse_group(owner);
                set_reason(owner, CGTREE_PLACEMENT_SUBTREE, strdup("placement group was asked for"));
                set_reason(owner, CGTREE_PLACEMENT_SCOPE, strdup("placement group was asked for"));
                take_group(owner);
                return 0;
        }
        if (owner->wanted == CGTREE_PLACEMENT_SCOPE)
                set_reason(owner, CGTREE_PLACEMENT_SUBTREE, strdup("placement scope was asked for"));
        else if (open_subtree(owner, wanted_base(owner)) >= 0) {
                take(owner, &placement_subtree);
                return 0;
        }
        return ask_manager(owner);
}

int owner_choose(cgtree_owner *owner) {
        pthread_mutex_lock(&owner->choice_lock);
        int r = choose(owner);
        pthread_mutex_unlock(&owner->choice_lock);
        return r;
}

/* A scope goes with its last member: without a guard in it, it is not there for long. */
static int look_at_home(cgtree_owner *owner) {
        int r = home_look(&owner->home);
        if (r >= 0 || !owner->home.scope)
                return r;
        home_give_up(&owner->home);
        r = choose(owner);
        return r < 0 ? r : 0;
}

int owner_is_ready(cgtree_owner *owner) {
        pthread_mutex_lock(&owner->choice_lock);
        int r = owner->choice ? step(owner) : 0;
        if (r >= 0)
                r = owner->choice_error;
        if (r >= 0 && !owner->choice)
                r = owner->placement == &placement_group ? 1 : look_at_home(owner);
        pthread_mutex_unlock(&owner->choice_lock);
        return r;
}

int owner_end_choice(cgtree_owner *owner, const char *reason) {
        pthread_mutex_lock(&owner->choice_lock);
        int r = owner->choice ? give_up(owner, strdup(reason)) : 0;
        pthread_mutex_unlock(&owner->choice_lock);
        return r;
}

int owner_look_again(cgtree_owner *owner) {
        pthread_mutex_lock(&owner->choice_lock);
        if (!owner->choice && owner->wanted == CGTREE_PLACEMENT_AUTO && owner->placement == &placement_group &&
                now_usec() - owner->chosen_at >= LOOK_AGAIN_USEC)
                (void)choose(owner);
        pthread_mutex_unlock(&owner->choice_lock);
        return 0;
}

int owner_choose_again(cgtree_owner *owner) {
        pthread_mutex_lock(&owner->choice_lock);
        int r = 0;
        if (!owner->choice) {
                owner_log(owner, LOG_NOTICE, "the scope of this owner is gone: it is made anew");
                home_give_up(&owner->home);
                r = choose(owner);
        }
        pthread_mutex_unlock(&owner->choice_lock);
        return r;
}

bool owner_fall_back(cgtree_owner *owner, enum cgtree_placement from, const char *reason) {
        if (owner->wanted != CGTREE_PLACEMENT_AUTO || owner->limits != 0 || owner->minimum == CGTREE_GUARANTEE_WHOLE)
                return false;
        pthread_mutex_lock(&owner->choice_lock);
        if (owner->placement && owner->placement->kind == from) {
                if (from != CGTREE_PLACEMENT_SUBTREE)
                        set_reason(owner, CGTREE_PLACEMENT_SUBTREE, reason ? strdup(reason) : NULL);
                owner->chosen_at = now_usec();
                take_group(owner);
                set_reason(owner, from, reason ? strdup(reason) : NULL);
        }
        pthread_mutex_unlock(&owner->choice_lock);
        return true;
}
