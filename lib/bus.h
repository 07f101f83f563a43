/* SPDX-License-Identifier: MIT */
#pragma once

/* One connection to a systemd manager, by the sd-bus of libsystemd, which is loaded when a manager is spoken to and not before: neither
 * the build nor a run without managers needs it. Never waits: what there is to do is done by bus_step(), and one deadline covers
 * everything from the connect to the last answer. */

#include "util.h"

enum bus_manager {
        BUS_USER,
        BUS_SYSTEM,
};

typedef struct sd_bus sd_bus;
typedef struct sd_bus_message sd_bus_message;
typedef struct sd_bus_slot sd_bus_slot;
typedef struct {
        const char *name, *message;
        int need_free;
} sd_bus_error;
typedef int (*sd_bus_message_handler_t)(sd_bus_message *message, void *userdata, sd_bus_error *error);

/* What we use of sd-bus, by the names that it has there, without the prefix. */
struct bus_functions {
        int (*new)(sd_bus **ret);
        int (*set_address)(sd_bus *bus, const char *address);
        int (*set_bus_client)(sd_bus *bus, int yes);
        int (*negotiate_fds)(sd_bus *bus, int yes);
        int (*start)(sd_bus *bus);
        int (*is_ready)(sd_bus *bus);
        int (*get_fd)(sd_bus *bus);
        int (*get_events)(sd_bus *bus);
        int (*get_timeout)(sd_bus *bus, uint64_t *ret_usec);
        int (*process)(sd_bus *bus, sd_bus_message **ret);
        void (*close)(sd_bus *bus);
        sd_bus *(*unref)(sd_bus *bus);
        int (*add_filter)(sd_bus *bus, sd_bus_slot **ret, sd_bus_message_handler_t fn, void *userdata);
        sd_bus_slot *(*slot_unref)(sd_bus_slot *slot);
        int (*call_async)(sd_bus *bus, sd_bus_slot **ret, sd_bus_message *message, sd_bus_message_handler_t fn,
                void *userdata, uint64_t usec);
        int (*message_new_method_call)(sd_bus *bus, sd_bus_message **ret, const char *destination, const char *path,
                const char *interface, const char *member);
        sd_bus_message *(*message_ref)(sd_bus_message *message);
        sd_bus_message *(*message_unref)(sd_bus_message *message);
        int (*message_open_container)(sd_bus_message *message, char type, const char *contents);
        int (*message_close_container)(sd_bus_message *message);
        int (*message_append)(sd_bus_message *message, const char *types, ...);
        int (*message_read)(sd_bus_message *message, const char *types, ...);
        int (*message_enter_container)(sd_bus_message *message, char type, const char *contents);
        int (*message_exit_container)(sd_bus_message *message);
        int (*message_skip)(sd_bus_message *message, const char *types);
        int (*message_peek_type)(sd_bus_message *message, char *ret_type, const char **ret_contents);
        int (*message_at_end)(sd_bus_message *message, int complete);
        int (*message_is_signal)(sd_bus_message *message, const char *interface, const char *member);
        const sd_bus_error *(*message_get_error)(sd_bus_message *message);
};

struct bus {
        struct bus_functions sd;
        sd_bus *connection;
        enum bus_manager manager;
        uint64_t deadline;
        bool direct; /* the manager's own socket, without a bus daemon between: signals come without asking */
};

/* Begins to connect. On failure *ret_reason (malloc'd; NULL: out of memory) is a clause: "there is no user manager ...". */
int bus_open(enum bus_manager manager, uint64_t bound_usec, struct bus **ret_bus, char **ret_reason);
/* Closes at once: what was not sent is not sent. */
struct bus *bus_close(struct bus *bus);
/* Does what can be done without waiting; callbacks run in it. < 0: the connection is of no use any more, and why. */
int bus_step(struct bus *bus, char **ret_reason);
/* What to wait for, and how long at most. */
int bus_fd(const struct bus *bus, short *ret_events);
uint64_t bus_wakeup(const struct bus *bus);
const char *bus_manager_name(enum bus_manager manager); /* "the user manager" */

/* An answer that is awaited. It must not move or go while the connection is open. */
struct bus_call {
        struct bus *bus;
        bool answered;
        sd_bus_message *reply; /* NULL: it is an error */
        char *error_name, *error_message;
};

/* A call to the manager's object at `path` (NULL: its main one), to be filled. */
int bus_new_call(
        struct bus *bus, const char *path, const char *interface, const char *member, sd_bus_message **ret_message);
/* Sends it; takes it over in any case. */
int bus_send(struct bus *bus, sd_bus_message *message, struct bus_call *call);
/* Before the connection is closed. */
void bus_call_done(struct bus_call *call);
/* With a bus daemon between: asks for the manager's signals. */
int bus_subscribe(struct bus *bus, struct bus_call calls[2]);

#define BUS_MANAGER    "org.freedesktop.systemd1.Manager"
#define BUS_PROPERTIES "org.freedesktop.DBus.Properties"
