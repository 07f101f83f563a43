/* SPDX-License-Identifier: MIT */
#include "swept.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mount.h>

#include "group.h"
#include "nobody.h"

/* Numbers that are somebody else's by now, and owners that only look dead: whatever a record says, no stranger dies, and no tree of a
 * living owner. Each is judged by sweep (0) and by watch (1). */

enum {
        BY_SWEEP,
        BY_WATCH,
        N_JUDGES,
};

static struct heard by_watch(void) {
        struct heard heard = { 0 };
        cgtree_watch *watch;

        ck_assert_int_eq(cgtree_watch_new(records_path, &watch), 0);
        struct pollfd source = { .fd = cgtree_watch_get_fd(watch), .events = POLLIN };
        do
                ck_assert_int_ge(cgtree_watch_dispatch(watch, hear, &heard), 0);
        while (poll(&source, 1, 150) == 1);
        cgtree_watch_free(watch);
        return heard;
}

static struct heard judged(int judge, int expected) {
        return judge == BY_SWEEP ? sweep(expected) : by_watch();
}

/* `fn` in a process of its own, which may become whatever it needs to be. 77: that is not possible here. */
static void apart(int (*fn)(int judge), int judge) {
        int status = -1;
        pid_t pid;

        fflush(NULL);
        pid = fork();
        if (pid == 0)
                _exit(fn(judge));
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_msg(
                status == 0 || (WIFEXITED(status) && WEXITSTATUS(status) == 77), "it ended with %x", (unsigned)status);
        if (status != 0)
                printf("left out: this machine or user does not let us\n");
}

/* ---- owners that look dead ------------------------------------------------------------------------------ */

static void assert_kept(int judge, struct orphan *orphan, struct process_identity owner) {
        struct member member = member_start(&orphan->cgroup, NULL);
        struct heard heard;

        orphan->record.owner = owner;
        forge(orphan);
        heard = judged(judge, 0);
        assert_heard(&heard, orphan->id, "kept", "lives");
        ck_assert(member_lives(&member));
        assert_untouched(orphan);
        member_end(&member);
}

static void *live_on(void *unused) {
        for (;;)
                pause();
        return unused;
}

static int half_dead_ready[2];

static void *see_it_and_live_on(void *unused) {
        struct process_stat stat;

        while (process_read_stat(getpid(), &stat) < 0 || stat.state != 'Z')
                usleep(1000);
        return write(half_dead_ready[1], "", 1) == 1 ? live_on(unused) : NULL;
}

/* A Z in /proc, and its threads run. */
START_TEST(an_owner_whose_main_thread_has_exited) {
        struct orphan orphan = orphan_new();
        pthread_t thread;
        char ready;
        pid_t pid;

        ck_assert_int_eq(pipe2(half_dead_ready, O_CLOEXEC), 0);
        pid = fork();
        if (pid == 0) {
                alarm(60);
                if (pthread_create(&thread, NULL, see_it_and_live_on, NULL) == 0)
                        syscall(SYS_exit, 0);
                _exit(1);
        }
        ck_assert_int_eq(read(half_dead_ready[0], &ready, 1), 1);
        assert_kept(_i, &orphan, identity_of(pid));
        kill(pid, SIGKILL);
        ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
        orphan_done(&orphan);
}
END_TEST

static void become_nobody(void) {
        if (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 || setresuid(NOBODY, NOBODY, NOBODY) < 0)
                _exit(1);
}

START_TEST(an_owner_of_another_user) {
        struct orphan orphan = orphan_new();
        struct member owner;

        if (!nobody_possible())
                return;
        owner = member_start(NULL, become_nobody);
        assert_kept(_i, &orphan, identity_of(owner.pid));
        member_end(&owner);
        orphan_done(&orphan);
}
END_TEST

static struct process_identity hidden_owner;

/* As a user from whom /proc hides the owner. */
static int judge_hidden(int judge) {
        struct orphan orphan = orphan_new();
        struct process_stat stat;
        struct heard heard;

        orphan.record.owner = hidden_owner;
        if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) < 0 ||
                mount("proc", "/proc", "proc", 0, "hidepid=2") < 0)
                return 77;
        if (record_unlink(records, orphan.id, NULL) < 0 || chmod(scratch_path, 0755) < 0 ||
                fchown(records, NOBODY, NOBODY) < 0)
                return 1;
        become_nobody();
        if (process_read_stat(hidden_owner.pid, &stat) != -ENOENT || record_write(records, &orphan.record) < 0)
                return 2;
        heard = judged(judge, hidden_owner.inode ? 0 : -EBADMSG);
        assert_heard(&heard, orphan.id, hidden_owner.inode ? "kept" : "skipped", "");
        return 0;
}

