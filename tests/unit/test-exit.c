/* SPDX-License-Identifier: MIT */
#include "owned.h"

#include <pthread.h>

/* An owner that exit(3) closes. It is a process of its own here. Its tree says on a pipe when it was asked to go (TERM); the pipe's
 * end of file says that it is gone. */

#define OBEDIENT "trap 'sleep 0.2; echo asked; exit' TERM; echo ready; while :; do sleep 0.01; done"

typedef void (*host_fn)(void);

static void host_lives(host_fn fn, const char *path, int placement_index, int output, int go) {
        char word;
        cgtree_command *command = owned_command(OBEDIENT);
        if (cgtree_owner_new(&owner) < 0 || cgtree_owner_set_records(owner, path) < 0 ||
                cgtree_owner_set_placement(owner, placements[placement_index], CGTREE_GUARANTEE_GROUP) < 0 ||
                cgtree_owner_set_close_at_exit(owner, 0, 0) < 0 ||
                cgtree_owner_set_close_at_exit(owner, LONG_USEC, LONG_USEC) < 0 ||
                cgtree_owner_open(owner, LONG_USEC) < 0 || cgtree_command_set_fd(command, 1, output) < 0 ||
                cgtree_spawn(owner, command, NULL) < 0)
                _exit(20);
        cgtree_command_free(command);
        close(output);
        if (read(go, &word, 1) != 1)
                _exit(21);
        fn();
        exit(0);
}

struct host {
        pid_t pid;
        int output; /* of its tree */
        int directory;
};

static char *next_line(int fd, char *line, size_t size) {
        struct pollfd source = { .fd = fd, .events = POLLIN };
        size_t n = 0;
        while (n + 1 < size) {
                ck_assert_int_eq(poll(&source, 1, (int)(LONG_USEC / 1000)), 1);
                if (read(fd, line + n, 1) != 1 || line[n] == '\n')
                        break;
                n++;
        }
        line[n] = '\0';
        return line;
}

/* Its tree runs, and it goes on to fn and then to exit(3). */
static struct host host_start(host_fn fn, int placement_index) {
        char path[96], line[16];
        struct host host = { .directory = scratch_open(path, sizeof(path)) };
        int output[2], go[2];
        ck_assert_int_eq(pipe2(output, O_CLOEXEC), 0);
        ck_assert_int_eq(pipe2(go, O_CLOEXEC), 0);
        fflush(NULL);
        host.pid = fork();
        if (host.pid == 0) {
                close(output[0]);
                close(go[1]);
                host_lives(fn, path, placement_index, output[1], go[0]);
        }
        close(output[1]);
        close(go[0]);
        host.output = output[0];
        ck_assert_str_eq(next_line(host.output, line, sizeof(line)), "ready");
        ck_assert_int_eq(write(go[1], "", 1), 1);
        close(go[1]);
        return host;
}

static void host_has_exited(const struct host *host) {
        int status = -1;
        ck_assert_int_eq(waitpid(host->pid, &status, 0), host->pid);
        ck_assert_msg(status == 0, "the host ended with %x", (unsigned)status);
}

/* All that it said, to its end. */
static void host_tree_said(struct host *host, const char *wanted) {
        char line[16];
        ck_assert_str_eq(next_line(host->output, line, sizeof(line)), wanted);
        if (*wanted)
                ck_assert_str_eq(next_line(host->output, line, sizeof(line)), "");
        close(host->output);
        close(host->directory);
}

/* The records say that it was not the guard that came later. */
static void is_closed_by(host_fn fn, int placement_index) {
        struct host host = host_start(fn, placement_index);
        host_has_exited(&host);
        ck_assert_uint_eq(scratch_count(host.directory), 0);
        host_tree_said(&host, "asked");
}

static void is_left_to_the_guard(host_fn fn, int placement_index) {
        struct host host = host_start(fn, placement_index);
        host_has_exited(&host);
        host_tree_said(&host, "");
}

/* ---- the ways to exit --------------------------------------------------------------------------------------------- */

static void just_exit(void) {
}

START_TEST(exit_closes) {
        is_closed_by(just_exit, _i);
}
END_TEST

static void *exit_here(void *unused) {
        exit(0);
        return unused;
}

static void exit_in_thread(void) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, exit_here, NULL) == 0)
                pthread_join(thread, NULL);
}

START_TEST(exit_of_a_thread_closes) {
        is_closed_by(exit_in_thread, _i);
}
END_TEST

static void *close_here(void *unused) {
        cgtree_owner_close(owner, LONG_USEC, LONG_USEC);
        return unused;
}

static bool is_closed(void) {
        pthread_mutex_lock(&owner->lock);
        bool closed = owner->closed;
        pthread_mutex_unlock(&owner->lock);
        return closed;
}

static void exit_while_closing(void) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, close_here, NULL) != 0)
                _exit(22);
        pthread_detach(thread);
        while (!is_closed())
                sched_yield();
}

START_TEST(exit_waits_for_a_close_under_way) {
        is_closed_by(exit_while_closing, _i);
}
END_TEST

/* The tree is there afterwards, and ended by the owner itself. */
static void fork_and_exit(void) {
        int status = -1;
        pid_t pid = fork();
        if (pid == 0)
                exit(3);
        if (waitpid(pid, &status, 0) != pid || WEXITSTATUS(status) != 3)
                _exit(23);
        if (owner->trees->state != TREE_RUNNING ||
                cgtree_tree_wait_root(owner->trees, 10 * USEC_PER_MSEC) != -ETIMEDOUT)
                _exit(24);
}

START_TEST(exit_of_a_forked_child_does_nothing) {
        is_closed_by(fork_and_exit, _i);
}
END_TEST

static void close_first(void) {
        if (cgtree_owner_close(owner, LONG_USEC, LONG_USEC) < 0)
                _exit(25);
}

START_TEST(exit_after_close_does_nothing) {
        is_closed_by(close_first, _i);
}
END_TEST

static void free_first(void) {
        cgtree_owner_free(owner);
}

/* Not closed: the guard has it. */
START_TEST(exit_after_free_does_nothing) {
        is_left_to_the_guard(free_first, _i);
}
END_TEST

static void exit_without_exit(void) {
        _exit(0);
}

START_TEST(what_is_no_exit_is_for_the_guard) {
        is_left_to_the_guard(exit_without_exit, _i);
}
END_TEST

int main(void) {
        Suite *suite = suite_create("exit");
        TCase *tcase = tcase_create("exit");
        tcase_set_timeout(tcase, 60);
        tcase_add_loop_test(tcase, exit_closes, 0, N_PLACEMENTS);
        tcase_add_loop_test(tcase, exit_of_a_thread_closes, 0, N_PLACEMENTS);
        tcase_add_loop_test(tcase, exit_waits_for_a_close_under_way, 0, N_PLACEMENTS);
        tcase_add_loop_test(tcase, exit_of_a_forked_child_does_nothing, 0, N_PLACEMENTS);
        tcase_add_loop_test(tcase, exit_after_close_does_nothing, 0, N_PLACEMENTS);
        tcase_add_loop_test(tcase, exit_after_free_does_nothing, 0, N_PLACEMENTS);
        tcase_add_loop_test(tcase, what_is_no_exit_is_for_the_guard, 0, N_PLACEMENTS);
        suite_add_tcase(suite, tcase);
        return owned_run(suite);
}
