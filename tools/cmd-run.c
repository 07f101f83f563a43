/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "amount.h"
#include "cmd.h"
#include "message.h"
#include "run-loop.h"

static const char help[] = /* one screen */
        "Usage: cgtree run [OPTIONS] [--] COMMAND [ARG...]\n"
        "Runs COMMAND as a process tree that is ended whole: nothing of it is left.\n"
        "\n"
        "  -b, --backend=auto|subtree|scope|group  where the tree lives (auto: the best)\n"
        "      --require=whole               fail where only a process group can be had\n"
        "  -n, --name=NAME                   a name for 'cgtree kill' and 'cgtree list'\n"
        "  -t, --timeout=DUR                 end the tree after DUR (default: never)\n"
        "  -k, --grace=DUR                   from the first signal to SIGKILL (1.5s)\n"
        "  -s, --signal=SIG                  the first signal (TERM)\n"
        "      --kill-mode=tree|mixed        who gets it: every process, or COMMAND alone\n"
        "      --leftovers=end|wait          what outlives COMMAND is ended, or awaited\n"
        "      --stdin=inherit|null          what COMMAND reads\n"
        "      --memory-max=SIZE             the tree's memory: 64M, 1.5G\n"
        "      --tasks-max=N                 its processes and threads\n"
        "      --cpu-max=PERCENT             its share of one CPU: 50%, 200%\n"
        "      --records=DIR                 where the tree is recorded ($CGTREE_RECORDS)\n"
        "  -q, --quiet / -v, --verbose       say errors alone / what is done and why\n"
        "  -h, --help / -V, --version        show this text / the version\n"
        "\n"
        "DUR: 150ms, 1.5s, 2m, 1h, 1d, infinity; a bare number is seconds.\n"
        "TERM, HUP, INT and QUIT sent to cgtree end the tree, beginning with that signal;\n"
        "a second one kills it at once. USR1, USR2, WINCH and the like go to COMMAND.\n"
        "Exit status: that of COMMAND, or death by the same signal; 124 after a timeout,\n"
        "125 cgtree itself failed, 126 COMMAND cannot be executed, 127 it is not found.\n";

#define DEFAULT_GRACE_USEC UINT64_C(1500000)

enum {
        OPTION_REQUIRE = 256,
        OPTION_KILL_MODE,
        OPTION_LEFTOVERS,
        OPTION_STDIN,
        OPTION_RECORDS,
        OPTION_MEMORY_MAX,
        OPTION_TASKS_MAX,
        OPTION_CPU_MAX,
};

static const struct option long_options[] = {
        { "backend", required_argument, NULL, 'b' },
        { "require", required_argument, NULL, OPTION_REQUIRE },
        { "name", required_argument, NULL, 'n' },
        { "timeout", required_argument, NULL, 't' },
        { "grace", required_argument, NULL, 'k' },
        { "signal", required_argument, NULL, 's' },
        { "kill-mode", required_argument, NULL, OPTION_KILL_MODE },
        { "leftovers", required_argument, NULL, OPTION_LEFTOVERS },
        { "stdin", required_argument, NULL, OPTION_STDIN },
        { "memory-max", required_argument, NULL, OPTION_MEMORY_MAX },
        { "tasks-max", required_argument, NULL, OPTION_TASKS_MAX },
        { "cpu-max", required_argument, NULL, OPTION_CPU_MAX },
        { "records", required_argument, NULL, OPTION_RECORDS },
        { "quiet", no_argument, NULL, 'q' },
        { "verbose", no_argument, NULL, 'v' },
        { "help", no_argument, NULL, 'h' },
        { "version", no_argument, NULL, 'V' },
        { 0 },
};

/* The place of value among words ("one|two|three"), or -1 after having said what is possible. */
static int parse_word(const char *option, const char *value, const char *words) {
        size_t length = strlen(value);
        int place = 0;

        for (const char *word = words; *word; place++) {
                size_t n = strcspn(word, "|");

                if (n == length && memcmp(word, value, n) == 0)
                        return place;
                word += n + (word[n] == '|');
        }
        cmd_usage("run", RUN_FAILED, "%s is %s, not '%s'", option, words, value);
        return -1;
}

