/* SPDX-License-Identifier: MIT */
#include "records.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- one directory -------------------------------------------------------------------------------------- */

/* A directory that may hold records: `name` below `parent`. */
struct place {
        const char *parent; /* NULL: `name` is a whole path */
        bool of_ours;       /* the parent has to be ours too */
        char *name;
};

static int check_directory(int fd) {
        struct stat st;

        if (fstat(fd, &st) < 0)
                return -errno;
        return st.st_uid != geteuid() || (st.st_mode & (S_IWGRP | S_IWOTH)) ? -EPERM : 0;
}

static int open_parent(const struct place *place, int *ret_fd) {
        _cleanup_close_ int fd = -1;
        struct stat st;

        if (!place->parent) {
                *ret_fd = AT_FDCWD;
                return 0;
        }
        fd = open(place->parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0)
                return -errno;
        if (place->of_ours && st.st_uid != geteuid())
                return -EPERM;
        *ret_fd = take_fd(&fd);
        return 0;
}

static int open_below(int parent_fd, const char *name, bool create, int *ret_fd) {
        bool made = create && mkdirat(parent_fd, name, 0700) >= 0;
        _cleanup_close_ int fd = -1;
        int r;

        if (create && !made && errno != EEXIST)
                return -errno;
        fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        r = check_directory(fd);
        if (r < 0)
                return r;
        if (made && fchmod(fd, 0700) < 0) /* whatever the umask says */
                return -errno;
        if (create && faccessat(fd, ".", W_OK | X_OK, AT_EACCESS) < 0)
                return -errno;
        *ret_fd = take_fd(&fd);
        return 0;
}

static int place_open(const struct place *place, bool create, int *ret_fd) {
        int parent_fd, r = open_parent(place, &parent_fd);

        if (r < 0)
                return r;
        r = open_below(parent_fd, place->name, create, ret_fd);
        if (parent_fd != AT_FDCWD)
                close_fd(&parent_fd);
        return r;
}

static char *place_path(const struct place *place) {
        return place->parent ? format("%s/%s", place->parent, place->name) : strdup(place->name);
}

static bool place_is_ours(const char *path) {
        struct stat st;

        return lstat(path, &st) == 0 && st.st_uid == geteuid();
}

/* ---- all of them ---------------------------------------------------------------------------------------- */

#define PLACES_MAX 4

struct places {
        struct place place[PLACES_MAX];
        size_t n;
        bool asked_for; /* by argument or environment: there is no other */
};

static void places_done(struct places *places) {
        for (size_t i = 0; i < places->n; i++)
                free(places->place[i].name);
}

static int places_add(struct places *places, const char *parent, bool of_ours, char *name) {
        if (!name)
                return -ENOMEM;
        places->place[places->n++] = (struct place){ .parent = parent, .of_ours = of_ours, .name = name };
        return 0;
}

/* Without the slashes at its end, behind which a symbolic link would be followed. */
static char *trim_slashes(const char *path) {
        size_t length = strlen(path);

        while (length > 1 && path[length - 1] == '/')
                length--;
        return strndup(path, length);
}

static int places_fill(struct places *places, const char *wanted) {
        const char *runtime = secure_getenv("XDG_RUNTIME_DIR");
        unsigned uid = geteuid();
        int r = 0;

        if (!wanted)
                wanted = secure_getenv("CGTREE_RECORDS");
        places->asked_for = wanted && *wanted;
        if (places->asked_for)
                return places_add(places, NULL, false, trim_slashes(wanted));
        if (uid == 0)
                r = places_add(places, "/run", false, strdup("cgtree"));
        if (r >= 0 && runtime && runtime[0] == '/')
                r = places_add(places, runtime, true, strdup("cgtree"));
        if (r >= 0)
                r = places_add(places, "/dev/shm", false, format("cgtree-%u", uid));
        if (r >= 0)
                r = places_add(places, "/tmp", false, format("cgtree-%u", uid));
        return r;
}

int records_open(const char *wanted, int *ret_dirfd, char **ret_path) {
        __attribute__((cleanup(places_done))) struct places places = { 0 };
        int r = places_fill(&places, wanted);

        *ret_path = NULL;
        if (r < 0)
                return r;
        r = -ENOENT;
        for (size_t i = 0; i < places.n; i++) {
                free(*ret_path);
                *ret_path = place_path(&places.place[i]);
                if (!*ret_path)
                        return -ENOMEM;
                r = place_open(&places.place[i], true, ret_dirfd);
                if (r >= 0)
                        return 0;
        }
        return r;
}

const char *records_error(int error) {
        switch (error) {
        case -ENOTDIR: return "it is not a directory, or a symbolic link";
        case -EPERM: return "it belongs to another user, or others may write to it";
        default: return NULL;
        }
}

static int visit(const struct places *places, const struct place *place, records_dir_fn fn, void *userdata) {
        _cleanup_free_ char *path = place_path(place);
        _cleanup_close_ int fd = -1;
        int r;

        if (!path)
                return -ENOMEM;
        r = place_open(place, false, &fd);
        if (r >= 0)
                return fn(userdata, fd, path);
        if (r == -ENOENT)
                return 0;
        if (places->asked_for)
                return r;
        return place_is_ours(path) ? fn(userdata, r, path) : 0;
}

int records_each_directory(const char *wanted, records_dir_fn fn, void *userdata) {
        __attribute__((cleanup(places_done))) struct places places = { 0 };
        int r = places_fill(&places, wanted);

        for (size_t i = 0; r == 0 && i < places.n; i++)
                r = visit(&places, &places.place[i], fn, userdata);
        return r;
}

/* ---- the records of one directory ----------------------------------------------------------------------- */

static int compare_names(const void *a, const void *b) {
        return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool is_record_name(const char *name) {
        size_t length = strlen(name);

        return length > strlen(".json") && strcmp(name + length - strlen(".json"), ".json") == 0;
}

static int list_names(int dirfd, char ***ret_names) {
        _cleanup_close_ int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        _cleanup_strv_ char **names = NULL;
        _cleanup_dir_ DIR *dir = NULL;
        size_t n = 0, allocated = 0;
        struct dirent *entry;

        dir = fd < 0 ? NULL : fdopendir(fd);
        if (!dir)
                return -errno;
        take_fd(&fd); /* it belongs to dir now */
        while (errno = 0, (entry = readdir(dir))) {
                if (!is_record_name(entry->d_name))
                        continue;
                if (n + 1 >= allocated) {
                        char **larger = reallocarray(names, allocated + 64, 2 * sizeof(*names));

                        if (!larger)
                                return -ENOMEM;
                        names = larger;
                        allocated = (allocated + 64) * 2;
                }
                names[n] = strdup(entry->d_name);
                if (!names[n++])
                        return -ENOMEM;
                names[n] = NULL;
        }
        if (errno != 0)
                return -errno;
        if (n > 0)
                qsort(names, n, sizeof(*names), compare_names);
        *ret_names = take_pointer(&names);
        return 0;
}

int records_each(int dirfd, records_fn fn, void *userdata) {
        _cleanup_strv_ char **names = NULL;
        int r = list_names(dirfd, &names);

        for (char **name = names; r == 0 && name && *name; name++) {
                struct record record = { 0 };
                const char *problem = NULL;

                r = record_read(dirfd, *name, &record, &problem);
                if (r == -ENOENT) { /* unlinked meanwhile */
                        r = 0;
                        continue;
                }
                if (r >= 0 || r == -EBADMSG)
                        r = fn(userdata, dirfd, *name, r < 0 ? NULL : &record, problem);
                record_done(&record);
        }
        return r;
}
