/* SPDX-License-Identifier: MIT */
#pragma once

/* What the parts of the benchmark share: clocks, tables of samples, programs run in a place, and the bare floor. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "../../lib/cgtree.h"

/* ---- bench.c ---- */

struct bench {
        double scale;          /* of all repeats: 1 is the whole, below it a quick one */
        const char *cgtree;    /* the program */
        const char *self;      /* this one, for what runs in processes of its own */
        const char *payload;   /* bench-payload, static */
        const char *userhost;  /* tests/e2e/userhost.sh, or NULL */
        const char *directory; /* of our own, for records and bundles; removed in the end */
};

extern struct bench bench;

/* Ends the program, saying so. */
_Noreturn void die(const char *template, ...) __attribute__((format(printf, 1, 2)));
/* Names what is left out, and why; it is in the JSON too. */
void note(const char *template, ...) __attribute__((format(printf, 1, 2)));
uint64_t now_nsec(void);
/* `n` scaled, at least `least`. */
unsigned repeats(unsigned n, unsigned least);

void part_prefix(void);
void part_library(void);
void part_ending(void);
void part_owner_death(void);
void part_sweep(void);
void part_memory(void);

/* In a process of its own, for part_library: cycles until EOF, asked for and answered byte by byte. */
int library_stand(int argc, char *argv[]);
/* For the same: an owner with a tree, that waits to be killed. */
int death_stand(int argc, char *argv[]);
/* Runs programs as it is told (stand.c). */
int program_stand(void);

/* ---- table.c ---- */

struct table; /* rows of samples */
struct row;

/* `unit` of all samples: "us", "ms", "KiB" or "/s". */
struct table *table_new(const char *part, const char *title, const char *unit);
struct row *table_row(struct table *table, const char *template, ...) __attribute__((format(printf, 2, 3)));
void row_add(struct row *row, double sample);
/* A second column: CPU time. */
void row_add_cpu(struct row *row, double sample);
double row_median(const struct row *row);
double row_worst(const struct row *row);
/* Ratios are those of medians to this row. */
void table_set_reference(struct table *table, const struct row *row);
/* What is asked for, and how it came out: `value` at most, or at least, `limit`. */
void table_expect(struct table *table, const char *what, double value, bool at_least, double limit);
void table_print(const struct table *table);
void tables_write_json(const char *path);

/* ---- stand.c ---- */

/* A process that stays where it was put and runs programs there, one at a time. */
struct stand {
        pid_t pid;
        int to, from;
};

struct run_result {
        int64_t wall_nsec, cpu_nsec; /* CPU: of the program, and of all that it has waited for */
        int32_t status;              /* as of waitpid(2) */
};

/* prefix: what puts it there ("cgtree", "run", "--"); NULL-terminated, may be empty. -errno. */
int stand_open(struct stand *stand, const char *const prefix[]);
int stand_run(struct stand *stand, const char *const argv[], struct run_result *ret_result);
void stand_close(struct stand *stand);

/* ---- floor.c ---- */

/* The least that an owned tree can cost: mkdir, clone3 into it, exec; wait; see it empty; rmdir. */
struct floor {
        int base; /* directory in which it makes cgroups */
        int alive;
        pid_t janitor;
        char name[32];
};

struct floor_tree {
        int cgroup, events;
        pid_t pid;
        int pidfd;
        char name[32];
};

/* The path of the cgroup of a process. */
int floor_find(pid_t pid, char path[4096]);
/* events: cgroup.events, open. */
void floor_wait_empty(int events);
/* In our own cgroup. -errno where there is none to be divided. */
int floor_open(struct floor *floor);
void floor_close(struct floor *floor);
int floor_spawn(struct floor *floor, const char *const argv[], struct floor_tree *ret_tree);
/* Waits for the root alone, sees the tree empty, removes it. */
int floor_settle(struct floor *floor, struct floor_tree *tree);
/* One write to cgroup.kill, then as settle. */
int floor_kill(struct floor *floor, struct floor_tree *tree);

/* ---- posix.c ---- */

/* posix_spawn and waitpid, stdin from /dev/null. The wait status, or -errno. */
int posix_cycle(const char *const argv[]);
/* Reads one byte of `fd`: what bench-payload says when all of it is there. */
int wait_ready(int fd);
/* In KiB: what is its own and has to stay in memory, and its share of all it uses. */
int read_memory(pid_t pid, double *ret_dirty, double *ret_pss);
/* The child of `parent` that is called `name`; 0: none. */
pid_t find_child(pid_t parent, const char *name);
/* Until it has taken everything in: it is woken no more. */
void wait_quiet(pid_t pid);
/* How often it was woken: voluntary context switches of all of its threads. */
int read_wakeups(pid_t pid, uint64_t *ret_n);
