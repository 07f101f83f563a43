/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "bench.h"

#define ROWS_MAX     32
#define EXPECTED_MAX 16
#define TABLES_MAX   32

struct samples {
        double *list;
        size_t n, room;
};

struct row {
        char name[64];
        struct samples value, cpu;
};

struct expected {
        char what[96];
        double value, limit;
        bool at_least;
};

struct table {
        const char *part, *title, *unit;
        struct row rows[ROWS_MAX];
        size_t n_rows;
        const struct row *reference;
        struct expected expected[EXPECTED_MAX];
        size_t n_expected;
};

static struct table *tables[TABLES_MAX];
static size_t n_tables;
static char *notes[64];
static size_t n_notes;

void note(const char *template, ...) {
        va_list arguments;
        va_start(arguments, template);
        char *text = NULL;
        if (n_notes < sizeof(notes) / sizeof(*notes) && vasprintf(&text, template, arguments) >= 0) {
                notes[n_notes++] = text;
                printf("note: %s\n", text);
        }
        va_end(arguments);
}

struct table *table_new(const char *part, const char *title, const char *unit) {
        struct table *table = calloc(1, sizeof(*table));
        if (!table || n_tables == TABLES_MAX)
                die("too many tables");
        *table = (struct table){ .part = part, .title = title, .unit = unit };
        tables[n_tables++] = table;
        return table;
}

struct row *table_row(struct table *table, const char *template, ...) {
        if (table->n_rows == ROWS_MAX)
                die("too many rows");
        struct row *row = &table->rows[table->n_rows++];
        va_list arguments;
        va_start(arguments, template);
        (void)vsnprintf(row->name, sizeof(row->name), template, arguments);
        va_end(arguments);
        return row;
}

static void add(struct samples *samples, double sample) {
        if (samples->n == samples->room) {
                samples->room = samples->room ? 2 * samples->room : 64;
                samples->list = reallocarray(samples->list, samples->room, sizeof(double));
                if (!samples->list)
                        die("out of memory");
        }
        samples->list[samples->n++] = sample;
}

void row_add(struct row *row, double sample) {
        add(&row->value, sample);
}

void row_add_cpu(struct row *row, double sample) {
        add(&row->cpu, sample);
}

static int compare(const void *a, const void *b) {
        double left, right;
        memcpy(&left, a, sizeof(left));
        memcpy(&right, b, sizeof(right));
        return (left > right) - (left < right);
}

static double quantile(const struct samples *samples, double share) {
        if (samples->n == 0)
                return NAN;
        double *sorted = malloc(samples->n * sizeof(double));
        if (!sorted)
                die("out of memory");
        memcpy(sorted, samples->list, samples->n * sizeof(double));
        qsort(sorted, samples->n, sizeof(double), compare);
        double value = sorted[(size_t)(share * (double)(samples->n - 1) + 0.5)];
        free(sorted);
        return value;
}

double row_median(const struct row *row) {
        return row ? quantile(&row->value, 0.5) : NAN;
}

double row_worst(const struct row *row) {
        return row ? quantile(&row->value, 1) : NAN;
}

void table_set_reference(struct table *table, const struct row *row) {
        table->reference = row;
}

void table_expect(struct table *table, const char *what, double value, bool at_least, double limit) {
        if (isnan(value) || table->n_expected == EXPECTED_MAX)
                return;
        struct expected *expected = &table->expected[table->n_expected++];
        *expected = (struct expected){ .value = value, .limit = limit, .at_least = at_least };
        (void)snprintf(expected->what, sizeof(expected->what), "%s", what);
}

static bool is_met(const struct expected *expected) {
        return expected->at_least ? expected->value >= expected->limit : expected->value <= expected->limit;
}

/* ---- for people ---- */

static void print_number(double value, int width) {
        if (isnan(value))
                printf("%*s", width, "-");
        else
                printf("%*.*f", width, value < 10 ? 2 : value < 100 ? 1 : 0, value);
}

static void print_row(const struct table *table, const struct row *row) {
        printf("  %-44s", row->name);
        if (row->value.n == 0) {
                printf("  not to be had here\n");
                return;
        }
        print_number(row_median(row), 10);
        print_number(quantile(&row->value, 0), 10);
        print_number(quantile(&row->value, 0.99), 10);
        print_number(row_worst(row), 10);
        print_number(quantile(&row->cpu, 0.5), 10);
        print_number(row_median(row) / row_median(table->reference), 8);
        printf("%7zu\n", row->value.n);
}

