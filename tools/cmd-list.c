/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cgtree.h"
#include "cmd.h"
#include "duration.h"
#include "json.h"
#include "message.h"

static const char help[] =
        "Usage: cgtree list [OPTIONS]\n"
        "\n"
        "Shows the trees that are recorded here, oldest first.\n"
        "\n"
        "      --json          {\"version\": 1, \"trees\": [...], \"bad_records\": [...]} on stdout\n"
        "      --records=DIR   where the trees are recorded ($CGTREE_RECORDS)\n"
        "  -h, --help          show this text\n"
        "  -V, --version       show the version\n"
        "\n"
        "OWNER is the process on whose behalf a tree lives; 'gone': 'cgtree sweep' will end\n"
        "it; with '?': it cannot be told from here whether that process lives. MEMBERS is the\n"
        "number of living processes.\n"
        "Exit status: 0, 1 a record is bad (it is named) or something failed, 2 wrong usage.\n";

enum {
        OPTION_JSON = 256,
        OPTION_RECORDS,
};

static const struct option long_options[] = {
        { "json", no_argument, NULL, OPTION_JSON },
        { "records", required_argument, NULL, OPTION_RECORDS },
        { "help", no_argument, NULL, 'h' },
        { "version", no_argument, NULL, 'V' },
        { 0 },
};

/* ---- the table ---- */

enum column {
        COLUMN_ID,
        COLUMN_NAME,
        COLUMN_BACKEND,
        COLUMN_OWNER,
        COLUMN_MEMBERS,
        COLUMN_AGE,
        COLUMN_COMMAND,
        _COLUMN_MAX,
};

struct row {
        uint64_t created;
        char *cells[_COLUMN_MAX]; /* nothing in them that a terminal would obey */
};

struct list {
        bool json;
        const char *records;
        uint64_t now;
        struct row *rows;
        size_t n_rows;
        cJSON *trees, *bad_records;
        bool bad;
};

