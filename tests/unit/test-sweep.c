/* SPDX-License-Identifier: MIT */
#include "swept.h"

#include <pthread.h>
#include <sys/file.h>

/* ---- the usual ------------------------------------------------------------------------------------------ */

START_TEST(test_orphan_is_ended) {
        struct orphan orphan = orphan_new();
        struct member member = member_start(&orphan.cgroup, NULL);
        struct heard heard = sweep(1);

        assert_heard(&heard, orphan.id, "ended", "its owner is gone");
        member_await_death(&member);
        assert_gone(&orphan);
        heard = sweep(0);
        ck_assert_uint_eq(heard.n, 0);
        orphan_done(&orphan);
}
END_TEST

START_TEST(test_living_owner_is_kept) {
        struct orphan orphan = orphan_new();
        struct member member = member_start(&orphan.cgroup, NULL);
        struct heard heard;

        orphan.record.owner = identity_of(canary.pid);
        forge(&orphan);
        heard = sweep(0);
        assert_heard(&heard, orphan.id, "kept", "lives");
        ck_assert(member_lives(&member));
        assert_untouched(&orphan);
        member_end(&member);
        orphan_done(&orphan);
}
END_TEST

START_TEST(test_dry_run) {
        struct orphan full = orphan_new(), empty = orphan_new(), void_one = orphan_new();
        struct member member = member_start(&full.cgroup, NULL);
        struct heard heard = { 0 };

        void_one.record.boot_id[0] = void_one.record.boot_id[0] == '0' ? '1' : '0';
        forge(&void_one);
        ck_assert_int_eq(cgtree_sweep(records_path, true, 0, hear, &heard), 1);
        assert_heard(&heard, full.id, "would end", "gone");
        assert_heard(&heard, empty.id, "would tidy", "gone");
        assert_heard(&heard, void_one.id, "would tidy", "boot");
        ck_assert_uint_eq(heard.n, 3);
        assert_untouched(&void_one);
        ck_assert(member_lives(&member));
        assert_untouched(&full);
        assert_untouched(&empty);
        heard = sweep(1);
        assert_heard(&heard, full.id, "ended", "");
        assert_heard(&heard, empty.id, "tidied", "");
        assert_heard(&heard, void_one.id, "tidied", "");
        member_await_death(&member);
        assert_gone(&full);
        assert_gone(&empty);
        orphan_done(&void_one);
        orphan_done(&full);
        orphan_done(&empty);
}
END_TEST

START_TEST(test_nothing_at_all) {
        ck_assert_int_eq(cgtree_sweep(records_path, false, 0, NULL, NULL), 0);
        ck_assert_int_eq(cgtree_sweep("/nonexistent/records", false, 0, NULL, NULL), 0);
        ck_assert_int_eq(fchmod(records, 0777), 0);
        ck_assert_int_eq(cgtree_sweep(records_path, false, 0, NULL, NULL), -EPERM);
}
END_TEST

/* More than are ended at once. */
START_TEST(test_many) {
        enum { N = 80 };
        struct orphan orphans[N];
        struct member members[N];

        for (int i = 0; i < N; i++) {
                orphans[i] = orphan_new();
                members[i] = member_start(&orphans[i].cgroup, NULL);
        }
        ck_assert_uint_eq(sweep(N).n, N);
        for (int i = 0; i < N; i++) {
                member_await_death(&members[i]);
                assert_gone(&orphans[i]);
                orphan_done(&orphans[i]);
        }
}
END_TEST

START_TEST(test_two_sweeps_at_once) {
        enum { N = 10 };
        struct orphan orphans[N];
        struct member members[N];
        int status = -1;
        pid_t pid;

        for (int i = 0; i < N; i++) {
                orphans[i] = orphan_in(&base, i % 2 ? 100 * USEC_PER_MSEC : 0);
                members[i] = member_start(&orphans[i].cgroup, NULL);
        }
        pid = fork();
        if (pid == 0)
                _exit(cgtree_sweep(records_path, false, ORPHAN_BOUND_MSEC * USEC_PER_MSEC, NULL, NULL) < 0);
        ck_assert_int_ge(cgtree_sweep(records_path, false, ORPHAN_BOUND_MSEC * USEC_PER_MSEC, NULL, NULL), 0);
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_int_eq(status, 0);
        for (int i = 0; i < N; i++) {
                member_await_death(&members[i]);
                assert_gone(&orphans[i]);
                orphan_done(&orphans[i]);
        }
}
END_TEST

/* How often we have read so far; < 0: this kernel does not count. */
static int64_t count_reads(void) {
        char text[512], *at;
        int64_t n;

        if (read_file_at(AT_FDCWD, "/proc/self/io", text, sizeof(text)) < 0)
                return -1;
        at = strstr(text, "syscr: ");
        n = at ? strtoll(at + strlen("syscr: "), NULL, 10) : -1;
        return n;
}

