/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command.h"
#include "doctor.h"

/* The kernel: what it can do, and two of its bugs, by what happens. */

#define STACK_SIZE  ((size_t)16384)
#define START_USEC  (2 * USEC_PER_SEC)
#define SPARED_USEC (300 * USEC_PER_MSEC) /* a kill takes a millisecond */
#define LOOK_USEC   (2 * USEC_PER_MSEC)
#define NO_KILL     "members are frozen and killed one by one"

/* ---- scratch cgroups --------------------------------------------------------------------------------------------- */

static bool make_scratch(struct doctor *doctor, char id[ID_LENGTH + 1], struct cgroup *ret_cgroup) {
        bool renewed;
        return doctor->owner && doctor->owner->home.trees.fd >= 0 && id_random(id) >= 0 &&
               home_create_tree(&doctor->owner->home, id, ret_cgroup, &renewed) >= 0;
}

static bool wait_empty(const struct cgroup *cgroup, uint64_t bound_usec) {
        uint64_t deadline = now_usec() + bound_usec;
        while (cgroup_is_populated(cgroup) != 0) {
                if (now_usec() >= deadline)
                        return false;
                usleep(LOOK_USEC);
        }
        return true;
}

static void remove_scratch(struct doctor *doctor, const char *id, struct cgroup *cgroup) {
        (void)home_remove_tree(&doctor->owner->home, id, START_USEC);
        cgroup_done(cgroup);
}

/* Of a child of ours that nobody else reaps: its pid is its own until then, also where there are no pidfds. */
static void end_child(pid_t pid) {
        (void)kill(pid, SIGKILL);
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
                ;
}

/* ---- a process whose main thread has exited ----------------------------------------------------------------------- */

static int sleep_on(void *unused) {
        (void)unused;
        while (syscall(SYS_ppoll, NULL, 0, NULL, NULL, 0) < 0)
                ;
        return 0;
}

/* In a child that has one thread. */
static _Noreturn void lose_main_thread(const struct cgroup *cgroup) {
        const int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
        char *stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
        if (stack == MAP_FAILED || write_file_at(cgroup->fd, "cgroup.procs", "0") < 0 ||
                clone(sleep_on, stack + STACK_SIZE, flags, NULL) < 0)
                _exit(1);
        for (;;)
                (void)syscall(SYS_exit, 0);
}

static bool await_lost(pid_t pid) {
        uint64_t deadline = now_usec() + START_USEC;
        struct process_stat stat;
        while (process_read_stat(pid, &stat) >= 0 && now_usec() < deadline) {
                if (stat.state == 'Z')
                        return true;
                usleep(LOOK_USEC);
        }
        return false;
}

/* 1: cgroup.kill spares it. 0: it does not. < 0: could not be tried. */
static int try_kill(const struct cgroup *cgroup) {
        pid_t pid = fork();
        if (pid < 0)
                return -errno;
        if (pid == 0)
                lose_main_thread(cgroup);
        int r = -ENODATA;
        if (await_lost(pid) && cgroup_is_populated(cgroup) == 1) {
                r = cgroup_kill(cgroup);
                if (r >= 0)
                        r = wait_empty(cgroup, SPARED_USEC) ? 0 : 1;
        }
        end_child(pid);
        return r;
}

/* ---- a child born into a cgroup that was killed ------------------------------------------------------------------- */

static int make_plan(struct child_plan **ret_plan) {
        cgtree_command *command;
        int r = cgtree_command_new(&command, (const char *const[]){ "true", NULL });
        for (int fd = 0; r >= 0 && fd <= 2; fd++)
                r = cgtree_command_set_fd(command, fd, CGTREE_FD_NULL);
        if (r >= 0)
                r = command_plan(command, ret_plan);
        cgtree_command_free(command);
        return r;
}

static int give_birth(const struct cgroup *cgroup, enum birth_state *ret_state) {
        struct child_plan *plan;
        struct birth *birth;
        _cleanup_close_ int pidfd = -1;
        pid_t pid;
        int r = make_plan(&plan);
        if (r < 0)
                return r;
        r = birth_begin(plan, cgroup->fd, &birth, &pid, &pidfd);
        if (r < 0) {
                child_plan_free(plan);
                return r;
        }
        *ret_state = birth_wait(birth, pidfd, START_USEC);
        end_child(pid);
        birth_free(birth);
        return 0;
}

/* ---- findings ---------------------------------------------------------------------------------------------------- */

