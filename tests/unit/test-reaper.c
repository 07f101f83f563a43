/* SPDX-License-Identifier: MIT */
#define FAMILY_TEST
#include "family.h"

#include <sched.h>
#include <stdio.h>
#include <sys/prctl.h>

#include "lineage.h"

#define ID "v7k2m9q4x1c8r5t0"

static void expect_killed(struct family *family) {
        struct gate_message message = family_expect(family, GATE_ROOT_ENDED);

        ck_assert_int_eq(message.code, CLD_KILLED);
        ck_assert_int_eq(message.status, SIGKILL);
        family_expect_empty(family);
}

static const char *const kinds[][3] = {
        { "stay" },
        { "plain" },
        { "setsid" },
        { "daemon" },
        { "ignorer" },
        { "dead-leader" },
        { "stopped" },
        { "nameless" },
        { "subreaper" },
        { "threaded-parent" },
        { "all" },
        { "nest", "30" },
        { "chains", "3" },
        { "bomb", "500" },
};
#define N_KINDS (int)(sizeof(kinds) / sizeof(*kinds))
#define N_SMALL (N_KINDS - 1) /* the kernel alone takes longer than the bound to end a bomb of this size */

START_TEST(test_kill) {
        struct family canary = family_start(FAMILY("stay"), CGTREE_SESSION_INHERIT, ID);
        struct family family = family_start(kinds[_i], CGTREE_SESSION_INHERIT, ID);

        family_send(&family, (struct gate_message){ .type = GATE_KILL });
        expect_killed(&family);
        ck_assert(family_lives(&canary));
        family_send(&canary, (struct gate_message){ .type = GATE_KILL });
        expect_killed(&canary);
}
END_TEST

START_TEST(test_kill_in_our_session) {
        struct family family = family_start(FAMILY("all"), CGTREE_SESSION_GROUP, ID);

        ck_assert_int_eq(getsid(family.root), getsid(0));
        ck_assert_int_eq(getsid(family.gate.pid), getsid(0));
        ck_assert_int_eq(getpgid(family.root), family.root);
        ck_assert_int_eq(getpgid(family.gate.pid), family.gate.pid);
        family_send(&family, (struct gate_message){ .type = GATE_KILL });
        expect_killed(&family);
}
END_TEST

/* ---- the owner's end ------------------------------------------------------------------------------------------ */

enum way_to_go {
        GO_KILLED,
        GO_EXITED,
        GO_EXECED,
        GO_FORKED, /* killed, while a child of its own holds the socket too */
        GO_STOPPED,
        _GO_MAX,
};

static void be_owner(struct child_plan *plan, int life, enum way_to_go way, int word) {
        struct family family = family_place(plan, life);
        struct pollfd end = { .fd = word, .events = POLLIN };

        family_send(&family, (struct gate_message){ .type = GATE_GO });
        family_expect(&family, GATE_STARTED);
        if (way == GO_FORKED && fork() == 0) {
                poll(&end, 1, -1); /* outlives its parent, until the test is over */
                _exit(0);
        }
        if (way == GO_STOPPED)
                raise(SIGSTOP);
        poll(&end, 1, -1);
        if (way == GO_EXECED)
                execl("/bin/sleep", "sleep", "60", NULL);
        _exit(0);
}

