/* SPDX-License-Identifier: MIT */
#include "cgroup-dir.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#define DIRECTORY_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

static bool is_ours(const struct stat *status, mode_t wanted) {
        return status->st_uid == geteuid() && (status->st_mode & wanted) != wanted;
}

static bool open_up_directory(int dirfd) {
        char link[32];
        struct stat status;

        if (fstat(dirfd, &status) < 0 || !is_ours(&status, S_IRWXU))
                return false;
        snprintf(link, sizeof(link), "/proc/self/fd/%d", dirfd); /* fchmod refuses O_PATH descriptors */
        return chmod(link, (status.st_mode & 07777) | S_IRWXU) >= 0;
}

static bool open_up_file(int dirfd, const char *file) {
        const mode_t wanted = S_IRUSR | S_IWUSR;
        struct stat status;

        if (fstatat(dirfd, file, &status, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(status.st_mode) ||
                !is_ours(&status, wanted))
                return false;
        return fchmodat(dirfd, file, (status.st_mode & 07777) | wanted, 0) >= 0;
}

bool cgroup_dir_open_up(int dirfd, const char *file) {
        bool changed = open_up_directory(dirfd);

        return (file && open_up_file(dirfd, file)) || changed;
}

static int open_beneath(int dirfd, const char *path, int flags) {
        struct open_how how = {
                .flags = (uint64_t)flags,
                .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV | RESOLVE_NO_MAGICLINKS,
        };
        int fd;

        do
                fd = (int)syscall(SYS_openat2, dirfd, path, &how, sizeof(how));
        while (fd < 0 && errno == EINTR);
        return fd < 0 ? -errno : fd;
}

/* Before Linux 5.6, or with a filter that does not know the call. */
static bool lacks_openat2(int r) {
        return r == -ENOSYS || r == -EPERM;
}

static bool is_cgroup2(int fd) {
        struct statfs fs;

        return fstatfs(fd, &fs) >= 0 && fs.f_type == CGROUP2_SUPER_MAGIC;
}

static int open_one(int dirfd, const char *name, int flags) {
        int fd = open_beneath(dirfd, name, flags);

        if (!lacks_openat2(fd))
                return fd;
        fd = openat(dirfd, name, flags);
        if (fd < 0)
                return errno == ELOOP ? -ENOTDIR : -errno;
        if (!is_cgroup2(fd)) {
                close_fd(&fd);
                return -EXDEV;
        }
        return fd;
}

static int open_child(int dirfd, const char *name) {
        _cleanup_close_ int handle = -1;
        int fd = open_one(dirfd, name, DIRECTORY_FLAGS);

        if (fd == -EACCES && cgroup_dir_open_up(dirfd, NULL))
                fd = open_one(dirfd, name, DIRECTORY_FLAGS);
        if (fd != -EACCES)
                return fd;
        handle = open_one(dirfd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (handle < 0 || !cgroup_dir_open_up(handle, NULL))
                return -EACCES;
        return open_one(handle, ".", DIRECTORY_FLAGS);
}

static int open_by_components(int dirfd, const char *path) {
        _cleanup_close_ int fd = open_child(dirfd, ".");

        while (fd >= 0 && *path) {
                size_t length = strcspn(path, "/");
                _cleanup_free_ char *name = strndup(path, length);
                int next;

                if (!name)
                        return -ENOMEM;
                if (strcmp(name, "..") == 0)
                        return -EXDEV;
                next = open_child(fd, name);
                close_fd(&fd);
                fd = next;
                path += length + (path[length] == '/');
        }
        return take_fd(&fd);
}

int cgroup_dir_open(int dirfd, const char *path) {
        int fd = open_beneath(dirfd, *path ? path : ".", DIRECTORY_FLAGS);

        if (fd == -EACCES || fd == -ENAMETOOLONG || lacks_openat2(fd))
                return open_by_components(dirfd, path);
        return fd;
}

/* Every cgroup has this file; a directory that was removed has nothing. */
static bool is_gone(int dirfd) {
        struct stat status;

        return fstatat(dirfd, "cgroup.procs", &status, AT_SYMLINK_NOFOLLOW) < 0 && (errno == ENOENT || errno == ENODEV);
}

static int tell_gone(int r, int dirfd) {
        return r == -ENOENT && is_gone(dirfd) ? -ENODEV : r;
}

static int open_file(int dirfd, const char *file, int flags) {
        int fd = openat(dirfd, file, flags | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW);

        return fd < 0 ? -errno : fd;
}

int cgroup_dir_open_file(int dirfd, const char *file, int flags) {
        int fd = open_file(dirfd, file, flags);

        if (fd == -EACCES && cgroup_dir_open_up(dirfd, file))
                fd = open_file(dirfd, file, flags);
        return tell_gone(fd, dirfd);
}

int cgroup_dir_read(int dirfd, const char *file, char **ret_text) {
        int r = read_whole_file_at(dirfd, file, ret_text, NULL);

        if (r == -EACCES && cgroup_dir_open_up(dirfd, file))
                r = read_whole_file_at(dirfd, file, ret_text, NULL);
        return tell_gone(r, dirfd);
}

int cgroup_dir_write(int dirfd, const char *file, const char *text) {
        int r = write_file_at(dirfd, file, text);

        if (r == -EACCES && cgroup_dir_open_up(dirfd, file))
                r = write_file_at(dirfd, file, text);
        return tell_gone(r, dirfd);
}

/* ---- walk ------------------------------------------------------------------------------------------------------- */

/* One directory on the way from the top to where the walk is. */
struct level {
        char **names; /* its children */
        size_t next;
        ino_t inode;
        size_t path_length; /* of walk.path, up to and with this directory */
};

struct walk {
        int top_fd, fd; /* fd: of the deepest level */
        struct level *levels;
        size_t depth, allocated;
        char *path; /* of the deepest level, relative to the top */
        const struct cgroup_dir_visit *visit;
};

/* All else (gone meanwhile, another user's, something mounted on it) concerns that one directory alone. */
static bool ends_walk(int r) {
        return r == -EMFILE || r == -ENFILE || r == -ENOMEM;
}

static int list_children(int dirfd, char ***ret_names) {
        _cleanup_close_ int own = open_child(dirfd, "."); /* an offset of its own */
        _cleanup_dir_ DIR *dir = NULL;
        _cleanup_strv_ char **names = NULL;
        size_t n = 0, allocated = 0;
        struct dirent *entry;

        if (own < 0)
                return own;
        dir = fdopendir(own);
        if (!dir)
                return -errno;
        take_fd(&own);
        while ((entry = readdir(dir))) { /* cgroupfs always tells the type */
                if (entry->d_type != DT_DIR || strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
                        continue;
                if (n + 1 >= allocated) {
                        size_t larger = allocated ? allocated * 2 : 8;
                        char **moved = realloc(names, larger * sizeof(*names));

                        if (!moved)
                                return -ENOMEM;
                        names = moved;
                        allocated = larger;
                }
                names[n] = strdup(entry->d_name);
                names[n + 1] = NULL;
                if (!names[n])
                        return -ENOMEM;
                n++;
        }
        *ret_names = take_pointer(&names);
        return 0;
}

static int push_level(struct walk *walk, const struct level *level) {
        if (walk->depth == walk->allocated) {
                size_t larger = walk->allocated ? walk->allocated * 2 : 8;
                struct level *moved = realloc(walk->levels, larger * sizeof(*moved));

                if (!moved)
                        return -ENOMEM;
                walk->levels = moved;
                walk->allocated = larger;
        }
        walk->levels[walk->depth++] = *level;
        return 0;
}

/* Goes into the directory that fd (taken over) stands for. */
static int descend(struct walk *walk, int fd, const char *name) {
        _cleanup_close_ int owned = fd;
        _cleanup_strv_ char **names = NULL;
        _cleanup_free_ char *path = walk->path && *walk->path ? format("%s/%s", walk->path, name) : strdup(name);
        struct level level;
        struct stat status;
        int r;

        if (!path)
                return -ENOMEM;
        if (fstat(owned, &status) < 0)
                return -errno;
        if (walk->visit->enter) {
                r = walk->visit->enter(walk->visit->userdata, owned, path);
                if (r < 0)
                        return r;
        }
        if (status.st_nlink > 2) { /* cgroupfs counts subdirectories */
                r = list_children(owned, &names);
                if (ends_walk(r))
                        return r;
        }
        level = (struct level){ .names = names, .inode = status.st_ino, .path_length = strlen(path) };
        r = push_level(walk, &level);
        if (r < 0)
                return r;
        take_pointer(&names);
        free(walk->path);
        walk->path = take_pointer(&path);
        close_fd(&walk->fd);
        walk->fd = take_fd(&owned);
        return 0;
}

/* Opens the deepest level again, after one below it was left: by "..", which cannot lead elsewhere, since cgroups are never
 * moved; from the top where that fails. */
static int reopen_level(struct walk *walk) {
        const struct level *level = &walk->levels[walk->depth - 1];
        int fd = openat(walk->fd, "..", DIRECTORY_FLAGS);
        struct stat status;

        if (fd >= 0 && (fstat(fd, &status) < 0 || status.st_ino != level->inode))
                close_fd(&fd);
        if (fd < 0)
                fd = cgroup_dir_open(walk->top_fd, walk->path);
        return fd;
}

/* Leaves the deepest level. Ancestors that cannot be opened any more are left, too. */
static int ascend(struct walk *walk) {
        for (;;) {
                _cleanup_free_ char *name = NULL;
                struct level *level = &walk->levels[--walk->depth];
                int fd;

                strv_free(level->names);
                if (walk->depth == 0)
                        return 0;
                name = strdup(walk->path + walk->levels[walk->depth - 1].path_length + (walk->depth > 1));
                if (!name)
                        return -ENOMEM;
                walk->path[walk->levels[walk->depth - 1].path_length] = '\0';
                fd = reopen_level(walk);
                if (ends_walk(fd))
                        return fd;
                if (fd < 0)
                        continue;
                close_fd(&walk->fd);
                walk->fd = fd;
                return walk->visit->leave ? walk->visit->leave(walk->visit->userdata, fd, name) : 0;
        }
}

static int walk_on(struct walk *walk) {
        struct level *level = &walk->levels[walk->depth - 1];
        const char *name = level->names ? level->names[level->next] : NULL;
        int fd;

        if (!name)
                return ascend(walk);
        level->next++;
        fd = open_child(walk->fd, name);
        if (fd >= 0)
                return descend(walk, fd, name);
        if (ends_walk(fd))
                return fd;
        return walk->visit->leave ? walk->visit->leave(walk->visit->userdata, walk->fd, name) : 0;
}

int cgroup_dir_walk(int dirfd, const struct cgroup_dir_visit *visit) {
        struct walk walk = { .top_fd = dirfd, .fd = -1, .visit = visit };
        int r = open_child(dirfd, ".");

        if (r >= 0)
                r = descend(&walk, r, "");
        while (r >= 0 && walk.depth > 0)
                r = walk_on(&walk);

        while (walk.depth > 0)
                strv_free(walk.levels[--walk.depth].names);
        free(walk.levels);
        free(walk.path);
        close_fd(&walk.fd);
        return r < 0 ? r : 0;
}
