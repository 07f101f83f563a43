/* SPDX-License-Identifier: MIT */
#include "duration.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* Leaves room to add a clock to any duration. */
#define DURATION_MAX ((uint64_t)INT64_MAX)

/* Eight digits times a day in microseconds stay below 2^64. */
#define FRACTION_DIGITS 8

static const struct unit {
        const char *name;
        uint64_t usec;
} units[] = {
        { "d", UINT64_C(86400000000) },
        { "h", UINT64_C(3600000000) },
        { "m", UINT64_C(60000000) },
        { "s", UINT64_C(1000000) },
        { "", UINT64_C(1000000) },
        { "ms", UINT64_C(1000) },
        { "us", UINT64_C(1) },
};

#define N_UNITS (sizeof units / sizeof units[0])

static bool is_digit(char c) {
        return c >= '0' && c <= '9';
}

static const struct unit *unit_find(const char *name) {
        for (size_t i = 0; i < N_UNITS; i++)
                if (strcmp(units[i].name, name) == 0)
                        return &units[i];
        return NULL;
}

static int parse_whole(const char **text, uint64_t *ret_value) {
        uint64_t value = 0;

        for (; is_digit(**text); (*text)++) {
                unsigned digit = (unsigned)(**text - '0');

                if (value > (DURATION_MAX - digit) / 10)
                        return -ERANGE;
                value = value * 10 + digit;
        }
        *ret_value = value;
        return 0;
}

/* Digits after the point: numerator and denominator of what counts, and whether any digit at all was not zero. */
static void parse_fraction(const char **text, uint64_t *ret_numerator, uint64_t *ret_denominator, bool *ret_positive) {
        uint64_t numerator = 0, denominator = 1;
        bool positive = false;

        for (unsigned n = 0; is_digit(**text); (*text)++, n++) {
                positive = positive || **text != '0';
                if (n < FRACTION_DIGITS) {
                        numerator = numerator * 10 + (unsigned)(**text - '0');
                        denominator *= 10;
                }
        }
        *ret_numerator = numerator;
        *ret_denominator = denominator;
        *ret_positive = positive;
}

int duration_parse(const char *text, uint64_t *ret_usec) {
        uint64_t whole, numerator = 0, denominator = 1, usec;
        const struct unit *unit;
        bool positive = false;
        int r;

        if (strcmp(text, "infinity") == 0) {
                *ret_usec = UINT64_MAX;
                return 0;
        }
        if (!is_digit(text[0]) && !(text[0] == '.' && is_digit(text[1])))
                return -EINVAL;

        r = parse_whole(&text, &whole);
        while (is_digit(*text))
                text++;
        if (*text == '.') {
                if (!is_digit(text[1]))
                        return -EINVAL;
                text++;
                parse_fraction(&text, &numerator, &denominator, &positive);
        }
        unit = unit_find(text);
        if (!unit)
                return -EINVAL;
        if (r < 0)
                return r;

        usec = numerator * unit->usec / denominator;
        if (whole > (DURATION_MAX - usec) / unit->usec)
                return -ERANGE;
        usec += whole * unit->usec;
        if (usec == 0 && positive)
                usec = 1;
        *ret_usec = usec;
        return 0;
}

const char *duration_format(uint64_t usec, unsigned decimals, char buffer[static DURATION_TEXT_SIZE]) {
        const struct unit *unit = units;
        char fraction[8] = "";
        uint64_t rest;
        int n;

        if (usec == UINT64_MAX)
                return "infinity";
        if (usec == 0)
                return "0s";
        while (usec < unit->usec || !unit->name[0])
                unit++;

        rest = usec % unit->usec;
        if (unit->usec >= 1000)
                snprintf(fraction, sizeof fraction, ".%03u", (unsigned)(rest / (unit->usec / 1000)));
        n = (int)(decimals == 0 ? 0 : decimals + 1);
        while (n > 0 && (fraction[n - 1] == '0' || fraction[n - 1] == '.' || fraction[n - 1] == '\0'))
                n--;
        snprintf(buffer, DURATION_TEXT_SIZE, "%" PRIu64 "%.*s%s", usec / unit->usec, n, fraction, unit->name);
        return buffer;
}
