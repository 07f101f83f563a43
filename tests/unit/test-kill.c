/* SPDX-License-Identifier: MIT */
#include "kill.h"

#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include "deny.h"
#include "drive.h"
#include "nobody.h"

static atomic_int *n_bombs;

/* Each generation leaves session, group and parent behind. */
static void bomb(void) {
        for (;;) {
                if (atomic_load(n_bombs) > 60) {
                        usleep(1000);
                        continue;
                }
                if (fork() != 0) {
                        waitpid(-1, NULL, WNOHANG);
                        continue;
                }
                setsid();
                if (fork() != 0)
                        _exit(0);
                if (atomic_fetch_add(n_bombs, 1) > 120) {
                        atomic_fetch_sub(n_bombs, 1);
                        _exit(0);
                }
        }
}

static void payload_bomb(int out) {
        n_bombs = mmap(NULL, sizeof(*n_bombs), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        signal(SIGTERM, SIG_IGN);
        if (n_bombs == MAP_FAILED)
                _exit(99);
        if (fork() == 0)
                bomb();
        while (atomic_load(n_bombs) < 40)
                usleep(1000);
        payload_say(out, 'r');
}

/* Nobody of it lives for long: who is listed is gone when the signal comes. */
static void payload_chain(int out) {
        signal(SIGTERM, SIG_IGN);
        signal(SIGCHLD, SIG_IGN);
        if (fork() != 0) {
                payload_say(out, 'r');
                return;
        }
        for (;;) {
                setsid();
                if (fork() != 0)
                        _exit(0);
        }
}

static void payload_zombies(int out) {
        for (int i = 0; i < 3; i++) {
                pid_t pid = fork();
                siginfo_t info;

                if (pid == 0)
                        _exit(0);
                if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) < 0)
                        _exit(99);
        }
        payload_say(out, 'r');
}

/* ---- kill ------------------------------------------------------------------------------------------------------- */

static const payload_fn killable[] = { payload_obedient, payload_ignore_term, payload_lose_main_thread, payload_bomb,
        payload_chain, payload_zombies, payload_in_vfork };

START_TEST(test_kill) {
        struct cgroup cgroup = cgroups_new("kill");
        struct payload payload = payload_start(&cgroup, killable[_i]);

        check_kill(&cgroup);
        payload_await_eof(&payload);
}
END_TEST

/* What step 3 is for. Kernels that have the bug keep the process for ever. */
START_TEST(test_kill_beyond_cgroup_kill) {
        struct cgroup cgroup = cgroups_new("b1");
        struct drive drive = drive_new(&cgroup);
        struct payload payload = payload_start(&cgroup, payload_lose_main_thread);
        uint64_t deadline = now_usec() + 50 * USEC_PER_MSEC;

        ck_assert_int_eq(cgroup_kill(&cgroup), cgroups_have_kill() ? 0 : -ENOENT);
        while (cgroup_events_populated(drive.events) == 1 && now_usec() < deadline)
                wait_until(drive.events, deadline);
        if (cgroup_events_populated(drive.events) == 0)
                printf("this kernel's cgroup.kill reaches processes without a main thread\n");
        ck_assert_int_eq(ending_kill(&drive.ending, &cgroup), 0);
        drive_to_empty(&drive, &cgroup);
        payload_await_eof(&payload);
        drive_done(&drive, &cgroup);
}
END_TEST

START_TEST(test_kill_empty_and_gone) {
        struct cgroup cgroup = cgroups_new("empty"), inner = cgroups_child(&cgroup, "in");
        struct drive drive = drive_new(&inner);
        uint64_t wakeup = 4711;

        ck_assert_int_eq(ending_step(&drive.ending, &inner, drive.events, &wakeup), 1);
        ck_assert_int_eq(ending_kill(&drive.ending, &inner), 0);
        ck_assert_int_eq(ending_step(&drive.ending, &inner, drive.events, &wakeup), 1);
        ending_done(&drive.ending, &inner);
        ck_assert_int_eq(ending_terminate(&drive.ending, &inner, SIGTERM, false, 0), 0);
        ck_assert_int_eq(ending_step(&drive.ending, &inner, drive.events, &wakeup), 1);
        ck_assert_int_eq(cgroup_remove(&cgroup, "in", 0), 0);
        ck_assert_int_eq(ending_kill(&drive.ending, &inner), 0);
        ck_assert_int_eq(ending_step(&drive.ending, &inner, drive.events, &wakeup), 1);
        ck_assert_ptr_null(kill_survivors(&inner));
        ck_assert_int_eq(ending_step(&drive.ending, &inner, -1, &wakeup), -EBADF);
        ck_assert_uint_eq(wakeup, 4711);
        ending_done(&drive.ending, &inner);
        ending_done(&drive.ending, &inner);
        close_fd(&drive.events);
        cgroup_done(&inner);
        cgroup_done(&cgroup);
}
END_TEST

