/* SPDX-License-Identifier: MIT */
#include "cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "cgroup-dir.h"

static bool name_is_sane(const char *name) {
        return *name && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && !strpbrk(name, "/\n");
}

/* As /proc would write it: one slash between names, none at the end. */
static int normalize(const char *path, char **ret_path) {
        _cleanup_free_ char *copy = strdup(path), *clean = malloc(strlen(path) + 2);
        char *rest = copy, *name, *to = clean;

        if (!copy || !clean)
                return -ENOMEM;
        if (path[0] != '/')
                return -EINVAL;
        while ((name = strsep(&rest, "/"))) {
                if (!*name)
                        continue;
                if (!name_is_sane(name))
                        return -EINVAL;
                *to++ = '/';
                to = stpcpy(to, name);
        }
        if (to == clean)
                *to++ = '/';
        *to = '\0';
        *ret_path = take_pointer(&clean);
        return 0;
}

/* Takes fd and path over. */
static int cgroup_from_fd(int *fd, char **path, struct cgroup *ret_cgroup) {
        struct stat status;

        if (fstat(*fd, &status) < 0)
                return -errno;
        *ret_cgroup = (struct cgroup){ .fd = take_fd(fd), .path = take_pointer(path), .id = status.st_ino };
        return 0;
}

int cgroup_open_from(int root, const char *prefix, const char *path, struct cgroup *ret_cgroup) {
        _cleanup_close_ int fd = -1;
        _cleanup_free_ char *clean = NULL;
        const char *below;
        int r = normalize(path, &clean);

        if (r < 0)
                return r;
        below = cgroup_path_below(clean, prefix);
        if (!below)
                return -EXDEV;
        fd = cgroup_dir_open(root, below);
        return fd < 0 ? fd : cgroup_from_fd(&fd, &clean, ret_cgroup);
}

int cgroup_open(const char *path, struct cgroup *ret_cgroup) {
        _cleanup_close_ int root = -1;
        _cleanup_free_ char *prefix = NULL;
        int r = cgroup_open_root(&root, &prefix);

        return r < 0 ? r : cgroup_open_from(root, prefix, path, ret_cgroup);
}

int cgroup_open_child(const struct cgroup *parent, const char *name, struct cgroup *ret_cgroup) {
        _cleanup_close_ int fd = -1;
        _cleanup_free_ char *path = NULL;

        if (!name_is_sane(name))
                return -EINVAL;
        path = format("%s/%s", strcmp(parent->path, "/") == 0 ? "" : parent->path, name);
        if (!path)
                return -ENOMEM;
        fd = cgroup_dir_open(parent->fd, name);
        return fd < 0 ? fd : cgroup_from_fd(&fd, &path, ret_cgroup);
}

static int make_directory(int dirfd, const char *name) {
        return mkdirat(dirfd, name, 0755) < 0 ? -errno : 0;
}

