/* SPDX-License-Identifier: MIT */

/* The gate: what passes through it, when it opens, what it says when it cannot. What the child is given is test-child.c's. */

#include <sys/socket.h>
#include <sys/stat.h>

#include "boxes.h"
#include "deny.h"
#include "gate-plan.h"
#include "probed.h"
#include "process.h"
#include "scratch.h"

/* ---- the plan as arguments -------------------------------------------------------------------------------------- */

static struct child_plan *plan_of_everything(void) {
        struct child_plan *plan =
                plan_new("/usr/bin/a=b", (const char *const[]){ "--", "", "fd=3:4", "a\nb", "--", NULL });

        strv_free(plan->executables);
        plan->executables = strv_copy((const char *const[]){ "./x=y", "", "/usr/bin/--", NULL });
        plan->directory = strdup("a=b/--");
        plan->directory_fd = 0;
        plan->session = CGTREE_SESSION_TTY;
        plan->blocked = UINT64_MAX;
        plan->ignored = UINT64_C(1) << 63;
        plan->inherit_fds = true;
        plan->set_user = true;
        plan->uid = 4294967294;
        plan->gid = 1000;
        plan->n_groups = 2;
        plan->groups = calloc(2, sizeof(gid_t));
        plan->groups[1] = 4000000000;
        plan_fd(plan, 1000, CGTREE_FD_NULL);
        plan_fd(plan, 0, 2);
        plan_fd(plan, 2, 2);
        return plan;
}

static void strv_are(char *const strings[], char *const expected[]) {
        size_t i = 0;

        for (; strings[i] && expected[i]; i++)
                ck_assert_str_eq(strings[i], expected[i]);
        ck_assert_ptr_eq(strings[i], expected[i]);
}

START_TEST(test_plan_there_and_back) {
        struct child_plan *plan = plan_of_everything();
        _cleanup_strv_ char **argv = NULL;
        struct gate_plan back;

        ck_assert_int_eq(gate_plan_encode("program", plan, 7, 8, true, &argv), 0);
        ck_assert_str_eq(argv[0], "program");
        ck_assert_int_eq(gate_plan_decode(argv, plan->envp, &back), 0);
        ck_assert_int_eq(back.socket, 7);
        ck_assert_int_eq(back.cgroup_fd, 8);
        strv_are(back.child.argv, plan->argv);
        strv_are(back.child.executables, plan->executables);
        ck_assert_ptr_eq(back.child.envp, plan->envp);
        ck_assert_str_eq(back.child.directory, plan->directory);
        ck_assert_int_eq(back.child.directory_fd, 0);
        ck_assert_int_eq(back.child.session, plan->session);
        ck_assert_uint_eq(back.child.blocked, plan->blocked);
        ck_assert_uint_eq(back.child.ignored, plan->ignored);
        ck_assert(back.child.inherit_fds && back.child.set_user && back.introduce);
        ck_assert_uint_eq(back.child.uid, plan->uid);
        ck_assert_uint_eq(back.child.gid, plan->gid);
        ck_assert_uint_eq(back.child.n_groups, 2);
        ck_assert_uint_eq(back.child.groups[0], 0);
        ck_assert_uint_eq(back.child.groups[1], 4000000000);
        ck_assert_uint_eq(back.child.n_fds, plan->n_fds);
        for (size_t i = 0; i < plan->n_fds; i++) {
                ck_assert_int_eq(back.child.fds[i].target, plan->fds[i].target);
                ck_assert_int_eq(back.child.fds[i].source, plan->fds[i].source);
        }
        gate_plan_done(&back);
        child_plan_free(plan);
}
END_TEST

/* What little there need be: nothing that was not asked for is in it. */
START_TEST(test_plan_of_nothing) {
        struct child_plan *plan = plan_new("/x", (const char *const[]){ "x", NULL });
        _cleanup_strv_ char **argv = NULL;
        struct gate_plan back;

        ck_assert_int_eq(gate_plan_encode("program", plan, 3, -1, false, &argv), 0);
        ck_assert_int_eq(gate_plan_decode(argv, plan->envp, &back), 0);
        ck_assert_int_eq(back.cgroup_fd, -1);
        ck_assert_int_eq(back.child.directory_fd, AT_FDCWD);
        ck_assert_ptr_null(back.child.directory);
        ck_assert(!back.child.inherit_fds && !back.child.set_user && !back.introduce);
        ck_assert_uint_eq(back.child.n_fds + back.child.n_groups + back.n_close_on_exec, 0);
        gate_plan_done(&back);
        child_plan_free(plan);
}
END_TEST

