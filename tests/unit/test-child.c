/* SPDX-License-Identifier: MIT */

/* What a child is to have at its exec, told by itself, for each of the ways into it. */

#include <grp.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "probed.h"
#include "scratch.h"

static uint64_t bit(int number) {
        return UINT64_C(1) << (number - 1);
}

/* ---- arguments, environment, nothing else ---------------------------------------------------------------------- */

TEST_EACH_WAY(test_bare) {
        int open_here = new_file();
        struct child_plan *plan = plan_new(NULL, (const char *const[]){ "other name", "", "a b", "--", "x=y", NULL });
        struct probed probed;
        char here[4096];

        fcntl(open_here, F_SETFD, 0); /* a plain exec would pass it on */
        probed = probe_whole(way, plan, -1);
        probed_is(&probed, "arg0", "other name");
        probed_is(&probed, "arg1", "");
        probed_is(&probed, "arg2", "a b");
        probed_is(&probed, "arg3", "--");
        probed_is(&probed, "arg4", "x=y");
        probed_is(&probed, "arg5", NULL);
        ck_assert_ptr_nonnull(
                strstr(probed.report, "\nenvironment: A=b c\nenvironment: EMPTY=\nenvironment: odd\ncomplete"));
        probed_is(&probed, "directory", getcwd(here, sizeof(here)));
        ck_assert_int_eq(probed_number(&probed, "parent", 10), getpid());
        ck_assert_int_eq(probed_number(&probed, "session", 10), getsid(0));
        ck_assert_int_eq(probed_number(&probed, "group", 10), getpgid(0));
        ck_assert_ptr_null(strstr(probed.report, "\nfd"));
        ck_assert_int_ne(strncmp(probed.report, "fd", 2), 0);
        probed_done(&probed);
        close(open_here);
}

/* ---- signals ---------------------------------------------------------------------------------------------------- */

static void on_signal(int number) {
        (void)number;
}

static void be_a_difficult_caller(void) {
        struct sigaction handled = { .sa_handler = on_signal }, ignored = { .sa_handler = SIG_IGN };
        sigset_t blocked;

        sigemptyset(&blocked);
        sigaddset(&blocked, SIGTERM);
        sigaddset(&blocked, SIGCHLD);
        sigaddset(&blocked, SIGRTMIN + 3);
        sigprocmask(SIG_BLOCK, &blocked, NULL);
        sigaction(SIGPIPE, &ignored, NULL);
        sigaction(SIGHUP, &ignored, NULL);
        sigaction(SIGRTMIN + 4, &ignored, NULL);
        sigaction(SIGUSR1, &handled, NULL);
        sigaction(SIGRTMAX, &handled, NULL);
}

TEST_EACH_WAY(test_signals_default) {
        struct probed probed;

        be_a_difficult_caller();
        probed = probe_whole(way, probe_plan(), -1);
        ck_assert_uint_eq(probed_number(&probed, "SigBlk", 16), 0);
        ck_assert_uint_eq(probed_number(&probed, "SigIgn", 16), 0);
        ck_assert_uint_eq(probed_number(&probed, "SigPnd", 16), 0);
        probed_done(&probed);
}

TEST_EACH_WAY(test_signals_asked_for) {
        struct child_plan *plan = probe_plan();
        sigset_t before, after;
        struct probed probed;

        be_a_difficult_caller();
        sigprocmask(SIG_SETMASK, NULL, &before);
        plan->blocked = bit(SIGUSR2) | bit(64) | bit(SIGTERM);
        plan->ignored = bit(SIGQUIT) | bit(SIGCHLD) | bit(33);
        probed = probe_whole(way, plan, -1);
        ck_assert_uint_eq((uint64_t)probed_number(&probed, "SigBlk", 16), bit(SIGUSR2) | bit(64) | bit(SIGTERM));
        ck_assert_uint_eq((uint64_t)probed_number(&probed, "SigIgn", 16), bit(SIGQUIT) | bit(SIGCHLD) | bit(33));
        probed_done(&probed);

        sigprocmask(SIG_SETMASK, NULL, &after);
        ck_assert_mem_eq(&before, &after, 8); /* libc uses no more of it */
}

