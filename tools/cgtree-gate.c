/* SPDX-License-Identifier: MIT */

/* A root to be: waits at its gate for GO, joins its cgroup, and becomes the command. Started by gate.c with all signals
 * blocked. No stdio: it is to be small, and to have nothing to flush. */

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "gate-plan.h"

static const char usage[] = "cgtree-gate: a part of cgtree; not to be run by hand\n";

static int join(int cgroup_fd) {
        return cgroup_fd < 0 ? 0 : write_file_at(cgroup_fd, "cgroup.procs", "0");
}

/* Nobody to report to: the owner sees the end of file. */
static int report(struct gate_plan *plan, int step, int error) {
        struct gate_message message = { .type = GATE_FAILED, .step = step, .error = error };

        gate_message_send(plan->socket, &message, -1, 0);
        gate_plan_done(plan);
        return 125;
}

int main(int argc, char *argv[]) {
        struct gate_plan plan;
        struct gate_message message;
        struct child_result result = { 0 };
        int r, settled;

        if (argc < 1 || gate_plan_decode(argv, environ, &plan) < 0)
                return write(STDERR_FILENO, usage, strlen(usage)) < 0 ? 1 : 2;
        settled = gate_plan_settle(&plan);
        r = gate_message_receive(plan.socket, &message, NULL, 0);
        if (r == -ECONNRESET) { /* given up before it began */
                gate_plan_done(&plan);
                return 0;
        }
        if (r < 0 || message.type != GATE_GO)
                return report(&plan, CHILD_JOIN, r < 0 ? -r : EBADMSG);
        /* Told now only: a stub that ended by itself before GO could not be pinned by its pid. */
        if (settled < 0)
                return report(&plan, CHILD_FDS, -settled);
        r = join(plan.cgroup_fd);
        if (r < 0)
                return report(&plan, CHILD_JOIN, -r);
        close_fd(&plan.cgroup_fd);
        child_run(&plan.child, &result);
        return report(&plan, result.step, result.error);
}
