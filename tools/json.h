/* SPDX-License-Identifier: MIT */
#pragma once

#include <cjson/cJSON.h>
#include <stdint.h>

/* cJSON, with what it leaves to its users. All return 0 or a negative errno. */

/* NULL gives null. What is not UTF-8 in text becomes U+FFFD. */
int json_add_string(cJSON *object, const char *key, const char *text);
/* Whole, not in floating point. */
int json_add_integer(cJSON *object, const char *key, uint64_t value);
/* An element of array. */
int json_append(cJSON *array, cJSON *element);
/* Indented, with a newline, to stdout. */
int json_output(const cJSON *root);