START_TEST(test_kill_stopped_and_frozen) {
        struct cgroup cgroup = cgroups_new("stuck"), inner = cgroups_child(&cgroup, "in");
        struct payload stopped = payload_start(&cgroup, payload_obedient),
                       frozen = payload_start(&inner, payload_ignore_term);
        siginfo_t info;

        kill(stopped.pid, SIGSTOP);
        ck_assert_int_eq(waitid(P_PID, (id_t)stopped.pid, &info, WSTOPPED | WNOWAIT), 0);
        ck_assert_int_eq(cgroup_freeze(&inner, true), 0);
        check_kill(&cgroup);
        payload_await_eof(&stopped);
        payload_await_eof(&frozen);
        cgroup_done(&inner);
}
END_TEST

static void payload_join_threaded(int out) {
        payload_say(out, 'j');
}

static struct payload start_in_threaded(const struct cgroup *domain, const struct cgroup *threaded, payload_fn fn) {
        struct payload payload;
        int fds[2];

        ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
        payload.pid = fork();
        if (payload.pid == 0) {
                payload_reset_signals();
                if (write_file_at(domain->fd, "cgroup.procs", "0") < 0 ||
                        write_file_at(threaded->fd, "cgroup.procs", "0") < 0)
                        _exit(98);
                fn(fds[1]);
                for (;;)
                        pause();
        }
        close(fds[1]);
        payload.from = fds[0];
        ck_assert_int_eq(payload_hear(&payload), 'j');
        return payload;
}

START_TEST(test_kill_threaded) {
        struct cgroup domain = cgroups_new("threaded"), threaded = cgroups_child(&domain, "t");
        struct payload payload;
        struct drive drive = drive_new(&threaded);

        ck_assert_int_eq(write_file_at(threaded.fd, "cgroup.type", "threaded"), 0);
        payload = start_in_threaded(&domain, &threaded, payload_join_threaded);
        ck_assert_int_eq(cgroup_kill(&threaded), cgroups_have_kill() ? -EOPNOTSUPP : -ENOENT);
        ck_assert_int_eq(ending_kill(&drive.ending, &threaded), 0);
        ck_assert(drive.ending.only_walk);
        drive_to_empty(&drive, &threaded);
        payload_await_eof(&payload);
        drive_done(&drive, &threaded);

        threaded = cgroups_child(&domain, "u");
        ck_assert_int_eq(write_file_at(threaded.fd, "cgroup.type", "threaded"), 0);
        payload = start_in_threaded(&domain, &threaded, payload_join_threaded);
        cgroup_done(&threaded);
        check_kill(&domain); /* from above, cgroup.kill does it */
        payload_await_eof(&payload);
}
END_TEST

/* Without cgroup.kill (before 5.14), with and without a freezer. */
static bool bind_read_only(const struct cgroup *cgroup, const char *file) {
        _cleanup_free_ char *path = NULL;
        char link[32], name[4096];
        ssize_t n;

        snprintf(link, sizeof(link), "/proc/self/fd/%d", cgroup->fd);
        n = readlink(link, name, sizeof(name) - 1);
        ck_assert_int_gt(n, 0);
        name[n] = '\0';
        path = format("%s/%s", name, file);
        return mount(path, path, "none", MS_BIND, NULL) == 0 &&
               mount("none", path, "none", MS_REMOUNT | MS_BIND | MS_RDONLY, NULL) == 0;
}

