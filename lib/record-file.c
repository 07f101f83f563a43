/* SPDX-License-Identifier: MIT */
#include "record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define TIDY_AGE_USEC (10 * USEC_PER_SEC)

/* ID.json, NAME.name, or .ID.tmp while it is being written. */
#define FILE_NAME_SIZE (RECORD_NAME_MAX + sizeof(".name"))

struct file_name {
        char text[FILE_NAME_SIZE];
};

static struct file_name file_of_id(const char *id) {
        struct file_name file;

        snprintf(file.text, sizeof(file.text), "%s.json", id);
        return file;
}

static struct file_name file_of_name(const char *name) {
        struct file_name file;

        snprintf(file.text, sizeof(file.text), "%s.name", name);
        return file;
}

static bool has_suffix(const char *text, const char *suffix) {
        size_t length = strlen(text), n = strlen(suffix);

        return length > n && strcmp(text + length - n, suffix) == 0;
}

/* ---- writing -------------------------------------------------------------------------------------------- */

static int write_all(int fd, const char *text, size_t size) {
        while (size > 0) {
                ssize_t n = write(fd, text, size);

                if (n < 0) {
                        if (errno == EINTR)
                                continue;
                        return -errno;
                }
                text += n;
                size -= (size_t)n;
        }
        return 0;
}

