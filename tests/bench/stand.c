/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

#define ARGUMENTS_MAX 64

static int64_t nsec_of(const struct timeval *time) {
        return (int64_t)time->tv_sec * 1000000000 + (int64_t)time->tv_usec * 1000;
}

static bool read_whole(int fd, void *buffer, size_t size) {
        for (size_t done = 0; done < size;) {
                ssize_t n = read(fd, (char *)buffer + done, size - done);
                if (n <= 0)
                        return false;
                done += (size_t)n;
        }
        return true;
}

/* ---- in the place ---- */

static int run_program(char *const argv[], struct run_result *ret_result) {
        struct rusage usage;
        pid_t pid;
        int status;
        uint64_t begin = now_nsec();
        posix_spawn_file_actions_t actions;
        (void)posix_spawn_file_actions_init(&actions);
        (void)posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        (void)posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
        (void)posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
        int r = posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ);
        (void)posix_spawn_file_actions_destroy(&actions);
        if (r != 0)
                return -r;
        if (wait4(pid, &status, 0, &usage) < 0)
                return -errno;
        *ret_result = (struct run_result){
                .wall_nsec = (int64_t)(now_nsec() - begin),
                .cpu_nsec = nsec_of(&usage.ru_utime) + nsec_of(&usage.ru_stime),
                .status = status,
        };
        return 0;
}

int program_stand(void) {
        uint32_t size;
        static char text[65536];
        while (read_whole(STDIN_FILENO, &size, sizeof(size))) {
                char *argv[ARGUMENTS_MAX];
                size_t n = 0;
                if (size > sizeof(text) || !read_whole(STDIN_FILENO, text, size))
                        return 1;
                for (char *argument = text; argument < text + size && n < ARGUMENTS_MAX - 1;
                        argument += strlen(argument) + 1)
                        argv[n++] = argument;
                argv[n] = NULL;
                struct run_result result = { 0 };
                if (run_program(argv, &result) < 0)
                        result.status = 127 << 8;
                if (write(STDOUT_FILENO, &result, sizeof(result)) != sizeof(result))
                        return 1;
        }
        return 0;
}

/* ---- outside ---- */

int stand_open(struct stand *stand, const char *const prefix[]) {
        const char *argv[ARGUMENTS_MAX];
        size_t n = 0;
        for (; prefix[n] && n < ARGUMENTS_MAX - 3; n++)
                argv[n] = prefix[n];
        argv[n++] = bench.self;
        argv[n++] = "--stand";
        argv[n] = NULL;

        int to[2], from[2];
        if (pipe2(to, O_CLOEXEC) < 0 || pipe2(from, O_CLOEXEC) < 0)
                return -errno;
        posix_spawn_file_actions_t actions;
        (void)posix_spawn_file_actions_init(&actions);
        (void)posix_spawn_file_actions_adddup2(&actions, to[0], STDIN_FILENO);
        (void)posix_spawn_file_actions_adddup2(&actions, from[1], STDOUT_FILENO);
        int r = posix_spawnp(&stand->pid, argv[0], &actions, NULL, (char **)(uintptr_t)argv, environ);
        (void)posix_spawn_file_actions_destroy(&actions);
        (void)close(to[0]);
        (void)close(from[1]);
        stand->to = to[1];
        stand->from = from[0];
        return -r;
}

int stand_run(struct stand *stand, const char *const argv[], struct run_result *ret_result) {
        char text[65536], *end = text + sizeof(uint32_t);
        for (size_t i = 0; argv[i]; i++) {
                if (end + strlen(argv[i]) + 1 > text + sizeof(text))
                        return -E2BIG;
                end = stpcpy(end, argv[i]) + 1;
        }
        uint32_t size = (uint32_t)(end - text - (ptrdiff_t)sizeof(uint32_t));
        memcpy(text, &size, sizeof(size));
        if (write(stand->to, text, (size_t)(end - text)) != end - text ||
                !read_whole(stand->from, ret_result, sizeof(*ret_result)))
                return -EPIPE;
        return 0;
}

void stand_close(struct stand *stand) {
        (void)close(stand->to);
        (void)close(stand->from);
        (void)waitpid(stand->pid, NULL, 0);
}
