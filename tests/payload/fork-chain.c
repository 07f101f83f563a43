/* Chains of processes that each fork and exit at once, each in a new session: a member lives for some hundred
 * microseconds, so that whoever reads a list and then signals it is always too late. */
#include "payload.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHAINS         3
#define PROOF          60 /* generations seen before the root says ready */
#define SECONDS_LIMIT  12
#define PAUSE_NANOSECS 100000

static long now_seconds(void) {
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return now.tv_sec;
}

static void run_chain(atomic_int *generations, long deadline) {
        /* plain fork: a life bound for each would cost as much as the process itself */
        while (now_seconds() < deadline) {
                pid_t pid = fork();

                if (pid != 0)
                        _exit(pid < 0);
                (void)setsid();
                atomic_fetch_add(generations, 1);
                nanosleep(&(struct timespec){ .tv_nsec = PAUSE_NANOSECS }, NULL);
        }
        _exit(0);
}

int main(int argc, char **argv) {
        long deadline = now_seconds() + SECONDS_LIMIT;
        atomic_int *generations;
        struct payload p;

        payload_begin(&p, argc, argv);
        payload_member("root");
        generations = mmap(NULL, sizeof(*generations), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (generations == MAP_FAILED)
                payload_fail("mmap");
        for (int i = 0; i < CHAINS; i++) {
                pid_t first = fork();

                if (first < 0)
                        payload_fail("fork");
                if (first == 0)
                        run_chain(generations, deadline);
                if (waitpid(first, NULL, 0) != first)
                        payload_fail("waitpid");
        }
        while (atomic_load(generations) < PROOF && now_seconds() < deadline)
                nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
        if (atomic_load(generations) < PROOF)
                payload_cannot("fork fast enough");
        payload_proof("generations=%d chains=%d", atomic_load(generations), CHAINS);
        payload_finish(&p);
}
