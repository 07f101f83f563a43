/* SPDX-License-Identifier: MIT */
#include "cgroup.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "cgroups.h"
#include "deny.h"

static const struct {
        const char *path, *above, *below;
} paths[] = {
        { "/a/b", "/a", "b" },
        { "/a/b/c", "/a", "b/c" },
        { "/a", "/a", "" },
        { "/ab", "/a", NULL },
        { "/", "/a", NULL },
        { "/b/a", "/a", NULL },
        { "/a", "/", "a" },
        { "/a", "", "a" },
        { "/", "/", "" },
        { "/", "", "" },
};

START_TEST(test_path_below) {
        const char *below = cgroup_path_below(paths[_i].path, paths[_i].above);

        if (paths[_i].below)
                ck_assert_str_eq(below, paths[_i].below);
        else
                ck_assert_ptr_null(below);
}
END_TEST

START_TEST(test_open_by_path) {
        static const char *const invalid[] = { "", "a", "/..", "/a/../b", "/./a", "/.", "../a" };
        struct cgroup made = cgroups_new("open"), again = CGROUP_NONE, untouched = CGROUP_NONE;
        _cleanup_free_ char *untidy = format("//%s///", made.path + 1), *missing = format("%s/missing", made.path);

        for (size_t i = 0; i < sizeof(invalid) / sizeof(invalid[0]); i++)
                ck_assert_msg(cgroup_open(invalid[i], &untouched) == -EINVAL, "'%s'", invalid[i]);
        ck_assert_int_eq(cgroup_open(missing, &untouched), -ENOENT);
        ck_assert_int_eq(untouched.fd, -1);
        ck_assert_int_eq(cgroup_open(untidy, &again), 0);
        ck_assert_str_eq(again.path, made.path);
        ck_assert_uint_eq(again.id, made.id);
        ck_assert_int_ne(fcntl(again.fd, F_GETFD) & FD_CLOEXEC, 0);
        cgroup_done(&again);
        cgroup_done(&again);
        cgroup_done(NULL);
        cgroup_done(&made);
}
END_TEST

START_TEST(test_open_without_openat2) {
        struct cgroup made = cgroups_new("old"), inner = cgroups_child(&made, "in"), again = CGROUP_NONE;

        deny_syscall(SYS_openat2, _i == 0 ? ENOSYS : EPERM);
        ck_assert_int_eq(cgroup_open(inner.path, &again), 0);
        ck_assert_uint_eq(again.id, inner.id);
        cgroup_done(&again);
        ck_assert_int_eq(cgroup_open_child(&made, "in", &again), 0);
        ck_assert_uint_eq(again.id, inner.id);
        ck_assert_int_eq(cgroup_open_child(&made, "missing", &again), -ENOENT);
        ck_assert_int_eq(cgroup_open_child(&made, "..", &again), -EINVAL);
        cgroup_done(&again);
        cgroup_done(&inner);
        ck_assert_int_eq(cgroup_remove(&made, "in", 0), 0);
        cgroup_done(&made);
}
END_TEST

static const char *const odd_names[] = { "a:b c", "0::x", "...", "tab\there", "back\\slash", "x (deleted)", "\xff\xfe",
        " ", "-n", "%s" };

START_TEST(test_odd_names) {
        struct cgroup parent = cgroups_new("odd"), made = cgroups_child(&parent, odd_names[_i]), again = CGROUP_NONE;
        struct payload payload = payload_start(&made, payload_obedient);
        _cleanup_free_ char *path = NULL;

        ck_assert_int_eq(cgroup_path_of(payload.pid, &path), 0);
        ck_assert_str_eq(path, made.path);
        ck_assert_int_eq(cgroup_open(path, &again), 0);
        ck_assert_uint_eq(again.id, made.id);
        ck_assert_int_eq(cgroup_contains(&again, payload.pid), 1);
        cgroups_strike(&again);
        payload_await_eof(&payload);
        cgroup_done(&again);
        ck_assert_int_eq(cgroup_remove(&parent, odd_names[_i], USEC_PER_SEC), 0);
        cgroup_done(&made);
        cgroup_done(&parent);
}
END_TEST

