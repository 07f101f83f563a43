/* A child that has thrown away its environment, and any mark in it, by an exec; in a session of its own, where the mark
 * would have been all that is left. */
#include "payload.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static void live_cleared(struct payload *p) {
        struct payload_step told = { .fd = { -1, p->step_fd } };
        int fd = open("/proc/self/environ", O_RDONLY | O_CLOEXEC);
        char byte;

        if (fd < 0 || read(fd, &byte, 1) != 0)
                payload_cannot("clear its environment");
        close(fd);
        payload_member("nameless");
        payload_proof("environ-empty sid=%d", getsid(0));
        payload_step_done(&told);
        payload_wait();
}

static void clear_and_exec(struct payload *p, struct payload_step *told) {
        char report[1100], step[32];
        char *argv[] = { (char *)p->name, step, p->report ? report : NULL, NULL };
        char *empty[] = { NULL };

        if (setsid() < 0)
                payload_fail("setsid");
        snprintf(step, sizeof(step), "--step-fd=%d", told->fd[1]);
        snprintf(report, sizeof(report), "--report=%s", p->report ? p->report : "");
        if (fcntl(told->fd[1], F_SETFD, 0) < 0)
                payload_fail("fcntl");
        execve("/proc/self/exe", argv, empty);
        payload_fail("execve");
}

int main(int argc, char **argv) {
        struct payload_step told;
        struct payload p;

        payload_begin(&p, argc, argv);
        if (p.step_fd >= 0)
                live_cleared(&p);
        payload_member("root");
        payload_step_make(&told);
        if (payload_fork() == 0)
                clear_and_exec(&p, &told);
        payload_step_wait(&told);
        payload_finish(&p);
}
