/* SPDX-License-Identifier: MIT */

/* What the benchmark runs: without arguments, nothing, quickly. `forest N FD`: N processes, each with a session of its own,
 * that wait to be killed; a byte into FD when all are there. */

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

static void wait_for_end(void) {
        for (;;)
                pause();
}

int main(int argc, char *argv[]) {
        if (argc != 4)
                return 0;
        int n = atoi(argv[2]), fd = atoi(argv[3]), alive[2];
        if (pipe(alive) < 0)
                return 1;
        (void)setsid();
        for (int i = 1; i < n; i++) {
                pid_t pid = fork();
                if (pid < 0)
                        return 1;
                if (pid > 0)
                        continue;
                (void)setsid();
                if (write(alive[1], "+", 1) != 1)
                        _exit(1);
                wait_for_end();
        }
        char bytes[4096];
        for (int left = n - 1; left > 0;) {
                ssize_t got = read(alive[0], bytes, left < (int)sizeof(bytes) ? (size_t)left : sizeof(bytes));
                if (got <= 0)
                        return 1;
                left -= (int)got;
        }
        if (write(fd, "+", 1) != 1)
                return 1;
        wait_for_end();
}