static int remove_directory(int dirfd, const char *name) {
        return unlinkat(dirfd, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}

int cgroup_create(const struct cgroup *parent, const char *name, struct cgroup *ret_cgroup) {
        int r;

        if (!name_is_sane(name))
                return -EINVAL;
        r = make_directory(parent->fd, name);
        if (r == -EACCES && cgroup_dir_open_up(parent->fd, NULL))
                r = make_directory(parent->fd, name);
        if (r < 0)
                return r;
        r = cgroup_open_child(parent, name, ret_cgroup);
        if (r < 0)
                (void)remove_directory(parent->fd, name);
        return r;
}

void cgroup_done(struct cgroup *cgroup) {
        if (!cgroup)
                return;
        close_fd(&cgroup->fd);
        free(cgroup->path);
        *cgroup = (struct cgroup)CGROUP_NONE;
}

struct cgroup cgroup_take(struct cgroup *cgroup) {
        struct cgroup taken = *cgroup;

        *cgroup = (struct cgroup)CGROUP_NONE;
        return taken;
}

int cgroup_set_xattr(const struct cgroup *cgroup, const char *name, const char *value) {
        int r = fsetxattr(cgroup->fd, name, value, strlen(value), 0);

        if (r < 0 && errno == EACCES && cgroup_dir_open_up(cgroup->fd, NULL))
                r = fsetxattr(cgroup->fd, name, value, strlen(value), 0);
        return r < 0 ? -errno : 0;
}

int cgroup_get_xattr(const struct cgroup *cgroup, const char *name, char *buffer, size_t size) {
        ssize_t n = fgetxattr(cgroup->fd, name, buffer, size - 1);

        if (n < 0 && errno == EACCES && cgroup_dir_open_up(cgroup->fd, NULL))
                n = fgetxattr(cgroup->fd, name, buffer, size - 1);
        if (n < 0)
                return -errno;
        buffer[n] = '\0';
        return 0;
}

/* ---- events, kill, freeze --------------------------------------------------------------------------------------- */

int cgroup_open_events(const struct cgroup *cgroup) {
        return cgroup_dir_open_file(cgroup->fd, "cgroup.events", O_RDONLY);
}

/* Lines of "KEY 0" and "KEY 1". */
static int find_event(const char *text, const char *key) {
        size_t length = strlen(key);

        for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
                if (strncmp(line, key, length) == 0 && line[length] == ' ')
                        return line[length + 1] == '1';
        return -ENODATA;
}

static int read_event(int events_fd, const char *key) {
        char text[256];
        ssize_t n = read_fd_again(events_fd, text, sizeof(text));

        if (n == -ENODEV)
                return 0;
        return n < 0 ? (int)n : find_event(text, key);
}

int cgroup_events_populated(int events_fd) {
        return read_event(events_fd, "populated");
}

int cgroup_events_frozen(int events_fd) {
        return read_event(events_fd, "frozen");
}

int cgroup_is_populated(const struct cgroup *cgroup) {
        _cleanup_close_ int fd = cgroup_open_events(cgroup);

        if (fd == -ENODEV)
                return 0;
        return fd < 0 ? fd : cgroup_events_populated(fd);
}

/* One byte. A cgroup that is going says ENOENT as long as its files are still there (cgroup_kn_lock_live), then ENODEV. */
static int write_file(const struct cgroup *cgroup, const char *file, char byte) {
        _cleanup_close_ int fd = cgroup_dir_open_file(cgroup->fd, file, O_WRONLY);
        ssize_t n;

        if (fd < 0)
                return fd == -ENODEV ? 0 : fd;
        do
                n = write(fd, &byte, 1);
        while (n < 0 && errno == EINTR);
        return n < 0 && errno != ENODEV && errno != ENOENT ? -errno : 0;
}

int cgroup_kill(const struct cgroup *cgroup) {
        return write_file(cgroup, "cgroup.kill", '1');
}

int cgroup_freeze(const struct cgroup *cgroup, bool freeze) {
        return write_file(cgroup, "cgroup.freeze", freeze ? '1' : '0');
}

/* ---- below a cgroup --------------------------------------------------------------------------------------------- */

int cgroup_walk(const struct cgroup *cgroup, cgroup_walk_fn fn, void *userdata) {
        return cgroup_dir_walk(cgroup->fd, &(struct cgroup_dir_visit){ .enter = fn, .userdata = userdata });
}

struct removal {
        bool denied, busy;
        int error;
};

static void remove_one(struct removal *removal, int parent_fd, const char *name) {
        int r = remove_directory(parent_fd, name);

        if (r == -EACCES && cgroup_dir_open_up(parent_fd, NULL))
                r = remove_directory(parent_fd, name);
        if (r == -EACCES || r == -EPERM)
                removal->denied = true;
        else if (r == -EBUSY)
                removal->busy = true;
        else if (r < 0 && r != -ENOENT && r != -ENODEV)
                removal->error = r;
}

static int remove_on_leave(void *userdata, int parent_fd, const char *name) {
        remove_one(userdata, parent_fd, name);
        return 0;
}

/* What can be removed is, whatever happens to the rest. */
static int remove_once(int parent_fd, const char *name) {
        struct removal removal = { 0 };
        _cleanup_close_ int fd = -1;
        int r = remove_directory(parent_fd, name); /* the usual case: nothing below it */

        if (r >= 0 || r == -ENOENT || r == -ENODEV)
                return 0;
        fd = cgroup_dir_open(parent_fd, name);
        if (fd >= 0) {
                r = cgroup_dir_walk(fd, &(struct cgroup_dir_visit){ .leave = remove_on_leave, .userdata = &removal });
                if (r < 0)
                        return r;
        }
        remove_one(&removal, parent_fd, name);
        if (removal.denied)
                return -EPERM;
        return removal.busy ? -EBUSY : removal.error;
}

int cgroup_remove(const struct cgroup *parent, const char *name, uint64_t retry_usec) {
        uint64_t deadline = usec_add(now_usec(), retry_usec), pause = 50;
        int r;

        if (!name_is_sane(name))
                return -EINVAL;
        for (;;) {
                r = remove_once(parent->fd, name);
                if (r != -EBUSY || now_usec() >= deadline)
                        return r;
                usleep((useconds_t)pause);
                pause = pause < 2 * USEC_PER_MSEC ? pause + pause / 2 : pause;
        }
}
