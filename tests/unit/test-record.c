/* SPDX-License-Identifier: MIT */
#include "record.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ID    "v7k2m9q4x1c8r5t0"
#define OTHER "0000000000000001"
#define BOOT  "01234567-89ab-cdef-0123-456789abcdef"

static const char subtree_text[] =
        "{\"version\":1,\"id\":\"v7k2m9q4x1c8r5t0\",\"name\":\"side-car.1\",\"lifetime\":\"owner\","
        "\"boot_id\":\"01234567-89ab-cdef-0123-456789abcdef\",\"pid_namespace\":4026531836,"
        "\"cgroup_namespace\":4026531835,\"owner\":{\"pid\":4711,\"start_time\":76973,\"pidfd_inode\":370441,"
        "\"comm\":\"sidecar\"},\"backend\":\"subtree\","
        "\"cgroup\":\"/app.slice/x.scope/cgtree-4711-k3/trees/v7k2m9q4x1c8r5t0\",\"cgroup_id\":305507,\"unit\":null,"
        "\"manager\":null,\"group\":null,\"grace_usec\":1500000,\"owner_death_grace_usec\":0,"
        "\"created_usec\":1789000000000000,\"command\":\"sleep\"}\n";

static const char group_text[] =
        "{\"version\":1,\"id\":\"v7k2m9q4x1c8r5t0\",\"name\":null,\"lifetime\":\"owner\","
        "\"boot_id\":\"01234567-89ab-cdef-0123-456789abcdef\",\"pid_namespace\":4026531836,"
        "\"cgroup_namespace\":null,\"owner\":{\"pid\":4711,\"start_time\":76973,\"pidfd_inode\":null,"
        "\"comm\":\"sidecar\"},\"backend\":\"group\",\"cgroup\":null,\"cgroup_id\":null,\"unit\":null,"
        "\"manager\":null,\"group\":{\"pgid\":99,\"start_time\":77001,\"leader_inode\":null,\"birth_cgroup_id\":1,"
        "\"reaper\":{\"pid\":98,\"start_time\":77000,\"pidfd_inode\":null},"
        "\"lineage\":\"0000000000000001:v7k2m9q4x1c8r5t0\"},\"grace_usec\":1500000,\"owner_death_grace_usec\":0,"
        "\"created_usec\":1789000000000000,\"command\":\"sleep\"}\n";

static int parse(const char *text, struct record *ret_record, const char **ret_problem) {
        return record_parse(text, strlen(text), ret_record, ret_problem);
}

static struct record parsed(const char *text) {
        struct record record = { 0 };
        const char *problem = "";
        int r = parse(text, &record, &problem);

        ck_assert_msg(r == 0, "%s: %s", problem, text);
        return record;
}

static struct record sample(const char *id, const char *name) {
        struct record record = {
                .owner = { .pid = 4711, .start_time = 1 },
                .owner_comm = strdup("sidecar"),
                .placement = CGTREE_PLACEMENT_SUBTREE,
                .cgroup = format("/cgtree-4711-k3/trees/%s", id),
                .cgroup_id = 305507,
                .name = name ? strdup(name) : NULL,
                .command = strdup("sleep"),
        };

        strcpy(record.id, id);
        strcpy(record.boot_id, BOOT);
        return record;
}