static int parse_duration(const char *option, const char *value, uint64_t *ret_usec) {
        return cmd_duration("run", RUN_FAILED, option, value, ret_usec);
}

/* infinity: none, as if the option was not given. */
static int parse_limit(const char *option, int (*parse)(const char *text, uint64_t *ret_value), const char *kind,
        const char *value, uint64_t *ret_limit) {
        int r = parse(value, ret_limit);

        if (r == -ERANGE)
                return cmd_usage("run", RUN_FAILED, "%s: '%s' is too much ('infinity' is the word)", option, value);
        if (r < 0)
                return cmd_usage("run", RUN_FAILED, "%s: '%s' is not %s", option, value, kind);
        if (*ret_limit == UINT64_MAX)
                *ret_limit = 0;
        return 0;
}

/* One option of run. 0, or the exit status. */
static int parse_option(struct run_options *options, int option, const char *value) {
        int place = 0;

        switch (option) {
        case 'b':
                place = parse_word("--backend", value, "auto|subtree|scope|group");
                options->placement = place == 1   ? CGTREE_PLACEMENT_SUBTREE
                                     : place == 2 ? CGTREE_PLACEMENT_SCOPE
                                     : place == 3 ? CGTREE_PLACEMENT_GROUP
                                                  : CGTREE_PLACEMENT_AUTO;
                break;
        case OPTION_REQUIRE:
                place = parse_word("--require", value, "whole");
                options->minimum = CGTREE_GUARANTEE_WHOLE;
                break;
        case 'n': options->name = value; break;
        case 't': return parse_duration("--timeout", value, &options->timeout);
        case 'k': return parse_duration("--grace", value, &options->grace);
        case 's': return cmd_signal("run", RUN_FAILED, value, &options->signal);
        case OPTION_KILL_MODE:
                place = parse_word("--kill-mode", value, "tree|mixed");
                options->root_only = place == 1;
                break;
        case OPTION_LEFTOVERS:
                place = parse_word("--leftovers", value, "end|wait");
                options->wait_leftovers = place == 1;
                break;
        case OPTION_STDIN:
                place = parse_word("--stdin", value, "inherit|null");
                options->null_stdin = place == 1;
                break;
        case OPTION_MEMORY_MAX:
                return parse_limit("--memory-max", amount_parse_size, "a size like 64M or 1.5G", value,
                        &options->limits[CGTREE_LIMIT_MEMORY]);
        case OPTION_TASKS_MAX:
                return parse_limit("--tasks-max", amount_parse_count, "a number of processes", value,
                        &options->limits[CGTREE_LIMIT_TASKS]);
        case OPTION_CPU_MAX:
                return parse_limit("--cpu-max", amount_parse_percent, "a share of one CPU like 50%", value,
                        &options->limits[CGTREE_LIMIT_CPU]);
        case OPTION_RECORDS: options->records = value; break;
        case 'q': message_set_level(MESSAGE_ERROR); break;
        default: message_set_level(MESSAGE_DETAIL); break;
        }
        return place < 0 ? RUN_FAILED : 0;
}

int cmd_run(int argc, char *argv[]) {
        struct run_options options = {
                .placement = CGTREE_PLACEMENT_AUTO,
                .minimum = CGTREE_GUARANTEE_GROUP,
                .grace = DEFAULT_GRACE_USEC,
                .signal = SIGTERM,
        };
        int option, status;

        opterr = 0;
        while ((option = getopt_long(argc, argv, "+:b:n:t:k:s:qvhV", long_options, NULL)) >= 0) {
                if (option == 'h')
                        return cmd_help(help);
                if (option == 'V')
                        return cmd_version();
                if (option == '?' || option == ':')
                        return cmd_bad_option("run", RUN_FAILED, argv, option, long_options);
                status = parse_option(&options, option, optarg);
                if (status != 0)
                        return status;
        }
        if (optind >= argc)
                return cmd_usage("run", RUN_FAILED, "a COMMAND is missing");
        if (options.placement == CGTREE_PLACEMENT_GROUP && options.minimum == CGTREE_GUARANTEE_WHOLE)
                return cmd_usage("run", RUN_FAILED, "--backend=group cannot give what --require=whole asks for");
        options.argv = argv + optind;
        return run_command(&options);
}
