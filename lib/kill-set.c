/* SPDX-License-Identifier: MIT */
#include "kill-set.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gate.h"

static struct kill_slot *find_free(struct kill_set *set) {
        for (struct kill_chunk *chunk = set->first; chunk; chunk = chunk->next)
                for (size_t i = 0; i < KILL_SLOTS; i++)
                        if (chunk->slots[i].kind == KILL_NONE)
                                return &chunk->slots[i];
        return NULL;
}

struct kill_slot *kill_set_add(struct kill_set *set, enum kill_kind kind, int fd) {
        struct kill_slot *slot = find_free(set);
        if (!slot) {
                struct kill_chunk *chunk = calloc(1, sizeof(*chunk));
                if (!chunk)
                        return NULL;
                chunk->next = set->first;
                __atomic_store_n(&set->first, chunk, __ATOMIC_RELEASE);
                slot = &chunk->slots[0];
        }
        slot->fd = fd;
        __atomic_store_n(&slot->kind, (int)kind, __ATOMIC_RELEASE);
        return slot;
}

/* A handler in this thread has returned by now; one in another runs for microseconds. */
void kill_set_remove(struct kill_set *set, struct kill_slot **slot) {
        if (!*slot)
                return;
        __atomic_store_n(&(*slot)->kind, KILL_NONE, __ATOMIC_SEQ_CST);
        while (__atomic_load_n(&set->n_handlers, __ATOMIC_SEQ_CST) > 0)
                sched_yield();
        *slot = NULL;
}

void kill_set_done(struct kill_set *set) {
        for (struct kill_chunk *chunk = set->first, *next; chunk; chunk = next) {
                next = chunk->next;
                free(chunk);
        }
        set->first = NULL;
}

static bool tell(int socket, int type) {
        struct gate_message message = { .type = type };
        return send(socket, &message, sizeof(message), MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

/* A cgroup that is going says ENOENT for a moment, then ENODEV. */
static bool write_kill(int fd) {
        return write(fd, "1", 1) == 1 || errno == ENODEV || errno == ENOENT;
}

static bool kill_tree(int directory) {
        int fd = openat(directory, "cgroup.kill", O_WRONLY | O_CLOEXEC);
        if (fd < 0) /* gone itself, or this kernel has no such file */
                return errno == ENODEV || (errno == ENOENT && faccessat(directory, "cgroup.events", F_OK, 0) < 0);
        bool killed = write_kill(fd);
        (void)close(fd);
        return killed;
}

static bool kill_one(const struct kill_slot *slot, enum kill_kind kind) {
        if (kind == KILL_CGROUP)
                return write_kill(slot->fd);
        if (kind == KILL_TREE)
                return kill_tree(slot->fd);
        return tell(slot->fd, GATE_KILL) || errno == EPIPE || errno == ECONNRESET ||
               errno == EAGAIN; /* it has gone by itself, or has not read this very word yet */
}

/* The guard only where no cgroup.kill is to be had: it stays, since what it guards may go on. */
static int kill_all(struct kill_set *set, bool guard_too) {
        int n_failed = 0;
        for (struct kill_chunk *chunk = __atomic_load_n(&set->first, __ATOMIC_ACQUIRE); chunk; chunk = chunk->next)
                for (size_t i = 0; i < KILL_SLOTS; i++) {
                        enum kill_kind kind = __atomic_load_n(&chunk->slots[i].kind, __ATOMIC_SEQ_CST);
                        if (kind != KILL_NONE && (kind != KILL_GUARD || guard_too))
                                n_failed += !kill_one(&chunk->slots[i], kind);
                }
        return n_failed;
}

static bool has(struct kill_set *set, enum kill_kind wanted) {
        for (struct kill_chunk *chunk = __atomic_load_n(&set->first, __ATOMIC_ACQUIRE); chunk; chunk = chunk->next)
                for (size_t i = 0; i < KILL_SLOTS; i++)
                        if (__atomic_load_n(&chunk->slots[i].kind, __ATOMIC_SEQ_CST) == (int)wanted)
                                return true;
        return false;
}

int kill_set_kill(struct kill_set *set) {
        int saved = errno;
        __atomic_add_fetch(&set->n_handlers, 1, __ATOMIC_SEQ_CST);
        int n_failed = kill_all(set, !has(set, KILL_CGROUP) && !has(set, KILL_TREE));
        __atomic_sub_fetch(&set->n_handlers, 1, __ATOMIC_SEQ_CST);
        errno = saved;
        return n_failed;
}

int kill_set_tear_down(struct kill_set *set) {
        int saved = errno, n_failed = 0;
        __atomic_add_fetch(&set->n_handlers, 1, __ATOMIC_SEQ_CST);
        for (struct kill_chunk *chunk = __atomic_load_n(&set->first, __ATOMIC_ACQUIRE); chunk; chunk = chunk->next)
                for (size_t i = 0; i < KILL_SLOTS; i++) {
                        enum kill_kind kind = __atomic_load_n(&chunk->slots[i].kind, __ATOMIC_SEQ_CST);
                        if (kind != KILL_GUARD && kind != KILL_REAPER)
                                continue;
                        if (!tell(chunk->slots[i].fd, GATE_TEARDOWN) && kind == KILL_GUARD)
                                n_failed += kill_all(set, false);
                }
        __atomic_sub_fetch(&set->n_handlers, 1, __ATOMIC_SEQ_CST);
        errno = saved;
        return n_failed;
}
