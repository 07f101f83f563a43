/* SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

int posix_cycle(const char *const argv[]) {
        pid_t pid;
        int status;
        posix_spawn_file_actions_t actions;
        (void)posix_spawn_file_actions_init(&actions);
        (void)posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        int r = posix_spawn(&pid, argv[0], &actions, NULL, (char **)(uintptr_t)argv, environ);
        (void)posix_spawn_file_actions_destroy(&actions);
        if (r != 0)
                return -r;
        return waitpid(pid, &status, 0) < 0 ? -errno : status;
}

int wait_ready(int fd) {
        char byte;
        ssize_t n;
        do
                n = read(fd, &byte, 1);
        while (n < 0 && errno == EINTR);
        return n == 1 ? 0 : -EPIPE;
}

int read_memory(pid_t pid, double *ret_dirty, double *ret_pss) {
        char path[64], line[256];
        unsigned long size;
        *ret_dirty = *ret_pss = 0;
        (void)snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)pid);
        FILE *file = fopen(path, "re");
        if (!file)
                return -errno;
        while (fgets(line, sizeof(line), file)) {
                if (sscanf(line, "Pss: %lu", &size) == 1)
                        *ret_pss = (double)size;
                if (sscanf(line, "Private_Dirty: %lu", &size) == 1)
                        *ret_dirty = (double)size;
        }
        (void)fclose(file);
        return 0;
}

pid_t find_child(pid_t parent, const char *name) {
        char path[64], comm[32];
        int pid, found = 0;
        (void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)parent, (int)parent);
        FILE *file = fopen(path, "re");
        while (file && !found && fscanf(file, "%d", &pid) == 1) {
                (void)snprintf(path, sizeof(path), "/proc/%d/comm", pid);
                FILE *other = fopen(path, "re");
                if (other && fscanf(other, "%31s", comm) == 1 && strcmp(comm, name) == 0)
                        found = pid;
                if (other)
                        (void)fclose(other);
        }
        if (file)
                (void)fclose(file);
        return found;
}

int read_wakeups(pid_t pid, uint64_t *ret_n) {
        char path[64], line[256];
        (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
        FILE *file = fopen(path, "re");
        if (!file)
                return -errno;
        while (fgets(line, sizeof(line), file))
                (void)sscanf(line, "voluntary_ctxt_switches: %" SCNu64, ret_n);
        (void)fclose(file);
        return 0;
}

void wait_quiet(pid_t pid) {
        uint64_t before, now = 0;
        (void)read_wakeups(pid, &now);
        do {
                before = now;
                (void)usleep(300000);
                (void)read_wakeups(pid, &now);
        } while (now != before);
}
