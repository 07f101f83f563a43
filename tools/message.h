/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Everything that the tool says on stderr goes through here: "cgtree: " and one line, in one write. */

enum message_level {
        MESSAGE_ERROR,  /* always */
        MESSAGE_NOTICE, /* unless --quiet */
        MESSAGE_DETAIL, /* with --verbose */
};

/* The highest level that is said; at the start MESSAGE_NOTICE, or MESSAGE_ERROR if $CGTREE_QUIET is set and not empty. */
void message_set_level(enum message_level level);
bool message_is_said(enum message_level level);

void message(enum message_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Copies text, every control character written as \xNN, cut to fit. Returns the length. */
size_t message_escape(char *buffer, size_t size, const char *text);

/* A text for stdout, whole. 0 or -errno. */
int message_output(const char *text, size_t size);