/* Microseconds from the owner's end to that of the family. */
static uint64_t outlive_owner(const char *const modes[], enum way_to_go way) {
        struct family family = { .gate = GATE_NONE, .root_pidfd = -1 };
        struct child_plan *plan = family_plan(modes, ID, &family.life);
        int word[2], n = 0;
        uint64_t began;
        pid_t owner;

        ck_assert_int_eq(pipe2(word, O_CLOEXEC), 0);
        owner = fork();
        ck_assert_int_ge(owner, 0);
        if (owner == 0) {
                close(word[1]);
                be_owner(plan, family.life, way, word[0]);
        }
        close(plan->fds[plan->n_fds - 1].source);
        child_plan_free(plan);
        close(word[0]);
        family_await_word(family.life);
        began = now_usec();
        if (way == GO_EXITED || way == GO_EXECED)
                close_fd(&word[1]);
        else
                ck_assert_int_eq(kill(owner, SIGKILL), 0);
        family_await_end(&family);
        began = now_usec() - began;
        kill(owner, SIGKILL);
        close_fd(&word[1]);
        family_done(&family);
        /* The owner, and as their subreaper its child and the reaper: all of them end. */
        while (waitpid(-1, NULL, 0) > 0)
                n++;
        ck_assert_int_eq(n, way == GO_FORKED ? 3 : 2);
        return began;
}

/* The best of some: what is measured is the reaper, not the other work of this machine. */
START_TEST(test_owner_death) {
        uint64_t best = USEC_FOREVER, bound = _i < N_SMALL ? 100 * USEC_PER_MSEC : USEC_FOREVER;

        ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1L), 0);
        for (int i = 0; i < 10 && (i == 0 || best > bound); i++) {
                uint64_t took = outlive_owner(kinds[_i], GO_KILLED);

                best = took < best ? took : best;
        }
        ck_assert_uint_le(best, bound);
}
END_TEST

START_TEST(test_owner_ways_to_go) {
        ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1L), 0);
        outlive_owner(FAMILY("daemon"), (enum way_to_go)_i);
}
END_TEST

/* ---- signals -------------------------------------------------------------------------------------------------- */

START_TEST(test_signal_reaches_all) {
        static const char *const obedient[][2] = { { "stay" }, { "plain" }, { "daemon" }, { "nameless" },
                { "subreaper" }, { "threaded-parent" }, { "stopped" } };
        struct family family = family_start(obedient[_i % 7], CGTREE_SESSION_INHERIT, ID);
        struct gate_message message;

        family_send(&family, (struct gate_message){ .type = GATE_SIGNAL, .status = SIGTERM, .code = 1 });
        message = family_expect(&family, GATE_ROOT_ENDED);
        ck_assert_int_eq(message.code, CLD_KILLED);
        ck_assert_int_eq(message.status, SIGTERM);
        family_expect_empty(&family);
}
END_TEST

START_TEST(test_signal_root_alone) {
        struct family family = family_start(FAMILY("daemon"), CGTREE_SESSION_INHERIT, ID);
        struct gate_message message;

        family_send(&family, (struct gate_message){ .type = GATE_SIGNAL, .status = SIGUSR1, .pid = family.root });
        message = family_expect(&family, GATE_ROOT_ENDED);
        ck_assert_int_eq(message.code, CLD_KILLED);
        ck_assert_int_eq(message.status, SIGUSR1);
        /* Too late, and nobody else's. */
        family_send(&family, (struct gate_message){ .type = GATE_SIGNAL, .status = SIGKILL, .pid = family.root });
        family_send(&family, (struct gate_message){ .type = GATE_SIGNAL, .status = SIGURG });
        ck_assert(family_lives(&family));
        family_send(&family, (struct gate_message){ .type = GATE_KILL });
        family_expect_empty(&family);
}
END_TEST

START_TEST(test_ignorer_survives_until_killed) {
        struct family family = family_start(FAMILY("ignorer"), CGTREE_SESSION_INHERIT, ID);

        family_send(&family, (struct gate_message){ .type = GATE_SIGNAL, .status = SIGTERM, .code = 1 });
        family_expect(&family, GATE_ROOT_ENDED);
        ck_assert(family_lives(&family));
        family_send(&family, (struct gate_message){ .type = GATE_KILL });
        family_expect_empty(&family);
}
END_TEST

/* TERM to the reaper, TEARDOWN, the owner's death with a grace of its own. */
enum way_to_begin {
        BEGIN_TERM,
        BEGIN_TEARDOWN,
        BEGIN_OWNER_GONE,
        _BEGIN_MAX,
};

