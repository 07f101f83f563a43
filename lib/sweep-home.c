/* SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base.h"
#include "identity.h"
#include "sweep.h"

#define PREFIX             "cgtree-"
#define RETRY_USEC         (100 * USEC_PER_MSEC)
#define UNSTAMPED_AGE_USEC (10 * USEC_PER_SEC)

static int compare_paths(const void *a, const void *b) {
        return strcmp(a, b);
}

void homes_done(struct homes *homes) {
        tdestroy(homes->bases, free);
        *homes = (struct homes){ 0 };
}

/* ---- which ---------------------------------------------------------------------------------------------- */

/* Takes it over. */
static int add_base(struct homes *homes, char *path) {
        char **known = tsearch(path, &homes->bases, compare_paths);

        if (!known || *known != path)
                free(path);
        if (!known)
                return -ENOMEM;
        homes->last = *known;
        return 0;
}

/* BASE of BASE/cgtree-PID-RANDOM/trees/ID, "/" for the root. NULL: another path, or out of memory. */
static char *base_of(const char *tree_path) {
        _cleanup_free_ char *path = strdup(tree_path);
        char *slash = NULL;

        for (int i = 0; path && i < 3; i++) {
                slash = strrchr(path, '/');
                if (!slash || (i == 1 && strcmp(slash, "/trees") != 0))
                        return NULL;
                *slash = '\0';
        }
        if (!path || strncmp(slash + 1, PREFIX, strlen(PREFIX)) != 0)
                return NULL;
        return *path ? take_pointer(&path) : strdup("/");
}

int homes_add(struct homes *homes, const char *tree_path) {
        char *path = base_of(tree_path);

        /* Most have the same one. */
        if (path && homes->last && strcmp(path, homes->last) == 0) {
                free(path);
                return 0;
        }
        return path ? add_base(homes, path) : 0;
}

int homes_add_own(struct homes *homes) {
        _cleanup_free_ char *reason = NULL;
        struct cgroup base = CGROUP_NONE;
        int r = 0;

        if (base_open(secure_getenv("CGTREE_BASE"), &base, &reason) >= 0)
                r = add_base(homes, take_pointer(&base.path));
        cgroup_done(&base);
        return r;
}

/* ---- what becomes of them ------------------------------------------------------------------------------- */

static uint64_t age_of(const struct cgroup *home) {
        struct stat status;
        uint64_t now = now_realtime_usec(), made;

        if (fstat(home->fd, &status) < 0)
                return 0;
        made = (uint64_t)status.st_mtim.tv_sec * USEC_PER_SEC + (uint64_t)status.st_mtim.tv_nsec / 1000;
        return made < now ? now - made : 0;
}

/* Without a stamp (its owner was killed before it set it, or the kernel has none) its name alone says whose it was. The number
 * is one of a pid namespace that we do not know: hence the age; and an owner that lives makes its directory anew. */
static bool is_of_dead_pid(const struct cgroup *home) {
        const char *number = strrchr(home->path, '/') + 1 + strlen(PREFIX);
        _cleanup_free_ char *digits = strndup(number, strcspn(number, "-"));
        _cleanup_close_ int pidfd = -1;
        pid_t pid;

        if (!digits || parse_pid(digits, &pid) < 0 || age_of(home) < UNSTAMPED_AGE_USEC)
                return false;
        pidfd = pidfd_pin(pid);
        return pidfd == -ESRCH || (pidfd >= 0 && pidfd_is_dead(pidfd) == 1);
}

static bool is_owner_gone(const struct cgroup *home) {
        struct record origin;
        const char *reason;
        int r = identity_read_stamp(home, &origin);

        if (r >= 0)
                return identity_owner(&origin, &reason) == PROCESS_GONE;
        return (r == -ENODATA || r == -EOPNOTSUPP) && is_of_dead_pid(home);
}

/* Removing is all that is ever done to them: the kernel refuses where anybody lives. */
static bool is_left_over(const struct cgroup *home) {
        return is_owner_gone(home) && cgroup_is_populated(home) == 0 && !identity_check_end(home);
}

static void tidy_home(const struct cgroup *base, const char *name, bool dry_run, homes_fn fn, void *userdata) {
        struct cgroup home = CGROUP_NONE;

        if (cgroup_open_child(base, name, &home) < 0)
                return;
        if (is_left_over(&home)) {
                fn(userdata, home.path);
                if (!dry_run)
                        (void)cgroup_remove(base, name, RETRY_USEC);
        }
        cgroup_done(&home);
}

struct tidying {
        bool dry_run;
        homes_fn fn;
        void *userdata;
};

static void tidy_below(const struct cgroup *base, const struct tidying *tidying) {
        _cleanup_close_ int fd = openat(base->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        _cleanup_dir_ DIR *dir = fd < 0 ? NULL : fdopendir(fd);
        struct dirent *entry;

        if (!dir)
                return;
        take_fd(&fd); /* it belongs to dir now */
        while ((entry = readdir(dir)))
                if (entry->d_type == DT_DIR && strncmp(entry->d_name, PREFIX, strlen(PREFIX)) == 0)
                        tidy_home(base, entry->d_name, tidying->dry_run, tidying->fn, tidying->userdata);
}

static void tidy_base(const void *node, VISIT visit, void *tidying) {
        struct cgroup base = CGROUP_NONE;

        if ((visit != postorder && visit != leaf) || cgroup_open(*(char *const *)node, &base) < 0)
                return;
        tidy_below(&base, tidying);
        cgroup_done(&base);
}

void homes_tidy(const struct homes *homes, bool dry_run, homes_fn fn, void *userdata) {
        struct tidying tidying = { .dry_run = dry_run, .fn = fn, .userdata = userdata };

        twalk_r(homes->bases, tidy_base, &tidying);
}