static bool tells_exit(void) {
        pid_t pid = fork();
        if (pid < 0)
                return false;
        if (pid == 0)
                _exit(0);
        _cleanup_close_ int pidfd = pidfd_pin(pid);
        int status;
        end_child(pid);
        return pidfd >= 0 && pidfd_get_exit(pidfd, &status) >= 0;
}

static bool has_pidfs(void) {
        _cleanup_close_ int pidfd = pidfd_pin(getpid());
        uint64_t inode;
        return pidfd >= 0 && pidfd_get_inode(pidfd, &inode) >= 0;
}

static bool has_file(const struct cgroup *cgroup, const char *file) {
        return cgroup->fd >= 0 && faccessat(cgroup->fd, file, F_OK, 0) >= 0;
}

static void say_feature(struct doctor *doctor, bool there, const char *name, const char *without) {
        if (there)
                doctor_say(doctor, name, CGTREE_FINDING_GOOD, NULL, "yes");
        else
                doctor_say(doctor, name, CGTREE_FINDING_NOTE, NULL, "no: %s", without);
}

/* Without a cgroup of ours, what our own shows (the root has no such file). */
static void look_at_own(struct doctor *doctor) {
        _cleanup_free_ char *path = NULL;
        struct cgroup own = CGROUP_NONE;
        if (cgroup_path_of(0, &path) < 0 || strcmp(path, "/") == 0 || cgroup_open(path, &own) < 0)
                return;
        say_feature(doctor, has_file(&own, "cgroup.kill"), "cgroup_kill", NO_KILL);
        cgroup_done(&own);
}

static void look_at_killing(struct doctor *doctor) {
        struct cgroup cgroup = CGROUP_NONE;
        char id[ID_LENGTH + 1];
        if (!make_scratch(doctor, id, &cgroup)) {
                look_at_own(doctor);
                return;
        }
        bool there = has_file(&cgroup, "cgroup.kill");
        say_feature(doctor, there, "cgroup_kill", NO_KILL);
        int r = there ? try_kill(&cgroup) : -ENOENT;
        if (r == 1)
                doctor_say(doctor, "kill_bug", CGTREE_FINDING_NOTE, NULL,
                        "cgroup.kill spares a process whose main thread has exited; cgtree kills it by itself");
        else if (r == 0)
                doctor_say(doctor, "kill_bug", CGTREE_FINDING_GOOD, NULL,
                        "not here: cgroup.kill also takes a process whose main thread has exited");
        remove_scratch(doctor, id, &cgroup);
}

static void look_at_birth(struct doctor *doctor) {
        enum birth_state state = BIRTH_PENDING;
        struct cgroup cgroup = CGROUP_NONE;
        char id[ID_LENGTH + 1];
        if (!make_scratch(doctor, id, &cgroup))
                return;
        /* Anew: what is asked of it before does not matter. */
        int r = give_birth(&cgroup, &state);
        say_feature(
                doctor, r >= 0, "clone_into_cgroup", "children join their cgroup by themselves, which takes longer");
        if (r >= 0 && cgroup_kill(&cgroup) >= 0 && give_birth(&cgroup, &state) >= 0) {
                if (state == BIRTH_KILLED)
                        doctor_say(doctor, "birth_bug", CGTREE_FINDING_NOTE, NULL,
                                "a child born into a cgroup that was killed once is killed too; cgtree never uses one "
                                "twice");
                else
                        doctor_say(doctor, "birth_bug", CGTREE_FINDING_GOOD, NULL,
                                "not here: a cgroup that was killed once takes new children");
        }
        remove_scratch(doctor, id, &cgroup);
}

void doctor_look_at_kernel(struct doctor *doctor) {
        struct utsname name;
        if (uname(&name) >= 0)
                doctor_say(doctor, "kernel", CGTREE_FINDING_GOOD, NULL, "%s %s, %s", name.sysname, name.release,
                        name.machine);
        look_at_killing(doctor);
        look_at_birth(doctor);
        say_feature(doctor, has_pidfs(), "pidfs", "processes are told apart by pid and start time");
        say_feature(
                doctor, tells_exit(), "pidfd_exit_info", "an exit status is lost if the program reaps the root itself");
        if (doctor->owner && has_file(&doctor->owner->home.base, "memory.current"))
                say_feature(doctor, has_file(&doctor->owner->home.base, "memory.peak"), "memory_peak",
                        "how much memory a tree has used at most is not known");
}