static const struct {
        const char *read_only[2];
        payload_fn fn;
} lacking[] = {
        { { "cgroup.kill" }, payload_ignore_term },
        { { "cgroup.kill" }, payload_lose_main_thread },
        { { "cgroup.kill" }, payload_bomb },
        { { "cgroup.kill" }, payload_chain },
        { { "cgroup.kill", "cgroup.freeze" }, payload_ignore_term },
        { { "cgroup.kill", "cgroup.freeze" }, payload_lose_main_thread },
};

START_TEST(test_kill_without_cgroup_kill) {
        struct cgroup made = cgroups_new("lacking"), cgroup = CGROUP_NONE;
        struct payload payload;
        struct drive drive;

        if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) < 0) {
                printf("left out: private mounts: %s\n", strerror(errno));
                return;
        }
        payload = payload_start(&made, lacking[_i].fn);
        for (size_t i = 0; i < 2 && lacking[_i].read_only[i]; i++)
                if (faccessat(made.fd, lacking[_i].read_only[i], F_OK, 0) == 0)
                        ck_assert(bind_read_only(&made, lacking[_i].read_only[i]));
        ck_assert_int_eq(cgroup_open(made.path, &cgroup), 0); /* through the new namespace */
        ck_assert_int_eq(cgroup_kill(&cgroup), cgroups_have_kill() ? -EROFS : -ENOENT);
        drive = drive_new(&cgroup);
        ck_assert_int_eq(ending_kill(&drive.ending, &cgroup), 0);
        ck_assert(drive.ending.only_walk);
        ck_assert_int_eq(drive.ending.froze, !lacking[_i].read_only[1]);
        drive_to_empty(&drive, &cgroup);
        payload_await_eof(&payload);
        drive_done(&drive, &cgroup);
        cgroup_done(&made);
}
END_TEST

START_TEST(test_kill_members_of_another_user) {
        struct cgroup home = cgroups_new("others"), tree;
        struct payload payload;

        if (!nobody_possible() || !cgroups_have_kill())
                return;
        nobody_own(&home);
        tree = cgroups_child(&home, "tree");
        payload = payload_start(&tree, payload_ignore_term);
        ck_assert_int_eq(fchownat(tree.fd, "cgroup.kill", NOBODY, NOBODY, 0), 0);
        nobody_become_in(&home);
        ck_assert_int_eq(kill_signal_members(&tree, SIGKILL, false), -EPERM);
        ck_assert_int_eq(cgroup_is_populated(&tree), 1);
        check_kill(&tree);
        payload_await_eof(&payload);
        cgroup_done(&home);
}
END_TEST

/* No cgroup.kill, and a member that may not be signalled: it was held still for the walk, and runs again. */
START_TEST(test_kill_leaves_none_frozen) {
        struct cgroup home = cgroups_new("frozen"), tree;
        struct payload payload;
        uint64_t wakeup;
        int status;
        pid_t pid;

        if (!nobody_possible())
                return;
        nobody_own(&home);
        tree = cgroups_child(&home, "tree");
        payload = payload_start(&tree, payload_ignore_term);
        ck_assert_int_eq(fchownat(tree.fd, "cgroup.freeze", NOBODY, NOBODY, 0), 0);
        pid = fork();
        if (pid == 0) {
                struct drive drive = drive_new(&tree);

                nobody_become_in(&home);
                ck_assert_int_eq(ending_kill(&drive.ending, &tree), 0);
                ck_assert(drive.ending.only_walk && drive.ending.froze);
                for (uint64_t deadline = now_usec() + BOUND_USEC; drive.ending.froze && now_usec() < deadline;) {
                        ck_assert_int_eq(ending_step(&drive.ending, &tree, drive.events, &wakeup), 0);
                        wait_until(drive.events, wakeup);
                }
                ck_assert(drive.ending.phase == ENDING_KILLING && !drive.ending.froze);
                drive_done(&drive, &tree);
                _exit(0);
        }
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_int_eq(status, 0);
        check_kill(&tree);
        payload_await_eof(&payload);
        cgroup_done(&home);
}
END_TEST

/* ---- members ---------------------------------------------------------------------------------------------------- */

