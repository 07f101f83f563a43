/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cgtree.h"

/* Exit statuses of run that are not the command's own. */
enum {
        RUN_TIMEOUT = 124,
        RUN_FAILED = 125,
        RUN_NOT_EXECUTABLE = 126,
        RUN_NOT_FOUND = 127,
};

struct run_options {
        enum cgtree_placement placement;
        enum cgtree_guarantee minimum;
        const char *name;    /* NULL: none */
        const char *records; /* NULL: the usual place */
        uint64_t timeout, grace;
        uint64_t limits[CGTREE_LIMIT_CPU + 1]; /* 0: none */
        int signal;
        bool root_only;      /* the first signal goes to the root alone */
        bool wait_leftovers; /* instead of ending them */
        bool null_stdin;
        char **argv;
};

/* Runs the command, tends its tree until it is empty, and returns the exit status, or ends this process by the signal by
 * which the command ended. */
int run_command(const struct run_options *options);