START_TEST(test_path_of_zombie) {
        struct cgroup parent = cgroups_new("zombie"), made = cgroups_child(&parent, "in");
        struct payload payload = payload_start(&made, payload_obedient);
        char *path = NULL;
        siginfo_t info;

        kill(payload.pid, SIGKILL);
        ck_assert_int_eq(waitid(P_PID, (id_t)payload.pid, &info, WEXITED | WNOWAIT), 0);
        ck_assert_int_eq(cgroup_is_populated(&made), 0);
        ck_assert_int_eq(cgroup_remove(&parent, "in", USEC_PER_SEC), 0);
        ck_assert_int_eq(cgroup_path_of(payload.pid, &path), -ESTALE);
        ck_assert_int_eq(cgroup_contains(&made, payload.pid), 0);
        ck_assert_int_eq(waitpid(payload.pid, NULL, 0), payload.pid);
        ck_assert_int_eq(cgroup_path_of(payload.pid, &path), -ESRCH);
        ck_assert_int_eq(cgroup_path_of(-1, &path), -EINVAL);
        ck_assert_ptr_null(path);
        cgroup_done(&made);
        cgroup_done(&parent);
}
END_TEST

START_TEST(test_cgroup_namespace) {
        struct cgroup inside = cgroups_new("namespace"), outside = cgroups_new("outside"), untouched = CGROUP_NONE;
        _cleanup_close_ int root = -1;
        _cleanup_free_ char *own = NULL, *prefix = NULL;
        struct payload payload = payload_start(&outside, payload_obedient);
        char *path = NULL;

        ck_assert_int_eq(write_file_at(inside.fd, "cgroup.procs", "0"), 0);
        if (unshare(CLONE_NEWCGROUP) < 0) {
                printf("left out: cgroup namespaces: %s\n", strerror(errno));
                return;
        }
        ck_assert_int_eq(cgroup_path_of(0, &own), 0);
        ck_assert_str_eq(own, "/");
        ck_assert_int_eq(cgroup_path_of(payload.pid, &path), -ENOLINK);
        ck_assert_int_eq(cgroup_contains(&inside, payload.pid), 0);
        /* The mount is from outside, so nothing can be found through it. */
        ck_assert_int_eq(cgroup_open_root(&root, &prefix), -ENOLINK);
        ck_assert_int_eq(cgroup_open("/", &untouched), -ENOLINK);
        if (write_file_at(cgroups_own.fd, "cgroup.procs", "0") == 0) /* nsdelegate does not let us out */
                ck_assert_int_eq(cgroup_path_of(0, &path), -ENOLINK);
        cgroup_done(&inside);
        cgroup_done(&outside);
}
END_TEST

/* ---- mounts: each in a private namespace ------------------------------------------------------------------------ */

static const char *const mount_dir = "/sys/fs/cgroup";

static bool have_private_mounts(void) {
        if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) < 0) {
                printf("left out: private mounts: %s\n", strerror(errno));
                return false;
        }
        return true;
}

/* Nothing but an empty tmpfs where cgroups were. */
static void hide_cgroups(void) {
        ck_assert_int_eq(mount("none", mount_dir, "tmpfs", 0, NULL), 0);
}

static void mount_cgroup2(const char *point, unsigned long flags) {
        ck_assert_msg(mount("none", point, "cgroup2", flags, NULL) == 0, "%s: %s", point, strerror(errno));
}

static void check_found(const char *expected_prefix) {
        struct cgroup found = CGROUP_NONE;
        _cleanup_close_ int root = -1;
        _cleanup_free_ char *prefix = NULL;

        ck_assert_int_eq(cgroup_open_root(&root, &prefix), 0);
        ck_assert_str_eq(prefix, expected_prefix);
        ck_assert_int_eq(cgroup_open(cgroups_base.path, &found), 0);
        ck_assert_uint_eq(found.id, cgroups_base.id);
        cgroup_done(&found);
}

