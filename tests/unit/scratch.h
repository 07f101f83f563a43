/* SPDX-License-Identifier: MIT */
#pragma once

/* A directory of a test program's own, made by its unchecked fixture and so removed also when a test fails. */

#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char scratch_path[64];

static inline void scratch_make(void) {
        strcpy(scratch_path, "/tmp/cgtree-test-XXXXXX");
        if (!mkdtemp(scratch_path)) {
                perror("mkdtemp");
                exit(1);
        }
}

static inline void scratch_empty(int dirfd) {
        DIR *dir = fdopendir(openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        struct dirent *entry;

        while (dir && (entry = readdir(dir))) {
                if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
                        continue;
                if (unlinkat(dirfd, entry->d_name, 0) < 0) {
                        int fd = openat(dirfd, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

                        if (fd >= 0) {
                                scratch_empty(fd);
                                close(fd);
                        }
                        unlinkat(dirfd, entry->d_name, AT_REMOVEDIR);
                }
        }
        if (dir)
                closedir(dir);
}

static inline void scratch_remove(void) {
        int fd = open(scratch_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (fd >= 0) {
                scratch_empty(fd);
                close(fd);
        }
        rmdir(scratch_path);
}

/* A new empty directory in it. */
static inline int scratch_open(char *ret_path, size_t size) {
        char path[96];
        int fd;

        snprintf(path, sizeof(path), "%s/XXXXXX", scratch_path);
        ck_assert_ptr_nonnull(mkdtemp(path));
        fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        ck_assert_int_ge(fd, 0);
        if (ret_path)
                snprintf(ret_path, size, "%s", path);
        return fd;
}

static inline void scratch_write(int dirfd, const char *file, const char *text, size_t size, mode_t mode) {
        int fd = openat(dirfd, file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);

        ck_assert_int_ge(fd, 0);
        ck_assert_int_eq(fchmod(fd, mode), 0);
        ck_assert_int_eq(write(fd, text, size), (ssize_t)size);
        close(fd);
}

/* How many names it holds. */
static inline size_t scratch_count(int dirfd) {
        DIR *dir = fdopendir(openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        size_t n = 0;

        ck_assert_ptr_nonnull(dir);
        while (readdir(dir))
                n++;
        closedir(dir);
        return n - 2;
}

static inline bool scratch_has(int dirfd, const char *file) {
        return faccessat(dirfd, file, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}
