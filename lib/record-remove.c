/* SPDX-License-Identifier: MIT */
#include "record.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* By id alone, without reading it: for the helpers, which know nothing of JSON. */

/* NAME.name is a link to the same file. It goes first, so that a name is never without its record. */
static void remove_name(int dirfd, const struct stat *record) {
        int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        _cleanup_dir_ DIR *dir = fd < 0 ? NULL : fdopendir(fd);
        struct dirent *entry;
        while (dir && (entry = readdir(dir))) {
                const char *ending = strrchr(entry->d_name, '.');
                struct stat other;
                if (ending && strcmp(ending, ".name") == 0 &&
                        fstatat(dirfd, entry->d_name, &other, AT_SYMLINK_NOFOLLOW) >= 0 &&
                        other.st_ino == record->st_ino && other.st_dev == record->st_dev)
                        (void)unlinkat(dirfd, entry->d_name, 0);
        }
}

#define FILE_SIZE (sizeof(".") + ID_LENGTH + sizeof(".json"))

static int file_of(const char *before, const char *id, const char *ending, char ret_file[FILE_SIZE]) {
        if (!id_is_valid(id))
                return -EINVAL;
        (void)stpcpy(stpcpy(stpcpy(ret_file, before), id), ending);
        return 0;
}

int record_lock(int dirfd, const char *id, int *ret_fd) {
        char file[FILE_SIZE];
        int r = file_of("", id, ".json", file);
        if (r < 0)
                return r;
        _cleanup_close_ int fd = openat(dirfd, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
                return -errno;
        *ret_fd = take_fd(&fd);
        return 0;
}

int record_remove(int dirfd, const char *id) {
        char file[FILE_SIZE], temporary[FILE_SIZE];
        struct stat record;
        int r = file_of("", id, ".json", file);
        if (r < 0)
                return r;
        /* Its writer may have been killed half-way. */
        (void)file_of(".", id, ".tmp", temporary);
        (void)unlinkat(dirfd, temporary, 0);
        if (fstatat(dirfd, file, &record, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT ? 0 : -errno;
        if (record.st_nlink > 1)
                remove_name(dirfd, &record);
        return unlinkat(dirfd, file, 0) < 0 && errno != ENOENT ? -errno : 0;
}
