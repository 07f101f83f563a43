/* SPDX-License-Identifier: MIT */
#include "owned.h"

#include <pthread.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>

/* Whatever ends an owner, its guard ends the trees. The owner is a process of its own here, and every member of a tree holds the write
 * end of one pipe: its end of file proves that all are dead. */

static int alive[2];   /* held by the members */
static int control[2]; /* between the test and its owner */

static void say(char word) {
        if (send(control[1], &word, 1, MSG_NOSIGNAL) != 1)
                _exit(20);
}

static char hear(int socket) {
        char word = 0;
        struct pollfd source = { .fd = socket, .events = POLLIN };
        return poll(&source, 1, (int)(LONG_USEC / 1000)) == 1 && recv(socket, &word, 1, 0) == 1 ? word : 0;
}

static cgtree_tree *spawn_holding(const char *script) {
        cgtree_command *command = owned_command(script);
        ck_assert_int_eq(cgtree_command_set_fd(command, 9, alive[1]), 0);
        return owned_spawn_ready(command, NULL);
}

typedef void (*host_fn)(int placement_index);

static pid_t start_host(host_fn fn, int placement_index, int *ret_records) {
        char path[96];
        int directory = scratch_open(path, sizeof(path));
        ck_assert_int_eq(pipe2(alive, O_CLOEXEC), 0);
        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control), 0);
        pid_t pid = fork();
        if (pid == 0) {
                close(control[0]);
                setenv("CGTREE_RECORDS", path, 1);
                fn(placement_index);
                _exit(0);
        }
        close(control[1]);
        close(alive[1]);
        *ret_records = directory;
        return pid;
}

/* The kernel closed the last copy: nobody is left. Then the guard tidies, which only its outcome tells. */
static void all_is_gone(int directory) {
        struct pollfd source = { .fd = alive[0], .events = POLLIN };
        ck_assert_int_eq(poll(&source, 1, (int)(LONG_USEC / 1000)), 1);
        ck_assert(source.revents & POLLHUP);
        close(alive[0]);
        for (uint64_t until = now_usec() + LONG_USEC; scratch_count(directory) > 0; usleep(1000))
                ck_assert_uint_lt(now_usec(), until);
        close(directory);
        close(control[0]);
}

static void open_here(int placement_index) {
        placement = placements[placement_index];
        ck_assert_int_eq(cgtree_owner_new(&owner), 0);
        ck_assert_int_eq(cgtree_owner_set_placement(owner, placement, CGTREE_GUARANTEE_GROUP), 0);
        ck_assert_int_eq(cgtree_owner_set_grace(owner, 100 * USEC_PER_MSEC, 0), 0);
        ck_assert_int_eq(cgtree_owner_set_records(owner, getenv("CGTREE_RECORDS")), 0);
        ck_assert_int_eq(cgtree_owner_open(owner, LONG_USEC), 0);
}

static void spawn_two(void) {
        spawn_holding("setsid sh -c 'sleep 1000 & echo ready; wait' & sleep 1000");
        spawn_holding("trap '' TERM; echo ready; while :; do sleep 1000; done");
        close(alive[1]);
        say('r');
}

/* ---- the ways to go ---------------------------------------------------------------------------------------------- */

static void host_waits(int placement_index) {
        open_here(placement_index);
        spawn_two();
        for (;;)
                pause();
}

START_TEST(owner_is_killed) {
        int directory, status;
        pid_t pid = start_host(host_waits, _i, &directory);
        ck_assert_int_eq(hear(control[0]), 'r');
        ck_assert_int_eq(kill(pid, SIGKILL), 0);
        all_is_gone(directory);
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
}
END_TEST

START_TEST(owner_is_stopped_and_then_killed) {
        int directory, status;
        pid_t pid = start_host(host_waits, _i, &directory);
        ck_assert_int_eq(hear(control[0]), 'r');
        ck_assert_int_eq(kill(pid, SIGSTOP), 0);
        ck_assert_int_eq(waitpid(pid, &status, WUNTRACED), pid);
        ck_assert_int_eq(kill(pid, SIGKILL), 0);
        all_is_gone(directory);
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
}
END_TEST

