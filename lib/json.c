/* SPDX-License-Identifier: MIT */
#include "json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 64

/* ---- reading ---------------------------------------------------------------------------------------------------- */

struct json {
        char *text;
        size_t n_values;
        struct json_value values[];
};

/* Strings are decoded where they stand: what they mean is never longer than what is written. */
struct reader {
        struct json *json;
        char *at;
        unsigned depth;
};

static bool read_value(struct reader *reader, struct json_value *value);

/* Each value is the outermost, or the first in its container, or follows a comma. */
static size_t count_values(const char *text) {
        size_t n = 1;

        for (; *text; text++)
                n += *text == ',' || *text == '{' || *text == '[';
        return n;
}

static void skip_blanks(struct reader *reader) {
        reader->at += strspn(reader->at, " \t\n\r");
}

static bool skip(struct reader *reader, char c) {
        if (*reader->at != c)
                return false;
        reader->at++;
        return true;
}

static bool read_hex(const char *text, unsigned *ret_number) {
        unsigned number = 0;

        for (size_t i = 0; i < 4; i++) {
                char c = text[i];

                if (c >= '0' && c <= '9')
                        number = number << 4 | (unsigned)(c - '0');
                else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
                        number = number << 4 | (unsigned)((c | 0x20) - 'a' + 10);
                else
                        return false;
        }
        *ret_number = number;
        return true;
}

static char *put_utf8(char *to, unsigned code) {
        if (code < 0x80) {
                *to++ = (char)code;
                return to;
        }
        if (code < 0x800)
                *to++ = (char)(0xc0 | code >> 6);
        else {
                if (code < 0x10000)
                        *to++ = (char)(0xe0 | code >> 12);
                else {
                        *to++ = (char)(0xf0 | code >> 18);
                        *to++ = (char)(0x80 | (code >> 12 & 0x3f));
                }
                *to++ = (char)(0x80 | (code >> 6 & 0x3f));
        }
        *to++ = (char)(0x80 | (code & 0x3f));
        return to;
}

/* After "\u". NULL: none, NUL, or half of a pair. */
static char *read_code(struct reader *reader, char *to) {
        unsigned code, low;

        if (!read_hex(reader->at, &code) || code == 0 || (code >= 0xdc00 && code < 0xe000))
                return NULL;
        reader->at += 4;
        if (code >= 0xd800 && code < 0xdc00) {
                if (reader->at[0] != '\\' || reader->at[1] != 'u' || !read_hex(reader->at + 2, &low) || low < 0xdc00 ||
                        low >= 0xe000)
                        return NULL;
                reader->at += 6;
                code = 0x10000 + ((code - 0xd800) << 10 | (low - 0xdc00));
        }
        return put_utf8(to, code);
}

static char *read_escape(struct reader *reader, char *to) {
        static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
        char c = *reader->at;
        const char *letter = c ? strchr(letters, c) : NULL;

        if (c)
                reader->at++;
        if (c == 'u')
                return read_code(reader, to);
        if (!letter)
                return NULL;
        *to++ = meanings[letter - letters];
        return to;
}

/* After the opening quote; NULL: not one. */
static const char *read_string(struct reader *reader, size_t *ret_length) {
        char *begin = reader->at, *to = begin;

        while (*reader->at != '"') {
                if ((unsigned char)*reader->at < ' ')
                        return NULL;
                if (skip(reader, '\\')) {
                        to = read_escape(reader, to);
                        if (!to)
                                return NULL;
                } else
                        *to++ = *reader->at++;
        }
        reader->at++;
        *to = '\0';
        *ret_length = (size_t)(to - begin);
        return begin;
}

static bool skip_digits(struct reader *reader) {
        size_t n = strspn(reader->at, "0123456789");

        reader->at += n;
        return n > 0;
}

static bool read_number(struct reader *reader, struct json_value *value) {
        value->type = JSON_NUMBER;
        value->text = reader->at;
        (void)skip(reader, '-');
        if (!skip(reader, '0') && !skip_digits(reader))
                return false;
        if (skip(reader, '.') && !skip_digits(reader))
                return false;
        if (skip(reader, 'e') || skip(reader, 'E')) {
                (void)(skip(reader, '+') || skip(reader, '-'));
                if (!skip_digits(reader))
                        return false;
        }
        value->length = (size_t)(reader->at - value->text);
        return true;
}

static bool read_word(struct reader *reader, struct json_value *value) {
        static const char *const words[] = { "null", "true", "false" };

        for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
                if (strncmp(reader->at, words[i], strlen(words[i])) == 0) {
                        reader->at += strlen(words[i]);
                        value->type = i == 0 ? JSON_NULL : JSON_BOOLEAN;
                        return true;
                }
        return false;
}

static bool read_key(struct reader *reader, struct json_value *value) {
        size_t length;

        if (!skip(reader, '"') || !(value->key = read_string(reader, &length)))
                return false;
        skip_blanks(reader);
        return skip(reader, ':');
}

