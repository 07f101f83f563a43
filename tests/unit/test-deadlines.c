/* SPDX-License-Identifier: MIT */
#include "deadlines.h"

#include <check.h>
#include <stdlib.h>

#include "tree.h"

#define N 200

static cgtree_tree trees[N];

START_TEST(gives_the_first_whatever_comes_between) {
        struct deadlines deadlines = { 0 };
        ck_assert_int_eq(deadlines_reserve(&deadlines, N), 0);
        ck_assert_ptr_null(deadlines_first(&deadlines));
        srand(7);
        for (size_t round = 0; round < 50; round++) {
                for (size_t i = 0; i < N; i++) {
                        trees[i].wakeup = rand() % 5 == 0 ? USEC_FOREVER : (uint64_t)rand() % 1000;
                        if (rand() % 7 == 0)
                                deadlines_remove(&deadlines, &trees[i]);
                        else
                                deadlines_update(&deadlines, &trees[i]);
                }
                uint64_t before = 0;
                size_t seen = 0;
                for (cgtree_tree *first; (first = deadlines_first(&deadlines)); seen++) {
                        ck_assert(first->wakeup >= before && first->wakeup != USEC_FOREVER);
                        before = first->wakeup;
                        deadlines_remove(&deadlines, first);
                        ck_assert_uint_eq(first->heap_position, 0);
                }
                ck_assert(seen > 0 && seen < N);
        }
        deadlines_done(&deadlines);
}
END_TEST

START_TEST(removal_of_what_is_not_in_is_nothing) {
        struct deadlines deadlines = { 0 };
        cgtree_tree tree = { .wakeup = 3 };
        ck_assert_int_eq(deadlines_reserve(&deadlines, 1), 0);
        deadlines_remove(&deadlines, &tree);
        deadlines_update(&deadlines, &tree);
        deadlines_update(&deadlines, &tree);
        ck_assert_uint_eq(deadlines.n, 1);
        deadlines_remove(&deadlines, &tree);
        ck_assert_uint_eq(deadlines.n, 0);
        deadlines_done(&deadlines);
}
END_TEST

int main(void) {
        Suite *suite = suite_create("deadlines");
        TCase *tcase = tcase_create("deadlines");
        tcase_add_test(tcase, gives_the_first_whatever_comes_between);
        tcase_add_test(tcase, removal_of_what_is_not_in_is_nothing);
        suite_add_tcase(suite, tcase);
        SRunner *runner = srunner_create(suite);
        srunner_run_all(runner, CK_ENV);
        int failed = srunner_ntests_failed(runner);
        srunner_free(runner);
        return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
