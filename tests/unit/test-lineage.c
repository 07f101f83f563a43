/* SPDX-License-Identifier: MIT */
#define FAMILY_TEST
#include "family.h"

#include <sched.h>
#include <sys/prctl.h>

#include "lineage.h"

/* A family below this very process, which is its subreaper. */
static int life, leash;
static pid_t root;

static void start(const char *const modes[]) {
        ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1L), 0);
        root = family_run(modes, &life, &leash);
        family_await_word(life);
}

/* Everything below us dies, by lineage alone. */
static void end(void) {
        for (int i = 0; i < 1000 && life_goes_on(life); i++) {
                ck_assert_int_ge(lineage_signal_all(getpid(), SIGKILL), 0);
                while (waitpid(-1, NULL, WNOHANG) > 0)
                        continue;
        }
        life_await_end(life);
        close(leash);
        close(life);
        while (waitpid(-1, NULL, 0) > 0)
                continue;
}

START_TEST(test_set) {
        struct lineage_set set = { 0 };

        for (pid_t pid = 500; pid > 1; pid -= 2)
                ck_assert_int_eq(lineage_set_add(&set, pid, (uint64_t)pid), 0);
        ck_assert_int_eq(lineage_set_add(&set, 100, 1), 0);
        ck_assert_uint_eq(set.n, 250);
        for (pid_t pid = 0; pid <= 501; pid++)
                ck_assert_int_eq(lineage_set_has(&set, pid), pid > 1 && pid <= 500 && pid % 2 == 0);
        for (size_t i = 0; i < set.n; i++)
                ck_assert_uint_eq(set.members[i].start_time, (uint64_t)set.members[i].pid);
        lineage_set_done(&set);
        ck_assert(!lineage_set_has(&set, 100));
        ck_assert_uint_eq(set.n, 0);
}
END_TEST

static int note(void *userdata, pid_t pid) {
        return lineage_set_add(userdata, pid, 0);
}

static int refuse(void *userdata, pid_t pid) {
        (*(int *)userdata)++;
        return pid > 0 ? -ECANCELED : 0;
}

START_TEST(test_children) {
        struct lineage_set children = { 0 };
        int calls = 0;

        start(FAMILY("daemon"));
        ck_assert_int_eq(lineage_children(getpid(), note, &children), 0);
        ck_assert_uint_eq(children.n, 2); /* the root, and the orphan that came to us */
        ck_assert(lineage_set_has(&children, root));
        ck_assert_int_eq(lineage_children(getpid(), refuse, &calls), -ECANCELED);
        ck_assert_int_eq(calls, 1);
        lineage_set_done(&children);
        ck_assert_int_eq(lineage_children(root, note, &children), 0);
        ck_assert_uint_eq(children.n, 0);
        end();
        ck_assert_int_eq(lineage_children(root, note, &children), 0);
        ck_assert_uint_eq(children.n, 0);
}
END_TEST

static int in_order(void *userdata, pid_t pid) {
        struct lineage_set *met = userdata;

        ck_assert(met->n == 0 || met->members[met->n - 1].pid < pid);
        return lineage_set_add(met, pid, 0);
}

START_TEST(test_each_process) {
        struct lineage_set met = { 0 };

        ck_assert_int_eq(lineage_each_process(in_order, &met), 0);
        ck_assert(lineage_set_has(&met, getpid()));
        ck_assert(lineage_set_has(&met, getppid()));
        ck_assert(!lineage_set_has(&met, 1));
        lineage_set_done(&met);
}
END_TEST

static bool is_among(pid_t pid, const pid_t pids[], size_t n) {
        for (size_t i = 0; i < n; i++)
                if (pids[i] == pid)
                        return true;
        return false;
}

/* Parents before their children. */
static void check_order(const pid_t pids[], size_t n) {
        for (size_t i = 0; i < n; i++) {
                struct process_stat stat;

                ck_assert_int_eq(process_read_stat(pids[i], &stat), 0);
                ck_assert(stat.parent == getpid() || is_among(stat.parent, pids, i));
        }
}

