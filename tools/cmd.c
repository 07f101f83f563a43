/* SPDX-License-Identifier: MIT */
#include "cmd.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "duration.h"
#include "message.h"
#include "signal-name.h"

int cmd_help(const char *text) {
        return message_output(text, strlen(text)) < 0 ? EXIT_STATUS_FAILED : EXIT_STATUS_OK;
}

int cmd_version(void) {
        return cmd_help("cgtree " CGTREE_VERSION "\n");
}

int cmd_usage(const char *verb, int status, const char *format, ...) {
        char text[1024];
        va_list arguments;

        va_start(arguments, format);
        vsnprintf(text, sizeof text, format, arguments);
        va_end(arguments);
        message(MESSAGE_ERROR, "%s; see 'cgtree %s%s--help'", text, verb, *verb ? " " : "");
        return status;
}

/* The long option of this value. */
static const char *long_name(const struct option *options, int value) {
        for (; options->name; options++)
                if (options->val == value)
                        return options->name;
        return NULL;
}

int cmd_bad_option(const char *verb, int status, char *argv[], int found, const struct option *options) {
        const char *given = argv[optind - 1];

        if (found == ':' && given[1] == '-')
                return cmd_usage(verb, status, "option '%s' needs a value", given);
        if (found == ':')
                return cmd_usage(verb, status, "option '-%c' needs a value", optopt);
        if (optopt == 0)
                return cmd_usage(verb, status, "unknown option '%s'", given);
        if (given[0] == '-' && given[1] == '-' && long_name(options, optopt))
                return cmd_usage(verb, status, "option '--%s' takes no value", long_name(options, optopt));
        return cmd_usage(verb, status, "unknown option '-%c'", optopt);
}

int cmd_duration(const char *verb, int status, const char *option, const char *value, uint64_t *ret_usec) {
        int r = duration_parse(value, ret_usec);

        if (r == -ERANGE)
                return cmd_usage(verb, status, "%s: '%s' is too long ('infinity' is the word)", option, value);
        if (r < 0)
                return cmd_usage(verb, status, "%s: '%s' is not a duration like 150ms, 1.5s or 2m", option, value);
        return 0;
}

int cmd_signal(const char *verb, int status, const char *value, int *ret_signal) {
        int number = signal_parse(value);

        if (number < 0)
                return cmd_usage(verb, status, "--signal: '%s' is not a signal like TERM or 15", value);
        *ret_signal = number;
        return 0;
}

void cmd_raise_descriptor_limit(void) {
        struct rlimit limit;

        if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
                return;
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
}

const char *cmd_placement_name(enum cgtree_placement placement) {
        switch (placement) {
        case CGTREE_PLACEMENT_SUBTREE: return "subtree";
        case CGTREE_PLACEMENT_SCOPE: return "scope";
        case CGTREE_PLACEMENT_GROUP: return "group";
        case CGTREE_PLACEMENT_AUTO: break;
        }
        return "auto";
}
