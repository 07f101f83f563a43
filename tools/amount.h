/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>

/* What limits are given in. "infinity" is UINT64_MAX. -EINVAL: nothing of the kind, or nothing at all; -ERANGE: too much to count. */

/* Bytes: "64M", "1.5G", "4096"; K, M, G, T by 1024. */
int amount_parse_size(const char *text, uint64_t *ret_bytes);
/* Thousandths of one CPU: "50%", "12.5%", "200%". */
int amount_parse_percent(const char *text, uint64_t *ret_thousandths);
/* A whole number. */
int amount_parse_count(const char *text, uint64_t *ret_count);

/* For people, in the largest unit that divides it: "64M", "1536M", "100". */
#define AMOUNT_TEXT_SIZE 32
const char *amount_format_size(uint64_t bytes, char buffer[static AMOUNT_TEXT_SIZE]);