START_TEST(test_descendants) {
        static const struct {
                const char *modes[3];
                size_t n;
        } families[] = {
                { { "stay" }, 1 },
                { { "plain" }, 2 },
                { { "daemon" }, 2 },
                { { "subreaper" }, 3 },
                { { "threaded-parent" }, 3 },
                { { "dead-leader" }, 2 },
                { { "stopped" }, 2 },
                { { "nest", "40" }, 41 },
                { { "all" }, 17 },
        };
        pid_t *by_children, *by_scan, *any;
        size_t n, n_scanned, n_any;

        start(families[_i].modes);
        ck_assert_int_eq(lineage_descendants_by_scan(getpid(), &by_scan, &n_scanned), 0);
        ck_assert_uint_eq(n_scanned, families[_i].n);
        check_order(by_scan, n_scanned);
        ck_assert_int_eq(lineage_descendants(getpid(), &any, &n_any), 0);
        ck_assert_uint_eq(n_any, families[_i].n);
        if (lineage_descendants_by_children(getpid(), &by_children, &n) != -EOPNOTSUPP) {
                ck_assert_uint_eq(n, families[_i].n);
                check_order(by_children, n);
                for (size_t i = 0; i < n; i++)
                        ck_assert(is_among(by_children[i], by_scan, n_scanned));
                free(by_children);
        }
        free(by_scan);
        free(any);
        end();
        ck_assert_int_eq(lineage_descendants(getpid(), &any, &n_any), 0);
        ck_assert_uint_eq(n_any, 0);
        free(any);
}
END_TEST

START_TEST(test_pin) {
        struct process process = PROCESS_NONE;
        pid_t *pids, stranger;
        struct process_stat stat;
        size_t n;
        int held[2];

        ck_assert_int_eq(pipe2(held, O_CLOEXEC), 0);
        stranger = fork();
        if (stranger == 0) {
                close(held[1]);
                (void)!read(held[0], held, 1);
                _exit(0);
        }
        start(FAMILY("nest", "10"));
        ck_assert_int_eq(lineage_descendants(root, &pids, &n), 0);
        ck_assert_uint_eq(n, 10);
        for (size_t i = 0; i < n; i++) {
                ck_assert_int_eq(lineage_pin(root, pids[i], &process), 0);
                ck_assert_int_eq(process.identity.pid, pids[i]);
                ck_assert_int_eq(process_read_stat(pids[i], &stat), 0);
                ck_assert_uint_eq(process.identity.start_time, stat.start_time);
                ck_assert_int_eq(process_life(&process), PROCESS_ALIVE);
                process_done(&process);
                ck_assert_int_eq(lineage_pin(getpid(), pids[i], &process), 0);
                process_done(&process);
                ck_assert_int_eq(lineage_pin(stranger, pids[i], &process), -ESRCH);
                ck_assert_int_eq(lineage_pin(pids[i], root, &process), -ESRCH);
        }
        ck_assert_int_eq(lineage_pin(root, root, &process), -ESRCH);
        ck_assert_int_eq(lineage_pin(root, stranger, &process), -ESRCH);
        ck_assert_int_eq(lineage_pin(root, getpid(), &process), -ESRCH);
        ck_assert_int_eq(lineage_pin(root, 1, &process), -ESRCH);
        end();
        ck_assert_int_eq(lineage_pin(getpid(), pids[0], &process), -ESRCH);
        free(pids);
        close(held[1]);
        waitpid(stranger, NULL, 0);
}
END_TEST

START_TEST(test_signal_new) {
        struct lineage_set seen = { 0 };

        start(FAMILY("nest", "10"));
        ck_assert_int_eq(lineage_signal_new(getpid(), SIGURG, &seen), 11);
        ck_assert_uint_eq(seen.n, 11);
        ck_assert_int_eq(lineage_signal_new(getpid(), SIGURG, &seen), 0);
        ck_assert_int_eq(lineage_signal_new(root, SIGKILL, &seen), 0);
        ck_assert(life_goes_on(life));
        lineage_set_done(&seen);
        ck_assert_int_eq(lineage_signal_new(getpid(), SIGTERM, &seen), 11);
        lineage_set_done(&seen);
        end();
}
END_TEST

START_TEST(test_signal_all) {
        static const char *const kinds[][3] = { { "all" }, { "chains", "2" }, { "bomb", "100" } };
        struct family canary = { .life = -1 };
        int held, status;

        start(FAMILY("stay"));
        canary.life = life;
        held = leash;
        /* The canary is our child, the family our grandchild's. */
        if (fork() == 0) {
                prctl(PR_SET_CHILD_SUBREAPER, 1L);
                start(kinds[_i]);
                end();
                _exit(0);
        }
        while (waitpid(-1, &status, 0) < 0 && errno == EINTR)
                continue;
        ck_assert_int_eq(status, 0);
        ck_assert(life_goes_on(canary.life));
        life = canary.life;
        leash = held;
        end();
}
END_TEST

