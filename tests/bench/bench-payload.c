/* SPDX-License-Identifier: MIT */

/* What the benchmark runs: without arguments, nothing, quickly. `forest N FD`: N processes, each with a session of its own,
 * that wait to be killed; a byte into FD when all are there. `mixed N FD`: of 10 or more, half ignore TERM, one is stopped, and
 * of one the main thread has exited; into FD the pids of the first and of that one. */

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void wait_for_end(void) {
        for (;;)
                pause();
}

static int alive[2];

static void say_alive(void) {
        if (write(alive[1], "+", 1) != 1)
                _exit(1);
}

static void *outlive(void *main_thread) {
        (void)pthread_join((pthread_t)(uintptr_t)main_thread, NULL);
        say_alive();
        wait_for_end();
        return NULL;
}

enum nature { PLAIN, IGNORES_TERM, STOPPED, HEADLESS };

static void live(enum nature nature) {
        pthread_t thread;
        (void)setsid();
        if (nature == IGNORES_TERM)
                (void)signal(SIGTERM, SIG_IGN);
        if (nature == HEADLESS) {
                if (pthread_create(&thread, NULL, outlive, (void *)(uintptr_t)pthread_self()) != 0)
                        _exit(1);
                pthread_exit(NULL);
        }
        say_alive();
        if (nature == STOPPED)
                (void)raise(SIGSTOP);
        wait_for_end();
}

static enum nature nature_of(int number) {
        static const enum nature special[] = { STOPPED, HEADLESS };
        if (number == 2 || number == 4)
                return special[number / 2 - 1];
        return number % 2 ? IGNORES_TERM : PLAIN;
}

int main(int argc, char *argv[]) {
        if (argc != 4)
                return 0;
        int n = atoi(argv[2]), fd = atoi(argv[3]);
        bool is_mixed = strcmp(argv[1], "mixed") == 0;
        pid_t report[2] = { getpid(), 0 };
        if (pipe(alive) < 0)
                return 1;
        (void)setsid();
        for (int i = 1; i < n; i++) {
                pid_t pid = fork();
                if (pid < 0)
                        return 1;
                enum nature nature = is_mixed && n >= 10 ? nature_of(i) : PLAIN;
                if (pid == 0)
                        live(nature);
                if (nature == HEADLESS)
                        report[1] = pid;
                if (nature == STOPPED && waitpid(pid, NULL, WUNTRACED) < 0)
                        return 1;
        }
        char bytes[4096];
        for (int left = n - 1; left > 0;) {
                ssize_t got = read(alive[0], bytes, left < (int)sizeof(bytes) ? (size_t)left : sizeof(bytes));
                if (got <= 0)
                        return 1;
                left -= (int)got;
        }
        size_t size = is_mixed ? sizeof(report) : 1;
        if (write(fd, report, size) != (ssize_t)size)
                return 1;
        wait_for_end();
}