static const char *const bad_arguments[][8] = {
        { "gate", NULL },
        { "gate", "--help", NULL },
        { "gate", "socket=3", "executable=/x", NULL },
        { "gate", "socket=3", "executable=/x", "--", NULL },
        { "gate", "socket=3", "--", "x", NULL },
        { "gate", "executable=/x", "--", "x", NULL },
        { "gate", "socket=", "executable=/x", "--", "x", NULL },
        { "gate", "socket=-3", "executable=/x", "--", "x", NULL },
        { "gate", "socket=3x", "executable=/x", "--", "x", NULL },
        { "gate", "socket=4294967299", "executable=/x", "--", "x", NULL },
        { "gate", "socket=3", "session=9", "executable=/x", "--", "x", NULL },
        { "gate", "socket=3", "blocked=18446744073709551616", "executable=/x", "--", "x", NULL },
        { "gate", "socket=3", "user=1", "executable=/x", "--", "x", NULL },
        { "gate", "socket=3", "user=1:", "executable=/x", "--", "x", NULL },
        { "gate", "socket=3", "user=:1", "executable=/x", "--", "x", NULL },
        { "gate", "socket=3", "user=4294967296:1", "executable=/x", "--", "x", NULL },
        { "gate", "socket=3", "group=-1", "executable=/x", "--", "x", NULL },
        { "gate", "socket=3", "fd=1", "executable=/x", "--", "x", NULL },
        { "gate", "socket=3", "fd=-1:2", "executable=/x", "--", "x", NULL },
        { "gate", "socket=3", "fd=1:-2", "executable=/x", "--", "x", NULL },
        { "gate", "socket=3", "fd=00000000000000000000000000001:2", "executable=/x", "--", "x", NULL },
        { "gate", "socket=3", "socket", "executable=/x", "--", "x", NULL },
        { "gate", "socket=3", "unheard=of", "executable=/x", "--", "x", NULL },
};

START_TEST(test_plan_is_none) {
        struct gate_plan plan = { .socket = -7 };

        ck_assert_int_eq(gate_plan_decode((char **)(uintptr_t)bad_arguments[_i], environ, &plan), -EINVAL);
        ck_assert_int_eq(plan.socket, -7);
}
END_TEST

/* ---- messages --------------------------------------------------------------------------------------------------- */

START_TEST(test_messages) {
        struct gate_message sent = { .type = GATE_ROOT_ENDED, .step = 1, .error = 2, .code = 3, .status = 4, .pid = 5 };
        struct gate_message received = { 0 };
        int sockets[2], fd = 77;

        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
        ck_assert_int_eq(gate_message_receive(sockets[1], &received, &fd, MSG_DONTWAIT), -EAGAIN);
        ck_assert_int_eq(fd, 77);
        ck_assert_int_eq(gate_message_send(sockets[0], &sent, -1, MSG_DONTWAIT), 0);
        ck_assert_int_eq(gate_message_receive(sockets[1], &received, &fd, MSG_DONTWAIT), 0);
        ck_assert_mem_eq(&sent, &received, sizeof(sent));
        ck_assert_int_eq(fd, -1);

        ck_assert_int_eq(gate_message_send(sockets[0], &sent, sockets[0], 0), 0);
        ck_assert_int_eq(gate_message_receive(sockets[1], &received, &fd, 0), 0);
        ck_assert_int_ge(fd, 0);
        ck_assert_int_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
        close(fd);
        /* Whoever does not want it does not get it. */
        ck_assert_int_eq(gate_message_send(sockets[0], &sent, sockets[0], 0), 0);
        ck_assert_int_eq(gate_message_receive(sockets[1], &received, NULL, 0), 0);
        ck_assert_int_eq(fcntl(fd, F_GETFD), -1);

        ck_assert_int_eq(send(sockets[0], "short", 5, 0), 5);
        ck_assert_int_eq(gate_message_receive(sockets[1], &received, &fd, 0), -EBADMSG);
        close(sockets[0]);
        ck_assert_int_eq(gate_message_receive(sockets[1], &received, &fd, 0), -ECONNRESET);
        ck_assert_int_eq(gate_message_send(sockets[1], &sent, -1, 0), -EPIPE);
        close(sockets[1]);
}
END_TEST

