/* Takes all permissions from the directory of its own cgroup: an unprivileged owner can then neither list nor remove it. */
#include "payload.h"

#include <sys/stat.h>
#include <unistd.h>

int main(int argc, char **argv) {
        struct payload_step told;
        char directory[4096];
        struct payload p;
        struct stat now;

        payload_begin(&p, argc, argv);
        payload_member("root");
        payload_step_make(&told);
        if (payload_fork() == 0) {
                payload_member("child");
                payload_step_done(&told);
                payload_wait();
        }
        payload_step_wait(&told);
        payload_cgroup_directory(directory, sizeof(directory), NULL);
        if (chmod(directory, 0) < 0)
                payload_cannot("chmod its own cgroup");
        payload_say("chmod %s", directory);
        if (stat(directory, &now) < 0)
                payload_fail(directory);
        payload_proof("mode=%o cgroup=%s", (unsigned)(now.st_mode & 07777), directory);
        payload_finish(&p);
}
