/* SPDX-License-Identifier: MIT */
#include "scope.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cgroup.h"

enum phase {
        PHASE_CONNECTING, /* what has a descriptor in it would be waited with by sd-bus itself */
        PHASE_STARTING,   /* until the job is done */
        PHASE_SEEN,       /* the process is in it */
        PHASE_STOPPING,   /* it is, but without the process */
        PHASE_FAILED,
};

struct scope {
        struct bus *bus;
        struct scope_request request; /* strings are ours */
        char *unit, *description, *slice;
        enum phase phase;
        bool by_pidfd;
        sd_bus_slot *slot;
        char *result; /* of its job; NULL: not done */
        int error;
        char *reason;
        struct bus_call subscribe_calls[2], start_call, stop_call;
};

char *scope_escape(const char *text) {
        char *escaped = malloc(strlen(text) * 4 + 1), *to = escaped;
        if (!escaped)
                return NULL;
        for (const char *from = text; *from; from++)
                if ((*from >= 'a' && *from <= 'z') || (*from >= 'A' && *from <= 'Z') ||
                        (*from >= '0' && *from <= '9') || *from == '_' || (*from == '.' && from > text))
                        *to++ = *from;
                else
                        to += sprintf(to, "\\x%02x", (unsigned)(unsigned char)*from);
        *to = '\0';
        return escaped;
}

static void fail(struct scope *scope, int error, char *reason) {
        free(scope->reason);
        scope->error = error;
        scope->reason = reason;
        scope->phase = PHASE_FAILED;
}

/* ---- asking --------------------------------------------------------------------------------------------------- */

static int append_process(struct scope *scope, sd_bus_message *message) {
        struct bus_functions *sd = &scope->bus->sd;
        if (scope->by_pidfd)
                return sd->message_append(message, "(sv)", "PIDFDs", "ah", 1, scope->request.pidfd);
        return sd->message_append(message, "(sv)", "PIDs", "au", 1, (uint32_t)scope->request.pid);
}

static int append_limits(struct scope *scope, sd_bus_message *message) {
        struct bus_functions *sd = &scope->bus->sd;
        const uint64_t *values = scope->request.limits.values;
        int r = 0;
        if (values[CGTREE_LIMIT_MEMORY] > 0)
                r = sd->message_append(message, "(sv)(sv)", "MemoryMax", "t", values[CGTREE_LIMIT_MEMORY],
                        "MemorySwapMax", "t", UINT64_C(0));
        if (r >= 0 && values[CGTREE_LIMIT_TASKS] > 0)
                r = sd->message_append(message, "(sv)", "TasksMax", "t", values[CGTREE_LIMIT_TASKS]);
        if (r >= 0 && values[CGTREE_LIMIT_CPU] > 0)
                r = sd->message_append(
                        message, "(sv)", "CPUQuotaPerSecUSec", "t", values[CGTREE_LIMIT_CPU] * (USEC_PER_SEC / 1000));
        return r;
}

static int append_properties(struct scope *scope, sd_bus_message *message) {
        int r = scope->bus->sd.message_append(message, "(sv)(sv)(sv)(sv)(sv)", "Description", "s", scope->description,
                "Slice", "s", scope->slice, "Delegate", "b", 1, "CollectMode", "s", "inactive-or-failed",
                "TimeoutStopUSec", "t", scope->request.stop_usec);
        if (r >= 0)
                r = append_limits(scope, message);
        return r < 0 ? r : append_process(scope, message);
}

static int start(struct scope *scope) {
        struct bus_functions *sd = &scope->bus->sd;
        sd_bus_message *message = NULL;
        bus_call_done(&scope->start_call);
        int r = bus_new_call(scope->bus, NULL, BUS_MANAGER, "StartTransientUnit", &message);
        if (r < 0)
                return r;
        r = sd->message_append(message, "ss", scope->unit, "fail");
        if (r >= 0)
                r = sd->message_open_container(message, 'a', "(sv)");
        if (r >= 0)
                r = append_properties(scope, message);
        if (r >= 0)
                r = sd->message_close_container(message);
        if (r >= 0)
                r = sd->message_append(message, "a(sa(sv))", 0);
        if (r >= 0)
                return bus_send(scope->bus, message, &scope->start_call);
        sd->message_unref(message);
        return r;
}

/* Signals may come before the answer to what caused them, so they are all looked at. */
static int hear_signal(sd_bus_message *message, void *userdata, sd_bus_error *error) {
        struct scope *scope = userdata;
        struct bus_functions *sd = &scope->bus->sd;
        const char *job, *unit, *result;
        uint32_t id;
        (void)error;
        if (scope->result || sd->message_is_signal(message, BUS_MANAGER, "JobRemoved") <= 0 ||
                sd->message_read(message, "uoss", &id, &job, &unit, &result) < 0 || strcmp(unit, scope->unit) != 0)
                return 0;
        scope->result = strdup(result);
        return 0;
}

