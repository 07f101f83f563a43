/* SPDX-License-Identifier: MIT */

/* (E) Sweep and watch over many records, of owners that live and of owners that do not. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

#define OWNERS      10000
#define PIDFS_MAGIC 0x50494446

struct origin {
        char boot_id[40];
        uint64_t pid_namespace, cgroup_namespace;
};

struct owner {
        pid_t pid;
        uint64_t start_time, inode;
};

static void read_origin(struct origin *origin) {
        struct stat status;
        FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
        if (!file || fscanf(file, "%39s", origin->boot_id) != 1)
                die("there is no boot id");
        (void)fclose(file);
        origin->pid_namespace = stat("/proc/self/ns/pid", &status) < 0 ? 0 : status.st_ino;
        origin->cgroup_namespace = stat("/proc/self/ns/cgroup", &status) < 0 ? 0 : status.st_ino;
}

static void read_owner(pid_t pid, struct owner *owner) {
        char path[64];
        struct statfs fs;
        struct stat status;
        *owner = (struct owner){ .pid = pid };
        (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
        FILE *file = fopen(path, "re");
        if (file)
                (void)!fscanf(file,
                        "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d "
                        "%" SCNu64,
                        &owner->start_time);
        if (file)
                (void)fclose(file);
        int fd = (int)syscall(SYS_pidfd_open, pid, 0);
        if (fd >= 0 && fstatfs(fd, &fs) >= 0 && (uint64_t)fs.f_type == PIDFS_MAGIC && fstat(fd, &status) >= 0)
                owner->inode = status.st_ino;
        (void)close(fd);
}

static void write_record(int directory, const struct origin *origin, const struct owner *owner, unsigned number) {
        char name[32], text[1024], inode[24] = "null";
        (void)snprintf(name, sizeof(name), "bench00000%06u.json", number);
        if (owner->inode)
                (void)snprintf(inode, sizeof(inode), "%" PRIu64, owner->inode);
        int n = snprintf(text, sizeof(text),
                "{\"version\":1,\"id\":\"%.16s\",\"name\":null,\"lifetime\":\"owner\",\"boot_id\":\"%s\",\"pid_"
                "namespace\":"
                "%" PRIu64 ",\"cgroup_namespace\":%" PRIu64 ",\"owner\":{\"pid\":%d,\"start_time\":%" PRIu64
                ",\"pidfd_inode\":%s,\"comm\":\"bench\"},\"backend\":\"subtree\",\"cgroup\":\"/cgtree-none/trees/"
                "%.16s\","
                "\"cgroup_id\":1,\"unit\":null,\"manager\":null,\"group\":null,\"grace_usec\":1500000,"
                "\"owner_death_grace_usec\":0,\"created_usec\":1,\"command\":\"sleep\"}\n",
                name, origin->boot_id, origin->pid_namespace, origin->cgroup_namespace, (int)owner->pid,
                owner->start_time, inode, name);
        int fd = openat(directory, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (fd < 0 || write(fd, text, (size_t)n) != n)
                die("%s: %m", name);
        (void)close(fd);
}

static char records_path[300];

static int make_records(const struct origin *origin, const struct owner *owners, unsigned n) {
        (void)snprintf(records_path, sizeof(records_path), "%s/many", bench.directory);
        (void)mkdir(records_path, 0700);
        int directory = open(records_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (directory < 0)
                die("%s: %m", records_path);
        for (unsigned i = 0; i < n; i++)
                write_record(directory, origin, &owners[i], i);
        return directory;
}

static void remove_records(int directory, unsigned n) {
        char name[32];
        for (unsigned i = 0; i < n; i++) {
                (void)snprintf(name, sizeof(name), "bench00000%06u.json", i);
                (void)unlinkat(directory, name, 0);
        }
        (void)close(directory);
}

/* ---- sweep ----------------------------------------------------------------------------------------------------- */

static double sweep(struct stand *stand) {
        char option[320];
        (void)snprintf(option, sizeof(option), "--records=%s", records_path);
        const char *const argv[] = { bench.cgtree, "sweep", "-q", option, NULL };
        struct run_result result;
        if (stand_run(stand, argv, &result) < 0 || result.status != 0)
                die("sweep ended with status %d", result.status);
        return (double)result.wall_nsec / 1e6;
}

/* Owners that are not there: a pid that was ours, of another life. */
static struct owner dead_owner(void) {
        struct owner owner;
        pid_t pid = fork();
        if (pid == 0)
                _exit(0);
        read_owner(pid, &owner);
        (void)waitpid(pid, NULL, 0);
        return owner;
}

static void compare_sweeps(const struct origin *origin, const struct owner *living, unsigned n_living) {
        static const unsigned sizes[] = { 1000, OWNERS };
        struct table *table = table_new("E", "cgtree sweep", "ms");
        struct row *rows[2][2] = { 0 };
        struct owner *dead = calloc(OWNERS, sizeof(*dead));
        struct stand stand;
        const char *const none[] = { NULL };
        if (!dead || stand_open(&stand, none) < 0)
                die("out of memory");
        dead[0] = dead_owner();
        for (unsigned i = 1; i < OWNERS; i++)
                dead[i] = dead[0];
        struct row *empty = table_row(table, "no record");
        for (unsigned i = 0; i < 4; i++)
                rows[i / 2][i % 2] =
                        table_row(table, "%u records of %s owners", sizes[i % 2], i / 2 == 0 ? "living" : "dead");
        unsigned rounds = repeats(5, 2);
        for (unsigned round = 0; round < rounds; round++) {
                (void)close(make_records(origin, living, 0));
                row_add(empty, sweep(&stand));
                for (unsigned i = 0; i < 4; i++) {
                        unsigned n = sizes[i % 2];
                        if (i / 2 == 0 && n > n_living)
                                continue;
                        int directory = make_records(origin, i / 2 == 0 ? living : dead, n);
                        row_add(rows[i / 2][i % 2], sweep(&stand));
                        remove_records(directory, n);
                }
        }
        stand_close(&stand);
        free(dead);
        double start = row_median(empty);
        for (unsigned i = 0; i < 2; i++) {
                double small = (row_median(rows[i][0]) - start) / 1000,
                       large = (row_median(rows[i][1]) - start) / OWNERS;
                const char *whose = i == 0 ? "living" : "dead";
                char what[96];
                (void)snprintf(what, sizeof(what), "%s owners: us for each of 10000 records", whose);
                table_expect(table, what, 1000 * large, false, 30);
                (void)snprintf(what, sizeof(what), "%s owners: each of 10000 / each of 1000", whose);
                table_expect(table, what, large / small, false, 1.3);
        }
        table_print(table);
}

