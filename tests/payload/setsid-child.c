/* A child in a session of its own: no signal to the root's process group or session reaches it. */
#include "payload.h"

#include <unistd.h>

int main(int argc, char **argv) {
        struct payload_step told;
        struct payload p;

        payload_begin(&p, argc, argv);
        payload_member("root");
        payload_step_make(&told);
        if (payload_fork() == 0) {
                pid_t before = getsid(0);

                if (setsid() < 0)
                        payload_fail("setsid");
                payload_member("escapee");
                payload_proof("new-session sid=%d before=%d", getsid(0), before);
                payload_step_done(&told);
                payload_wait();
        }
        payload_step_wait(&told);
        payload_finish(&p);
}