static int64_t reads_of_a_sweep(void) {
        int64_t before = count_reads();

        ck_assert_int_eq(cgtree_sweep(records_path, false, 0, NULL, NULL), 0);
        return before < 0 ? -1 : count_reads() - before;
}

/* An owner is judged once, however many trees it has: what each of them costs is to read its record. */
START_TEST(test_living_owners_cost_little) {
        enum { N = 300 };
        struct orphan orphan = orphan_new();
        int64_t few, many;

        orphan.record.owner = identity_of(canary.pid);
        forge(&orphan);
        few = reads_of_a_sweep();
        if (few < 0)
                return;
        for (int i = 0; i < N; i++) {
                ck_assert_int_eq(id_random(orphan.record.id), 0);
                memcpy(strrchr(orphan.record.cgroup, '/') + 1, orphan.record.id, ID_LENGTH);
                ck_assert_int_eq(record_write(records, &orphan.record), 0);
        }
        many = reads_of_a_sweep();
        ck_assert_int_le(many, few + 2 * N);
        orphan_done(&orphan);
}
END_TEST

/* ---- grace ---------------------------------------------------------------------------------------------- */

static void ignore_term(void) {
        signal(SIGTERM, SIG_IGN);
}

START_TEST(test_graces_run_side_by_side) {
        enum { N = 16 };
        const uint64_t grace = 400 * USEC_PER_MSEC;
        struct orphan orphans[N];
        struct member stubborn[N], obedient[N];
        uint64_t begun, took;

        for (int i = 0; i < N; i++) {
                orphans[i] = orphan_in(&base, grace);
                stubborn[i] = member_start(&orphans[i].cgroup, ignore_term);
                obedient[i] = member_start(&orphans[i].cgroup, NULL);
        }
        begun = now_usec();
        sweep(N);
        took = now_usec() - begun;
        ck_assert_uint_ge(took, grace);
        ck_assert_uint_lt(took, N / 2 * grace);
        for (int i = 0; i < N; i++) {
                int status;

                ck_assert_int_eq(waitpid(obedient[i].pid, &status, 0), obedient[i].pid);
                ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
                ck_assert_int_eq(waitpid(stubborn[i].pid, &status, 0), stubborn[i].pid);
                ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
                assert_gone(&orphans[i]);
                orphan_done(&orphans[i]);
        }
}
END_TEST

/* Longer than the sweep has time for: nobody else will come to send the SIGKILL. */
START_TEST(test_grace_is_cut) {
        struct orphan orphan = orphan_in(&base, USEC_FOREVER), other = orphan_new();
        struct member stubborn = member_start(&orphan.cgroup, ignore_term), member = member_start(&other.cgroup, NULL);
        uint64_t begun = now_usec();
        struct heard heard = { 0 };

        ck_assert_int_eq(cgtree_sweep(records_path, false, 4 * USEC_PER_SEC, hear, &heard), 2);
        ck_assert_uint_ge(now_usec() - begun, 3 * USEC_PER_SEC);
        assert_heard(&heard, orphan.id, "ended", "gone");
        assert_heard(&heard, other.id, "ended", "gone");
        member_await_death(&member);
        member_await_death(&stubborn);
        assert_gone(&orphan);
        orphan_done(&orphan);
        orphan_done(&other);
}
END_TEST

