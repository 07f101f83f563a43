/* SPDX-License-Identifier: MIT */
#pragma once

/* The descriptors by which a signal handler can end all trees of an owner. Reading the set takes no lock and allocates nothing;
 * writers are serialized by the caller, and wait for handlers in other threads before a descriptor may be closed. */

#include "util.h"

enum kill_kind {
        KILL_NONE,
        KILL_CGROUP, /* cgroup.kill of a directory of trees, open for writing: "1" */
        KILL_TREE,   /* directory of one tree's own cgroup: the same, opened then */
        KILL_REAPER, /* socket: GATE_KILL, GATE_TEARDOWN */
        KILL_GUARD,  /* socket: GATE_TEARDOWN; GATE_KILL where there is no cgroup.kill */
};

#define KILL_SLOTS 62 /* of one chunk, which is half a KiB */

struct kill_slot {
        int kind; /* written last, and first when it goes */
        int fd;
};

struct kill_chunk {
        struct kill_chunk *next;
        struct kill_slot slots[KILL_SLOTS];
};

struct kill_set {
        struct kill_chunk *first;
        int n_handlers; /* that are going through it now */
};

/* The slot, or NULL: out of memory. */
struct kill_slot *kill_set_add(struct kill_set *set, enum kill_kind kind, int fd);
/* Takes it out; when it returns no handler uses its descriptor any more. *slot is set to NULL. */
void kill_set_remove(struct kill_set *set, struct kill_slot **slot);
void kill_set_done(struct kill_set *set);

/* [signal-safe] SIGKILL for all. Returns how many could not be asked. */
int kill_set_kill(struct kill_set *set);
/* [signal-safe] TERM now and KILL after the grace, by guard and reapers. Where there is no guard any more: SIGKILL. */
int kill_set_tear_down(struct kill_set *set);
