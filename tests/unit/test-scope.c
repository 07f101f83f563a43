/* SPDX-License-Identifier: MIT */
#include "scope.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "cgroup.h"
#include "process.h"
#include "scratch.h"
#include "unit.h"

/* Speaking to a manager: how it is found and given up on; and, where a user manager is ours, what becomes of scopes. The second
 * half needs one: tests/e2e/userhost.sh. */

#define LONG_USEC (20 * USEC_PER_SEC)

/* ---- who does not answer -------------------------------------------------------------------------------------- */

static void refuses(const char *words) {
        struct bus *bus;
        char *reason = NULL;
        ck_assert_int_lt(bus_open(BUS_USER, LONG_USEC, &bus, &reason), 0);
        ck_assert_msg(reason && strstr(reason, words), "%s", reason);
        free(reason);
}

START_TEST(a_runtime_directory_that_is_not_ours) {
        setenv("XDG_RUNTIME_DIR", "/run/user/there-is-none", 1);
        refuses("/run/user/there-is-none: No such file");
        if (geteuid() != 0) {
                setenv("XDG_RUNTIME_DIR", "/", 1);
                refuses("belongs to uid 0");
        }
        char path[96];
        close(scratch_open(path, sizeof(path)));
        setenv("XDG_RUNTIME_DIR", path, 1);
        unsetenv("DBUS_SESSION_BUS_ADDRESS");
        refuses("neither");
}
END_TEST

/* A socket where the manager's is, which nobody reads. */
static int pretend_manager(int backlog) {
        char path[96];
        int dir = scratch_open(path, sizeof(path));
        ck_assert_int_eq(mkdirat(dir, "systemd", 0700), 0);
        setenv("XDG_RUNTIME_DIR", path, 1);
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        ck_assert_int_lt(snprintf(address.sun_path, sizeof(address.sun_path), "%s/systemd/private", path),
                (int)sizeof(address.sun_path));
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
        ck_assert_int_eq(listen(fd, backlog), 0);
        close(dir);
        return fd;
}

START_TEST(a_manager_that_does_not_answer) {
        int listening = pretend_manager(5);
        struct bus *bus;
        struct unit unit;
        char *reason = NULL;
        uint64_t before = now_usec();
        ck_assert_int_eq(bus_open(BUS_USER, 200 * USEC_PER_MSEC, &bus, &reason), 0);
        ck_assert_int_eq(unit_ask(&unit, bus), 0);
        int r;
        while ((r = bus_step(bus, &reason)) >= 0 && unit_step(&unit) == 0) {
                short events;
                struct pollfd source = { .fd = bus_fd(bus, &events), .events = events };
                uint64_t now = now_usec(), until = bus_wakeup(bus);
                (void)poll(&source, 1, until > now ? (int)((until - now) / 1000) + 1 : 0);
        }
        ck_assert_int_eq(r, -ETIMEDOUT);
        ck_assert_str_eq(reason, "the user manager does not answer");
        ck_assert_uint_ge(now_usec() - before, 200 * USEC_PER_MSEC);
        free(reason);
        unit_done(&unit);
        bus_close(bus);
        close(listening);
}
END_TEST

START_TEST(a_manager_that_does_not_accept) {
        int listening = pretend_manager(0), fds[8];
        struct sockaddr_un address;
        socklen_t size = sizeof(address);
        ck_assert_int_eq(getsockname(listening, (struct sockaddr *)&address, &size), 0);
        for (size_t i = 0; i < 8; i++) {
                fds[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
                (void)connect(fds[i], (struct sockaddr *)&address, size);
        }
        refuses("does not accept connections");
        for (size_t i = 0; i < 8; i++)
                close(fds[i]);
        close(listening);
}
END_TEST

START_TEST(a_manager_that_was_killed) {
        close(pretend_manager(5));
        refuses("Connection refused");
}
END_TEST

START_TEST(names_are_escaped) {
        static const char *const words[][2] = {
                { "web", "web" },
                { "a-b c", "a\\x2db\\x20c" },
                { ".x.y_z", "\\x2ex.y_z" },
                { "\xff", "\\xff" },
                { "", "" },
        };
        for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
                _cleanup_free_ char *escaped = scope_escape(words[i][0]);
                ck_assert_str_eq(escaped, words[i][1]);
        }
}
END_TEST

/* ---- a real one ----------------------------------------------------------------------------------------------- */

static pid_t child;
static int child_end; /* it ends when this is closed */

static void make_child(void) {
        int ends[2];
        ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
        child = fork();
        if (child == 0) {
                char byte;
                close(ends[1]);
                _exit(read(ends[0], &byte, 1) != 0);
        }
        close(ends[0]);
        child_end = ends[1];
}

static void end_child(void) {
        close(child_end);
        ck_assert_int_eq(waitpid(child, NULL, 0), child);
}

/* The end of asking for a scope around `pid`. */
static int ask(const char *name, pid_t pid, int pidfd, char **ret_cgroup, char **ret_reason) {
        _cleanup_free_ char *unit = format("%s.scope", name);
        struct scope_request request = {
                .unit = unit,
                .description = "a test of cgtree",
                .slice = "app.slice",
                .pid = pid,
                .pidfd = pidfd,
                .stop_usec = USEC_PER_SEC,
        };
        struct bus *bus;
        struct scope *scope;
        int r = bus_open(BUS_USER, LONG_USEC, &bus, ret_reason);
        ck_assert_msg(r == 0, "%s", *ret_reason);
        ck_assert_int_eq(scope_begin(bus, &request, &scope), 0);
        while ((r = scope_step(scope, ret_cgroup, ret_reason)) == 0) {
                short events;
                struct pollfd source = { .fd = bus_fd(bus, &events), .events = events };
                uint64_t now = now_usec(), until = bus_wakeup(bus);
                (void)poll(&source, 1, until > now ? (int)((until - now) / 1000) + 1 : 0);
        }
        scope_free(scope);
        bus_close(bus);
        return r;
}