/* ---- where the stub is ------------------------------------------------------------------------------------------ */

START_TEST(test_find) {
        _cleanup_free_ char *path = NULL, *other = NULL, *expected = NULL;
        char directory[96];
        int dirfd = scratch_open(directory, sizeof(directory));
        struct child_plan *plan = plan_new("/bin/true", (const char *const[]){ "true", NULL });
        struct gate gate;

        ck_assert_int_eq(gate_find("cgtree-gate", &path), 0);
        ck_assert_int_eq(access(path, X_OK), 0);

        /* Named is where it is, and nowhere else. */
        setenv("CGTREE_LIBEXEC", directory, 1);
        ck_assert_int_eq(gate_find("cgtree-gate", &other), -ENOENT);
        ck_assert_int_eq(gate_start(plan, -1, &gate), -ENOENT);
        scratch_write(dirfd, "cgtree-gate", "", 0, 0644);
        if (geteuid() != 0 || access("/etc/passwd", X_OK) < 0)
                ck_assert_int_eq(gate_find("cgtree-gate", &other), -EACCES);
        ck_assert_int_eq(fchmodat(dirfd, "cgtree-gate", 0755, 0), 0);
        ck_assert_int_eq(gate_find("cgtree-gate", &other), 0);
        expected = format("%s/cgtree-gate", directory);
        ck_assert_str_eq(other, expected);
        child_plan_free(plan);
        close(dirfd);
}
END_TEST

/* This program under another name says what gate_find() finds: see main(). */
static void found_by(const char *directory, const char *name, const char *expected) {
        _cleanup_free_ char *command = format("env -u CGTREE_LIBEXEC '%s/bin/%s' find", directory, name);
        char line[256] = "";
        FILE *output = popen(command, "re");

        if (!fgets(line, sizeof(line), output))
                line[0] = '\0';
        ck_assert_int_eq(pclose(output), 0);
        ck_assert_msg(strcmp(line, expected) == 0, "%s finds '%s', expected '%s'", name, line, expected);
}

static void copy_self(const char *to) {
        _cleanup_close_ int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
        _cleanup_close_ int copy = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
        char buffer[65536];
        ssize_t n;

        while ((n = read(self, buffer, sizeof(buffer))) > 0)
                ck_assert_int_eq(write(copy, buffer, (size_t)n), n);
        ck_assert_int_eq(n, 0);
}

START_TEST(test_find_beside_cgtree) {
        char directory[96];
        int dirfd = scratch_open(directory, sizeof(directory));
        _cleanup_free_ char *tool = format("%s/bin/cgtree", directory), *host = format("%s/bin/host", directory);
        _cleanup_free_ char *libexec = format("%s/bin/../libexec/cgtree/cgtree-gate", directory);
        _cleanup_free_ char *beside = format("%s/bin/cgtree-gate", directory);

        ck_assert_int_eq(mkdirat(dirfd, "bin", 0755), 0);
        ck_assert_int_eq(mkdirat(dirfd, "libexec", 0755), 0);
        ck_assert_int_eq(mkdirat(dirfd, "libexec/cgtree", 0755), 0);
        copy_self(tool);
        copy_self(host);
        if (access(CGTREE_LIBEXECDIR "/cgtree-gate", F_OK) < 0)
                found_by(directory, "cgtree", "");
        scratch_write(dirfd, "libexec/cgtree/cgtree-gate", "", 0, 0755);
        found_by(directory, "cgtree", libexec);
        scratch_write(dirfd, "bin/cgtree-gate", "", 0, 0755);
        found_by(directory, "cgtree", beside);
        if (access(CGTREE_LIBEXECDIR "/cgtree-gate", F_OK) < 0) /* a host of the library has none of ours beside it */
                found_by(directory, "host", "");
        close(dirfd);
}
END_TEST

