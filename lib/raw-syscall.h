/* SPDX-License-Identifier: MIT */
#pragma once

/* System calls as the kernel has them: the result or -errno, and nothing of libc is touched. For code that runs in a child
 * which shares its memory with a running parent. Where there is no assembly for the architecture, syscall(2) stands in
 * (it writes errno): there such a child cannot be made, and child.c only ever runs in the single-threaded stubs. */

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* On every function that may run in such a child: no TLS is written, nothing is looked up or counted on the way. */
#if defined(__clang__) && __has_attribute(disable_sanitizer_instrumentation)
#define _child_side_                                                                                                   \
        __attribute__((                                                                                                \
                no_stack_protector, no_instrument_function, disable_sanitizer_instrumentation, no_sanitize("all")))
#elif defined(__clang__)
#define _child_side_ __attribute__((no_stack_protector, no_instrument_function, no_sanitize("all")))
#elif __GNUC__ >= 11
#define _child_side_                                                                                                   \
        __attribute__((no_stack_protector, no_instrument_function, no_sanitize("address", "undefined", "thread")))
#else
#define _child_side_ __attribute__((no_instrument_function))
#endif
#define _child_inline_ _child_side_ __attribute__((always_inline)) inline

#if defined(__x86_64__) && !defined(__ILP32__)

#define RAW_CLONE3 1

static _child_inline_ long raw_syscall(long number, long a, long b, long c, long d) {
        register long r10 __asm__("r10") = d;
        long result;

        __asm__ volatile("syscall"
                         : "=a"(result)
                         : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
                         : "rcx", "r11", "memory");
        return result;
}

/* The child begins with entry(argument) on the stack that `args` names; entry must not return. */
static _child_inline_ long raw_clone3(const void *args, size_t size, void (*entry)(void *), void *argument) {
        long result;

        __asm__ volatile("syscall\n\t"
                         "testq %%rax, %%rax\n\t"
                         "jnz 1f\n\t"
                         "movq %[entry], %%rax\n\t"
                         "movq %[argument], %%rdi\n\t"
                         "xorl %%ebp, %%ebp\n\t"
                         "callq *%%rax\n\t"
                         "ud2\n"
                         "1:"
                         : "=a"(result)
                         : "a"((long)SYS_clone3), "D"(args), "S"(size), [entry] "r"(entry), [argument] "r"(argument)
                         : "rcx", "r11", "cc", "memory");
        return result;
}

#elif defined(__aarch64__)

#define RAW_CLONE3 1

static _child_inline_ long raw_syscall(long number, long a, long b, long c, long d) {
        register long x8 __asm__("x8") = number;
        register long x0 __asm__("x0") = a;
        register long x1 __asm__("x1") = b;
        register long x2 __asm__("x2") = c;
        register long x3 __asm__("x3") = d;

        __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
        return x0;
}

static _child_inline_ long raw_clone3(const void *args, size_t size, void (*entry)(void *), void *argument) {
        register long x8 __asm__("x8") = SYS_clone3;
        register long x0 __asm__("x0") = (long)args;
        register long x1 __asm__("x1") = (long)size;

        __asm__ volatile("svc #0\n\t"
                         "cbnz x0, 1f\n\t"
                         "mov x9, %[entry]\n\t"
                         "mov x0, %[argument]\n\t"
                         "mov x29, xzr\n\t"
                         "mov x30, xzr\n\t"
                         "blr x9\n\t"
                         "brk #1\n"
                         "1:"
                         : "+r"(x0)
                         : "r"(x8), "r"(x1), [entry] "r"(entry), [argument] "r"(argument)
                         : "x9", "memory");
        return x0;
}

#else

#define RAW_CLONE3 0

static inline long raw_syscall(long number, long a, long b, long c, long d) {
        long result = syscall(number, a, b, c, d);

        return result < 0 ? -errno : result;
}

#endif

#if RAW_CLONE3

/* Both kernels have it so, with or without a restorer: all zero but the handler is SIG_DFL or SIG_IGN. */
struct raw_sigaction {
        unsigned long handler, flags, restorer, mask;
};

static _child_inline_ void raw_signal(int signal, bool ignore) {
        struct raw_sigaction action;

        action.handler = ignore ? (unsigned long)SIG_IGN : (unsigned long)SIG_DFL;
        action.flags = action.restorer = action.mask = 0;
        raw_syscall(SYS_rt_sigaction, signal, (long)&action, 0, sizeof(uint64_t));
}

/* The whole mask, libc's own signals too. */
static _child_inline_ long raw_set_mask(uint64_t mask) {
        return raw_syscall(SYS_rt_sigprocmask, SIG_SETMASK, (long)&mask, 0, sizeof(mask));
}

#else

/* Default is all zero wherever the kernel looks for what. libc does not let its own signals be touched, and those are
 * ignored in what its posix_spawn starts. */
static inline void raw_signal(int number, bool ignore) {
        uint64_t zero[8] = { 0 };

        if (ignore)
                signal(number, SIG_IGN);
        else
                syscall(SYS_rt_sigaction, number, zero, NULL, _NSIG / 8);
}

static inline long raw_set_mask(uint64_t mask) {
        sigset_t set;

        sigemptyset(&set);
        for (int number = 1; number <= 64; number++)
                if (mask & UINT64_C(1) << (number - 1))
                        sigaddset(&set, number);
        return sigprocmask(SIG_SETMASK, &set, NULL) < 0 ? -errno : 0;
}

#endif
