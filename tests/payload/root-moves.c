/* The root moves itself to the cgroup --into=DIRECTORY, out of its tree. */
#include "payload.h"

#include <errno.h>
#include <unistd.h>

int main(int argc, char **argv) {
        char before[4096], after[4096];
        struct payload p;
        int r;

        payload_begin(&p, argc, argv);
        if (!p.into)
                payload_cannot("move without --into");
        payload_cgroup_directory(before, sizeof(before), NULL);
        r = payload_cgroup_write(p.into, "cgroup.procs", "0");
        errno = -r;
        if (r == -EACCES || r == -EPERM || r == -ENOENT)
                payload_cannot("move to another cgroup");
        if (r < 0)
                payload_fail(p.into);
        payload_member("root");
        payload_cgroup_directory(after, sizeof(after), NULL);
        payload_proof("moved from=%s to=%s", before, after);
        payload_finish(&p);
}
