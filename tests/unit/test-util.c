/* SPDX-License-Identifier: MIT */
#include "util.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "scratch.h"

START_TEST(test_cleanup) {
        int fds[2], kept;
        char byte;

        ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
        {
                _cleanup_close_ int closed = fds[1];
                _cleanup_free_ char *text = strdup("text");
                _cleanup_free_ char *none = NULL;
                _cleanup_close_ int negative = -1;
                _cleanup_dir_ DIR *dir = opendir("/");
                _cleanup_dir_ DIR *no_dir = NULL;
                _cleanup_file_ FILE *file = fopen("/dev/null", "re");
                _cleanup_file_ FILE *no_file = NULL;
                _cleanup_strv_ char **strings = strv_copy((const char *const[]){ "a", "b", NULL });

                ck_assert(
                        closed >= 0 && text && !none && negative < 0 && dir && !no_dir && file && !no_file && strings);
                errno = EDOM;
        }
        ck_assert_int_eq(errno, EDOM);
        ck_assert_int_eq(read(fds[0], &byte, 1), 0); /* nobody holds the writing end any more */

        kept = fds[0];
        ck_assert_int_eq(take_fd(&fds[0]), kept);
        ck_assert_int_eq(fds[0], -1);
        errno = EDOM;
        close_fd(&kept);
        close_fd(&kept);
        ck_assert_int_eq(kept, -1);
        ck_assert_int_eq(errno, EDOM);
}
END_TEST

START_TEST(test_take_pointer) {
        char *text = strdup("text"), *taken = take_pointer(&text);

        ck_assert_ptr_null(text);
        ck_assert_str_eq(taken, "text");
        free(taken);
}
END_TEST

START_TEST(test_time) {
        uint64_t before = now_usec();

        ck_assert_uint_gt(before, 0);
        ck_assert_uint_ge(now_usec(), before);
        ck_assert_uint_gt(now_realtime_usec(), UINT64_C(1600000000) * USEC_PER_SEC);
        ck_assert_uint_eq(usec_add(1, 2), 3);
        ck_assert_uint_eq(usec_add(USEC_FOREVER, 0), USEC_FOREVER);
        ck_assert_uint_eq(usec_add(0, USEC_FOREVER), USEC_FOREVER);
        ck_assert_uint_eq(usec_add(USEC_FOREVER, USEC_FOREVER), USEC_FOREVER);
        ck_assert_uint_eq(usec_add(USEC_FOREVER - 1, 2), USEC_FOREVER);
        ck_assert_uint_eq(usec_add(USEC_FOREVER - 3, 2), USEC_FOREVER - 1);
}
END_TEST

START_TEST(test_read_file) {
        _cleanup_close_ int dir = scratch_open(NULL, 0);
        char buffer[6];

        scratch_write(dir, "five", "12345", 5, 0600);
        scratch_write(dir, "six", "123456", 6, 0600);
        scratch_write(dir, "empty", "", 0, 0600);
        ck_assert_int_eq(read_file_at(dir, "five", buffer, sizeof(buffer)), 5);
        ck_assert_str_eq(buffer, "12345");
        ck_assert_int_eq(read_file_at(dir, "empty", buffer, sizeof(buffer)), 0);
        ck_assert_str_eq(buffer, "");
        ck_assert_int_eq(read_file_at(dir, "six", buffer, sizeof(buffer)), -EFBIG);
        ck_assert_int_eq(read_file_at(dir, "missing", buffer, sizeof(buffer)), -ENOENT);
        ck_assert_int_eq(read_file_at(dir, ".", buffer, sizeof(buffer)), -EISDIR);
        ck_assert_int_eq(read_file_at(-1, "five", buffer, sizeof(buffer)), -EBADF);
}
END_TEST

START_TEST(test_read_fd_again) {
        _cleanup_close_ int dir = scratch_open(NULL, 0), fd = -1;
        char buffer[6];

        scratch_write(dir, "five", "12345", 5, 0600);
        fd = openat(dir, "five", O_RDWR | O_CLOEXEC);
        for (int i = 0; i < 2; i++) {
                ck_assert_int_eq(read_fd_again(fd, buffer, sizeof(buffer)), 5);
                ck_assert_str_eq(buffer, "12345");
        }
        ck_assert_int_eq(pwrite(fd, "67", 2, 4), 2);
        ck_assert_int_eq(read_fd_again(fd, buffer, sizeof(buffer)), -EFBIG);
        ck_assert_int_eq(read_fd_again(-1, buffer, sizeof(buffer)), -EBADF);
}
END_TEST

START_TEST(test_read_whole_file) {
        _cleanup_close_ int dir = scratch_open(NULL, 0);
        _cleanup_free_ char *large = malloc(100000), *text = NULL, *of_kernel = NULL, *untouched = NULL;
        size_t size;

        memset(large, 'x', 100000);
        large[99999] = '\0';
        for (size_t n = 4094; n < 100000; n = n < 4098 ? n + 1 : n * 5) {
                scratch_write(dir, "file", large, n, 0600);
                ck_assert_int_eq(read_whole_file_at(dir, "file", &text, &size), 0);
                ck_assert_uint_eq(size, n);
                ck_assert_uint_eq(strlen(text), n);
                free(take_pointer(&text));
                ck_assert_int_eq(unlinkat(dir, "file", 0), 0);
        }
        ck_assert_int_eq(read_whole_file_at(AT_FDCWD, "/proc/self/status", &of_kernel, NULL), 0);
        ck_assert_ptr_nonnull(strstr(of_kernel, "Pid:"));
        ck_assert_int_eq(read_whole_file_at(dir, "missing", &untouched, &size), -ENOENT);
        ck_assert_ptr_null(untouched);
}
END_TEST

