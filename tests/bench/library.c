/* SPDX-License-Identifier: MIT */

/* (B) One cycle of a program that runs commands: spawn, exec, exit, seen empty; with a guard and a record for each. */

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

#define ROUNDS      600
#define THREADS_MAX 4
#define SLICE_NSEC  UINT64_C(400000000)
#define SLICES      5
#define LARGE_MIB   2048
#define SMALL_MIB   10
#define ASK_CYCLE   'c'
#define ASK_OWNER   'o'
#define ASK_PROGRAM 'p'

static cgtree_owner *open_owner(void) {
        cgtree_owner *owner;
        if (cgtree_owner_new(&owner) < 0)
                die("out of memory");
        if (cgtree_owner_set_placement(owner, CGTREE_PLACEMENT_SUBTREE, CGTREE_GUARANTEE_WHOLE) < 0 ||
                cgtree_owner_open(owner, CGTREE_FOREVER) < 0) {
                note("no subtree here: %s", cgtree_owner_get_error(owner));
                cgtree_owner_free(owner);
                return NULL;
        }
        return owner;
}

static void close_owner(cgtree_owner *owner) {
        if (cgtree_owner_close(owner, 0, CGTREE_FOREVER) < 0)
                die("an owner cannot be closed");
        cgtree_owner_free(owner);
}

static cgtree_command *new_command(const char *const argv[]) {
        cgtree_command *command;
        if (cgtree_command_new(&command, argv) < 0)
                die("out of memory");
        return command;
}

static void cycle(cgtree_owner *owner, cgtree_command *command) {
        cgtree_tree *tree;
        int r = cgtree_spawn(owner, command, &tree);
        if (r >= 0)
                r = cgtree_tree_wait_root(tree, CGTREE_FOREVER);
        if (r >= 0)
                r = cgtree_tree_wait_empty(tree, CGTREE_FOREVER);
        if (r < 0)
                die("a cycle failed: %s", strerror(-r));
        cgtree_tree_free(tree);
}

/* ---- contenders in this process -------------------------------------------------------------------------------- */

struct contender {
        struct row *row;
        cgtree_owner *owner; /* NULL: */
        struct floor *floor; /* NULL: posix_spawn */
};

static void run_cycle(const struct contender *contender, const char *const argv[], cgtree_command *command) {
        if (contender->owner)
                cycle(contender->owner, command);
        else if (contender->floor) {
                struct floor_tree tree;
                if (floor_spawn(contender->floor, argv, &tree) < 0 || floor_settle(contender->floor, &tree) != 0)
                        die("the floor does not hold");
        } else if (posix_cycle(argv) != 0)
                die("posix_spawn failed");
}

static void measure(const struct contender *contender, const char *const argv[], cgtree_command *command) {
        uint64_t begin = now_nsec();
        run_cycle(contender, argv, command);
        row_add(contender->row, (double)(now_nsec() - begin) / 1000);
}

/* Trees that live on, each a process that waits. */
static cgtree_owner *owner_of(unsigned n) {
        cgtree_owner *owner = open_owner();
        int ready[2];
        if (!owner || pipe(ready) < 0)
                return owner;
        char fd[] = "3";
        const char *const argv[] = { bench.payload, "forest", "1", fd, NULL };
        cgtree_command *command = new_command(argv);
        (void)cgtree_command_set_fd(command, 3, ready[1]);
        for (unsigned i = 0; i < n; i++) {
                cgtree_tree *tree;
                int r = cgtree_spawn(owner, command, &tree);
                if (r < 0)
                        die("tree %u cannot be started: %s", i, strerror(-r));
                (void)wait_ready(ready[0]);
                cgtree_tree_free(tree);
        }
        cgtree_command_free(command);
        (void)close(ready[0]);
        (void)close(ready[1]);
        return owner;
}

