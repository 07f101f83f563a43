/* SPDX-License-Identifier: MIT */
#include "amount.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>

/* What the limits of the tool are given in. */

static void check_size(const char *text, uint64_t bytes) {
        uint64_t value = 7;
        ck_assert_msg(amount_parse_size(text, &value) == 0, "%s", text);
        ck_assert_msg(value == bytes, "%s: %llu", text, (unsigned long long)value);
}

START_TEST(sizes) {
        check_size("1", 1);
        check_size("4096", 4096);
        check_size("64K", 65536);
        check_size("64M", UINT64_C(64) << 20);
        check_size("1.5G", UINT64_C(3) << 29);
        check_size("2T", UINT64_C(2) << 40);
        check_size("0.5K", 512);
        check_size("infinity", UINT64_MAX);
        check_size("0.999999T", UINT64_C(1099510528264));
}
END_TEST

START_TEST(percents) {
        uint64_t value;
        ck_assert_int_eq(amount_parse_percent("50%", &value), 0);
        ck_assert_uint_eq(value, 500);
        ck_assert_int_eq(amount_parse_percent("12.5%", &value), 0);
        ck_assert_uint_eq(value, 125);
        ck_assert_int_eq(amount_parse_percent("200%", &value), 0);
        ck_assert_uint_eq(value, 2000);
        ck_assert_int_eq(amount_parse_percent("0.1%", &value), 0);
        ck_assert_uint_eq(value, 1);
        ck_assert_int_eq(amount_parse_percent("infinity", &value), 0);
        ck_assert_uint_eq(value, UINT64_MAX);
        ck_assert_int_eq(amount_parse_percent("50", &value), -EINVAL);
        ck_assert_int_eq(amount_parse_percent("0.01%", &value), -EINVAL); /* nothing at all */
        ck_assert_int_eq(amount_parse_percent("50%%", &value), -EINVAL);
}
END_TEST

START_TEST(counts) {
        uint64_t value;
        ck_assert_int_eq(amount_parse_count("20", &value), 0);
        ck_assert_uint_eq(value, 20);
        ck_assert_int_eq(amount_parse_count("infinity", &value), 0);
        ck_assert_uint_eq(value, UINT64_MAX);
        ck_assert_int_eq(amount_parse_count("1.5", &value), -EINVAL);
        ck_assert_int_eq(amount_parse_count("20K", &value), -EINVAL);
        ck_assert_int_eq(amount_parse_count("0", &value), -EINVAL);
}
END_TEST

START_TEST(refuses_what_is_no_amount) {
        static const char *const wrong[] = { "", "M", "-1", "+1", " 1", "1 ", "1m", "1KB", "0", "0M", "1.M", ".5M",
                "1.5", "Infinity", "0x10", "1e3" };
        uint64_t value = 7;
        for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
                ck_assert_msg(amount_parse_size(wrong[i], &value) == -EINVAL, "'%s'", wrong[i]);
        ck_assert_int_eq(amount_parse_size("99999999999999999999", &value), -ERANGE);
        ck_assert_int_eq(amount_parse_size("9000000T", &value), -ERANGE);
        ck_assert_int_eq(amount_parse_size("99999999999999999999X", &value), -EINVAL);
        ck_assert_uint_eq(value, 7);
}
END_TEST

START_TEST(prints_as_it_is_given) {
        char text[AMOUNT_TEXT_SIZE];
        ck_assert_str_eq(amount_format_size(UINT64_C(64) << 20, text), "64M");
        ck_assert_str_eq(amount_format_size(UINT64_C(3) << 29, text), "1536M");
        ck_assert_str_eq(amount_format_size(100, text), "100");
        ck_assert_str_eq(amount_format_size(UINT64_C(1) << 40, text), "1T");
}
END_TEST

int main(void) {
        Suite *suite = suite_create("amount");
        TCase *tcase = tcase_create("amount");
        tcase_add_test(tcase, sizes);
        tcase_add_test(tcase, percents);
        tcase_add_test(tcase, counts);
        tcase_add_test(tcase, refuses_what_is_no_amount);
        tcase_add_test(tcase, prints_as_it_is_given);
        suite_add_tcase(suite, tcase);
        SRunner *runner = srunner_create(suite);
        srunner_run_all(runner, CK_ENV);
        int failed = srunner_ntests_failed(runner);
        srunner_free(runner);
        return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
