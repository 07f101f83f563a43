/* SPDX-License-Identifier: MIT */
#pragma once

/* What a manager says of the unit that we are in: whether it is ours to divide, and whether something would be shed by leaving it. */

#include "bus.h"

struct unit {
        /* The answers. */
        char *manager_cgroup; /* what the manager manages lies below it; "": everything */
        char *name;           /* NULL: it knows no unit that we are in */
        char *slice;
        bool delegated;
        char *limit; /* the first property found that binds the unit's cgroup, and is not inherited; NULL: none */

        /* On the way there. */
        struct bus *bus;
        struct bus_call cgroup_call, tasks_call, unit_call, properties_call;
        uint64_t default_tasks;
        bool asked_properties;
};

/* Asks. The unit must not move until unit_done(), which is to come before bus_close(). */
int unit_ask(struct unit *unit, struct bus *bus);
/* After a bus_step(). 1: all is answered. 0: not yet. < 0: it is not understood. */
int unit_step(struct unit *unit);
void unit_done(struct unit *unit);
