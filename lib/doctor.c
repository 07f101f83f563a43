/* SPDX-License-Identifier: MIT */
#include "doctor.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base.h"
#include "cgroup-limits.h"
#include "gate.h"
#include "records.h"

#define OPEN_USEC (5 * USEC_PER_SEC)

void doctor_say(struct doctor *doctor, const char *topic, enum cgtree_finding finding, const char *advice,
        const char *template, ...) {
        _cleanup_free_ char *text = NULL;
        va_list arguments;
        va_start(arguments, template);
        if (vasprintf(&text, template, arguments) < 0)
                text = NULL;
        va_end(arguments);
        if (finding > doctor->worst)
                doctor->worst = finding;
        doctor->fn(doctor->userdata, topic, finding, text ? text : "out of memory", advice);
}

static void look_at_helpers(struct doctor *doctor) {
        static const char *const helpers[] = { "cgtree-guard", "cgtree-gate", "cgtree-reaper" };
        _cleanup_free_ char *path = NULL;
        for (size_t i = 0; i < sizeof(helpers) / sizeof(*helpers); i++) {
                free(path);
                path = NULL;
                int r = gate_find(helpers[i], &path);
                if (r < 0) {
                        doctor_say(doctor, "helpers", CGTREE_FINDING_BROKEN,
                                "set CGTREE_LIBEXEC to the directory in which they are", "%s is not found: %s",
                                helpers[i], strerror(-r));
                        return;
                }
        }
        *strrchr(path, '/') = '\0';
        doctor_say(doctor, "helpers", CGTREE_FINDING_GOOD, NULL, "in %s", path);
}

static bool look_at_records(struct doctor *doctor, const char *records) {
        _cleanup_free_ char *path = NULL;
        int fd = -1;
        int r = records_open(records, &fd, &path);
        close_fd(&fd);
        if (r < 0)
                doctor_say(doctor, "records", CGTREE_FINDING_BROKEN,
                        "set CGTREE_RECORDS to a directory that is yours alone", "%s cannot be used: %s",
                        path ? path : "the directory", records_error(r) ? records_error(r) : strerror(-r));
        else
                doctor_say(doctor, "records", CGTREE_FINDING_GOOD, NULL, "in %s", path);
        return r >= 0;
}

/* ---- the placement ---------------------------------------------------------------------------------------------- */

static int open_owner(struct doctor *doctor, const char *records, char **ret_error) {
        cgtree_owner *owner = NULL;
        int r = cgtree_owner_new(&owner);
        if (r >= 0)
                r = cgtree_owner_set_guard_is_child(owner, true);
        if (r >= 0 && records)
                r = cgtree_owner_set_records(owner, records);
        if (r >= 0)
                r = cgtree_owner_open(owner, OPEN_USEC);
        if (r < 0) {
                const char *words = owner ? cgtree_owner_get_error(owner) : "";
                *ret_error = strdup(*words ? words : strerror(-r));
                cgtree_owner_free(owner);
                return r;
        }
        doctor->owner = owner;
        return 0;
}

static void say_whole(struct doctor *doctor) {
        const cgtree_owner *owner = doctor->owner;
        const char *reason = cgtree_owner_get_reason(doctor->owner, CGTREE_PLACEMENT_SUBTREE);
        if (cgtree_owner_get_placement(doctor->owner) == CGTREE_PLACEMENT_SCOPE)
                doctor_say(doctor, "placement", CGTREE_FINDING_GOOD, NULL,
                        "scope, one for each tree, by the %s manager: every tree is ended whole. No subtree: %s",
                        owner->manager, reason ? reason : "");
        else
                doctor_say(doctor, "placement", CGTREE_FINDING_GOOD, NULL,
                        "subtree, in %s%s: every tree is ended whole",
                        owner->home.scope ? "a scope for this program, " : "", owner->home.base.path);
}

static void look_at_placement(struct doctor *doctor, const char *error) {
        _cleanup_free_ char *advice = NULL;
        if (!doctor->owner) {
                doctor_say(doctor, "placement", CGTREE_FINDING_BROKEN, NULL, "no tree can be started: %s", error);
                return;
        }
        if (cgtree_owner_get_guarantee(doctor->owner) == CGTREE_GUARANTEE_WHOLE) {
                say_whole(doctor);
                return;
        }
        const char *reason = cgtree_owner_get_reason(doctor->owner, CGTREE_PLACEMENT_SUBTREE);
        if (doctor->worst < CGTREE_FINDING_BROKEN)
                advice = doctor_advise();
        doctor_say(doctor, "placement", CGTREE_FINDING_REDUCED, advice,
                "group: what takes care to get away from its tree can outlive it. No subtree: %s",
                reason ? reason : "");
}

static void look_at_limits(struct doctor *doctor) {
        struct cgroup base = CGROUP_NONE;
        unsigned mask = 0;
        if (doctor->owner && cgtree_owner_get_placement(doctor->owner) == CGTREE_PLACEMENT_SCOPE)
                doctor_say(doctor, "limits", CGTREE_FINDING_GOOD, NULL,
                        "as the %s manager has controllers, seen when a tree is started", doctor->owner->manager);
        if (!doctor->owner || doctor->owner->home.base.fd < 0)
                return;
        if (cgroup_open(doctor->owner->home.base.path, &base) < 0)
                return;
        if (!doctor->owner->home.scope)
                base_make_room(&base);
        int r = limits_available(&base, &mask);
        _cleanup_free_ char *name = limits_name(mask);
        if (r < 0 || mask == 0)
                doctor_say(
                        doctor, "limits", CGTREE_FINDING_NOTE, NULL, "none: cgroup %s has no controllers", base.path);
        else if (!doctor->owner->home.scope && limits_has_others(&base, doctor->owner->home.guard.guard_pid))
                doctor_say(doctor, "limits", CGTREE_FINDING_NOTE, NULL,
                        "none from here: cgroup %s has processes of its own; see LIMITS in cgtree-run(1)", base.path);
        else
                doctor_say(doctor, "limits", CGTREE_FINDING_GOOD, NULL, "of %s", name ? name : "?");
        cgroup_done(&base);
}

int cgtree_examine(const char *records, cgtree_examine_fn fn, void *userdata) {
        struct doctor doctor = { .fn = fn, .userdata = userdata };
        _cleanup_free_ char *error = NULL;
        if (!fn)
                return -EINVAL;
        (void)open_owner(&doctor, records, &error);
        doctor_look_at_cgroups(&doctor);
        doctor_look_at_managers(&doctor);
        doctor_look_at_kernel(&doctor);
        look_at_helpers(&doctor);
        if (look_at_records(&doctor, records))
                look_at_placement(&doctor, error ? error : "out of memory");
        look_at_limits(&doctor);
        if (doctor.owner)
                (void)cgtree_owner_close(doctor.owner, 0, OPEN_USEC);
        cgtree_owner_free(doctor.owner);
        return (int)doctor.worst;
}
