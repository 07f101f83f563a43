/* SPDX-License-Identifier: MIT */
#include "records.h"
#include "scratch.h"

#include <errno.h>
#include <sched.h>
#include <sys/mount.h>

#define BOOT "01234567-89ab-cdef-0123-456789abcdef"

static int write_sample(int dirfd, const char *id, const char *name) {
        struct record record = {
                .owner = { .pid = 4711, .start_time = 1 },
                .placement = CGTREE_PLACEMENT_SUBTREE,
                .cgroup = format("/x/%s", id),
                .cgroup_id = 7,
                .name = name ? strdup(name) : NULL,
                .boot_id = BOOT,
        };
        int r;

        strcpy(record.id, id);
        r = record_write(dirfd, &record);
        record_done(&record);
        return r;
}

/* What a walk saw: "file:problem " or "path " each, in order. */
struct seen {
        char text[1024];
        int stop_with;
};

static void see(struct seen *seen, const char *what) {
        strncat(seen->text, what, sizeof(seen->text) - strlen(seen->text) - 1);
        strncat(seen->text, " ", sizeof(seen->text) - strlen(seen->text) - 1);
}

static int see_record(void *userdata, int dirfd, const char *file, struct record *record, const char *problem) {
        struct seen *seen = userdata;

        (void)dirfd;
        ck_assert_int_eq(record == NULL, problem != NULL);
        if (record)
                ck_assert_int_eq(strncmp(record->id, file, ID_LENGTH), 0);
        else
                see(seen, "bad");
        see(seen, file);
        return seen->stop_with;
}

static int see_directory(void *userdata, int dirfd, const char *path) {
        struct seen *seen = userdata;

        if (dirfd == -EPERM)
                see(seen, "EPERM");
        else
                ck_assert_int_ge(dirfd, 0);
        see(seen, path);
        return seen->stop_with;
}

static void assert_directories(const char *wanted, int r, const char *expected) {
        struct seen seen = { 0 };

        ck_assert_int_eq(records_each_directory(wanted, see_directory, &seen), r);
        ck_assert_str_eq(seen.text, expected);
}

/* ---- one directory -------------------------------------------------------------------------------------- */

START_TEST(test_each_in_order) {
        _cleanup_close_ int dirfd = scratch_open(NULL, 0);
        struct seen seen = { 0 }, stopped = { .stop_with = 7 };

        ck_assert_int_eq(write_sample(dirfd, "000000000000000z", "name"), 0);
        ck_assert_int_eq(write_sample(dirfd, "0000000000000001", NULL), 0);
        scratch_write(dirfd, "0000000000000002.json", "{", 1, 0600);
        scratch_write(dirfd, "notes.json", "{", 1, 0600);
        scratch_write(dirfd, "notes.txt", "{", 1, 0600);
        scratch_write(dirfd, ".0000000000000003.tmp", "{", 1, 0600);
        scratch_write(dirfd, ".json", "{", 1, 0600);
        ck_assert_int_eq(records_each(dirfd, see_record, &seen), 0);
        ck_assert_str_eq(
                seen.text, "0000000000000001.json bad 0000000000000002.json 000000000000000z.json bad notes.json ");
        ck_assert_int_eq(records_each(dirfd, see_record, &stopped), 7);
        ck_assert_str_eq(stopped.text, "0000000000000001.json ");
}
END_TEST

START_TEST(test_each_of_many) {
        _cleanup_close_ int dirfd = scratch_open(NULL, 0);
        struct seen seen = { 0 };

        for (int i = 0; i < 500; i++) {
                char id[ID_LENGTH + 1];

                snprintf(id, sizeof(id), "%016d", i);
                ck_assert_int_eq(write_sample(dirfd, id, NULL), 0);
        }
        ck_assert_int_eq(records_each(dirfd, see_record, &seen), 0);
        ck_assert_int_eq(strncmp(seen.text, "0000000000000000.json 0000000000000001.json ", 44), 0);
}
END_TEST

static int unlink_next(void *userdata, int dirfd, const char *file, struct record *record, const char *problem) {
        unsigned *n = userdata;

        (void)file, (void)problem;
        ck_assert_ptr_nonnull(record);
        ++*n;
        return record_unlink(dirfd, "0000000000000002", NULL);
}

START_TEST(test_each_while_others_unlink) {
        _cleanup_close_ int dirfd = scratch_open(NULL, 0);
        unsigned n = 0;

        ck_assert_int_eq(write_sample(dirfd, "0000000000000001", NULL), 0);
        ck_assert_int_eq(write_sample(dirfd, "0000000000000002", NULL), 0);
        ck_assert_int_eq(records_each(dirfd, unlink_next, &n), 0);
        ck_assert_uint_eq(n, 1);
}
END_TEST

