/* A child that has stopped itself: a TERM stays pending until somebody sends CONT. */
#include "payload.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
        struct payload p;
        siginfo_t info;
        pid_t child;

        payload_begin(&p, argc, argv);
        payload_member("root");
        child = payload_fork();
        if (child == 0) {
                raise(SIGSTOP);
                payload_wait();
        }
        if (waitid(P_PID, (id_t)child, &info, WSTOPPED | WEXITED | WNOWAIT) < 0)
                payload_fail("waitid");
        payload_member_other("stopped", child);
        if (payload_state_of(child) != 'T')
                payload_cannot("stop a child");
        payload_proof("stopped pid=%d state=%c", child, payload_state_of(child));
        payload_finish(&p);
}
