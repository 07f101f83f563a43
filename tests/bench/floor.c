/* SPDX-License-Identifier: MIT */

/* Written as one would without a library, and with nothing of it: what it costs is the kernel's. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

#ifndef CLONE_PIDFD
#define CLONE_PIDFD 0x00001000
#endif
#ifndef CLONE_CLEAR_SIGHAND
#define CLONE_CLEAR_SIGHAND 0x100000000ULL
#endif
#ifndef CLONE_INTO_CGROUP
#define CLONE_INTO_CGROUP 0x200000000ULL
#endif

int floor_find(pid_t pid, char path[4096]) {
        char line[4096], point[4096] = "", own[4096] = "", name[64];
        FILE *file = fopen("/proc/self/mountinfo", "re");
        while (file && fgets(line, sizeof(line), file))
                if (strstr(line, " - cgroup2 "))
                        (void)sscanf(line, "%*s %*s %*s %*s %4095s", point);
        if (file)
                (void)fclose(file);
        (void)snprintf(name, sizeof(name), "/proc/%d/cgroup", (int)pid);
        file = fopen(name, "re");
        while (file && fgets(line, sizeof(line), file))
                if (strncmp(line, "0::", 3) == 0)
                        (void)sscanf(line, "0::%4095[^\n]", own);
        if (file)
                (void)fclose(file);
        if (!*point || !*own || strlen(point) + strlen(own) >= 4096)
                return -ENOENT;
        (void)stpcpy(stpcpy(path, point), own);
        return 0;
}

/* Nothing is left behind, also when we are killed: this child sees our end by that of a pipe. */
static void start_janitor(struct floor *floor, int own) {
        int alive[2];
        if (pipe2(alive, O_CLOEXEC) < 0)
                die("pipe: %m");
        floor->janitor = fork();
        if (floor->janitor != 0) {
                (void)close(alive[0]);
                floor->alive = alive[1];
                return;
        }
        (void)setsid();
        for (int fd = STDERR_FILENO + 1; fd < 1024; fd++)
                if (fd != alive[0] && fd != own && fd != floor->base)
                        (void)close(fd);
        char byte;
        (void)!read(alive[0], &byte, 1);
        int fd = openat(floor->base, "cgroup.kill", O_WRONLY | O_CLOEXEC);
        (void)!write(fd, "1", 1);
        for (unsigned i = 0; i < 20000 && unlinkat(own, floor->name, AT_REMOVEDIR) < 0 && errno == EBUSY; i++) {
                DIR *dir = fdopendir(openat(floor->base, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
                for (struct dirent *entry; dir && (entry = readdir(dir));)
                        if (entry->d_type == DT_DIR && entry->d_name[0] != '.')
                                (void)unlinkat(floor->base, entry->d_name, AT_REMOVEDIR);
                (void)closedir(dir);
                (void)usleep(1000);
        }
        _exit(0);
}

int floor_open(struct floor *floor) {
        char path[4096];
        int r = floor_find(getpid(), path);
        if (r < 0)
                return r;
        int own = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (own < 0)
                return -errno;
        (void)snprintf(floor->name, sizeof(floor->name), "bench-%d", (int)getpid());
        r = mkdirat(own, floor->name, 0755) < 0 ? -errno : 0;
        floor->base = r < 0 ? -1 : openat(own, floor->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (r >= 0)
                start_janitor(floor, own);
        (void)close(own);
        return r;
}

void floor_close(struct floor *floor) {
        (void)close(floor->alive);
        (void)close(floor->base);
        (void)waitpid(floor->janitor, NULL, 0);
}

#ifdef __x86_64__

struct clone_arguments {
        uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size,
                cgroup;
};

struct birth {
        uint32_t word;
        const char *const *argv;
        sigset_t mask;
};

static void child(struct birth *birth) {
        (void)syscall(SYS_rt_sigprocmask, SIG_SETMASK, &birth->mask, NULL, 8);
        (void)syscall(SYS_execve, birth->argv[0], birth->argv, environ);
        (void)syscall(SYS_exit_group, 127);
}

/* The child returns from the system call on its own stack, on which there is nothing to return to. */
static long clone_into(struct clone_arguments *arguments, struct birth *birth) {
        register long result __asm__("rax") = SYS_clone3;
        register void *function __asm__("r12") = (void *)(uintptr_t)child;
        register void *argument __asm__("r13") = birth;
        __asm__ volatile("syscall\n\t"
                         "test %%rax, %%rax\n\t"
                         "jnz 1f\n\t"
                         "xor %%ebp, %%ebp\n\t"
                         "mov %%r13, %%rdi\n\t"
                         "call *%%r12\n\t"
                         "1:"
                         : "+r"(result)
                         : "D"(arguments), "S"(sizeof(*arguments)), "r"(function), "r"(argument)
                         : "rcx", "r11", "memory");
        return result;
}

int floor_spawn(struct floor *floor, const char *const argv[], struct floor_tree *ret_tree) {
        static unsigned number;
        static __thread char *stack;
        struct floor_tree tree = { .events = -1 };
        if (!stack)
                stack = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
        (void)snprintf(tree.name, sizeof(tree.name), "%u", __atomic_add_fetch(&number, 1, __ATOMIC_RELAXED));
        if (mkdirat(floor->base, tree.name, 0755) < 0)
                return -errno;
        tree.cgroup = openat(floor->base, tree.name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct birth *birth = (void *)(stack + 65536 - 1024);
        *birth = (struct birth){ .word = 1, .argv = argv };
        struct clone_arguments arguments = {
                .flags = CLONE_VM | CLONE_PIDFD | CLONE_CHILD_CLEARTID | CLONE_CLEAR_SIGHAND | CLONE_INTO_CGROUP,
                .pidfd = (uintptr_t)&tree.pidfd,
                .child_tid = (uintptr_t)&birth->word,
                .exit_signal = SIGCHLD,
                .stack = (uintptr_t)stack,
                .stack_size = 65536 - 1024,
                .cgroup = (uint64_t)tree.cgroup,
        };
        sigset_t all;
        sigfillset(&all);
        (void)pthread_sigmask(SIG_SETMASK, &all, &birth->mask);
        sigset_t mask = birth->mask;
        long pid = clone_into(&arguments, birth);
        (void)pthread_sigmask(SIG_SETMASK, &mask, NULL);
        while (pid > 0 && __atomic_load_n(&birth->word, __ATOMIC_ACQUIRE))
                (void)syscall(SYS_futex, &birth->word, FUTEX_WAIT, 1, NULL, NULL, 0);
        if (pid < 0) {
                (void)close(tree.cgroup);
                (void)unlinkat(floor->base, tree.name, AT_REMOVEDIR);
                return (int)pid;
        }
        tree.pid = (pid_t)pid;
        *ret_tree = tree;
        return 0;
}

#else

int floor_spawn(struct floor *floor, const char *const argv[], struct floor_tree *ret_tree) {
        (void)floor, (void)argv, (void)ret_tree;
        return -ENOSYS;
}

#endif

static bool is_populated(int events) {
        char text[256];
        ssize_t n = pread(events, text, sizeof(text) - 1, 0);
        text[n < 0 ? 0 : n] = '\0';
        return strstr(text, "populated 1");
}

/* The notification alone may be 18 ms late; so it is read again, too. */
void floor_wait_empty(int events) {
        long pause = 50000;
        while (is_populated(events)) {
                struct pollfd source = { .fd = events, .events = POLLPRI };
                struct timespec timeout = { .tv_nsec = pause };
                (void)ppoll(&source, 1, &timeout, NULL);
                pause = pause < 2000000 ? pause + pause / 2 : pause;
        }
}

static int finish(struct floor *floor, struct floor_tree *tree, bool wait_first) {
        int status = 0;
        if (wait_first && waitpid(tree->pid, &status, 0) < 0)
                return -errno;
        tree->events = openat(tree->cgroup, "cgroup.events", O_RDONLY | O_CLOEXEC);
        floor_wait_empty(tree->events);
        if (!wait_first && waitpid(tree->pid, &status, 0) < 0)
                return -errno;
        (void)close(tree->events);
        (void)close(tree->pidfd);
        (void)close(tree->cgroup);
        while (unlinkat(floor->base, tree->name, AT_REMOVEDIR) < 0 && errno == EBUSY)
                (void)usleep(50);
        return status;
}

int floor_settle(struct floor *floor, struct floor_tree *tree) {
        return finish(floor, tree, true);
}

int floor_kill(struct floor *floor, struct floor_tree *tree) {
        int fd = openat(tree->cgroup, "cgroup.kill", O_WRONLY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        if (write(fd, "1", 1) < 0)
                die("cgroup.kill: %m");
        (void)close(fd);
        return finish(floor, tree, false);
}
