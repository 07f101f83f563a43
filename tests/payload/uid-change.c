/* A child that becomes another user, one that an unprivileged tool may not signal. */
#include "payload.h"

#include <grp.h>
#include <unistd.h>

#define OTHER_UID 65534

int main(int argc, char **argv) {
        struct payload_step told;
        struct payload p;

        payload_begin(&p, argc, argv);
        payload_member("root");
        if (geteuid() != 0)
                payload_cannot("change its user without being root");
        payload_step_make(&told);
        if (payload_fork() == 0) {
                if (setgroups(0, NULL) < 0 || setresgid(OTHER_UID, OTHER_UID, OTHER_UID) < 0 ||
                        setresuid(OTHER_UID, OTHER_UID, OTHER_UID) < 0)
                        payload_fail("setresuid");
                payload_member("other-user");
                payload_proof("uid=%u", getuid());
                payload_step_done(&told);
                payload_wait();
        }
        payload_step_wait(&told);
        payload_finish(&p);
}
