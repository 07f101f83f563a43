/* SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base.h"
#include "identity.h"
#include "sweep.h"

#define PREFIX             "cgtree-"
#define RETRY_USEC         (100 * USEC_PER_MSEC)
#define UNSTAMPED_AGE_USEC (10 * USEC_PER_SEC)

void homes_done(struct homes *homes) {
        for (size_t i = 0; i < homes->n; i++)
                cgroup_done(&homes->bases[i]);
        free(homes->bases);
        *homes = (struct homes){ 0 };
}

/* ---- which ---------------------------------------------------------------------------------------------- */

/* Takes it over. */
static int add_base(struct homes *homes, struct cgroup *base) {
        struct cgroup *larger;

        for (size_t i = 0; i < homes->n; i++)
                if (homes->bases[i].id == base->id) {
                        cgroup_done(base);
                        return 0;
                }
        larger = reallocarray(homes->bases, homes->n + 1, sizeof(*larger));
        if (!larger) {
                cgroup_done(base);
                return -ENOMEM;
        }
        homes->bases = larger;
        homes->bases[homes->n++] = cgroup_take(base);
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
        _cleanup_free_ char *path = base_of(tree_path);
        struct cgroup base = CGROUP_NONE;

        for (size_t i = 0; path && i < homes->n; i++)
                if (strcmp(homes->bases[i].path, path) == 0)
                        return 0;
        return !path || cgroup_open(path, &base) < 0 ? 0 : add_base(homes, &base);
}

int homes_add_own(struct homes *homes) {
        _cleanup_free_ char *reason = NULL;
        struct cgroup base = CGROUP_NONE;

        return base_open(secure_getenv("CGTREE_BASE"), &base, &reason) < 0 ? 0 : add_base(homes, &base);
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

static void tidy_base(const struct cgroup *base, bool dry_run, homes_fn fn, void *userdata) {
        _cleanup_close_ int fd = openat(base->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        _cleanup_dir_ DIR *dir = fd < 0 ? NULL : fdopendir(fd);
        struct dirent *entry;

        if (!dir)
                return;
        take_fd(&fd); /* it belongs to dir now */
        while ((entry = readdir(dir)))
                if (entry->d_type == DT_DIR && strncmp(entry->d_name, PREFIX, strlen(PREFIX)) == 0)
                        tidy_home(base, entry->d_name, dry_run, fn, userdata);
}

void homes_tidy(const struct homes *homes, bool dry_run, homes_fn fn, void *userdata) {
        for (size_t i = 0; i < homes->n; i++)
                tidy_base(&homes->bases[i], dry_run, fn, userdata);
}