/* A copy of `text` in which the first `from` is `to`. */
static char *replaced(const char *text, const char *from, const char *to) {
        const char *at = strstr(text, from);

        ck_assert_msg(at != NULL, "no %s in %s", from, text);
        return format("%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
}

START_TEST(test_layout) {
        static const char *const texts[] = { subtree_text, group_text };

        for (size_t i = 0; i < 2; i++) {
                struct record record = parsed(texts[i]);
                _cleanup_free_ char *text = NULL;

                ck_assert_int_eq(record_format(&record, &text), 0);
                ck_assert_str_eq(text, texts[i]);
                record_done(&record);
        }
}
END_TEST

START_TEST(test_fields) {
        struct record record = parsed(subtree_text), group = parsed(group_text);

        ck_assert_str_eq(record.id, ID);
        ck_assert_str_eq(record.name, "side-car.1");
        ck_assert_str_eq(record.boot_id, BOOT);
        ck_assert_uint_eq(record.pid_namespace, 4026531836);
        ck_assert_uint_eq(record.cgroup_namespace, 4026531835);
        ck_assert_int_eq(record.owner.pid, 4711);
        ck_assert_uint_eq(record.owner.start_time, 76973);
        ck_assert_uint_eq(record.owner.inode, 370441);
        ck_assert_str_eq(record.owner_comm, "sidecar");
        ck_assert_int_eq(record.placement, CGTREE_PLACEMENT_SUBTREE);
        ck_assert_str_eq(record.cgroup, "/app.slice/x.scope/cgtree-4711-k3/trees/" ID);
        ck_assert_uint_eq(record.cgroup_id, 305507);
        ck_assert_uint_eq(record.grace_usec, 1500000);
        ck_assert_uint_eq(record.owner_death_grace_usec, 0);
        ck_assert_uint_eq(record.created_usec, 1789000000000000);
        ck_assert_str_eq(record.command, "sleep");

        ck_assert_int_eq(group.placement, CGTREE_PLACEMENT_GROUP);
        ck_assert_ptr_null(group.cgroup);
        ck_assert_int_eq(group.group.leader.pid, 99);
        ck_assert_uint_eq(group.group.leader.start_time, 77001);
        ck_assert_int_eq(group.group.reaper.pid, 98);
        ck_assert_uint_eq(group.group.reaper.start_time, 77000);
        ck_assert_uint_eq(group.group.birth_cgroup_id, 1);
        ck_assert_str_eq(group.group.lineage, OTHER ":" ID);
        record_done(&record);
        record_done(&group);
}
END_TEST

/* A double holds whole numbers up to 2^53 only. */
START_TEST(test_numbers_are_exact) {
        static const uint64_t numbers[] = { 1, (UINT64_C(1) << 53) - 1, (UINT64_C(1) << 53) + 1, INT64_MAX,
                UINT64_C(9223372036854775809), UINT64_MAX - 1, UINT64_MAX };

        for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
                struct record record = sample(ID, NULL), again;
                _cleanup_free_ char *text = NULL;

                record.pid_namespace = record.cgroup_namespace = record.cgroup_id = numbers[i];
                record.owner.start_time = record.owner.inode = numbers[i];
                record.grace_usec = record.owner_death_grace_usec = record.created_usec = numbers[i];
                ck_assert_int_eq(record_format(&record, &text), 0);
                again = parsed(text);
                ck_assert_uint_eq(again.pid_namespace, numbers[i]);
                ck_assert_uint_eq(again.cgroup_namespace, numbers[i]);
                ck_assert_uint_eq(again.cgroup_id, numbers[i]);
                ck_assert_uint_eq(again.owner.start_time, numbers[i]);
                ck_assert_uint_eq(again.owner.inode, numbers[i]);
                ck_assert_uint_eq(again.grace_usec, numbers[i]);
                ck_assert_uint_eq(again.owner_death_grace_usec, numbers[i]);
                ck_assert_uint_eq(again.created_usec, numbers[i]);
                record_done(&record);
                record_done(&again);
        }
}
END_TEST

START_TEST(test_optional_fields) {
        struct record record = parsed("{\"version\":1,\"id\":\"" ID "\",\"boot_id\":\"" BOOT
                                      "\",\"owner\":{\"pid\":2},\"backend\":\"subtree\",\"cgroup\":\"/" ID
                                      "\",\"cgroup_id\":7,\"later\":{\"a\":[1,-2.5e3,true,{\"a\":null}]}}");

        ck_assert_ptr_null(record.name);
        ck_assert_ptr_null(record.owner_comm);
        ck_assert_ptr_null(record.command);
        ck_assert_uint_eq(record.pid_namespace, 0);
        ck_assert_uint_eq(record.owner.start_time, 0);
        ck_assert_uint_eq(record.owner.inode, 0);
        ck_assert_uint_eq(record.grace_usec, 1500000);
        record_done(&record);
}
END_TEST

struct forgery {
        const char *text, *from, *to;
};

#define OWNER_PID "\"pid\":4711"
#define PGID      "\"pgid\":99"
#define REAPER    "\"pid\":98"
#define CGROUP    "/app.slice/x.scope/cgtree-4711-k3/trees/" ID

