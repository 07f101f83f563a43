/* SPDX-License-Identifier: MIT */
#include "amount.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define AMOUNT_MAX      ((uint64_t)INT64_MAX / 1000)
#define FRACTION_DIGITS 6

/* Largest first, the last without a name. */
static const struct unit {
        const char *name;
        uint64_t factor;
} units[] = {
        { "T", UINT64_C(1) << 40 },
        { "G", UINT64_C(1) << 30 },
        { "M", UINT64_C(1) << 20 },
        { "K", UINT64_C(1) << 10 },
        { "", 1 },
};

#define N_UNITS (sizeof units / sizeof units[0])

static bool is_digit(char c) {
        return c >= '0' && c <= '9';
}

/* A decimal number, times factor, cut to a whole one. The factor is what the rest of the text stands for: unit_factor() gives 0
 * where it stands for nothing. */
static int parse(const char *text, uint64_t (*unit_factor)(const char *unit), uint64_t *ret_value) {
        uint64_t whole = 0, fraction = 0, denominator = 1, factor, rest;
        bool too_large = false;

        if (strcmp(text, "infinity") == 0) {
                *ret_value = UINT64_MAX;
                return 0;
        }
        if (!is_digit(*text))
                return -EINVAL;
        for (; is_digit(*text); text++) {
                too_large = too_large || whole > AMOUNT_MAX / 10;
                whole = too_large ? whole : whole * 10 + (unsigned)(*text - '0');
        }
        if (*text == '.') {
                if (!is_digit(*++text))
                        return -EINVAL;
                for (unsigned n = 0; is_digit(*text); text++, n++)
                        if (n < FRACTION_DIGITS) {
                                fraction = fraction * 10 + (unsigned)(*text - '0');
                                denominator *= 10;
                        }
        }
        factor = unit_factor(text);
        if (factor == 0 || (factor == 1 && denominator > 1))
                return -EINVAL;
        rest = fraction * factor / denominator; /* six digits times a T stay below 2^64 */
        if (too_large || whole > (AMOUNT_MAX - rest) / factor)
                return -ERANGE;
        whole = whole * factor + rest;
        if (whole == 0)
                return -EINVAL;
        *ret_value = whole;
        return 0;
}

static uint64_t size_factor(const char *unit) {
        for (size_t i = 0; i < N_UNITS; i++)
                if (strcmp(units[i].name, unit) == 0)
                        return units[i].factor;
        return 0;
}

static uint64_t percent_factor(const char *unit) {
        return strcmp(unit, "%") == 0 ? 10 : 0;
}

static uint64_t count_factor(const char *unit) {
        return !*unit;
}

int amount_parse_size(const char *text, uint64_t *ret_bytes) {
        return parse(text, size_factor, ret_bytes);
}

int amount_parse_percent(const char *text, uint64_t *ret_thousandths) {
        return parse(text, percent_factor, ret_thousandths);
}

int amount_parse_count(const char *text, uint64_t *ret_count) {
        return parse(text, count_factor, ret_count);
}

const char *amount_format_size(uint64_t bytes, char buffer[static AMOUNT_TEXT_SIZE]) {
        const struct unit *unit = units;

        while (bytes % unit->factor != 0)
                unit++;
        snprintf(buffer, AMOUNT_TEXT_SIZE, "%" PRIu64 "%s", bytes / unit->factor, unit->name);
        return buffer;
}