/* After the opening bracket. */
static bool read_container(struct reader *reader, struct json_value *value, char end) {
        struct json_value **next = &value->child;

        value->type = end == '}' ? JSON_OBJECT : JSON_ARRAY;
        skip_blanks(reader);
        if (skip(reader, end))
                return true;
        if (++reader->depth > DEPTH_MAX)
                return false;
        do {
                struct json_value *member = &reader->json->values[reader->json->n_values++];

                *member = (struct json_value){ 0 };
                *next = member;
                next = &member->next;
                skip_blanks(reader);
                if ((end == '}' && !read_key(reader, member)) || !read_value(reader, member))
                        return false;
        } while (skip(reader, ','));
        reader->depth--;
        return skip(reader, end);
}

/* With the blanks around it. */
static bool read_value(struct reader *reader, struct json_value *value) {
        bool good;

        skip_blanks(reader);
        if (skip(reader, '{'))
                good = read_container(reader, value, '}');
        else if (skip(reader, '['))
                good = read_container(reader, value, ']');
        else if (skip(reader, '"')) {
                value->type = JSON_STRING;
                value->text = read_string(reader, &value->length);
                good = value->text;
        } else if (*reader->at == '-' || (*reader->at >= '0' && *reader->at <= '9'))
                good = read_number(reader, value);
        else
                good = read_word(reader, value);
        skip_blanks(reader);
        return good;
}

int json_parse(const char *text, size_t size, struct json **ret_json) {
        _cleanup_free_ char *copy = strndup(text, size);
        struct reader reader;
        struct json *json;

        if (!copy)
                return -ENOMEM;
        if (strlen(copy) != size)
                return -EBADMSG;
        json = malloc(sizeof(*json) + count_values(copy) * sizeof(json->values[0]));
        if (!json)
                return -ENOMEM;
        json->text = take_pointer(&copy);
        json->n_values = 1;
        json->values[0] = (struct json_value){ 0 };
        reader = (struct reader){ .json = json, .at = json->text };
        if (!read_value(&reader, &json->values[0]) || *reader.at) {
                json_free(json);
                return -EBADMSG;
        }
        *ret_json = json;
        return 0;
}

struct json *json_free(struct json *json) {
        if (json)
                free(json->text);
        free(json);
        return NULL;
}

const struct json_value *json_root(const struct json *json) {
        return &json->values[0];
}

const struct json_value *json_find(const struct json_value *object, const char *key) {
        if (!object || object->type != JSON_OBJECT)
                return NULL;
        for (const struct json_value *member = object->child; member; member = member->next)
                if (strcmp(member->key, key) == 0)
                        return member;
        return NULL;
}

/* ---- writing ---------------------------------------------------------------------------------------------------- */

static void put(struct json_writer *writer, const char *text, size_t length) {
        if (writer->length + length + 1 > writer->room) {
                size_t room = writer->room ? writer->room : 1024;
                char *larger;

                while (room < writer->length + length + 1)
                        room *= 2;
                larger = writer->failed ? NULL : realloc(writer->text, room);
                if (!larger) {
                        writer->failed = true;
                        return;
                }
                writer->text = larger;
                writer->room = room;
        }
        memcpy(writer->text + writer->length, text, length);
        writer->length += length;
        writer->text[writer->length] = '\0';
}

static void put_string(struct json_writer *writer, const char *text) {
        static const char letters[] = "\b\f\n\r\t\"\\", escapes[] = "bfnrt\"\\";

        put(writer, "\"", 1);
        while (*text) {
                size_t plain = 0;

                while ((unsigned char)text[plain] >= ' ' && text[plain] != '"' && text[plain] != '\\')
                        plain++;
                put(writer, text, plain);
                text += plain;
                if (*text) {
                        const char *letter = strchr(letters, *text);
                        char escape[8];
                        int n = letter ? snprintf(escape, sizeof(escape), "\\%c", escapes[letter - letters])
                                       : snprintf(escape, sizeof(escape), "\\u%04x", (unsigned char)*text);

                        put(writer, escape, (size_t)n);
                        text++;
                }
        }
        put(writer, "\"", 1);
}

static void put_key(struct json_writer *writer, const char *key) {
        if (writer->length > 0 && writer->text[writer->length - 1] != '{')
                put(writer, ",", 1);
        if (!key)
                return;
        put_string(writer, key);
        put(writer, ":", 1);
}

void json_begin_object(struct json_writer *writer, const char *key) {
        put_key(writer, key);
        put(writer, "{", 1);
}

void json_end_object(struct json_writer *writer) {
        put(writer, "}", 1);
}

void json_add_string(struct json_writer *writer, const char *key, const char *text) {
        put_key(writer, key);
        if (text)
                put_string(writer, text);
        else
                put(writer, "null", 4);
}

void json_add_number(struct json_writer *writer, const char *key, uint64_t number) {
        char text[24];

        put_key(writer, key);
        put(writer, text, (size_t)snprintf(text, sizeof(text), "%" PRIu64, number));
}

int json_finish(struct json_writer *writer, char **ret_text) {
        bool failed;

        put(writer, "\n", 1);
        failed = writer->failed;
        if (failed)
                free(writer->text);
        else
                *ret_text = writer->text;
        *writer = (struct json_writer){ 0 };
        return failed ? -ENOMEM : 0;
}