/* ---- the one that was asked for --------------------------------------------------------------------------- */

static int open_and_close(const char *wanted, char **ret_path) {
        int fd = -1, r = records_open(wanted, &fd, ret_path);

        ck_assert_int_eq(r == 0, fd >= 0);
        close_fd(&fd);
        return r;
}

static void assert_open(const char *wanted, int expected, const char *path) {
        _cleanup_free_ char *opened = NULL;

        ck_assert_int_eq(open_and_close(wanted, &opened), expected);
        ck_assert_ptr_nonnull(opened);
        ck_assert_str_eq(opened, path);
        if (expected < 0)
                ck_assert_int_eq(records_error(expected) != NULL, expected == -EPERM || expected == -ENOTDIR);
}

START_TEST(test_wanted) {
        char base[128], path[160], slashed[176];
        _cleanup_close_ int dirfd = scratch_open(base, sizeof(base));
        struct stat st;

        setenv("CGTREE_RECORDS", "/nonexistent/by/environment", 1);
        snprintf(path, sizeof(path), "%s/records", base);
        snprintf(slashed, sizeof(slashed), "%s///", path);
        assert_directories(path, 0, "");
        umask(0277);
        assert_open(path, 0, path);
        ck_assert_int_eq(stat(path, &st), 0);
        ck_assert_uint_eq(st.st_mode, S_IFDIR | 0700);
        assert_open(slashed, 0, path);
        snprintf(slashed, sizeof(slashed), "%s ", path);
        assert_directories(path, 0, slashed);

        ck_assert_int_eq(symlinkat("records", dirfd, "link"), 0);
        snprintf(path, sizeof(path), "%s/link", base);
        snprintf(slashed, sizeof(slashed), "%s/", path);
        assert_open(path, -ENOTDIR, path);
        assert_open(slashed, -ENOTDIR, path);
        assert_directories(slashed, -ENOTDIR, "");

        scratch_write(dirfd, "file", "", 0, 0600);
        snprintf(path, sizeof(path), "%s/file", base);
        assert_open(path, -ENOTDIR, path);
        assert_open("/nonexistent/x", -ENOENT, "/nonexistent/x");
}
END_TEST

START_TEST(test_wanted_is_not_ours_alone) {
        char base[128], path[160];
        _cleanup_close_ int dirfd = scratch_open(base, sizeof(base));

        snprintf(path, sizeof(path), "%s/records", base);
        ck_assert_int_eq(mkdirat(dirfd, "records", 0700), 0);
        for (int i = 0; i < 2; i++) {
                ck_assert_int_eq(fchmodat(dirfd, "records", i ? 0720 : 0702, 0), 0);
                assert_open(path, -EPERM, path);
                assert_directories(path, -EPERM, "");
        }
        ck_assert_int_eq(fchmodat(dirfd, "records", 0700, 0), 0);
        assert_open(path, 0, path);
        if (fchownat(dirfd, "records", 65534, 65534, 0) == 0)
                assert_open(path, -EPERM, path);
}
END_TEST

START_TEST(test_environment) {
        char base[128], path[160], expected[176];
        _cleanup_close_ int dirfd = scratch_open(base, sizeof(base));

        (void)dirfd;
        snprintf(path, sizeof(path), "%s/records", base);
        snprintf(expected, sizeof(expected), "%s ", path);
        setenv("CGTREE_RECORDS", path, 1);
        assert_open(NULL, 0, path);
        assert_directories(NULL, 0, expected);
}
END_TEST

/* ---- the defaults ----------------------------------------------------------------------------------------- */

/* /run, /dev/shm and /tmp of our own. */
static bool enter_private_machine(void) {
        static const char *const mounts[] = { "/run", "/dev/shm", "/tmp" };

        unsetenv("CGTREE_RECORDS");
        unsetenv("XDG_RUNTIME_DIR");
        if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) < 0)
                return false;
        for (size_t i = 0; i < 3; i++)
                if (mount("tmpfs", mounts[i], "tmpfs", 0, i == 0 ? "mode=0755" : "mode=1777") < 0)
                        return false;
        ck_assert_int_eq(mkdir("/run/user", 0755), 0);
        ck_assert_int_eq(mkdir("/run/user/65534", 0700), 0);
        ck_assert_int_eq(chown("/run/user/65534", 65534, 65534), 0);
        ck_assert_int_eq(mkdir("/run/user/0", 0700), 0);
        return true;
}

