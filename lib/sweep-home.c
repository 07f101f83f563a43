/* SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base.h"
#include "identity.h"
#include "sweep.h"

#define PREFIX     "cgtree-"
#define RETRY_USEC (100 * USEC_PER_MSEC)

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

/* BASE/cgtree-PID-RANDOM/trees/ID into BASE ("/" for the root) and the name after it. */
static bool split_path(const char *tree_path, char **ret_base, char **ret_name) {
        _cleanup_free_ char *path = strdup(tree_path);
        char *slash;

        for (int i = 0; path && i < 2; i++) {
                slash = strrchr(path, '/');
                if (!slash || (i == 1 && strcmp(slash, "/trees") != 0))
                        return false;
                *slash = '\0';
        }
        slash = path ? strrchr(path, '/') : NULL;
        if (!slash || strncmp(slash + 1, PREFIX, strlen(PREFIX)) != 0)
                return false;
        *slash = '\0';
        *ret_name = strdup(slash + 1);
        *ret_base = strdup(*path ? path : "/");
        return true;
}

int homes_add(struct homes *homes, const char *tree_path) {
        _cleanup_free_ char *base_path = NULL, *name = NULL;
        struct cgroup base = CGROUP_NONE;

        if (!split_path(tree_path, &base_path, &name))
                return 0;
        if (!base_path || !name)
                return -ENOMEM;
        return cgroup_open(base_path, &base) < 0 ? 0 : add_base(homes, &base);
}

int homes_add_own(struct homes *homes) {
        _cleanup_free_ char *reason = NULL;
        struct cgroup base = CGROUP_NONE;

        return base_open(secure_getenv("CGTREE_BASE"), &base, &reason) < 0 ? 0 : add_base(homes, &base);
}

/* ---- what becomes of them ------------------------------------------------------------------------------- */

/* Removing is all that is ever done to them: the kernel refuses where anybody lives. What is not stamped may be about to
 * be; its owner lives. */
static bool is_left_over(const struct cgroup *home) {
        struct record origin;
        const char *reason;

        return identity_read_stamp(home, &origin) >= 0 && identity_owner(&origin, &reason) == PROCESS_GONE &&
               cgroup_is_populated(home) == 0 && !identity_check_end(home);
}

/* fn may be NULL. */
static void tidy_home(const struct cgroup *base, const char *name, bool dry_run, homes_fn fn, void *userdata) {
        struct cgroup home = CGROUP_NONE;

        if (cgroup_open_child(base, name, &home) < 0)
                return;
        if (is_left_over(&home)) {
                if (fn)
                        fn(userdata, home.path);
                if (!dry_run)
                        (void)cgroup_remove(base, name, RETRY_USEC);
        }
        cgroup_done(&home);
}

void homes_tidy_of(const char *tree_path) {
        _cleanup_free_ char *base_path = NULL, *name = NULL;
        struct cgroup base = CGROUP_NONE;

        if (split_path(tree_path, &base_path, &name) && base_path && name && cgroup_open(base_path, &base) >= 0)
                tidy_home(&base, name, false, NULL, NULL);
        cgroup_done(&base);
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