/* Whoever ends it already, a guard most likely, gives it all of its grace. */
START_TEST(test_grace_of_who_is_at_it) {
        struct orphan orphan = orphan_in(&base, USEC_FOREVER);
        struct member stubborn = member_start(&orphan.cgroup, ignore_term);
        int lock = openat(orphan.cgroup.fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct heard heard = { 0 };

        ck_assert_int_eq(flock(lock, LOCK_EX | LOCK_NB), 0);
        ck_assert_int_eq(cgtree_sweep(records_path, false, 4 * USEC_PER_SEC, hear, &heard), 0);
        assert_heard(&heard, orphan.id, "kept", "somebody else");
        ck_assert(member_lives(&stubborn));
        assert_untouched(&orphan);
        close(lock);
        member_end(&stubborn);
        orphan_done(&orphan);
}
END_TEST

/* ---- members that are hard to end ----------------------------------------------------------------------- */

static void *live_on(void *unused) {
        for (;;)
                pause();
        return unused;
}

static void *end_leader_and_say_so(void *argument) {
        struct process_stat stat;

        (void)argument;
        while (process_read_stat(getpid(), &stat) < 0 || stat.state != 'Z')
                usleep(1000);
        return live_on(NULL);
}

static void add_thread(void) {
        pthread_t thread;

        signal(SIGTERM, SIG_IGN);
        if (pthread_create(&thread, NULL, end_leader_and_say_so, NULL) != 0)
                _exit(1);
}

/* cgroup.kill alone does not reach it. */
START_TEST(test_member_whose_leader_has_exited) {
        struct orphan orphan = orphan_new();
        struct process_stat stat;
        struct member member;
        int ends[2];

        ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
        member.life = ends[0];
        member.pid = fork();
        if (member.pid == 0) {
                alarm(60);
                if (write_file_at(orphan.cgroup.fd, "cgroup.procs", "0") < 0)
                        _exit(1);
                add_thread();
                syscall(SYS_exit, 0);
        }
        close(ends[1]);
        do {
                usleep(1000);
                ck_assert_int_eq(process_read_stat(member.pid, &stat), 0);
        } while (stat.state != 'Z');
        ck_assert(member_lives(&member));
        sweep(1);
        member_await_death(&member);
        assert_gone(&orphan);
        orphan_done(&orphan);
}
END_TEST

START_TEST(test_frozen_by_its_dead_owner) {
        struct orphan orphan = orphan_new(), graceful = orphan_in(&base, 100 * USEC_PER_MSEC);
        struct member first = member_start(&orphan.cgroup, NULL), second = member_start(&graceful.cgroup, ignore_term);

        ck_assert_int_eq(cgroup_freeze(&orphan.cgroup, true), 0);
        ck_assert_int_eq(cgroup_freeze(&graceful.cgroup, true), 0);
        sweep(2);
        member_await_death(&first);
        member_await_death(&second);
        assert_gone(&orphan);
        assert_gone(&graceful);
        orphan_done(&orphan);
        orphan_done(&graceful);
}
END_TEST

/* ---- nothing on a guess --------------------------------------------------------------------------------- */

/* Swept under `change`, it is left alone, said why; then it is swept after all. */
static void assert_refused(void (*change)(struct orphan *orphan), const char *words) {
        struct orphan orphan = orphan_new();
        struct record good = orphan.record;
        struct member member = member_start(&orphan.cgroup, NULL);
        struct heard heard;

        change(&orphan);
        forge(&orphan);
        heard = sweep(-EBADMSG);
        assert_heard(&heard, orphan.id, "skipped", words);
        ck_assert(member_lives(&member));
        ck_assert(exists(good.cgroup));
        if (orphan.record.cgroup != good.cgroup)
                free(orphan.record.cgroup);
        orphan.record = good;
        assert_untouched(&orphan);
        forge(&orphan);
        cgroup_set_xattr(&orphan.cgroup, CGROUP_XATTR_ID, orphan.id);
        sweep(1);
        member_await_death(&member);
        orphan_done(&orphan);
}

static void another_inode(struct orphan *orphan) {
        orphan->record.cgroup_id = base.id;
}

static void another_path(struct orphan *orphan) {
        struct orphan other = orphan_new();

        record_unlink(records, other.id, NULL);
        orphan->record.cgroup =
                format("%.*s%s", (int)(strlen(other.record.cgroup) - ID_LENGTH), other.record.cgroup, orphan->id);
        orphan_done(&other);
}

static void root_path(struct orphan *orphan) {
        orphan->record.cgroup = format("/%s", orphan->id);
        orphan->record.cgroup_id = 1;
        orphan->record.cgroup_namespace++;
}

static void another_id(struct orphan *orphan) {
        ck_assert_int_eq(cgroup_set_xattr(&orphan->cgroup, CGROUP_XATTR_ID, "0000000000000000"), 0);
}

static void another_pid_namespace(struct orphan *orphan) {
        orphan->record.pid_namespace++;
}

static void unknown_owner(struct orphan *orphan) {
        orphan->record.owner = (struct process_identity){ .pid = canary.pid };
}

static void another_cgroup_namespace(struct orphan *orphan) {
        orphan->record.cgroup = format("/elsewhere%s", orphan->record.cgroup);
        orphan->record.cgroup_namespace++;
}

START_TEST(test_forged_records_are_refused) {
        assert_refused(another_inode, "another cgroup");
        assert_refused(root_path, "cgroup namespace");
        assert_refused(another_id, "another id");
        assert_refused(another_pid_namespace, "pid namespace");
        assert_refused(unknown_owner, "cannot be told");
        assert_refused(another_cgroup_namespace, "cgroup namespace");
}
END_TEST

/* Same boot, same namespaces, and nothing at that path: nothing is left of it, as far as its record goes. */
START_TEST(test_path_that_leads_nowhere) {
        struct orphan orphan = orphan_new();
        struct record good = orphan.record;
        struct member member = member_start(&orphan.cgroup, NULL);
        struct heard heard;

        another_path(&orphan);
        forge(&orphan);
        heard = sweep(0);
        assert_heard(&heard, orphan.id, "tidied", "gone");
        ck_assert(member_lives(&member));
        free(orphan.record.cgroup);
        orphan.record = good;
        member_end(&member);
        orphan_done(&orphan);
}
END_TEST

/* A pid that means a crowd, a path upwards: none of it is ever a record. */
START_TEST(test_bad_records_do_not_stop_the_others) {
        static const char *const changes[][2] = { { "\"pid\":", "\"pid\":0,\"x\":" },
                { "\"pid\":", "\"pid\":1,\"x\":" }, { "\"pid\":", "\"pid\":-1,\"x\":" },
                { "\"cgroup\":\"", "\"cgroup\":\"/.." }, { "{", "" } };
        struct orphan orphan = orphan_new();
        struct member member = member_start(&orphan.cgroup, NULL);
        _cleanup_free_ char *text = NULL;
        struct heard heard;

        ck_assert_int_eq(record_format(&orphan.record, &text), 0);
        for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
                const char *at = strstr(text, changes[i][0]);
                _cleanup_free_ char *bad = format("%.*s%s%s", (int)(at - text), text, changes[i][1],
                                            at + strlen(changes[i][0])),
                                    *file = format("%016zu.json", i);

                scratch_write(records, file, bad, strlen(bad), 0600);
        }
        heard = sweep(-EBADMSG);
        assert_heard(&heard, orphan.id, "ended", "");
        for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
                _cleanup_free_ char *file = format("%016zu.json", i);

                assert_heard(&heard, file, "skipped", "bad record");
                ck_assert(scratch_has(records, file));
        }
        member_await_death(&member);
        assert_gone(&orphan);
        orphan_done(&orphan);
}
END_TEST

