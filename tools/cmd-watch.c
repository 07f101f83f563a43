/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "cmd.h"
#include "decision.h"
#include "message.h"
#include "service.h"

static const char help[] = "Usage: cgtree watch [OPTIONS]\n"
                           "\n"
                           "Stays, and ends every recorded tree as soon as its owner is gone and its guard with\n"
                           "it: cgtree sweep, as things happen. Made to be a service: see units/.\n"
                           "\n"
                           "      --records=DIR   where the trees are recorded ($CGTREE_RECORDS)\n"
                           "  -q, --quiet         say errors alone\n"
                           "  -v, --verbose       say which trees were kept, too\n"
                           "  -h, --help          show this text\n"
                           "  -V, --version       show the version\n"
                           "\n"
                           "TERM, INT and HUP end it. Exit status: 0 then, 1 it cannot go on, 2 wrong usage.\n";

enum {
        OPTION_RECORDS = 256,
};

static const struct option long_options[] = {
        { "records", required_argument, NULL, OPTION_RECORDS },
        { "quiet", no_argument, NULL, 'q' },
        { "verbose", no_argument, NULL, 'v' },
        { "help", no_argument, NULL, 'h' },
        { "version", no_argument, NULL, 'V' },
        { 0 },
};

static void on_decision(void *userdata, const char *id, const char *decision, const char *reason) {
        (void)userdata;
        (void)decision_print(id ? id : "-", decision, reason ? reason : "");
}

static int take_signals(void) {
        sigset_t taken;

        sigemptyset(&taken);
        sigaddset(&taken, SIGTERM);
        sigaddset(&taken, SIGINT);
        sigaddset(&taken, SIGHUP);
        signal(SIGPIPE, SIG_IGN);
        if (sigprocmask(SIG_SETMASK, &taken, NULL) < 0)
                return -errno;
        int fd = signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
        return fd < 0 ? -errno : fd;
}

static int loop(cgtree_watch *watch, int signals) {
        uint64_t interval = service_watchdog_interval();
        struct timespec timeout = { (time_t)(interval / 1000000), (long)(interval % 1000000 * 1000) };
        struct pollfd sources[] = {
                { .fd = signals, .events = POLLIN },
                { .fd = cgtree_watch_get_fd(watch), .events = POLLIN },
        };

        service_notify("READY=1");
        while (sources[0].revents == 0) {
                int r = cgtree_watch_dispatch(watch, on_decision, NULL);

                if (r < 0)
                        return r;
                if (interval > 0)
                        service_notify("WATCHDOG=1");
                if (ppoll(sources, 2, interval > 0 ? &timeout : NULL, NULL) < 0 && errno != EINTR)
                        return -errno;
        }
        service_notify("STOPPING=1");
        return 0;
}

static int watch_trees(const char *records) {
        cgtree_watch *watch = NULL;
        int signals = take_signals(), r = signals;

        cmd_raise_descriptor_limit(); /* one for each owner */
        if (r >= 0)
                r = cgtree_watch_new(records, &watch);
        if (r >= 0)
                r = loop(watch, signals);
        cgtree_watch_free(watch);
        if (r >= 0)
                return EXIT_STATUS_OK;
        message(MESSAGE_ERROR, "cannot watch the records%s%s: %s", records ? " in " : "", records ? records : "",
                strerror(-r));
        return EXIT_STATUS_FAILED;
}

int cmd_watch(int argc, char *argv[]) {
        const char *records = NULL;
        int option;

        opterr = 0;
        while ((option = getopt_long(argc, argv, "+:qvhV", long_options, NULL)) >= 0)
                switch (option) {
                case OPTION_RECORDS: records = optarg; break;
                case 'q': message_set_level(MESSAGE_ERROR); break;
                case 'v': message_set_level(MESSAGE_DETAIL); break;
                case 'h': return cmd_help(help);
                case 'V': return cmd_version();
                default: return cmd_bad_option("watch", EXIT_STATUS_USAGE, argv, option, long_options);
                }
        if (optind < argc)
                return cmd_usage("watch", EXIT_STATUS_USAGE, "'%s' is not expected", argv[optind]);
        return watch_trees(records);
}