/* Event-loop hosts block TERM; what they start dies by it all the same. */
TEST_EACH_WAY(test_dies_by_term) {
        struct probed probed;
        int code;

        be_a_difficult_caller();
        probed = probe_start(way, plan_new(NULL, (const char *const[]){ "probe", "pause", NULL }), -1);
        ck_assert_int_eq(probed.result.step, CHILD_OK);
        ck_assert_int_eq(kill(probed.pid, SIGTERM), 0); /* not reaped: it is still this one's */
        ck_assert_int_eq(probe_end(&probed, &code), SIGTERM);
        ck_assert_int_eq(code, CLD_KILLED);
        probed_done(&probed);
}

/* ---- session and terminal --------------------------------------------------------------------------------------- */

TEST_EACH_WAY(test_session) {
        struct child_plan *plan = probe_plan();
        struct probed probed;
        long pid;

        plan->session = CGTREE_SESSION_GROUP;
        probed = probe_whole(way, plan, -1);
        pid = probed_number(&probed, "pid", 10);
        ck_assert_int_eq(probed_number(&probed, "group", 10), pid);
        ck_assert_int_eq(probed_number(&probed, "session", 10), getsid(0));
        probed_done(&probed);

        plan = probe_plan();
        plan->session = CGTREE_SESSION_NEW;
        probed = probe_whole(way, plan, -1);
        pid = probed_number(&probed, "pid", 10);
        ck_assert_int_eq(probed_number(&probed, "group", 10), pid);
        ck_assert_int_eq(probed_number(&probed, "session", 10), pid);
        ck_assert_int_eq(probed_number(&probed, "foreground", 10), -1);
        probed_done(&probed);
}

/* The rest runs as the leader of a session of its own, with a terminal if asked for; our end of that is in *ret_master. */
static bool in_new_session(bool terminal, int *ret_master, int *ret_slave) {
        int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), slave, status;
        pid_t pid;

        ck_assert_int_ge(master, 0);
        ck_assert_int_eq(grantpt(master), 0);
        ck_assert_int_eq(unlockpt(master), 0);
        slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
        ck_assert_int_ge(slave, 0);
        pid = fork();
        ck_assert_int_ge(pid, 0);
        if (pid != 0) {
                ck_assert_int_eq(waitpid(pid, &status, 0), pid);
                ck_assert_int_eq(status, 0);
                close(master);
                close(slave);
                return false;
        }
        ck_assert_int_eq(setsid(), getpid());
        if (terminal)
                ck_assert_int_eq(ioctl(slave, TIOCSCTTY, 0), 0);
        *ret_master = master;
        *ret_slave = slave;
        return true;
}

TEST_EACH_WAY(test_foreground) {
        struct child_plan *plan;
        struct probed probed;
        int master, slave;

        if (!in_new_session(true, &master, &slave))
                return;
        ck_assert_int_eq(tcgetpgrp(slave), getpid());
        plan = probe_plan();
        plan->session = CGTREE_SESSION_FOREGROUND;
        probed = probe_whole(way, plan, -1);
        ck_assert_int_eq(probed_number(&probed, "group", 10), probed_number(&probed, "pid", 10));
        ck_assert_int_eq(probed_number(&probed, "foreground", 10), probed_number(&probed, "pid", 10));
        ck_assert_int_eq(probed_number(&probed, "session", 10), getpid());
        _exit(0);
}

/* A background caller does not take the terminal from whoever has it. */
TEST_EACH_WAY(test_foreground_is_of_others) {
        int master, slave, status;
        pid_t pid;

        if (!in_new_session(true, &master, &slave))
                return;
        pid = fork();
        if (pid == 0) {
                struct child_plan *plan = probe_plan();
                struct probed probed;

                setpgid(0, 0);
                plan->session = CGTREE_SESSION_FOREGROUND;
                probed = probe_whole(way, plan, -1);
                ck_assert_int_eq(probed_number(&probed, "group", 10), probed_number(&probed, "pid", 10));
                ck_assert_int_eq(probed_number(&probed, "foreground", 10), getppid());
                _exit(0);
        }
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        _exit(status != 0);
}