static const struct forgery forgeries[] = {
        { subtree_text, OWNER_PID, "\"pid\":0" },
        { subtree_text, OWNER_PID, "\"pid\":1" },
        { subtree_text, OWNER_PID, "\"pid\":-1" },
        { subtree_text, OWNER_PID, "\"pid\":4194305" },
        { subtree_text, OWNER_PID, "\"pid\":4294967298" },
        { subtree_text, OWNER_PID, "\"pid\":18446744073709551616" },
        { subtree_text, OWNER_PID, "\"pid\":4711.0" },
        { subtree_text, OWNER_PID, "\"pid\":4.711e3" },
        { subtree_text, OWNER_PID, "\"pid\":\"4711\"" },
        { subtree_text, OWNER_PID, "\"pid\":\"\\u00014711\"" },
        { subtree_text, OWNER_PID,
                "\"pid\":\"\x01"
                "4711\"" },
        { subtree_text, OWNER_PID, "\"pid\":true" },
        { subtree_text, OWNER_PID, "\"pid\":[4711]" },
        { subtree_text, OWNER_PID, "\"pid\":null" },
        { subtree_text, OWNER_PID, "\"pid\":4711,\"pid\":4712" },
        { subtree_text, OWNER_PID, "\"pid\":4711,\"p\\u0069d\":4712" },
        { subtree_text, OWNER_PID, "\"PID\":4711" },
        { group_text, PGID, "\"pgid\":0" },
        { group_text, PGID, "\"pgid\":1" },
        { group_text, PGID, "\"pgid\":-1" },
        { group_text, PGID, "\"pgid\":98" },
        { group_text, PGID, "\"pgid\":4711" },
        { group_text, PGID, "\"pgid\":99,\"pgid\":99" },
        { group_text, REAPER, "\"pid\":0" },
        { group_text, REAPER, "\"pid\":1" },
        { group_text, REAPER, "\"pid\":4711" },
        { group_text, REAPER, "\"pid\":98,\"pid\":98" },
        { group_text, "\"lineage\":\"0000000000000001:v7k2m9q4x1c8r5t0\"", "\"lineage\":null" },
        { group_text, "1:v7k2m9q4x1c8r5t0", "1" },
        { group_text, "1:v7k2m9q4x1c8r5t0", "1\\n:v7k2m9q4x1c8r5t0" },
        { group_text, "\"backend\":\"group\"", "\"backend\":\"scope\"" },
        { group_text, "\"backend\":\"group\"", "\"backend\":\"subtree\"" },
        { group_text, "\"backend\":\"group\",", "" },
        { subtree_text, CGROUP, "/" },
        { subtree_text, CGROUP, "" },
        { subtree_text, CGROUP, "/app.slice" },
        { subtree_text, CGROUP, "/app.slice/../" ID },
        { subtree_text, CGROUP, "/../" ID },
        { subtree_text, CGROUP, "/./" ID },
        { subtree_text, CGROUP, "//" ID },
        { subtree_text, CGROUP, "/" ID "/" },
        { subtree_text, CGROUP, "/" ID "/.." },
        { subtree_text, CGROUP, ID },
        { subtree_text, CGROUP, "x/" ID },
        { subtree_text, CGROUP, "/\\u0000/" ID },
        { subtree_text, "\"cgroup\":\"" CGROUP "\"", "\"cgroup\":17" },
        { subtree_text, "\"cgroup\":\"" CGROUP "\",", "" },
        { subtree_text, "\"cgroup_id\":305507", "\"cgroup_id\":0" },
        { subtree_text, "\"cgroup_id\":305507", "\"cgroup_id\":null" },
        { subtree_text, "\"cgroup_id\":305507", "\"cgroup_id\":18446744073709551616" },
        { subtree_text, "\"cgroup_id\":305507", "\"cgroup_id\":\"305507\"" },
        { subtree_text, "\"version\":1", "\"version\":2" },
        { subtree_text, "\"version\":1", "\"version\":\"1\"" },
        { subtree_text, "\"version\":1,", "" },
        { subtree_text, "\"version\":1,", "\"version\":1,\"version\":1," },
        { subtree_text, "\"id\":\"v7k2m9q4x1c8r5t0\"", "\"id\":\"V7K2M9Q4X1C8R5T0\"" },
        { subtree_text, "\"id\":\"v7k2m9q4x1c8r5t0\"", "\"id\":\"v7k2m9q4x1c8r5t01\"" },
        { subtree_text, "\"id\":\"v7k2m9q4x1c8r5t0\"", "\"id\":\"../x\"" },
        { subtree_text, "\"id\":\"v7k2m9q4x1c8r5t0\"", "\"id\":\"\"" },
        { subtree_text, "\"id\":\"v7k2m9q4x1c8r5t0\",", "" },
        { subtree_text, "side-car.1", "a/b" },
        { subtree_text, "side-car.1", "../x" },
        { subtree_text, "side-car.1", "" },
        { subtree_text, "side-car.1", "0000000000000001" },
        { subtree_text, "\"lifetime\":\"owner\"", "\"lifetime\":\"detached\"" },
        { subtree_text, "\"lifetime\":\"owner\"", "\"lifetime\":7" },
        { subtree_text, "01234567-89ab", "01234567-89aB" },
        { subtree_text, "01234567-89ab", "1234567-89ab" },
        { subtree_text, "\"owner\":{", "\"owner\":[],\"x\":{" },
        { subtree_text, "\"owner\":{", "\"x\":{" },
        { subtree_text, "\"grace_usec\":1500000", "\"grace_usec\":-1" },
        { subtree_text, "\"grace_usec\":1500000", "\"grace_usec\":\"1.5s\"" },
        { subtree_text, "\"command\":\"sleep\"", "\"command\":7" },
        { subtree_text, "{\"version\"", "[{\"version\"" },
        { subtree_text, "{\"version\"", "{7:7,\"version\"" },
        { subtree_text, "}\n", "}\n{}" },
        { subtree_text, "}\n", "}x" },
        { subtree_text, "\"command\":\"sleep\"}", "\"command\":\"sleep" },
        { subtree_text, "\"command\":\"sleep\"}", "\"command\":\"sle\nep\"}" },
        { subtree_text, "\"command\":\"sleep\"}", "\"command\":\"sleep\\" },
        { subtree_text, "sleep", "sl\\u0000eep" },
};

