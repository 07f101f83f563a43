/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "cgroup.h"

/* Where cgroup2 is mounted, and in which cgroup a process is. */

static const char deleted[] = " (deleted)";

/* ---- the mount -------------------------------------------------------------------------------------------------- */

struct mount {
        uint64_t id;
        char *root, *point; /* within the line that was parsed */
        bool read_only;
};

/* Blanks, tabs, newlines and backslashes are \ooo in mountinfo. */
static void unescape(char *text) {
        char *to = text;

        for (const char *from = text; *from; to++) {
                if (from[0] == '\\' && from[1] >= '0' && from[1] <= '3' && from[2] >= '0' && from[2] <= '7' &&
                        from[3] >= '0' && from[3] <= '7') {
                        *to = (char)((from[1] - '0') << 6 | (from[2] - '0') << 3 | (from[3] - '0'));
                        from += 4;
                } else
                        *to = *from++;
        }
        *to = '\0';
}

static bool has_option(const char *options, const char *option) {
        size_t length = strlen(option);

        for (const char *o = options; o; o = strchr(o, ',') ? strchr(o, ',') + 1 : NULL)
                if (strncmp(o, option, length) == 0 && (o[length] == ',' || o[length] == '\0'))
                        return true;
        return false;
}

/* "30 22 0:27 ROOT POINT OPTIONS [OPTIONAL...] - TYPE SOURCE SUPER_OPTIONS" */
static bool parse_mount(char *line, struct mount *ret_mount) {
        char *fields[6], *type, *options;
        struct mount mount;

        for (size_t i = 0; i < 6; i++) {
                fields[i] = strsep(&line, " ");
                if (!fields[i])
                        return false;
        }
        do
                type = strsep(&line, " ");
        while (type && strcmp(type, "-") != 0);
        type = strsep(&line, " ");
        strsep(&line, " ");
        options = strsep(&line, " ");
        if (!type || strcmp(type, "cgroup2") != 0 || parse_u64(fields[0], &mount.id) < 0)
                return false;
        mount.root = fields[3];
        mount.point = fields[4];
        mount.read_only = has_option(fields[5], "ro") || has_option(options, "ro");
        unescape(mount.root);
        unescape(mount.point);
        *ret_mount = mount;
        return true;
}

static int mount_id_by_fdinfo(int fd, uint64_t *ret_id) {
        char path[48], text[512], *line;

        snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
        if (read_file_at(AT_FDCWD, path, text, sizeof(text)) < 0)
                return -ENODATA;
        line = strstr(text, "\nmnt_id:");
        if (!line)
                return -ENODATA;
        line += strlen("\nmnt_id:");
        line += strspn(line, " \t");
        line[strcspn(line, "\n")] = '\0';
        return parse_u64(line, ret_id);
}

/* Is this the mount itself, or something that was mounted over it? After a change of user, kernels before 5.14 do not show
 * fdinfo; name_to_handle_at() tells the mount also when the handle does not fit. */
static bool is_mount(int fd, uint64_t id) {
        struct file_handle handle = { 0 };
        int mount_id = -1;
        uint64_t seen;

        if (name_to_handle_at(fd, "", &handle, &mount_id, AT_EMPTY_PATH) >= 0 || errno == EOVERFLOW)
                return mount_id >= 0 && (uint64_t)mount_id == id;
        return mount_id_by_fdinfo(fd, &seen) >= 0 && seen == id;
}