static void become_nobody(void) {
        ck_assert_int_eq(setresgid(65534, 65534, 65534), 0);
        ck_assert_int_eq(setresuid(65534, 65534, 65534), 0);
}

START_TEST(test_defaults_of_root) {
        if (!enter_private_machine())
                return;
        setenv("XDG_RUNTIME_DIR", "/run/user/0", 1);
        assert_directories(NULL, 0, "");
        assert_open(NULL, 0, "/run/cgtree");
        assert_directories(NULL, 0, "/run/cgtree ");
        /* It is read still, but no place for new ones. */
        ck_assert_int_eq(mount("none", "/run", "none", MS_REMOUNT | MS_RDONLY, NULL), 0);
        assert_open("/run/cgtree", -EROFS, "/run/cgtree");
        assert_open(NULL, 0, "/dev/shm/cgtree-0");
        assert_directories(NULL, 0, "/run/cgtree /dev/shm/cgtree-0 ");
}
END_TEST

/* Another user's runtime directory, as after `su`, is not for our records. */
START_TEST(test_defaults_of_root_go_on) {
        if (!enter_private_machine())
                return;
        ck_assert_int_eq(mkdir("/tmp/runtime", 0700), 0);
        ck_assert_int_eq(chown("/tmp/runtime", 65534, 65534), 0);
        setenv("XDG_RUNTIME_DIR", "/tmp/runtime", 1);
        ck_assert_int_eq(mount("none", "/run", "none", MS_REMOUNT | MS_RDONLY, NULL), 0);
        assert_open(NULL, 0, "/dev/shm/cgtree-0");
        assert_directories(NULL, 0, "/dev/shm/cgtree-0 ");
}
END_TEST

START_TEST(test_defaults_of_a_user) {
        if (!enter_private_machine())
                return;
        become_nobody();
        setenv("XDG_RUNTIME_DIR", "/run/user/0", 1);
        assert_open(NULL, 0, "/dev/shm/cgtree-65534");
        setenv("XDG_RUNTIME_DIR", "/run/user/65534", 1);
        assert_open(NULL, 0, "/run/user/65534/cgtree");
        setenv("XDG_RUNTIME_DIR", "run", 1);
        assert_open(NULL, 0, "/dev/shm/cgtree-65534");
        ck_assert_int_eq(mkdir("/tmp/cgtree-65534", 0700), 0);
        setenv("XDG_RUNTIME_DIR", "/run/user/65534", 1);
        assert_directories(NULL, 0, "/run/user/65534/cgtree /dev/shm/cgtree-65534 /tmp/cgtree-65534 ");
}
END_TEST

/* What somebody else put in our place is passed over; what is ours and open to others is reported. */
START_TEST(test_defaults_that_are_a_trap) {
        if (!enter_private_machine())
                return;
        ck_assert_int_eq(mkdir("/dev/shm/cgtree-65534", 0777), 0);
        ck_assert_int_eq(symlink("/run/user/0", "/tmp/cgtree-65534"), 0);
        become_nobody();
        assert_open(NULL, -ENOTDIR, "/tmp/cgtree-65534");
        assert_directories(NULL, 0, "");
        setenv("XDG_RUNTIME_DIR", "/run/user/65534", 1);
        ck_assert_int_eq(mkdir("/run/user/65534/cgtree", 0700), 0);
        ck_assert_int_eq(chmod("/run/user/65534/cgtree", 0722), 0);
        assert_directories(NULL, 0, "EPERM /run/user/65534/cgtree ");
}
END_TEST

int main(void) {
        Suite *suite = suite_create("records");
        TCase *tcase = tcase_create("directories");
        SRunner *runner = srunner_create(suite);
        int failed;

        tcase_add_unchecked_fixture(tcase, scratch_make, scratch_remove);
        tcase_add_test(tcase, test_each_in_order);
        tcase_add_test(tcase, test_each_of_many);
        tcase_add_test(tcase, test_each_while_others_unlink);
        tcase_add_test(tcase, test_wanted);
        tcase_add_test(tcase, test_wanted_is_not_ours_alone);
        tcase_add_test(tcase, test_environment);
        tcase_add_test(tcase, test_defaults_of_root);
        tcase_add_test(tcase, test_defaults_of_root_go_on);
        tcase_add_test(tcase, test_defaults_of_a_user);
        tcase_add_test(tcase, test_defaults_that_are_a_trap);
        tcase_set_timeout(tcase, 60);
        suite_add_tcase(suite, tcase);
        srunner_run_all(runner, CK_NORMAL);
        failed = srunner_ntests_failed(runner);
        srunner_free(runner);
        return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
