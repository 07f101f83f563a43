/* A background job that keeps the command's stdout and stderr open: whoever reads them to their end waits for it. */
#include "payload.h"

#include <sys/stat.h>
#include <unistd.h>

int main(int argc, char **argv) {
        struct payload_step told;
        struct stat before;
        struct payload p;

        payload_begin(&p, argc, argv);
        payload_member("root");
        if (fstat(STDOUT_FILENO, &before) < 0)
                payload_cannot("hold a closed stdout");
        payload_step_make(&told);
        if (payload_fork() == 0) {
                struct stat now;

                payload_member("holder");
                if (fstat(STDOUT_FILENO, &now) < 0)
                        payload_fail("fstat");
                payload_proof("holds-stdout same=%d fifo=%d",
                        now.st_ino == before.st_ino && now.st_dev == before.st_dev, S_ISFIFO(now.st_mode) != 0);
                payload_step_done(&told);
                payload_wait();
        }
        payload_step_wait(&told);
        payload_finish(&p);
}
