/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "cgtree.h"
#include "cmd.h"
#include "exit-as.h"
#include "message.h"
#include "signal-name.h"

static const char help[] = "Usage: cgtree kill [OPTIONS] TREE...\n"
                           "       cgtree kill [OPTIONS] --all\n"
                           "\n"
                           "Ends trees, whole: SIGTERM to every process, SIGKILL to what is left after the\n"
                           "grace, and returns when they have been seen empty. Trees end side by side.\n"
                           "A TREE is an id, a name, or the beginning of an id that no other tree shares.\n"
                           "\n"
                           "      --all           every tree that is recorded here\n"
                           "      --now           SIGKILL at once\n"
                           "  -k, --grace=DUR     time to SIGKILL: 150ms, 1.5s, 2m, 1h, 1d, infinity; a bare\n"
                           "                      number is seconds (default: what the tree was given)\n"
                           "  -s, --signal=SIG    send this signal to every process, once, and end nothing\n"
                           "      --records=DIR   where the trees are recorded ($CGTREE_RECORDS)\n"
                           "  -q, --quiet         say errors alone\n"
                           "  -v, --verbose       say where each tree is, too\n"
                           "  -h, --help          show this text\n"
                           "  -V, --version       show the version\n"
                           "\n"
                           "Exit status: 0 all are gone (or the signal was sent), 1 survivors or a failure (they\n"
                           "are named), 2 wrong usage, 3 no such tree, or several that begin like this.\n";

enum {
        OPTION_ALL = 256,
        OPTION_NOW,
        OPTION_RECORDS,
};

static const struct option long_options[] = {
        { "all", no_argument, NULL, OPTION_ALL },
        { "now", no_argument, NULL, OPTION_NOW },
        { "grace", required_argument, NULL, 'k' },
        { "signal", required_argument, NULL, 's' },
        { "records", required_argument, NULL, OPTION_RECORDS },
        { "quiet", no_argument, NULL, 'q' },
        { "verbose", no_argument, NULL, 'v' },
        { "help", no_argument, NULL, 'h' },
        { "version", no_argument, NULL, 'V' },
        { 0 },
};

struct target {
        cgtree_tree *tree;
        bool over; /* gone, or failed: nothing is waited for any more */
};

struct order {
        bool all, now;
        uint64_t grace; /* CGTREE_DEFAULT: each tree's own */
        int signal;     /* to be sent once; 0: end the trees */
        const char *records;

        char **ids; /* of --all */
        size_t n_ids;
        struct target *targets;
        size_t n_targets;
        bool failed, missing;
        int interrupted; /* by this signal, before all were gone */
};

/* ---- which trees ---- */

static void find_failed(struct order *order, const char *name, int error) {
        switch (error) {
        case -ENOENT:
                order->missing = true;
                if (!order->all)
                        message(MESSAGE_ERROR, "no such tree: '%s'; see 'cgtree list'", name);
                return;
        case -ENOTUNIQ:
                order->missing = true;
                message(MESSAGE_ERROR, "several trees begin with '%s': give more of the id; see 'cgtree list'", name);
                return;
        case -EBADMSG: message(MESSAGE_ERROR, "the record of '%s' is bad: nothing was touched", name); break;
        case -ESTALE:
                message(MESSAGE_ERROR,
                        "the record of '%s' does not prove what it says (another boot or namespace, or a cgroup that "
                        "is not its own): nothing was touched",
                        name);
                break;
        default: message(MESSAGE_ERROR, "cannot find '%s': %s", name, strerror(-error)); break;
        }
        order->failed = true;
}

static bool is_target(const struct order *order, cgtree_tree *tree) {
        for (size_t i = 0; i < order->n_targets; i++)
                if (strcmp(cgtree_tree_get_id(order->targets[i].tree), cgtree_tree_get_id(tree)) == 0)
                        return true;
        return false;
}

static int find_targets(struct order *order, char *const names[], size_t n_names) {
        order->targets = calloc(n_names + 1, sizeof *order->targets);
        if (!order->targets)
                return -ENOMEM;
        for (size_t i = 0; i < n_names; i++) {
                cgtree_tree *tree;
                int r = cgtree_find(order->records, names[i], &tree);

                if (r < 0)
                        find_failed(order, names[i], r);
                else if (is_target(order, tree))
                        cgtree_tree_free(tree);
                else
                        order->targets[order->n_targets++].tree = tree;
        }
        return 0;
}

