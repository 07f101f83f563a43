/* SPDX-License-Identifier: MIT */
#include "record.h"
#include "scratch.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#define ID    "v7k2m9q4x1c8r5t0"
#define OTHER "0000000000000001"

static const char record_text[] = "{\"version\":1,\"id\":\"" ID
                                  "\",\"boot_id\":\"01234567-89ab-cdef-0123-456789abcdef\",\"owner\":{\"pid\":4711},"
                                  "\"backend\":\"subtree\",\"cgroup\":\"/" ID "\",\"cgroup_id\":7}";

static struct record sample(const char *id, const char *name) {
        struct record record = {
                .owner = { .pid = 4711, .start_time = 1 },
                .owner_comm = strdup("sidecar"),
                .placement = CGTREE_PLACEMENT_SUBTREE,
                .cgroup = format("/cgtree-4711-k3/trees/%s", id),
                .cgroup_id = 305507,
                .name = name ? strdup(name) : NULL,
                .command = strdup("sleep"),
        };

        strcpy(record.id, id);
        strcpy(record.boot_id, "01234567-89ab-cdef-0123-456789abcdef");
        return record;
}

static int write_sample(int dirfd, const char *id, const char *name) {
        struct record record = sample(id, name);
        int r = record_write(dirfd, &record);

        record_done(&record);
        return r;
}

START_TEST(test_write_and_read) {
        _cleanup_close_ int dirfd = scratch_open(NULL, 0);
        struct record record;
        const char *problem;
        struct stat st;

        umask(0777);
        ck_assert_int_eq(write_sample(dirfd, ID, NULL), 0);
        ck_assert_uint_eq(scratch_count(dirfd), 1);
        ck_assert_int_eq(fstatat(dirfd, ID ".json", &st, 0), 0);
        ck_assert_uint_eq(st.st_mode, S_IFREG | 0600);
        ck_assert_uint_eq(st.st_nlink, 1);
        ck_assert_int_eq(record_read(dirfd, ID ".json", &record, &problem), 0);
        ck_assert_str_eq(record.id, ID);
        record_done(&record);
        ck_assert_int_eq(record_unlink(dirfd, ID, NULL), 0);
        ck_assert_uint_eq(scratch_count(dirfd), 0);
        ck_assert_int_eq(record_unlink(dirfd, ID, NULL), 0);
        ck_assert_int_eq(record_read(dirfd, ID ".json", &record, &problem), -ENOENT);
}
END_TEST

START_TEST(test_write_is_never_twice) {
        _cleanup_close_ int dirfd = scratch_open(NULL, 0);
        struct stat before, after;

        ck_assert_int_eq(write_sample(dirfd, ID, NULL), 0);
        ck_assert_int_eq(fstatat(dirfd, ID ".json", &before, 0), 0);
        ck_assert_int_eq(write_sample(dirfd, ID, NULL), -EEXIST);
        ck_assert_int_eq(fstatat(dirfd, ID ".json", &after, 0), 0);
        ck_assert_uint_eq(before.st_ino, after.st_ino);
        ck_assert_uint_eq(scratch_count(dirfd), 1);
}
END_TEST

START_TEST(test_names_are_unique) {
        _cleanup_close_ int dirfd = scratch_open(NULL, 0);
        struct record record;
        const char *problem;

        ck_assert_int_eq(write_sample(dirfd, ID, "one"), 0);
        ck_assert_uint_eq(scratch_count(dirfd), 2);
        ck_assert_int_eq(write_sample(dirfd, OTHER, "one"), -EEXIST);
        ck_assert_uint_eq(scratch_count(dirfd), 2);
        ck_assert_int_eq(record_read_name(dirfd, "one", &record, &problem), 0);
        ck_assert_str_eq(record.id, ID);
        record_done(&record);
        ck_assert_int_eq(record_read_name(dirfd, "two", &record, &problem), -ENOENT);
        ck_assert_int_eq(record_read_name(dirfd, "../one", &record, &problem), -ENOENT);

        ck_assert_int_eq(record_unlink(dirfd, ID, "one"), 0);
        ck_assert_uint_eq(scratch_count(dirfd), 0);
        ck_assert_int_eq(write_sample(dirfd, OTHER, "one"), 0);
        /* A record that only says it had that name does not take it along. */
        ck_assert_int_eq(write_sample(dirfd, ID, NULL), 0);
        ck_assert_int_eq(record_unlink(dirfd, ID, "one"), 0);
        ck_assert(scratch_has(dirfd, "one.name"));
}
END_TEST