static void host_frees(int placement_index) {
        open_here(placement_index);
        spawn_two();
        cgtree_owner_free(owner);
        for (;;)
                pause();
}

START_TEST(owner_is_freed_without_close) {
        int directory, status;
        pid_t pid = start_host(host_frees, _i, &directory);
        ck_assert_int_eq(hear(control[0]), 'r');
        all_is_gone(directory);
        ck_assert_int_eq(kill(pid, SIGKILL), 0);
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
}
END_TEST

static void host_execs(int placement_index) {
        open_here(placement_index);
        spawn_two();
        execl("/bin/sleep", "sleep", "1000", (char *)NULL);
}

START_TEST(owner_becomes_another_program) {
        int directory, status;
        pid_t pid = start_host(host_execs, _i, &directory);
        ck_assert_int_eq(hear(control[0]), 'r');
        all_is_gone(directory);
        ck_assert_int_eq(kill(pid, SIGKILL), 0);
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
}
END_TEST

static void *wait_for_word(void *main_thread) {
        struct process_stat stat;
        (void)main_thread;
        while (process_read_stat(getpid(), &stat) < 0 || stat.state != 'Z')
                usleep(1000);
        say('z');
        for (;;)
                pause();
        return NULL;
}

/* It looks dead, and is not. */
static void host_loses_its_main_thread(int placement_index) {
        pthread_t thread;
        open_here(placement_index);
        spawn_two();
        if (pthread_create(&thread, NULL, wait_for_word, NULL) == 0)
                syscall(SYS_exit, 0);
}

START_TEST(owner_loses_its_main_thread) {
        int directory, status;
        pid_t pid = start_host(host_loses_its_main_thread, _i, &directory);
        ck_assert_int_eq(hear(control[0]), 'r');
        ck_assert_int_eq(hear(control[0]), 'z');
        struct pollfd source = { .fd = alive[0], .events = POLLIN };
        ck_assert_int_eq(poll(&source, 1, 100), 0);
        ck_assert_int_eq(scratch_count(directory), 2);
        ck_assert_int_eq(kill(pid, SIGKILL), 0);
        all_is_gone(directory);
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
}
END_TEST

/* ---- from a signal handler --------------------------------------------------------------------------------------- */

static void kill_in_handler(int number) {
        int before = errno;
        (void)number;
        errno = 77;
        if (cgtree_owner_kill_now(owner) != 0 || errno != 77)
                _exit(21);
        errno = before;
}

/* Interrupts malloc and the library's own calls; births that it meets fail or end, nothing worse. */
static void host_is_bombarded(int placement_index) {
        open_here(placement_index);
        signal(SIGALRM, kill_in_handler);
        struct itimerval often = { { 0, 700 }, { 0, 700 } };
        setitimer(ITIMER_REAL, &often, NULL);
        cgtree_command *command = owned_command("sleep 1000");
        cgtree_command_set_fd(command, 9, alive[1]);
        for (int i = 0; i < 30; i++) {
                cgtree_tree *tree;
                if (cgtree_spawn(owner, command, &tree) < 0)
                        continue;
                free(malloc(1000 + (size_t)i * 100));
                if (cgtree_tree_wait_empty(tree, LONG_USEC) < 0)
                        _exit(22);
                cgtree_tree_free(tree);
        }
        struct itimerval never = { 0 };
        setitimer(ITIMER_REAL, &never, NULL);
        cgtree_command_free(command);
        if (cgtree_owner_close(owner, 0, LONG_USEC) < 0)
                _exit(23);
        cgtree_owner_free(owner);
}

START_TEST(kill_now_at_any_moment) {
        int directory, status;
        pid_t pid = start_host(host_is_bombarded, _i, &directory);
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_int_eq(status, 0);
        all_is_gone(directory);
}
END_TEST

static void tear_down_in_handler(int number) {
        int before = errno;
        (void)number;
        errno = 78;
        if (cgtree_owner_begin_teardown(owner) != 0 || cgtree_owner_begin_teardown(owner) != 0 || errno != 78)
                _exit(24);
        errno = before;
}