static struct family start_graced(const char *const modes[], uint64_t grace_usec) {
        int life;
        struct child_plan *plan = family_plan(modes, ID, &life);
        struct family family = family_place(plan, life);

        family_send(&family,
                (struct gate_message){
                        .type = GATE_RECORD, .id = ID, .grace_usec = grace_usec, .death_grace_usec = grace_usec });
        family_send(&family, (struct gate_message){ .type = GATE_GO });
        family_expect(&family, GATE_STARTED);
        family_await_word(family.life);
        return family;
}

static void begin(struct family *family, enum way_to_begin way) {
        switch (way) {
        case BEGIN_TERM: ck_assert_int_eq(kill(family->gate.pid, SIGTERM), 0); break;
        case BEGIN_TEARDOWN: family_send(family, (struct gate_message){ .type = GATE_TEARDOWN }); break;
        case BEGIN_OWNER_GONE: close_fd(&family->gate.socket); break;
        case _BEGIN_MAX: ck_abort();
        }
}

START_TEST(test_graced_end) {
        struct family family = start_graced(FAMILY("daemon"), 60 * USEC_PER_SEC);

        begin(&family, (enum way_to_begin)_i);
        if (_i != BEGIN_OWNER_GONE) {
                begin(&family, (enum way_to_begin)_i);
                ck_assert_int_eq(family_expect(&family, GATE_ROOT_ENDED).status, SIGTERM);
                family_expect_empty(&family);
                return;
        }
        family_await_end(&family);
        ck_assert_int_eq(family_reap(&family, NULL), 0);
        family_done(&family);
}
END_TEST

START_TEST(test_grace_is_over) {
        struct family family = start_graced(FAMILY("ignorer"), 50 * USEC_PER_MSEC);
        uint64_t began = now_usec();

        begin(&family, (enum way_to_begin)_i);
        family_await_end(&family);
        ck_assert_uint_ge(now_usec() - began, 50 * USEC_PER_MSEC);
        ck_assert_int_eq(family_reap(&family, NULL), 0);
        family_done(&family);
}
END_TEST

/* ---- birth and the root's end --------------------------------------------------------------------------------- */

static struct family start_only(const char *const modes[]) {
        int life;
        struct child_plan *plan = family_plan(modes, ID, &life);
        struct family family = family_place(plan, life);

        family_send(&family, (struct gate_message){ .type = GATE_GO });
        family_expect(&family, GATE_STARTED);
        return family;
}

START_TEST(test_exit_status) {
        struct family family = start_only(FAMILY("exit", "42"));
        struct gate_message message = family_expect(&family, GATE_ROOT_ENDED);

        ck_assert_int_eq(message.code, CLD_EXITED);
        ck_assert_int_eq(message.status, 42);
        family_expect_empty(&family);
        family = start_only(FAMILY("die", "10"));
        message = family_expect(&family, GATE_ROOT_ENDED);
        ck_assert_int_eq(message.code, CLD_KILLED);
        ck_assert_int_eq(message.status, SIGUSR1);
        family_expect_empty(&family);
}
END_TEST

START_TEST(test_caller_ignores_sigchld) {
        struct gate_message message;
        struct family family;

        signal(SIGCHLD, SIG_IGN);
        family = start_only(FAMILY("exit", "42"));
        message = family_expect(&family, GATE_ROOT_ENDED);
        ck_assert_int_eq(message.status, 42);
        family_expect(&family, GATE_EMPTY);
        family_done(&family);
}
END_TEST

START_TEST(test_root_leaves_members) {
        struct family family = family_start(FAMILY("all", "leave"), CGTREE_SESSION_INHERIT, ID);
        struct gate_message message = family_expect(&family, GATE_ROOT_ENDED);

        ck_assert_int_eq(message.code, CLD_EXITED);
        ck_assert_int_eq(message.status, 7);
        ck_assert_int_eq(pidfd_is_dead(family.root_pidfd), 1);
        ck_assert(family_lives(&family));
        family_send(&family, (struct gate_message){ .type = GATE_KILL });
        family_expect_empty(&family);
}
END_TEST

