/* SPDX-License-Identifier: MIT */
#include "gate-plan.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- the plan as arguments ------------------------------------------------------------------------------------ */

/* Arguments while they are gathered: NULL-terminated at any time; `failed` once memory ran out. */
struct arguments {
        char **strings;
        size_t n, allocated;
        bool failed;
};

/* Takes the string over; NULL (a format() that failed) is a failure like its own. */
static void arguments_take(struct arguments *arguments, char *string) {
        if (arguments->n + 2 > arguments->allocated) {
                size_t allocated = arguments->allocated * 2 + 32;
                char **grown = reallocarray(arguments->strings, allocated, sizeof(char *));

                if (!grown) {
                        arguments->failed = true;
                        free(string);
                        return;
                }
                arguments->strings = grown;
                arguments->allocated = allocated;
        }
        arguments->strings[arguments->n] = string;
        arguments->strings[arguments->n + 1] = NULL;
        if (string)
                arguments->n++;
        else
                arguments->failed = true;
}

static void encode_fds(struct arguments *arguments, const struct child_plan *plan) {
        for (size_t i = 0; i < plan->n_fds; i++) {
                int source = plan->fds[i].source, flags = source >= 0 ? fcntl(source, F_GETFD) : 0;

                arguments_take(arguments, format("fd=%d:%d", plan->fds[i].target, source));
                if (plan->inherit_fds && flags >= 0 && (flags & FD_CLOEXEC))
                        arguments_take(arguments, format("close-on-exec=%d", source));
        }
        if (plan->inherit_fds)
                arguments_take(arguments, strdup("inherit-fds"));
}

static void encode_user(struct arguments *arguments, const struct child_plan *plan) {
        if (!plan->set_user)
                return;
        arguments_take(arguments, format("user=%" PRIu32 ":%" PRIu32, (uint32_t)plan->uid, (uint32_t)plan->gid));
        for (size_t i = 0; i < plan->n_groups; i++)
                arguments_take(arguments, format("group=%" PRIu32, (uint32_t)plan->groups[i]));
}

static void encode_directory(struct arguments *arguments, const struct child_plan *plan) {
        if (!plan->directory)
                return;
        arguments_take(arguments, format("directory=%s", plan->directory));
        if (plan->directory_fd < 0)
                return;
        arguments_take(arguments, format("directory-fd=%d", plan->directory_fd));
        if (plan->inherit_fds && (fcntl(plan->directory_fd, F_GETFD) & FD_CLOEXEC))
                arguments_take(arguments, format("close-on-exec=%d", plan->directory_fd));
}

int gate_plan_encode(const char *program, const struct child_plan *plan, int socket, int cgroup_fd, bool introduce,
        char ***ret_argv) {
        struct arguments arguments = { 0 };

        arguments_take(&arguments, strdup(program));
        arguments_take(&arguments, format("socket=%d", socket));
        if (cgroup_fd >= 0)
                arguments_take(&arguments, format("cgroup=%d", cgroup_fd));
        if (introduce)
                arguments_take(&arguments, strdup("introduce"));
        arguments_take(&arguments, format("session=%d", (int)plan->session));
        arguments_take(&arguments, format("blocked=%" PRIu64, plan->blocked));
        arguments_take(&arguments, format("ignored=%" PRIu64, plan->ignored));
        encode_directory(&arguments, plan);
        encode_user(&arguments, plan);
        encode_fds(&arguments, plan);
        for (size_t i = 0; plan->executables[i]; i++)
                arguments_take(&arguments, format("executable=%s", plan->executables[i]));
        arguments_take(&arguments, strdup("--"));
        for (size_t i = 0; plan->argv[i]; i++)
                arguments_take(&arguments, strdup(plan->argv[i]));
        if (arguments.failed) {
                strv_free(arguments.strings);
                return -ENOMEM;
        }
        *ret_argv = arguments.strings;
        return 0;
}

/* ---- and back ------------------------------------------------------------------------------------------------- */

static int parse_number(const char *text, uint64_t maximum, uint64_t *ret_value) {
        uint64_t value;

        if (parse_u64(text, &value) < 0 || value > maximum)
                return -EINVAL;
        *ret_value = value;
        return 0;
}

static int parse_fd(const char *text, int *ret_fd) {
        uint64_t value;
        int r = parse_number(text, INT_MAX, &value);

        if (r >= 0)
                *ret_fd = (int)value;
        return r;
}

/* "A:B"; A's end is found by its length, so that nothing has to be written to the argument. */
static int parse_pair(const char *text, uint64_t maximum, uint64_t *ret_first, const char **ret_second) {
        char first[24];
        size_t length = strcspn(text, ":");

        if (text[length] != ':' || length >= sizeof(first))
                return -EINVAL;
        memcpy(first, text, length);
        first[length] = '\0';
        *ret_second = text + length + 1;
        return parse_number(first, maximum, ret_first);
}

