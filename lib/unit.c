/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- asking --------------------------------------------------------------------------------------------------- */

static int ask_manager(struct bus *bus, const char *property, struct bus_call *call) {
        sd_bus_message *message = NULL;
        int r = bus_new_call(bus, NULL, BUS_PROPERTIES, "Get", &message);
        if (r >= 0)
                r = bus->sd.message_append(message, "ss", BUS_MANAGER, property);
        return r < 0 ? r : bus_send(bus, message, call);
}

/* Pid 0 is who asks, whatever its number is in the manager's eyes. */
static int ask_unit(struct bus *bus, struct bus_call *call) {
        sd_bus_message *message = NULL;
        int r = bus_new_call(bus, NULL, BUS_MANAGER, "GetUnitByPID", &message);
        if (r >= 0)
                r = bus->sd.message_append(message, "u", (uint32_t)0);
        return r < 0 ? r : bus_send(bus, message, call);
}

/* Of all interfaces at once: what kind of unit it is, is among the answers. */
static int ask_properties(struct bus *bus, const char *path, struct bus_call *call) {
        sd_bus_message *message = NULL;
        int r = bus_new_call(bus, path, BUS_PROPERTIES, "GetAll", &message);
        if (r >= 0)
                r = bus->sd.message_append(message, "s", "");
        return r < 0 ? r : bus_send(bus, message, call);
}

int unit_ask(struct unit *unit, struct bus *bus) {
        *unit = (struct unit){ .bus = bus, .default_tasks = UINT64_MAX };
        int r = ask_manager(bus, "ControlGroup", &unit->cgroup_call);
        if (r >= 0)
                r = ask_manager(bus, "DefaultTasksMax", &unit->tasks_call);
        return r < 0 ? r : ask_unit(bus, &unit->unit_call);
}

/* ---- properties ----------------------------------------------------------------------------------------------- */

/* What binds a cgroup and all that is in it, with its type, and with what stands there when nobody has set it: of numbers
 * infinity always counts as not set, of lists emptiness, of texts the one given. */
struct limit {
        const char *name, *type, *text;
};

static const struct limit limits[] = {
        { "MemoryMax", "t", NULL },
        { "MemoryHigh", "t", NULL },
        { "MemorySwapMax", "t", NULL },
        { "MemoryZSwapMax", "t", NULL },
        { "MemoryLimit", "t", NULL },
        { "StartupMemoryMax", "t", NULL },
        { "StartupMemoryHigh", "t", NULL },
        { "StartupMemorySwapMax", "t", NULL },
        { "StartupMemoryZSwapMax", "t", NULL },
        { "TasksMax", "t", NULL },
        { "CPUQuotaPerSecUSec", "t", NULL },
        { "AllowedCPUs", "ay", NULL },
        { "StartupAllowedCPUs", "ay", NULL },
        { "AllowedMemoryNodes", "ay", NULL },
        { "StartupAllowedMemoryNodes", "ay", NULL },
        { "IOReadBandwidthMax", "a(st)", NULL },
        { "IOWriteBandwidthMax", "a(st)", NULL },
        { "IOReadIOPSMax", "a(st)", NULL },
        { "IOWriteIOPSMax", "a(st)", NULL },
        { "BlockIOReadBandwidth", "a(st)", NULL },
        { "BlockIOWriteBandwidth", "a(st)", NULL },
        { "DevicePolicy", "s", "auto" },
        { "DeviceAllow", "a(ss)", NULL },
        { "IPAddressAllow", "a(iayu)", NULL },
        { "IPAddressDeny", "a(iayu)", NULL },
        { "IPIngressFilterPath", "as", NULL },
        { "IPEgressFilterPath", "as", NULL },
        { "BPFProgram", "a(ss)", NULL },
        { "SocketBindAllow", "a(iiqq)", NULL },
        { "SocketBindDeny", "a(iiqq)", NULL },
        { "RestrictNetworkInterfaces", "(bas)", NULL },
        { "NFTSet", "a(iiss)", NULL },
};

/* What every version has: where these are not to be read, nothing is known. */
static const char *const expected[] = { "TasksMax", "MemoryMax", "DevicePolicy" };
#define N_EXPECTED (sizeof(expected) / sizeof(*expected))

struct reading {
        struct unit *unit;
        struct bus_functions *sd;
        sd_bus_message *message;
        unsigned seen; /* bits of `expected` */
};

static int read_string(struct reading *reading, char **ret_text) {
        const char *text;
        int r = reading->sd->message_read(reading->message, "s", &text);
        if (r < 0)
                return r;
        char *copy = strdup(text);
        if (!copy)
                return -ENOMEM;
        free(*ret_text);
        *ret_text = copy;
        return 0;
}

static int read_number_limit(struct reading *reading, bool is_tasks, bool *ret_set) {
        uint64_t number;
        int r = reading->sd->message_read(reading->message, "t", &number);
        *ret_set = number != UINT64_MAX && !(is_tasks && number == reading->unit->default_tasks);
        return r;
}

/* A list, or the list in (bas); it is left where it was found. */
static int read_list_limit(struct reading *reading, const char *type, bool *ret_set) {
        struct bus_functions *sd = reading->sd;
        bool is_struct = type[0] == '(';
        int allow, r = 0;
        if (is_struct) {
                r = sd->message_enter_container(reading->message, 'r', "bas");
                if (r >= 0)
                        r = sd->message_read(reading->message, "b", &allow);
                type = "as";
        }
        if (r >= 0)
                r = sd->message_enter_container(reading->message, 'a', type + 1);
        if (r < 0)
                return r;
        *ret_set = sd->message_at_end(reading->message, false) == 0;
        while (r >= 0 && sd->message_at_end(reading->message, false) == 0)
                r = sd->message_skip(reading->message, type + 1);
        if (r >= 0)
                r = sd->message_exit_container(reading->message);
        return r >= 0 && is_struct ? sd->message_exit_container(reading->message) : r;
}