/* ---- the gate opens --------------------------------------------------------------------------------------------- */

static void end_of(struct gate *gate, int code, int status) {
        siginfo_t info = { 0 };

        ck_assert_int_eq(waitid(P_PID, (id_t)gate->pid, &info, WEXITED), 0);
        ck_assert_int_eq(info.si_code, code);
        ck_assert_int_eq(info.si_status, status);
        gate_done(gate);
}

/* Until it is told to, it does nothing but wait: the scratch file is not made. */
START_TEST(test_waits_for_go) {
        char directory[96];
        int dirfd = scratch_open(directory, sizeof(directory));
        struct child_plan *plan = plan_new("/bin/sh", (const char *const[]){ "sh", "-c", ": > made; exit 5", NULL });
        struct gate_message message = { .type = GATE_GO };
        struct gate gate = GATE_NONE;
        struct process_stat stat;

        plan->directory = strdup(directory);
        ck_assert_int_eq(gate_start(plan, -1, &gate), 0);
        child_plan_free(plan);
        ck_assert_int_eq(gate_receive(&gate, &message, NULL), -EAGAIN);
        do /* until it stands at its gate */
                ck_assert_int_eq(process_read_stat(gate.pid, &stat), 0);
        while (stat.state != 'S');
        ck_assert_str_eq(stat.comm, "cgtree-gate");
        ck_assert_int_eq(pidfd_is_dead(gate.pidfd), 0);
        ck_assert(!scratch_has(dirfd, "made"));

        ck_assert_int_eq(gate_send(&gate, &message), 0);
        ck_assert_int_eq(gate_await(&gate, &message), -ECONNRESET);
        end_of(&gate, CLD_EXITED, 5);
        ck_assert(scratch_has(dirfd, "made"));
        close(dirfd);
}
END_TEST

START_TEST(test_given_up) {
        struct child_plan *plan = plan_new("/bin/false", (const char *const[]){ "false", NULL });
        struct gate gate = GATE_NONE;
        struct pollfd dead;

        ck_assert_int_eq(gate_start(plan, -1, &gate), 0);
        child_plan_free(plan);
        close_fd(&gate.socket); /* as when the owner dies */
        dead = (struct pollfd){ .fd = gate.pidfd, .events = POLLIN };
        ck_assert_int_eq(poll(&dead, 1, 20000), 1);
        end_of(&gate, CLD_EXITED, 0);
}
END_TEST

/* What is sent to the root while it stands at the gate reaches the command, not the stub. */
START_TEST(test_signals_wait) {
        struct child_plan *plan = plan_new("/bin/true", (const char *const[]){ "true", NULL });
        struct gate_message message = { .type = GATE_GO };
        struct gate gate = GATE_NONE;

        ck_assert_int_eq(gate_start(plan, -1, &gate), 0);
        child_plan_free(plan);
        ck_assert_int_eq(kill(gate.pid, SIGHUP), 0); /* not reaped: it is still this one's */
        ck_assert_int_eq(pidfd_is_dead(gate.pidfd), 0);
        ck_assert_int_eq(gate_send(&gate, &message), 0);
        ck_assert_int_eq(gate_await(&gate, &message), -ECONNRESET);
        end_of(&gate, CLD_KILLED, SIGHUP);
}
END_TEST

START_TEST(test_wrong_message) {
        struct child_plan *plan = plan_new("/bin/true", (const char *const[]){ "true", NULL });
        struct gate_message message = { .type = GATE_KILL };
        struct gate gate = GATE_NONE;

        ck_assert_int_eq(gate_start(plan, -1, &gate), 0);
        child_plan_free(plan);
        ck_assert_int_eq(gate_send(&gate, &message), 0);
        ck_assert_int_eq(gate_await(&gate, &message), 0);
        ck_assert_int_eq(message.type, GATE_FAILED);
        ck_assert_int_eq(message.step, CHILD_JOIN);
        end_of(&gate, CLD_EXITED, 125);
}
END_TEST

