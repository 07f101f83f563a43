/* SPDX-License-Identifier: MIT */
#pragma once

/* JSON as records need it: read strictly, numbers kept as the text they are, and written without anything in between. A library
 * for it would cost each run of a command more than the record itself. */

#include "util.h"

enum json_type {
        JSON_NULL,
        JSON_BOOLEAN,
        JSON_NUMBER,
        JSON_STRING,
        JSON_ARRAY,
        JSON_OBJECT,
};

struct json_value {
        enum json_type type;
        const char *key;         /* within an object; else NULL */
        const char *text;        /* of a string, without NUL and decoded; of a number as it stands */
        size_t length;           /* of text: only a string ends with a NUL, too */
        struct json_value *next; /* in the same container */
        struct json_value *child;
};

struct json;

/* One value with nothing but blanks around it, all of `size` bytes. Refused (-EBADMSG): what the grammar refuses, NUL in a string,
 * lone surrogates, more than 64 levels. Bytes above 0x7f are taken as they are. -ENOMEM. */
int json_parse(const char *text, size_t size, struct json **ret_json);
struct json *json_free(struct json *json); /* returns NULL */
const struct json_value *json_root(const struct json *json);
/* NULL also when `object` is NULL or none. */
const struct json_value *json_find(const struct json_value *object, const char *key);

/* Begins empty; a failure is kept until the end. */
struct json_writer {
        char *text;
        size_t length, room;
        bool failed;
};

/* `key` NULL: the outermost one. */
void json_begin_object(struct json_writer *writer, const char *key);
void json_end_object(struct json_writer *writer);
void json_add_string(struct json_writer *writer, const char *key, const char *text); /* text NULL: null */
void json_add_number(struct json_writer *writer, const char *key, uint64_t number);
/* With a newline at its end, malloc'd; -ENOMEM. Nothing is kept in either case. */
int json_finish(struct json_writer *writer, char **ret_text);
