/* SPDX-License-Identifier: MIT */
#pragma once

/* Trees of others, from their records alone. */

#include "tree.h"

/* Proves a record, by all of identity.c but the owner, and makes a tree of it. 1: *ret_tree, which has taken the record
 * over. 0: nothing of it is left. -ESTALE: it cannot be judged from here, or its container is not the recorded one; or
 * what the system says (-ENOMEM, -EMFILE ...). *ret_reason is a static string that says why, in each case. */
int find_prove(int dirfd, struct record *record, cgtree_tree **ret_tree, const char **ret_reason);