TEST_EACH_WAY(test_foreground_without_terminal) {
        struct child_plan *plan;
        struct probed probed;
        int master, slave;

        if (!in_new_session(false, &master, &slave))
                return;
        plan = probe_plan();
        plan->session = CGTREE_SESSION_FOREGROUND;
        probed = probe_whole(way, plan, -1);
        ck_assert_int_eq(probed_number(&probed, "group", 10), probed_number(&probed, "pid", 10));
        ck_assert_int_eq(probed_number(&probed, "foreground", 10), -1);
        _exit(0);
}

TEST_EACH_WAY(test_own_terminal) {
        struct child_plan *plan;
        struct probed probed;
        int master, slave;

        if (!in_new_session(false, &master, &slave))
                return;
        plan = probe_plan();
        plan->session = CGTREE_SESSION_TTY;
        plan_fd(plan, 0, slave);
        probed = probe_whole(way, plan, -1);
        ck_assert_int_eq(probed_number(&probed, "session", 10), probed_number(&probed, "pid", 10));
        ck_assert_int_eq(probed_number(&probed, "foreground", 10), probed_number(&probed, "pid", 10));
        fd_is(&probed, 0, slave);
        _exit(0);
}

TEST_EACH_WAY(test_own_terminal_that_is_none) {
        struct child_plan *plan = probe_plan();

        plan->session = CGTREE_SESSION_TTY;
        plan_fd(plan, 0, CGTREE_FD_NULL);
        probe_fails(way, plan, -1, CHILD_TERMINAL, EBADF);

        plan = probe_plan();
        plan->session = CGTREE_SESSION_TTY;
        plan_fd(plan, 0, new_file());
        probe_fails(way, plan, -1, CHILD_TERMINAL, ENOTTY);
}

/* ---- directory and user ----------------------------------------------------------------------------------------- */

TEST_EACH_WAY(test_directory) {
        char path[96], expected[128];
        int dirfd = scratch_open(path, sizeof(path));
        struct child_plan *plan = probe_plan();
        struct probed probed;

        ck_assert_int_eq(mkdirat(dirfd, "a b", 0700), 0);
        snprintf(expected, sizeof(expected), "%s/a b", path);
        plan->directory = strdup(expected);
        probed = probe_whole(way, plan, -1);
        probed_is(&probed, "directory", expected);
        probed_done(&probed);

        /* Relative to a descriptor, whose number is wanted for something else. */
        plan = probe_plan();
        plan->directory = strdup("a b");
        plan->directory_fd = dirfd;
        plan_fd(plan, dirfd, CGTREE_FD_NULL);
        probed = probe_whole(way, plan, -1);
        probed_is(&probed, "directory", expected);
        fd_is(&probed, dirfd, open("/dev/null", O_RDWR | O_CLOEXEC));
        probed_done(&probed);

        plan = probe_plan();
        plan->directory = strdup("/");
        plan->directory_fd = dirfd;
        probed = probe_whole(way, plan, -1);
        probed_is(&probed, "directory", "/");
        probed_done(&probed);
}

TEST_EACH_WAY(test_directory_fails) {
        struct child_plan *plan = probe_plan();

        plan->directory = strdup("/nowhere/at all");
        probe_fails(way, plan, -1, CHILD_DIRECTORY, ENOENT);
        plan = probe_plan();
        plan->directory = strdup("/dev/null");
        probe_fails(way, plan, -1, CHILD_DIRECTORY, ENOTDIR);
}

