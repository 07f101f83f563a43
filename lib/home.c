/* SPDX-License-Identifier: MIT */
#include "home.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RENEW_BOUND_USEC USEC_PER_SEC

void home_init(struct home *home, struct kill_set *kill_set) {
        *home = (struct home){
                .base = CGROUP_NONE,
                .directory = CGROUP_NONE,
                .trees = CGROUP_NONE,
                .leaf = CGROUP_NONE,
                .guard = GUARD_NONE,
                .kill_set = kill_set,
                .kill_fd = -1,
        };
        pthread_mutex_init(&home->lock, NULL);
}

/* ---- the guard -------------------------------------------------------------------------------------------------- */

static void drop_slots(struct home *home) {
        kill_set_remove(home->kill_set, &home->guard_slot);
        kill_set_remove(home->kill_set, &home->kill_slot);
        close_fd(&home->kill_fd);
}

static int start_guard(struct home *home) {
        kill_set_remove(home->kill_set, &home->guard_slot);
        guard_bury(&home->guard);
        home->guard_options.trees = home->trees.fd >= 0 ? &home->trees : NULL;
        int r = guard_start(&home->guard_options, &home->guard);
        for (struct home_member *member = home->members; r >= 0 && member; member = member->next)
                r = guard_give_tree(&home->guard, member->id, member->cgroup, &member->number);
        if (r < 0)
                return r;
        home->guard_slot = kill_set_add(home->kill_set, KILL_GUARD, home->guard.socket);
        return home->guard_slot ? 0 : -ENOMEM;
}

/* One that was started in place of another: as a member of the scope it keeps it. */
static int enter_scope(struct home *home) {
        char pid[24];
        snprintf(pid, sizeof(pid), "%d", (int)home->guard.guard_pid);
        home->guard_enters = false;
        return write_file_at(home->leaf.fd >= 0 ? home->leaf.fd : home->base.fd, "cgroup.procs", pid);
}

static int replace_guard(struct home *home) {
        int r = start_guard(home);
        home->guard_enters = r >= 0 && home->scope;
        return r;
}

/* One that was killed before it could say that it is there gets one successor; it may not have been chance. */
static int look(struct home *home) {
        int r = guard_is_dead(&home->guard) ? replace_guard(home) : 0;
        if (r >= 0)
                r = guard_look(&home->guard);
        if (r == -ECONNRESET && !home->guard_was_lost) {
                home->guard_was_lost = true;
                r = replace_guard(home);
        } else if (r != 0)
                home->guard_was_lost = false;
        if (r > 0 && home->guard_enters && enter_scope(home) < 0)
                r = -ENODEV;
        if (r < 0)
                guard_close(&home->guard);
        return r;
}

int home_start_guard(struct home *home) {
        pthread_mutex_lock(&home->lock);
        int r = start_guard(home);
        pthread_mutex_unlock(&home->lock);
        return r;
}

int home_look(struct home *home) {
        pthread_mutex_lock(&home->lock);
        int r = look(home);
        pthread_mutex_unlock(&home->lock);
        return r;
}

/* ---- trees elsewhere ----------------------------------------------------------------------------------------------- */

int home_give(struct home *home, struct home_member *member) {
        pthread_mutex_lock(&home->lock);
        int r = guard_is_dead(&home->guard)
                        ? -EPIPE
                        : guard_give_tree(&home->guard, member->id, member->cgroup, &member->number);
        if (r >= 0) {
                member->given = true;
                member->previous = NULL;
                member->next = home->members;
                if (member->next)
                        member->next->previous = member;
                home->members = member;
        }
        pthread_mutex_unlock(&home->lock);
        return r;
}

int home_holds(struct home *home, struct home_member *member) {
        pthread_mutex_lock(&home->lock);
        int r = look(home);
        if (r >= 0)
                r = guard_holds(&home->guard, member->number);
        pthread_mutex_unlock(&home->lock);
        return r;
}

void home_take_back(struct home *home, struct home_member *member) {
        if (!member->given)
                return;
        pthread_mutex_lock(&home->lock);
        guard_drop_tree(&home->guard, member->id);
        if (member->previous)
                member->previous->next = member->next;
        else
                home->members = member->next;
        if (member->next)
                member->next->previous = member->previous;
        member->given = false;
        pthread_mutex_unlock(&home->lock);
}

/* ---- the directories ---------------------------------------------------------------------------------------------- */

static const char *last_component(const struct cgroup *cgroup) {
        return strrchr(cgroup->path, '/') + 1;
}

static void remove_directories(struct home *home) {
        if (home->directory.fd >= 0) {
                home_give_back_limits(home);
                (void)unlinkat(home->directory.fd, "trees", AT_REMOVEDIR);
                (void)unlinkat(home->base.fd, last_component(&home->directory), AT_REMOVEDIR);
        }
        cgroup_done(&home->trees);
        cgroup_done(&home->directory);
}

