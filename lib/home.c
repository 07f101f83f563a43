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
        guard_close(&home->guard);
        home->guard_options.trees_fd = home->trees.fd;
        home->guard_options.trees_path = home->trees.path;
        int r = guard_start(&home->guard_options, &home->guard);
        if (r < 0)
                return r;
        home->guard_slot = kill_set_add(home->kill_set, KILL_GUARD, home->guard.socket);
        return home->guard_slot ? 0 : -ENOMEM;
}

static int look(struct home *home) {
        if (guard_is_dead(&home->guard)) {
                int r = start_guard(home);
                if (r < 0)
                        return r;
        }
        int r = guard_look(&home->guard);
        if (r < 0)
                guard_close(&home->guard);
        return r;
}

int home_look(struct home *home) {
        pthread_mutex_lock(&home->lock);
        int r = look(home);
        pthread_mutex_unlock(&home->lock);
        return r;
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

int home_make(struct home *home) {
        int r = make_directories(home);
        if (r < 0)
                return r;
        home->kill_fd = openat(home->trees.fd, "cgroup.kill", O_WRONLY | O_CLOEXEC);
        if (home->kill_fd >= 0 && !(home->kill_slot = kill_set_add(home->kill_set, KILL_CGROUP, home->kill_fd)))
                r = -ENOMEM;
        if (r >= 0)
                r = home_take_limits(home);
        if (r >= 0)
                r = start_guard(home);
        if (r < 0) {
                drop_slots(home);
                guard_close(&home->guard);
                remove_directories(home);
        }
        return r;
}

/* Rare, so it may wait: the guard of the old home has nothing left to watch over. */
static int renew(struct home *home) {
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
                *ret_renewed = true;
                r = renew(home);
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
}