/* The host reaps whatever dies, by ignoring SIGCHLD: the stub that lives is known all the same. */
START_TEST(test_host_ignores_sigchld) {
        struct child_plan *plan = plan_new("/bin/true", (const char *const[]){ "true", NULL });
        struct gate_message message = { .type = GATE_GO };
        struct gate gate = GATE_NONE;
        struct pollfd dead;

        signal(SIGCHLD, SIG_IGN);
        ck_assert_int_eq(gate_start(plan, -1, &gate), 0);
        child_plan_free(plan);
        ck_assert_int_eq(gate_send(&gate, &message), 0);
        ck_assert_int_eq(gate_await(&gate, &message), -ECONNRESET);
        dead = (struct pollfd){ .fd = gate.pidfd, .events = POLLIN };
        ck_assert_int_eq(poll(&dead, 1, 20000), 1);
        ck_assert_int_eq(gate_send(&gate, &message), -EPIPE);
        gate_done(&gate);
}
END_TEST

/* Where nobody can open a pidfd, none is claimed, and the stub does not stay. */
START_TEST(test_without_pidfds) {
        struct child_plan *plan = plan_new("/bin/true", (const char *const[]){ "true", NULL });
        struct gate gate = GATE_NONE;

        deny_syscall(SYS_pidfd_open, EPERM);
        ck_assert_int_eq(gate_start(plan, -1, &gate), -ENOSYS);
        ck_assert_int_eq(gate.pidfd, -1);
        child_plan_free(plan);
        ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
}
END_TEST

/* Numbers that the stub's own descriptors would have are wanted for the command, and 0 to 2 are closed here. */
START_TEST(test_numbers_in_the_way) {
        struct child_plan *plan = plan_new(NULL, (const char *const[]){ "probe", NULL });
        int file = (int)syscall(SYS_memfd_create, "x", 1 /* MFD_CLOEXEC */);
        struct probed probed;

        ck_assert_int_eq(dup3(file, 50, O_CLOEXEC), 50);
        for (int target = 0; target < 16; target++)
                plan_fd(plan, target, 50);
        close(file);
        for (int fd = 0; fd <= 2; fd++)
                close(fd);
        probed = probe_whole(WAY_GATED, plan, -1);
        for (int target = 0; target < 16; target++) {
                _cleanup_free_ char *key = format("fd%d", target), *value = probed_get(&probed, key);

                ck_assert_msg(value, "%s is not open", key);
        }
        probed_is(&probed, "fd16", NULL);
        probed_is(&probed, "fd50", NULL);
        probed_done(&probed);
}
END_TEST

START_TEST(test_nothing_is_left) {
        DIR *dir = opendir("/proc/self/fd");
        size_t before = 0, after = 0;

        while (readdir(dir))
                before++;
        for (int i = 0; i < 20; i++) {
                struct probed probed =
                        probe_whole(WAY_GATED, plan_new(NULL, (const char *const[]){ "probe", NULL }), -1);

                probed_done(&probed);
                probe_fails(
                        WAY_GATED, plan_new("/nowhere/x", (const char *const[]){ "x", NULL }), -1, CHILD_EXEC, ENOENT);
        }
        rewinddir(dir);
        while (readdir(dir))
                after++;
        closedir(dir);
        ck_assert_uint_eq(before, after);
        ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
}
END_TEST

/* ---- by hand ---------------------------------------------------------------------------------------------------- */

START_TEST(test_by_hand) {
        _cleanup_free_ char *path = NULL, *command = NULL;
        FILE *output;
        char line[128];

        ck_assert_int_eq(gate_find("cgtree-gate", &path), 0);
        command = format("'%s' --help 2>&1", path);
        output = popen(command, "re");
        ck_assert_ptr_nonnull(fgets(line, sizeof(line), output));
        ck_assert_str_eq(line, "cgtree-gate: a part of cgtree; not to be run by hand\n");
        ck_assert_int_eq(WEXITSTATUS(pclose(output)), 2);
}
END_TEST

/* ---- into a cgroup ---------------------------------------------------------------------------------------------- */