static void host_tears_down(int placement_index) {
        open_here(placement_index);
        signal(SIGTERM, tear_down_in_handler);
        spawn_holding("trap 'exit 0' TERM; echo ready; while :; do sleep 0.01; done");
        spawn_two();
        raise(SIGTERM);
        cgtree_command *command = owned_command("exit 0");
        if (cgtree_spawn(owner, command, NULL) != -ESHUTDOWN)
                _exit(25);
        say('t');
        for (;;)
                pause();
}

START_TEST(teardown_goes_on_when_the_owner_is_killed) {
        int directory, status;
        pid_t pid = start_host(host_tears_down, _i, &directory);
        ck_assert_int_eq(hear(control[0]), 'r');
        ck_assert_int_eq(hear(control[0]), 't');
        ck_assert_int_eq(kill(pid, SIGKILL), 0);
        all_is_gone(directory);
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
}
END_TEST

static void host_drains(int placement_index) {
        open_here(placement_index);
        spawn_two();
        if (cgtree_owner_begin_teardown(owner) != 0)
                _exit(26);
        if (cgtree_owner_close(owner, CGTREE_DEFAULT, LONG_USEC) != 0)
                _exit(27);
        cgtree_owner_free(owner);
}

START_TEST(close_joins_a_teardown_under_way) {
        int directory, status;
        pid_t pid = start_host(host_drains, _i, &directory);
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_int_eq(status, 0);
        all_is_gone(directory);
}
END_TEST

START_TEST(a_forked_child_kills_nothing) {
        owned_open(placements[_i]);
        cgtree_tree *tree = owned_spawn("sleep 1000");
        pid_t pid = fork();
        if (pid == 0)
                _exit(cgtree_owner_kill_now(owner) == -ECHILD && cgtree_owner_begin_teardown(owner) == -ECHILD ? 0 : 1);
        int status;
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_int_eq(status, 0);
        ck_assert_int_eq(cgtree_tree_wait_root(tree, 10 * USEC_PER_MSEC), -ETIMEDOUT);
        cgtree_tree_free(tree);
        owned_close();
}
END_TEST

/* ---- the guard itself -------------------------------------------------------------------------------------------- */

START_TEST(a_dead_guard_is_replaced) {
        owned_open(CGTREE_PLACEMENT_SUBTREE);
        cgtree_tree *first = owned_spawn("sleep 1000");
        int old = fcntl(owner->home.guard.pidfd, F_DUPFD_CLOEXEC, 3);
        ck_assert_int_eq(process_signal(&(struct process){ .pidfd = old }, SIGKILL), 0);
        struct pollfd dead = { .fd = old, .events = POLLIN };
        ck_assert_int_eq(poll(&dead, 1, (int)(LONG_USEC / 1000)), 1);
        cgtree_tree *second = owned_spawn("sleep 1000");
        ck_assert_int_eq(pidfd_is_dead(owner->home.guard.pidfd), 0);
        cgtree_tree_free(first);
        cgtree_tree_free(second);
        close(old);
        owned_close();
}
END_TEST

/* What kill_now asks of it where the kernel has no cgroup.kill. */
START_TEST(the_guard_kills_once_and_watches_on) {
        owned_open(CGTREE_PLACEMENT_SUBTREE);
        struct gate_message message = { .type = GATE_KILL };
        for (int i = 0; i < 2; i++) {
                cgtree_tree *tree = owned_spawn("sleep 1000 & sleep 1000");
                ck_assert_int_eq(
                        send(owner->home.guard.socket, &message, sizeof(message), MSG_NOSIGNAL), sizeof(message));
                ck_assert_int_eq(cgtree_tree_wait_empty(tree, LONG_USEC), 0);
                owned_exit_is(tree, CLD_KILLED, SIGKILL);
                cgtree_tree_free(tree);
        }
        ck_assert_int_eq(pidfd_is_dead(owner->home.guard.pidfd), 0);
        cgtree_tree *spared = owned_spawn("sleep 0.3; exit 3");
        ck_assert_int_eq(cgtree_tree_wait_empty(spared, LONG_USEC), 0);
        owned_exit_is(spared, CLD_EXITED, 3);
        cgtree_tree_free(spared);
        owned_close();
}
END_TEST