START_TEST(test_insane_is_never_written) {
        _cleanup_close_ int dirfd = scratch_open(NULL, 0);
        struct record record = sample(ID, NULL);

        record.owner.pid = 1;
        ck_assert_int_eq(record_write(dirfd, &record), -EINVAL);
        ck_assert_uint_eq(scratch_count(dirfd), 0);
        record_done(&record);
}
END_TEST

static char *read_all(int dirfd, const char *file) {
        char *text;

        ck_assert_int_eq(read_whole_file_at(dirfd, file, &text, NULL), 0);
        return text;
}

START_TEST(test_disk_full) {
        char path[128];
        _cleanup_close_ int dirfd = scratch_open(path, sizeof(path));
        _cleanup_free_ char *before = NULL, *after = NULL;
        char filling[4096] = { 0 };
        int r, fd;

        if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) < 0 ||
                mount("tmpfs", path, "tmpfs", 0, "size=8k,mode=0700") < 0)
                return; /* needs root */
        close_fd(&dirfd);
        dirfd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        ck_assert_int_eq(write_sample(dirfd, ID, "one"), 0);
        before = read_all(dirfd, ID ".json");
        fd = openat(dirfd, "filling", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        while (write(fd, filling, sizeof(filling)) > 0)
                continue;
        close(fd);
        r = write_sample(dirfd, OTHER, "two");
        ck_assert_int_eq(r, -ENOSPC);
        ck_assert_uint_eq(scratch_count(dirfd), 3);
        after = read_all(dirfd, ID ".json");
        ck_assert_str_eq(before, after);
        umount2(path, MNT_DETACH);
}
END_TEST

/* ---- files that are not what they should be --------------------------------------------------------------- */

static void assert_bad(int dirfd, const char *file, const char *words) {
        struct record record = { .id = "untouched" };
        const char *problem = NULL;

        ck_assert_int_eq(record_read(dirfd, file, &record, &problem), -EBADMSG);
        ck_assert_ptr_nonnull(strstr(problem, words));
        ck_assert_str_eq(record.id, "untouched");
}

START_TEST(test_not_a_file) {
        _cleanup_close_ int dirfd = scratch_open(NULL, 0), s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        struct sockaddr_un address = { .sun_family = AF_UNIX };

        ck_assert_int_eq(write_sample(dirfd, OTHER, NULL), 0);
        ck_assert_int_eq(symlinkat(OTHER ".json", dirfd, "0000000000000002.json"), 0);
        assert_bad(dirfd, "0000000000000002.json", "regular");
        ck_assert_int_eq(mkfifoat(dirfd, "0000000000000003.json", 0600), 0);
        assert_bad(dirfd, "0000000000000003.json", "regular");
        ck_assert_int_eq(mkdirat(dirfd, "0000000000000004.json", 0700), 0);
        assert_bad(dirfd, "0000000000000004.json", "regular");
        snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/0000000000000005.json", dirfd);
        ck_assert_int_eq(bind(s, (struct sockaddr *)&address, sizeof(address)), 0);
        assert_bad(dirfd, "0000000000000005.json", "regular");
        assert_bad(dirfd, "notes.json", "file name");
        assert_bad(dirfd, "V7K2M9Q4X1C8R5T0.json", "file name");
        assert_bad(dirfd, "../" ID ".json", "file name");
}
END_TEST

START_TEST(test_not_trusted) {
        _cleanup_close_ int dirfd = scratch_open(NULL, 0);
        _cleanup_free_ char *large = calloc(1, 65 * 1024);

        scratch_write(dirfd, ID ".json", record_text, strlen(record_text), 0602);
        assert_bad(dirfd, ID ".json", "write");
        ck_assert_int_eq(fchmodat(dirfd, ID ".json", 0620, 0), 0);
        assert_bad(dirfd, ID ".json", "write");
        ck_assert_int_eq(fchmodat(dirfd, ID ".json", 0600, 0), 0);
        if (fchownat(dirfd, ID ".json", 65534, 65534, 0) == 0)
                assert_bad(dirfd, ID ".json", "another user");

        memset(large, ' ', 65 * 1024);
        memcpy(large, record_text, strlen(record_text));
        scratch_write(dirfd, "0000000000000002.json", large, 65 * 1024, 0600);
        assert_bad(dirfd, "0000000000000002.json", "larger");
        scratch_write(dirfd, OTHER ".json", record_text, strlen(record_text), 0600);
        assert_bad(dirfd, OTHER ".json", "its id");
        scratch_write(dirfd, "0000000000000003.json", "", 0, 0600);
        assert_bad(dirfd, "0000000000000003.json", "JSON");
}
END_TEST