START_TEST(test_forgeries) {
        for (size_t i = 0; i < sizeof(forgeries) / sizeof(forgeries[0]); i++) {
                _cleanup_free_ char *text = replaced(forgeries[i].text, forgeries[i].from, forgeries[i].to);
                struct record record = { .id = "untouched" };
                const char *problem = NULL;

                ck_assert_msg(parse(text, &record, &problem) == -EBADMSG, "taken for good: %s", text);
                ck_assert_ptr_nonnull(problem);
                ck_assert_str_eq(record.id, "untouched");
        }
}
END_TEST

START_TEST(test_not_a_record_at_all) {
        static const char *const texts[] = { "", " ", "{", "}", "[]", "7", "null", "\"", "\"\\", "\"\\u", "{\"", "-",
                "{\"a\":-}" };
        struct record record;
        const char *problem;

        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
                ck_assert_int_eq(parse(texts[i], &record, &problem), -EBADMSG);
        ck_assert_int_eq(record_parse("{}\0", 3, &record, &problem), -EBADMSG);
}
END_TEST

START_TEST(test_every_truncation_is_refused) {
        struct record record;
        const char *problem;

        for (size_t size = 0; size < sizeof(subtree_text) - 2; size++)
                ck_assert_int_eq(record_parse(subtree_text, size, &record, &problem), -EBADMSG);
}
END_TEST

/* Nothing to assert of each but that it ends, and what is taken can be written. */
START_TEST(test_changed_bytes) {
        static const char bytes[] = "\"\\}:0\xff";
        char text[sizeof(subtree_text)];

        for (size_t i = 0; i < sizeof(subtree_text) - 1; i += 2)
                for (const char *b = bytes; *b; b++) {
                        struct record record = { 0 };
                        _cleanup_free_ char *again = NULL;
                        const char *problem;

                        memcpy(text, subtree_text, sizeof(text));
                        text[i] = *b;
                        if (parse(text, &record, &problem) == 0)
                                ck_assert_int_eq(record_format(&record, &again), 0);
                        record_done(&record);
                }
}
END_TEST

START_TEST(test_too_large_or_too_many) {
        _cleanup_free_ char *large = malloc(RECORD_MAX_SIZE + 2);
        _cleanup_free_ char *many = NULL, *cut = strndup(subtree_text, strlen(subtree_text) - 2);
        struct record record;
        const char *problem;

        memset(large, ' ', RECORD_MAX_SIZE + 1);
        memcpy(large, subtree_text, strlen(subtree_text));
        ck_assert_int_eq(record_parse(large, RECORD_MAX_SIZE + 1, &record, &problem), -EBADMSG);
        ck_assert_int_eq(record_parse(large, RECORD_MAX_SIZE, &record, &problem), 0);
        record_done(&record);

        many = strdup(cut);
        for (int i = 0; i < 300; i++) {
                char *longer = format("%s,\"x%d\":1", many, i);

                free(many);
                many = longer;
        }
        cut[0] = ' ';
        ck_assert_int_eq(parse(many, &record, &problem), -EBADMSG);
}
END_TEST

