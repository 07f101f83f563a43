/* SPDX-License-Identifier: MIT */
#pragma once

#include <getopt.h>
#include <stdint.h>

#include "cgtree.h"

/* One verb each; argv[0] is the verb. Returns the exit status. */
int cmd_run(int argc, char *argv[]);
int cmd_kill(int argc, char *argv[]);
int cmd_list(int argc, char *argv[]);
int cmd_sweep(int argc, char *argv[]);
int cmd_watch(int argc, char *argv[]);
int cmd_doctor(int argc, char *argv[]);

/* Exit statuses of every verb but run. */
enum {
        EXIT_STATUS_OK = 0,
        EXIT_STATUS_FAILED = 1,
        EXIT_STATUS_USAGE = 2,
        EXIT_STATUS_NO_TREE = 3,
};

/* For stdout; return the exit status 0. */
int cmd_help(const char *text);
int cmd_version(void);

/* What is wrong with the command line, in words, and where to read more. Returns `status`. */
int cmd_usage(const char *verb, int status, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The same for what getopt_long() refused: it returned `found` ('?' or ':', its optstring beginning with ':'). */
int cmd_bad_option(const char *verb, int status, char *argv[], int found, const struct option *options);

/* The value of an option that is a duration, or of --signal. 0, or `status` after having said what is wrong. */
int cmd_duration(const char *verb, int status, const char *option, const char *value, uint64_t *ret_usec);
int cmd_signal(const char *verb, int status, const char *value, int *ret_signal);

/* As many descriptors as this user may have. */
void cmd_raise_descriptor_limit(void);

/* As --backend spells it. */
const char *cmd_placement_name(enum cgtree_placement placement);
