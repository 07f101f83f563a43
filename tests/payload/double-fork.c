/* A classic daemon: fork, setsid, fork, chdir /, stdio to /dev/null.  Nothing of its parentage leads to the root. */
#include "payload.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

static void silence_stdio(void) {
        int fd = open("/dev/null", O_RDWR);

        if (fd < 0)
                payload_fail("/dev/null");
        for (int i = 0; i < 3; i++)
                dup2(fd, i);
        if (fd > 2)
                close(fd);
}

int main(int argc, char **argv) {
        struct payload_step orphaned, told;
        struct payload p;
        pid_t middle, root = getpid(), root_session = getsid(0);

        payload_begin(&p, argc, argv);
        payload_member("root");
        payload_step_make(&orphaned);
        payload_step_make(&told);
        middle = payload_fork();
        if (middle == 0) {
                if (setsid() < 0)
                        payload_fail("setsid");
                if (payload_fork() > 0)
                        _exit(0);
                if (chdir("/") < 0)
                        payload_fail("chdir");
                silence_stdio();
                payload_step_wait(&orphaned);
                payload_member("daemon");
                if (getppid() == root || getsid(0) == root_session)
                        payload_cannot("leave its parent and session");
                payload_proof("orphaned ppid=%d root=%d sid=%d before=%d", getppid(), root, getsid(0), root_session);
                payload_step_done(&told);
                payload_wait();
        }
        if (waitpid(middle, NULL, 0) != middle)
                payload_fail("waitpid");
        payload_step_done(&orphaned);
        payload_step_wait(&told);
        payload_finish(&p);
}