START_TEST(test_signal_members) {
        struct cgroup cgroup = cgroups_new("signal"), inner = cgroups_child(&cgroup, "in");
        struct payload payloads[2] = { payload_start(&cgroup, payload_tell_signals),
                payload_start(&inner, payload_tell_signals) };

        if (_i == 1)
                deny_syscall(SYS_pidfd_open, ENOSYS);
        ck_assert_int_eq(kill_signal_members(&cgroup, SIGHUP, false), 2);
        ck_assert_int_eq(payload_hear(&payloads[0]), 'H');
        ck_assert_int_eq(payload_hear(&payloads[1]), 'H');
        ck_assert_int_eq(kill_signal_members(&inner, SIGKILL, true), 1);
        payload_await_eof(&payloads[1]);
        ck_assert_int_eq(kill(payloads[0].pid, 0), 0);
        cgroup_done(&inner);
        check_kill(&cgroup);
        payload_await_eof(&payloads[0]);
}
END_TEST

static void payload_crowd(int out) {
        for (int i = 1; i < 200; i++) {
                pid_t pid = fork();

                if (pid == 0)
                        return;
                if (pid < 0)
                        _exit(99);
        }
        payload_say(out, 'r');
}

START_TEST(test_crowd_with_few_descriptors) {
        struct cgroup cgroup = cgroups_new("crowd");
        struct payload payload = payload_start(&cgroup, payload_crowd);
        struct drive drive = drive_new(&cgroup);
        int highest = dup(drive.events);
        struct rlimit limit;

        close(highest);
        ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
        if (_i == 1) {
                limit.rlim_cur = (rlim_t)highest + 8;
                ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
        }
        ck_assert_int_eq(kill_signal_members(&cgroup, SIGKILL, true), 200);
        drive_to_empty(&drive, &cgroup);
        payload_await_eof(&payload);
        drive_done(&drive, &cgroup);
}
END_TEST

START_TEST(test_survivors) {
        struct cgroup cgroup = cgroups_new("survivors");
        struct payload payload = payload_start(&cgroup, payload_ignore_term), crowd;
        _cleanup_free_ char *one = kill_survivors(&cgroup), *many = NULL, *pid = format("pid %d (", payload.pid);
        size_t n_named = 1;

        ck_assert_msg(one && strncmp(one, pid, strlen(pid)) == 0 && strstr(one, ") in state "), "%s", one);
        crowd = payload_start(&cgroup, payload_crowd);
        many = kill_survivors(&cgroup);
        ck_assert_ptr_nonnull(many);
        for (const char *c = many; *c; c++)
                n_named += *c == ';';
        ck_assert_msg(n_named == 9 && strstr(many, "; and 193 more"), "%s", many);
        check_kill(&cgroup);
        payload_await_eof(&payload);
        payload_await_eof(&crowd);
}
END_TEST

static TCase *kill_cases(void) {
        TCase *tcase = tcase_create("kill");

        tcase_set_timeout(tcase, 100);
        tcase_add_loop_test(tcase, test_kill, 0, sizeof(killable) / sizeof(killable[0]));
        tcase_add_test(tcase, test_kill_beyond_cgroup_kill);
        tcase_add_test(tcase, test_kill_empty_and_gone);
        tcase_add_test(tcase, test_kill_stopped_and_frozen);
        tcase_add_test(tcase, test_kill_threaded);
        tcase_add_loop_test(tcase, test_kill_without_cgroup_kill, 0, sizeof(lacking) / sizeof(lacking[0]));
        tcase_add_test(tcase, test_kill_members_of_another_user);
        tcase_add_test(tcase, test_kill_leaves_none_frozen);
        return tcase;
}

static TCase *member_cases(void) {
        TCase *tcase = tcase_create("members");

        tcase_set_timeout(tcase, 100);
        tcase_add_loop_test(tcase, test_signal_members, 0, 2);
        tcase_add_loop_test(tcase, test_crowd_with_few_descriptors, 0, 2);
        tcase_add_test(tcase, test_survivors);
        return tcase;
}

int main(void) {
        Suite *suite = suite_create("kill");

        suite_add_tcase(suite, kill_cases());
        suite_add_tcase(suite, member_cases());
        return cgroups_run(suite);
}
