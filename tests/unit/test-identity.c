/* SPDX-License-Identifier: MIT */
#include "identity.h"
#include "orphan.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>

static void assert_owner(const struct record *record, enum process_life expected) {
        const char *reason = NULL;

        ck_assert_int_eq(identity_owner(record, &reason), expected);
        ck_assert_ptr_nonnull(reason);
}

static void assert_cgroup(const struct record *record, enum identity_verdict expected, const char *words) {
        struct cgroup cgroup = CGROUP_NONE;
        const char *reason = NULL;
        enum identity_verdict verdict = identity_cgroup(record, &cgroup, &reason);

        ck_assert_msg(verdict == expected && strstr(reason, words), "%d (%s), expected %d (%s)", verdict, reason,
                expected, words);
        ck_assert_int_eq(cgroup.fd >= 0, verdict == IDENTITY_PROVEN);
        if (verdict == IDENTITY_PROVEN)
                ck_assert_uint_eq(cgroup.id, record->cgroup_id);
        cgroup_done(&cgroup);
}

/* `words` of the reason why it may not be ended; NULL: it may. */
static void assert_end(const struct record *record, const char *words) {
        struct cgroup cgroup = CGROUP_NONE;
        const char *reason = NULL;

        ck_assert_int_eq(identity_cgroup(record, &cgroup, &reason), IDENTITY_PROVEN);
        reason = identity_check_end(&cgroup);
        if (words)
                ck_assert_msg(reason && strstr(reason, words), "%s, expected %s", reason, words);
        else
                ck_assert_msg(!reason, "%s", reason);
        cgroup_done(&cgroup);
}

static void become_nobody(void) {
        ck_assert_int_eq(setresgid(65534, 65534, 65534), 0);
        ck_assert_int_eq(setresuid(65534, 65534, 65534), 0);
}

static bool has_pidfs(void) {
        return identity_of(getpid()).inode != 0;
}

static struct record with_owner(struct process_identity owner) {
        struct record record = { 0 };

        ck_assert_int_eq(record_fill_origin(&record), 0);
        record.owner = owner;
        return record;
}

/* ---- the owner ------------------------------------------------------------------------------------------ */

START_TEST(test_owner_lives) {
        struct member canary = member_start(NULL, NULL);
        struct record self = with_owner(identity_of(getpid())), other = with_owner(identity_of(canary.pid));

        assert_owner(&self, PROCESS_ALIVE);
        assert_owner(&other, PROCESS_ALIVE);
        member_end(&canary);
        record_done(&self);
        record_done(&other);
}
END_TEST

START_TEST(test_owner_is_gone) {
        struct record record = with_owner(identity_of_dead());

        assert_owner(&record, PROCESS_GONE);
        record.owner.inode = record.owner.start_time = 0; /* no process of that pid: nothing to compare */
        assert_owner(&record, PROCESS_GONE);
        record_done(&record);
}
END_TEST

START_TEST(test_owner_is_a_zombie) {
        struct member member = member_start(NULL, NULL);
        struct record record = with_owner(identity_of(member.pid));
        siginfo_t info;

        kill(member.pid, SIGKILL);
        ck_assert_int_eq(waitid(P_PID, (id_t)member.pid, &info, WEXITED | WNOWAIT), 0);
        assert_owner(&record, PROCESS_GONE);
        member_await_death(&member);
        record_done(&record);
}
END_TEST

static void *sleep_on(void *unused) {
        for (;;)
                pause();
        return unused;
}

static int leaderless_ready[2];

static void *await_dead_leader(void *unused) {
        struct process_stat stat;

        while (process_read_stat(getpid(), &stat) < 0 || stat.state != 'Z')
                usleep(1000);
        ck_assert_int_eq(write(leaderless_ready[1], "", 1), 1);
        return sleep_on(unused);
}

/* Its main thread exits, another one lives on: Z in stat, and alive. */
static void lose_leader(void) {
        pthread_t thread;

        if (pthread_create(&thread, NULL, await_dead_leader, NULL) != 0)
                _exit(1);
}

START_TEST(test_owner_whose_leader_has_exited) {
        struct process_stat stat;
        struct record record;
        char ready;
        pid_t pid;

        ck_assert_int_eq(pipe2(leaderless_ready, O_CLOEXEC), 0);
        pid = fork();
        if (pid == 0) {
                alarm(60);
                lose_leader();
                syscall(SYS_exit, 0);
        }
        record = with_owner(identity_of(pid));
        ck_assert_int_eq(read(leaderless_ready[0], &ready, 1), 1);
        ck_assert_int_eq(process_read_stat(pid, &stat), 0);
        ck_assert_int_eq(stat.state, 'Z');
        assert_owner(&record, PROCESS_ALIVE);
        kill(pid, SIGKILL);
        ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
        assert_owner(&record, PROCESS_GONE);
        record_done(&record);
}
END_TEST

