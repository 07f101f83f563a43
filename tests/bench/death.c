/* SPDX-License-Identifier: MIT */

/* (D) The owner of a tree gets SIGKILL: until the tree is empty. The trees are what ends worst: all in sessions of their own, half of
 * them without an ear for TERM, one stopped, one with an exited main thread (see bench-payload). */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

#define ROUNDS       100
#define WATCH_ROUNDS 20
#define CONTENDERS   4

/* What the tree says when all of it is there. */
struct report {
        pid_t root, headless; /* headless: has no main thread any more; 0: there is none */
};

/* Starts an owner whose tree, of as many processes as `count` says, holds `fd` and reports there. */
typedef pid_t (*start_fn)(int fd);

static char count[16], target[16];

static pid_t start_program(const char *const argv[]) {
        pid_t pid;
        return posix_spawnp(&pid, argv[0], NULL, NULL, (char **)(uintptr_t)argv, environ) == 0 ? pid : -1;
}

static pid_t start_run(int fd) {
        (void)fd;
        const char *const argv[] = { bench.cgtree, "run", "-q", "--timeout=1m", "--backend=subtree", "--",
                bench.payload, "mixed", count, target, NULL };
        return start_program(argv);
}

static pid_t start_bwrap(int fd) {
        (void)fd;
        const char *const argv[] = { "bwrap", "--dev-bind", "/", "/", "--unshare-pid", "--die-with-parent",
                bench.payload, "mixed", count, target, NULL };
        return start_program(argv);
}

static pid_t start_library(int fd) {
        (void)fd;
        const char *const argv[] = { bench.self, "--death-stand", count, target, NULL };
        return start_program(argv);
}

/* By us, or with us. */
static _Noreturn void wait_for_end(void) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        for (;;)
                (void)pause();
}

int death_stand(int argc, char *argv[]) {
        cgtree_owner *owner;
        cgtree_command *command;
        cgtree_tree *tree;
        int fd = argc == 3 ? atoi(argv[2]) : -1;
        if (fd < 0 || argc != 3)
                return 2;
        const char *const forest[] = { bench.payload, "mixed", argv[1], argv[2], NULL };
        if (cgtree_owner_new(&owner) < 0 ||
                cgtree_owner_set_placement(owner, CGTREE_PLACEMENT_SUBTREE, CGTREE_GUARANTEE_WHOLE) < 0 ||
                cgtree_owner_open(owner, CGTREE_FOREVER) < 0 || cgtree_command_new(&command, forest) < 0 ||
                cgtree_command_set_fd(command, fd, fd) < 0 || cgtree_spawn(owner, command, &tree) < 0)
                return 1;
        (void)close(fd);
        wait_for_end();
}

/* As one would write it in ten lines. The signal is for what the cgroup.kill of some kernels passes over. */
static void guard_floor(const struct floor_tree *tree, const struct report *report, int fd) {
        struct pollfd owner = { .fd = (int)syscall(SYS_pidfd_open, getppid(), 0), .events = POLLIN };
        int kill_fd = openat(tree->cgroup, "cgroup.kill", O_WRONLY | O_CLOEXEC);
        if (owner.fd < 0 || kill_fd < 0 || write(fd, report, sizeof(*report)) != sizeof(*report))
                _exit(1);
        (void)close(fd);
        (void)poll(&owner, 1, -1);
        (void)!write(kill_fd, "1", 1);
        if (report->headless)
                (void)kill(report->headless, SIGKILL);
        _exit(0);
}

/* Its janitor tidies up when the guard has gone, which has inherited what the janitor waits for. */
static pid_t start_floor(int fd) {
        pid_t pid = fork();
        if (pid != 0)
                return pid;
        char text[16];
        int own[2];
        const char *const argv[] = { bench.payload, "mixed", count, text, NULL };
        struct floor floor;
        struct floor_tree tree;
        struct report report;
        if (floor_open(&floor) < 0 || pipe(own) < 0)
                _exit(1);
        (void)fcntl(own[0], F_SETFD, FD_CLOEXEC);
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
        (void)snprintf(text, sizeof(text), "%d", own[1]);
        if (floor_spawn(&floor, argv, &tree) < 0 || read(own[0], &report, sizeof(report)) != sizeof(report))
                _exit(1);
        if (fork() == 0)
                guard_floor(&tree, &report, fd);
        (void)close(fd);
        wait_for_end();
}

/* All that is left of it came to us: we are its subreaper. */
static void reap_all(void) {
        while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
                ;
}

/* Of what runs in a pid namespace we do not know the cgroup: until the last process has let go of its pipe. bwrap's inner process may
 * not have asked yet to die with the outer one. */
static int wait_gone(int alive, int events) {
        struct pollfd end = { .fd = alive };
        pid_t inner;
        if (events >= 0)
                floor_wait_empty(events);
        else if (poll(&end, 1, 3000) == 0) {
                note("(D) bwrap did not die with its parent");
                if ((inner = find_child(getpid(), "bwrap")) > 0)
                        (void)kill(inner, SIGKILL);
                return -ETIME;
        }
        return 0;
}

