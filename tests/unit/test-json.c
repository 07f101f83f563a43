/* SPDX-License-Identifier: MIT */
#include "json.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

START_TEST(refuses) {
        static const char *const texts[] = { "", " ", "{", "}", "[", "]", "[1,]", "[,1]", "{\"a\":1,}", "{\"a\"}",
                "{\"a\":}", "{a:1}", "{1:1}", "{\"a\" 1}", "[1 2]", "nul", "nulll", "True", "\"", "\"\\", "\"\\u12\"",
                "\"\\u12g4\"", "\"\\x\"", "\"\n\"", "\"\\u0000\"", "\"\\ud800\"", "\"\\udc00\"", "\"\\ud800\\u0041\"",
                "\"\\ud800x\"", "01", "+1", "-", ".5", "1.", "1e", "1e+", "0x1", "1 1", "\xef\xbb\xbf{}", "'a'", "//" };
        for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
                struct json *json;
                ck_assert_msg(json_parse(texts[i], strlen(texts[i]), &json) == -EBADMSG, "taken: %s", texts[i]);
        }
        struct json *json;
        ck_assert_int_eq(json_parse("1\0", 2, &json), -EBADMSG);
}
END_TEST

START_TEST(is_deep) {
        char text[256];
        for (size_t depth = 1; depth <= 100; depth++) {
                struct json *json;
                memset(text, '[', depth);
                memset(text + depth, ']', depth);
                text[2 * depth] = '\0';
                /* The innermost is empty, and no level. */
                int r = json_parse(text, 2 * depth, &json);
                ck_assert_int_eq(r, depth <= 65 ? 0 : -EBADMSG);
                if (r >= 0)
                        json_free(json);
        }
}
END_TEST

static void check_string(const char *text, const char *meaning) {
        struct json *json;
        ck_assert_int_eq(json_parse(text, strlen(text), &json), 0);
        ck_assert_int_eq(json_root(json)->type, JSON_STRING);
        ck_assert_str_eq(json_root(json)->text, meaning);
        ck_assert_uint_eq(json_root(json)->length, strlen(meaning));
        json_free(json);
}

START_TEST(decodes_strings) {
        check_string("\"\"", "");
        check_string(" \"a\" ", "a");
        check_string("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t");
        check_string("\"\\u0041\\u00e9\\u20AC\\ud83d\\uDE00\"", "A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
        check_string("\"\\u0001\"", "\x01");
        check_string("\"\xff\"", "\xff");
}
END_TEST

START_TEST(finds) {
        static const char text[] =
                " { \"a\" : -0.5e+7 , \"b\":[true,false,null,\"x\",{}],\"\\u0063\":{\"d\":18446744073709551615},"
                "\"a\":2}";
        struct json *json;
        ck_assert_int_eq(json_parse(text, strlen(text), &json), 0);
        const struct json_value *root = json_root(json), *a = json_find(root, "a"), *b = json_find(root, "b");
        ck_assert_int_eq(a->type, JSON_NUMBER);
        ck_assert_uint_eq(a->length, strlen("-0.5e+7"));
        ck_assert_int_eq(strncmp(a->text, "-0.5e+7", a->length), 0);
        static const enum json_type types[] = { JSON_BOOLEAN, JSON_BOOLEAN, JSON_NULL, JSON_STRING, JSON_OBJECT };
        const struct json_value *member = b->child;
        for (size_t i = 0; i < 5; i++, member = member->next)
                ck_assert_int_eq(member->type, types[i]);
        ck_assert_ptr_null(member);
        ck_assert_uint_eq(json_find(json_find(root, "c"), "d")->length, strlen("18446744073709551615"));
        ck_assert_ptr_null(json_find(root, "d"));
        ck_assert_ptr_null(json_find(b, "a"));
        ck_assert_ptr_null(json_find(NULL, "a"));
        json_free(json);
}
END_TEST

START_TEST(writes) {
        struct json_writer writer = { 0 };
        char *text, large[5000];
        memset(large, 'x', sizeof(large));
        large[sizeof(large) - 1] = '\0';
        json_begin_object(&writer, NULL);
        json_add_string(&writer, "a", "\"\\\b\f\n\r\t\x01\x1f\x7f\xc3\xa9");
        json_add_string(&writer, "b", NULL);
        json_begin_object(&writer, "c");
        json_end_object(&writer);
        json_begin_object(&writer, "d");
        json_add_number(&writer, "e", UINT64_MAX);
        json_add_number(&writer, "f", 0);
        json_end_object(&writer);
        json_add_string(&writer, "g{", "");
        json_end_object(&writer);
        ck_assert_int_eq(json_finish(&writer, &text), 0);
        ck_assert_str_eq(text, "{\"a\":\"\\\"\\\\\\b\\f\\n\\r\\t\\u0001\\u001f\x7f\xc3\xa9\",\"b\":null,\"c\":{},"
                               "\"d\":{\"e\":18446744073709551615,\"f\":0},\"g{\":\"\"}\n");
        free(text);

        json_add_string(&writer, NULL, large);
        ck_assert_int_eq(json_finish(&writer, &text), 0);
        ck_assert_uint_eq(strlen(text), sizeof(large) - 1 + strlen("\"\"\n"));
        free(text);
}
END_TEST

int main(void) {
        Suite *suite = suite_create("json");
        TCase *tcase = tcase_create("json");
        tcase_add_test(tcase, refuses);
        tcase_add_test(tcase, is_deep);
        tcase_add_test(tcase, decodes_strings);
        tcase_add_test(tcase, finds);
        tcase_add_test(tcase, writes);
        suite_add_tcase(suite, tcase);
        SRunner *runner = srunner_create(suite);
        srunner_run_all(runner, CK_ENV);
        int n = srunner_ntests_failed(runner);
        srunner_free(runner);
        return n ? EXIT_FAILURE : EXIT_SUCCESS;
}
