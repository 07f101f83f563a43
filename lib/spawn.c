/* SPDX-License-Identifier: MIT */
#include "spawn.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>

#include "process.h"
#include "raw-syscall.h"

/* Of Linux 5.2 to 5.7; libc's headers may be older. */
#ifndef CLONE_PIDFD
#define CLONE_PIDFD 0x00001000
#endif
#ifndef CLONE_CLEAR_SIGHAND
#define CLONE_CLEAR_SIGHAND 0x100000000ULL
#endif
#ifndef CLONE_INTO_CGROUP
#define CLONE_INTO_CGROUP 0x200000000ULL
#endif

/* What child_run() uses is about 2 KiB. */
#define STACK_SIZE (16 * 1024)

/* struct clone_args; the kernel takes the shorter, first form from those that want no cgroup. */
struct clone_arguments {
        uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
        uint64_t set_tid, set_tid_size, cgroup;
};
#define CLONE_ARGUMENTS_V0 64

/* At the upper end of its region: [guard page | stack | struct birth]. */
struct birth {
        uint32_t tid_word; /* 1, until the kernel clears it: the child has let go of our memory */
        struct child_result result;
        struct child_plan *plan;
        void *region;
        size_t region_size;
        char *stack;
        size_t stack_size;
};

static int birth_allocate(struct child_plan *plan, struct birth **ret_birth) {
        size_t page = (size_t)sysconf(_SC_PAGESIZE), size = page + (STACK_SIZE > page ? STACK_SIZE : page);
        struct birth *birth;
        char *region;

        region = mmap(
                NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
        if (region == MAP_FAILED)
                return -errno;
        if (mprotect(region, page, PROT_NONE) < 0) {
                int saved = errno;

                munmap(region, size);
                return -saved;
        }
        /* Multiple of 16 bytes from a page's end: what stands before it is as aligned as a stack has to be. */
        birth = (void *)(region + size - (sizeof(*birth) + 15) / 16 * 16);
        *birth = (struct birth){ .tid_word = 1, .plan = plan, .region = region, .region_size = size };
        birth->stack = region + page;
        birth->stack_size = (size_t)((char *)birth - birth->stack);
        *ret_birth = birth;
        return 0;
}

static void birth_release(struct birth *birth) {
        child_plan_free(birth->plan);
        munmap(birth->region, birth->region_size);
}

#if RAW_CLONE3

static _child_side_ void child_main(void *argument) {
        struct birth *birth = argument;

        child_run(birth->plan, &birth->result);
        for (;;)
                raw_syscall(SYS_exit_group, 127, 0, 0, 0);
}

static long clone_child(struct birth *birth, int cgroup_fd, int *ret_pidfd) {
        struct clone_arguments arguments = {
                .flags = CLONE_VM | CLONE_PIDFD | CLONE_CHILD_CLEARTID | CLONE_CLEAR_SIGHAND,
                .pidfd = (uintptr_t)ret_pidfd,
                .child_tid = (uintptr_t)&birth->tid_word,
                .exit_signal = SIGCHLD,
                .stack = (uintptr_t)birth->stack,
                .stack_size = birth->stack_size,
        };
        uint64_t all = UINT64_MAX, mask = 0;
        long r;

        if (cgroup_fd >= 0) {
                arguments.flags |= CLONE_INTO_CGROUP;
                arguments.cgroup = (uint64_t)cgroup_fd;
        }
        /* The child begins with everything blocked, and none of our handlers: none of them ever runs there. */
        raw_syscall(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, (long)&mask, sizeof(mask));
        r = raw_clone3(&arguments, cgroup_fd >= 0 ? sizeof(arguments) : CLONE_ARGUMENTS_V0, child_main, birth);
        raw_set_mask(mask);
        return r;
}

#else

static long clone_child(struct birth *birth, int cgroup_fd, int *ret_pidfd) {
        (void)birth, (void)cgroup_fd, (void)ret_pidfd;
        return -ENOSYS;
}

#endif

int birth_begin(struct child_plan *plan, int cgroup_fd, struct birth **ret_birth, pid_t *ret_pid, int *ret_pidfd) {
        struct birth *birth = NULL;
        int r = plan->set_user ? -EINVAL : birth_allocate(plan, &birth), pidfd = -1;
        long pid;

        if (r < 0)
                return r;
        pid = clone_child(birth, cgroup_fd, &pidfd);
        if (pid < 0) {
                birth->plan = NULL;
                birth_release(birth);
                return pid == -EINVAL ? -ENOSYS : (int)pid; /* a flag that this kernel does not know */
        }
        *ret_birth = birth;
        *ret_pid = (pid_t)pid;
        *ret_pidfd = pidfd;
        return 0;
}

static bool child_is_here(const struct birth *birth) {
        return __atomic_load_n(&birth->tid_word, __ATOMIC_ACQUIRE) != 0;
}

/* The kernel's wake is a shared one: FUTEX_PRIVATE_FLAG would miss it. */
static void wait_for_word(struct birth *birth, uint64_t deadline) {
        struct timespec until = { .tv_sec = (time_t)(deadline / USEC_PER_SEC),
                .tv_nsec = (long)(deadline % USEC_PER_SEC) * 1000 };

        syscall(SYS_futex, &birth->tid_word, FUTEX_WAIT_BITSET, 1, deadline == USEC_FOREVER ? NULL : &until, NULL,
                FUTEX_BITSET_MATCH_ANY);
}

enum birth_state birth_wait(struct birth *birth, int pidfd, uint64_t timeout_usec) {
        uint64_t deadline = timeout_usec > 0 ? usec_add(now_usec(), timeout_usec) : 0;

        while (child_is_here(birth)) {
                if (now_usec() < deadline) {
                        wait_for_word(birth, deadline);
                        continue;
                }
                /* A kernel that dumps the child's core may leave the word alone. */
                if (pidfd_is_dead(pidfd) <= 0)
                        return BIRTH_PENDING;
                __atomic_store_n(&birth->tid_word, 0, __ATOMIC_RELEASE);
        }
        if (birth->result.step != CHILD_OK)
                return BIRTH_FAILED;
        return birth->result.reached ? BIRTH_EXECED : BIRTH_KILLED;
}

const struct child_result *birth_result(const struct birth *birth) {
        return &birth->result;
}

struct child_plan *birth_take_plan(struct birth *birth) {
        return child_is_here(birth) ? NULL : take_pointer(&birth->plan);
}

struct birth *birth_free(struct birth *birth) {
        if (birth && !child_is_here(birth))
                birth_release(birth);
        return NULL;
}