/* Builds may lie where only their owner can go, below /root say. */
static bool nobody_can_run_family(void) {
        _cleanup_free_ char *program = family_path("family");
        bool can;

        ck_assert_int_eq(seteuid(65534), 0);
        can = faccessat(AT_FDCWD, program, X_OK, AT_EACCESS) == 0;
        ck_assert_int_eq(seteuid(0), 0);
        if (!can)
                printf("left out: another user cannot run %s\n", program);
        return can;
}

/* Root's own descendant of an ordinary user: it is named, and holds up none of the others. */
START_TEST(test_signal_not_permitted) {
        struct lineage_set seen = { 0 };
        int held[2], r;
        pid_t child;

        if (geteuid() != 0 || !nobody_can_run_family())
                return;
        ck_assert_int_eq(pipe2(held, O_CLOEXEC), 0);
        child = fork();
        if (child == 0) {
                close(held[1]);
                (void)!read(held[0], held, 1);
                _exit(0);
        }
        ck_assert_int_eq(setresuid(65534, 65534, 65534), 0);
        start(FAMILY("stay"));
        r = lineage_signal_new(getpid(), SIGKILL, &seen);
        ck_assert_int_eq(r, -EPERM);
        ck_assert_uint_eq(seen.n, 2);
        life_await_end(life);
        ck_assert_int_eq(lineage_signal_all(getpid(), SIGKILL), -EPERM);
        close(held[1]);
        ck_assert_int_eq(waitpid(child, &r, 0), child);
        ck_assert_int_eq(r, 0);
        lineage_set_done(&seen);
}
END_TEST

static int refused_everywhere(void) {
        struct process process = PROCESS_NONE;
        struct lineage_set seen = { 0 };
        pid_t *pids;
        size_t n;

        if (lineage_children(getpid(), note, &seen) != -EXDEV || lineage_each_process(note, &seen) != -EXDEV ||
                lineage_descendants(getpid(), &pids, &n) != -EXDEV ||
                lineage_pin(getpid(), getppid(), &process) != -EXDEV ||
                lineage_signal_new(getpid(), SIGKILL, &seen) != -EXDEV ||
                lineage_signal_all(getpid(), SIGKILL) != -EXDEV)
                return 1;
        return 0;
}

static int wait_status(pid_t pid) {
        int status;

        ck_assert_int_gt(pid, 0);
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

/* In a pid namespace under the /proc of another every number is somebody else's. */
START_TEST(test_foreign_proc) {
        pid_t pid = fork();

        if (pid == 0) {
                if (unshare(CLONE_NEWPID) < 0)
                        _exit(0);
                pid = fork();
                if (pid == 0)
                        _exit(refused_everywhere());
                _exit(wait_status(pid));
        }
        ck_assert_int_eq(wait_status(pid), 0);
}
END_TEST

static void add_pinned(Suite *suite) {
        TCase *pinned = tcase_create("pinned");

        tcase_add_test(pinned, test_children);
        tcase_add_loop_test(pinned, test_descendants, 0, 9);
        tcase_add_test(pinned, test_pin);
        tcase_add_test(pinned, test_signal_new);
        tcase_add_loop_test(pinned, test_signal_all, 0, 3);
        tcase_add_test(pinned, test_signal_not_permitted);
        tcase_set_timeout(pinned, 100);
        suite_add_tcase(suite, pinned);
}

int main(void) {
        Suite *suite = suite_create("lineage");
        TCase *plain = tcase_create("plain");
        SRunner *runner = srunner_create(suite);
        int failed;

        tcase_add_test(plain, test_set);
        tcase_add_test(plain, test_each_process);
        tcase_add_test(plain, test_foreign_proc);
        suite_add_tcase(suite, plain);
        if (family_can_be_pinned())
                add_pinned(suite);
        srunner_run_all(runner, CK_NORMAL);
        failed = srunner_ntests_failed(runner);
        srunner_free(runner);
        return failed == 0 ? 0 : 1;
}
