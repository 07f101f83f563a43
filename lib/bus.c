/* SPDX-License-Identifier: MIT */
#include "bus.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SERVICE "org.freedesktop.systemd1"
#define OBJECT  "/org/freedesktop/systemd1"

/* Sets the reason and hands the error on. */
#define refuse(ret_reason, error, ...) (*(ret_reason) = format(__VA_ARGS__), (error))

const char *bus_manager_name(enum bus_manager manager) {
        return manager == BUS_USER ? "the user manager" : "the system manager";
}

/* ---- the library ---------------------------------------------------------------------------------------------- */

struct symbol {
        const char *name;
        size_t place; /* in struct bus_functions */
};

#define SYMBOL(name)                                                                                                   \
        { "sd_bus_" #name, offsetof(struct bus_functions, name) }

static const struct symbol symbols[] = {
        SYMBOL(new),
        SYMBOL(set_address),
        SYMBOL(set_bus_client),
        SYMBOL(negotiate_fds),
        SYMBOL(start),
        SYMBOL(is_ready),
        SYMBOL(get_fd),
        SYMBOL(get_events),
        SYMBOL(get_timeout),
        SYMBOL(process),
        SYMBOL(close),
        SYMBOL(unref),
        SYMBOL(add_filter),
        SYMBOL(slot_unref),
        SYMBOL(call_async),
        SYMBOL(message_new_method_call),
        SYMBOL(message_ref),
        SYMBOL(message_unref),
        SYMBOL(message_open_container),
        SYMBOL(message_close_container),
        SYMBOL(message_append),
        SYMBOL(message_read),
        SYMBOL(message_enter_container),
        SYMBOL(message_exit_container),
        SYMBOL(message_skip),
        SYMBOL(message_peek_type),
        SYMBOL(message_at_end),
        SYMBOL(message_is_signal),
        SYMBOL(message_get_error),
};

/* It stays loaded: it keeps memory of its own for each thread. */
static int load(struct bus_functions *ret_functions, char **ret_reason) {
        void *library = dlopen("libsystemd.so.0", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        if (!library)
                return refuse(ret_reason, -ENOPKG, "libsystemd cannot be loaded");
        for (size_t i = 0; i < sizeof(symbols) / sizeof(*symbols); i++) {
                void *function = dlsym(library, symbols[i].name);
                if (!function) {
                        (void)dlclose(library);
                        return refuse(ret_reason, -ENOPKG, "this libsystemd has no %s", symbols[i].name);
                }
                memcpy((char *)ret_functions + symbols[i].place, &function, sizeof(function));
        }
        (void)dlclose(library); /* for the count alone */
        return 0;
}

/* ---- where it is ---------------------------------------------------------------------------------------------- */

struct address {
        char *text;
        bool direct;
};

static bool is_there(const char *path) {
        return faccessat(AT_FDCWD, path, F_OK, 0) >= 0;
}

/* A path in an address has what is not harmless as %XX. */
static int set_path(struct address *address, const char *path, bool direct) {
        _cleanup_free_ char *escaped = malloc(strlen(path) * 3 + 1);
        char *to = escaped;
        if (!escaped)
                return -ENOMEM;
        for (const char *from = path; *from; from++)
                if (strchr("/-_.", *from) || (*from >= '0' && *from <= '9') ||
                        ((*from | 32) >= 'a' && (*from | 32) <= 'z'))
                        *to++ = *from;
                else
                        to += sprintf(to, "%%%02x", (unsigned)(unsigned char)*from);
        *to = '\0';
        address->text = format("unix:path=%s", escaped);
        address->direct = direct;
        return address->text ? 0 : -ENOMEM;
}

static int find_system(struct address *address) {
        bool direct = geteuid() == 0 && is_there("/run/systemd/private");
        return set_path(address, direct ? "/run/systemd/private" : "/run/dbus/system_bus_socket", direct);
}

/* What is said in the environment is not gone around. */
static int check_runtime_directory(const char *directory, const char *origin, char **ret_reason) {
        struct stat status;
        if (stat(directory, &status) < 0)
                return refuse(
                        ret_reason, -errno, "there is no user manager: %s %s: %s", origin, directory, strerror(errno));
        if (status.st_uid != geteuid())
                return refuse(ret_reason, -EACCES, "there is no user manager of ours: %s %s belongs to uid %u", origin,
                        directory, (unsigned)status.st_uid);
        return 0;
}

static int find_user(struct address *address, char **ret_reason) {
        const char *named = secure_getenv("XDG_RUNTIME_DIR"), *bus = secure_getenv("DBUS_SESSION_BUS_ADDRESS");
        bool is_named = named && *named;
        _cleanup_free_ char *directory = is_named ? strdup(named) : format("/run/user/%u", (unsigned)geteuid());
        _cleanup_free_ char *direct = directory ? format("%s/systemd/private", directory) : NULL;
        _cleanup_free_ char *daemon = directory ? format("%s/bus", directory) : NULL;
        if (!direct || !daemon)
                return -ENOMEM;
        int r = check_runtime_directory(directory, is_named ? "XDG_RUNTIME_DIR" : "directory", ret_reason);
        if (r < 0)
                return r;
        if (is_there(direct))
                return set_path(address, direct, true);
        if (bus && *bus)
                return (address->text = strdup(bus)) ? 0 : -ENOMEM;
        if (is_there(daemon))
                return set_path(address, daemon, false);
        return refuse(
                ret_reason, -ENOENT, "there is no user manager: %s has neither systemd/private nor bus", directory);
}

/* ---- the connection ------------------------------------------------------------------------------------------- */

static int connect_to(struct bus *bus, const char *address) {
        struct bus_functions *sd = &bus->sd;
        int r = sd->new (&bus->connection);
        if (r >= 0)
                r = sd->set_address(bus->connection, address);
        if (r >= 0 && !bus->direct)
                r = sd->set_bus_client(bus->connection, 1);
        if (r >= 0)
                r = sd->negotiate_fds(bus->connection, 1);
        if (r >= 0)
                r = sd->start(bus->connection); /* its sockets do not block */
        return r;
}

int bus_open(enum bus_manager manager, uint64_t bound_usec, struct bus **ret_bus, char **ret_reason) {
        struct address address = { 0 };
        *ret_reason = NULL;
        int r = manager == BUS_SYSTEM ? find_system(&address) : find_user(&address, ret_reason);
        if (r < 0)
                return r;
        _cleanup_free_ char *text = address.text;
        struct bus *bus = calloc(1, sizeof(*bus));
        if (!bus)
                return -ENOMEM;
        bus->manager = manager;
        bus->direct = address.direct;
        bus->deadline = usec_add(now_usec(), bound_usec);
        r = load(&bus->sd, ret_reason);
        if (r >= 0) {
                r = connect_to(bus, text);
                if (r < 0)
                        *ret_reason = format("%s cannot be reached at %s: %s", bus_manager_name(manager), text,
                                r == -EAGAIN ? "it does not accept connections" : strerror(-r));
        }
        if (r < 0) {
                bus_close(bus);
                return r;
        }
        *ret_bus = bus;
        return 0;
}

struct bus *bus_close(struct bus *bus) {
        if (!bus)
                return NULL;
        if (bus->connection) {
                bus->sd.close(bus->connection);
                bus->sd.unref(bus->connection);
        }
        free(bus);
        return NULL;
}

int bus_step(struct bus *bus, char **ret_reason) {
        int r;
        do
                r = bus->sd.process(bus->connection, NULL);
        while (r > 0);
        if (r < 0)
                return refuse(ret_reason, r, "%s has closed the connection: %s", bus_manager_name(bus->manager),
                        strerror(-r));
        if (now_usec() >= bus->deadline)
                return refuse(ret_reason, -ETIMEDOUT, "%s does not answer", bus_manager_name(bus->manager));
        return 0;
}

int bus_fd(const struct bus *bus, short *ret_events) {
        int events = bus->sd.get_events(bus->connection);
        *ret_events = events < 0 ? POLLIN : (short)events;
        return bus->sd.get_fd(bus->connection);
}

uint64_t bus_wakeup(const struct bus *bus) {
        uint64_t when;
        int r = bus->sd.get_timeout(bus->connection, &when);
        return r >= 0 && when < bus->deadline ? when : bus->deadline;
}

/* ---- calls ---------------------------------------------------------------------------------------------------- */

int bus_new_call(
        struct bus *bus, const char *path, const char *interface, const char *member, sd_bus_message **ret_message) {
        return bus->sd.message_new_method_call(
                bus->connection, ret_message, SERVICE, path ? path : OBJECT, interface, member);
}

static int take_answer(sd_bus_message *message, void *userdata, sd_bus_error *unused) {
        struct bus_call *call = userdata;
        const sd_bus_error *error = call->bus->sd.message_get_error(message);
        (void)unused;
        call->answered = true;
        if (error) {
                call->error_name = strdup(error->name ? error->name : "");
                call->error_message = strdup(error->message ? error->message : "");
        } else
                call->reply = call->bus->sd.message_ref(message);
        return 0;
}

int bus_send(struct bus *bus, sd_bus_message *message, struct bus_call *call) {
        *call = (struct bus_call){ .bus = bus };
        int r = bus->sd.call_async(bus->connection, NULL, message, take_answer, call, UINT64_MAX);
        bus->sd.message_unref(message);
        return r < 0 ? r : 0;
}

void bus_call_done(struct bus_call *call) {
        if (call->reply)
                call->bus->sd.message_unref(call->reply);
        free(call->error_name);
        free(call->error_message);
        *call = (struct bus_call){ 0 };
}

int bus_subscribe(struct bus *bus, struct bus_call calls[2]) {
        sd_bus_message *message = NULL;
        if (bus->direct)
                return 0;
        int r = bus->sd.message_new_method_call(bus->connection, &message, "org.freedesktop.DBus",
                "/org/freedesktop/DBus", "org.freedesktop.DBus", "AddMatch");
        if (r >= 0)
                r = bus->sd.message_append(message, "s",
                        "type='signal',sender='" SERVICE "',interface='" BUS_MANAGER "',member='JobRemoved'");
        if (r >= 0)
                r = bus_send(bus, message, &calls[0]);
        if (r >= 0)
                r = bus_new_call(bus, NULL, BUS_MANAGER, "Subscribe", &message);
        return r < 0 ? r : bus_send(bus, message, &calls[1]);
}