START_TEST(test_write_file) {
        _cleanup_close_ int dir = scratch_open(NULL, 0);
        char buffer[8];

        scratch_write(dir, "file", "", 0, 0600);
        ck_assert_int_eq(write_file_at(dir, "file", "text"), 0);
        ck_assert_int_eq(read_file_at(dir, "file", buffer, sizeof(buffer)), 4);
        ck_assert_str_eq(buffer, "text");
        ck_assert_int_eq(write_file_at(dir, "missing", "text"), -ENOENT); /* never made */
        ck_assert(!scratch_has(dir, "missing"));
        ck_assert_int_eq(write_file_at(AT_FDCWD, "/dev/full", "text"), -ENOSPC);
}
END_TEST

static const struct {
        const char *text;
        int r;
        uint64_t value;
} numbers[] = {
        { "0", 0, 0 },
        { "00017", 0, 17 },
        { "18446744073709551615", 0, UINT64_MAX },
        { "18446744073709551616", -ERANGE, 0 },
        { "18446744073709551620", -ERANGE, 0 },
        { "99999999999999999999999", -ERANGE, 0 },
        { "", -EINVAL, 0 },
        { "-1", -EINVAL, 0 },
        { "+1", -EINVAL, 0 },
        { " 1", -EINVAL, 0 },
        { "1 ", -EINVAL, 0 },
        { "1\n", -EINVAL, 0 },
        { "0x10", -EINVAL, 0 },
        { "1/", -EINVAL, 0 },
        { "1:", -EINVAL, 0 },
};

START_TEST(test_parse_u64) {
        uint64_t value = 4711;

        ck_assert_msg(parse_u64(numbers[_i].text, &value) == numbers[_i].r, "'%s'", numbers[_i].text);
        ck_assert_uint_eq(value, numbers[_i].r == 0 ? numbers[_i].value : 4711);
}
END_TEST

START_TEST(test_parse_pid) {
        static const char *const refused[] = { "0", "1", "-1", "-2", "2147483648", "4294967298", "", "2 " };
        pid_t pid = 4711;

        for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
                ck_assert_msg(parse_pid(refused[i], &pid) < 0, "'%s'", refused[i]);
        ck_assert_int_eq(pid, 4711);
        ck_assert_int_eq(parse_pid("2", &pid), 0);
        ck_assert_int_eq(pid, 2);
        ck_assert_int_eq(parse_pid("2147483647", &pid), 0);
        ck_assert_int_eq(pid, 2147483647);
}
END_TEST

START_TEST(test_strv) {
        const char *const strings[] = { "one", "", "three", NULL };
        _cleanup_strv_ char **copy = strv_copy(strings), **empty = strv_copy(NULL);

        ck_assert_uint_eq(strv_length(NULL), 0);
        ck_assert_uint_eq(strv_length(strings), 3);
        for (size_t i = 0; i < 3; i++) {
                ck_assert_str_eq(copy[i], strings[i]);
                ck_assert_ptr_ne(copy[i], strings[i]);
        }
        ck_assert_ptr_null(copy[3]);
        ck_assert_ptr_null(empty[0]);
        strv_free(NULL);
}
END_TEST

START_TEST(test_id) {
        static const char *const bad[] = { "", "v7k2m9q4x1c8r5t", "v7k2m9q4x1c8r5t00", "V7k2m9q4x1c8r5t0",
                "i7k2m9q4x1c8r5t0", "l7k2m9q4x1c8r5t0", "o7k2m9q4x1c8r5t0", "u7k2m9q4x1c8r5t0", "../../../../../..",
                "v7k2m9q4x1c8r5t/", "v7k2m9q4x1c8r5t\n" };
        char id[ID_LENGTH + 1], last[ID_LENGTH + 1] = "";
        bool seen[128] = { 0 };
        size_t n_seen = 0;

        ck_assert(id_is_valid("v7k2m9q4x1c8r5t0"));
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
                ck_assert_msg(!id_is_valid(bad[i]), "'%s'", bad[i]);
        for (size_t i = 0; i < 500; i++) {
                ck_assert_int_eq(id_random(id), 0);
                ck_assert_msg(id_is_valid(id), "'%s'", id);
                ck_assert_str_ne(id, last);
                strcpy(last, id);
                for (const char *c = id; *c; c++) {
                        n_seen += !seen[(unsigned char)*c];
                        seen[(unsigned char)*c] = true;
                }
        }
        ck_assert_uint_eq(n_seen, 32);
}
END_TEST

START_TEST(test_format) {
        _cleanup_free_ char *text = format("%s-%d", "a", 7);

        ck_assert_str_eq(text, "a-7");
}
END_TEST

int main(void) {
        Suite *suite = suite_create("util");
        TCase *tcase = tcase_create("util");
        SRunner *runner = srunner_create(suite);
        int failed;

        tcase_add_unchecked_fixture(tcase, scratch_make, scratch_remove);
        tcase_add_test(tcase, test_cleanup);
        tcase_add_test(tcase, test_take_pointer);
        tcase_add_test(tcase, test_time);
        tcase_add_test(tcase, test_read_file);
        tcase_add_test(tcase, test_read_fd_again);
        tcase_add_test(tcase, test_read_whole_file);
        tcase_add_test(tcase, test_write_file);
        tcase_add_loop_test(tcase, test_parse_u64, 0, sizeof(numbers) / sizeof(numbers[0]));
        tcase_add_test(tcase, test_parse_pid);
        tcase_add_test(tcase, test_strv);
        tcase_add_test(tcase, test_id);
        tcase_add_test(tcase, test_format);
        suite_add_tcase(suite, tcase);
        srunner_run_all(runner, CK_NORMAL);
        failed = srunner_ntests_failed(runner);
        srunner_free(runner);
        return failed == 0 ? 0 : 1;
}
