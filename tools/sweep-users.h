/* SPDX-License-Identifier: MIT */
#pragma once

#include "cgtree.h"

/* A decision of cgtree_sweep() for the trees of `uid`. */
typedef void (*sweep_user_fn)(void *userdata, uid_t uid, const char *id, const char *decision, const char *reason);

/* cgtree_sweep() for every other user who has records in one of the default directories, each in a child that has become that user:
 * root trusts no record of another. One that is not done within 10 s, say because its user has stopped it, is killed. Returns how
 * many users could not be swept, or had something that could not; or a negative errno. */
int sweep_users(bool dry_run, sweep_user_fn fn, void *userdata);