static const char *new_name(void) {
        static char name[64];
        char id[ID_LENGTH + 1];
        ck_assert_int_eq(id_random(id), 0);
        snprintf(name, sizeof(name), "app-cgtree\\x2dtest-%s", id);
        return name;
}

/* It removes the directory of a scope that is empty, in its own time. */
static void goes_away(const char *cgroup) {
        struct cgroup gone;
        uint64_t deadline = now_usec() + LONG_USEC;
        int r;
        while ((r = cgroup_open(cgroup, &gone)) >= 0) {
                cgroup_done(&gone);
                ck_assert_uint_lt(now_usec(), deadline);
                usleep(1000);
        }
        ck_assert_int_eq(r, -ENOENT);
}

START_TEST(a_scope_around_a_process) {
        _cleanup_free_ char *cgroup = NULL, *reason = NULL, *seen = NULL;
        make_child();
        _cleanup_close_ int pidfd = _i ? pidfd_pin(child) : -1;
        int r = ask(new_name(), child, pidfd, &cgroup, &reason);
        ck_assert_msg(r == 1, "%d: %s", r, reason);
        ck_assert_int_eq(cgroup_path_of(child, &seen), 0);
        ck_assert_str_eq(seen, cgroup);
        ck_assert_ptr_nonnull(strstr(cgroup, "/app.slice/app-cgtree\\x2dtest-"));
        end_child();
        goes_away(cgroup);
}
END_TEST

START_TEST(a_name_that_is_taken) {
        _cleanup_free_ char *cgroup = NULL, *none = NULL, *reason = NULL;
        const char *name = new_name();
        make_child();
        ck_assert_int_eq(ask(name, child, -1, &cgroup, &reason), 1);
        pid_t first = child;
        int first_end = child_end;
        make_child();
        ck_assert_int_eq(ask(name, child, -1, &none, &reason), -EEXIST);
        ck_assert_ptr_nonnull(strstr(reason, name));
        end_child();
        child = first;
        child_end = first_end;
        end_child();
        goes_away(cgroup);
}
END_TEST

/* Of a zombie the manager makes a scope that it would keep for ever. */
START_TEST(a_process_that_is_dead) {
        _cleanup_free_ char *cgroup = NULL, *reason = NULL, *again = NULL;
        const char *name = new_name();
        make_child();
        close(child_end);
        siginfo_t info;
        ck_assert_int_eq(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
        ck_assert_int_lt(ask(name, child, -1, &cgroup, &reason), 0);
        ck_assert_ptr_null(cgroup);
        ck_assert_ptr_nonnull(reason);
        ck_assert_int_eq(waitpid(child, NULL, 0), child);
        free(take_pointer(&reason));
        ck_assert_int_lt(ask(new_name(), child, -1, &cgroup, &reason), 0);

        make_child(); /* and the name is free again */
        free(take_pointer(&reason));
        int r;
        uint64_t deadline = now_usec() + LONG_USEC;
        while ((r = ask(name, child, -1, &again, &reason)) == -EEXIST && now_usec() < deadline)
                free(take_pointer(&reason));
        ck_assert_msg(r == 1, "%d: %s", r, reason);
        end_child();
        goes_away(again);
}
END_TEST

/* We are outside of what the manager manages. */
START_TEST(what_it_says_of_us) {
        struct unit unit;
        struct bus *bus;
        char *reason = NULL;
        ck_assert_int_eq(bus_open(BUS_USER, LONG_USEC, &bus, &reason), 0);
        ck_assert_int_eq(unit_ask(&unit, bus), 0);
        int r;
        while ((r = unit_step(&unit)) == 0) {
                ck_assert_int_ge(bus_step(bus, &reason), 0);
                short events;
                struct pollfd source = { .fd = bus_fd(bus, &events), .events = events };
                (void)poll(&source, 1, 100);
        }
        ck_assert_int_eq(r, 1);
        ck_assert_int_eq(unit.manager_cgroup[0], '/');
        ck_assert_ptr_null(unit.name);
        unit_done(&unit);
        bus_close(bus);
}
END_TEST

int main(void) {
        Suite *suite = suite_create("scope");
        TCase *tcase = tcase_create("scope");
        tcase_set_timeout(tcase, 60);
        tcase_add_unchecked_fixture(tcase, scratch_make, scratch_remove);
        if (getenv("CGTREE_TEST_MANAGER")) {
                tcase_add_loop_test(tcase, a_scope_around_a_process, 0, 2);
                tcase_add_test(tcase, a_name_that_is_taken);
                tcase_add_test(tcase, a_process_that_is_dead);
                tcase_add_test(tcase, what_it_says_of_us);
        } else {
                tcase_add_test(tcase, a_runtime_directory_that_is_not_ours);
                tcase_add_test(tcase, a_manager_that_does_not_answer);
                tcase_add_test(tcase, a_manager_that_does_not_accept);
                tcase_add_test(tcase, a_manager_that_was_killed);
                tcase_add_test(tcase, names_are_escaped);
        }
        suite_add_tcase(suite, tcase);
        SRunner *runner = srunner_create(suite);
        srunner_run_all(runner, CK_ENV);
        int failed = srunner_ntests_failed(runner);
        srunner_free(runner);
        return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