START_TEST(an_owner_that_proc_hides) {
        if (!nobody_possible())
                return;
        hidden_owner = identity_of(canary.pid);
        apart(judge_hidden, _i);
}
END_TEST

static int told[2]; /* who the owner is */

/* A clock that is an hour ahead: so are the start times that it sees. */
static void own_in_time_namespace(void) {
        struct process_identity identity;

        if (process_self(&identity) < 0 || write(told[1], &identity, sizeof(identity)) != sizeof(identity))
                _exit(1);
}

static int judge_in_time_namespace(int judge) {
        struct orphan orphan = orphan_new();
        struct process_identity identity;
        struct member owner;
        int here = open("/proc/self/ns/time", O_RDONLY | O_CLOEXEC);

        if (here < 0 || unshare(CLONE_NEWTIME) < 0 ||
                write_file_at(AT_FDCWD, "/proc/self/timens_offsets", "boottime 3600 0\n") < 0)
                return 77;
        if (pipe2(told, O_CLOEXEC) < 0)
                return 1;
        owner = member_start(NULL, own_in_time_namespace);
        if (read(told[0], &identity, sizeof(identity)) != sizeof(identity))
                return 2;
        if (setns(here, CLONE_NEWTIME) < 0)
                return 3;
        if (identity.inode)
                assert_kept(judge, &orphan, identity);
        else
                ck_assert_uint_eq(identity.start_time, 0); /* nothing to compare: never proven gone */
        member_end(&owner);
        return 0;
}

START_TEST(an_owner_in_a_time_namespace) {
        apart(judge_in_time_namespace, _i);
}
END_TEST

/* ---- numbers of strangers ------------------------------------------------------------------------------- */

/* As process 1 of a pid namespace of its own, in which a number can be had again. */
static int judge_reused_pid(int judge) {
        struct orphan orphan = orphan_new();
        struct member owner = member_start(NULL, NULL), member = member_start(&orphan.cgroup, NULL), stranger;
        _cleanup_free_ char *last = format("%d", (int)owner.pid - 1);
        struct heard heard;

        orphan.record.owner = identity_of(owner.pid);
        forge(&orphan);
        heard = judged(judge, 0);
        assert_heard(&heard, orphan.id, "kept", "lives");
        kill(owner.pid, SIGKILL);
        if (waitpid(owner.pid, NULL, 0) != owner.pid ||
                write_file_at(AT_FDCWD, "/proc/sys/kernel/ns_last_pid", last) < 0)
                return 77;
        stranger = member_start(NULL, NULL);
        if (stranger.pid != owner.pid)
                return 3;
        heard = judged(judge, 1);
        assert_heard(&heard, orphan.id, "ended", "gone");
        member_await_death(&member);
        if (!member_lives(&stranger))
                return 4;
        member_end(&stranger);
        return 0;
}

static int in_pid_namespace(int judge) {
        int status = -1;
        pid_t pid;

        if (unshare(CLONE_NEWPID | CLONE_NEWNS) < 0 || mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) < 0)
                return 77;
        pid = fork();
        if (pid == 0)
                _exit(mount("proc", "/proc", "proc", 0, NULL) < 0 ? 77 : judge_reused_pid(judge));
        return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

START_TEST(a_pid_that_was_reused) {
        apart(in_pid_namespace, _i);
}
END_TEST

/* Somebody has made it again, with our marks on it, and lives there. */
START_TEST(a_cgroup_path_that_was_reused) {
        struct orphan orphan = orphan_new();
        struct cgroup trees = CGROUP_NONE, again = CGROUP_NONE;
        _cleanup_free_ char *path = strndup(orphan.record.cgroup, strlen(orphan.record.cgroup) - ID_LENGTH - 1);
        struct member stranger;
        struct heard heard;

        ck_assert_int_eq(cgroup_open(path, &trees), 0);
        ck_assert_int_eq(unlinkat(trees.fd, orphan.id, AT_REMOVEDIR), 0);
        ck_assert_int_eq(cgroup_create(&trees, orphan.id, &again), 0);
        ck_assert_int_eq(cgroup_set_xattr(&again, CGROUP_XATTR_ID, orphan.id), 0);
        stranger = member_start(&again, NULL);
        heard = judged(_i, -EBADMSG);
        assert_heard(&heard, orphan.id, "skipped", "another cgroup");
        ck_assert(member_lives(&stranger));
        assert_untouched(&orphan);
        member_end(&stranger);
        cgroup_done(&again);
        cgroup_done(&trees);
        orphan_done(&orphan);
}
END_TEST

