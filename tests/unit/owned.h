/* SPDX-License-Identifier: MIT */
#pragma once

/* An owner for tests, with a records directory of its own, in each of the placements that this machine gives; with a manager of
 * systemd's (tests/e2e/userhost.sh) in a scope for each tree, too, and subtree means one scope for all. */

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include "owner.h"
#include "process.h"
#include "scratch.h"

static const enum cgtree_placement placements[] = {
        CGTREE_PLACEMENT_SUBTREE,
        CGTREE_PLACEMENT_GROUP,
        CGTREE_PLACEMENT_SCOPE,
};
#define N_PLACEMENTS (getenv("CGTREE_TEST_MANAGER") ? 3 : 2)

#define LONG_USEC (20 * USEC_PER_SEC) /* far above what anything here takes, also under valgrind */

static cgtree_owner *owner;
static int records;
static enum cgtree_placement placement;

static inline cgtree_owner *owned_new(enum cgtree_placement wanted) {
        char path[96];
        cgtree_owner *new_owner;
        records = scratch_open(path, sizeof(path));
        ck_assert_int_eq(cgtree_owner_new(&new_owner), 0);
        ck_assert_int_eq(cgtree_owner_set_records(new_owner, path), 0);
        ck_assert_int_eq(cgtree_owner_set_placement(new_owner, wanted, CGTREE_GUARANTEE_GROUP), 0);
        return new_owner;
}

static inline void owned_open(enum cgtree_placement wanted) {
        placement = wanted;
        owner = owned_new(wanted);
        int r = cgtree_owner_open(owner, LONG_USEC);
        ck_assert_msg(r == 0, "cannot open the owner: %s", cgtree_owner_get_error(owner));
}

/* Closes it and sees that nothing is left: no record, no cgroup, no child. */
static inline void owned_close(void) {
        _cleanup_free_ char *home = owner->home.directory.path ? strdup(owner->home.directory.path) : NULL;
        ck_assert_int_eq(cgtree_owner_close(owner, 0, LONG_USEC), 0);
        ck_assert_uint_eq(scratch_count(records), 0);
        cgtree_owner_free(owner);
        close(records);
        struct cgroup gone = CGROUP_NONE;
        if (home)
                ck_assert_int_eq(cgroup_open(home, &gone), -ENOENT);
        ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
        ck_assert_int_eq(errno, ECHILD);
}

static inline cgtree_command *owned_command(const char *script) {
        cgtree_command *command;
        ck_assert_int_eq(cgtree_command_new(&command, (const char *const[]){ "/bin/sh", "-c", script, NULL }), 0);
        return command;
}

static inline cgtree_tree *owned_spawn_command(cgtree_command *command) {
        cgtree_tree *tree;
        const char *message;
        int r = cgtree_spawn(owner, command, &tree);
        cgtree_command_get_error(command, &message);
        ck_assert_msg(r == 0, "spawn: %d: %s", r, message);
        cgtree_command_free(command);
        return tree;
}

static inline cgtree_tree *owned_spawn(const char *script) {
        return owned_spawn_command(owned_command(script));
}

/* A tree whose script has said `ready` on its standard output: what it set up before is in force. */
static inline cgtree_tree *owned_spawn_ready(cgtree_command *command, int *ret_output) {
        ck_assert_int_eq(cgtree_command_set_fd(command, 1, CGTREE_FD_PIPE), 0);
        cgtree_tree *tree = owned_spawn_command(command);
        int output = cgtree_tree_take_fd(tree, 1);
        ck_assert_int_ge(output, 0);
        struct pollfd source = { .fd = output, .events = POLLIN };
        ck_assert_int_eq(poll(&source, 1, (int)(LONG_USEC / 1000)), 1);
        char text[16];
        ck_assert_int_gt(read(output, text, sizeof(text)), 0);
        if (ret_output)
                *ret_output = output;
        else
                close(output);
        return tree;
}

static inline bool owned_can_pin(void) {
        _cleanup_close_ int pidfd = pidfd_pin(getpid());
        return pidfd >= 0;
}

static inline void owned_exit_is(cgtree_tree *tree, int wanted_code, int wanted_status) {
        int code = 0, status = 0;
        ck_assert_int_eq(cgtree_tree_get_exit(tree, &code, &status), 0);
        ck_assert_int_eq(code, wanted_code);
        ck_assert_int_eq(status, wanted_status);
}

/* Everything that held the other end is dead: the kernel closed it. */
static inline void owned_output_ends(int output) {
        struct pollfd source = { .fd = output, .events = POLLIN };
        char text[256];
        ssize_t n;
        do {
                ck_assert_int_eq(poll(&source, 1, (int)(LONG_USEC / 1000)), 1);
                n = read(output, text, sizeof(text));
        } while (n > 0);
        ck_assert_int_eq(n, 0);
        close(output);
}

static inline size_t owned_count_fds(void) {
        int fd = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        size_t n = scratch_count(fd);
        close(fd);
        return n;
}

/* 77, with the reason, where no subtree can be had: the group tests alone say too little. */
static inline int owned_probe(void) {
        scratch_make();
        cgtree_owner *probe = NULL;
        int r = cgtree_owner_new(&probe);
        if (r >= 0)
                r = cgtree_owner_set_records(probe, scratch_path);
        if (r >= 0)
                r = cgtree_owner_set_placement(probe, CGTREE_PLACEMENT_SUBTREE, CGTREE_GUARANTEE_WHOLE);
        if (r >= 0)
                r = cgtree_owner_open(probe, LONG_USEC);
        if (r < 0)
                printf("skipped: %s\n", cgtree_owner_get_error(probe));
        cgtree_owner_close(probe, 0, 0);
        cgtree_owner_free(probe);
        return r < 0 ? 77 : 0;
}

static inline int owned_run(Suite *suite) {
        int r = owned_probe();
        if (r == 0) {
                SRunner *runner = srunner_create(suite);
                srunner_run_all(runner, CK_ENV);
                r = srunner_ntests_failed(runner) ? EXIT_FAILURE : EXIT_SUCCESS;
                srunner_free(runner);
        }
        scratch_remove();
        return r;
}