START_TEST(test_labels) {
        static const struct {
                const char *comm, *written;
        } labels[] = {
                { "plain", "plain" },
                { "a \"b\" \\c", "a \"b\" \\c" },
                { "\x01"
                  "123",
                        "?123" },
                { "a\nb\x7f\x1b[31m", "a?b??[31m" },
                { "gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f" },
                { "cut\xc3", "cut?" },
                { "\xc0\x80\xed\xa0\x80\xf5\x80", "??"
                                                  "???"
                                                  "??" },
                { "\xf0\x9f\x8c\xb3", "\xf0\x9f\x8c\xb3" },
                { "", "" },
        };

        for (size_t i = 0; i < sizeof(labels) / sizeof(labels[0]); i++) {
                struct record record = sample(ID, NULL), again;
                _cleanup_free_ char *text = NULL;

                free(record.owner_comm);
                record.owner_comm = strdup(labels[i].comm);
                ck_assert_int_eq(record_format(&record, &text), 0);
                again = parsed(text);
                ck_assert_str_eq(again.owner_comm, labels[i].written);
                record_done(&record);
                record_done(&again);
        }
}
END_TEST

START_TEST(test_long_command_is_cut) {
        struct record record = sample(ID, NULL), again;
        _cleanup_free_ char *text = NULL;

        free(record.command);
        record.command = calloc(1, 100001);
        memset(record.command, 'x', 100000);
        ck_assert_int_eq(record_format(&record, &text), 0);
        again = parsed(text);
        ck_assert_uint_eq(strlen(again.command), 255);
        record_done(&record);
        record_done(&again);
}
END_TEST

START_TEST(test_names) {
        static const char *const good[] = { "a", "0", "A.b_c-d", "v7k2m9q4x1c8r5t", "v7k2m9q4x1c8r5t0x",
                "V7K2M9Q4X1C8R5T0", "illlllllllllllll" };
        static const char *const bad[] = { "", ".", "-a", "_a", ".a", "a b", "a/b", "a\n", "\xc3\xbc", ID };
        char name[RECORD_NAME_MAX + 2] = "";

        for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
                ck_assert_msg(record_name_is_valid(good[i]), "%s", good[i]);
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
                ck_assert_msg(!record_name_is_valid(bad[i]), "%s", bad[i]);
        memset(name, 'n', RECORD_NAME_MAX);
        ck_assert(record_name_is_valid(name));
        name[RECORD_NAME_MAX] = 'n';
        ck_assert(!record_name_is_valid(name));
}
END_TEST

START_TEST(test_origin) {
        struct record record = { 0 };
        struct process_stat self;
        struct stat st;

        ck_assert_int_eq(record_fill_origin(&record), 0);
        ck_assert_int_eq(record.owner.pid, getpid());
        ck_assert_uint_ne(record.owner.start_time, 0);
        ck_assert_uint_eq(strlen(record.boot_id), 36);
        ck_assert_int_eq(stat("/proc/self/ns/pid", &st), 0);
        ck_assert_uint_eq(record.pid_namespace, st.st_ino);
        ck_assert_int_eq(process_read_stat(getpid(), &self), 0);
        ck_assert_str_eq(record.owner_comm, self.comm);
        record_done(&record);
}
END_TEST

int main(void) {
        Suite *suite = suite_create("record");
        TCase *tcase = tcase_create("record");
        SRunner *runner = srunner_create(suite);
        int failed;

        tcase_add_test(tcase, test_layout);
        tcase_add_test(tcase, test_fields);
        tcase_add_test(tcase, test_numbers_are_exact);
        tcase_add_test(tcase, test_optional_fields);
        tcase_add_test(tcase, test_forgeries);
        tcase_add_test(tcase, test_not_a_record_at_all);
        tcase_add_test(tcase, test_every_truncation_is_refused);
        tcase_add_test(tcase, test_changed_bytes);
        tcase_add_test(tcase, test_too_large_or_too_many);
        tcase_add_test(tcase, test_labels);
        tcase_add_test(tcase, test_long_command_is_cut);
        tcase_add_test(tcase, test_names);
        tcase_add_test(tcase, test_origin);
        tcase_set_timeout(tcase, 60);
        suite_add_tcase(suite, tcase);
        srunner_run_all(runner, CK_NORMAL);
        failed = srunner_ntests_failed(runner);
        srunner_free(runner);
        return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
