/* SPDX-License-Identifier: MIT */
#include "run-report.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "amount.h"
#include "cmd.h"
#include "duration.h"
#include "message.h"
#include "signal-name.h"

static const char *reason_for(cgtree_owner *owner, enum cgtree_placement placement) {
        const char *reason = cgtree_owner_get_reason(owner, placement);

        return reason && *reason ? reason : "no reason is known";
}

void report_placement(const struct run_options *options, cgtree_owner *owner) {
        enum cgtree_placement placement = cgtree_owner_get_placement(owner);

        if (placement == CGTREE_PLACEMENT_GROUP && options->placement == CGTREE_PLACEMENT_AUTO)
                message(MESSAGE_NOTICE,
                        "running in a process group, with the weaker guarantee (--quiet hides this): %s",
                        reason_for(owner, CGTREE_PLACEMENT_SUBTREE));
}

void report_started(cgtree_tree *tree) {
        const char *cgroup = cgtree_tree_get_cgroup(tree);

        message(MESSAGE_DETAIL, "tree %s: placement %s, %s", cgtree_tree_get_id(tree),
                cmd_placement_name(cgtree_tree_get_placement(tree)), cgroup ? cgroup : "no cgroup");
}

static void report_cause(const struct run_options *options, cgtree_tree *tree, int ending_signal) {
        char time[DURATION_TEXT_SIZE], name[SIGNAL_TEXT_SIZE];
        const char *id = cgtree_tree_get_id(tree);

        if (cgtree_tree_get_cause(tree) == CGTREE_CAUSE_TIMEOUT)
                message(MESSAGE_DETAIL, "tree %s: ended by its timeout of %s", id,
                        duration_format(options->timeout, 3, time));
        else if (ending_signal != 0)
                message(MESSAGE_DETAIL, "tree %s: ended because of the %s that cgtree got", id,
                        signal_format(ending_signal, name));
}

/* The whole machine, or a cgroup above, can have run out, too. */
static void report_out_of_memory(const struct run_options *options) {
        char size[AMOUNT_TEXT_SIZE];

        message(MESSAGE_NOTICE, "out of memory: the kernel killed '%s' with all of its tree (--memory-max=%s)",
                options->argv[0], amount_format_size(options->limits[CGTREE_LIMIT_MEMORY], size));
}

void report_end(const struct run_options *options, cgtree_tree *tree, int ending_signal) {
        const char *id = cgtree_tree_get_id(tree), *stray = cgtree_tree_get_stray(tree);
        char name[SIGNAL_TEXT_SIZE];
        int code, status;

        if (stray)
                message(MESSAGE_NOTICE,
                        "'%s' moved itself out of its tree, to cgroup %s: what it started there was not seen",
                        options->argv[0], stray);
        if (cgtree_tree_get_cause(tree) == CGTREE_CAUSE_OOM)
                report_out_of_memory(options);
        if (!message_is_said(MESSAGE_DETAIL))
                return;
        report_cause(options, tree, ending_signal);
        if (cgtree_tree_get_exit(tree, &code, &status) < 0)
                return;
        if (code == CLD_EXITED)
                message(MESSAGE_DETAIL, "tree %s: empty; '%s' had exited with %d", id, options->argv[0], status);
        else
                message(MESSAGE_DETAIL, "tree %s: empty; '%s' had died of %s", id, options->argv[0],
                        signal_format(status, name));
}

int report_failure(const char *what, int error) {
        message(MESSAGE_ERROR, "cannot %s: %s", what, strerror(-error));
        return RUN_FAILED;
}

/* A record that cannot be written is the caller's to help, in one way. */
static const char *records_hint(const char *words) {
        return words && strstr(words, "record") ? "; --records=DIR chooses another directory" : "";
}

static bool is_limited(const struct run_options *options) {
        for (unsigned i = 0; i <= CGTREE_LIMIT_CPU; i++)
                if (options->limits[i] > 0)
                        return true;
        return false;
}

int report_open_failure(const struct run_options *options, cgtree_owner *owner, int error) {
        const char *words = cgtree_owner_get_error(owner);

        if (error == -EOPNOTSUPP && is_limited(options)) {
                message(MESSAGE_ERROR, "%s; LIMITS in cgtree-run(1) tells what it takes", words);
                return RUN_FAILED;
        }
        if (error == -EOPNOTSUPP) {
                bool automatic = options->placement == CGTREE_PLACEMENT_AUTO;
                enum cgtree_placement wanted = automatic ? CGTREE_PLACEMENT_SUBTREE : options->placement;

                message(MESSAGE_ERROR, "%s%s cannot be had here: %s",
                        automatic ? "--require=whole" : "--backend=", automatic ? "" : cmd_placement_name(wanted),
                        reason_for(owner, wanted));
                return RUN_FAILED;
        }
        message(MESSAGE_ERROR, "%s%s", words && *words ? words : strerror(-error), records_hint(words));
        return RUN_FAILED;
}

/* A script or a program can be there while what is to run it is not: then "No such file" alone would mislead. */
static bool interpreter_is_missing(const char *command, int error) {
        return error == -ENOENT && strchr(command, '/') && access(command, F_OK) == 0;
}

int report_spawn_failure(const struct run_options *options, enum cgtree_step step, int error, const char *words) {
        const char *command = options->argv[0];

        if (step == CGTREE_STEP_EXEC) {
                message(MESSAGE_ERROR, "cannot run '%s': %s%s", command, strerror(-error),
                        interpreter_is_missing(command, error) ? " (the interpreter that it names)" : "");
                return error == -ENOENT || error == -ENOTDIR ? RUN_NOT_FOUND : RUN_NOT_EXECUTABLE;
        }
        if (error == -EEXIST && options->name)
                message(MESSAGE_ERROR, "the name '%s' belongs to a tree that is there; see 'cgtree list'",
                        options->name);
        else
                message(MESSAGE_ERROR, "%s%s", words && *words ? words : strerror(-error), records_hint(words));
        return RUN_FAILED;
}

int report_lost_exit(const struct run_options *options, bool whole) {
        message(MESSAGE_ERROR, "'%s' and %s of its tree have ended, but its exit status is lost", options->argv[0],
                whole ? "all" : "what could be found");
        return RUN_FAILED;
}

int report_survivors(cgtree_tree *tree) {
        const char *survivors = cgtree_tree_get_survivors(tree), *id = cgtree_tree_get_id(tree);

        message(MESSAGE_ERROR, "tree %s: not all of it could be killed: %s; try 'cgtree kill %s' later", id,
                survivors ? survivors : "its survivors cannot be named", id);
        return RUN_FAILED;
}