void table_print(const struct table *table) {
        printf("\n(%s) %s, %s\n", table->part, table->title, table->unit);
        printf("  %-44s%10s%10s%10s%10s%10s%8s%7s\n", "", "median", "least", "p99", "worst", "cpu", "ratio", "n");
        for (size_t i = 0; i < table->n_rows; i++)
                print_row(table, &table->rows[i]);
        for (size_t i = 0; i < table->n_expected; i++) {
                const struct expected *expected = &table->expected[i];
                printf("  %-64s%8.2f   at %s %g: %s\n", expected->what, expected->value,
                        expected->at_least ? "least" : "most", expected->limit, is_met(expected) ? "yes" : "NO");
        }
        (void)fflush(stdout);
}

/* ---- for programs ---- */

static void put_string(FILE *file, const char *text) {
        (void)fputc('"', file);
        for (; *text; text++)
                if ((unsigned char)*text < ' ' || *text == '"' || *text == '\\')
                        (void)fprintf(file, "\\u%04x", (unsigned char)*text);
                else
                        (void)fputc(*text, file);
        (void)fputc('"', file);
}

static void put_number(FILE *file, const char *key, double value) {
        if (isnan(value))
                (void)fprintf(file, ", \"%s\": null", key);
        else
                (void)fprintf(file, ", \"%s\": %.4f", key, value);
}

static void put_row(FILE *file, const struct table *table, const struct row *row) {
        (void)fprintf(file, "{\"name\": ");
        put_string(file, row->name);
        (void)fprintf(file, ", \"n\": %zu", row->value.n);
        put_number(file, "median", row_median(row));
        put_number(file, "least", quantile(&row->value, 0));
        put_number(file, "p99", quantile(&row->value, 0.99));
        put_number(file, "worst", row_worst(row));
        put_number(file, "cpu", quantile(&row->cpu, 0.5));
        put_number(file, "ratio", row_median(row) / row_median(table->reference));
        (void)fprintf(file, "}");
}

static void put_expected(FILE *file, const struct expected *expected) {
        (void)fprintf(file, "{\"what\": ");
        put_string(file, expected->what);
        put_number(file, "value", expected->value);
        put_number(file, expected->at_least ? "least" : "most", expected->limit);
        (void)fprintf(file, ", \"met\": %s}", is_met(expected) ? "true" : "false");
}

static void put_table(FILE *file, const struct table *table) {
        (void)fprintf(file, "{\"part\": \"%s\", \"title\": \"%s\", \"unit\": \"%s\", \"rows\": [", table->part,
                table->title, table->unit);
        for (size_t i = 0; i < table->n_rows; i++) {
                (void)fprintf(file, "%s\n  ", i ? "," : "");
                put_row(file, table, &table->rows[i]);
        }
        (void)fprintf(file, "], \"expected\": [");
        for (size_t i = 0; i < table->n_expected; i++) {
                (void)fprintf(file, "%s\n  ", i ? "," : "");
                put_expected(file, &table->expected[i]);
        }
        (void)fprintf(file, "]}");
}

void tables_write_json(const char *path) {
        FILE *file = fopen(path, "we");
        struct utsname machine;
        if (!file)
                die("%s: %m", path);
        (void)uname(&machine);
        (void)fprintf(file, "{\"version\": 1, \"kernel\": ");
        put_string(file, machine.release);
        (void)fprintf(file, ", \"machine\": \"%s\", \"cpus\": %ld, \"tables\": [", machine.machine,
                sysconf(_SC_NPROCESSORS_ONLN));
        for (size_t i = 0; i < n_tables; i++) {
                (void)fprintf(file, "%s\n ", i ? "," : "");
                put_table(file, tables[i]);
        }
        (void)fprintf(file, "], \"notes\": [");
        for (size_t i = 0; i < n_notes; i++) {
                (void)fprintf(file, "%s\n ", i ? "," : "");
                put_string(file, notes[i]);
        }
        (void)fprintf(file, "]}\n");
        if (fclose(file) != 0)
                die("%s: %m", path);
}
