/* SPDX-License-Identifier: MIT */
#include "scenes.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ground.h"

#define BOUND_USEC (20 * USEC_PER_SEC)
#define GRACE_USEC (30 * USEC_PER_MSEC)

/* Nobody but the test hears of it: the line is a status. */
static void must_be(int wanted, int result, const char *what) {
        if (result == wanted)
                return;
        fprintf(stderr, "%s: %d\n", what, result);
        _exit(100);
}

#define must(condition)    must_be(1, (condition), #condition)
#define must_succeed(call) must_be(0, (call), #call)

static cgtree_owner *open_owner(const struct scene *scene) {
        cgtree_owner *owner;
        must_succeed(cgtree_owner_new(&owner));
        must_succeed(cgtree_owner_set_records(owner, ground.records));
        must_succeed(cgtree_owner_set_base(owner, ground.trees.path));
        must_succeed(cgtree_owner_set_placement(owner, scene->placement, CGTREE_GUARANTEE_GROUP));
        must_succeed(cgtree_owner_set_grace(owner, GRACE_USEC, 0));
        must_succeed(cgtree_owner_open(owner, BOUND_USEC));
        return owner;
}

/* Runs once it has said so: what it does is in force. */
static cgtree_tree *spawn(const struct scene *scene, cgtree_owner *owner, const char *way, const char *name) {
        const char *const argv[] = { ground.witness, ground.ran, ground.unrecorded, way, NULL };
        cgtree_command *command;
        cgtree_tree *tree;
        char word;
        must_succeed(cgtree_command_new(&command, argv));
        must_succeed(cgtree_command_set_name(command, name));
        must_succeed(cgtree_command_set_fd(command, 1, CGTREE_FD_PIPE));
        int r = cgtree_spawn(owner, command, &tree);
        if ((r == -ECANCELED || r == -ECONNRESET || r == -EPIPE) && scene->tries_again)
                r = cgtree_spawn(owner, command, &tree);
        must_succeed(r);
        cgtree_command_free(command);
        int output = cgtree_tree_take_fd(tree, 1);
        struct pollfd source = { .fd = output, .events = POLLIN };
        must(poll(&source, 1, (int)(BOUND_USEC / 1000)) == 1 && read(output, &word, 1) == 1);
        close(output);
        return tree;
}

static int close_owner(cgtree_owner *owner) {
        must_succeed(cgtree_owner_close(owner, CGTREE_DEFAULT, BOUND_USEC));
        cgtree_owner_free(owner);
        return 0;
}

/* kill_now claims nothing: a reaper may be killed before it has obeyed. */
static void see_killed(const struct scene *scene, cgtree_tree *tree) {
        if (scene->tries_again && cgtree_tree_wait_empty(tree, USEC_PER_SEC) != 0)
                must_succeed(cgtree_tree_kill(tree, BOUND_USEC));
        must_succeed(cgtree_tree_wait_empty(tree, BOUND_USEC));
        cgtree_tree_free(tree);
}

int scene_life(void *scene) {
        cgtree_owner *owner = open_owner(scene);
        cgtree_tree *tree = spawn(scene, owner, "stay", "named");
        must_succeed(cgtree_tree_terminate(tree, CGTREE_DEFAULT, BOUND_USEC));
        cgtree_tree_free(tree);

        tree = spawn(scene, owner, "leave", NULL);
        must_succeed(cgtree_tree_wait_root(tree, BOUND_USEC));
        must_succeed(cgtree_tree_kill(tree, BOUND_USEC));
        cgtree_tree_free(tree);

        tree = spawn(scene, owner, "ignore", NULL);
        must_succeed(cgtree_owner_kill_now(owner));
        see_killed(scene, tree);

        /* Where the kernel takes births into a cgroup that was killed once for members of then: born at the second try. */
        (void)spawn(scene, owner, "stay", NULL);
        (void)spawn(scene, owner, "ignore", "named");
        return close_owner(owner);
}

int scene_teardown(void *scene) {
        cgtree_owner *owner = open_owner(scene);
        (void)spawn(scene, owner, "ignore", NULL);
        must_succeed(cgtree_owner_begin_teardown(owner));
        return close_owner(owner);
}

int scene_orphan(void *scene) {
        cgtree_owner *owner = open_owner(scene);
        (void)spawn(scene, owner, "stay", NULL);
        (void)spawn(scene, owner, "ignore", "named");
        must_succeed(cgtree_owner_begin_teardown(owner));
        return raise(SIGKILL);
}

int scene_keeper(void *scene) {
        cgtree_owner *owner = open_owner(scene);
        (void)spawn(scene, owner, "stay", "named");
        for (;;)
                pause();
}

int scene_run(void *scene) {
        const struct scene *this = scene;
        const char *backend = this->placement == CGTREE_PLACEMENT_GROUP ? "group" : "subtree";
        setenv("CGTREE_BASE", ground.trees.path, 1);
        must(freopen("/dev/null", "w", stdout) != NULL);
        execl(ground.cgtree, "cgtree", "run", "-q", "-b", backend, "-n", "named", "--", ground.witness, ground.ran,
                ground.unrecorded, "leave", (char *)NULL);
        return 127;
}

int scene_sweep(void *scene) {
        (void)scene;
        setenv("CGTREE_BASE", ground.trees.path, 1);
        return cgtree_sweep(ground.records, false, BOUND_USEC, NULL, NULL) < 0;
}