START_TEST(test_lease_does_not_hold_us) {
        _cleanup_close_ int dirfd = scratch_open(NULL, 0), fd = -1;

        signal(SIGIO, SIG_IGN);
        ck_assert_int_eq(write_sample(dirfd, ID, NULL), 0);
        fd = openat(dirfd, ID ".json", O_RDWR | O_CLOEXEC);
        if (fcntl(fd, F_SETLEASE, F_WRLCK) < 0)
                return; /* a file system without leases */
        assert_bad(dirfd, ID ".json", "lease");
}
END_TEST

/* ---- tidying -------------------------------------------------------------------------------------------- */

static void set_age(int dirfd, const char *file, time_t seconds) {
        struct timespec times[2] = { { .tv_nsec = UTIME_NOW }, { 0 } };

        clock_gettime(CLOCK_REALTIME, &times[1]);
        times[1].tv_sec -= seconds;
        ck_assert_int_eq(utimensat(dirfd, file, times, 0), 0);
}

START_TEST(test_tidy) {
        _cleanup_close_ int dirfd = scratch_open(NULL, 0), held = -1;

        ck_assert_int_eq(write_sample(dirfd, ID, "live"), 0);
        ck_assert_int_eq(write_sample(dirfd, OTHER, "dangling"), 0);
        ck_assert_int_eq(unlinkat(dirfd, OTHER ".json", 0), 0);
        scratch_write(dirfd, ".young.tmp", "", 0, 0600);
        scratch_write(dirfd, ".old.tmp", "", 0, 0600);
        scratch_write(dirfd, ".held.tmp", "", 0, 0600);
        scratch_write(dirfd, "somebody's.tmp", "", 0, 0600);
        set_age(dirfd, ".old.tmp", 60);
        set_age(dirfd, ".held.tmp", 60);
        set_age(dirfd, "somebody's.tmp", 60);
        held = openat(dirfd, ".held.tmp", O_RDONLY | O_CLOEXEC);
        ck_assert_int_eq(flock(held, LOCK_EX), 0);

        ck_assert_int_eq(record_tidy(dirfd), 0);
        ck_assert(scratch_has(dirfd, ID ".json"));
        ck_assert(scratch_has(dirfd, "live.name"));
        ck_assert(scratch_has(dirfd, ".young.tmp"));
        ck_assert(scratch_has(dirfd, ".held.tmp"));
        ck_assert(scratch_has(dirfd, "somebody's.tmp"));
        ck_assert_uint_eq(scratch_count(dirfd), 5);
        ck_assert_int_eq(write_sample(dirfd, OTHER, "dangling"), 0);
}
END_TEST

int main(void) {
        Suite *suite = suite_create("record-file");
        TCase *tcase = tcase_create("record-file");
        SRunner *runner = srunner_create(suite);
        int failed;

        tcase_add_unchecked_fixture(tcase, scratch_make, scratch_remove);
        tcase_add_test(tcase, test_write_and_read);
        tcase_add_test(tcase, test_write_is_never_twice);
        tcase_add_test(tcase, test_names_are_unique);
        tcase_add_test(tcase, test_insane_is_never_written);
        tcase_add_test(tcase, test_disk_full);
        tcase_add_test(tcase, test_not_a_file);
        tcase_add_test(tcase, test_not_trusted);
        tcase_add_test(tcase, test_lease_does_not_hold_us);
        tcase_add_test(tcase, test_tidy);
        tcase_set_timeout(tcase, 60);
        suite_add_tcase(suite, tcase);
        srunner_run_all(runner, CK_NORMAL);
        failed = srunner_ntests_failed(runner);
        srunner_free(runner);
        return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
