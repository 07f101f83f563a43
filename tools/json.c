/* SPDX-License-Identifier: MIT */
#include "json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "message.h"

#define REPLACEMENT "\xef\xbf\xbd"

/* Length of the UTF-8 sequence at the start of text, 0 if there is none: overlong forms and surrogates are none. */
static size_t sequence_length(const unsigned char *text) {
        unsigned char first = text[0], low = 0x80, high = 0xbf;
        size_t length;

        if (first < 0x80)
                return 1;
        if (first < 0xc2 || first > 0xf4)
                return 0;
        length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
        if (first == 0xe0)
                low = 0xa0;
        else if (first == 0xf0)
                low = 0x90;
        else if (first == 0xed)
                high = 0x9f;
        else if (first == 0xf4)
                high = 0x8f;
        if (text[1] < low || text[1] > high)
                return 0;
        for (size_t i = 2; i < length; i++)
                if ((text[i] & 0xc0) != 0x80)
                        return 0;
        return length;
}

static char *to_utf8(const char *text) {
        char *result = malloc(strlen(text) * strlen(REPLACEMENT) + 1), *end = result;

        while (result && *text) {
                size_t n = sequence_length((const unsigned char *)text);

                end = n > 0 ? mempcpy(end, text, n) : mempcpy(end, REPLACEMENT, strlen(REPLACEMENT));
                text += n > 0 ? n : 1;
        }
        if (result)
                *end = '\0';
        return result;
}

int json_add_string(cJSON *object, const char *key, const char *text) {
        cJSON *added;
        char *copy;

        if (!text)
                return cJSON_AddNullToObject(object, key) ? 0 : -ENOMEM;
        copy = to_utf8(text);
        if (!copy)
                return -ENOMEM;
        added = cJSON_AddStringToObject(object, key, copy);
        free(copy);
        return added ? 0 : -ENOMEM;
}

int json_add_integer(cJSON *object, const char *key, uint64_t value) {
        char text[24];

        snprintf(text, sizeof text, "%" PRIu64, value);
        return cJSON_AddRawToObject(object, key, text) ? 0 : -ENOMEM;
}

int json_append(cJSON *array, cJSON *element) {
        if (element && cJSON_AddItemToArray(array, element))
                return 0;
        cJSON_Delete(element);
        return -ENOMEM;
}

int json_output(const cJSON *root) {
        char *text = cJSON_Print(root);
        size_t length;
        int r;

        if (!text)
                return -ENOMEM;
        /* The newline takes the place of the final NUL: one write. */
        length = strlen(text);
        text[length] = '\n';
        r = message_output(text, length + 1);
        cJSON_free(text);
        return r;
}
