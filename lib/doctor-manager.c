/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "bus.h"
#include "doctor.h"

/* Managers: who answers, and what version it says that it is. */

#define ANSWER_USEC (1 * USEC_PER_SEC)

static int ask_version(struct bus *bus, struct bus_call *call) {
        sd_bus_message *message = NULL;
        int r = bus_new_call(bus, NULL, BUS_PROPERTIES, "Get", &message);
        if (r >= 0)
                r = bus->sd.message_append(message, "ss", BUS_MANAGER, "Version");
        return r < 0 ? r : bus_send(bus, message, call);
}

static int await(struct bus *bus, const struct bus_call *call, char **ret_reason) {
        for (;;) {
                int r = bus_step(bus, ret_reason);
                if (r < 0 || call->answered)
                        return r;
                struct pollfd source = { 0 };
                source.fd = bus_fd(bus, &source.events);
                uint64_t now = now_usec(), wakeup = bus_wakeup(bus);
                (void)poll(&source, 1, wakeup <= now ? 0 : (int)((wakeup - now) / 1000) + 1);
        }
}

static char *read_version(struct bus *bus, const struct bus_call *call) {
        const char *version;
        if (!call->reply || bus->sd.message_enter_container(call->reply, 'v', "s") < 0 ||
                bus->sd.message_read(call->reply, "s", &version) < 0)
                return NULL;
        return strdup(version);
}

static void look_at(struct doctor *doctor, enum bus_manager manager, const char *topic) {
        _cleanup_free_ char *reason = NULL, *version = NULL;
        struct bus *bus = NULL;
        struct bus_call call = { 0 };
        int r = bus_open(manager, ANSWER_USEC, &bus, &reason);
        if (r >= 0) {
                r = ask_version(bus, &call);
                if (r >= 0)
                        r = await(bus, &call, &reason);
                if (r >= 0 && !(version = read_version(bus, &call)))
                        r = -EBADMSG;
                if (r < 0 && !reason && call.error_message)
                        reason = strdup(call.error_message);
                bus_call_done(&call);
                (void)bus_close(bus);
        }
        if (r >= 0)
                doctor_say(doctor, topic, CGTREE_FINDING_GOOD, NULL, "systemd %s", version);
        else
                doctor_say(doctor, topic, CGTREE_FINDING_NOTE, NULL, "%s", reason ? reason : strerror(-r));
}

void doctor_look_at_managers(struct doctor *doctor) {
        look_at(doctor, BUS_SYSTEM, "system_manager");
        look_at(doctor, BUS_USER, "user_manager");
}
