/* SPDX-License-Identifier: MIT */
#include "util.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

/* Linux 5.6: random bytes at once, even before the pool is filled at boot. An id needs to be unique, not secret. */
#ifndef GRND_INSECURE
#define GRND_INSECURE 0x0004
#endif

void cleanup_free(void *pointer) {
        void *memory;

        memcpy(&memory, pointer, sizeof(memory));
        free(memory);
}

void cleanup_close(int *fd) {
        close_fd(fd);
}

void cleanup_dir(DIR **dir) {
        int saved = errno;

        if (*dir)
                closedir(*dir);
        errno = saved;
}

void cleanup_file(FILE **file) {
        int saved = errno;

        if (*file)
                fclose(*file);
        errno = saved;
}

void cleanup_strv(char ***strings) {
        strv_free(*strings);
}

int take_fd(int *fd) {
        int taken = *fd;

        *fd = -1;
        return taken;
}

void *take_pointer(void *pointer_to_pointer) {
        void *taken, *empty = NULL;

        memcpy(&taken, pointer_to_pointer, sizeof(taken));
        memcpy(pointer_to_pointer, &empty, sizeof(empty));
        return taken;
}

void close_fd(int *fd) {
        int saved = errno;

        if (*fd >= 0)
                close(take_fd(fd)); /* never again on EINTR: the kernel has let go of the number already */
        *fd = -1;
        errno = saved;
}

static uint64_t clock_usec(clockid_t clock) {
        struct timespec now = { 0 };

        clock_gettime(clock, &now);
        return (uint64_t)now.tv_sec * USEC_PER_SEC + (uint64_t)now.tv_nsec / 1000;
}

uint64_t now_usec(void) {
        return clock_usec(CLOCK_MONOTONIC);
}

uint64_t now_realtime_usec(void) {
        return clock_usec(CLOCK_REALTIME);
}

uint64_t usec_add(uint64_t a, uint64_t b) {
        return a > USEC_FOREVER - b ? USEC_FOREVER : a + b;
}

static ssize_t read_retrying(int fd, void *buffer, size_t size) {
        ssize_t n;

        do
                n = read(fd, buffer, size);
        while (n < 0 && errno == EINTR);
        return n < 0 ? -errno : n;
}

ssize_t read_file_at(int dirfd, const char *path, char *buffer, size_t size) {
        _cleanup_close_ int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        size_t length = 0;
        ssize_t n;

        if (fd < 0)
                return -errno;
        for (;;) {
                if (length == size)
                        return -EFBIG;
                n = read_retrying(fd, buffer + length, size - length);
                if (n < 0)
                        return n;
                if (n == 0)
                        break;
                length += (size_t)n;
        }
        buffer[length] = '\0';
        return (ssize_t)length;
}

ssize_t read_fd_again(int fd, char *buffer, size_t size) {
        ssize_t n;

        do
                n = pread(fd, buffer, size, 0);
        while (n < 0 && errno == EINTR);
        if (n < 0)
                return -errno;
        if ((size_t)n == size)
                return -EFBIG;
        buffer[n] = '\0';
        return n;
}

int read_whole_file_at(int dirfd, const char *path, char **ret_text, size_t *ret_size) {
        _cleanup_close_ int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        _cleanup_free_ char *text = NULL;
        size_t length = 0, allocated = 0;

        if (fd < 0)
                return -errno;
        for (;;) {
                ssize_t n;

                if (allocated - length < 2) {
                        char *larger = realloc(text, allocated ? allocated * 2 : 4096);

                        if (!larger)
                                return -ENOMEM;
                        text = larger;
                        allocated = allocated ? allocated * 2 : 4096;
                }
                n = read_retrying(fd, text + length, allocated - length - 1);
                if (n < 0)
                        return (int)n;
                if (n == 0)
                        break;
                length += (size_t)n;
        }
        text[length] = '\0';
        *ret_text = take_pointer(&text);
        if (ret_size)
                *ret_size = length;
        return 0;
}

int write_file_at(int dirfd, const char *path, const char *text) {
        _cleanup_close_ int fd = openat(dirfd, path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
        size_t length = strlen(text);
        ssize_t n;

        if (fd < 0)
                return -errno;
        do
                n = write(fd, text, length);
        while (n < 0 && errno == EINTR);
        if (n < 0)
                return -errno;
        return (size_t)n == length ? 0 : -EIO;
}

int parse_u64(const char *text, uint64_t *ret_value) {
        uint64_t value = 0;

        if (!*text)
                return -EINVAL;
        for (; *text; text++) {
                uint64_t digit = (uint64_t)(*text - '0');

                if (*text < '0' || *text > '9')
                        return -EINVAL;
                if (value > (UINT64_MAX - digit) / 10)
                        return -ERANGE;
                value = value * 10 + digit;
        }
        *ret_value = value;
        return 0;
}

int parse_pid(const char *text, pid_t *ret_pid) {
        uint64_t value;
        int r = parse_u64(text, &value);

        if (r < 0)
                return r;
        if (value <= 1 || value > INT_MAX)
                return -ERANGE;
        *ret_pid = (pid_t)value;
        return 0;
}

size_t strv_length(const char *const strings[]) {
        size_t n = 0;

        while (strings && strings[n])
                n++;
        return n;
}

char **strv_copy(const char *const strings[]) {
        size_t n = strv_length(strings);
        _cleanup_strv_ char **copy = calloc(n + 1, sizeof(*copy));

        if (!copy)
                return NULL;
        for (size_t i = 0; i < n; i++) {
                copy[i] = strdup(strings[i]);
                if (!copy[i])
                        return NULL;
        }
        return take_pointer(&copy);
}

void strv_free(char **strings) {
        for (char **s = strings; s && *s; s++)
                free(*s);
        free(strings);
}

static const char id_alphabet[] = "0123456789abcdefghjkmnpqrstvwxyz";

int id_random(char ret_id[ID_LENGTH + 1]) {
        unsigned char bytes[ID_LENGTH]; /* 5 of each 8 bits are used */
        ssize_t n;

        do {
                n = getrandom(bytes, sizeof(bytes), GRND_INSECURE);
                if (n < 0 && errno == EINVAL)
                        n = getrandom(bytes, sizeof(bytes), 0);
        } while (n < 0 && errno == EINTR);
        if (n < 0)
                return -errno;
        for (size_t i = 0; i < ID_LENGTH; i++)
                ret_id[i] = id_alphabet[bytes[i] & 31];
        ret_id[ID_LENGTH] = '\0';
        return 0;
}

bool id_is_valid(const char *text) {
        return strspn(text, id_alphabet) == ID_LENGTH && text[ID_LENGTH] == '\0';
}

char *format(const char *template, ...) {
        char *text = NULL;
        va_list arguments;
        int n;

        va_start(arguments, template);
        n = vasprintf(&text, template, arguments);
        va_end(arguments);
        return n < 0 ? NULL : text;
}
