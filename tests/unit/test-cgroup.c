/* SPDX-License-Identifier: MIT */
#include "cgroup.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "cgroups.h"
#include "nobody.h"

static void await_populated(const struct cgroup *cgroup, int wanted) {
        uint64_t deadline = now_usec() + 20 * USEC_PER_SEC;

        while (cgroup_is_populated(cgroup) != wanted)
                ck_assert_uint_lt(now_usec(), deadline);
}

static void finish(struct cgroup *cgroup, struct payload *payload) {
        cgroups_strike(cgroup);
        payload_await_eof(payload);
        await_populated(cgroup, 0);
        cgroup_done(cgroup);
}

/* ---- making, marking -------------------------------------------------------------------------------------------- */

START_TEST(test_create) {
        static const char *const invalid[] = { "", ".", "..", "a/b", "a\nb", "/" };
        struct cgroup parent = cgroups_new("create"), child = CGROUP_NONE, untouched = CGROUP_NONE, taken;
        _cleanup_free_ char *path = format("%s/in", parent.path);

        for (size_t i = 0; i < sizeof(invalid) / sizeof(invalid[0]); i++) {
                ck_assert_msg(cgroup_create(&parent, invalid[i], &untouched) == -EINVAL, "'%s'", invalid[i]);
                ck_assert_msg(cgroup_open_child(&parent, invalid[i], &untouched) == -EINVAL, "'%s'", invalid[i]);
                ck_assert_msg(cgroup_remove(&parent, invalid[i], 0) == -EINVAL, "'%s'", invalid[i]);
        }
        ck_assert_int_eq(cgroup_open_child(&parent, "in", &untouched), -ENOENT);
        ck_assert_int_eq(cgroup_create(&parent, "in", &child), 0);
        ck_assert_str_eq(child.path, path);
        ck_assert_uint_ne(child.id, parent.id);
        ck_assert_int_ne(fcntl(child.fd, F_GETFD) & FD_CLOEXEC, 0);
        ck_assert_int_eq(cgroup_create(&parent, "in", &untouched), -EEXIST);
        ck_assert_int_eq(write_file_at(parent.fd, "cgroup.max.descendants", "1"), 0);
        ck_assert_int_eq(cgroup_create(&parent, "more", &untouched), -EAGAIN);
        ck_assert_int_eq(untouched.fd, -1);

        taken = cgroup_take(&child);
        ck_assert_int_eq(child.fd, -1);
        ck_assert_ptr_null(child.path);
        ck_assert_int_eq(cgroup_remove(&parent, "in", 0), 0);
        cgroup_done(&taken);
        cgroup_done(&parent);
}
END_TEST

START_TEST(test_gone) {
        struct cgroup parent = cgroups_new("gone"), old = cgroups_child(&parent, "in"), untouched = CGROUP_NONE, young;
        _cleanup_close_ int events = cgroup_open_events(&old);
        struct payload payload;
        pid_t *pids;
        size_t n;

        ck_assert_int_eq(cgroup_remove(&parent, "in", 0), 0);
        ck_assert_int_eq(cgroup_remove(&parent, "in", 0), 0);
        young = cgroups_child(&parent, "in");
        payload = payload_start(&young, payload_obedient);

        /* The old fd does not see the new cgroup of the same name. */
        ck_assert_int_eq(cgroup_events_populated(events), 0);
        ck_assert_int_eq(cgroup_events_frozen(events), 0);
        ck_assert_int_eq(cgroup_is_populated(&old), 0);
        ck_assert_int_eq(cgroup_open_events(&old), -ENODEV);
        ck_assert_int_eq(cgroup_kill(&old), 0);
        ck_assert_int_eq(cgroup_freeze(&old, true), 0);
        ck_assert_int_eq(cgroup_members(&old, &pids, &n, NULL), 0);
        ck_assert_uint_eq(n, 0);
        ck_assert_int_eq(cgroup_create(&old, "child", &untouched), -ENOENT);
        ck_assert_int_eq(kill(payload.pid, 0), 0);
        ck_assert_int_eq(cgroup_is_populated(&young), 1);
        finish(&young, &payload);
        cgroup_done(&old);
        cgroup_done(&parent);
}
END_TEST

