/* Runs a command and ends it with SIGKILL half-way: right after its N-th write to a file of that name, and some system calls
 * more.  Exit status 0: it was ended there.  3: it never came so far, and has ended by itself (its status is told).
 *
 *     halfway FILE[:N] CALLS COMMAND [ARG...] */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ENDED       0
#define FAILED      2
#define NEVER_THERE 3

static const char *wanted;
static long writes_left, calls_left;

static void fail(const char *what) {
        perror(what);
        exit(FAILED);
}

static bool is_wanted(pid_t pid, uint64_t fd) {
        char link[64], path[4096];
        size_t length = strlen(wanted);
        ssize_t n;

        snprintf(link, sizeof(link), "/proc/%d/fd/%llu", pid, (unsigned long long)fd);
        n = readlink(link, path, sizeof(path));
        return n > (ssize_t)length && path[n - (ssize_t)length - 1] == '/' &&
               memcmp(path + n - length, wanted, length) == 0;
}

static bool is_write(uint64_t number) {
        return number == SYS_write || number == SYS_pwrite64 || number == SYS_writev;
}

/* At each stop on the way into and out of a system call; true when it is time. */
static bool look(pid_t pid) {
        struct __ptrace_syscall_info info = { 0 };
        static bool counts;

        if (ptrace(PTRACE_GET_SYSCALL_INFO, pid, (void *)sizeof(info), &info) < 0)
                fail("PTRACE_GET_SYSCALL_INFO");
        if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
                counts = writes_left > 0 && is_write(info.entry.nr) && is_wanted(pid, info.entry.args[0]);
                return false;
        }
        if (info.op != PTRACE_SYSCALL_INFO_EXIT)
                return false;
        if (writes_left > 0) {
                writes_left -= counts;
                return writes_left == 0 && calls_left == 0;
        }
        return --calls_left == 0;
}

static int follow(pid_t pid) {
        int status, signal = 0;

        for (;;) {
                if (ptrace(PTRACE_SYSCALL, pid, NULL, (void *)(intptr_t)signal) < 0 || waitpid(pid, &status, 0) < 0)
                        fail("ptrace");
                if (!WIFSTOPPED(status)) {
                        fprintf(stderr, "never there: wait status 0x%x\n", (unsigned)status);
                        return NEVER_THERE;
                }
                signal = 0;
                if (WSTOPSIG(status) != (SIGTRAP | 0x80))
                        signal = status >> 16 ? 0 : WSTOPSIG(status);
                else if (look(pid))
                        break;
        }
        if (kill(pid, SIGKILL) < 0 || waitpid(pid, &status, 0) < 0)
                fail("kill");
        return ENDED;
}

int main(int argc, char **argv) {
        char *colon;
        int status;
        pid_t pid;

        if (argc < 4)
                return FAILED;
        wanted = argv[1];
        colon = strchr(argv[1], ':');
        writes_left = colon ? atol(colon + 1) : 1;
        if (colon)
                *colon = 0;
        calls_left = atol(argv[2]);
        pid = fork();
        if (pid < 0)
                fail("fork");
        if (pid == 0) {
                if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0 || raise(SIGSTOP) != 0)
                        fail("PTRACE_TRACEME");
                execvp(argv[3], argv + 3);
                fail(argv[3]);
        }
        if (waitpid(pid, &status, 0) < 0 ||
                ptrace(PTRACE_SETOPTIONS, pid, NULL,
                        (void *)(PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL | PTRACE_O_TRACEEXEC)) < 0)
                fail("PTRACE_SETOPTIONS");
        return follow(pid);
}