START_TEST(test_unified_mount) {
        if (!have_private_mounts())
                return;
        /* Over whatever is there, which mountinfo lists all the same; EBUSY: it is that already. */
        ck_assert(mount("none", mount_dir, "cgroup2", 0, NULL) == 0 || errno == EBUSY);
        check_found("");
}
END_TEST

START_TEST(test_mount_without_handles) {
        if (!have_private_mounts())
                return;
        deny_syscall(SYS_name_to_handle_at, EPERM);
        check_found("");
}
END_TEST

START_TEST(test_mount_with_blanks) {
        if (!have_private_mounts())
                return;
        hide_cgroups();
        ck_assert_int_eq(mkdir("/sys/fs/cgroup/a b\tc\\d\ne", 0755), 0);
        mount_cgroup2("/sys/fs/cgroup/a b\tc\\d\ne", 0);
        check_found("");
}
END_TEST

START_TEST(test_hidden_mounts) {
        _cleanup_close_ int root = -1;
        _cleanup_free_ char *prefix = NULL;
        struct cgroup untouched = CGROUP_NONE;

        if (!have_private_mounts())
                return;
        hide_cgroups();
        ck_assert_int_eq(cgroup_open_root(&root, &prefix), -ENOENT);
        ck_assert_int_eq(cgroup_open(cgroups_base.path, &untouched), -ENOENT);
        /* A directory of the right name is not what is listed. */
        ck_assert_int_eq(mkdir("/sys/fs/cgroup/unified", 0755), 0);
        ck_assert_int_eq(cgroup_open_root(&root, &prefix), -ENOENT);
}
END_TEST

/* The name of an open directory: the fd itself still belongs to the old namespace. */
static char *name_of(int fd) {
        char link[32], name[4096];
        ssize_t n;

        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        n = readlink(link, name, sizeof(name) - 1);
        ck_assert_int_gt(n, 0);
        name[n] = '\0';
        return strdup(name);
}

START_TEST(test_subtree_mount) {
        struct cgroup inner = cgroups_child(&cgroups_base, "mounted"), outside = CGROUP_NONE, found = CGROUP_NONE;
        _cleanup_free_ char *source = NULL, *deep = format("%s/deep", inner.path);
        _cleanup_close_ int root = -1;
        _cleanup_free_ char *prefix = NULL;
        struct cgroup made = cgroups_child(&inner, "deep");

        ck_assert_int_eq(write_file_at(inner.fd, "cgroup.procs", "0"), 0);
        if (!have_private_mounts())
                return;
        source = name_of(inner.fd);
        ck_assert_int_eq(mount("none", "/mnt", "tmpfs", 0, NULL), 0);
        ck_assert_int_eq(mkdir("/mnt/bound", 0755), 0);
        ck_assert_msg(mount(source, "/mnt/bound", "none", MS_BIND, NULL) == 0, "%s", strerror(errno));
        hide_cgroups();
        ck_assert_int_eq(cgroup_open_root(&root, &prefix), 0);
        ck_assert_str_eq(prefix, inner.path);
        ck_assert_int_eq(cgroup_open(deep, &found), 0);
        ck_assert_uint_eq(found.id, made.id);
        cgroup_done(&found);
        ck_assert_int_eq(cgroup_open(inner.path, &found), 0);
        ck_assert_uint_eq(found.id, inner.id);
        cgroup_done(&found);
        ck_assert_int_eq(cgroup_open(cgroups_base.path, &outside), -EXDEV);
        ck_assert_int_eq(cgroup_open("/", &outside), -EXDEV);
        ck_assert_int_eq(write_file_at(cgroups_own.fd, "cgroup.procs", "0"), 0);
        cgroup_done(&made);
        cgroup_done(&inner);
}
END_TEST

