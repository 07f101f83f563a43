/* SPDX-License-Identifier: MIT */
#define FAMILY_TEST
#include "family.h"

#include <pty.h>

/* The terminal: lent to the root's group, and the owner's again when that has ended or was stopped. */

#define ID "v7k2m9q4x1c8r5t0"

static void end(struct family *family) {
        family_send(family, (struct gate_message){ .type = GATE_KILL });
        family_expect(family, GATE_ROOT_ENDED);
        family_expect_empty(family);
}

/* Runs as the leader of a session with a terminal; a failed assertion ends it with 1. */
static void on_terminal(void (*body)(int master_word)) {
        int master, status, word[2];
        char noise[256];
        pid_t pid;

        ck_assert_int_eq(pipe2(word, O_CLOEXEC), 0);
        pid = forkpty(&master, NULL, NULL, NULL);
        ck_assert_int_ge(pid, 0);
        if (pid == 0) {
                signal(SIGHUP, SIG_IGN);
                body(word[1]);
                _exit(0);
        }
        close(word[1]);
        for (;;) {
                struct pollfd fds[] = { { .fd = word[0], .events = POLLIN }, { .fd = master, .events = POLLIN } };
                char key;

                ck_assert_int_gt(poll(fds, 2, FAMILY_BOUND_MSEC), 0);
                if (fds[1].revents & POLLIN)
                        (void)!read(master, noise, sizeof(noise));
                if (!fds[0].revents)
                        continue;
                if (read(word[0], &key, 1) != 1)
                        break;
                ck_assert_int_eq(write(master, &key, 1), 1);
        }
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_int_eq(status, 0);
        close(master);
        close(word[0]);
}

static void type(int keys, char key) {
        ck_assert_int_eq(write(keys, &key, 1), 1);
}

static void job_control(int keys) {
        struct family family = family_start(FAMILY("plain"), CGTREE_SESSION_FOREGROUND, ID);
        struct gate_message message;

        ck_assert_int_eq(tcgetpgrp(0), family.root);
        for (int i = 0; i < 3; i++) {
                type(keys, 'Z' - '@');
                message = family_expect(&family, GATE_ROOT_STOPPED);
                ck_assert_int_eq(message.status, SIGTSTP);
                ck_assert_int_eq(tcgetpgrp(0), getpgrp());
                family_send(&family, (struct gate_message){ .type = GATE_RESUME });
                while (tcgetpgrp(0) != family.root)
                        usleep(500);
        }
        type(keys, 'C' - '@');
        message = family_expect(&family, GATE_ROOT_ENDED);
        ck_assert_int_eq(message.code, CLD_KILLED);
        ck_assert_int_eq(message.status, SIGINT);
        ck_assert_int_eq(tcgetpgrp(0), getpgrp());
        family_expect_empty(&family);
}

START_TEST(test_job_control) {
        on_terminal(job_control);
}
END_TEST

/* Another job of the session takes the terminal, as its shell would give it. */
struct job {
        pid_t pid;
        int leash;
};

static struct job job_take_terminal(void) {
        struct job job;
        int held[2];

        signal(SIGTTOU, SIG_IGN); /* we may be in the background */
        ck_assert_int_eq(pipe2(held, O_CLOEXEC), 0);
        job.pid = fork();
        if (job.pid == 0) {
                close(held[1]);
                (void)!read(held[0], held, 1);
                _exit(0);
        }
        close(held[0]);
        job.leash = held[1];
        ck_assert_int_eq(setpgid(job.pid, job.pid), 0);
        ck_assert_int_eq(tcsetpgrp(0, job.pid), 0);
        return job;
}

static void job_has_terminal(struct job *job) {
        ck_assert_int_eq(tcgetpgrp(0), job->pid);
        close(job->leash);
        waitpid(job->pid, NULL, 0);
}

