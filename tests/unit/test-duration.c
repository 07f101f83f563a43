/* SPDX-License-Identifier: MIT */
#include <check.h>
#include <errno.h>
#include <stdlib.h>

#include "duration.h"

#define SECOND UINT64_C(1000000)

static const struct {
        const char *text;
        int result;
        uint64_t usec;
} parsed[] = {
        { "0", 0, 0 },
        { "0s", 0, 0 },
        { "0.000", 0, 0 },
        { "1", 0, SECOND },
        { "007", 0, 7 * SECOND },
        { "1s", 0, SECOND },
        { "1.5", 0, 1500000 },
        { "1.5s", 0, 1500000 },
        { ".5", 0, 500000 },
        { ".5s", 0, 500000 },
        { "150ms", 0, 150000 },
        { "0.25ms", 0, 250 },
        { "250us", 0, 250 },
        { "2m", 0, 120 * SECOND },
        { "1.5m", 0, 90 * SECOND },
        { "1h", 0, 3600 * SECOND },
        { "0.1h", 0, 360 * SECOND },
        { "1d", 0, 86400 * SECOND },
        { "0.5d", 0, 43200 * SECOND },
        { "infinity", 0, UINT64_MAX },
        { "1.0000000000000000000000001", 0, SECOND },
        { "1.999999", 0, 1999999 },

        /* What is not zero does not become "none", or "at once". */
        { "0.1us", 0, 1 },
        { "0.0000001", 0, 1 },
        { "0.000000000000000000001d", 0, 1 },

        { "9223372036854775807us", 0, INT64_MAX },
        { "9223372036854775808us", -ERANGE, 0 },
        { "9223372036854.775807", 0, INT64_MAX },
        { "9223372036855", -ERANGE, 0 },
        { "106751991d", 0, UINT64_C(106751991) * 86400 * SECOND },
        { "106751992d", -ERANGE, 0 },
        { "18446744073709551616", -ERANGE, 0 },
        { "99999999999999999999999999999999", -ERANGE, 0 },
        { "99999999999999999999999999999999x", -EINVAL, 0 },

        { "", -EINVAL, 0 },
        { " 1", -EINVAL, 0 },
        { "1 ", -EINVAL, 0 },
        { "1 s", -EINVAL, 0 },
        { "-1", -EINVAL, 0 },
        { "+1", -EINVAL, 0 },
        { ".", -EINVAL, 0 },
        { ".s", -EINVAL, 0 },
        { "1.", -EINVAL, 0 },
        { "1.s", -EINVAL, 0 },
        { "1.5.2", -EINVAL, 0 },
        { "1,5", -EINVAL, 0 },
        { "s", -EINVAL, 0 },
        { "ms", -EINVAL, 0 },
        { "1S", -EINVAL, 0 },
        { "1M", -EINVAL, 0 },
        { "1min", -EINVAL, 0 },
        { "1ss", -EINVAL, 0 },
        { "1s5", -EINVAL, 0 },
        { "0x10", -EINVAL, 0 },
        { "1e3", -EINVAL, 0 },
        { "inf", -EINVAL, 0 },
        { "Infinity", -EINVAL, 0 },
        { "infinitys", -EINVAL, 0 },
        { "nan", -EINVAL, 0 },
};

START_TEST(parses) {
        uint64_t usec = 4711;
        int r = duration_parse(parsed[_i].text, &usec);

        ck_assert_msg(r == parsed[_i].result, "'%s': %d, not %d", parsed[_i].text, r, parsed[_i].result);
        /* Nothing is set on failure. */
        ck_assert_msg(
                usec == (r < 0 ? 4711 : parsed[_i].usec), "'%s': %llu us", parsed[_i].text, (unsigned long long)usec);
}
END_TEST

static const struct {
        uint64_t usec;
        unsigned decimals;
        const char *text;
} formatted[] = {
        { 0, 3, "0s" },
        { 1, 3, "1us" },
        { 999, 3, "999us" },
        { 1000, 3, "1ms" },
        { 1500, 3, "1.5ms" },
        { 300000, 3, "300ms" },
        { 1500000, 3, "1.5s" },
        { 1050000, 3, "1.05s" },
        { 1050000, 1, "1s" },
        { 1999999, 0, "1s" },
        { 60 * SECOND, 3, "1m" },
        { 90 * SECOND, 3, "1.5m" },
        { 90 * SECOND, 0, "1m" },
        { 36 * 3600 * SECOND, 0, "1d" },
        { 36 * 3600 * SECOND, 3, "1.5d" },
        { UINT64_MAX, 3, "infinity" },
};

START_TEST(formats) {
        char buffer[DURATION_TEXT_SIZE];

        ck_assert_str_eq(duration_format(formatted[_i].usec, formatted[_i].decimals, buffer), formatted[_i].text);
}
END_TEST

int main(void) {
        Suite *suite = suite_create("duration");
        TCase *tests = tcase_create("duration");
        SRunner *runner;
        int failed;

        tcase_add_loop_test(tests, parses, 0, (int)(sizeof parsed / sizeof parsed[0]));
        tcase_add_loop_test(tests, formats, 0, (int)(sizeof formatted / sizeof formatted[0]));
        suite_add_tcase(suite, tests);
        runner = srunner_create(suite);
        srunner_run_all(runner, CK_ENV);
        failed = srunner_ntests_failed(runner);
        srunner_free(runner);
        return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