/* Where both sides have an inode it alone decides; else the start time. */
START_TEST(test_pid_of_another_process) {
        struct member canary = member_start(NULL, NULL);
        struct record record = with_owner(identity_of(canary.pid));
        uint64_t inode = record.owner.inode;

        if (has_pidfs()) {
                record.owner.inode = inode + 1;
                assert_owner(&record, PROCESS_GONE);
                record.owner.inode = inode;
                record.owner.start_time++;
                assert_owner(&record, PROCESS_ALIVE);
                record.owner.start_time = 0;
                assert_owner(&record, PROCESS_ALIVE);
                record.owner.start_time = identity_of(canary.pid).start_time;
        }
        record.owner.inode = 0;
        assert_owner(&record, PROCESS_ALIVE);
        record.owner.start_time++;
        assert_owner(&record, PROCESS_GONE);
        record.owner.start_time = 0; /* nothing to compare */
        assert_owner(&record, PROCESS_UNKNOWN);
        member_end(&canary);
        record_done(&record);
}
END_TEST

START_TEST(test_owner_of_another_boot_or_namespace) {
        struct record record = with_owner(identity_of_dead());
        uint64_t namespace = record.pid_namespace;

        record.pid_namespace = namespace + 1;
        assert_owner(&record, PROCESS_UNKNOWN);
        record.pid_namespace = 0;
        assert_owner(&record, PROCESS_UNKNOWN);
        record.owner = identity_of(getpid());
        record.boot_id[0] = record.boot_id[0] == '0' ? '1' : '0';
        assert_owner(&record, PROCESS_GONE);
        record_done(&record);
}
END_TEST

START_TEST(test_owner_of_another_user) {
        struct member canary;
        struct record record;

        if (geteuid() != 0)
                return;
        canary = member_start(NULL, NULL);
        record = with_owner(identity_of(canary.pid));
        become_nobody();
        ck_assert_int_eq(kill(canary.pid, 0), -1);
        assert_owner(&record, PROCESS_ALIVE);
        record_done(&record);
}
END_TEST

/* /proc does not show it, so there is no start time to compare; its pidfd is there. */
START_TEST(test_owner_that_proc_hides) {
        struct member canary;
        struct record record, dead;
        struct process_stat stat;

        if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) < 0)
                return;
        canary = member_start(NULL, NULL);
        record = with_owner(identity_of(canary.pid));
        dead = with_owner(identity_of_dead());
        ck_assert_int_eq(mount("proc", "/proc", "proc", 0, "hidepid=2"), 0);
        become_nobody();
        ck_assert_int_eq(process_read_stat(canary.pid, &stat), -ENOENT);
        if (record.owner.inode != 0)
                assert_owner(&record, PROCESS_ALIVE);
        record.owner.inode = 0;
        assert_owner(&record, PROCESS_UNKNOWN);
        assert_owner(&dead, PROCESS_GONE);
        record_done(&record);
        record_done(&dead);
}
END_TEST

/* In a new pid namespace that still sees the /proc of the old one, no number can be trusted. 0: as it has to be. */
static int judge_in_new_namespace(const struct record *record) {
        struct record here = { 0 };
        const char *reason;
        int status = -1;
        pid_t pid;

        if (unshare(CLONE_NEWPID) < 0)
                return 0;
        pid = fork();
        if (pid == 0) {
                if (record_fill_origin(&here) < 0 || here.pid_namespace != 0 || here.owner.start_time != 0)
                        _exit(1);
                _exit(identity_owner(record, &reason) == PROCESS_UNKNOWN ? 0 : 2);
        }
        waitpid(pid, &status, 0);
        return WEXITSTATUS(status);
}

START_TEST(test_proc_of_another_namespace) {
        struct record record = with_owner(identity_of_dead());
        int status = -1;
        pid_t pid = fork();

        if (pid == 0)
                _exit(judge_in_new_namespace(&record));
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_int_eq(status, 0);
        record_done(&record);
}
END_TEST

/* ---- stamps --------------------------------------------------------------------------------------------- */