static int read_text_limit(struct reading *reading, const char *unset, bool *ret_set) {
        const char *text;
        int r = reading->sd->message_read(reading->message, "s", &text);
        *ret_set = r >= 0 && strcmp(text, unset) != 0;
        return r;
}

static int read_limit(struct reading *reading, const struct limit *limit) {
        bool set = true;
        int r = strcmp(limit->type, "t") == 0   ? read_number_limit(reading, strcmp(limit->name, "TasksMax") == 0, &set)
                : strcmp(limit->type, "s") == 0 ? read_text_limit(reading, limit->text, &set)
                                                : read_list_limit(reading, limit->type, &set);
        if (r < 0)
                return r;
        for (size_t i = 0; i < N_EXPECTED; i++)
                if (strcmp(expected[i], limit->name) == 0)
                        reading->seen |= 1U << i;
        if (set && !reading->unit->limit && !(reading->unit->limit = strdup(limit->name)))
                return -ENOMEM;
        return 0;
}

static const struct limit *find_limit(const char *name) {
        for (size_t i = 0; i < sizeof(limits) / sizeof(*limits); i++)
                if (strcmp(limits[i].name, name) == 0)
                        return &limits[i];
        return NULL;
}

/* Its variant is entered. A limit of another type than we know is one that we cannot tell. */
static int read_value(struct reading *reading, const char *name, const char *type) {
        const struct limit *limit = find_limit(name);
        if (limit && strcmp(limit->type, type) == 0)
                return read_limit(reading, limit);
        if (limit && !reading->unit->limit && !(reading->unit->limit = strdup(name)))
                return -ENOMEM;
        if (strcmp(name, "Id") == 0 && strcmp(type, "s") == 0)
                return read_string(reading, &reading->unit->name);
        if (strcmp(name, "Slice") == 0 && strcmp(type, "s") == 0)
                return read_string(reading, &reading->unit->slice);
        if (strcmp(name, "Delegate") == 0 && strcmp(type, "b") == 0) {
                int yes = 0;
                int r = reading->sd->message_read(reading->message, "b", &yes);
                reading->unit->delegated = yes;
                return r;
        }
        return reading->sd->message_skip(reading->message, type);
}

static int read_property(struct reading *reading) {
        const char *name, *type;
        char kind;
        int r = reading->sd->message_read(reading->message, "s", &name);
        if (r >= 0)
                r = reading->sd->message_peek_type(reading->message, &kind, &type);
        if (r >= 0)
                r = kind == 'v' ? reading->sd->message_enter_container(reading->message, 'v', type) : -EBADMSG;
        if (r >= 0)
                r = read_value(reading, name, type);
        return r < 0 ? r : reading->sd->message_exit_container(reading->message);
}

static int read_properties(struct unit *unit) {
        struct reading reading = { .unit = unit, .sd = &unit->bus->sd, .message = unit->properties_call.reply };
        if (!reading.message)
                return -EBADMSG;
        int r = reading.sd->message_enter_container(reading.message, 'a', "{sv}");
        while (r >= 0 && (r = reading.sd->message_enter_container(reading.message, 'e', "sv")) > 0) {
                r = read_property(&reading);
                if (r >= 0)
                        r = reading.sd->message_exit_container(reading.message);
        }
        if (r < 0)
                return r;
        if (!unit->name)
                return -EBADMSG;
        if (reading.seen != (1U << N_EXPECTED) - 1 && !unit->limit &&
                !(unit->limit = strdup("limits that cannot be read")))
                return -ENOMEM;
        return 0;
}

/* ---- the answers ---------------------------------------------------------------------------------------------- */

static int read_manager(struct unit *unit) {
        struct bus_functions *sd = &unit->bus->sd;
        const char *cgroup;
        if (!unit->cgroup_call.reply)
                return -EBADMSG;
        int r = sd->message_read(unit->cgroup_call.reply, "v", "s", &cgroup);
        if (r < 0)
                return r;
        unit->manager_cgroup = strdup(strcmp(cgroup, "/") == 0 ? "" : cgroup);
        if (unit->tasks_call.reply)
                (void)sd->message_read(unit->tasks_call.reply, "v", "t", &unit->default_tasks);
        return unit->manager_cgroup ? 0 : -ENOMEM;
}

int unit_step(struct unit *unit) {
        if (!unit->cgroup_call.answered || !unit->tasks_call.answered || !unit->unit_call.answered)
                return 0;
        if (!unit->asked_properties) {
                const char *path;
                int r = read_manager(unit);
                if (r < 0 || !unit->unit_call.reply)
                        return r < 0 ? r : 1;
                r = unit->bus->sd.message_read(unit->unit_call.reply, "o", &path);
                if (r >= 0)
                        r = ask_properties(unit->bus, path, &unit->properties_call);
                if (r < 0)
                        return r;
                unit->asked_properties = true;
        }
        if (!unit->properties_call.answered)
                return 0;
        int r = read_properties(unit);
        return r < 0 ? r : 1;
}

void unit_done(struct unit *unit) {
        bus_call_done(&unit->cgroup_call);
        bus_call_done(&unit->tasks_call);
        bus_call_done(&unit->unit_call);
        bus_call_done(&unit->properties_call);
        free(unit->manager_cgroup);
        free(unit->name);
        free(unit->slice);
        free(unit->limit);
        *unit = (struct unit){ 0 };
}
