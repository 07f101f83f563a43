/* SPDX-License-Identifier: MIT */
#include "decision.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "message.h"

static bool is_problem(const char *decision) {
        return strcmp(decision, "failed") == 0 || strcmp(decision, "skipped") == 0;
}

int decision_print(const char *id, const char *decision, const char *reason) {
        char text[1024], line[2048];
        size_t length;

        if (is_problem(decision)) {
                message(MESSAGE_ERROR, "%s %s: %s", decision, id, reason);
                return 0;
        }
        if (!message_is_said(strcmp(decision, "kept") == 0 ? MESSAGE_DETAIL : MESSAGE_NOTICE))
                return 0;
        snprintf(text, sizeof text, "%-10s  %s  %s", decision, id, reason);
        length = message_escape(line, sizeof line - 1, text);
        line[length++] = '\n';
        return message_output(line, length);
}
