/* SPDX-License-Identifier: MIT */
#include "swept.h"

/* Groups of owners that died, with and without their reaper. */

struct group {
        struct member owner;
        int output; /* end of file: the whole tree is dead */
        struct record record;
};

static int keep_record(void *userdata, int dirfd, const char *file, struct record *record, const char *problem) {
        (void)dirfd, (void)file;
        ck_assert_msg(record != NULL, "%s", problem);
        *(struct record *)userdata = record_take(record);
        return 1;
}

/* The root, and one that left its session. */
static struct group group_start(void) {
        struct keeper keeper = {
                .records = records_path,
                .placement = CGTREE_PLACEMENT_GROUP,
                .script = "setsid sh -c 'echo ready; exec sleep 60' & exec sleep 60",
        };
        struct group group = { 0 };
        char line[64];

        group.owner = keeper_start(keeper, &group.output);
        ck_assert_str_eq(output_line(group.output, line, sizeof(line)), "ready");
        ck_assert_int_eq(records_each(records, keep_record, &group.record), 1);
        return group;
}

static void assert_ended(struct group *group) {
        char line[64];

        ck_assert_str_eq(output_line(group->output, line, sizeof(line)), "");
        ck_assert_uint_eq(scratch_count(records), 0);
        close(group->output);
        record_done(&group->record);
}

static void await_end_of(const struct process_identity *identity, int signal) {
        struct process process = PROCESS_NONE;
        struct pollfd end;

        if (process_identify(identity, &process) != PROCESS_ALIVE)
                return;
        end = (struct pollfd){ .fd = process.pidfd, .events = POLLIN };
        ck_assert_int_eq(process_signal(&process, signal), 0);
        ck_assert_int_eq(poll(&end, 1, ORPHAN_BOUND_MSEC), 1);
        process_done(&process);
}

/* What is left is held together by its marks alone. */
static void lose_owner_and_reaper(struct group *group) {
        await_end_of(&group->record.group.reaper, SIGKILL);
        member_end(&group->owner);
        ck_assert(output_lives(group->output));
}

START_TEST(test_the_reaper_was_faster) {
        struct group group = group_start();
        char line[64];
        struct heard heard;

        ck_assert_uint_eq(sweep(0).n, 1); /* kept */
        ck_assert(output_lives(group.output));
        member_end(&group.owner);
        ck_assert_str_eq(output_line(group.output, line, sizeof(line)), "");
        await_end_of(&group.record.group.reaper, 0);
        heard = sweep(0); /* it took its record along */
        ck_assert_uint_eq(heard.n, 0);
        assert_ended(&group);
}
END_TEST

START_TEST(test_the_reaper_is_stopped) {
        struct group group = group_start();
        struct process_stat stat;

        ck_assert_int_eq(kill(group.record.group.reaper.pid, SIGSTOP), 0);
        do
                ck_assert_int_eq(process_read_stat(group.record.group.reaper.pid, &stat), 0);
        while (stat.state != 'T');
        member_end(&group.owner);
        ck_assert(output_lives(group.output));
        sweep(1);
        assert_ended(&group);
}
END_TEST

START_TEST(test_the_reaper_is_dead) {
        struct group group = group_start();
        struct heard heard;

        lose_owner_and_reaper(&group);
        heard = sweep(1);
        assert_heard(&heard, group.record.id, "ended", "gone");
        assert_ended(&group);
}
END_TEST

static const char *copied_lineage;

static void copy_environment(void) {
        if (write_file_at(base.fd, "cgroup.procs", "0") < 0)
                _exit(1);
        execl("/bin/sh", "sh", "-c", "exec sleep 60", NULL);
        _exit(1);
}

/* It carries the id, and was born elsewhere. */
START_TEST(test_a_bystander_with_the_same_environment) {
        struct group group = group_start();
        struct process_identity bystander;
        struct heard heard;
        char text[32];
        int ends[2];
        pid_t pid;

        ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
        copied_lineage = group.record.group.lineage;
        pid = fork();
        if (pid == 0) {
                alarm(60);
                setenv("CGTREE_ID", copied_lineage, 1);
                close(group.output);
                copy_environment();
        }
        close(ends[1]);
        ck_assert_int_eq(read(ends[0], text, sizeof(text)), 0); /* it has exec'd */
        bystander = identity_of(pid);
        lose_owner_and_reaper(&group);
        heard = sweep(1);
        assert_heard(&heard, group.record.id, "ended", "1 that carry its CGTREE_ID");
        ck_assert_int_eq(process_identify(&bystander, NULL), PROCESS_ALIVE);
        assert_ended(&group);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        close(ends[0]);
}
END_TEST

/* `cgtree sweep` typed in the group. */
START_TEST(test_from_inside) {
        struct group group = group_start();
        int status = -1;
        pid_t pid;

        lose_owner_and_reaper(&group);
        pid = fork();
        if (pid == 0) {
                struct heard heard;

                setenv("CGTREE_ID", group.record.group.lineage, 1);
                heard = sweep(-EBADMSG);
                assert_heard(&heard, group.record.id, "skipped", "in it");
                _exit(0);
        }
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_int_eq(status, 0);
        ck_assert(output_lives(group.output));
        sweep(1);
        assert_ended(&group);
}
END_TEST

static struct record forged(struct process_identity leader, struct process_identity reaper) {
        struct record record = orphan_record(&base);

        record.placement = CGTREE_PLACEMENT_GROUP;
        record.owner = dead_owner;
        record.group.leader = leader;
        record.group.reaper = reaper;
        record.group.birth_cgroup_id = base.id;
        record.group.lineage = strdup(record.id);
        ck_assert_int_eq(record_write(records, &record), 0);
        return record;
}

/* The number of the group is a stranger's now. */
START_TEST(test_reissued_numbers) {
        struct process_identity stranger = identity_of(canary.pid), dead = identity_of_dead();
        struct record record;
        struct heard heard;

        stranger.start_time--;
        if (stranger.inode)
                stranger.inode--;
        record = forged(stranger, dead);
        heard = sweep(0);
        assert_heard(&heard, record.id, "tidied", "gone");
        record_done(&record);

        record = forged(dead, stranger);
        heard = sweep(0);
        assert_heard(&heard, record.id, "tidied", "gone");
        record_done(&record);
}
END_TEST

/* We, or who started us. */
START_TEST(test_record_that_names_us) {
        struct process_identity dead = identity_of_dead();
        struct record record = forged(identity_of(getpid()), dead);
        struct heard heard = sweep(-EBADMSG);

        assert_heard(&heard, record.id, "skipped", "in it");
        ck_assert_int_eq(record_unlink(records, record.id, NULL), 0);
        record_done(&record);

        record = forged(dead, identity_of(getppid()));
        heard = sweep(-EBADMSG);
        assert_heard(&heard, record.id, "skipped", "in it");
        record_done(&record);
}
END_TEST

int main(void) {
        TCase *tcase = tcase_create("group");

        tcase_add_test(tcase, test_the_reaper_was_faster);
        tcase_add_test(tcase, test_the_reaper_is_stopped);
        tcase_add_test(tcase, test_the_reaper_is_dead);
        tcase_add_test(tcase, test_a_bystander_with_the_same_environment);
        tcase_add_test(tcase, test_from_inside);
        tcase_add_test(tcase, test_reissued_numbers);
        tcase_add_test(tcase, test_record_that_names_us);
        return sweep_run(suite_create("sweep-group"), tcase);
}