static int make_directories(struct home *home) {
        char id[ID_LENGTH + 1];
        int r = id_random(id);
        if (r < 0)
                return r;
        _cleanup_free_ char *name = format("cgtree-%d-%.6s", (int)getpid(), id);
        if (!name)
                return -ENOMEM;
        r = cgroup_create(&home->base, name, &home->directory);
        if (r < 0)
                return r;
        /* An unstamped home is only less tidy: sweep removes stamped ones alone. */
        (void)cgroup_set_xattr(&home->directory, CGROUP_XATTR_OWNER, home->stamp);
        r = cgroup_create(&home->directory, "trees", &home->trees);
        if (r < 0)
                remove_directories(home);
        return r;
}

static int make(struct home *home, int (*guard_it)(struct home *home)) {
        int r = make_directories(home);
        if (r < 0)
                return r;
        home->kill_fd = openat(home->trees.fd, "cgroup.kill", O_WRONLY | O_CLOEXEC);
        if (home->kill_fd >= 0 && !(home->kill_slot = kill_set_add(home->kill_set, KILL_CGROUP, home->kill_fd)))
                r = -ENOMEM;
        if (r >= 0)
                r = home_take_limits(home);
        if (r >= 0)
                r = guard_it(home);
        if (r < 0) {
                drop_slots(home);
                if (!home->scope)
                        guard_close(&home->guard);
                remove_directories(home);
        }
        return r;
}

int home_make(struct home *home) {
        return make(home, start_guard);
}

static int give_trees(struct home *home) {
        return guard_give_trees(&home->guard, &home->trees);
}

int home_make_in_scope(struct home *home, const char *unit) {
        free(home->scope);
        home->scope = strdup(unit);
        return home->scope ? make(home, give_trees) : -ENOMEM;
}

/* Rare, so it may wait: the guard of the old home has nothing left to watch over. A scope is not ours to make anew. */
static int renew(struct home *home) {
        if (home->scope)
                return -ENODEV;
        drop_slots(home);
        guard_done(&home->guard);
        remove_directories(home);
        int r = home_make(home);
        uint64_t deadline = now_usec() + RENEW_BOUND_USEC;
        while (r >= 0 && (r = look(home)) == 0) {
                uint64_t now = now_usec();
                struct pollfd source = { .fd = home->guard.socket, .events = POLLIN };
                if (now >= deadline)
                        return -ETIMEDOUT;
                (void)poll(&source, 1, (int)((deadline - now) / 1000) + 1);
        }
        return r < 0 ? r : 0;
}

int home_create_tree(struct home *home, const char *id, struct cgroup *ret_cgroup, bool *ret_renewed) {
        pthread_mutex_lock(&home->lock);
        *ret_renewed = false;
        int r = cgroup_create(&home->trees, id, ret_cgroup);
        if (r == -ENOENT || r == -ENODEV) {
                r = renew(home);
                *ret_renewed = r >= 0;
                if (r >= 0)
                        r = cgroup_create(&home->trees, id, ret_cgroup);
        }
        pthread_mutex_unlock(&home->lock);
        return r;
}

int home_remove_tree(struct home *home, const char *id, uint64_t retry_usec) {
        pthread_mutex_lock(&home->lock);
        int r = cgroup_remove(&home->trees, id, retry_usec);
        pthread_mutex_unlock(&home->lock);
        return r;
}

/* ---- the end ------------------------------------------------------------------------------------------------------ */

/* The guard goes last: if we are killed half-way, it removes what we did not. */
void home_leave(struct home *home) {
        drop_slots(home);
        remove_directories(home);
        if (home->guard.socket >= 0)
                guard_done(&home->guard);
}

void home_give_up(struct home *home) {
        pthread_mutex_lock(&home->lock);
        drop_slots(home);
        if (home->guard.socket >= 0)
                guard_kill(&home->guard);
        remove_directories(home);
        cgroup_done(&home->base);
        free(home->scope);
        home->scope = NULL;
        pthread_mutex_unlock(&home->lock);
}

void home_abandon(struct home *home) {
        drop_slots(home);
        guard_close(&home->guard);
        cgroup_done(&home->trees);
        cgroup_done(&home->directory);
}

void home_done(struct home *home) {
        guard_close(&home->guard);
        close_fd(&home->kill_fd);
        cgroup_done(&home->trees);
        cgroup_done(&home->directory);
        cgroup_done(&home->base);
        cgroup_done(&home->leaf);
        free(home->problem);
        free(home->stamp);
        free(home->scope);
}
