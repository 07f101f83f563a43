/* SPDX-License-Identifier: MIT */
#include <stdbool.h>
#include <string.h>

#include "cmd.h"

static const char help[] = "Usage: cgtree VERB [OPTIONS] ...\n"
                           "\n"
                           "Runs commands as process trees that can always be found and always be ended,\n"
                           "whole.\n"
                           "\n"
                           "  run [--] COMMAND...  run a command as a tree; nothing of it is left behind\n"
                           "  kill TREE...         end trees, whole, and see that they are gone\n"
                           "  list                 show the trees that are recorded here\n"
                           "  sweep                end the trees whose owner is gone\n"
                           "  watch                the same, as it happens\n"
                           "  doctor               what can be had here, and what would help\n"
                           "  help [VERB]          show this text, or that of a verb\n"
                           "\n"
                           "  -h, --help           show this text\n"
                           "  -V, --version        show the version\n"
                           "\n"
                           "A TREE is an id, a name, or the beginning of an id that no other tree shares.\n"
                           "'cgtree VERB --help' shows the options and exit statuses of a verb.\n";

static int cmd_show_help(int argc, char *argv[]);

static const struct verb {
        const char *name;
        int (*run)(int argc, char *argv[]);
} verbs[] = {
        { "run", cmd_run },
        { "kill", cmd_kill },
        { "list", cmd_list },
        { "sweep", cmd_sweep },
        { "watch", cmd_watch },
        { "doctor", cmd_doctor },
        { "help", cmd_show_help },
};

static const struct verb *verb_find(const char *name) {
        for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++)
                if (strcmp(verbs[i].name, name) == 0)
                        return &verbs[i];
        return NULL;
}

static bool is_option(const char *argument, const char *brief, const char *full) {
        return strcmp(argument, brief) == 0 || strcmp(argument, full) == 0;
}

static int cmd_show_help(int argc, char *argv[]) {
        const struct verb *verb;
        char *arguments[] = { NULL, (char[]){ "--help" }, NULL };

        if (argc < 2 || is_option(argv[1], "-h", "--help"))
                return cmd_help(help);
        if (argc > 2)
                return cmd_usage("", EXIT_STATUS_USAGE, "one VERB at a time");
        verb = verb_find(argv[1]);
        if (!verb)
                return cmd_usage("", EXIT_STATUS_USAGE, "unknown verb '%s'", argv[1]);
        arguments[0] = argv[1];
        return verb->run(2, arguments);
}

int main(int argc, char *argv[]) {
        const struct verb *verb;

        if (argc < 2)
                return cmd_usage("", EXIT_STATUS_USAGE, "a VERB is missing: run, kill, list, sweep, watch or doctor");
        if (is_option(argv[1], "-h", "--help"))
                return cmd_help(help);
        if (is_option(argv[1], "-V", "--version"))
                return cmd_version();
        verb = verb_find(argv[1]);
        if (!verb)
                return cmd_usage(
                        "", EXIT_STATUS_USAGE, "unknown %s '%s'", argv[1][0] == '-' ? "option" : "verb", argv[1]);
        return verb->run(argc - 1, argv + 1);
}
