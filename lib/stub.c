/* SPDX-License-Identifier: MIT */
#include "stub.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

/* dup2 of a descriptor to itself: posix_spawn then takes its CLOEXEC off, in the child alone. */
static int pass_fds(posix_spawn_file_actions_t *actions, const int fds[], size_t n_fds) {
        int r = 0;

        for (size_t i = 0; r >= 0 && i < n_fds; i++)
                if (fds[i] >= 0)
                        r = -posix_spawn_file_actions_adddup2(actions, fds[i], fds[i]);
        return r;
}

static int block_all(posix_spawnattr_t *attributes) {
        sigset_t all;
        int r;

        sigfillset(&all);
        r = -posix_spawnattr_setsigmask(attributes, &all);
        return r < 0 ? r : -posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK);
}

static int spawn_by_libc(
        const char *path, char *const argv[], char *const envp[], const int fds[], size_t n_fds, pid_t *ret_pid) {
        posix_spawn_file_actions_t actions;
        posix_spawnattr_t attributes;
        int r = -posix_spawn_file_actions_init(&actions);

        if (r < 0)
                return r;
        r = -posix_spawnattr_init(&attributes);
        if (r >= 0) {
                r = block_all(&attributes);
                if (r >= 0)
                        r = pass_fds(&actions, fds, n_fds);
                if (r >= 0)
                        r = -posix_spawn(ret_pid, path, &actions, &attributes, argv, envp);
                posix_spawnattr_destroy(&attributes);
        }
        posix_spawn_file_actions_destroy(&actions);
        return r;
}

/* What posix_spawn() says of a filter that denies clone3 otherwise than with ENOSYS: libc knows no way on then. */
static bool is_filtered(int error) {
        return error == -EPERM || error == -E2BIG || error == -EACCES || error == -EINVAL;
}

/* vfork() is denied by no filter. The child's table of descriptors is its own. */
static int spawn_by_vfork(
        const char *path, char *const argv[], char *const envp[], const int fds[], size_t n_fds, pid_t *ret_pid) {
        volatile int error = 0;
        sigset_t all, mask;
        pid_t pid;

        sigfillset(&all);
        if (pthread_sigmask(SIG_SETMASK, &all, &mask) != 0)
                return -EINVAL;
        pid = vfork();
        if (pid == 0) {
                for (size_t i = 0; i < n_fds; i++)
                        if (fds[i] >= 0)
                                (void)fcntl(fds[i], F_SETFD, 0);
                execve(path, argv, envp);
                error = errno;
                _exit(127);
        }
        if (pid < 0)
                error = errno;
        (void)pthread_sigmask(SIG_SETMASK, &mask, NULL);
        if (pid > 0 && error != 0)
                (void)waitpid(pid, NULL, 0);
        if (error != 0)
                return -error;
        *ret_pid = pid;
        return 0;
}

int stub_spawn(
        const char *path, char *const argv[], char *const envp[], const int fds[], size_t n_fds, pid_t *ret_pid) {
        int r = spawn_by_libc(path, argv, envp, fds, n_fds, ret_pid);

        return is_filtered(r) ? spawn_by_vfork(path, argv, envp, fds, n_fds, ret_pid) : r;
}