static uint64_t now_realtime_usec(void) {
        struct timespec now;

        clock_gettime(CLOCK_REALTIME, &now);
        return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static char *printable(const char *text) {
        size_t size = strlen(text) * 4 + 1;
        char *copy = malloc(size);

        if (copy)
                message_escape(copy, size, text);
        return copy;
}

static char *owner_cell(cgtree_tree *tree) {
        char text[128];
        const char *comm = NULL;
        int alive = 0;
        pid_t pid = cgtree_tree_get_owner(tree, &comm, &alive);

        if (alive == 0)
                return strdup("gone");
        snprintf(text, sizeof text, "%d %s%s", (int)pid, comm ? comm : "", alive < 0 ? " ?" : "");
        return printable(text);
}

static char *members_cell(cgtree_tree *tree) {
        char text[24] = "?";
        pid_t *pids = NULL;
        size_t n;

        if (cgtree_tree_get_members(tree, &pids, &n) >= 0)
                snprintf(text, sizeof text, "%zu", n);
        free(pids);
        return strdup(text);
}

static char *age_cell(const struct list *list, cgtree_tree *tree) {
        uint64_t created = cgtree_tree_get_created(tree), seconds = 0;
        char text[DURATION_TEXT_SIZE];

        if (list->now > created)
                seconds = (list->now - created) / 1000000;
        return strdup(duration_format(seconds * 1000000, 0, text));
}

static void row_done(struct row *row) {
        for (size_t i = 0; i < _COLUMN_MAX; i++)
                free(row->cells[i]);
}

static int row_fill(struct row *row, const struct list *list, cgtree_tree *tree) {
        const char *name = cgtree_tree_get_name(tree), *command = cgtree_tree_get_command(tree);

        row->created = cgtree_tree_get_created(tree);
        row->cells[COLUMN_ID] = printable(cgtree_tree_get_id(tree));
        row->cells[COLUMN_NAME] = printable(name ? name : "-");
        row->cells[COLUMN_BACKEND] = strdup(cmd_placement_name(cgtree_tree_get_placement(tree)));
        row->cells[COLUMN_OWNER] = owner_cell(tree);
        row->cells[COLUMN_MEMBERS] = members_cell(tree);
        row->cells[COLUMN_AGE] = age_cell(list, tree);
        row->cells[COLUMN_COMMAND] = printable(command ? command : "-");
        for (size_t i = 0; i < _COLUMN_MAX; i++)
                if (!row->cells[i])
                        return -ENOMEM;
        return 0;
}

static int add_row(struct list *list, cgtree_tree *tree) {
        struct row row = { 0 }, *grown;
        int r = row_fill(&row, list, tree);

        grown = r < 0 ? NULL : reallocarray(list->rows, list->n_rows + 1, sizeof *grown);
        if (!grown) {
                row_done(&row);
                return -ENOMEM;
        }
        grown[list->n_rows++] = row;
        list->rows = grown;
        return 0;
}

static int compare_rows(const void *a, const void *b) {
        const struct row *first = a, *second = b;

        if (first->created != second->created)
                return first->created < second->created ? -1 : 1;
        return strcmp(first->cells[COLUMN_ID], second->cells[COLUMN_ID]);
}

/* In characters, not bytes. */
static size_t width_of(const char *text) {
        size_t width = 0;

        for (; *text; text++)
                width += ((unsigned char)*text & 0xc0) != 0x80;
        return width;
}

static void print_cells(FILE *stream, const char *const cells[], const size_t widths[]) {
        for (size_t i = 0; i < _COLUMN_MAX; i++) {
                size_t width = width_of(cells[i]), padding = widths[i] > width ? widths[i] - width : 0;

                if (i == COLUMN_MEMBERS)
                        fprintf(stream, "%*s%s  ", (int)padding, "", cells[i]);
                else if (i < _COLUMN_MAX - 1)
                        fprintf(stream, "%s%*s  ", cells[i], (int)padding, "");
                else
                        fprintf(stream, "%s\n", cells[i]);
        }
}

static int print_table(const struct list *list) {
        static const char *const titles[] = { "ID", "NAME", "BACKEND", "OWNER", "MEMBERS", "AGE", "COMMAND" };
        size_t widths[_COLUMN_MAX] = { 0 }, size;
        FILE *stream;
        char *text;
        int r;

        stream = open_memstream(&text, &size);
        if (!stream)
                return -errno;
        for (size_t i = 0; i < _COLUMN_MAX; i++) {
                widths[i] = strlen(titles[i]);
                for (size_t k = 0; k < list->n_rows; k++)
                        if (width_of(list->rows[k].cells[i]) > widths[i])
                                widths[i] = width_of(list->rows[k].cells[i]);
        }
        print_cells(stream, titles, widths);
        for (size_t k = 0; k < list->n_rows; k++)
                print_cells(stream, (const char *const *)list->rows[k].cells, widths);
        r = fclose(stream) < 0 ? -errno : message_output(text, size);
        free(text);
        return r;
}

/* ---- JSON ---- */

static int add_owner(cJSON *entry, cgtree_tree *tree) {
        cJSON *owner = cJSON_AddObjectToObject(entry, "owner");
        const char *comm = NULL;
        int alive = 0, r;

        r = owner ? json_add_integer(owner, "pid", (uint64_t)cgtree_tree_get_owner(tree, &comm, &alive)) : -ENOMEM;
        if (r >= 0)
                r = json_add_string(owner, "comm", comm);
        if (r >= 0 && alive < 0)
                r = cJSON_AddNullToObject(owner, "alive") ? 0 : -ENOMEM;
        else if (r >= 0)
                r = cJSON_AddBoolToObject(owner, "alive", alive) ? 0 : -ENOMEM;
        return r;
}

/* null where they cannot be told. */
static int add_members(cJSON *entry, cgtree_tree *tree) {
        pid_t *pids = NULL;
        cJSON *members;
        size_t n = 0;
        int r;

        if (cgtree_tree_get_members(tree, &pids, &n) < 0)
                return cJSON_AddNullToObject(entry, "members") ? 0 : -ENOMEM;
        members = cJSON_AddArrayToObject(entry, "members");
        r = members ? 0 : -ENOMEM;
        for (size_t i = 0; r >= 0 && i < n; i++)
                r = json_append(members, cJSON_CreateNumber(pids[i]));
        free(pids);
        return r;
}

static int fill_entry(cJSON *entry, cgtree_tree *tree) {
        bool whole = cgtree_tree_get_guarantee(tree) == CGTREE_GUARANTEE_WHOLE;
        int r;

        r = json_add_string(entry, "id", cgtree_tree_get_id(tree));
        if (r >= 0)
                r = json_add_string(entry, "name", cgtree_tree_get_name(tree));
        if (r >= 0)
                r = json_add_string(entry, "backend", cmd_placement_name(cgtree_tree_get_placement(tree)));
        if (r >= 0)
                r = json_add_string(entry, "guarantee", whole ? "whole" : "group");
        if (r >= 0)
                r = json_add_string(entry, "cgroup", cgtree_tree_get_cgroup(tree));
        if (r >= 0)
                r = add_owner(entry, tree);
        if (r >= 0)
                r = add_members(entry, tree);
        if (r >= 0)
                r = json_add_integer(entry, "created_usec", cgtree_tree_get_created(tree));
        if (r >= 0)
                r = json_add_string(entry, "command", cgtree_tree_get_command(tree));
        return r;
}

static int add_entry(struct list *list, cgtree_tree *tree) {
        cJSON *entry = cJSON_CreateObject();
        int r = entry ? fill_entry(entry, tree) : -ENOMEM;

        if (r >= 0)
                return json_append(list->trees, entry);
        cJSON_Delete(entry);
        return r;
}

static int add_bad_record(struct list *list, const char *file, const char *problem) {
        cJSON *entry = cJSON_CreateObject();
        int r = json_add_string(entry, "file", file);

        if (r >= 0)
                r = json_add_string(entry, "problem", problem);
        if (r >= 0)
                return json_append(list->bad_records, entry);
        cJSON_Delete(entry);
        return r;
}

static int print_json(const struct list *list) {
        cJSON *root = cJSON_CreateObject();
        int r = json_add_integer(root, "version", 1);

        if (r >= 0 && (!cJSON_AddItemReferenceToObject(root, "trees", list->trees) ||
                              !cJSON_AddItemReferenceToObject(root, "bad_records", list->bad_records)))
                r = -ENOMEM;
        if (r >= 0)
                r = json_output(root);
        cJSON_Delete(root);
        return r;
}

/* ---- the list ---- */

static int on_tree(void *userdata, cgtree_tree *tree, const char *file, const char *problem) {
        struct list *list = userdata;

        if (tree)
                return list->json ? add_entry(list, tree) : add_row(list, tree);
        list->bad = true;
        if (list->json)
                return add_bad_record(list, file, problem);
        message(MESSAGE_ERROR, "bad record %s: %s", file, problem);
        return 0;
}

static int list_trees(struct list *list) {
        int r;

        list->now = now_realtime_usec();
        if (list->json) {
                list->trees = cJSON_CreateArray();
                list->bad_records = cJSON_CreateArray();
        }
        r = list->json && (!list->trees || !list->bad_records) ? -ENOMEM : cgtree_list(list->records, on_tree, list);
        if (r < 0) {
                message(MESSAGE_ERROR, "cannot read the records: %s", strerror(-r));
                return EXIT_STATUS_FAILED;
        }
        if (list->n_rows > 0)
                qsort(list->rows, list->n_rows, sizeof *list->rows, compare_rows);
        r = list->json ? print_json(list) : print_table(list);
        if (r < 0)
                message(MESSAGE_ERROR, "cannot write the list: %s", strerror(-r));
        return r < 0 || list->bad ? EXIT_STATUS_FAILED : EXIT_STATUS_OK;
}

static void list_done(struct list *list) {
        for (size_t i = 0; i < list->n_rows; i++)
                row_done(&list->rows[i]);
        free(list->rows);
        cJSON_Delete(list->trees);
        cJSON_Delete(list->bad_records);
}

int cmd_list(int argc, char *argv[]) {
        struct list list = { 0 };
        int option, status;

        opterr = 0;
        while ((option = getopt_long(argc, argv, "+:hV", long_options, NULL)) >= 0)
                switch (option) {
                case OPTION_JSON: list.json = true; break;
                case OPTION_RECORDS: list.records = optarg; break;
                case 'h': return cmd_help(help);
                case 'V': return cmd_version();
                default: return cmd_bad_option("list", EXIT_STATUS_USAGE, argv, option, long_options);
                }
        if (optind < argc)
                return cmd_usage("list", EXIT_STATUS_USAGE, "'%s' is not expected", argv[optind]);
        status = list_trees(&list);
        list_done(&list);
        return status;
}
