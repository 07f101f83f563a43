/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cgtree.h"
#include "cmd.h"
#include "decision.h"
#include "json.h"
#include "message.h"
#include "sweep-users.h"

static const char help[] = "Usage: cgtree sweep [OPTIONS]\n"
                           "\n"
                           "Ends, whole, every recorded tree whose owner is provably gone, and tidies away what\n"
                           "ended trees have left. Trees with a living owner are never touched.\n"
                           "\n"
                           "      --dry-run       say what would be done, and do nothing\n"
                           "      --json          {\"version\": 1, \"dry_run\", \"ended\", \"decisions\":\n"
                           "                      [{\"id\", \"decision\", \"reason\"}...]} on stdout\n"
                           "      --records=DIR   where the trees are recorded ($CGTREE_RECORDS)\n"
                           "      --all-users     sweep for every other user as well, as that user (for root)\n"
                           "  -q, --quiet         say errors alone\n"
                           "  -v, --verbose       say which trees were kept, too\n"
                           "  -h, --help          show this text\n"
                           "  -V, --version       show the version\n"
                           "\n"
                           "A decision is one of: ended, tidied (nothing ran any more), kept (its owner lives),\n"
                           "skipped (cannot be judged from here), failed; or would end, would tidy.\n"
                           "Exit status: 0 all well, 1 something could not be swept or a record is bad, 2 wrong\n"
                           "usage.\n";

/* Longer graces are cut. */
#define SWEEP_BOUND_USEC UINT64_C(60000000)

enum {
        OPTION_DRY_RUN = 256,
        OPTION_JSON,
        OPTION_RECORDS,
        OPTION_ALL_USERS,
};

static const struct option long_options[] = {
        { "dry-run", no_argument, NULL, OPTION_DRY_RUN },
        { "json", no_argument, NULL, OPTION_JSON },
        { "records", required_argument, NULL, OPTION_RECORDS },
        { "all-users", no_argument, NULL, OPTION_ALL_USERS },
        { "quiet", no_argument, NULL, 'q' },
        { "verbose", no_argument, NULL, 'v' },
        { "help", no_argument, NULL, 'h' },
        { "version", no_argument, NULL, 'V' },
        { 0 },
};

struct sweep {
        bool dry_run, json, all_users;
        const char *records;
        cJSON *decisions;
        uint64_t n_ended; /* or would be */
        int error;        /* of the output */
};

/* uid -1: our own trees. */
static int add_decision(cJSON *decisions, uid_t uid, const char *id, const char *decision, const char *reason) {
        cJSON *entry = cJSON_CreateObject();
        int r;

        r = json_add_string(entry, "id", id);
        if (r >= 0)
                r = json_add_string(entry, "decision", decision);
        if (r >= 0)
                r = json_add_string(entry, "reason", reason);
        if (r >= 0 && uid != (uid_t)-1)
                r = json_add_integer(entry, "uid", uid);
        if (r >= 0)
                return json_append(decisions, entry);
        cJSON_Delete(entry);
        return r;
}

static int print_decision(uid_t uid, const char *id, const char *decision, const char *reason) {
        char text[1024];

        if (uid == (uid_t)-1)
                return decision_print(id, decision, reason);
        snprintf(text, sizeof text, "user %u: %s", uid, reason);
        return decision_print(id, decision, text);
}

static void on_decision_of(void *userdata, uid_t uid, const char *id, const char *decision, const char *reason) {
        struct sweep *sweep = userdata;

        sweep->n_ended += strcmp(decision, "ended") == 0 || strcmp(decision, "would end") == 0;
        if (sweep->json) {
                int r = add_decision(sweep->decisions, uid, id, decision, reason);

                if (r < 0)
                        sweep->error = r;
        } else {
                int r = print_decision(uid, id ? id : "-", decision, reason ? reason : "");

                if (r < 0 && sweep->error == 0)
                        sweep->error = r;
        }
}

static void on_decision(void *userdata, const char *id, const char *decision, const char *reason) {
        on_decision_of(userdata, (uid_t)-1, id, decision, reason);
}

/* Hands the decisions on. */
static int output_json(struct sweep *sweep) {
        cJSON *root = cJSON_CreateObject();
        int r;

        r = json_add_integer(root, "version", 1);
        if (r >= 0 && !cJSON_AddBoolToObject(root, "dry_run", sweep->dry_run))
                r = -ENOMEM;
        if (r >= 0)
                r = json_add_integer(root, "ended", sweep->n_ended);
        if (r >= 0 && cJSON_AddItemToObject(root, "decisions", sweep->decisions))
                sweep->decisions = NULL;
        else
                r = -ENOMEM;
        if (r >= 0)
                r = json_output(root);
        cJSON_Delete(root);
        return r;
}

/* As cgtree_sweep(). */
static int sweep_others(struct sweep *sweep) {
        int r = sweep_users(sweep->dry_run, on_decision_of, sweep);

        return r > 0 ? -EBADMSG : r;
}

static int sweep_trees(struct sweep *sweep) {
        int r, swept, others = 0;

        cmd_raise_descriptor_limit(); /* some for each tree */
        /* A reader that goes away does not leave half of it undone. */
        signal(SIGPIPE, SIG_IGN);
        if (sweep->json && !(sweep->decisions = cJSON_CreateArray()))
                swept = -ENOMEM;
        else
                swept = cgtree_sweep(sweep->records, sweep->dry_run, SWEEP_BOUND_USEC, on_decision, sweep);
        if (sweep->all_users && (swept >= 0 || swept == -EBADMSG))
                others = sweep_others(sweep);
        if (others < 0)
                swept = others;
        if (swept < 0 && swept != -EBADMSG)
                message(MESSAGE_ERROR, "cannot sweep: %s", strerror(-swept));

        r = sweep->error;
        if (r >= 0 && sweep->json && (swept >= 0 || swept == -EBADMSG))
                r = output_json(sweep);
        cJSON_Delete(sweep->decisions);
        if (r < 0)
                message(MESSAGE_ERROR, "cannot write what was decided: %s", strerror(-r));
        return r < 0 || swept < 0 ? EXIT_STATUS_FAILED : EXIT_STATUS_OK;
}

int cmd_sweep(int argc, char *argv[]) {
        struct sweep sweep = { 0 };
        int option;

        opterr = 0;
        while ((option = getopt_long(argc, argv, "+:qvhV", long_options, NULL)) >= 0)
                switch (option) {
                case OPTION_DRY_RUN: sweep.dry_run = true; break;
                case OPTION_JSON: sweep.json = true; break;
                case OPTION_ALL_USERS: sweep.all_users = true; break;
                case OPTION_RECORDS: sweep.records = optarg; break;
                case 'q': message_set_level(MESSAGE_ERROR); break;
                case 'v': message_set_level(MESSAGE_DETAIL); break;
                case 'h': return cmd_help(help);
                case 'V': return cmd_version();
                default: return cmd_bad_option("sweep", EXIT_STATUS_USAGE, argv, option, long_options);
                }
        if (optind < argc)
                return cmd_usage("sweep", EXIT_STATUS_USAGE, "'%s' is not expected", argv[optind]);
        if (sweep.all_users && sweep.records)
                return cmd_usage("sweep", EXIT_STATUS_USAGE, "--all-users and --records exclude each other");
        if (sweep.all_users && geteuid() != 0)
                return cmd_usage("sweep", EXIT_STATUS_USAGE, "--all-users is for root");
        return sweep_trees(&sweep);
}