/* ---- watch ----------------------------------------------------------------------------------------------------- */

static bool is_there(int directory, unsigned number) {
        char name[32];
        (void)snprintf(name, sizeof(name), "bench00000%06u.json", number);
        return faccessat(directory, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static uint64_t wakeups(pid_t pid) {
        uint64_t n = 0;
        (void)read_wakeups(pid, &n);
        return n;
}

static void measure_watch(const struct origin *origin, const struct owner *owners, unsigned n) {
        int directory = make_records(origin, owners, n);
        char option[320];
        (void)snprintf(option, sizeof(option), "--records=%s", records_path);
        const char *const argv[] = { bench.cgtree, "watch", "-q", option, NULL };
        pid_t pid;
        if (posix_spawnp(&pid, argv[0], NULL, NULL, (char **)(uintptr_t)argv, environ) != 0)
                die("watch cannot be started");
        wait_quiet(pid);
        uint64_t before = wakeups(pid);
        unsigned idle = repeats(5, 3);
        (void)sleep(idle);
        double n_wakeups = (double)(wakeups(pid) - before) * 60 / idle, dirty = 0, pss = 0;
        (void)read_memory(pid, &dirty, &pss);

        struct table *memory = table_new("E", "cgtree watch, 1000 owners: memory", "KiB");
        row_add(table_row(memory, "Pss"), pss);
        row_add(table_row(memory, "private dirty"), dirty);
        table_expect(memory, "Pss, KiB", pss, false, 4096);
        table_expect(memory, "wakeups in a minute, idle", n_wakeups, false, 0);
        table_print(memory);

        struct table *table = table_new("E", "cgtree watch, 1000 owners: an owner killed, until swept", "ms");
        struct row *row = table_row(table, "without a guard; 20 are for the guard");
        unsigned rounds = repeats(20, 5);
        for (unsigned i = 0; i < rounds && i < n; i++) {
                uint64_t begin = now_nsec();
                (void)kill(owners[i].pid, SIGKILL);
                while (is_there(directory, i) && now_nsec() - begin < UINT64_C(5000000000))
                        (void)usleep(200);
                row_add(row, (double)(now_nsec() - begin) / 1e6);
        }
        table_expect(table, "ms until swept", row_median(row), false, 100);
        table_print(table);
        (void)kill(pid, SIGTERM);
        (void)waitpid(pid, NULL, 0);
        remove_records(directory, n);
}

/* ---------------------------------------------------------------------------------------------------------------- */

/* The pids of a forest are in its cgroup. */
static unsigned list_owners(const struct floor_tree *tree, struct owner *owners) {
        unsigned n = 0;
        int fd = openat(tree->cgroup, "cgroup.procs", O_RDONLY | O_CLOEXEC), pid;
        FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
        while (file && n < OWNERS && fscanf(file, "%d", &pid) == 1)
                if (pid != tree->pid)
                        read_owner(pid, &owners[n++]);
        if (file)
                (void)fclose(file);
        return n;
}

static int grow_forest(struct floor *floor, unsigned n, struct floor_tree *ret_tree) {
        char count[16], fd[16];
        int ready[2];
        if (pipe(ready) < 0)
                return -errno;
        (void)snprintf(count, sizeof(count), "%u", n + 1);
        (void)snprintf(fd, sizeof(fd), "%d", ready[1]);
        const char *const argv[] = { bench.payload, "forest", count, fd, NULL };
        int r = floor_spawn(floor, argv, ret_tree);
        (void)close(ready[1]);
        if (r >= 0 && (r = wait_ready(ready[0])) < 0)
                (void)floor_kill(floor, ret_tree);
        (void)close(ready[0]);
        return r;
}

void part_sweep(void) {
        struct origin origin;
        struct floor floor;
        struct floor_tree forest;
        struct owner *owners = calloc(OWNERS, sizeof(*owners));
        if (!owners)
                die("out of memory");
        read_origin(&origin);
        if (floor_open(&floor) < 0) {
                note("(E) no cgroup can be made here, to hold what plays the owners");
                free(owners);
                return;
        }
        unsigned n = bench.scale < 0.5 ? 1000 : OWNERS; /* a quick look is not to bring a machine to its knees */
        while (n >= 1000 && grow_forest(&floor, n, &forest) < 0) {
                note("(E) %u processes are not to be had here", n);
                n /= 10;
        }
        if (n >= 1000) {
                n = list_owners(&forest, owners);
                compare_sweeps(&origin, owners, n);
                measure_watch(&origin, owners, 1000);
                (void)floor_kill(&floor, &forest);
        }
        floor_close(&floor);
        free(owners);
}
