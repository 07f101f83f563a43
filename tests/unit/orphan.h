/* SPDX-License-Identifier: MIT */
#pragma once

/* Trees as owners that died left them: a directory of cgroups, a record, and members that the kernel tells the end of.
 * All is made below one cgroup of the test program's own, which its unchecked fixture kills and removes, also when a
 * test fails. */

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "identity.h"
#include "owner.h"
#include "records.h"
#include "scratch.h"

#define ORPHAN_BOUND_MSEC 20000 /* far above what anything here takes, also under valgrind */

static struct cgroup orphan_parent = CGROUP_NONE, orphan_base = CGROUP_NONE;

/* False, said why, where no cgroup can be made: nothing of all this can be tested. */
static inline bool orphan_can_be_made(void) {
        _cleanup_free_ char *own = NULL;
        char name[64];
        int r = cgroup_path_of(0, &own);

        if (r >= 0)
                r = cgroup_open(own, &orphan_parent);
        snprintf(name, sizeof(name), "cgtree-test-%d", (int)getpid());
        if (r >= 0)
                r = cgroup_create(&orphan_parent, name, &orphan_base);
        if (r < 0)
                printf("skipped: no cgroup can be made below ours: %s\n", strerror(-r));
        return r >= 0;
}

static inline void orphan_teardown(void) {
        for (int i = 0; i < 2000 && cgroup_is_populated(&orphan_base) == 1; i++) {
                cgroup_kill(&orphan_base);
                usleep(1000);
        }
        cgroup_remove(&orphan_parent, strrchr(orphan_base.path, '/') + 1, USEC_PER_SEC);
        cgroup_done(&orphan_base);
        cgroup_done(&orphan_parent);
}

/* Not before Linux 5.3, nor under valgrind: there an owner that has a pid is never proven gone. */
static inline bool orphan_has_pidfd(void) {
        _cleanup_close_ int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);

        if (fd < 0)
                printf("skipped: all that needs pidfd_open\n");
        return fd >= 0;
}

/* The stubs are two folders further, in tools. */
static inline void orphan_setup_helpers(void) {
        char path[4096];
        ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 16);

        if (n < 0)
                return;
        path[n] = '\0';
        strcpy(strrchr(path, '/'), "/../../tools");
        setenv("CGTREE_LIBEXEC", path, 0);
}

/* ---- processes ------------------------------------------------------------------------------------------ */

struct member {
        pid_t pid;
        int life; /* end of file: it is dead, and all that it has forked */
};

/* Runs fn (NULL: nothing) in a child in the cgroup (NULL: ours), which then waits to be killed. */
static inline struct member member_start(const struct cgroup *cgroup, void (*fn)(void)) {
        struct member member;
        int ends[2];
        char ready;

        ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
        member.pid = fork();
        ck_assert_int_ge(member.pid, 0);
        if (member.pid == 0) {
                signal(SIGTERM, SIG_DFL); /* check has a handler that passes it on to the whole group */
                signal(SIGINT, SIG_DFL);
                alarm(60);
                if (cgroup && write_file_at(cgroup->fd, "cgroup.procs", "0") < 0)
                        _exit(1);
                if (fn)
                        fn();
                if (write(ends[1], "", 1) == 1)
                        for (;;)
                                pause();
                _exit(1);
        }
        close(ends[1]);
        ck_assert_int_eq(read(ends[0], &ready, 1), 1);
        member.life = ends[0];
        return member;
}

static inline bool member_lives(const struct member *member) {
        struct pollfd life = { .fd = member->life, .events = POLLIN };

        return poll(&life, 1, 0) == 0;
}

/* The kernel closed all that held the other end. */
static inline void member_await_death(struct member *member) {
        struct pollfd life = { .fd = member->life, .events = POLLIN };
        char byte;

        ck_assert_int_eq(poll(&life, 1, ORPHAN_BOUND_MSEC), 1);
        ck_assert_int_eq(read(member->life, &byte, 1), 0);
        close_fd(&member->life);
        waitpid(member->pid, NULL, 0);
}

static inline void member_end(struct member *member) {
        kill(member->pid, SIGKILL);
        member_await_death(member);
}

static inline struct process_identity identity_of(pid_t pid) {
        struct process process = PROCESS_NONE;
        struct process_identity identity;

        ck_assert_int_eq(process_open(pid, &process), 0);
        identity = process.identity;
        process_done(&process);
        return identity;
}

static inline struct process_identity identity_of_dead(void) {
        struct member member = member_start(NULL, NULL);
        struct process_identity identity = identity_of(member.pid);

        member_end(&member);
        return identity;
}

/* ---- trees ---------------------------------------------------------------------------------------------- */