static int collect_id(void *userdata, cgtree_tree *tree, const char *file, const char *problem) {
        struct order *order = userdata;
        char **grown;

        if (!tree) {
                message(MESSAGE_ERROR, "bad record %s: %s", file, problem);
                order->failed = true;
                return 0;
        }
        grown = reallocarray(order->ids, order->n_ids + 1, sizeof *grown);
        if (!grown)
                return -ENOMEM;
        order->ids = grown;
        grown[order->n_ids] = strdup(cgtree_tree_get_id(tree));
        return grown[order->n_ids++] ? 0 : -ENOMEM;
}

/* Those that end by themselves between the list and the look are not missed. */
static int find_all(struct order *order) {
        int r = cgtree_list(order->records, collect_id, order);

        if (r >= 0)
                r = find_targets(order, order->ids, order->n_ids);
        order->missing = false;
        if (r >= 0 && order->n_targets == 0)
                message(MESSAGE_DETAIL, "there is no tree");
        return r;
}

/* ---- what is done to them ---- */

static const char *target_name(const struct target *target) {
        const char *name = cgtree_tree_get_name(target->tree);

        return name ? name : cgtree_tree_get_command(target->tree);
}

static void target_failed(struct order *order, struct target *target, const char *what, int error) {
        message(MESSAGE_ERROR, "tree %s (%s): cannot %s: %s", cgtree_tree_get_id(target->tree), target_name(target),
                what,
                error == -EDEADLK ? "we are running in it ourselves, or an owner that lives outside has trees in it"
                                  : strerror(-error));
        order->failed = true;
        target->over = true;
}

static void send_signal(struct order *order, struct target *target) {
        char name[SIGNAL_TEXT_SIZE];
        int r = cgtree_tree_signal(target->tree, order->signal, false);

        if (r == -EPERM)
                message(MESSAGE_ERROR, "tree %s (%s): we may not signal all of its processes",
                        cgtree_tree_get_id(target->tree), target_name(target));
        if (r == -EPERM)
                order->failed = true;
        else if (r < 0)
                target_failed(order, target, "send the signal", r);
        else
                message(MESSAGE_NOTICE, "tree %s (%s): %s was sent", cgtree_tree_get_id(target->tree),
                        target_name(target), signal_format(order->signal, name));
}

static void look(struct order *order, struct target *target) {
        const char *id = cgtree_tree_get_id(target->tree), *stray, *survivors;
        int events = cgtree_tree_dispatch(target->tree);

        if (events < 0) {
                target_failed(order, target, "end it", events);
        } else if (events & CGTREE_EVENT_EMPTY) {
                stray = cgtree_tree_get_stray(target->tree);
                if (stray)
                        message(MESSAGE_NOTICE, "tree %s: its root had moved itself out, to the cgroup %s", id, stray);
                message(MESSAGE_NOTICE, "tree %s (%s): gone", id, target_name(target));
                target->over = true;
        } else if (events & CGTREE_EVENT_SURVIVORS) {
                survivors = cgtree_tree_get_survivors(target->tree);
                message(MESSAGE_ERROR, "tree %s: not all of it could be killed: %s", id,
                        survivors ? survivors : "its survivors cannot be named");
                order->failed = true;
                target->over = true;
        }
}

static void begin(struct order *order, struct target *target) {
        const char *cgroup = cgtree_tree_get_cgroup(target->tree);
        int r = order->now ? cgtree_tree_begin_kill(target->tree)
                           : cgtree_tree_begin_terminate(target->tree, order->grace);

        if (r < 0)
                target_failed(order, target, "end it", r);
        else
                message(MESSAGE_DETAIL, "tree %s (%s): being ended, %s%s", cgtree_tree_get_id(target->tree),
                        target_name(target), cgroup ? "cgroup " : "a process group", cgroup ? cgroup : "");
}

/* TERM, INT, HUP and QUIT as a descriptor: a tree can be frozen for a moment when they arrive, and is not to be left so. */
static int take_signals(void) {
        static const int ending[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT };
        struct sigaction present;
        sigset_t taken;
        int fd;

        sigemptyset(&taken);
        for (size_t i = 0; i < sizeof ending / sizeof ending[0]; i++)
                if (sigaction(ending[i], NULL, &present) == 0 && present.sa_handler != SIG_IGN)
                        sigaddset(&taken, ending[i]);
        if (sigprocmask(SIG_BLOCK, &taken, NULL) < 0)
                return -errno;
        fd = signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
        return fd < 0 ? -errno : fd;
}

