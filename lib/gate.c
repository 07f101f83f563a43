/* SPDX-License-Identifier: MIT */
#include "gate.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gate-plan.h"
#include "process.h"
#include "stub.h"

#define HELLO_BOUND_MSEC 5000

#ifndef CGTREE_LIBEXECDIR
#error "the build says where the stubs are: -DCGTREE_LIBEXECDIR"
#endif

/* ---- where it is ---------------------------------------------------------------------------------------------- */

static int find_in(const char *directory, const char *program, char **ret_path) {
        _cleanup_free_ char *path = format("%s/%s", directory, program);

        if (!path)
                return -ENOMEM;
        if (access(path, X_OK) < 0)
                return -errno;
        *ret_path = take_pointer(&path);
        return 0;
}

/* The directory of the running executable if that is cgtree itself: a library's host has no stubs beside it. */
static bool own_directory(char buffer[PATH_MAX]) {
        ssize_t n = readlink("/proc/self/exe", buffer, PATH_MAX - 1);
        char *slash;

        if (n < 0)
                return false;
        buffer[n] = '\0';
        slash = strrchr(buffer, '/');
        if (!slash || strcmp(slash + 1, "cgtree") != 0)
                return false;
        *slash = '\0';
        return true;
}

int gate_find(const char *program, char **ret_path) {
        const char *named = secure_getenv("CGTREE_LIBEXEC");
        char directory[PATH_MAX];

        if (named && *named)
                return find_in(named, program, ret_path);
        if (own_directory(directory)) {
                _cleanup_free_ char *libexec = format("%s/../libexec/cgtree", directory);

                if (!libexec)
                        return -ENOMEM;
                if (find_in(directory, program, ret_path) >= 0 || find_in(libexec, program, ret_path) >= 0)
                        return 0;
        }
        return find_in(CGTREE_LIBEXECDIR, program, ret_path);
}

/* ---- its start ------------------------------------------------------------------------------------------------ */

static int spawn_stub(
        const char *path, char *argv[], const struct child_plan *plan, int cgroup_fd, int socket, pid_t *ret_pid) {
        _cleanup_free_ int *fds = calloc(3 + plan->n_fds, sizeof(*fds));

        if (!fds)
                return -ENOMEM;
        fds[0] = socket;
        fds[1] = cgroup_fd;
        fds[2] = plan->directory ? plan->directory_fd : -1;
        for (size_t i = 0; i < plan->n_fds; i++)
                fds[3 + i] = plan->fds[i].source;
        return stub_spawn(path, argv, plan->envp, fds, 3 + plan->n_fds, ret_pid);
}

/* A source that is not open would become whatever gets its number next: our socket. */
static int check_sources(const struct child_plan *plan) {
        for (size_t i = 0; i < plan->n_fds; i++)
                if (plan->fds[i].source >= 0 && fcntl(plan->fds[i].source, F_GETFD) < 0)
                        return -EBADF;
        return 0;
}

static bool can_open_pidfds(void) {
        _cleanup_close_ int pidfd = pidfd_pin(getpid());

        return pidfd >= 0 || (pidfd != -ENOSYS && pidfd != -EPERM);
}

/* A stub that lives after its pid was pinned is who that pid meant, even where the host reaps all its children. */
static int pin(struct gate *gate) {
        struct pollfd socket = { .fd = gate->socket };

        gate->pidfd = pidfd_pin(gate->pid);
        if (gate->pidfd < 0)
                return gate->pidfd;
        return poll(&socket, 1, 0) > 0 && (socket.revents & POLLHUP) ? -ECONNRESET : 0;
}

static int await_hello(struct gate *gate) {
        struct pollfd socket = { .fd = gate->socket, .events = POLLIN };
        struct gate_message message;
        int r;

        do
                r = poll(&socket, 1, HELLO_BOUND_MSEC);
        while (r < 0 && errno == EINTR);
        if (r <= 0)
                return r == 0 ? -ETIMEDOUT : -errno;
        r = gate_receive(gate, &message, &gate->pidfd);
        if (r < 0)
                return r;
        if (message.type != GATE_HELLO)
                return -EBADMSG;
        return gate->pidfd < 0 ? -ENOSYS : 0;
}

/* At the end of file on its socket it exits by itself: only to be reaped, unless it was so already. */
static void abandon(struct gate *gate) {
        pid_t pid = gate->pid;

        gate_done(gate);
        while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
                continue;
}

static int start(const char *program, const struct child_plan *plan, int cgroup_fd, struct gate *ret_gate) {
        _cleanup_free_ char *path = NULL;
        _cleanup_strv_ char **argv = NULL;
        _cleanup_close_ int theirs = -1;
        struct gate gate = GATE_NONE;
        bool introduce = !can_open_pidfds();
        int sockets[2], r;

        r = gate_find(program, &path);
        if (r >= 0)
                r = check_sources(plan);
        if (r < 0)
                return r;
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
                return -errno;
        gate.socket = sockets[0];
        theirs = sockets[1];
        r = gate_plan_encode(program, plan, theirs, cgroup_fd, introduce, &argv);
        if (r >= 0)
                r = spawn_stub(path, argv, plan, cgroup_fd, theirs, &gate.pid);
        close_fd(&theirs);
        if (r >= 0)
                r = introduce ? await_hello(&gate) : pin(&gate);
        if (r < 0) {
                abandon(&gate);
                return r;
        }
        *ret_gate = gate;
        return 0;
}

int gate_start(const struct child_plan *plan, int cgroup_fd, struct gate *ret_gate) {
        return start("cgtree-gate", plan, cgroup_fd, ret_gate);
}

int reaper_start(const struct child_plan *plan, struct gate *ret_gate) {
        return start("cgtree-reaper", plan, -1, ret_gate);
}

/* ---- talking to it -------------------------------------------------------------------------------------------- */

int gate_send(const struct gate *gate, const struct gate_message *message) {
        return gate_message_send(gate->socket, message, -1, MSG_DONTWAIT);
}

int gate_send_fd(const struct gate *gate, const struct gate_message *message, int fd) {
        return gate_message_send(gate->socket, message, fd, MSG_DONTWAIT);
}

int gate_receive(const struct gate *gate, struct gate_message *ret_message, int *ret_fd) {
        return gate_message_receive(gate->socket, ret_message, ret_fd, MSG_DONTWAIT);
}

void gate_done(struct gate *gate) {
        if (!gate)
                return;
        close_fd(&gate->socket);
        close_fd(&gate->pidfd);
        gate->pid = 0;
}