/* The lock, held as long as the fd is open, tells record_tidy() that the writer lives. */
static int write_temporary(int dirfd, const char *file, const char *text, int *ret_fd) {
        _cleanup_close_ int fd = openat(dirfd, file, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        int r;

        if (fd < 0)
                return -errno;
        flock(fd, LOCK_EX | LOCK_NB);
        r = fchmod(fd, 0600) < 0 ? -errno : write_all(fd, text, strlen(text)); /* whatever the umask says */
        if (r < 0) {
                unlinkat(dirfd, file, 0);
                return r;
        }
        *ret_fd = take_fd(&fd);
        return 0;
}

static int link_names(int dirfd, const char *temporary, const struct record *record) {
        struct file_name file = file_of_id(record->id), name;
        int r;

        if (linkat(dirfd, temporary, dirfd, file.text, 0) < 0)
                return -errno;
        if (!record->name)
                return 0;
        name = file_of_name(record->name);
        if (linkat(dirfd, temporary, dirfd, name.text, 0) >= 0)
                return 0;
        r = -errno;
        unlinkat(dirfd, file.text, 0);
        return r;
}

int record_write(int dirfd, const struct record *record) {
        _cleanup_close_ int fd = -1;
        _cleanup_free_ char *text = NULL;
        struct file_name temporary;
        int r;

        if (record_check(record))
                return -EINVAL;
        r = record_format(record, &text);
        if (r < 0)
                return r;
        snprintf(temporary.text, sizeof(temporary.text), ".%s.tmp", record->id);
        r = write_temporary(dirfd, temporary.text, text, &fd);
        if (r < 0)
                return r;
        r = link_names(dirfd, temporary.text, record);
        unlinkat(dirfd, temporary.text, 0);
        return r;
}

/* ---- reading -------------------------------------------------------------------------------------------- */

static const char *check_file(int fd, struct stat *ret_stat) {
        if (fstat(fd, ret_stat) < 0 || !S_ISREG(ret_stat->st_mode))
                return "it is not a regular file";
        if (ret_stat->st_uid != geteuid())
                return "it belongs to another user";
        if (ret_stat->st_mode & (S_IWGRP | S_IWOTH))
                return "others may write to it";
        if (ret_stat->st_size > RECORD_MAX_SIZE)
                return "it is larger than any record";
        return NULL;
}

/* O_NONBLOCK: neither a FIFO nor a lease may hold us. */
static int open_record(int dirfd, const char *file, const char **ret_problem) {
        int fd = openat(dirfd, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

        if (fd >= 0)
                return fd;
        switch (errno) {
        case ENOENT:
        case ENOMEM:
        case EMFILE:
        case ENFILE: return -errno;
        case ELOOP:
        case ENXIO: *ret_problem = "it is not a regular file"; return -EBADMSG;
        case EAGAIN: *ret_problem = "somebody holds a lease on it"; return -EBADMSG;
        default: *ret_problem = "it cannot be opened"; return -EBADMSG;
        }
}

/* Up to size - 1 bytes; what is longer is not a record. */
static ssize_t read_up_to(int fd, char *buffer, size_t size) {
        size_t length = 0;

        while (length < size) {
                ssize_t n = read(fd, buffer + length, size - length);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                if (n == 0)
                        break;
                length += (size_t)n;
        }
        return (ssize_t)length;
}

static int read_checked(int dirfd, const char *file, struct record *ret_record, const char **ret_problem) {
        _cleanup_close_ int fd = open_record(dirfd, file, ret_problem);
        _cleanup_free_ char *text = NULL;
        struct stat st;
        ssize_t n;

        if (fd < 0)
                return fd;
        *ret_problem = check_file(fd, &st);
        if (*ret_problem)
                return -EBADMSG;
        text = malloc((size_t)st.st_size + 1);
        if (!text)
                return -ENOMEM;
        n = read_up_to(fd, text, (size_t)st.st_size + 1);
        if (n != st.st_size) {
                *ret_problem = "it cannot be read";
                return -EBADMSG;
        }
        return record_parse(text, (size_t)n, ret_record, ret_problem);
}

int record_read_id(int dirfd, const char *id, struct record *ret_record, const char **ret_problem) {
        struct file_name file = file_of_id(id);
        struct record record;
        int r = read_checked(dirfd, file.text, &record, ret_problem);

        if (r < 0)
                return r;
        if (strcmp(record.id, id) != 0) {
                record_done(&record);
                *ret_problem = "its id is not that of its file name";
                return -EBADMSG;
        }
        *ret_record = record;
        return 0;
}

int record_read(int dirfd, const char *file, struct record *ret_record, const char **ret_problem) {
        char id[ID_LENGTH + 1] = "";

        if (strlen(file) == ID_LENGTH + strlen(".json") && has_suffix(file, ".json"))
                memcpy(id, file, ID_LENGTH);
        if (!id_is_valid(id)) {
                *ret_problem = "its file name is not that of a record";
                return -EBADMSG;
        }
        return record_read_id(dirfd, id, ret_record, ret_problem);
}

int record_read_name(int dirfd, const char *name, struct record *ret_record, const char **ret_problem) {
        struct file_name file = file_of_name(name);
        struct record record;
        char id[ID_LENGTH + 1];
        int r;

        if (!record_name_is_valid(name))
                return -ENOENT;
        /* The name is but a second link; the record is ID.json, which may be gone already. */
        r = read_checked(dirfd, file.text, &record, ret_problem);
        if (r < 0)
                return r;
        memcpy(id, record.id, sizeof(id));
        record_done(&record);
        r = record_read_id(dirfd, id, &record, ret_problem);
        if (r < 0)
                return r;
        if (!record.name || strcmp(record.name, name) != 0) {
                record_done(&record);
                *ret_problem = "its name is not that of its file name";
                return -EBADMSG;
        }
        *ret_record = record;
        return 0;
}

/* ---- removing ------------------------------------------------------------------------------------------- */

static bool is_same_file(int dirfd, const char *a, const char *b) {
        struct stat x, y;

        return fstatat(dirfd, a, &x, AT_SYMLINK_NOFOLLOW) == 0 && fstatat(dirfd, b, &y, AT_SYMLINK_NOFOLLOW) == 0 &&
               x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

int record_unlink(int dirfd, const char *id, const char *name) {
        struct file_name file = file_of_id(id);

        if (name && record_name_is_valid(name)) {
                struct file_name other = file_of_name(name);

                if (is_same_file(dirfd, other.text, file.text))
                        unlinkat(dirfd, other.text, 0);
        }
        return unlinkat(dirfd, file.text, 0) < 0 && errno != ENOENT ? -errno : 0;
}

/* A new file may not be locked yet: hence the age. */
static bool is_abandoned(int dirfd, const char *file) {
        _cleanup_close_ int fd = openat(dirfd, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        uint64_t now = now_realtime_usec(), changed;
        struct stat st;

        if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
                return false;
        changed = (uint64_t)st.st_mtim.tv_sec * USEC_PER_SEC + (uint64_t)st.st_mtim.tv_nsec / 1000;
        return usec_add(changed, TIDY_AGE_USEC) < now && flock(fd, LOCK_EX | LOCK_NB) == 0;
}

/* A name is linked after its record and unlinked before it: the last link of a file is not a name. */
static bool is_dangling(int dirfd, const char *file) {
        struct stat st;

        return fstatat(dirfd, file, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 1;
}

int record_tidy(int dirfd) {
        _cleanup_close_ int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        _cleanup_dir_ DIR *dir = NULL;
        struct dirent *entry;

        if (fd < 0)
                return -errno;
        /* One at a time: between a look and the unlink of another, a new record could have taken the name. */
        if (flock(fd, LOCK_EX | LOCK_NB) < 0)
                return errno == EWOULDBLOCK ? 0 : -errno;
        dir = fdopendir(fd);
        if (!dir)
                return -errno;
        fd = -1; /* belongs to dir now */
        while ((entry = readdir(dir))) {
                const char *file = entry->d_name;

                if ((file[0] == '.' && has_suffix(file, ".tmp") && is_abandoned(dirfd, file)) ||
                        (has_suffix(file, ".name") && is_dangling(dirfd, file)))
                        unlinkat(dirfd, file, 0);
        }
        return 0;
}