/* By somebody of the tree, say. */
START_TEST(a_stopped_guard_holds_nobody_up) {
        owner = owned_new(CGTREE_PLACEMENT_SUBTREE);
        ck_assert_int_eq(cgtree_owner_set_guard_is_child(owner, true), 0);
        ck_assert_int_eq(cgtree_owner_open(owner, LONG_USEC), 0);
        ck_assert_int_eq(pidfd_signal(owner->home.guard.pidfd, SIGSTOP), 0);
        owned_close();
}
END_TEST

START_TEST(the_guard_is_no_child_to_wait_for) {
        owned_open(CGTREE_PLACEMENT_SUBTREE);
        ck_assert_int_eq(waitpid(-1, NULL, 0), -1);
        ck_assert_int_eq(errno, ECHILD);
        owned_close();
}
END_TEST

START_TEST(the_guard_may_be_a_child) {
        placement = CGTREE_PLACEMENT_SUBTREE;
        owner = owned_new(placement);
        ck_assert_int_eq(cgtree_owner_set_guard_is_child(owner, true), 0);
        ck_assert_int_eq(cgtree_owner_open(owner, LONG_USEC), 0);
        ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), 0);
        owned_close();
}
END_TEST

START_TEST(the_guard_holds_nothing_of_ours) {
        int fds[2];
        ck_assert_int_eq(pipe(fds), 0); /* not CLOEXEC */
        owned_open(CGTREE_PLACEMENT_SUBTREE);
        ck_assert_int_eq(pidfd_is_dead(owner->home.guard.pidfd), 0);
        close(fds[1]);
        struct pollfd source = { .fd = fds[0], .events = POLLIN };
        ck_assert_int_eq(poll(&source, 1, (int)(LONG_USEC / 1000)), 1);
        close(fds[0]);
        owned_close();
}
END_TEST

/* A lock that was ours is free, and a terminal that was ours hangs up. */
START_TEST(the_guard_holds_no_lock_and_no_terminal) {
        char *path = format("/proc/self/fd/%d", scratch_open(NULL, 0));
        int lock = open(path, O_RDONLY | O_DIRECTORY), again = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
        ck_assert(terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0);
        int ours = open(ptsname(terminal), O_RDWR | O_NOCTTY); /* not CLOEXEC */
        ck_assert_int_ge(ours, 0);
        ck_assert_int_eq(flock(lock, LOCK_EX | LOCK_NB), 0);
        owned_open(CGTREE_PLACEMENT_SUBTREE);
        close(lock);
        close(ours);
        ck_assert_int_eq(flock(again, LOCK_EX | LOCK_NB), 0);
        struct pollfd source = { .fd = terminal, .events = POLLIN };
        ck_assert_int_eq(poll(&source, 1, (int)(LONG_USEC / 1000)), 1);
        ck_assert(source.revents & POLLHUP);
        close(terminal);
        close(again);
        free(path);
        owned_close();
}
END_TEST

/* Of /proc/PID/FILE, the number behind `key`. */
static unsigned long proc_number(pid_t pid, const char *file, const char *key) {
        char text[4096], path[64];
        snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
        ck_assert_int_gt(read_file_at(AT_FDCWD, path, text, sizeof(text)), 0);
        const char *at = strstr(text, key);
        ck_assert_ptr_nonnull(at);
        return strtoul(at + strlen(key), NULL, 10);
}

static pid_t guard_pid(void) {
        char file[64];
        snprintf(file, sizeof(file), "fdinfo/%d", owner->home.guard.pidfd);
        return (pid_t)proc_number(getpid(), file, "\nPid:\t");
}

/* One that a sanitizer watches is not linked statically, and not small. */
static bool is_static(pid_t pid) {
        _cleanup_free_ char *path = format("/proc/%d/maps", (int)pid), *maps = NULL;
        ck_assert_int_ge(read_whole_file_at(AT_FDCWD, path, &maps, NULL), 0);
        return !strstr(maps, "libc.so");
}

