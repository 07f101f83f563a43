/* SPDX-License-Identifier: MIT */
#pragma once

#include "run-loop.h"

/* What `cgtree run` says. Those that report a failure return the exit status. */

/* The placement that was taken, and why not a better one. */
void report_placement(const struct run_options *options, cgtree_owner *owner);
void report_started(cgtree_tree *tree);
/* Why and how it ended. */
void report_end(const struct run_options *options, cgtree_tree *tree, int ending_signal);

int report_open_failure(const struct run_options *options, cgtree_owner *owner, int error);
int report_spawn_failure(const struct run_options *options, enum cgtree_step step, int error, const char *words);
int report_lost_exit(const struct run_options *options, bool whole);
int report_survivors(cgtree_tree *tree);
/* Something of ours: "cannot WHAT: ...". */
int report_failure(const char *what, int error);
