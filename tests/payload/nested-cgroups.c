/* Makes cgroups two deep below its own and puts a child into each.  --mode=frozen: the inner one is frozen, and the
 * child in it has a TERM handler, which cannot run there. */
#include "payload.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void enter(const char *directory) {
        int r = payload_cgroup_write(directory, "cgroup.procs", "0");

        errno = -r;
        if (r == -EACCES || r == -EPERM)
                payload_cannot("enter a cgroup below its own");
        if (r < 0)
                payload_fail(directory);
}

static void on_term(int number) {
        (void)number;
}

static void start_child(const char *role, const char *directory, bool trap) {
        struct payload_step told;

        payload_step_make(&told);
        if (payload_fork() == 0) {
                if (trap)
                        signal(SIGTERM, on_term);
                enter(directory);
                payload_member(role);
                payload_step_done(&told);
                payload_wait();
        }
        payload_step_wait(&told);
}

static bool is_frozen(const char *directory) {
        char path[4200], text[256];
        ssize_t n;
        int fd;

        snprintf(path, sizeof(path), "%s/cgroup.events", directory);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                payload_fail(path);
        n = read(fd, text, sizeof(text) - 1);
        close(fd);
        text[n > 0 ? n : 0] = 0;
        return strstr(text, "frozen 1") != NULL;
}

static void freeze(const char *directory) {
        int r = payload_cgroup_write(directory, "cgroup.freeze", "1");

        errno = -r;
        if (r < 0)
                payload_fail("cgroup.freeze");
        for (int i = 0; i < 2000 && !is_frozen(directory); i++)
                nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
        if (!is_frozen(directory))
                payload_cannot("freeze a cgroup");
        payload_proof("frozen cgroup=%s", directory);
}

int main(int argc, char **argv) {
        char outer[4096], inner[4096];
        struct payload p;

        payload_begin(&p, argc, argv);
        payload_member("root");
        payload_cgroup_make(outer, sizeof(outer), "payload-outer");
        payload_cgroup_make(inner, sizeof(inner), "payload-outer/payload-inner");
        start_child("outer", outer, false);
        start_child("inner", inner, p.mode && strcmp(p.mode, "frozen") == 0);
        payload_proof("nested cgroup=%s", inner);
        if (p.mode && strcmp(p.mode, "frozen") == 0)
                freeze(inner);
        payload_finish(&p);
}