START_TEST(the_guard_is_small) {
        owned_open(CGTREE_PLACEMENT_SUBTREE);
        /* KiB. Private_Dirty would count pages of the executable that are not written to disk yet, too. */
        unsigned long own = proc_number(guard_pid(), "smaps_rollup", "\nAnonymous:");
        ck_assert_uint_gt(own, 0);
        if (is_static(guard_pid()))
                ck_assert_uint_lt(own, 200);
        owned_close();
}
END_TEST

static unsigned long switches(pid_t pid) {
        return proc_number(pid, "status", "\nvoluntary_ctxt_switches:") +
               proc_number(pid, "status", "\nnonvoluntary_ctxt_switches:");
}

/* Not once does it run. */
START_TEST(the_guard_sleeps) {
        owned_open(CGTREE_PLACEMENT_SUBTREE);
        cgtree_tree *tree = owned_spawn("sleep 1000");
        pid_t guard = guard_pid();
        unsigned long before;
        do {
                before = switches(guard);
                usleep(50000);
        } while (switches(guard) != before); /* on its way to its wait */
        usleep(1000000);
        ck_assert_uint_eq(switches(guard), before);
        cgtree_tree_free(tree);
        owned_close();
}
END_TEST

/* `systemctl stop`: TERM to everybody in the unit. */
START_TEST(term_makes_the_guard_end_the_trees_and_go) {
        owned_open(CGTREE_PLACEMENT_SUBTREE);
        int output;
        cgtree_tree *tree = owned_spawn_ready(owned_command("trap '' TERM; echo ready; sleep 1000"), &output);
        int guard = fcntl(owner->home.guard.pidfd, F_DUPFD_CLOEXEC, 3);
        ck_assert_int_eq(process_signal(&(struct process){ .pidfd = guard }, SIGTERM), 0);
        owned_output_ends(output);
        struct pollfd gone = { .fd = guard, .events = POLLIN };
        ck_assert_int_eq(poll(&gone, 1, (int)(LONG_USEC / 1000)), 1);
        ck_assert_int_eq(cgtree_tree_wait_empty(tree, LONG_USEC), 0);
        cgtree_tree_free(tree);
        close(guard);
        owned_close();
}
END_TEST

int main(void) {
        Suite *suite = suite_create("guard");
        TCase *tcase = tcase_create("guard");
        tcase_set_timeout(tcase, 60);
        tcase_add_loop_test(tcase, owner_is_killed, 0, N_PLACEMENTS);
        tcase_add_loop_test(tcase, owner_is_stopped_and_then_killed, 0, N_PLACEMENTS);
        tcase_add_loop_test(tcase, owner_is_freed_without_close, 0, N_PLACEMENTS);
        tcase_add_loop_test(tcase, owner_becomes_another_program, 0, N_PLACEMENTS);
        tcase_add_loop_test(tcase, owner_loses_its_main_thread, 0, N_PLACEMENTS);
        tcase_add_loop_test(tcase, kill_now_at_any_moment, 0, N_PLACEMENTS);
        tcase_add_loop_test(tcase, teardown_goes_on_when_the_owner_is_killed, 0, N_PLACEMENTS);
        tcase_add_loop_test(tcase, close_joins_a_teardown_under_way, 0, N_PLACEMENTS);
        tcase_add_loop_test(tcase, a_forked_child_kills_nothing, 0, N_PLACEMENTS);
        tcase_add_test(tcase, a_dead_guard_is_replaced);
        tcase_add_test(tcase, the_guard_kills_once_and_watches_on);
        tcase_add_test(tcase, a_stopped_guard_holds_nobody_up);
        tcase_add_test(tcase, the_guard_is_no_child_to_wait_for);
        tcase_add_test(tcase, the_guard_may_be_a_child);
        tcase_add_test(tcase, the_guard_holds_nothing_of_ours);
        tcase_add_test(tcase, the_guard_holds_no_lock_and_no_terminal);
        tcase_add_test(tcase, the_guard_is_small);
        tcase_add_test(tcase, the_guard_sleeps);
        tcase_add_test(tcase, term_makes_the_guard_end_the_trees_and_go);
        suite_add_tcase(suite, tcase);
        return owned_run(suite);
}