static void copy_file(const char *from, const char *to) {
        _cleanup_close_ int source = open(from, O_RDONLY | O_CLOEXEC),
                            target = open(to, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
        char buffer[65536];
        ssize_t n;

        while ((n = read(source, buffer, sizeof(buffer))) > 0)
                ck_assert_int_eq(write(target, buffer, (size_t)n), n);
        ck_assert_int_eq(n, 0);
        ck_assert_int_eq(fchmod(target, 0755), 0);
}

static struct child_plan *plan_for_other_user(const char *probe) {
        struct child_plan *plan = plan_new(probe, (const char *const[]){ "probe", NULL });

        plan->set_user = true;
        plan->uid = 65534;
        plan->gid = 65533;
        plan->n_groups = 2;
        plan->groups = calloc(2, sizeof(gid_t));
        plan->groups[0] = 7;
        plan->groups[1] = 4000000000;
        return plan;
}

TEST_EACH_WAY(test_user) {
        char path[96], probe[128];
        _cleanup_free_ char *original = probe_path("probe");
        struct child_plan *plan;
        struct probed probed;

        if (geteuid() != 0)
                return;
        /* Somewhere that others can reach. */
        close(scratch_open(path, sizeof(path)));
        ck_assert_int_eq(chmod(scratch_path, 0755), 0);
        ck_assert_int_eq(chmod(path, 0755), 0);
        snprintf(probe, sizeof(probe), "%s/probe", path);
        copy_file(original, probe);

        plan = plan_for_other_user(probe);
        if (way == WAY_BORN) {
                struct birth *birth;
                pid_t pid;
                int pidfd;

                ck_assert_int_eq(birth_begin(plan, -1, &birth, &pid, &pidfd), -EINVAL);
                child_plan_free(plan);
                return;
        }
        probed = probe_whole(way, plan, -1);
        probed_is(&probed, "Uid", "65534\t65534\t65534\t65534");
        probed_is(&probed, "Gid", "65533\t65533\t65533\t65533");
        probed_is(&probed, "Groups", "7 4000000000 ");
        probed_done(&probed);

        plan = plan_for_other_user(probe);
        plan->n_groups = 0;
        probed = probe_whole(way, plan, -1);
        probed_is(&probed, "Groups", "");
        probed_done(&probed);

        /* As that user, not as us: a directory of ours that it cannot enter. */
        plan = plan_for_other_user(probe);
        ck_assert_int_eq(chmod(path, 0700), 0);
        plan->directory = strdup(path);
        probe_fails(way, plan, -1, CHILD_DIRECTORY, EACCES);
}

TEST_EACH_WAY(test_user_not_allowed) {
        _cleanup_free_ char *probe = probe_path("probe");

        if (way == WAY_BORN || (geteuid() == 0 && (setgroups(0, NULL) < 0 || setresuid(65534, 65534, 65534) < 0)))
                return;
        if (way == WAY_GATED) {
                _cleanup_free_ char *gate = NULL;

                if (gate_find("cgtree-gate", &gate) < 0) /* the build folder is not for this user */
                        return;
        }
        probe_fails(way, plan_for_other_user(probe), -1, CHILD_USER, EPERM);
}

/* ---- exec ------------------------------------------------------------------------------------------------------- */

static struct child_plan *plan_of_paths(const char *const paths[]) {
        struct child_plan *plan = probe_plan();

        strv_free(plan->executables);
        plan->executables = strv_copy(paths);
        return plan;
}

TEST_EACH_WAY(test_exec_fails) {
        char directory[96], file[128], below[160];
        int dirfd = scratch_open(directory, sizeof(directory));

        scratch_write(dirfd, "script", "echo no interpreter is named\n", 29, 0755);
        snprintf(file, sizeof(file), "%s/script", directory);
        snprintf(below, sizeof(below), "%s/x", file);
        probe_fails(way, plan_of_paths((const char *const[]){ "/nowhere/x", NULL }), -1, CHILD_EXEC, ENOENT);
        probe_fails(way, plan_of_paths((const char *const[]){ below, NULL }), -1, CHILD_EXEC, ENOTDIR);
        probe_fails(way, plan_of_paths((const char *const[]){ file, NULL }), -1, CHILD_EXEC, ENOEXEC);
        probe_fails(way, plan_of_paths((const char *const[]){ "/etc/passwd", NULL }), -1, CHILD_EXEC, EACCES);
        probe_fails(way, plan_of_paths((const char *const[]){ "/", NULL }), -1, CHILD_EXEC, EACCES);
        close(dirfd);
}

TEST_EACH_WAY(test_exec_in_turn) {
        _cleanup_free_ char *probe = probe_path("probe");
        struct probed probed;
        char directory[96], file[128];
        int dirfd = scratch_open(directory, sizeof(directory));

        scratch_write(dirfd, "script", "no interpreter\n", 15, 0755);
        snprintf(file, sizeof(file), "%s/script", directory);
        close(dirfd);
        /* What is absent or not to be executed is passed over. */
        probed = probe_whole(
                way, plan_of_paths((const char *const[]){ "/nowhere/x", "/etc/passwd", probe, file, NULL }), -1);
        probed_is(&probed, "arg0", "the probe");
        probed_done(&probed);
        /* The first that can be run is the one, for better or worse. */
        probe_fails(
                way, plan_of_paths((const char *const[]){ "/nowhere/x", file, probe, NULL }), -1, CHILD_EXEC, ENOEXEC);
        /* "Permission denied" says more than the "no such file" of the places after it. */
        probe_fails(
                way, plan_of_paths((const char *const[]){ "/etc/passwd", "/nowhere/x", NULL }), -1, CHILD_EXEC, EACCES);
        probe_fails(
                way, plan_of_paths((const char *const[]){ "/nowhere/y", "/nowhere/x", NULL }), -1, CHILD_EXEC, ENOENT);
}

TEST_EACH_WAY(test_exec_too_big) {
        size_t size = 256 * 1024;
        char *argument;
        struct child_plan *plan;

        if (way != WAY_BORN && !born) /* valgrind does not come back from such an exec */
                return;
        argument = calloc(1, size);
        memset(argument, 'x', size - 1);
        plan = plan_new(NULL, (const char *const[]){ "probe", argument, NULL });
        free(argument);
        if (way == WAY_GATED) { /* what is too big for the command is so for its stub */
                struct gate gate;

                ck_assert_int_eq(gate_start(plan, -1, &gate), -E2BIG);
                child_plan_free(plan);
                return;
        }
        probe_fails(way, plan, -1, CHILD_EXEC, E2BIG);
}

START_TEST(test_steps_have_names) {
        for (int step = CHILD_OK; step <= CHILD_EXEC; step++)
                ck_assert_str_ne(child_step_to_string(step), child_step_to_string(-1));
        ck_assert_str_eq(child_step_to_string(CHILD_EXEC + 1), child_step_to_string(-1));
        ck_assert_ptr_null(child_plan_free(NULL));
}
END_TEST

int main(void) {
        Suite *suite = suite_create("child");
        TCase *plain = tcase_create("plain");
        SRunner *runner;
        int failed;

        probe_setup();
        scratch_make();
        add_each_way(suite, "whole", (const TTest *const[]){ test_bare, NULL });
        add_each_way(suite, "signals",
                (const TTest *const[]){ test_signals_default, test_signals_asked_for, test_dies_by_term, NULL });
        add_each_way(suite, "session",
                (const TTest *const[]){ test_session, test_foreground, test_foreground_is_of_others,
                        test_foreground_without_terminal, test_own_terminal, test_own_terminal_that_is_none, NULL });
        add_each_way(suite, "directory", (const TTest *const[]){ test_directory, test_directory_fails, NULL });
        add_each_way(suite, "user", (const TTest *const[]){ test_user, test_user_not_allowed, NULL });
        add_each_way(
                suite, "exec", (const TTest *const[]){ test_exec_fails, test_exec_in_turn, test_exec_too_big, NULL });
        tcase_add_test(plain, test_steps_have_names);
        suite_add_tcase(suite, plain);

        runner = srunner_create(suite);
        srunner_run_all(runner, CK_NORMAL);
        failed = srunner_ntests_failed(runner);
        srunner_free(runner);
        scratch_remove();
        return failed > 0;
}