static int decode_fd(struct gate_plan *plan, const char *text) {
        struct child_fd *fd = &plan->child.fds[plan->child.n_fds];
        uint64_t target;
        const char *source;
        int r = parse_pair(text, INT_MAX, &target, &source);

        if (r < 0)
                return r;
        fd->target = (int)target;
        fd->source = CGTREE_FD_NULL;
        if (strcmp(source, "-1") != 0)
                r = parse_fd(source, &fd->source);
        if (r >= 0)
                plan->child.n_fds++;
        return r;
}

static int decode_user(struct gate_plan *plan, const char *text) {
        uint64_t uid, gid;
        const char *rest;
        int r = parse_pair(text, UINT32_MAX, &uid, &rest);

        if (r >= 0)
                r = parse_number(rest, UINT32_MAX, &gid);
        if (r < 0)
                return r;
        plan->child.set_user = true;
        plan->child.uid = (uid_t)uid;
        plan->child.gid = (gid_t)gid;
        return 0;
}

static int decode_group(struct gate_plan *plan, const char *text) {
        uint64_t gid;
        int r = parse_number(text, UINT32_MAX, &gid);

        if (r >= 0)
                plan->child.groups[plan->child.n_groups++] = (gid_t)gid;
        return r;
}

static int decode_session(struct gate_plan *plan, const char *text) {
        uint64_t session;
        int r = parse_number(text, CGTREE_SESSION_TTY, &session);

        if (r >= 0)
                plan->child.session = (enum cgtree_session)session;
        return r;
}

static int decode_one(struct gate_plan *plan, char *argument, size_t *n_executables) {
        size_t length = strcspn(argument, "=");
        char *value = argument + length + (argument[length] == '=');

#define IS(key) (length == sizeof(key) - 1 && memcmp(argument, key, length) == 0)
        if (IS("socket"))
                return parse_fd(value, &plan->socket);
        if (IS("cgroup"))
                return parse_fd(value, &plan->cgroup_fd);
        if (IS("session"))
                return decode_session(plan, value);
        if (IS("blocked"))
                return parse_number(value, UINT64_MAX, &plan->child.blocked);
        if (IS("ignored"))
                return parse_number(value, UINT64_MAX, &plan->child.ignored);
        if (IS("directory-fd"))
                return parse_fd(value, &plan->child.directory_fd);
        if (IS("user"))
                return decode_user(plan, value);
        if (IS("group"))
                return decode_group(plan, value);
        if (IS("fd"))
                return decode_fd(plan, value);
        if (IS("close-on-exec"))
                return parse_fd(value, &plan->close_on_exec[plan->n_close_on_exec++]);
        if (IS("directory"))
                plan->child.directory = value;
        else if (IS("executable"))
                plan->child.executables[(*n_executables)++] = value;
        else if (IS("inherit-fds"))
                plan->child.inherit_fds = true;
        else if (IS("introduce"))
                plan->introduce = true;
        else
                return -EINVAL;
        return 0;
#undef IS
}

int gate_plan_decode(char *argv[], char *envp[], struct gate_plan *ret_plan) {
        struct gate_plan plan = { .socket = -1, .cgroup_fd = -1 };
        size_t n = strv_length((const char *const *)argv), n_executables = 0, i = 1;
        int r = 0;

        plan.child.envp = envp;
        plan.child.directory_fd = AT_FDCWD;
        plan.child.fds = calloc(n + 1, sizeof(*plan.child.fds));
        plan.child.groups = calloc(n + 1, sizeof(*plan.child.groups));
        plan.child.executables = calloc(n + 1, sizeof(char *));
        plan.close_on_exec = calloc(n + 1, sizeof(int));
        if (!plan.child.fds || !plan.child.groups || !plan.child.executables || !plan.close_on_exec)
                r = -ENOMEM;
        for (; r >= 0 && i < n && strcmp(argv[i], "--") != 0; i++)
                r = decode_one(&plan, argv[i], &n_executables);
        if (r >= 0 && (plan.socket < 0 || n_executables == 0 || i + 1 >= n))
                r = -EINVAL;
        if (r < 0) {
                gate_plan_done(&plan);
                return r;
        }
        plan.child.argv = argv + i + 1;
        *ret_plan = plan;
        return 0;
}

void gate_plan_done(struct gate_plan *plan) {
        free(plan->child.fds);
        free(plan->child.groups);
        free(plan->child.executables);
        free(plan->close_on_exec);
        *plan = (struct gate_plan){ .socket = -1, .cgroup_fd = -1 };
}

/* ---- the stub's descriptors ----------------------------------------------------------------------------------- */

static int move_socket(struct gate_plan *plan) {
        int lowest = STDERR_FILENO + 1, moved;

        for (size_t i = 0; i < plan->child.n_fds; i++)
                if (plan->child.fds[i].target >= lowest)
                        lowest = plan->child.fds[i].target + 1;
        moved = fcntl(plan->socket, F_DUPFD_CLOEXEC, lowest);
        if (moved < 0)
                return -errno;
        close_fd(&plan->socket);
        plan->socket = moved;
        return 0;
}