START_TEST(test_read_only_mount) {
        struct cgroup base = CGROUP_NONE, untouched = CGROUP_NONE;

        if (!have_private_mounts())
                return;
        hide_cgroups();
        ck_assert_int_eq(mkdir("/sys/fs/cgroup/ro", 0755), 0);
        ck_assert_int_eq(mkdir("/sys/fs/cgroup/rw", 0755), 0);
        mount_cgroup2("/sys/fs/cgroup/ro", 0);
        ck_assert_int_eq(mount("none", "/sys/fs/cgroup/ro", "none", MS_REMOUNT | MS_BIND | MS_RDONLY, NULL), 0);
        ck_assert_int_eq(cgroup_open(cgroups_base.path, &base), 0);
        ck_assert_int_eq(cgroup_create(&base, "refused", &untouched), -EROFS);
        if (cgroups_have_kill())
                ck_assert_int_eq(cgroup_kill(&base), -EROFS);
        ck_assert_int_eq(cgroup_freeze(&base, true), -EROFS);
        ck_assert_int_eq(cgroup_is_populated(&base), 0);
        cgroup_done(&base);

        /* One that can be written is the better one, whatever their order. */
        mount_cgroup2("/sys/fs/cgroup/rw", 0);
        ck_assert_int_eq(mount("/sys/fs/cgroup/ro", "/mnt", "none", MS_BIND, NULL), 0);
        ck_assert_int_eq(mount("none", "/mnt", "none", MS_REMOUNT | MS_BIND | MS_RDONLY, NULL), 0);
        ck_assert_int_eq(cgroup_open(cgroups_base.path, &base), 0);
        ck_assert_int_eq(cgroup_freeze(&base, false), 0);
        cgroup_done(&base);
}
END_TEST

START_TEST(test_no_mount_point_on_the_way) {
        struct cgroup parent = cgroups_new("crossing"), child = cgroups_child(&parent, "in"), untouched = CGROUP_NONE;
        _cleanup_free_ char *point = NULL, *path = format("%s/in", parent.path);

        if (!have_private_mounts())
                return;
        point = name_of(child.fd);
        ck_assert_int_eq(mount("none", point, "tmpfs", 0, NULL), 0);
        ck_assert_int_eq(cgroup_open(path, &untouched), -EXDEV);
        deny_syscall(SYS_openat2, ENOSYS);
        ck_assert_int_eq(cgroup_open(path, &untouched), -EXDEV);
        cgroup_done(&child);
        cgroup_done(&parent);
}
END_TEST

int main(void) {
        Suite *suite = suite_create("cgroup-path");
        TCase *tcase = tcase_create("paths"), *mounts = tcase_create("mounts");

        tcase_set_timeout(tcase, 60);
        tcase_add_loop_test(tcase, test_path_below, 0, sizeof(paths) / sizeof(paths[0]));
        tcase_add_test(tcase, test_open_by_path);
        tcase_add_loop_test(tcase, test_open_without_openat2, 0, 2);
        tcase_add_loop_test(tcase, test_odd_names, 0, sizeof(odd_names) / sizeof(odd_names[0]));
        tcase_add_test(tcase, test_path_of_zombie);
        tcase_add_test(tcase, test_cgroup_namespace);
        suite_add_tcase(suite, tcase);

        tcase_set_timeout(mounts, 60);
        tcase_add_test(mounts, test_unified_mount);
        tcase_add_test(mounts, test_mount_without_handles);
        tcase_add_test(mounts, test_mount_with_blanks);
        tcase_add_test(mounts, test_hidden_mounts);
        tcase_add_test(mounts, test_subtree_mount);
        tcase_add_test(mounts, test_read_only_mount);
        tcase_add_test(mounts, test_no_mount_point_on_the_way);
        suite_add_tcase(suite, mounts);
        return cgroups_run(suite);
}
