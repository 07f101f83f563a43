/* SPDX-License-Identifier: MIT */
#pragma once

/* What a machine gives and what it lacks, found by looking and by trying: cgtree_examine(). */

#include "owner.h"

struct doctor {
        cgtree_examine_fn fn;
        void *userdata;
        enum cgtree_finding worst;
        cgtree_owner *owner; /* opened with AUTO; NULL: it could not be */
};

/* One finding. `advice`: lines, or NULL. */
void doctor_say(struct doctor *doctor, const char *topic, enum cgtree_finding finding, const char *advice,
        const char *template, ...) __attribute__((format(printf, 5, 6)));

void doctor_look_at_cgroups(struct doctor *doctor);
void doctor_look_at_managers(struct doctor *doctor);
/* What it can do, and which of its bugs concern us: tried in cgroups of the owner, whose guard removes them if we are killed. */
void doctor_look_at_kernel(struct doctor *doctor);

/* What somebody would have to do for trees to have cgroups here; lines, malloc'd. NULL: nothing is known. */
char *doctor_advise(void);