START_TEST(test_record_of_another_boot_is_void) {
        struct orphan orphan = orphan_new();
        struct member member = member_start(&orphan.cgroup, NULL);
        struct heard heard;

        orphan.record.owner = identity_of(canary.pid);
        orphan.record.boot_id[0] = orphan.record.boot_id[0] == '0' ? '1' : '0';
        forge(&orphan);
        heard = sweep(0);
        assert_heard(&heard, orphan.id, "tidied", "boot");
        ck_assert_uint_eq(scratch_count(records), 0);
        ck_assert(member_lives(&member));
        ck_assert(exists(orphan.record.cgroup));
        member_end(&member);
        orphan_done(&orphan);
}
END_TEST

/* `cgtree sweep` typed in a tree. */
START_TEST(test_from_inside) {
        struct orphan orphan = orphan_new();
        struct member member = member_start(&orphan.cgroup, NULL);
        int status = -1;
        pid_t pid = fork();

        if (pid == 0) {
                struct heard heard = { 0 };

                if (write_file_at(orphan.cgroup.fd, "cgroup.procs", "0") < 0)
                        _exit(1);
                if (cgtree_sweep(records_path, false, CGTREE_FOREVER, hear, &heard) != -EBADMSG)
                        _exit(2);
                assert_heard(&heard, orphan.id, "skipped", "in it");
                _exit(0);
        }
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_int_eq(status, 0);
        ck_assert(member_lives(&member));
        assert_untouched(&orphan);
        sweep(1);
        member_await_death(&member);
        orphan_done(&orphan);
}
END_TEST

int main(void) {
        TCase *tcase = tcase_create("sweep");

        tcase_add_test(tcase, test_orphan_is_ended);
        tcase_add_test(tcase, test_living_owner_is_kept);
        tcase_add_test(tcase, test_dry_run);
        tcase_add_test(tcase, test_nothing_at_all);
        tcase_add_test(tcase, test_many);
        tcase_add_test(tcase, test_two_sweeps_at_once);
        tcase_add_test(tcase, test_living_owners_cost_little);
        tcase_add_test(tcase, test_graces_run_side_by_side);
        tcase_add_test(tcase, test_grace_is_cut);
        tcase_add_test(tcase, test_grace_of_who_is_at_it);
        tcase_add_test(tcase, test_member_whose_leader_has_exited);
        tcase_add_test(tcase, test_frozen_by_its_dead_owner);
        tcase_add_test(tcase, test_forged_records_are_refused);
        tcase_add_test(tcase, test_path_that_leads_nowhere);
        tcase_add_test(tcase, test_bad_records_do_not_stop_the_others);
        tcase_add_test(tcase, test_record_of_another_boot_is_void);
        tcase_add_test(tcase, test_from_inside);
        return sweep_run(suite_create("sweep"), tcase);
}