START_TEST(test_xattr) {
        struct cgroup cgroup = cgroups_new("xattr");
        char buffer[8] = "before";

        ck_assert_int_eq(cgroup_get_xattr(&cgroup, CGROUP_XATTR_ID, buffer, sizeof(buffer)), -ENODATA);
        ck_assert_str_eq(buffer, "before");
        ck_assert_int_eq(cgroup_set_xattr(&cgroup, CGROUP_XATTR_ID, "1234567"), 0);
        ck_assert_int_eq(cgroup_get_xattr(&cgroup, CGROUP_XATTR_ID, buffer, sizeof(buffer)), 0);
        ck_assert_str_eq(buffer, "1234567");
        ck_assert_int_eq(cgroup_set_xattr(&cgroup, CGROUP_XATTR_ID, "12345678"), 0);
        ck_assert_int_eq(cgroup_get_xattr(&cgroup, CGROUP_XATTR_ID, buffer, sizeof(buffer)), -ERANGE);
        cgroup_done(&cgroup);
}
END_TEST

START_TEST(test_root_has_no_events) {
        struct cgroup root = CGROUP_NONE;

        if (cgroup_open("/", &root) < 0 || root.id != 1) {
                printf("left out: the root cgroup cannot be seen\n");
                return;
        }
        ck_assert_int_eq(cgroup_is_populated(&root), -ENOENT);
        ck_assert_int_eq(cgroup_kill(&root), -ENOENT);
        ck_assert_int_eq(cgroup_freeze(&root, true), -ENOENT);
        cgroup_done(&root);
}
END_TEST

START_TEST(test_events) {
        struct cgroup parent = cgroups_new("events"), inner = cgroups_child(&parent, "in");
        _cleanup_close_ int events = cgroup_open_events(&parent);
        struct payload payload;
        uint64_t deadline = now_usec() + 20 * USEC_PER_SEC;

        ck_assert_int_eq(cgroup_events_populated(events), 0);
        payload = payload_start(&inner, payload_obedient);
        ck_assert_int_eq(cgroup_events_populated(events), 1);
        ck_assert_int_eq(cgroup_events_frozen(events), 0);
        ck_assert_int_eq(cgroup_freeze(&parent, true), 0);
        while (cgroup_events_frozen(events) == 0)
                ck_assert_uint_lt(now_usec(), deadline);
        ck_assert_int_eq(cgroup_events_frozen(events), 1);
        ck_assert_int_eq(cgroup_kill(&parent), cgroups_have_kill() ? 0 : -ENOENT); /* needs no thaw */
        if (!cgroups_have_kill())
                cgroups_strike(&parent);
        payload_await_eof(&payload);
        await_populated(&parent, 0);
        ck_assert_int_eq(cgroup_freeze(&parent, false), 0);
        ck_assert_int_eq(cgroup_events_frozen(events), 0);
        ck_assert_int_eq(cgroup_events_populated(-1), -EBADF);
        cgroup_done(&inner);
        cgroup_done(&parent);
}
END_TEST

/* ---- members ---------------------------------------------------------------------------------------------------- */

static void check_members(const struct cgroup *cgroup, const pid_t *expected, size_t n_expected, size_t foreign) {
        _cleanup_free_ pid_t *pids = NULL;
        size_t n = 4711, n_foreign = 4711;

        ck_assert_int_eq(cgroup_members(cgroup, &pids, &n, &n_foreign), 0);
        ck_assert_uint_eq(n, n_expected);
        ck_assert_uint_eq(n_foreign, foreign);
        for (size_t i = 0; i < n; i++)
                ck_assert_int_eq(pids[i], expected[i]);
}