/* All graces run at the same time. fds: one for each target, then the signals. */
static int await_targets(struct order *order, struct pollfd fds[]) {
        struct signalfd_siginfo info;
        size_t n = order->n_targets, n_waiting;

        for (;;) {
                n_waiting = 0;
                for (size_t i = 0; i < n; i++) {
                        struct target *target = &order->targets[i];

                        if (!target->over)
                                look(order, target);
                        fds[i].fd = target->over ? -1 : cgtree_tree_get_fd(target->tree);
                        fds[i].events = POLLIN;
                        n_waiting += !target->over;
                }
                if (n_waiting == 0)
                        return 0;
                if (poll(fds, n + 1, -1) < 0 && errno != EINTR)
                        return -errno;
                if (read(fds[n].fd, &info, sizeof info) == sizeof info) {
                        order->interrupted = (int)info.ssi_signo;
                        return 0;
                }
        }
}

static int end_targets(struct order *order) {
        struct pollfd *fds = calloc(order->n_targets + 1, sizeof *fds);
        int r;

        if (!fds)
                return -ENOMEM;
        r = take_signals();
        if (r >= 0) {
                fds[order->n_targets] = (struct pollfd){ .fd = r, .events = POLLIN };
                for (size_t i = 0; i < order->n_targets; i++)
                        begin(order, &order->targets[i]);
                r = await_targets(order, fds);
                close(fds[order->n_targets].fd);
        }
        free(fds);
        return r;
}

static int carry_out(struct order *order, char *const names[], size_t n_names) {
        int r = order->all ? find_all(order) : find_targets(order, names, n_names);

        if (r < 0)
                return r;
        if (order->signal == 0)
                return end_targets(order);
        for (size_t i = 0; i < order->n_targets; i++)
                send_signal(order, &order->targets[i]);
        return 0;
}

static void order_done(struct order *order) {
        for (size_t i = 0; i < order->n_targets; i++)
                cgtree_tree_free(order->targets[i].tree);
        for (size_t i = 0; i < order->n_ids; i++)
                free(order->ids[i]);
        free(order->targets);
        free(order->ids);
}

/* ---- the command line ---- */

/* One option of kill. 0, or the exit status. */
static int parse_option(struct order *order, int option, const char *value) {
        switch (option) {
        case OPTION_ALL: order->all = true; return 0;
        case OPTION_NOW: order->now = true; return 0;
        case 'k': return cmd_duration("kill", EXIT_STATUS_USAGE, "--grace", value, &order->grace);
        case 's': return cmd_signal("kill", EXIT_STATUS_USAGE, value, &order->signal);
        case OPTION_RECORDS: order->records = value; return 0;
        case 'q': message_set_level(MESSAGE_ERROR); return 0;
        default: message_set_level(MESSAGE_DETAIL); return 0;
        }
}

static int check_usage(const struct order *order, size_t n_names) {
        if (order->signal != 0 && (order->now || order->grace != CGTREE_DEFAULT))
                return cmd_usage(
                        "kill", EXIT_STATUS_USAGE, "--signal ends nothing: --now and --grace do not go with it");
        if (order->now && order->grace != CGTREE_DEFAULT)
                return cmd_usage("kill", EXIT_STATUS_USAGE, "--now and --grace exclude each other");
        if (order->all && n_names > 0)
                return cmd_usage("kill", EXIT_STATUS_USAGE, "--all and a TREE exclude each other");
        if (!order->all && n_names == 0)
                return cmd_usage("kill", EXIT_STATUS_USAGE, "a TREE is missing, or --all");
        return 0;
}

int cmd_kill(int argc, char *argv[]) {
        struct order order = { .grace = CGTREE_DEFAULT };
        int option, r;

        opterr = 0;
        while ((option = getopt_long(argc, argv, ":k:s:qvhV", long_options, NULL)) >= 0) {
                if (option == 'h')
                        return cmd_help(help);
                if (option == 'V')
                        return cmd_version();
                if (option == '?' || option == ':')
                        return cmd_bad_option("kill", EXIT_STATUS_USAGE, argv, option, long_options);
                r = parse_option(&order, option, optarg);
                if (r != 0)
                        return r;
        }
        r = check_usage(&order, (size_t)(argc - optind));
        if (r != 0)
                return r;

        /* A message that nobody reads does not leave half of it undone. */
        signal(SIGPIPE, SIG_IGN);
        r = carry_out(&order, argv + optind, (size_t)(argc - optind));
        if (r < 0)
                message(MESSAGE_ERROR, "cannot look for trees: %s", strerror(-r));
        order_done(&order);
        if (order.interrupted != 0)
                exit_as_signal(order.interrupted);
        if (r < 0 || order.failed)
                return EXIT_STATUS_FAILED;
        return order.missing ? EXIT_STATUS_NO_TREE : EXIT_STATUS_OK;
}