static void compare_cycles(struct floor *floor) {
        static const unsigned alive[] = { 0, 100, 1000 };
        const char *const argv[] = { bench.payload, NULL };
        struct table *table = table_new("B", "spawn, exec, exit, seen empty", "us");
        struct contender contenders[5] = {
                { .row = table_row(table, "posix_spawn, waitpid") },
                { .row = table_row(table, "floor"), .floor = floor },
        };
        for (size_t i = 0; i < 3; i++) {
                contenders[2 + i].owner = owner_of(alive[i]);
                contenders[2 + i].row = table_row(table, "library, %u trees alive", alive[i]);
        }
        cgtree_command *command = new_command(argv);
        unsigned rounds = repeats(ROUNDS, 10);
        for (unsigned round = 0; round < rounds + 5; round++)
                for (size_t i = 0; i < 5; i++) {
                        const struct contender *contender = &contenders[(i + round) % 5];
                        if (round < 5)
                                run_cycle(contender, argv, command);
                        else
                                measure(contender, argv, command);
                }
        cgtree_command_free(command);
        for (size_t i = 2; i < 5; i++)
                close_owner(contenders[i].owner);
        table_set_reference(table, contenders[1].row);
        double none = row_median(contenders[2].row);
        table_expect(table, "library / floor", none / row_median(contenders[1].row), false, 1.3);
        table_expect(table, "library / posix_spawn", none / row_median(contenders[0].row), false, 1.6);
        table_expect(table, "1000 trees alive / none", row_median(contenders[4].row) / none, false, 1.1);
        table_print(table);
}

/* ---- the owner's memory ---------------------------------------------------------------------------------------- */

int library_stand(int argc, char *argv[]) {
        size_t size = argc > 1 ? strtoul(argv[1], NULL, 10) << 20 : 0;
        char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), byte;
        if (memory == MAP_FAILED)
                return 1;
        (void)madvise(memory, size, MADV_NOHUGEPAGE);
        memset(memory, 1, size);
        cgtree_owner *owner = open_owner();
        const char *const arguments[] = { bench.payload, NULL };
        cgtree_command *command = new_command(arguments);
        if (!owner)
                return 1;
        while (read(STDIN_FILENO, &byte, 1) == 1) {
                uint64_t begin = now_nsec();
                if (byte == ASK_OWNER)
                        close_owner(open_owner());
                else if (byte == ASK_PROGRAM)
                        (void)posix_cycle(arguments);
                else
                        cycle(owner, command);
                double usec = (double)(now_nsec() - begin) / 1000;
                if (write(STDOUT_FILENO, &usec, sizeof(usec)) != sizeof(usec))
                        return 1;
        }
        cgtree_command_free(command);
        close_owner(owner);
        return 0;
}

static void open_library_stand(struct stand *stand, unsigned mib) {
        char size[16];
        (void)snprintf(size, sizeof(size), "%u", mib);
        const char *argv[] = { bench.self, "--library-stand", size, NULL };
        int to[2], from[2];
        if (pipe2(to, O_CLOEXEC) < 0 || pipe2(from, O_CLOEXEC) < 0)
                die("pipe: %m");
        posix_spawn_file_actions_t actions;
        (void)posix_spawn_file_actions_init(&actions);
        (void)posix_spawn_file_actions_adddup2(&actions, to[0], STDIN_FILENO);
        (void)posix_spawn_file_actions_adddup2(&actions, from[1], STDOUT_FILENO);
        if (posix_spawn(&stand->pid, argv[0], &actions, NULL, (char **)(uintptr_t)argv, environ) != 0)
                die("%s cannot be started", argv[0]);
        (void)posix_spawn_file_actions_destroy(&actions);
        (void)close(to[0]);
        (void)close(from[1]);
        stand->to = to[1];
        stand->from = from[0];
}

static double ask(struct stand *stand, char what) {
        double usec;
        if (write(stand->to, &what, 1) != 1 || read(stand->from, &usec, sizeof(usec)) != sizeof(usec))
                die("a process that runs cycles has gone");
        return usec;
}

static void compare_cycles_by_memory(struct stand stands[2]) {
        struct table *table = table_new("B", "the same, by the memory of the owner", "us");
        struct row *rows[] = {
                table_row(table, "%d MiB resident", SMALL_MIB),
                table_row(table, "%d MiB resident", LARGE_MIB),
        };
        unsigned rounds = repeats(ROUNDS, 10);
        for (unsigned round = 0; round < rounds + 5; round++)
                for (size_t i = 0; i < 2; i++) {
                        double usec = ask(&stands[i], ASK_CYCLE);
                        if (round >= 5)
                                row_add(rows[i], usec);
                }
        table_set_reference(table, rows[0]);
        table_expect(table, "2048 MiB / 10 MiB", row_median(rows[1]) / row_median(rows[0]), false, 1.1);
        table_print(table);
}

