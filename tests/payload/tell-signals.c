/* Reports every signal that it gets, and who sent it; ends by KILL, or by TERM with --end=trap:N. */
#include "payload.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

static struct payload p;

static void on_signal(int number, siginfo_t *info, void *context) {
        (void)context;
        payload_say("signal %d code=%d from=%d", number, info->si_code, info->si_pid);
        if (number == SIGTERM && p.end == PAYLOAD_END_TRAP)
                _exit(p.status);
}

int main(int argc, char **argv) {
        static const int signals[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH, SIGCONT };
        struct sigaction action = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART };

        payload_begin(&p, argc, argv);
        payload_member("root");
        for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
                if (sigaction(signals[i], &action, NULL) < 0)
                        payload_fail("sigaction");
        payload_proof("tells-signals pid=%d", getpid());
        payload_say("ready");
        if (p.end == PAYLOAD_END_EXIT)
                return p.status;
        payload_wait();
}
