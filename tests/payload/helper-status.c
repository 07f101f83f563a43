/* Helpers that exit with statuses that are not the command's: a child that the root waits for (96), an orphan that
 * whoever adopts it reaps (97), and one that answers TERM with 98 after the root has gone. */
#include "payload.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void on_term(int number) {
        (void)number;
        _exit(98);
}

static void orphan(void) {
        struct payload_step gone;
        char byte;
        pid_t middle;

        payload_step_make(&gone);
        middle = payload_fork();
        if (middle == 0) {
                if (payload_fork() > 0)
                        _exit(0);
                _exit(97);
        }
        close(gone.fd[1]);
        if (waitpid(middle, NULL, 0) != middle)
                payload_fail("waitpid");
        if (read(gone.fd[0], &byte, 1) != 0) /* its last holder has exited */
                payload_fail("read");
        close(gone.fd[0]);
}

int main(int argc, char **argv) {
        struct payload_step told;
        struct payload p;
        pid_t child;
        int status;

        payload_begin(&p, argc, argv);
        payload_member("root");
        child = payload_fork();
        if (child == 0)
                _exit(96);
        if (waitpid(child, &status, 0) != child)
                payload_fail("waitpid");
        orphan();
        payload_step_make(&told);
        if (payload_fork() == 0) {
                signal(SIGTERM, on_term);
                payload_member("helper");
                payload_step_done(&told);
                payload_wait();
        }
        payload_step_wait(&told);
        payload_proof("helper-status=%d orphan=97 later=98", WEXITSTATUS(status));
        payload_finish(&p);
}