START_TEST(test_not_executable) {
        int life;
        struct child_plan *plan = family_plan(FAMILY("stay"), ID, &life);
        struct gate_message message;
        struct family family;

        free(plan->executables[0]);
        plan->executables[0] = strdup("/nonexistent");
        family = family_place(plan, life);
        family_send(&family, (struct gate_message){ .type = GATE_GO });
        message = family_expect(&family, GATE_FAILED);
        ck_assert_int_eq(message.step, CHILD_EXEC);
        ck_assert_int_eq(message.error, ENOENT);
        family_expect_empty(&family);
}
END_TEST

START_TEST(test_killed_before_go) {
        int life;
        struct child_plan *plan = family_plan(FAMILY("stay"), ID, &life);
        struct family family = family_place(plan, life);

        family_send(&family, (struct gate_message){ .type = GATE_KILL });
        expect_killed(&family);
}
END_TEST

START_TEST(test_given_up_before_go) {
        int life;
        struct child_plan *plan = family_plan(FAMILY("stay"), ID, &life);
        struct family family = family_place(plan, life);

        close_fd(&family.gate.socket);
        family_await_end(&family);
        ck_assert_int_eq(family_reap(&family, NULL), 0);
        family_done(&family);
}
END_TEST

START_TEST(test_reaper_dies_before_go) {
        int life, code;
        struct child_plan *plan = family_plan(FAMILY("stay"), ID, &life);
        struct family family = family_place(plan, life);

        ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1L), 0);
        kill(family.gate.pid, SIGKILL);
        family_await_end(&family);
        family_reap(&family, NULL); /* only now the root is ours */
        ck_assert_int_eq(waitpid(family.root, &code, 0), family.root);
        ck_assert_int_eq(code, 0);
        family_done(&family);
}
END_TEST

/* ---- the reaper itself ---------------------------------------------------------------------------------------- */

static size_t count_fds(pid_t pid) {
        char path[64];
        size_t n = 0;
        DIR *dir;

        snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
        dir = opendir(path);
        ck_assert_ptr_nonnull(dir);
        while (readdir(dir))
                n++;
        closedir(dir);
        return n - 2;
}

static bool file_has(pid_t pid, const char *file, const char *text) {
        _cleanup_free_ char *content = NULL;
        char path[64];
        size_t size;

        snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
        ck_assert_int_eq(read_whole_file_at(AT_FDCWD, path, &content, &size), 0);
        return memmem(content, size, text, strlen(text));
}

START_TEST(test_holds_nothing_of_the_caller) {
        struct family family = family_start(FAMILY("stay"), CGTREE_SESSION_INHERIT, ID);
        char path[64], directory[PATH_MAX] = "";

        ck_assert_uint_eq(count_fds(family.gate.pid), 6); /* null for 0, 1, 2; socket, owner, signals */
        snprintf(path, sizeof(path), "/proc/%d/cwd", (int)family.gate.pid);
        ck_assert_int_gt(readlink(path, directory, sizeof(directory) - 1), 0);
        ck_assert_str_eq(directory, "/");
        ck_assert(!file_has(family.gate.pid, "cmdline", "stay"));
        ck_assert(!file_has(family.gate.pid, "environ", ID));
        ck_assert(file_has(family.root, "environ", "CGTREE_ID=" ID));
        ck_assert_int_eq(getsid(family.gate.pid), family.gate.pid);
        ck_assert_int_eq(getsid(family.root), family.root);
        for (int number = 1; number < 32; number++)
                if (number != SIGKILL && number != SIGSTOP && number != SIGTERM)
                        ck_assert_int_eq(kill(family.gate.pid, number), 0);
        family_send(&family, (struct gate_message){ .type = GATE_KILL });
        expect_killed(&family);
}
END_TEST