START_TEST(test_stamp) {
        static const char *const bad[] = { "", " ", "1 2 3 4 5", "4711", "4711 1 2 3 4",
                "4711 1 2 01234567-89ab-cdef-0123-456789abcdef", "4711 1 2 01234567-89ab-cdef-0123-456789abcdef ",
                "4711 1 2 01234567-89ab-cdef-0123-456789abcdef 7 ", "1 1 2 01234567-89ab-cdef-0123-456789abcdef 7",
                "-4711 1 2 01234567-89ab-cdef-0123-456789abcdef 7" };
        struct record record = orphan_record(&orphan_base), read;
        struct cgroup tree = orphan_make(&orphan_base, &record), home = CGROUP_NONE;
        _cleanup_free_ char *path = strndup(record.cgroup, strlen(record.cgroup) - strlen("/trees/") - ID_LENGTH);

        ck_assert_int_eq(cgroup_open(path, &home), 0);
        ck_assert_int_eq(identity_read_stamp(&home, &read), 0);
        ck_assert_int_eq(read.owner.pid, record.owner.pid);
        ck_assert_uint_eq(read.owner.start_time, record.owner.start_time);
        ck_assert_uint_eq(read.owner.inode, record.owner.inode);
        ck_assert_uint_eq(read.pid_namespace, record.pid_namespace);
        ck_assert_str_eq(read.boot_id, record.boot_id);
        ck_assert_int_eq(identity_read_stamp(&tree, &read), -ENODATA);
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                ck_assert_int_eq(cgroup_set_xattr(&home, CGROUP_XATTR_OWNER, bad[i]), 0);
                ck_assert_msg(identity_read_stamp(&home, &read) == -EBADMSG, "taken: %s", bad[i]);
        }
        cgroup_done(&home);
        cgroup_done(&tree);
        record_done(&record);
}
END_TEST

/* ---- the cgroup ----------------------------------------------------------------------------------------- */

START_TEST(test_cgroup_is_proven) {
        struct record record = orphan_record(&orphan_base);
        struct cgroup tree = orphan_make(&orphan_base, &record);
        struct member member = member_start(&tree, NULL);

        assert_cgroup(&record, IDENTITY_PROVEN, "recorded");
        record.cgroup_namespace++; /* what is seen needs no namespace; what is not seen does */
        assert_cgroup(&record, IDENTITY_PROVEN, "recorded");
        ck_assert(member_lives(&member));
        member_end(&member);
        cgroup_done(&tree);
        record_done(&record);
}
END_TEST

START_TEST(test_cgroup_is_gone) {
        struct record record = orphan_record(&orphan_base);

        record.cgroup_id = 7;
        assert_cgroup(&record, IDENTITY_NOTHING, "gone");
        record.cgroup_namespace++;
        assert_cgroup(&record, IDENTITY_SKIP, "cgroup namespace");
        record.cgroup_namespace = 0;
        assert_cgroup(&record, IDENTITY_SKIP, "cgroup namespace");
        record_done(&record);
}
END_TEST

START_TEST(test_cgroup_of_another_boot_or_namespace) {
        struct record record = orphan_record(&orphan_base);
        struct cgroup tree = orphan_make(&orphan_base, &record);

        record.pid_namespace++;
        assert_cgroup(&record, IDENTITY_SKIP, "pid namespace");
        record.boot_id[0] = record.boot_id[0] == '0' ? '1' : '0';
        assert_cgroup(&record, IDENTITY_NOTHING, "boot");
        cgroup_done(&tree);
        record_done(&record);
}
END_TEST

START_TEST(test_cgroup_is_another) {
        struct record record = orphan_record(&orphan_base), other = orphan_record(&orphan_base);
        struct cgroup tree = orphan_make(&orphan_base, &record), second = orphan_make(&orphan_base, &other);
        char *path;

        record.cgroup_id = other.cgroup_id;
        assert_cgroup(&record, IDENTITY_SKIP, "another cgroup");
        record.cgroup_id = tree.id;
        assert_cgroup(&record, IDENTITY_PROVEN, "recorded");

        path = record.cgroup;
        record.cgroup = other.cgroup;
        assert_cgroup(&record, IDENTITY_SKIP, "another cgroup");
        record.cgroup_id = other.cgroup_id;
        assert_cgroup(&record, IDENTITY_SKIP, "another id");
        record.cgroup = path;
        cgroup_done(&tree);
        cgroup_done(&second);
        record_done(&record);
        record_done(&other);
}
END_TEST

