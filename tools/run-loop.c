/* SPDX-License-Identifier: MIT */
#include "run-loop.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include "exit-as.h"
#include "message.h"
#include "run-report.h"
#include "run-signals.h"
#include "terminal.h"

/* For what is left of the owner's place when the tree is gone. */
#define CLOSE_BOUND_USEC UINT64_C(1000000)

struct run {
        const struct run_options *options;
        struct run_signals signals;
        struct terminal terminal;
        cgtree_owner *owner;
        cgtree_command *command;
        cgtree_tree *tree; /* NULL: not begun yet */

        bool started;
        bool root_ended;
        uint64_t held; /* signals for a command that has not started yet; bit N-1 is signal N */

        int ending_signal;   /* that we got and acted upon; 0: none */
        uint64_t grace_over; /* when that gives SIGKILL */
        bool root_was_late;  /* it ended only after that, or after a second signal */

        bool finished;
        int status;      /* exit status, or */
        int last_signal; /* what we die of */
};

static uint64_t now_usec(void) {
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void finish(struct run *run, int status) {
        run->finished = true;
        run->status = status;
}

static void finish_by_signal(struct run *run, int signal) {
        run->finished = true;
        run->last_signal = signal;
}

/* A descriptor of ours must not become the command's or a message's stdin, stdout or stderr because that one was closed.
 * Closed it is for the command all the same. */
static void occupy_standard_fds(void) {
        for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
                if (fcntl(fd, F_GETFD) < 0)
                        (void)open("/dev/null", O_RDWR | O_CLOEXEC);
}

/* ---- the tree begins ---- */

static void log_message(void *userdata, int priority, const char *text) {
        (void)userdata;
        /* Warnings (a reaper that was killed) are said by the library alone; what has an event or a call, by us. */
        message(priority == LOG_WARNING ? MESSAGE_NOTICE : MESSAGE_DETAIL, "%s", text);
}

static int configure_owner(struct run *run) {
        const struct run_options *options = run->options;
        unsigned limits = 0;
        int r;

        r = cgtree_owner_new(&run->owner);
        if (r >= 0)
                r = cgtree_owner_set_placement(run->owner, options->placement, options->minimum);
        if (r >= 0)
                r = cgtree_owner_set_log(run->owner, log_message, NULL);
        /* An orphan would stay a zombie for each run under a PID 1 that does not reap. */
        if (r >= 0)
                r = cgtree_owner_set_guard_is_child(run->owner, true);
        if (r >= 0 && options->records)
                r = cgtree_owner_set_records(run->owner, options->records);
        for (unsigned i = 0; i <= CGTREE_LIMIT_CPU; i++)
                limits |= options->limits[i] > 0 ? 1U << i : 0;
        /* We are a program of our own, and were asked for limits: so we may be moved for them. */
        if (r >= 0)
                r = cgtree_owner_set_may_move_self(run->owner, limits != 0);
        if (r >= 0)
                r = cgtree_owner_set_limits(run->owner, limits);
        return r;
}

/* 0, or the exit status. */
static int configure_command(struct run *run) {
        const struct run_options *options = run->options;
        cgtree_command *command;
        int r;

        if (!options->argv[0][0])
                return report_spawn_failure(options, CGTREE_STEP_EXEC, -ENOENT, NULL);
        r = cgtree_command_new(&run->command, (const char *const *)options->argv);
        if (r < 0)
                return report_failure("prepare the command", r);
        command = run->command;
        if (options->name && cgtree_command_set_name(command, options->name) < 0) {
                message(MESSAGE_ERROR,
                        "--name: '%s' is not a name: 1 to 64 of A-Z a-z 0-9 . _ -, beginning with a letter or digit, "
                        "not of the form of an id; see 'cgtree run --help'",
                        options->name);
                return RUN_FAILED;
        }
        r = cgtree_command_set_fd(command, STDIN_FILENO, options->null_stdin ? CGTREE_FD_NULL : CGTREE_FD_INHERIT);
        if (r >= 0)
                r = cgtree_command_set_inherit_fds(command, true);
        if (r >= 0)
                r = cgtree_command_set_signals(command, run->signals.blocked, run->signals.ignored);
        if (r >= 0)
                r = cgtree_command_set_timeout(command, options->timeout);
        if (r >= 0)
                r = cgtree_command_set_grace(command, options->signal, options->root_only, options->grace);
        if (r >= 0)
                r = cgtree_command_set_end_with_root(command, !options->wait_leftovers);
        for (unsigned i = 0; r >= 0 && i <= CGTREE_LIMIT_CPU; i++)
                r = cgtree_command_set_limit(command, (enum cgtree_limit)i, options->limits[i]);
        return r < 0 ? report_failure("prepare the command", r) : 0;
}

static bool in_group(const struct run *run) {
        return cgtree_owner_get_placement(run->owner) == CGTREE_PLACEMENT_GROUP;
}

/* With a cgroup the command stays in our own process group, where the terminal finds it as it would without us. Without one
 * it needs a group of its own. The terminal goes to that group if the command talks to it; if it does not, the
 * terminal belongs to those that we share our group with. */
static int choose_session(struct run *run) {
        bool talks;

        if (!in_group(run) || run->terminal.fd < 0)
                return 0;
        /* Only a process's own controlling terminal has a foreground group for it. */
        talks = (!run->options->null_stdin && tcgetpgrp(STDIN_FILENO) >= 0) || tcgetpgrp(STDOUT_FILENO) >= 0;
        return cgtree_command_set_session(run->command, talks ? CGTREE_SESSION_FOREGROUND : CGTREE_SESSION_GROUP);
}

static void on_opened(struct run *run) {
        bool group = in_group(run);
        int r;

        report_placement(run->options, run->owner);
        r = choose_session(run);
        if (r >= 0)
                r = cgtree_begin_spawn(run->owner, run->command, &run->tree);
        if (r < 0) {
                const char *words = NULL;
                enum cgtree_step step = cgtree_command_get_error(run->command, &words);

                finish(run, report_spawn_failure(run->options, step, r, words));
        } else if (!group && in_group(run))
                report_placement(run->options, run->owner);
}

/* ---- signals ---- */

static void pass_signal(struct run *run, int signal) {
        if (signal == SIGCONT && cgtree_tree_get_placement(run->tree) == CGTREE_PLACEMENT_GROUP &&
                run->terminal.fd >= 0)
                /* The shell's fg or bg, meant for the command: with the terminal, if it is ours to give. */
                (void)cgtree_tree_resume(run->tree);
        else
                /* It may have ended meanwhile. */
                (void)cgtree_tree_signal(run->tree, signal, true);
}

static void end_tree(struct run *run, int signal) {
        if (!run->tree) {
                finish_by_signal(run, signal);
                return;
        }
        if (run->ending_signal == 0) {
                run->ending_signal = signal;
                run->grace_over = now_usec() + run->options->grace;
                if (run->grace_over < run->options->grace)
                        run->grace_over = UINT64_MAX;
                if (cgtree_tree_begin_terminate_with(run->tree, signal, run->options->grace) >= 0)
                        return;
        } else if (signal == SIGHUP)
                /* A terminal's end brings several, its own and its shell's: not an order to hurry. */
                return;
        run->grace_over = 0;
        (void)cgtree_tree_begin_kill(run->tree);
}

static void on_signal(struct run *run, const struct signalfd_siginfo *info) {
        int signal = (int)info->ssi_signo;
        bool shared = run->tree && cgtree_tree_get_placement(run->tree) != CGTREE_PLACEMENT_GROUP;

        if (run_signal_is_typed(info) && run->tree && !run->root_ended) {
                /* In our group, the command has got it from the terminal. */
                if (!shared)
                        (void)cgtree_tree_signal(run->tree, signal, signal == SIGWINCH || signal == SIGCONT);
        } else if (run_signal_ends(signal))
                end_tree(run, signal);
        else if (run->started)
                pass_signal(run, signal);
        else
                run->held |= UINT64_C(1) << (signal - 1);
}

/* ---- the tree's news ---- */

static void on_started(struct run *run) {
        run->started = true;
        report_started(run->tree);
        for (int signal = 1; run->held != 0; signal++, run->held >>= 1)
                if (run->held & 1)
                        pass_signal(run, signal);
}

/* The command was stopped as a job: so are we, as our shell expects it. Nothing happens here where no shell could ever
 * continue us (an orphaned group), or where we ignore it; then the command goes on at once. */
static void on_root_stopped(struct run *run) {
        (void)kill(0, SIGTSTP);
        (void)cgtree_tree_resume(run->tree);
}

static void on_empty(struct run *run) {
        int code, status, r;

        report_end(run->options, run->tree, run->ending_signal);
        r = cgtree_tree_get_exit(run->tree, &code, &status);
        if (cgtree_tree_get_cause(run->tree) == CGTREE_CAUSE_TIMEOUT)
                finish(run, RUN_TIMEOUT);
        else if (r == -ENODATA && run->ending_signal != 0)
                finish_by_signal(run, run->ending_signal);
        else if (r < 0)
                finish(run, report_lost_exit(
                                    run->options, cgtree_owner_get_guarantee(run->owner) == CGTREE_GUARANTEE_WHOLE));
        else if (code == CLD_EXITED)
                finish(run, status);
        else if (status == SIGKILL && run->root_was_late)
                finish_by_signal(run, run->ending_signal);
        else
                finish_by_signal(run, status);
}

static void on_failed(struct run *run) {
        enum cgtree_step step = CGTREE_STEP_NONE;
        const char *words = NULL;
        int error = cgtree_tree_get_error(run->tree, &step, &words);

        if (run->ending_signal != 0)
                finish_by_signal(run, run->ending_signal);
        else
                finish(run, report_spawn_failure(run->options, step, error, words));
}

static void on_tree_events(struct run *run, unsigned events) {
        if (events & CGTREE_EVENT_STARTED)
                on_started(run);
        if (events & CGTREE_EVENT_ROOT_STOPPED)
                on_root_stopped(run);
        if (events & CGTREE_EVENT_ROOT_ENDED) {
                run->root_ended = true;
                run->root_was_late = run->ending_signal != 0 && now_usec() >= run->grace_over;
        }
        if (events & CGTREE_EVENT_FAILED)
                on_failed(run);
        else if (events & CGTREE_EVENT_EMPTY)
                on_empty(run);
        else if (events & CGTREE_EVENT_SURVIVORS)
                finish(run, report_survivors(run->tree));
}

static void on_owner_events(struct run *run, unsigned events) {
        if (events & CGTREE_EVENT_OPENED)
                on_opened(run);
}

/* ---- the loop ---- */

static void dispatch(struct run *run) {
        cgtree_tree *tree;
        unsigned events;
        int r = 0;

        while (!run->finished && (r = cgtree_owner_dispatch(run->owner, &tree, &events)) > 0)
                if (tree)
                        on_tree_events(run, events);
                else
                        on_owner_events(run, events);
        if (r < 0 && !run->finished)
                finish(run, run->tree ? report_failure("tend the tree", r)
                                      : report_open_failure(run->options, run->owner, r));
}

static void loop(struct run *run) {
        struct signalfd_siginfo info;
        struct pollfd fds[] = {
                { .fd = run->signals.fd, .events = POLLIN },
                { .fd = cgtree_owner_get_fd(run->owner), .events = POLLIN },
        };

        dispatch(run);
        while (!run->finished) {
                if (poll(fds, 2, -1) < 0 && errno != EINTR) {
                        finish(run, report_failure("wait", -errno));
                        break;
                }
                while (fds[0].revents && !run->finished && run_signals_next(&run->signals, &info))
                        on_signal(run, &info);
                dispatch(run);
        }
}

static void run_tree(struct run *run) {
        int r;

        r = configure_owner(run);
        if (r < 0) {
                finish(run, report_failure("begin", r));
                return;
        }
        r = configure_command(run);
        if (r != 0) {
                finish(run, r);
                return;
        }
        r = cgtree_owner_begin_open(run->owner);
        if (r < 0)
                finish(run, report_open_failure(run->options, run->owner, r));
        else
                loop(run);
}

/* Survivors stay recorded: for them, this owner just goes away. */
static void release(struct run *run) {
        bool survivors = run->tree && run->status == RUN_FAILED && cgtree_tree_get_survivors(run->tree);

        cgtree_tree_free(run->tree);
        if (run->owner && !survivors)
                (void)cgtree_owner_close(run->owner, 0, CLOSE_BOUND_USEC);
        cgtree_owner_free(run->owner);
        cgtree_command_free(run->command);
}

int run_command(const struct run_options *options) {
        struct run run = { .options = options, .signals.fd = -1, .terminal.fd = -1 };
        int r;

        occupy_standard_fds();
        r = run_signals_take(&run.signals);
        if (r < 0)
                return report_failure("take signals", r);
        terminal_open(&run.terminal);

        run_tree(&run);

        /* Only what the command cannot have tidied up itself. */
        if (run.last_signal != 0 || run.status == RUN_TIMEOUT || run.ending_signal != 0) {
                terminal_take_back(&run.terminal);
                terminal_restore(&run.terminal);
        }
        release(&run);
        terminal_close(&run.terminal);
        run_signals_close(&run.signals);
        if (run.last_signal != 0)
                exit_as_signal(run.last_signal);
        return run.status;
}