START_TEST(test_stopped_reaper) {
        struct family family = family_start(FAMILY("daemon"), CGTREE_SESSION_INHERIT, ID);

        kill(family.gate.pid, SIGSTOP);
        family_send(&family, (struct gate_message){ .type = GATE_KILL });
        kill(family.gate.pid, SIGCONT);
        expect_killed(&family);
}
END_TEST

/* An owner that reads nothing does not hold it up. */
START_TEST(test_owner_does_not_read) {
        struct family family = family_start(FAMILY("stay"), CGTREE_SESSION_FOREGROUND, ID);
        struct gate_message message;
        int r;

        for (int i = 0; i < 2000; i++) {
                kill(family.root, SIGSTOP);
                sched_yield();
                kill(family.root, SIGCONT);
        }
        family_send(&family, (struct gate_message){ .type = GATE_KILL });
        family_await_end(&family);
        do
                r = family_hear(&family, &message, NULL);
        while (r == 0 && message.type == GATE_ROOT_STOPPED);
        ck_assert_int_eq(r, 0);
        ck_assert_int_eq(message.type, GATE_ROOT_ENDED);
        family_expect_empty(&family);
}
END_TEST

START_TEST(test_by_hand) {
        _cleanup_free_ char *path = family_path("../../tools/cgtree-reaper");
        int status, null = open("/dev/null", O_RDWR | O_CLOEXEC);
        pid_t pid = fork();

        if (pid == 0) {
                dup2(null, STDERR_FILENO);
                execl(path, path, "--help", NULL);
                _exit(1);
        }
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_int_eq(WEXITSTATUS(status), 2);
        close(null);
}
END_TEST

static int run(void) {
        Suite *suite = suite_create("reaper");
        TCase *kill_case = tcase_create("kill"), *owner = tcase_create("owner"), *signals = tcase_create("signal"),
              *life = tcase_create("life");
        SRunner *runner = srunner_create(suite);
        int failed;

        tcase_add_loop_test(kill_case, test_kill, 0, N_KINDS);
        tcase_add_test(kill_case, test_kill_in_our_session);
        tcase_add_loop_test(owner, test_owner_death, 0, N_KINDS);
        tcase_add_loop_test(owner, test_owner_ways_to_go, 0, _GO_MAX);
        tcase_add_loop_test(signals, test_signal_reaches_all, 0, 7);
        tcase_add_test(signals, test_signal_root_alone);
        tcase_add_test(signals, test_ignorer_survives_until_killed);
        tcase_add_loop_test(signals, test_graced_end, 0, _BEGIN_MAX);
        tcase_add_loop_test(signals, test_grace_is_over, 0, _BEGIN_MAX);
        tcase_add_test(life, test_exit_status);
        tcase_add_test(life, test_caller_ignores_sigchld);
        tcase_add_test(life, test_root_leaves_members);
        tcase_add_test(life, test_not_executable);
        tcase_add_test(life, test_killed_before_go);
        tcase_add_test(life, test_given_up_before_go);
        tcase_add_test(life, test_reaper_dies_before_go);
        tcase_add_test(life, test_holds_nothing_of_the_caller);
        tcase_add_test(life, test_stopped_reaper);
        tcase_add_test(life, test_owner_does_not_read);
        tcase_add_test(life, test_by_hand);
        for (size_t i = 0; i < 4; i++) {
                TCase *cases[] = { kill_case, owner, signals, life };

                tcase_set_timeout(cases[i], 100);
                tcase_add_checked_fixture(cases[i], family_setup, NULL);
                suite_add_tcase(suite, cases[i]);
        }
        srunner_run_all(runner, CK_NORMAL);
        failed = srunner_ntests_failed(runner);
        srunner_free(runner);
        return failed == 0 ? 0 : 1;
}

int main(void) {
        return family_can_be_pinned() ? run() : 77;
}
