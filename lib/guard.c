/* SPDX-License-Identifier: MIT */
#include "guard.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gate-plan.h"
#include "process.h"
#include "stub.h"

/* ---- its start ------------------------------------------------------------------------------------------------ */

static char **make_arguments(const struct guard_options *options, int socket) {
        char *argv[] = {
                format("cgtree-guard"),
                format("%d", socket),
                format("%d", options->trees ? options->trees->fd : -1),
                format("%d", options->records_fd),
                format("%llu", (unsigned long long)options->grace_usec),
                format("%llu", (unsigned long long)options->death_grace_usec),
                format(options->as_child ? "child" : "orphan"),
                format("%s", options->trees ? options->trees->path : ""),
                NULL,
        };
        char **copy = calloc(sizeof(argv) / sizeof(*argv), sizeof(char *));
        bool complete = copy;
        for (size_t i = 0; i < sizeof(argv) / sizeof(*argv) - 1; i++) {
                complete = complete && argv[i];
                if (copy)
                        copy[i] = argv[i];
                else
                        free(argv[i]);
        }
        if (complete)
                return copy;
        for (size_t i = 0; copy && i < sizeof(argv) / sizeof(*argv) - 1; i++)
                free(copy[i]);
        free(copy);
        return NULL;
}

static int spawn_guard(const struct guard_options *options, const char *path, int socket, pid_t *ret_pid) {
        _cleanup_strv_ char **argv = make_arguments(options, socket);
        const int fds[] = { socket, options->trees ? options->trees->fd : -1, options->records_fd };
        char *const no_environment[] = { NULL };
        if (!argv)
                return -ENOMEM;
        return stub_spawn(path, argv, no_environment, fds, sizeof(fds) / sizeof(*fds), ret_pid);
}

int guard_start(const struct guard_options *options, struct guard *ret_guard) {
        _cleanup_free_ char *path = NULL;
        int sockets[2];
        int r = gate_find("cgtree-guard", &path);
        if (r < 0)
                return r;
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
                return -errno;
        struct guard guard = { .pidfd = -1, .socket = sockets[0], .is_child = options->as_child };
        r = spawn_guard(options, path, sockets[1], &guard.pid);
        close_fd(&sockets[1]);
        if (r < 0) {
                close_fd(&guard.socket);
                return r;
        }
        *ret_guard = guard;
        return 0;
}

/* ---- talking to it -------------------------------------------------------------------------------------------- */

/* By pid: it is our child and not reaped, unless our program reaps whatever it can; then there is nothing to be done. */
static void reap(pid_t pid) {
        while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
                ;
}

/* What it says first: itself. */
static int meet(struct guard *guard, const struct gate_message *message, int *fd) {
        if (message->type != GATE_READY || *fd < 0)
                return -EBADMSG;
        guard->pidfd = take_fd(fd);
        guard->guard_pid = message->pid;
        if (!guard->is_child) {
                /* It said so after it was forked, and its parent had nothing else to do. */
                reap(guard->pid);
                guard->pid = 0;
        }
        return 0;
}

/* One tree that it cannot hold is that tree's failure, told by guard_holds(); without the trees' directory it is no guard. */
static int hear_answer(struct guard *guard, const struct gate_message *message) {
        if (message->type != GATE_HELD)
                return -EBADMSG;
        guard->n_held++;
        if (message->error == 0)
                return 0;
        guard->refused = guard->n_held;
        return message->id[0] ? 0 : message->error;
}

int guard_look(struct guard *guard) {
        while (guard->pidfd < 0 || guard->n_held != guard->n_given) {
                struct gate_message message;
                _cleanup_close_ int fd = -1;
                int r = gate_message_receive(guard->socket, &message, &fd, MSG_DONTWAIT);
                if (r == -EAGAIN)
                        return 0;
                if (r >= 0 && guard->pidfd < 0)
                        r = meet(guard, &message, &fd);
                else if (r >= 0)
                        r = hear_answer(guard, &message);
                if (r < 0)
                        return r;
        }
        return 1;
}

static int give(struct guard *guard, int type, const char *id, const struct cgroup *cgroup) {
        struct gate_message message = { .type = type };
        if (guard->socket < 0)
                return -EPIPE;
        if (id)
                memcpy(message.id, id, sizeof(message.id));
        int r = gate_message_send_text(guard->socket, &message, cgroup->path, cgroup->fd, MSG_DONTWAIT);
        if (r >= 0)
                guard->n_given++;
        return r;
}

int guard_give_trees(struct guard *guard, const struct cgroup *trees) {
        return give(guard, GATE_TREES, NULL, trees);
}

int guard_give_tree(struct guard *guard, const char *id, const struct cgroup *cgroup, unsigned *ret_number) {
        int r = give(guard, GATE_HOLD, id, cgroup);
        if (r >= 0)
                *ret_number = guard->n_given;
        return r;
}

/* Numbers come round. */
int guard_holds(const struct guard *guard, unsigned number) {
        if ((int)(guard->n_held - number) < 0)
                return 0;
        return number == guard->refused ? -ENOBUFS : 1;
}

void guard_drop_tree(const struct guard *guard, const char *id) {
        struct gate_message message = { .type = GATE_DROP };
        memcpy(message.id, id, sizeof(message.id));
        if (guard->socket >= 0)
                (void)gate_message_send(guard->socket, &message, -1, MSG_DONTWAIT);
}

bool guard_is_dead(const struct guard *guard) {
        return guard->socket < 0 || (guard->pidfd >= 0 && pidfd_is_dead(guard->pidfd) == 1);
}

static int send_word(const struct guard *guard, int type) {
        struct gate_message message = { .type = type };
        if (guard->socket < 0)
                return -EPIPE;
        return send(guard->socket, &message, sizeof(message), MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

int guard_tear_down(const struct guard *guard) {
        return send_word(guard, GATE_TEARDOWN);
}

void guard_close(struct guard *guard) {
        close_fd(&guard->socket);
        close_fd(&guard->pidfd);
}

void guard_bury(struct guard *guard) {
        /* Somebody of the tree may have stopped it. By its pidfd: the pid may be a stranger's, where the host reaps all. */
        if (guard->pidfd >= 0)
                (void)pidfd_signal(guard->pidfd, SIGCONT);
        guard_close(guard);
        reap(guard->pid);
        guard->pid = 0;
}

void guard_done(struct guard *guard) {
        (void)send_word(guard, GATE_BYE);
        guard_bury(guard);
}

void guard_kill(struct guard *guard) {
        if (guard->pidfd >= 0)
                (void)pidfd_signal(guard->pidfd, SIGKILL);
        guard_done(guard);
}