static int open_mount(const struct mount *mount) {
        _cleanup_close_ int fd = open(mount->point, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct statfs fs;

        if (fd < 0)
                return -errno;
        if (fstatfs(fd, &fs) < 0 || fs.f_type != CGROUP2_SUPER_MAGIC || !is_mount(fd, mount->id))
                return -ENOENT;
        return take_fd(&fd);
}

const char *cgroup_path_below(const char *path, const char *above) {
        size_t length = strcmp(above, "/") == 0 ? 0 : strlen(above);

        if (strncmp(path, above, length) != 0)
                return NULL;
        if (path[length] == '\0')
                return path + length;
        return path[length] == '/' ? path + length + 1 : NULL;
}

/* The higher the better: one that shows our own cgroup, and can be written. */
static int mount_worth(const struct mount *mount, const char *own) {
        bool shows_us = own && cgroup_path_below(own, mount->root);

        return (mount->read_only ? 0 : 1) + (shows_us ? 2 : 0);
}

struct mounts {
        struct mount *list;
        size_t n;
};

/* Those with a root above that of our cgroup namespace cannot be used: we do not know the way down to us. */
static int list_mounts(char *mountinfo, struct mounts *ret_mounts) {
        struct mounts mounts = { 0 };
        bool outside = false;
        char *line;

        while ((line = strsep(&mountinfo, "\n"))) {
                struct mount mount, *larger;

                if (!parse_mount(line, &mount))
                        continue;
                if (strstr(mount.root, "//deleted"))
                        continue;
                if (strcmp(mount.root, "/..") == 0 || strncmp(mount.root, "/../", 4) == 0) {
                        outside = true;
                        continue;
                }
                larger = realloc(mounts.list, (mounts.n + 1) * sizeof(*larger));
                if (!larger) {
                        free(mounts.list);
                        return -ENOMEM;
                }
                mounts.list = larger;
                mounts.list[mounts.n++] = mount;
        }
        if (mounts.n == 0)
                return outside ? -ENOLINK : -ENOENT;
        *ret_mounts = mounts;
        return 0;
}

/* Takes the best one out of the list; among equals the one with the shorter root, then the later (the upper) one. */
static struct mount take_best(struct mounts *mounts, const char *own) {
        size_t best = 0;
        struct mount mount;

        for (size_t i = 1; i < mounts->n; i++) {
                int difference = mount_worth(&mounts->list[i], own) - mount_worth(&mounts->list[best], own);

                if (difference > 0 ||
                        (difference == 0 && strlen(mounts->list[i].root) <= strlen(mounts->list[best].root)))
                        best = i;
        }
        mount = mounts->list[best];
        memmove(&mounts->list[best], &mounts->list[best + 1], (mounts->n - best - 1) * sizeof(mount));
        mounts->n--;
        return mount;
}

int cgroup_open_root(int *ret_fd, char **ret_prefix) {
        _cleanup_free_ char *mountinfo = NULL, *own = NULL, *prefix = NULL;
        _cleanup_free_ struct mount *list = NULL;
        struct mounts mounts;
        int r = read_whole_file_at(AT_FDCWD, "/proc/self/mountinfo", &mountinfo, NULL);

        if (r < 0)
                return r;
        if (cgroup_path_of(0, &own) < 0)
                own = NULL;
        r = list_mounts(mountinfo, &mounts);
        if (r < 0)
                return r;
        list = mounts.list;

        r = -ENOENT;
        while (mounts.n > 0) {
                struct mount mount = take_best(&mounts, own);
                int fd = open_mount(&mount);

                if (fd < 0) {
                        if (r == -ENOENT)
                                r = fd;
                        continue;
                }
                prefix = strdup(strcmp(mount.root, "/") == 0 ? "" : mount.root);
                if (!prefix) {
                        close_fd(&fd);
                        return -ENOMEM;
                }
                *ret_fd = fd;
                *ret_prefix = take_pointer(&prefix);
                return 0;
        }
        return r;
}

/* ---- the path of a process -------------------------------------------------------------------------------------- */

/* Everything after the second colon is the path, whatever it contains; a newline it never does. */
static int find_path(char *text, char **ret_path) {
        char *line;

        while ((line = strsep(&text, "\n"))) {
                if (strncmp(line, "0::", 3) != 0)
                        continue;
                if (line[3] != '/')
                        return -EBADMSG;
                if (strcmp(line + 3, "/..") == 0 || strncmp(line + 3, "/../", 4) == 0)
                        return -ENOLINK;
                *ret_path = strdup(line + 3);
                return *ret_path ? 0 : -ENOMEM;
        }
        return -ENODATA;
}

static int read_path(const char *file, pid_t pid, char **ret_path) {
        _cleanup_free_ char *text = NULL;
        int r = read_whole_file_at(AT_FDCWD, file, &text, NULL);

        if (r == -ENOENT && pid > 0 && kill(pid, 0) < 0 && errno == ESRCH)
                return -ESRCH;
        return r < 0 ? r : find_path(text, ret_path);
}

/* " (deleted)" may be part of a name that somebody gave. */
static bool exists(const char *path) {
        _cleanup_close_ int root = -1;
        _cleanup_free_ char *prefix = NULL;
        const char *below;
        struct stat status;

        if (cgroup_open_root(&root, &prefix) < 0)
                return false;
        below = cgroup_path_below(path, prefix);
        return below && fstatat(root, below, &status, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) >= 0;
}

static int refuse_deleted(int r, char **path) {
        size_t length, suffix = strlen(deleted);

        if (r < 0)
                return r;
        length = strlen(*path);
        if (length <= suffix || strcmp(*path + length - suffix, deleted) != 0 || exists(*path))
                return 0;
        free(take_pointer(path));
        return -ESTALE;
}

int cgroup_path_of(pid_t pid, char **ret_path) {
        char file[48];
        int r;

        if (pid < 0)
                return -EINVAL;
        if (pid == 0) /* we live: ours is not deleted, whatever its name */
                return read_path("/proc/self/cgroup", 0, ret_path);
        snprintf(file, sizeof(file), "/proc/%d/cgroup", (int)pid);
        r = read_path(file, pid, ret_path);
        return refuse_deleted(r, ret_path);
}

int cgroup_path_of_thread(pid_t pid, pid_t tid, char **ret_path) {
        char file[64];
        int r;

        if (pid <= 0 || tid <= 0)
                return -EINVAL;
        snprintf(file, sizeof(file), "/proc/%d/task/%d/cgroup", (int)pid, (int)tid);
        r = read_path(file, tid, ret_path);
        return refuse_deleted(r, ret_path);
}