START_TEST(test_cgroup_without_id) {
        struct record record = orphan_record(&orphan_base);
        struct cgroup trees = CGROUP_NONE, tree = CGROUP_NONE;

        make_home(&orphan_base, &record, &trees);
        ck_assert_int_eq(cgroup_create(&trees, record.id, &tree), 0);
        record.cgroup_id = tree.id;
        assert_cgroup(&record, IDENTITY_SKIP, "does not carry");
        ck_assert_int_eq(cgroup_set_xattr(&tree, CGROUP_XATTR_ID, "v7k2m9q4x1c8r5t00"), 0);
        assert_cgroup(&record, IDENTITY_SKIP, "another id");
        ck_assert_int_eq(cgroup_set_xattr(&tree, CGROUP_XATTR_ID, "a value longer than any id could be"), 0);
        assert_cgroup(&record, IDENTITY_SKIP, "does not carry");
        cgroup_done(&tree);
        cgroup_done(&trees);
        record_done(&record);
}
END_TEST

static void replace_path(struct record *record, char *path) {
        free(record->cgroup);
        record->cgroup = path;
}

START_TEST(test_cgroup_is_no_tree) {
        struct record record = orphan_record(&orphan_base);
        struct cgroup root = CGROUP_NONE;

        ck_assert_int_eq(cgroup_open("/", &root), 0);
        replace_path(&record, strdup("/"));
        record.cgroup_id = root.id;
        assert_cgroup(&record, IDENTITY_SKIP, "root");
        replace_path(&record, format("%s/cgroup.procs/%s", orphan_base.path, record.id));
        assert_cgroup(&record, IDENTITY_SKIP, "opened");
        replace_path(&record, format("%s/../%s", orphan_base.path, record.id));
        assert_cgroup(&record, IDENTITY_SKIP, "opened");
        cgroup_done(&root);
        record_done(&record);
}
END_TEST

START_TEST(test_cgroup_holds_us) {
        struct record record = orphan_record(&orphan_base);
        struct cgroup tree = orphan_make(&orphan_base, &record), inner = CGROUP_NONE;

        assert_end(&record, NULL);
        ck_assert_int_eq(write_file_at(tree.fd, "cgroup.procs", "0"), 0);
        assert_end(&record, "in it");
        ck_assert_int_eq(cgroup_create(&tree, "inner", &inner), 0);
        ck_assert_int_eq(write_file_at(inner.fd, "cgroup.procs", "0"), 0);
        assert_end(&record, "in it");
        ck_assert_int_eq(write_file_at(orphan_parent.fd, "cgroup.procs", "0"), 0);
        assert_end(&record, NULL);
        cgroup_done(&inner);
        cgroup_done(&tree);
        record_done(&record);
}
END_TEST

/* `systemd-run --scope cgtree sweep`, typed in a tree: we are outside, the shell is not. */
START_TEST(test_cgroup_holds_an_ancestor) {
        struct record record = orphan_record(&orphan_base);
        struct cgroup tree = orphan_make(&orphan_base, &record);
        int status = -1;
        pid_t pid;

        ck_assert_int_eq(write_file_at(tree.fd, "cgroup.procs", "0"), 0);
        pid = fork();
        if (pid == 0) {
                pid_t grandchild;

                if (write_file_at(orphan_parent.fd, "cgroup.procs", "0") < 0)
                        _exit(1);
                grandchild = fork();
                if (grandchild == 0) {
                        assert_end(&record, "ancestor");
                        _exit(0);
                }
                waitpid(grandchild, &status, 0);
                _exit(status == 0 ? 0 : 2);
        }
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_int_eq(status, 0);
        ck_assert_int_eq(write_file_at(orphan_parent.fd, "cgroup.procs", "0"), 0);
        cgroup_done(&tree);
        record_done(&record);
}
END_TEST

static void add_inner_home(const struct cgroup *tree, struct process_identity owner, uint64_t pid_namespace) {
        struct record inner = orphan_record(tree);
        struct cgroup inner_tree;

        inner.owner = owner;
        if (pid_namespace)
                inner.pid_namespace = pid_namespace;
        inner_tree = orphan_make(tree, &inner);
        cgroup_done(&inner_tree);
        record_done(&inner);
}