static pid_t group_leader;

/* A member of the group of a leader that has ended. */
static void join_group(void) {
        if (setpgid(0, group_leader) < 0)
                _exit(1);
}

static void lead_group(void) {
        if (setpgid(0, 0) < 0)
                _exit(1);
}

/* The number of the recorded group is that of a group of strangers, whose leader has ended: as good a match as there can be, and still
 * nobody's. Also if that leader was the recorded one. */
static void assert_group_lives(int judge, uint64_t older) {
        struct member leader = member_start(NULL, lead_group), stranger;
        struct process_identity identity = identity_of(leader.pid);
        struct record record = { .placement = CGTREE_PLACEMENT_GROUP, .command = strdup("sleep") };
        struct heard heard;

        group_leader = leader.pid;
        stranger = member_start(NULL, join_group);
        member_end(&leader);
        ck_assert_int_eq(id_random(record.id), 0);
        ck_assert_int_eq(record_fill_origin(&record), 0);
        record.owner = dead_owner;
        identity.start_time -= older;
        identity.inode -= identity.inode ? older : 0;
        record.group.leader = identity;
        record.group.reaper = identity_of_dead();
        ck_assert_int_eq(group_cgroup_id(getpid(), &record.group.birth_cgroup_id), 0);
        record.group.lineage = strdup(record.id);
        ck_assert_int_eq(record_write(records, &record), 0);
        heard = judged(judge, 0);
        assert_heard(&heard, record.id, "tidied", "gone");
        ck_assert(member_lives(&stranger));
        ck_assert_int_eq(getpgid(stranger.pid), group_leader);
        member_end(&stranger);
        record_done(&record);
}

START_TEST(a_group_of_strangers) {
        assert_group_lives(_i, 1);
        assert_group_lives(_i, 0);
}
END_TEST

/* ---- other boots and namespaces ------------------------------------------------------------------------- */

/* Not signalled, whatever becomes of the record. */
static void assert_unharmed(int judge, struct orphan *orphan, const char *decision, int expected) {
        struct member member = member_start(&orphan->cgroup, NULL);
        struct heard heard;

        forge(orphan);
        heard = judged(judge, expected);
        assert_heard(&heard, orphan->id, decision, "another");
        ck_assert(member_lives(&member));
        ck_assert(exists(orphan->record.cgroup) || strcmp(decision, "skipped") == 0);
        member_end(&member);
        orphan_done(orphan);
}

START_TEST(records_of_elsewhere) {
        struct orphan boot = orphan_new(), pids, cgroups;

        boot.record.boot_id[0] = boot.record.boot_id[0] == '0' ? '1' : '0';
        assert_unharmed(_i, &boot, "tidied", 0);
        pids = orphan_new();
        pids.record.pid_namespace++;
        assert_unharmed(_i, &pids, "skipped", -EBADMSG);
        ck_assert_int_eq(record_unlink(records, pids.id, NULL), 0);
        cgroups = orphan_new();
        cgroups.record.cgroup_namespace++;
        memcpy(strstr(cgroups.record.cgroup, "/trees/"), "/treas/",
                strlen("/treas/")); /* nothing is there, from here */
        assert_unharmed(_i, &cgroups, "skipped", -EBADMSG);
}
END_TEST

int main(void) {
        TCase *tcase = tcase_create("strangers");

        tcase_add_loop_test(tcase, an_owner_whose_main_thread_has_exited, 0, N_JUDGES);
        tcase_add_loop_test(tcase, an_owner_of_another_user, 0, N_JUDGES);
        tcase_add_loop_test(tcase, an_owner_that_proc_hides, 0, N_JUDGES);
        tcase_add_loop_test(tcase, an_owner_in_a_time_namespace, 0, N_JUDGES);
        tcase_add_loop_test(tcase, a_pid_that_was_reused, 0, N_JUDGES);
        tcase_add_loop_test(tcase, a_cgroup_path_that_was_reused, 0, N_JUDGES);
        tcase_add_loop_test(tcase, a_group_of_strangers, 0, N_JUDGES);
        tcase_add_loop_test(tcase, records_of_elsewhere, 0, N_JUDGES);
        return sweep_run(suite_create("strangers"), tcase);
}