int scope_begin(struct bus *bus, const struct scope_request *request, struct scope **ret_scope) {
        struct scope *scope = calloc(1, sizeof(*scope));
        if (!scope)
                return -ENOMEM;
        scope->bus = bus;
        scope->request = *request;
        scope->unit = strdup(request->unit);
        scope->description = strdup(request->description);
        scope->slice = strdup(request->slice);
        scope->by_pidfd = request->pidfd >= 0;
        int r = scope->unit && scope->description && scope->slice ? 0 : -ENOMEM;
        if (r >= 0)
                r = bus->sd.add_filter(bus->connection, &scope->slot, hear_signal, scope);
        if (r >= 0)
                r = bus_subscribe(bus, scope->subscribe_calls);
        if (r < 0)
                scope_free(scope);
        else
                *ret_scope = scope;
        return r < 0 ? r : 0;
}

struct scope *scope_free(struct scope *scope) {
        if (!scope)
                return NULL;
        scope->bus->sd.slot_unref(scope->slot);
        for (size_t i = 0; i < 2; i++)
                bus_call_done(&scope->subscribe_calls[i]);
        bus_call_done(&scope->start_call);
        bus_call_done(&scope->stop_call);
        free(scope->unit);
        free(scope->description);
        free(scope->slice);
        free(scope->result);
        free(scope->reason);
        free(scope);
        return NULL;
}

/* ---- what becomes of it --------------------------------------------------------------------------------------- */

static bool is_error(const struct bus_call *call, const char *name) {
        return call->error_name && strcmp(call->error_name, name) == 0;
}

static void begin(struct scope *scope) {
        scope->phase = PHASE_STARTING;
        int r = start(scope);
        if (r < 0)
                fail(scope, r, format("a scope cannot be asked for: %s", strerror(-r)));
}

/* Managers before 255 know no PIDFDs. */
static void hear_refusal(struct scope *scope) {
        struct bus_call *call = &scope->start_call;
        if (scope->by_pidfd && is_error(call, "org.freedesktop.DBus.Error.PropertyReadOnly")) {
                scope->by_pidfd = false;
                begin(scope);
                return;
        }
        fail(scope, is_error(call, "org.freedesktop.systemd1.UnitExists") ? -EEXIST : -EREMOTEIO,
                format("%s refuses to make scope %s: %s", bus_manager_name(scope->bus->manager), scope->unit,
                        call->error_message ? call->error_message : "no reason given"));
}

static bool is_of_unit(const struct scope *scope, const char *path) {
        const char *last = strrchr(path, '/');
        return last && strcmp(last + 1, scope->unit) == 0;
}

/* Of a process that was dead already, the manager makes a scope that is empty for ever; and a job that is done says nothing
 * of what happened since. */
static bool is_in_it(const struct scope *scope, char **ret_cgroup) {
        struct cgroup cgroup = CGROUP_NONE;
        _cleanup_free_ char *path = NULL;
        bool in = cgroup_path_of(scope->request.pid, &path) >= 0 && is_of_unit(scope, path) &&
                  cgroup_open(path, &cgroup) >= 0 && cgroup_is_populated(&cgroup) == 1;
        cgroup_done(&cgroup);
        if (in)
                *ret_cgroup = take_pointer(&path);
        return in;
}

static void stop(struct scope *scope) {
        sd_bus_message *message = NULL;
        int r = bus_new_call(scope->bus, NULL, BUS_MANAGER, "StopUnit", &message);
        if (r >= 0)
                r = scope->bus->sd.message_append(message, "ss", scope->unit, "replace");
        if (r >= 0)
                r = bus_send(scope->bus, message, &scope->stop_call);
        if (r < 0)
                scope->phase = PHASE_FAILED;
}

static void look_at_job(struct scope *scope, char **ret_cgroup) {
        if (is_in_it(scope, ret_cgroup)) {
                scope->phase = PHASE_SEEN;
                return;
        }
        fail(scope, -EREMOTEIO,
                format("scope %s was made without its process: %s", scope->unit,
                        strcmp(scope->result, "done") == 0 ? "it is not in it" : scope->result));
        scope->phase = PHASE_STOPPING;
        stop(scope);
}

static void step_bus(struct scope *scope) {
        char *reason = NULL;
        int r = bus_step(scope->bus, &reason);
        if (r < 0)
                fail(scope, r, reason);
}

int scope_step(struct scope *scope, char **ret_cgroup, char **ret_reason) {
        _cleanup_free_ char *cgroup = NULL;
        if (scope->phase != PHASE_SEEN && scope->phase != PHASE_FAILED)
                step_bus(scope);
        if (scope->phase == PHASE_CONNECTING && scope->bus->sd.is_ready(scope->bus->connection) > 0)
                begin(scope);
        if (scope->phase == PHASE_STARTING && scope->start_call.error_name)
                hear_refusal(scope);
        else if (scope->phase == PHASE_STARTING && scope->start_call.answered && scope->result)
                look_at_job(scope, &cgroup);
        if (scope->phase == PHASE_STOPPING && scope->stop_call.answered)
                scope->phase = PHASE_FAILED;
        if (scope->phase == PHASE_FAILED) {
                *ret_reason = take_pointer(&scope->reason);
                return scope->error;
        }
        if (scope->phase != PHASE_SEEN)
                return 0;
        *ret_cgroup = take_pointer(&cgroup);
        return 1;
}