START_TEST(test_joins) {
        struct cgroup box = box_new("joined");
        struct probed probed;
        _cleanup_free_ char *line = NULL;

        probed = probe_whole(WAY_GATED, plan_new(NULL, (const char *const[]){ "probe", NULL }), box.fd);
        line = probed_get(&probed, "0");
        ck_assert_str_eq(line + 1, box.path); /* "0::/path" */
        ck_assert_int_eq(fcntl(box.fd, F_GETFD), FD_CLOEXEC);
        probed_done(&probed);

        /* One that was killed once is as good as another (unlike with clone3: bug B2). */
        ck_assert_int_eq(cgroup_kill(&box), 0);
        probed = probe_whole(WAY_GATED, plan_new(NULL, (const char *const[]){ "probe", NULL }), box.fd);
        probed_done(&probed);

        ck_assert_int_eq(cgroup_remove(&boxes, "joined", USEC_PER_SEC), 0);
        probe_fails(WAY_GATED, plan_new(NULL, (const char *const[]){ "probe", NULL }), box.fd, CHILD_JOIN, ENOENT);
        cgroup_done(&box);
}
END_TEST

/* It joins as it is, before it becomes another user, who could not. */
START_TEST(test_joins_for_another_user) {
        struct cgroup box = box_new("other-user");
        struct child_plan *plan = plan_new("/bin/cat", (const char *const[]){ "cat", "/proc/self/cgroup", NULL });
        struct probed probed;
        _cleanup_free_ char *line = NULL;

        plan->set_user = true;
        plan->uid = plan->gid = 65534;
        probed = probe_start(WAY_GATED, plan, box.fd); /* no stdout: it is to fail, after its exec */
        ck_assert_int_eq(probed.result.step, CHILD_OK);
        ck_assert_int_eq(probe_end(&probed, NULL), 1);
        probed_done(&probed);

        plan = plan_new("/bin/cat", (const char *const[]){ "cat", "/proc/self/cgroup", NULL });
        plan->set_user = true;
        plan->uid = plan->gid = 65534;
        probed = (struct probed){ .report_fd = (int)syscall(SYS_memfd_create, "report", 1 /* MFD_CLOEXEC */) };
        plan_fd(plan, STDOUT_FILENO, probed.report_fd);
        wait_gated(plan, box.fd, &probed);
        ck_assert_int_eq(probed.result.step, CHILD_OK);
        ck_assert_int_eq(probe_end(&probed, NULL), 0);
        line = probed_get(&probed, "0");
        ck_assert_str_eq(line + 1, box.path);
        probed_done(&probed);
        cgroup_done(&box);
}
END_TEST

int main(int argc, char *argv[]) {
        Suite *suite;
        TCase *plan, *gate;
        SRunner *runner;
        int failed;

        if (argc == 2 && strcmp(argv[1], "find") == 0) {
                _cleanup_free_ char *path = NULL;

                if (gate_find("cgtree-gate", &path) >= 0)
                        printf("%s", path);
                return 0;
        }
        suite = suite_create("gate");
        plan = tcase_create("plan");
        gate = tcase_create("gate");
        probe_setup();
        scratch_make();
        tcase_add_test(plan, test_plan_there_and_back);
        tcase_add_test(plan, test_plan_of_nothing);
        tcase_add_loop_test(plan, test_plan_is_none, 0, sizeof(bad_arguments) / sizeof(bad_arguments[0]));
        tcase_add_test(plan, test_messages);
        suite_add_tcase(suite, plan);

        tcase_set_timeout(gate, 60);
        tcase_add_test(gate, test_find);
        tcase_add_test(gate, test_find_beside_cgtree);
        tcase_add_test(gate, test_waits_for_go);
        tcase_add_test(gate, test_given_up);
        tcase_add_test(gate, test_signals_wait);
        tcase_add_test(gate, test_wrong_message);
        tcase_add_test(gate, test_host_ignores_sigchld);
        tcase_add_test(gate, test_without_pidfds);
        tcase_add_test(gate, test_numbers_in_the_way);
        tcase_add_test(gate, test_nothing_is_left);
        tcase_add_test(gate, test_by_hand);
        suite_add_tcase(suite, gate);

        if (boxes_make("gate")) {
                tcase_add_test(gate, test_joins);
                if (geteuid() == 0)
                        tcase_add_test(gate, test_joins_for_another_user);
        }
        runner = srunner_create(suite);
        srunner_run_all(runner, CK_NORMAL);
        failed = srunner_ntests_failed(runner);
        srunner_free(runner);
        boxes_remove();
        scratch_remove();
        return failed > 0;
}