/* While all were stopped another one got the terminal: nobody takes it away, whatever becomes of the root. */
static void taken_while_stopped(int keys) {
        struct family family = family_start(FAMILY("stay"), CGTREE_SESSION_FOREGROUND, ID);
        struct job job;

        type(keys, 'Z' - '@');
        family_expect(&family, GATE_ROOT_STOPPED);
        job = job_take_terminal();
        family_send(&family, (struct gate_message){ .type = GATE_RESUME });
        end(&family);
        job_has_terminal(&job);
}

START_TEST(test_taken_while_stopped) {
        on_terminal(taken_while_stopped);
}
END_TEST

static void taken_while_running(int keys) {
        struct family family = family_start(FAMILY("stay"), CGTREE_SESSION_FOREGROUND, ID);
        struct job job = job_take_terminal();

        (void)keys;
        end(&family);
        job_has_terminal(&job);
}

START_TEST(test_taken_while_running) {
        on_terminal(taken_while_running);
}
END_TEST

/* A root that gave the terminal to a job of its own, and ends before it. */
static void jobs_terminal(int keys) {
        struct family family = family_start(FAMILY("terminal", "leave"), CGTREE_SESSION_FOREGROUND, ID);

        (void)keys;
        family_expect(&family, GATE_ROOT_ENDED);
        ck_assert_int_eq(tcgetpgrp(0), getpgrp());
        family_send(&family, (struct gate_message){ .type = GATE_KILL });
        family_expect_empty(&family);
}

START_TEST(test_jobs_terminal) {
        on_terminal(jobs_terminal);
}
END_TEST

static void background(int keys) {
        struct job job = job_take_terminal();
        struct family family = family_start(FAMILY("stay"), CGTREE_SESSION_FOREGROUND, ID);

        (void)keys;
        ck_assert_int_eq(tcgetpgrp(0), job.pid);
        end(&family);
        job_has_terminal(&job);
}

START_TEST(test_background) {
        on_terminal(background);
}
END_TEST

/* Whoever reads what it writes may need the terminal: it gets it when it asks for it. */
static void behind_pipe(int keys) {
        int life, output[2];
        struct child_plan *plan = family_plan(FAMILY("reader"), ID, &life);
        struct gate_message message;
        struct family family;

        ck_assert_int_eq(pipe2(output, O_CLOEXEC), 0);
        plan->session = CGTREE_SESSION_FOREGROUND;
        plan->fds[1].source = output[1];
        family = family_place(plan, life);
        family_send(&family, (struct gate_message){ .type = GATE_GO });
        family_expect(&family, GATE_STARTED);
        family_await_word(family.life); /* it is going to read */
        while (tcgetpgrp(0) != family.root)
                usleep(500);
        type(keys, 'x');
        type(keys, '\n');
        message = family_expect(&family, GATE_ROOT_ENDED);
        ck_assert_int_eq(message.code, CLD_EXITED);
        ck_assert_int_eq(message.status, 'x');
        ck_assert_int_eq(tcgetpgrp(0), getpgrp());
        family_expect_empty(&family);
}

START_TEST(test_behind_pipe) {
        on_terminal(behind_pipe);
}
END_TEST

static int run(void) {
        Suite *suite = suite_create("reaper-terminal");
        TCase *terminal = tcase_create("terminal");
        SRunner *runner = srunner_create(suite);
        int failed;

        tcase_add_test(terminal, test_job_control);
        tcase_add_test(terminal, test_taken_while_stopped);
        tcase_add_test(terminal, test_taken_while_running);
        tcase_add_test(terminal, test_jobs_terminal);
        tcase_add_test(terminal, test_background);
        tcase_add_test(terminal, test_behind_pipe);
        tcase_set_timeout(terminal, 100);
        tcase_add_checked_fixture(terminal, family_setup, NULL);
        suite_add_tcase(suite, terminal);
        srunner_run_all(runner, CK_NORMAL);
        failed = srunner_ntests_failed(runner);
        srunner_free(runner);
        return failed == 0 ? 0 : 1;
}

int main(void) {
        return family_can_be_pinned() ? run() : 77;
}
