/* SPDX-License-Identifier: MIT */
#include "sweep.h"

void report_tell(struct report *report, const char *id, const char *decision, const char *reason) {
        if (report->fn)
                report->fn(report->userdata, id, decision, reason);
}

void report_problem(struct report *report, const char *id, const char *decision, const char *reason) {
        report->problem = true;
        report_tell(report, id, decision, reason);
}
