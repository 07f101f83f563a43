/* SPDX-License-Identifier: MIT */

/* (C) A tree of N processes, each in a session of its own, is killed: until it was seen empty, and nothing is left of it. */

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"

static const struct { unsigned n, rounds; } sizes[] = { { 1, 120 }, { 100, 30 }, { 1000, 6 }, { 10000, 2 } };

static const struct {
        const char *name;
        unsigned usec;
} ages[] = { { "old", 40000 }, { "1 ms young", 1000 } };

#define N_SIZES (sizeof(sizes) / sizeof(*sizes))
#define N_AGES  (sizeof(ages) / sizeof(*ages))

static const char **forest(unsigned n, int fd) {
        static char count[16], target[16];
        static const char *argv[] = { NULL, "forest", count, target, NULL };
        argv[0] = bench.payload;
        (void)snprintf(count, sizeof(count), "%u", n);
        (void)snprintf(target, sizeof(target), "%d", fd);
        return argv;
}

/* -errno where that many processes are not to be had. */
static int end_floor(struct floor *floor, unsigned n, unsigned age, double *ret_msec) {
        struct floor_tree tree;
        int ready[2];
        if (pipe(ready) < 0)
                return -errno;
        int r = floor_spawn(floor, forest(n, ready[1]), &tree);
        (void)close(ready[1]);
        if (r >= 0)
                r = wait_ready(ready[0]);
        (void)close(ready[0]);
        if (r < 0)
                return r;
        (void)usleep(age);
        uint64_t begin = now_nsec();
        (void)floor_kill(floor, &tree);
        *ret_msec = (double)(now_nsec() - begin) / 1e6;
        return 0;
}

static int end_library(cgtree_owner *owner, unsigned n, unsigned age, double *ret_msec) {
        cgtree_command *command;
        cgtree_tree *tree;
        int ready[2];
        if (pipe(ready) < 0)
                return -errno;
        int r = cgtree_command_new(&command, forest(n, 3));
        if (r >= 0)
                r = cgtree_command_set_fd(command, 3, ready[1]);
        if (r >= 0)
                r = cgtree_spawn(owner, command, &tree);
        cgtree_command_free(command);
        (void)close(ready[1]);
        if (r >= 0)
                r = wait_ready(ready[0]);
        (void)close(ready[0]);
        if (r < 0)
                return r;
        (void)usleep(age);
        uint64_t begin = now_nsec();
        r = cgtree_tree_kill(tree, CGTREE_FOREVER);
        *ret_msec = (double)(now_nsec() - begin) / 1e6;
        cgtree_tree_free(tree);
        return r;
}

struct rows {
        struct row *floor, *library;
};

static void compare_size(struct floor *floor, cgtree_owner *owner, size_t size, struct rows rows[N_AGES]) {
        unsigned n = sizes[size].n, rounds = repeats(sizes[size].rounds, 2);
        for (unsigned round = 0; round < rounds; round++)
                for (size_t age = 0; age < N_AGES; age++) {
                        double msec[2] = { 0 };
                        for (unsigned i = 0; i < 2; i++) {
                                bool of_floor = (i + round) % 2 == 0;
                                int r = of_floor ? end_floor(floor, n, ages[age].usec, &msec[0])
                                                 : end_library(owner, n, ages[age].usec, &msec[1]);
                                if (r < 0) {
                                        note("(C) %u processes are not to be had here: %s", n, strerror(-r));
                                        return;
                                }
                        }
                        row_add(rows[age].floor, msec[0]);
                        row_add(rows[age].library, msec[1]);
                }
}

static void expect(struct table *table, unsigned n, const char *age, const struct rows *rows) {
        char what[96];
        double floor = row_median(rows->floor), library = row_median(rows->library);
        if (n >= 100) {
                (void)snprintf(what, sizeof(what), "%u processes, %s: library / floor", n, age);
                table_expect(table, what, library / floor, false, 1.1);
        } else {
                (void)snprintf(what, sizeof(what), "%u process%s, %s: library - floor, ms", n, n > 1 ? "es" : "", age);
                table_expect(table, what, library - floor, false, 0.3);
        }
}

void part_ending(void) {
        struct floor floor;
        cgtree_owner *owner;
        if (cgtree_owner_new(&owner) < 0)
                die("out of memory");
        if (cgtree_owner_set_placement(owner, CGTREE_PLACEMENT_SUBTREE, CGTREE_GUARANTEE_WHOLE) < 0 ||
                cgtree_owner_open(owner, CGTREE_FOREVER) < 0 || floor_open(&floor) < 0) {
                note("(C) no subtree here: %s", cgtree_owner_get_error(owner));
                cgtree_owner_free(owner);
                return;
        }
        struct table *table = table_new("C", "N processes killed, until seen empty", "ms");
        for (size_t size = 0; size < N_SIZES; size++) {
                if (sizes[size].n > 1000 && bench.scale < 0.5)
                        break; /* a quick look is not to bring a machine to its knees */
                struct rows rows[N_AGES];
                for (size_t age = 0; age < N_AGES; age++) {
                        rows[age].floor = table_row(table, "%u, %s: floor", sizes[size].n, ages[age].name);
                        rows[age].library = table_row(table, "%u, %s: library", sizes[size].n, ages[age].name);
                }
                compare_size(&floor, owner, size, rows);
                for (size_t age = 0; age < N_AGES; age++)
                        expect(table, sizes[size].n, ages[age].name, &rows[age]);
        }
        table_print(table);
        (void)cgtree_owner_close(owner, 0, CGTREE_FOREVER);
        cgtree_owner_free(owner);
        floor_close(&floor);
}
