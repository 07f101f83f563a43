/* Makes a threaded cgroup below its own and puts a child with two threads there: its cgroup.procs cannot be read and
 * its cgroup.kill says EOPNOTSUPP. */
#include "payload.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static void *second_thread(void *unused) {
        (void)unused;
        payload_wait();
}

static void require(int r, const char *what) {
        errno = -r;
        if (r == -EACCES || r == -EPERM || r == -EROFS || r == -EOPNOTSUPP)
                payload_cannot(what);
        if (r < 0)
                payload_fail(what);
}

static void prove(const char *directory) {
        char path[4200], byte;
        int fd;

        snprintf(path, sizeof(path), "%s/cgroup.procs", directory);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || read(fd, &byte, 1) >= 0 || errno != EOPNOTSUPP)
                payload_cannot("make a cgroup.procs unreadable");
        close(fd);
        payload_proof("threaded cgroup.procs=EOPNOTSUPP cgroup=%s", directory);
}

int main(int argc, char **argv) {
        struct payload_step told;
        char directory[4096];
        struct payload p;

        payload_begin(&p, argc, argv);
        payload_member("root");
        payload_cgroup_make(directory, sizeof(directory), "payload-threaded");
        require(payload_cgroup_write(directory, "cgroup.type", "threaded"), "make a cgroup threaded");
        payload_step_make(&told);
        if (payload_fork() == 0) {
                pthread_t thread;

                require(payload_cgroup_write(directory, "cgroup.procs", "0"), "enter a threaded cgroup");
                if (pthread_create(&thread, NULL, second_thread, NULL) != 0)
                        payload_cannot("start a thread");
                payload_member("threaded");
                prove(directory);
                payload_step_done(&told);
                payload_wait();
        }
        payload_step_wait(&told);
        payload_finish(&p);
}