/* Its record, with ourselves as the owner; home is named after it. */
static inline struct record orphan_record(const struct cgroup *base) {
        struct record record = { .placement = CGTREE_PLACEMENT_SUBTREE, .command = strdup("sleep") };

        ck_assert_int_eq(id_random(record.id), 0);
        ck_assert_int_eq(record_fill_origin(&record), 0);
        record.cgroup = format("%s/cgtree-%d-%.6s/trees/%s", base->path, (int)getpid(), record.id, record.id);
        return record;
}

static inline void make_home(const struct cgroup *base, const struct record *record, struct cgroup *ret_trees) {
        _cleanup_free_ char *name = format("cgtree-%d-%.6s", (int)getpid(), record->id);
        _cleanup_free_ char *stamp = identity_stamp(record);
        struct cgroup home = CGROUP_NONE;

        ck_assert_int_eq(cgroup_create(base, name, &home), 0);
        ck_assert_int_eq(cgroup_set_xattr(&home, CGROUP_XATTR_OWNER, stamp), 0);
        ck_assert_int_eq(cgroup_create(&home, "trees", ret_trees), 0);
        cgroup_done(&home);
}

/* The cgroup of the record, stamped with its owner and id; the record learns the inode. */
static inline struct cgroup orphan_make(const struct cgroup *base, struct record *record) {
        struct cgroup trees = CGROUP_NONE, tree = CGROUP_NONE;

        make_home(base, record, &trees);
        ck_assert_int_eq(cgroup_create(&trees, record->id, &tree), 0);
        ck_assert_int_eq(cgroup_set_xattr(&tree, CGROUP_XATTR_ID, record->id), 0);
        record->cgroup_id = tree.id;
        cgroup_done(&trees);
        return tree;
}

/* ---- owners --------------------------------------------------------------------------------------------- */

/* A process that owns one tree through the library: `placement`, in the cgroup `base`, running `script` in a shell. It
 * says so when the tree runs, and then waits to be killed. */
struct keeper {
        const char *records, *script, *name;
        enum cgtree_placement placement;
        uint64_t death_grace_usec;
        bool lose_guard; /* it is killed as soon as the tree runs */
        int tree_output; /* the tree's standard output */
};

static const struct keeper *keeper_wanted;

static inline void keeper_lose_guard(const cgtree_owner *owner) {
        struct pollfd guard = { .fd = owner->home.guard.pidfd, .events = POLLIN };

        if (pidfd_signal(guard.fd, SIGKILL) < 0 || poll(&guard, 1, ORPHAN_BOUND_MSEC) != 1)
                _exit(1);
}

static inline void keeper_run(void) {
        const struct keeper *keeper = keeper_wanted;
        cgtree_owner *owner;
        cgtree_command *command;
        cgtree_tree *tree;
        int r;

        r = cgtree_owner_new(&owner);
        if (r >= 0)
                r = cgtree_owner_set_records(owner, keeper->records);
        if (r >= 0)
                r = cgtree_owner_set_base(owner, orphan_base.path);
        if (r >= 0)
                r = cgtree_owner_set_placement(owner, keeper->placement, CGTREE_GUARANTEE_GROUP);
        if (r >= 0)
                r = cgtree_owner_set_grace(owner, CGTREE_DEFAULT, keeper->death_grace_usec);
        if (r >= 0)
                r = cgtree_owner_open(owner, CGTREE_FOREVER);
        if (r >= 0)
                r = cgtree_command_new(&command, (const char *const[]){ "/bin/sh", "-c", keeper->script, NULL });
        if (r >= 0)
                r = cgtree_command_set_name(command, keeper->name);
        if (r >= 0)
                r = cgtree_command_set_fd(command, 1, keeper->tree_output);
        if (r >= 0)
                r = cgtree_spawn(owner, command, &tree);
        if (r < 0) {
                fprintf(stderr, "the keeper failed: %s\n", strerror(-r));
                _exit(1);
        }
        if (keeper->lose_guard)
                keeper_lose_guard(owner);
        close(keeper->tree_output);
}

/* What the tree wrote ends when all of it is dead. The keeper's own life is its member. */
static inline struct member keeper_start(struct keeper keeper, int *ret_output) {
        struct member member;
        int ends[2];

        ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
        keeper.tree_output = ends[1];
        keeper_wanted = &keeper;
        member = member_start(NULL, keeper_run);
        close(ends[1]);
        *ret_output = ends[0];
        return member;
}

/* The next line; "": all that could write is dead. */
static inline char *output_line(int output, char *buffer, size_t size) {
        struct pollfd source = { .fd = output, .events = POLLIN };
        size_t n = 0;

        while (n + 1 < size) {
                ck_assert_int_eq(poll(&source, 1, ORPHAN_BOUND_MSEC), 1);
                if (read(output, buffer + n, 1) <= 0 || buffer[n] == '\n')
                        break;
                n++;
        }
        buffer[n] = '\0';
        return buffer;
}

static inline bool output_lives(int output) {
        struct pollfd source = { .fd = output, .events = POLLIN };

        return poll(&source, 1, 0) == 0;
}
