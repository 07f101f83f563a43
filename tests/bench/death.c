/* SPDX-License-Identifier: MIT */

/* (D) The owner of a tree gets SIGKILL: until the last process of the tree has let go of a pipe. */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

#define ROUNDS 60

/* Starts an owner whose tree is a forest of `n` that holds `fd`, and says when it is there. */
typedef pid_t (*start_fn)(unsigned n, int fd);

static char count[16], target[16];

static pid_t start_program(const char *const argv[]) {
        pid_t pid;
        return posix_spawnp(&pid, argv[0], NULL, NULL, (char **)(uintptr_t)argv, environ) == 0 ? pid : -1;
}

static pid_t start_run(unsigned n, int fd) {
        (void)n, (void)fd;
        const char *const argv[] = { bench.cgtree, "run", "-q", "--backend=subtree", "--", bench.payload, "forest",
                count, target, NULL };
        return start_program(argv);
}

static pid_t start_bwrap(unsigned n, int fd) {
        (void)n, (void)fd;
        const char *const argv[] = { "bwrap", "--dev-bind", "/", "/", "--unshare-pid", "--die-with-parent",
                bench.payload, "forest", count, target, NULL };
        return start_program(argv);
}

static pid_t start_library(unsigned n, int fd) {
        (void)n, (void)fd;
        const char *const argv[] = { bench.self, "--death-stand", count, target, NULL };
        return start_program(argv);
}

int death_stand(int argc, char *argv[]) {
        cgtree_owner *owner;
        cgtree_command *command;
        cgtree_tree *tree;
        int fd = argc == 3 ? atoi(argv[2]) : -1;
        if (fd < 0 || argc != 3)
                return 2;
        const char *const forest[] = { bench.payload, "forest", argv[1], argv[2], NULL };
        if (cgtree_owner_new(&owner) < 0 ||
                cgtree_owner_set_placement(owner, CGTREE_PLACEMENT_SUBTREE, CGTREE_GUARANTEE_WHOLE) < 0 ||
                cgtree_owner_open(owner, CGTREE_FOREVER) < 0 || cgtree_command_new(&command, forest) < 0 ||
                cgtree_command_set_fd(command, fd, fd) < 0 || cgtree_spawn(owner, command, &tree) < 0)
                return 1;
        (void)close(fd);
        for (;;)
                (void)pause();
}

/* Its janitor is a guard as one would write it in ten lines. */
static pid_t start_floor(unsigned n, int fd) {
        (void)n;
        pid_t pid = fork();
        if (pid != 0)
                return pid;
        const char *const argv[] = { bench.payload, "forest", count, target, NULL };
        struct floor floor;
        struct floor_tree tree;
        if (floor_open(&floor) < 0 || floor_spawn(&floor, argv, &tree) < 0)
                _exit(1);
        (void)close(fd);
        for (;;)
                (void)pause();
}

/* All that is left of it came to us: we are its subreaper. */
static void reap_all(void) {
        while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
                ;
}

/* -errno: the contender is not to be had. */
static int measure(start_fn start, unsigned n, double *ret_msec) {
        int alive[2];
        if (pipe(alive) < 0)
                return -errno;
        (void)fcntl(alive[0], F_SETFD, FD_CLOEXEC);
        (void)snprintf(count, sizeof(count), "%u", n);
        (void)snprintf(target, sizeof(target), "%d", alive[1]);
        pid_t pid = start(n, alive[1]);
        (void)close(alive[1]);
        int r = pid < 0 ? -ENOENT : wait_ready(alive[0]);
        if (r >= 0) {
                char byte;
                (void)usleep(2000);
                uint64_t begin = now_nsec();
                (void)kill(pid, SIGKILL);
                if (read(alive[0], &byte, 1) != 0)
                        die("a tree writes more than it should");
                *ret_msec = (double)(now_nsec() - begin) / 1e6;
        }
        (void)close(alive[0]);
        reap_all();
        return r;
}

void part_owner_death(void) {
        static const struct {
                const char *name;
                start_fn start;
        } contenders[] = {
                { "floor", start_floor },
                { "bwrap, a pid namespace", start_bwrap },
                { "library", start_library },
                { "cgtree run", start_run },
        };
        static const unsigned sizes[] = { 1, 100 };
        struct table *table = table_new("D", "owner killed, until its tree is empty", "ms");
        (void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
        for (size_t size = 0; size < 2; size++) {
                struct row *rows[4];
                bool usable[4];
                double msec;
                for (size_t i = 0; i < 4; i++) {
                        rows[i] = table_row(table, "%u: %s", sizes[size], contenders[i].name);
                        usable[i] = measure(contenders[i].start, sizes[size], &msec) >= 0;
                }
                unsigned rounds = repeats(ROUNDS, 5);
                for (unsigned round = 0; round < rounds; round++)
                        for (size_t i = 0; i < 4; i++)
                                if (usable[i] && measure(contenders[i].start, sizes[size], &msec) >= 0)
                                        row_add(rows[i], msec);
                char what[96];
                double library = row_median(rows[2]), run = row_median(rows[3]), worst = run > library ? run : library;
                (void)snprintf(what, sizeof(what), "%u: the slower of ours / floor", sizes[size]);
                table_expect(table, what, worst / row_median(rows[0]), false, 2);
                (void)snprintf(what, sizeof(what), "%u: the slower of ours / bwrap", sizes[size]);
                table_expect(table, what, worst / row_median(rows[1]), false, 1.5);
        }
        (void)prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);
        table_print(table);
}