START_TEST(test_members) {
        struct cgroup parent = cgroups_new("members"), a = cgroups_child(&parent, "a"), b = cgroups_child(&a, "b");
        struct payload payloads[3];
        pid_t sorted[3];

        check_members(&parent, NULL, 0, 0);
        payloads[0] = payload_start(&b, payload_obedient);
        payloads[1] = payload_start(&parent, payload_obedient);
        payloads[2] = payload_start(&a, payload_obedient);
        for (size_t i = 0; i < 3; i++)
                sorted[i] = payloads[i].pid; /* ascending, unless the numbers have begun anew */
        if (sorted[0] < sorted[1] && sorted[1] < sorted[2])
                check_members(&parent, sorted, 3, 0);
        check_members(&b, sorted, 1, 0);
        ck_assert_int_eq(cgroup_contains(&parent, payloads[0].pid), 1);
        ck_assert_int_eq(cgroup_contains(&b, payloads[0].pid), 1);
        ck_assert_int_eq(cgroup_contains(&b, payloads[1].pid), 0);
        ck_assert_int_eq(cgroup_contains(&parent, getpid()), 0);
        ck_assert_int_eq(cgroup_contains(&parent, 0), 0);
        ck_assert_int_eq(cgroup_contains(&cgroups_own, 0), 1);
        cgroups_strike(&parent);
        for (size_t i = 0; i < 3; i++)
                payload_await_eof(&payloads[i]);
        await_populated(&parent, 0);
        ck_assert_int_eq(waitpid(payloads[0].pid, NULL, 0), payloads[0].pid);
        ck_assert_int_eq(cgroup_contains(&b, payloads[0].pid), -ESRCH);
        cgroup_done(&b);
        cgroup_done(&a);
        cgroup_done(&parent);
}
END_TEST

START_TEST(test_exited_leader_is_member) {
        struct cgroup cgroup = cgroups_new("leader");
        struct payload payload = payload_start(&cgroup, payload_lose_main_thread);

        ck_assert_int_eq(cgroup_is_populated(&cgroup), 1);
        check_members(&cgroup, &payload.pid, 1, 0);
        ck_assert_int_eq(cgroup_contains(&cgroup, payload.pid), 1);
        kill(payload.pid, SIGKILL);
        finish(&cgroup, &payload);
}
END_TEST

static struct cgroup threaded = CGROUP_NONE;

static void *go_to_threaded(void *unused) {
        (void)unused;
        if (write_file_at(threaded.fd, "cgroup.threads", "0") < 0)
                _exit(97);
        payload_say(payload_out, 'r');
        for (;;)
                pause();
        return NULL;
}

static void payload_split(int out) {
        pthread_t thread;

        payload_out = out;
        if (pthread_create(&thread, NULL, go_to_threaded, NULL) != 0)
                _exit(99);
}

START_TEST(test_threaded) {
        struct cgroup domain = cgroups_new("threaded");
        struct payload payload;

        threaded = cgroups_child(&domain, "t");
        ck_assert_int_eq(write_file_at(threaded.fd, "cgroup.type", "threaded"), 0);
        payload = payload_start(&domain, payload_split);
        check_members(&domain, &payload.pid, 1, 0);
        check_members(&threaded, &payload.pid, 1, 0);
        ck_assert_int_eq(cgroup_contains(&domain, payload.pid), 1);
        ck_assert_int_eq(cgroup_contains(&threaded, payload.pid), 1); /* one of its threads */
        ck_assert_int_eq(cgroup_kill(&threaded), cgroups_have_kill() ? -EOPNOTSUPP : -ENOENT);
        finish(&domain, &payload);
        cgroup_done(&threaded);
}
END_TEST

/* Leaves by the system call: the leak checker of sanitizers cannot work in a pid namespace like that. */
static void look_from_another_pid_namespace(const struct cgroup *cgroup) {
        int status;
        pid_t pid;

        if (unshare(CLONE_NEWPID) < 0)
                syscall(SYS_exit_group, 77);
        pid = fork();
        if (pid == 0) {
                check_members(cgroup, NULL, 0, 1);
                syscall(SYS_exit_group, 0);
        }
        syscall(SYS_exit_group, waitpid(pid, &status, 0) == pid && status == 0 ? 0 : 1);
}

START_TEST(test_foreign_members) {
        struct cgroup cgroup = cgroups_new("foreign");
        struct payload payload = payload_start(&cgroup, payload_obedient);
        pid_t pid = fork();
        int status;

        if (pid == 0)
                look_from_another_pid_namespace(&cgroup);
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert(WIFEXITED(status));
        if (WEXITSTATUS(status) == 77)
                printf("left out: pid namespaces\n");
        else
                ck_assert_int_eq(WEXITSTATUS(status), 0);
        finish(&cgroup, &payload);
}
END_TEST

/* ---- walking, removing ------------------------------------------------------------------------------------------ */