/* What an owner opened and closed costs more than a program of the same kind is its guard, three directories, and talk. */
static void compare_guard_starts(struct stand stands[2]) {
        static const unsigned sizes[] = { SMALL_MIB, LARGE_MIB };
        struct table *table = table_new("B", "the start of a guard", "us");
        struct row *programs[2], *owners[2];
        for (size_t i = 0; i < 2; i++) {
                programs[i] = table_row(table, "posix_spawn, waitpid, %u MiB resident", sizes[i]);
                owners[i] = table_row(table, "owner opened, closed, %u MiB resident", sizes[i]);
        }
        unsigned rounds = repeats(ROUNDS / 2, 10);
        for (unsigned round = 0; round < rounds; round++)
                for (size_t i = 0; i < 2; i++) {
                        row_add(programs[i], ask(&stands[i], ASK_PROGRAM));
                        row_add(owners[i], ask(&stands[i], ASK_OWNER));
                }
        table_set_reference(table, programs[0]);
        for (size_t i = 0; i < 2; i++) {
                char what[96];
                (void)snprintf(what, sizeof(what), "%u MiB: owner - program, us", sizes[i]);
                table_expect(table, what, row_median(owners[i]) - row_median(programs[i]), false, 500);
        }
        table_expect(table, "owner: 2048 MiB / 10 MiB", row_median(owners[1]) / row_median(owners[0]), false, 1.1);
        table_print(table);
}

static void compare_memory(void) {
        struct sysinfo info;
        if (sysinfo(&info) < 0 || info.freeram / (1 << 20) * info.mem_unit < LARGE_MIB + 512) {
                note("(B) an owner of %d MiB: there is not that much memory free", LARGE_MIB);
                return;
        }
        struct stand stands[2];
        open_library_stand(&stands[0], SMALL_MIB);
        open_library_stand(&stands[1], LARGE_MIB);
        compare_cycles_by_memory(stands);
        compare_guard_starts(stands);
        stand_close(&stands[0]);
        stand_close(&stands[1]);
}

/* ---- threads --------------------------------------------------------------------------------------------------- */

struct work {
        struct contender contender;
        uint64_t until;
        unsigned n;
};

static void *work(void *argument) {
        struct work *work = argument;
        const char *const argv[] = { bench.payload, NULL };
        cgtree_command *command = new_command(argv);
        while (now_nsec() < work->until) {
                run_cycle(&work->contender, argv, command);
                work->n++;
        }
        cgtree_command_free(command);
        return NULL;
}

static double rate(const struct contender *contender, unsigned n_threads) {
        pthread_t threads[THREADS_MAX];
        struct work works[THREADS_MAX];
        uint64_t begin = now_nsec();
        unsigned n = 0;
        for (unsigned i = 0; i < n_threads; i++) {
                works[i] = (struct work){ .contender = *contender,
                        .until = begin + (uint64_t)((double)SLICE_NSEC * (bench.scale < 1 ? bench.scale : 1)) };
                if (pthread_create(&threads[i], NULL, work, &works[i]) != 0)
                        die("a thread cannot be made");
        }
        for (unsigned i = 0; i < n_threads; i++) {
                (void)pthread_join(threads[i], NULL);
                n += works[i].n;
        }
        return n / ((double)(now_nsec() - begin) / 1e9);
}

static void compare_threads(struct floor *floor) {
        static const unsigned counts[] = { 1, 2, 4 };
        struct table *table = table_new("B", "cycles in a second, all threads together", "/s");
        const char *const names[] = { "posix_spawn", "floor", "library" };
        struct contender contenders[] = { { 0 }, { .floor = floor }, { .owner = open_owner() } };
        struct row *rows[3][3];
        for (size_t i = 0; i < 3; i++)
                for (size_t j = 0; j < 3; j++)
                        rows[i][j] = table_row(table, "%s, %u thread%s", names[i], counts[j], counts[j] > 1 ? "s" : "");
        unsigned slices = repeats(SLICES, 3);
        for (unsigned slice = 0; slice < slices; slice++)
                for (size_t j = 0; j < 3; j++)
                        for (size_t i = 0; i < 3; i++)
                                row_add(rows[i][j], rate(&contenders[i], counts[j]));
        close_owner(contenders[2].owner);
        table_set_reference(table, rows[2][0]);
        table_expect(table, "two threads / one", row_median(rows[2][1]) / row_median(rows[2][0]), true, 1.5);
        table_print(table);
}

void part_library(void) {
        struct floor floor;
        cgtree_owner *owner = open_owner();
        if (!owner)
                return;
        close_owner(owner);
        if (floor_open(&floor) < 0) {
                note("(B) no cgroup can be made here");
                return;
        }
        compare_cycles(&floor);
        compare_memory();
        compare_threads(&floor);
        floor_close(&floor);
}
