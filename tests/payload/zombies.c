/* Children that have exited and are never waited for: they have pids, and are not alive. */
#include "payload.h"

#include <sys/wait.h>
#include <unistd.h>

#define ZOMBIES 3

int main(int argc, char **argv) {
        struct payload p;
        int seen = 0;

        payload_begin(&p, argc, argv);
        payload_member("root");
        for (int i = 0; i < ZOMBIES; i++) {
                siginfo_t info;
                pid_t child = payload_fork();

                if (child == 0)
                        _exit(i + 1);
                if (waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT) < 0)
                        payload_fail("waitid");
                payload_member_other("zombie", child);
                seen += payload_state_of(child) == 'Z';
        }
        payload_proof("zombies=%d", seen);
        payload_finish(&p);
}