static void nest(const struct cgroup *top, unsigned depth) {
        _cleanup_close_ int fd = openat(top->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        for (unsigned i = 0; i < depth; i++) {
                int next;

                ck_assert_int_eq(mkdirat(fd, "deep", 0755), 0);
                next = openat(fd, "deep", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                ck_assert_int_ge(next, 0);
                close_fd(&fd);
                fd = next;
        }
}

struct visits {
        size_t n, longest;
        const struct cgroup *to_remove;
        char first[64];
};

static int visit(void *userdata, int dirfd, const char *path) {
        struct visits *visits = userdata;

        ck_assert_int_ge(dirfd, 0);
        if (visits->n++ == 0)
                ck_assert_str_eq(path, "");
        else if (visits->n == 2)
                snprintf(visits->first, sizeof(visits->first), "%s", path);
        if (strlen(path) > visits->longest)
                visits->longest = strlen(path);
        if (visits->to_remove && visits->n == 2)
                ck_assert_int_eq(cgroup_remove(visits->to_remove, *path == 'a' ? "b" : "a", 0), 0);
        return 0;
}

static int stop(void *userdata, int dirfd, const char *path) {
        (void)userdata, (void)dirfd, (void)path;
        return -EDOM;
}

START_TEST(test_deep) {
        struct cgroup top = cgroups_new("deep");
        struct rlimit limit;
        struct visits visits = { 0 };

        nest(&top, 1000); /* beyond PATH_MAX, too */
        ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
        limit.rlim_cur = 24;
        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
        ck_assert_int_eq(cgroup_walk(&top, visit, &visits), 0);
        ck_assert_uint_eq(visits.n, 1001);
        ck_assert_uint_eq(visits.longest, 1000 * 5 - 1);
        ck_assert_int_eq(cgroup_walk(&top, stop, NULL), -EDOM);
        ck_assert_int_eq(cgroup_remove(&top, "deep", 0), 0);
        check_members(&top, NULL, 0, 0);
        cgroup_done(&top);
}
END_TEST

START_TEST(test_walk_while_it_changes) {
        struct cgroup top = cgroups_new("changes"), a = cgroups_child(&top, "a"), b = cgroups_child(&top, "b");
        struct visits visits = { .to_remove = &top };

        ck_assert_int_eq(cgroup_walk(&top, visit, &visits), 0);
        ck_assert_uint_eq(visits.n, 2);
        ck_assert_uint_eq(strlen(visits.first), 1);
        cgroup_done(&a);
        cgroup_done(&b);
        cgroup_done(&top);
}
END_TEST

static void payload_end_soon(int out) {
        payload_say(out, 'r');
        usleep(50000);
        _exit(0);
}

START_TEST(test_remove) {
        struct cgroup parent = cgroups_new("remove"), top = cgroups_child(&parent, "top"), a = cgroups_child(&top, "a"),
                      b = cgroups_child(&top, "b"), deep = cgroups_child(&a, "deep");
        struct payload payload = payload_start(&deep, payload_obedient);

        ck_assert_int_eq(cgroup_remove(&parent, "top", 0), -EBUSY);
        ck_assert_int_eq(cgroup_is_populated(&top), 1);
        finish(&deep, &payload);
        payload = payload_start(&a, payload_end_soon);
        ck_assert_int_eq(cgroup_remove(&parent, "top", 20 * USEC_PER_SEC), 0);
        payload_await_eof(&payload);
        ck_assert_int_eq(cgroup_open_events(&top), -ENODEV);
        cgroup_done(&a);
        cgroup_done(&b);
        cgroup_done(&top);
        cgroup_done(&parent);
}
END_TEST

/* ---- another user's, and our own made inaccessible -------------------------------------------------------------- */

static struct cgroup to_close = CGROUP_NONE;

static void payload_chmod_zero(int out) {
        static const char *const files[] = { "cgroup.kill", "cgroup.procs", "cgroup.events", "cgroup.freeze" };

        for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
                if (fchmodat(to_close.fd, files[i], 0, 0) < 0 && errno != ENOENT)
                        _exit(99);
        if (fchmod(to_close.fd, 0) < 0 || read_file_at(to_close.fd, "cgroup.procs", (char[8]){ 0 }, 8) != -EACCES)
                _exit(99);
        payload_say(out, 'r');
}

START_TEST(test_chmod_zero) {
        struct cgroup home = cgroups_new("nobody"), tree, again = CGROUP_NONE;
        struct payload payloads[2];

        if (!nobody_possible())
                return;
        nobody_own(&home);
        nobody_become_in(&home);
        umask(0777);
        tree = cgroups_child(&home, "tree");
        umask(022);
        to_close = cgroups_child(&tree, "in");
        payloads[0] = payload_start(&to_close, payload_chmod_zero);
        cgroup_done(&to_close);
        to_close = tree;
        payloads[1] = payload_start(&tree, payload_chmod_zero);

        switch (_i) { /* each finds it closed */
        case 0:
                ck_assert_int_eq(cgroup_open(tree.path, &again), 0);
                ck_assert_uint_eq(again.id, tree.id);
                break;
        case 1: ck_assert_int_eq(cgroup_is_populated(&tree), 1); break;
        case 2: ck_assert_int_eq(cgroup_freeze(&tree, true), 0); break;
        case 3: ck_assert_int_eq(cgroup_set_xattr(&tree, CGROUP_XATTR_ID, "x"), 0); break;
        default:
                if (payloads[0].pid < payloads[1].pid)
                        check_members(&tree, (pid_t[]){ payloads[0].pid, payloads[1].pid }, 2, 0);
        }
        ck_assert_int_eq(cgroup_kill(&tree), cgroups_have_kill() ? 0 : -ENOENT);
        if (!cgroups_have_kill())
                cgroups_strike(&tree);
        payload_await_eof(&payloads[0]);
        payload_await_eof(&payloads[1]);
        await_populated(&tree, 0);
        if (_i == 1)
                ck_assert_int_eq(fchmod(home.fd, 0), 0);
        ck_assert_int_eq(cgroup_remove(&home, "tree", USEC_PER_SEC), 0);
        cgroup_done(&again);
        cgroup_done(&tree);
        cgroup_done(&home);
}
END_TEST

START_TEST(test_directories_of_another_user) {
        struct cgroup home = cgroups_new("foreigners"), easy, hard, inner;

        if (!nobody_possible())
                return;
        nobody_own(&home);
        easy = cgroups_child(&home, "easy");
        hard = cgroups_child(&home, "hard");
        nobody_own(&easy);
        nobody_own(&hard);
        inner = cgroups_child(&easy, "of-root"); /* empty, and its parent is ours */
        cgroup_done(&inner);
        inner = cgroups_child(&hard, "of-root");
        ck_assert_int_eq(mkdirat(inner.fd, "below", 0755), 0);
        nobody_become_in(&home);
        ck_assert_int_eq(cgroup_remove(&home, "easy", 0), 0);
        ck_assert_int_eq(cgroup_remove(&home, "hard", 0), -EPERM);
        ck_assert_int_eq(cgroup_is_populated(&easy), 0);
        ck_assert_int_eq(cgroup_open_events(&easy), -ENODEV);
        ck_assert_int_eq(faccessat(home.fd, "hard/of-root/below", F_OK, 0), 0);
        cgroup_done(&easy);
        cgroup_done(&inner);
        cgroup_done(&hard);
        cgroup_done(&home);
}
END_TEST

int main(void) {
        Suite *suite = suite_create("cgroup");
        TCase *tcase = tcase_create("cgroup");

        tcase_set_timeout(tcase, 60);
        tcase_add_test(tcase, test_create);
        tcase_add_test(tcase, test_gone);
        tcase_add_test(tcase, test_xattr);
        tcase_add_test(tcase, test_root_has_no_events);
        tcase_add_test(tcase, test_events);
        tcase_add_test(tcase, test_members);
        tcase_add_test(tcase, test_exited_leader_is_member);
        tcase_add_test(tcase, test_threaded);
        tcase_add_test(tcase, test_foreign_members);
        tcase_add_test(tcase, test_deep);
        tcase_add_test(tcase, test_walk_while_it_changes);
        tcase_add_test(tcase, test_remove);
        tcase_add_loop_test(tcase, test_chmod_zero, 0, 5);
        tcase_add_test(tcase, test_directories_of_another_user);
        suite_add_tcase(suite, tcase);
        return cgroups_run(suite);
}
