/* SPDX-License-Identifier: MIT */

/* (F) What is resident for each `cgtree run`, while its command runs. */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

static void expect_idle(struct table *table, pid_t guard) {
        uint64_t before, after;
        unsigned idle = repeats(5, 3);
        if (guard == 0 || read_wakeups(guard, &before) < 0)
                return;
        (void)sleep(idle);
        if (read_wakeups(guard, &after) >= 0)
                table_expect(table, "cgtree-guard: wakeups in a minute, idle", (double)(after - before) * 60 / idle,
                        false, 0);
}

void part_memory(void) {
        char fd[16];
        int ready[2];
        pid_t run;
        /* What was built a moment ago and is not written back yet would pass for memory of the program's own. */
        int program = open(bench.cgtree, O_RDONLY | O_CLOEXEC);
        (void)syncfs(program);
        (void)close(program);
        if (pipe(ready) < 0)
                die("pipe: %m");
        (void)snprintf(fd, sizeof(fd), "%d", ready[1]);
        const char *const argv[] = { bench.cgtree, "run", "-q", "--backend=subtree", "--", bench.payload, "forest", "1",
                fd, NULL };
        int r = posix_spawnp(&run, argv[0], NULL, NULL, (char **)(uintptr_t)argv, environ);
        (void)close(ready[1]);
        if (r != 0 || wait_ready(ready[0]) < 0) {
                note("(F) no subtree here");
                return;
        }
        (void)close(ready[0]);
        wait_quiet(run);
        pid_t pids[] = { find_child(run, "cgtree-guard"), run };
        static const char *const names[] = { "cgtree-guard", "cgtree run" };
        static const double limits[] = { 200, 600 };
        struct table *table = table_new("F", "memory while a command runs", "KiB");
        for (size_t i = 0; i < 2; i++) {
                double dirty, pss;
                char what[96];
                if (pids[i] == 0 || read_memory(pids[i], &dirty, &pss) < 0)
                        continue;
                row_add(table_row(table, "%s: private dirty", names[i]), dirty);
                row_add(table_row(table, "%s: Pss", names[i]), pss);
                (void)snprintf(what, sizeof(what), "%s: private dirty, KiB", names[i]);
                table_expect(table, what, dirty, false, limits[i]);
        }
        expect_idle(table, pids[0]);
        table_print(table);
        (void)kill(run, SIGTERM);
        (void)waitpid(run, NULL, 0);
}
