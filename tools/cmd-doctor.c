/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cgtree.h"
#include "cmd.h"
#include "json.h"
#include "message.h"

static const char help[] = "Usage: cgtree doctor [OPTIONS]\n"
                           "\n"
                           "Says what this machine gives to trees that are started from here, and what would give\n"
                           "more. Nothing is changed.\n"
                           "\n"
                           "      --json          {\"version\": 1, \"guarantee\": ..., \"findings\": [...]} on stdout\n"
                           "      --records=DIR   where trees would be recorded ($CGTREE_RECORDS)\n"
                           "  -h, --help          show this text\n"
                           "  -V, --version       show the version\n"
                           "\n"
                           "Exit status: 0 full guarantee, 1 the weaker one, 2 something is broken, or wrong usage.\n";

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

enum {
        DOCTOR_FULL = 0,
        DOCTOR_REDUCED = 1,
        DOCTOR_BROKEN = 2,
};

#define TOPIC_WIDTH 19

struct doctor {
        cJSON *findings; /* NULL: for people */
        FILE *text, *advice;
        int error;
};

static const char *finding_name(enum cgtree_finding finding) {
        switch (finding) {
        case CGTREE_FINDING_GOOD: return "good";
        case CGTREE_FINDING_NOTE: return "note";
        case CGTREE_FINDING_REDUCED: return "reduced";
        case CGTREE_FINDING_BROKEN: break;
        }
        return "broken";
}

static int add_finding(
        cJSON *findings, const char *topic, enum cgtree_finding finding, const char *text, const char *advice) {
        cJSON *entry = cJSON_CreateObject();
        int r = json_add_string(entry, "topic", topic);

        if (r >= 0)
                r = json_add_string(entry, "finding", finding_name(finding));
        if (r >= 0)
                r = json_add_string(entry, "text", text);
        if (r >= 0)
                r = json_add_string(entry, "advice", advice);
        if (r >= 0)
                return json_append(findings, entry);
        cJSON_Delete(entry);
        return r;
}

/* Paths can hold anything; what a terminal would obey is written out. */
static int print_line(FILE *stream, const char *text, size_t length) {
        char *copy = strndup(text, length), *safe = malloc(length * 4 + 1);

        if (copy && safe) {
                message_escape(safe, length * 4 + 1, copy);
                fprintf(stream, "%s\n", safe);
        }
        free(copy);
        free(safe);
        return copy && safe ? 0 : -ENOMEM;
}

static int print_advice(FILE *stream, const char *advice) {
        int r = 0;

        while (r >= 0 && *advice) {
                size_t length = strcspn(advice, "\n");

                fputs("    ", stream);
                r = print_line(stream, advice, length);
                advice += length + (advice[length] == '\n');
        }
        return r;
}

static void on_finding(
        void *userdata, const char *topic, enum cgtree_finding finding, const char *text, const char *advice) {
        struct doctor *doctor = userdata;
        char title[TOPIC_WIDTH + 1];
        int r = 0;

        if (doctor->findings)
                r = add_finding(doctor->findings, topic, finding, text, advice);
        else {
                snprintf(title, sizeof title, "%s", topic);
                for (char *at = title; (at = strchr(at, '_'));)
                        *at = ' ';
                fprintf(doctor->text, "%-7s  %-*s", finding_name(finding), TOPIC_WIDTH, title);
                r = print_line(doctor->text, text, strlen(text));
                if (r >= 0 && advice)
                        r = print_advice(doctor->advice, advice);
        }
        if (r < 0)
                doctor->error = r;
}

static int print_json(const struct doctor *doctor, int worst) {
        cJSON *root = cJSON_CreateObject();
        const char *guarantee = worst == CGTREE_FINDING_BROKEN    ? NULL
                                : worst == CGTREE_FINDING_REDUCED ? "group"
                                                                  : "whole";
        int r = json_add_integer(root, "version", 1);

        if (r >= 0)
                r = json_add_string(root, "guarantee", guarantee);
        if (r >= 0 && !cJSON_AddItemReferenceToObject(root, "findings", doctor->findings))
                r = -ENOMEM;
        if (r >= 0)
                r = json_output(root);
        cJSON_Delete(root);
        return r;
}

static const char *conclusion(int worst) {
        if (worst == CGTREE_FINDING_BROKEN)
                return "\nNo tree can be started from here.";
        if (worst == CGTREE_FINDING_REDUCED)
                return "\nTrees started from here have the weaker guarantee, that of the group placement.";
        return "\nTrees started from here are ended whole.\n";
}

static int examine_for_people(struct doctor *doctor, const char *records, int *ret_worst) {
        char *text = NULL, *advice = NULL;
        size_t size, advice_size;
        int r;

        doctor->text = open_memstream(&text, &size);
        doctor->advice = open_memstream(&advice, &advice_size);
        r = doctor->text && doctor->advice ? cgtree_examine(records, on_finding, doctor) : -ENOMEM;
        if (doctor->advice && fclose(doctor->advice) != 0)
                r = -ENOMEM;
        if (r >= 0) {
                *ret_worst = r;
                fputs(conclusion(r), doctor->text);
                if (r >= CGTREE_FINDING_REDUCED)
                        fprintf(doctor->text, "%s\n%s", *advice ? " What would help:\n" : "", advice);
        }
        if (doctor->text && fclose(doctor->text) != 0)
                r = -ENOMEM;
        if (r >= 0)
                r = doctor->error;
        if (r >= 0)
                r = message_output(text, size);
        free(text);
        free(advice);
        return r;
}

static int examine_for_programs(struct doctor *doctor, const char *records, int *ret_worst) {
        int r;

        doctor->findings = cJSON_CreateArray();
        r = doctor->findings ? cgtree_examine(records, on_finding, doctor) : -ENOMEM;
        if (r >= 0) {
                *ret_worst = r;
                r = doctor->error < 0 ? doctor->error : print_json(doctor, *ret_worst);
        }
        cJSON_Delete(doctor->findings);
        return r;
}

int cmd_doctor(int argc, char *argv[]) {
        struct doctor doctor = { 0 };
        const char *records = NULL;
        int option, worst = CGTREE_FINDING_BROKEN, r;
        bool json = false;

        opterr = 0;
        while ((option = getopt_long(argc, argv, "+:hV", long_options, NULL)) >= 0)
                switch (option) {
                case OPTION_JSON: json = true; break;
                case OPTION_RECORDS: records = optarg; break;
                case 'h': return cmd_help(help);
                case 'V': return cmd_version();
                default: return cmd_bad_option("doctor", EXIT_STATUS_USAGE, argv, option, long_options);
                }
        if (optind < argc)
                return cmd_usage("doctor", EXIT_STATUS_USAGE, "'%s' is not expected", argv[optind]);
        r = json ? examine_for_programs(&doctor, records, &worst) : examine_for_people(&doctor, records, &worst);
        if (r < 0) {
                message(MESSAGE_ERROR, "cannot say what was found: %s", strerror(-r));
                return DOCTOR_BROKEN;
        }
        return worst == CGTREE_FINDING_BROKEN    ? DOCTOR_BROKEN
               : worst == CGTREE_FINDING_REDUCED ? DOCTOR_REDUCED
                                                 : DOCTOR_FULL;
}
