/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>

/* "150ms", "1.5s", "2m", "1h", "1d", "us" too, a bare number of seconds, "infinity" (UINT64_MAX). What is not zero does
 * not become zero. -EINVAL: not a duration; -ERANGE: too long to count. */
int duration_parse(const char *text, uint64_t *ret_usec);

/* For people, cut to `decimals` (0 to 3) digits of the largest unit that is not above it: "1.5s", "300ms", "infinity". */
#define DURATION_TEXT_SIZE 32
const char *duration_format(uint64_t usec, unsigned decimals, char buffer[static DURATION_TEXT_SIZE]);
