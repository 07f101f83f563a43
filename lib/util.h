/* SPDX-License-Identifier: MIT */
#pragma once

/* What every file needs: cleanup attributes, time, small reads and writes, numbers. Depends on libc alone. */

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#define USEC_PER_SEC  UINT64_C(1000000)
#define USEC_PER_MSEC UINT64_C(1000)
#define USEC_FOREVER  UINT64_MAX

void cleanup_free(void *pointer);   /* frees *(void **)pointer */
void cleanup_close(int *fd);        /* closes if >= 0 */
void cleanup_dir(DIR **dir);        /* closedir if not NULL */
void cleanup_file(FILE **file);     /* fclose if not NULL */
void cleanup_strv(char ***strings); /* strv_free */

#define _cleanup_free_  __attribute__((cleanup(cleanup_free)))
#define _cleanup_close_ __attribute__((cleanup(cleanup_close)))
#define _cleanup_dir_   __attribute__((cleanup(cleanup_dir)))
#define _cleanup_file_  __attribute__((cleanup(cleanup_file)))
#define _cleanup_strv_  __attribute__((cleanup(cleanup_strv)))

/* Hands a value on: the variable is emptied, so that its cleanup does nothing. */
int take_fd(int *fd);
void *take_pointer(void *pointer_to_pointer);
/* close(2) that keeps errno; sets *fd to -1. */
void close_fd(int *fd);

uint64_t now_usec(void);          /* CLOCK_MONOTONIC */
uint64_t now_realtime_usec(void); /* CLOCK_REALTIME */
/* a + b, USEC_FOREVER when either is, or when it overflows. */
uint64_t usec_add(uint64_t a, uint64_t b);

/* Whole small file below a directory fd into buffer, NUL-terminated. Returns the length; -EFBIG when it does not fit. */
ssize_t read_file_at(int dirfd, const char *path, char *buffer, size_t size);
/* The same from offset 0 of an open fd (pread; for kernel files that are read again and again). */
ssize_t read_fd_again(int fd, char *buffer, size_t size);
/* Whole file of any size, malloc'd, NUL-terminated (kernel files report no size). */
int read_whole_file_at(int dirfd, const char *path, char **ret_text, size_t *ret_size);
/* One write(2) of the whole string to an existing file (kernel files): O_WRONLY, no create. */
int write_file_at(int dirfd, const char *path, const char *text);

/* Strict decimal: digits only, no sign, no blanks, no overflow. -EINVAL, -ERANGE. */
int parse_u64(const char *text, uint64_t *ret_value);
/* pid > 1 only: 0, 1 and negative numbers are never anybody's to signal. */
int parse_pid(const char *text, pid_t *ret_pid);

size_t strv_length(const char *const strings[]);
char **strv_copy(const char *const strings[]); /* NULL: out of memory */
void strv_free(char **strings);

/* 16 random characters of Crockford's base32 (80 bits), and a check of that form. */
#define ID_LENGTH 16
int id_random(char ret_id[ID_LENGTH + 1]);
bool id_is_valid(const char *text);

/* asprintf that returns NULL when out of memory. */
char *format(const char *template, ...) __attribute__((format(printf, 1, 2)));
