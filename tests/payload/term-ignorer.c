/* A process that ignores TERM, HUP, INT and QUIT: a child below an obedient root, or (--as-root) the root itself. */
#include "payload.h"

#include <signal.h>
#include <unistd.h>

static void ignore_and_prove(void) {
        static const int signals[] = { SIGTERM, SIGHUP, SIGINT, SIGQUIT };

        for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
                signal(signals[i], SIG_IGN);
                kill(getpid(), signals[i]);
        }
        payload_proof("survived-term pid=%d", getpid());
}

int main(int argc, char **argv) {
        struct payload_step told;
        struct payload p;

        payload_begin(&p, argc, argv);
        payload_member("root");
        if (p.as_root) {
                ignore_and_prove();
                payload_finish(&p);
        }
        payload_step_make(&told);
        if (payload_fork() == 0) {
                payload_member("ignorer");
                ignore_and_prove();
                payload_step_done(&told);
                payload_wait();
        }
        payload_step_wait(&told);
        payload_finish(&p);
}