START_TEST(test_cgroup_above_other_owners) {
        struct record record = orphan_record(&orphan_base);
        struct cgroup tree = orphan_make(&orphan_base, &record);
        struct member member = member_start(&tree, NULL), canary = member_start(NULL, NULL);

        add_inner_home(&tree, identity_of(member.pid), 0); /* nested: it ends with the tree */
        assert_end(&record, NULL);
        add_inner_home(&tree, identity_of_dead(), 0);
        assert_end(&record, NULL);
        add_inner_home(&tree, identity_of(canary.pid), 7); /* of a container in the tree */
        assert_end(&record, NULL);
        add_inner_home(&tree, identity_of(canary.pid), 0);
        assert_end(&record, "another owner");
        member_end(&canary);
        assert_end(&record, NULL);
        member_end(&member);
        cgroup_done(&tree);
        record_done(&record);
}
END_TEST

START_TEST(test_no_cgroups_to_be_seen) {
        struct record record = orphan_record(&orphan_base);
        struct cgroup tree = orphan_make(&orphan_base, &record);
        _cleanup_free_ char *prefix = NULL;
        char link[64], point[256];
        ssize_t n;
        int root;

        if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) < 0)
                return;
        assert_cgroup(&record, IDENTITY_PROVEN, "recorded");
        while (cgroup_open_root(&root, &prefix) >= 0) {
                snprintf(link, sizeof(link), "/proc/self/fd/%d", root);
                n = readlink(link, point, sizeof(point) - 1);
                ck_assert_int_gt(n, 0);
                point[n] = '\0';
                close(root);
                free(take_pointer(&prefix));
                ck_assert_int_eq(umount2(point, MNT_DETACH), 0);
        }
        assert_cgroup(&record, IDENTITY_SKIP, "no cgroup2");
        cgroup_done(&tree);
        record_done(&record);
}
END_TEST

START_TEST(test_from_another_cgroup_namespace) {
        struct record record = orphan_record(&orphan_base);
        struct cgroup tree = orphan_make(&orphan_base, &record);
        struct member member = member_start(&tree, NULL);

        ck_assert_int_eq(write_file_at(orphan_base.fd, "cgroup.procs", "0"), 0);
        if (unshare(CLONE_NEWCGROUP) == 0)
                assert_cgroup(&record, IDENTITY_SKIP, "");
        ck_assert(member_lives(&member));
        member_end(&member);
        cgroup_done(&tree);
        record_done(&record);
}
END_TEST

static TCase *owner_tests(void) {
        TCase *tcase = tcase_create("owner");

        tcase_add_test(tcase, test_owner_lives);
        tcase_add_test(tcase, test_owner_is_gone);
        tcase_add_test(tcase, test_owner_is_a_zombie);
        tcase_add_test(tcase, test_owner_whose_leader_has_exited);
        tcase_add_test(tcase, test_pid_of_another_process);
        tcase_add_test(tcase, test_owner_of_another_boot_or_namespace);
        tcase_add_test(tcase, test_owner_of_another_user);
        tcase_add_test(tcase, test_owner_that_proc_hides);
        tcase_add_test(tcase, test_proc_of_another_namespace);
        tcase_add_test(tcase, test_cgroup_above_other_owners);
        tcase_set_timeout(tcase, 60);
        return tcase;
}

static TCase *cgroup_tests(void) {
        TCase *tcase = tcase_create("cgroup");

        tcase_add_test(tcase, test_stamp);
        tcase_add_test(tcase, test_cgroup_is_proven);
        tcase_add_test(tcase, test_cgroup_is_gone);
        tcase_add_test(tcase, test_cgroup_of_another_boot_or_namespace);
        tcase_add_test(tcase, test_cgroup_is_another);
        tcase_add_test(tcase, test_cgroup_without_id);
        tcase_add_test(tcase, test_cgroup_is_no_tree);
        tcase_add_test(tcase, test_cgroup_holds_us);
        tcase_add_test(tcase, test_cgroup_holds_an_ancestor);
        tcase_add_test(tcase, test_no_cgroups_to_be_seen);
        tcase_add_test(tcase, test_from_another_cgroup_namespace);
        tcase_set_timeout(tcase, 60);
        return tcase;
}

int main(void) {
        Suite *suite = suite_create("identity");
        SRunner *runner = srunner_create(suite);
        int r = 77;

        suite_add_tcase(suite, cgroup_tests());
        if (orphan_has_pidfd())
                suite_add_tcase(suite, owner_tests());
        if (orphan_can_be_made()) {
                srunner_run_all(runner, CK_NORMAL);
                orphan_teardown();
                r = srunner_ntests_failed(runner) ? EXIT_FAILURE : EXIT_SUCCESS;
        }
        srunner_free(runner);
        return r;
}
