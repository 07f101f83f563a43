/* SPDX-License-Identifier: MIT */
#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "signal-name.h"

static const struct {
        const char *text;
        int number;
} fixed[] = {
        { "TERM", SIGTERM },
        { "SIGTERM", SIGTERM },
        { "term", SIGTERM },
        { "SigTerm", SIGTERM },
        { "15", SIGTERM },
        { "1", SIGHUP },
        { "09", SIGKILL },
        { "64", 64 },
        { "KILL", SIGKILL },
        { "IOT", SIGABRT },
        { "CLD", SIGCHLD },
        { "POLL", SIGIO },
        { "SIGSYS", SIGSYS },

        { "", -EINVAL },
        { "0", -EINVAL },
        { "65", -EINVAL },
        { "-1", -EINVAL },
        { "+1", -EINVAL },
        { " 15", -EINVAL },
        { "15 ", -EINVAL },
        { "015", -EINVAL },
        { "4294967305", -EINVAL },
        { "SIG", -EINVAL },
        { "SIG15", -EINVAL },
        { "SIGSIGTERM", -EINVAL },
        { "TERMINATE", -EINVAL },
        { "TER", -EINVAL },
        { "EXIT", -EINVAL },
        { "RTMIN-1", -EINVAL },
        { "RTMAX+1", -EINVAL },
        { "RTMIN+", -EINVAL },
        { "RTMIN+31", -EINVAL },
        { "RTMIN+x", -EINVAL },
        { "RTMIN1", -EINVAL },
};

START_TEST(parses) {
        int r = signal_parse(fixed[_i].text);

        ck_assert_msg(r == fixed[_i].number, "'%s': %d, not %d", fixed[_i].text, r, fixed[_i].number);
}
END_TEST

START_TEST(parses_realtime) {
        ck_assert_int_eq(signal_parse("RTMIN"), SIGRTMIN);
        ck_assert_int_eq(signal_parse("sigrtmin+3"), SIGRTMIN + 3);
        ck_assert_int_eq(signal_parse("RTMAX"), SIGRTMAX);
        ck_assert_int_eq(signal_parse("SIGRTMAX-2"), SIGRTMAX - 2);
}
END_TEST

START_TEST(formats) {
        char buffer[SIGNAL_TEXT_SIZE];

        ck_assert_str_eq(signal_format(SIGTERM, buffer), "SIGTERM");
        ck_assert_str_eq(signal_format(SIGABRT, buffer), "SIGABRT");
        ck_assert_str_eq(signal_format(SIGRTMIN, buffer), "SIGRTMIN");
        ck_assert_str_eq(signal_format(SIGRTMIN + 2, buffer), "SIGRTMIN+2");
        ck_assert_str_eq(signal_format(33, buffer), "signal 33");
}
END_TEST

/* Every signal that a process can die of has a name that leads back to it. */
START_TEST(leads_back) {
        char buffer[SIGNAL_TEXT_SIZE];

        if (_i == 32 || _i == 33)
                return;
        ck_assert_int_eq(signal_parse(signal_format(_i, buffer)), _i);
}
END_TEST

int main(void) {
        Suite *suite = suite_create("signal-name");
        TCase *tests = tcase_create("signal-name");
        SRunner *runner;
        int failed;

        tcase_add_loop_test(tests, parses, 0, (int)(sizeof fixed / sizeof fixed[0]));
        tcase_add_test(tests, parses_realtime);
        tcase_add_test(tests, formats);
        tcase_add_loop_test(tests, leads_back, 1, 65);
        suite_add_tcase(suite, tests);
        runner = srunner_create(suite);
        srunner_run_all(runner, CK_ENV);
        failed = srunner_ntests_failed(runner);
        srunner_free(runner);
        return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