static int close_unneeded(const struct gate_plan *plan) {
        _cleanup_free_ int *kept = calloc(plan->child.n_fds + 3, sizeof(int));
        size_t n = 0;

        if (!kept)
                return -ENOMEM;
        for (size_t i = 0; i < plan->child.n_fds; i++)
                if (plan->child.fds[i].source >= 0)
                        kept[n++] = plan->child.fds[i].source;
        if (plan->child.directory_fd >= 0)
                kept[n++] = plan->child.directory_fd;
        if (plan->cgroup_fd >= 0)
                kept[n++] = plan->cgroup_fd;
        kept[n++] = plan->socket;
        return child_close_others(kept, n);
}

/* Without a pidfd too: the owner is to know that there is none. */
static void say_hello(const struct gate_plan *plan) {
        _cleanup_close_ int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
        struct gate_message message = { .type = GATE_HELLO, .pid = getpid() };

        (void)gate_message_send(plan->socket, &message, pidfd, 0);
}

int gate_plan_settle(struct gate_plan *plan) {
        int r;

        if (plan->introduce)
                say_hello(plan);
        r = move_socket(plan);
        if (r < 0)
                return r;
        if (plan->cgroup_fd >= 0 && fcntl(plan->cgroup_fd, F_SETFD, FD_CLOEXEC) < 0)
                return -errno;
        for (size_t i = 0; i < plan->n_close_on_exec; i++)
                if (fcntl(plan->close_on_exec[i], F_SETFD, FD_CLOEXEC) < 0)
                        return -errno;
        return plan->child.inherit_fds ? 0 : close_unneeded(plan);
}

/* ---- messages ------------------------------------------------------------------------------------------------- */

union passed_fd {
        char buffer[CMSG_SPACE(sizeof(int))];
        struct cmsghdr header;
};

int gate_message_send(int socket, const struct gate_message *message, int fd, int flags) {
        return gate_message_send_text(socket, message, "", fd, flags);
}

int gate_message_send_text(int socket, const struct gate_message *message, const char *text, int fd, int flags) {
        union passed_fd passed = { .buffer = { 0 } };
        struct iovec data[] = {
                { .iov_base = (void *)(uintptr_t)message, .iov_len = sizeof(*message) },
                { .iov_base = (void *)(uintptr_t)text, .iov_len = strlen(text) },
        };
        struct msghdr packet = { .msg_iov = data, .msg_iovlen = 2 };
        ssize_t n;

        if (fd >= 0) {
                passed.header.cmsg_level = SOL_SOCKET;
                passed.header.cmsg_type = SCM_RIGHTS;
                passed.header.cmsg_len = CMSG_LEN(sizeof(int));
                memcpy(CMSG_DATA(&passed.header), &fd, sizeof(fd));
                packet.msg_control = &passed;
                packet.msg_controllen = sizeof(passed);
        }
        do
                n = sendmsg(socket, &packet, MSG_NOSIGNAL | flags);
        while (n < 0 && errno == EINTR);
        if (n < 0)
                return errno == ECONNRESET ? -EPIPE : -errno;
        return 0;
}

int gate_message_receive(int socket, struct gate_message *ret_message, int *ret_fd, int flags) {
        char none[1];
        return gate_message_receive_text(socket, ret_message, none, sizeof(none), ret_fd, flags);
}

int gate_message_receive_text(
        int socket, struct gate_message *ret_message, char *ret_text, size_t size, int *ret_fd, int flags) {
        union passed_fd passed = { .buffer = { 0 } };
        struct gate_message message = { 0 };
        struct iovec data[] = {
                { .iov_base = &message, .iov_len = sizeof(message) },
                { .iov_base = ret_text, .iov_len = size - 1 },
        };
        struct msghdr packet = {
                .msg_iov = data, .msg_iovlen = 2, .msg_control = &passed, .msg_controllen = sizeof(passed)
        };
        _cleanup_close_ int fd = -1;
        struct cmsghdr *header;
        ssize_t n;
        int resets = 0;

        /* A peer that went without reading everything resets us, once: what it had sent before is still to be read. */
        do
                n = recvmsg(socket, &packet, MSG_CMSG_CLOEXEC | flags);
        while (n < 0 && (errno == EINTR || (errno == ECONNRESET && resets++ == 0)));
        if (n < 0)
                return errno == EWOULDBLOCK ? -EAGAIN : -errno;
        header = CMSG_FIRSTHDR(&packet);
        if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
                header->cmsg_len == CMSG_LEN(sizeof(int)))
                memcpy(&fd, CMSG_DATA(header), sizeof(fd));
        if (n == 0)
                return -ECONNRESET;
        if (n < (ssize_t)sizeof(message) || (packet.msg_flags & MSG_TRUNC))
                return -EBADMSG;
        ret_text[n - (ssize_t)sizeof(message)] = '\0';
        *ret_message = message;
        if (ret_fd)
                *ret_fd = take_fd(&fd);
        return 0;
}