static int open_events(pid_t root) {
        char path[4096];
        int r = floor_find(root, path);
        if (r < 0)
                return r;
        int cgroup = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        int events = openat(cgroup, "cgroup.events", O_RDONLY | O_CLOEXEC);
        (void)close(cgroup);
        return events < 0 ? -errno : events;
}

struct contender {
        const char *name;
        start_fn start;
        bool is_hidden;   /* in a pid namespace */
        bool guard_first; /* its guard gets SIGKILL before it does */
};

/* -errno: the contender is not to be had. */
static int measure(const struct contender *contender, unsigned n, double *ret_msec) {
        int alive[2], events = -1;
        struct report report;
        if (pipe(alive) < 0)
                return -errno;
        (void)fcntl(alive[0], F_SETFD, FD_CLOEXEC);
        (void)snprintf(count, sizeof(count), "%u", n);
        (void)snprintf(target, sizeof(target), "%d", alive[1]);
        pid_t pid = contender->start(alive[1]);
        (void)close(alive[1]);
        int r = pid > 0 && read(alive[0], &report, sizeof(report)) == sizeof(report) ? 0 : -ENOENT;
        if (r >= 0 && !contender->is_hidden)
                r = events = open_events(report.root);
        if (r >= 0 && contender->guard_first) {
                pid_t guard = find_child(pid, "cgtree-guard");
                r = guard > 0 && kill(guard, SIGKILL) >= 0 ? 0 : -ENOENT;
        }
        if (r >= 0) {
                (void)usleep(2000);
                uint64_t begin = now_nsec();
                (void)kill(pid, SIGKILL);
                r = wait_gone(alive[0], events);
                *ret_msec = (double)(now_nsec() - begin) / 1e6;
        } else if (pid > 0)
                (void)kill(pid, SIGKILL);
        if (events >= 0)
                (void)close(events);
        (void)close(alive[0]);
        return r;
}

/* ---- by its guard ---------------------------------------------------------------------------------------------- */

static void expect(struct table *table, struct row *const rows[]) {
        static const char *const names[] = { "library", "cgtree run" };
        char what[96];
        for (size_t i = 0; i < 2; i++) {
                const struct row *row = rows[2 + i];
                (void)snprintf(what, sizeof(what), "%s / floor", names[i]);
                table_expect(table, what, row_median(row) / row_median(rows[0]), false, 2);
                (void)snprintf(what, sizeof(what), "%s / bwrap", names[i]);
                table_expect(table, what, row_median(row) / row_median(rows[1]), false, 1.5);
                (void)snprintf(what, sizeof(what), "%s: the worst, ms", names[i]);
                table_expect(table, what, row_worst(row), false, 100);
        }
}

static void compare_guards(const char *title, unsigned n) {
        static const struct contender contenders[CONTENDERS] = {
                { "floor: pidfd, one write", start_floor, false, false },
                { "bwrap, a pid namespace", start_bwrap, true, false },
                { "library", start_library, false, false },
                { "cgtree run", start_run, false, false },
        };
        struct table *table = table_new("D", title, "ms");
        struct row *rows[CONTENDERS];
        bool usable[CONTENDERS];
        double msec;
        for (size_t i = 0; i < CONTENDERS; i++) {
                rows[i] = table_row(table, "%s", contenders[i].name);
                usable[i] = measure(&contenders[i], n, &msec) != -ENOENT;
                reap_all();
        }
        unsigned rounds = repeats(ROUNDS, 5);
        for (unsigned round = 0; round < rounds; round++)
                for (size_t i = 0; i < CONTENDERS; i++) {
                        const struct contender *contender = &contenders[(i + round) % CONTENDERS];
                        if (!usable[contender - contenders])
                                continue;
                        if (measure(contender, n, &msec) >= 0)
                                row_add(rows[contender - contenders], msec);
                        reap_all();
                }
        table_set_reference(table, rows[0]);
        expect(table, rows);
        table_print(table);
}

/* ---- by watch -------------------------------------------------------------------------------------------------- */

static void measure_watch(void) {
        static const struct contender unguarded = { "", start_run, false, true };
        const char *const argv[] = { bench.cgtree, "watch", "-q", NULL };
        struct table *table =
                table_new("D", "guard killed, owner killed, until watch has emptied its tree of 10", "ms");
        struct row *row = table_row(table, "cgtree watch; 20 ms are left to a guard");
        unsigned rounds = repeats(WATCH_ROUNDS, 5);
        double msec;
        pid_t watch = start_program(argv);
        if (watch < 0)
                die("watch cannot be started");
        wait_quiet(watch);
        (void)measure(&unguarded, 10, &msec);
        for (unsigned round = 0; round < rounds; round++)
                if (measure(&unguarded, 10, &msec) >= 0)
                        row_add(row, msec);
        (void)kill(watch, SIGTERM);
        reap_all();
        table_expect(table, "the worst, ms", row_worst(row), false, 100);
        table_print(table);
}

void part_owner_death(void) {
        (void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
        compare_guards("owner killed, until its tree of 1 is empty", 1);
        compare_guards("owner killed, until its tree of 10 is empty", 10);
        compare_guards("owner killed, until its tree of 100 is empty", 100);
        measure_watch();
        (void)prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);
}
