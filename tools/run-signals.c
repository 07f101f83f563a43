/* SPDX-License-Identifier: MIT */
#include "run-signals.h"

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SIGNAL_LAST 64
/* 32 and 33 belong to the C library. */
#define REALTIME_FIRST 34

#define BIT(number) (UINT64_C(1) << ((number)-1))

static const uint64_t ending = BIT(SIGTERM) | BIT(SIGHUP) | BIT(SIGINT) | BIT(SIGQUIT);

/* What would end us by default without being a fault of ours, and what tells the command something. */
static const uint64_t passed = BIT(SIGUSR1) | BIT(SIGUSR2) | BIT(SIGWINCH) | BIT(SIGCONT) | BIT(SIGALRM) |
                               BIT(SIGVTALRM) | BIT(SIGPROF) | BIT(SIGIO) | BIT(SIGPWR) | ~(BIT(REALTIME_FIRST) - 1);

/* The kernel's, not the C library's: that one hides two signals. Only the handler is looked at, and it comes first. */
struct kernel_sigaction {
        void (*handler)(int);
        unsigned long rest[8];
};

static uint64_t ignored_signals(void) {
        struct kernel_sigaction action;
        uint64_t ignored = 0;

        for (int number = 1; number <= SIGNAL_LAST; number++)
                if (syscall(SYS_rt_sigaction, number, NULL, &action, sizeof(uint64_t)) == 0 &&
                        action.handler == SIG_IGN)
                        ignored |= BIT(number);
        return ignored;
}

int run_signals_take(struct run_signals *signals) {
        uint64_t taken, ours;

        signals->ignored = ignored_signals();
        /* What was ignored stays so (nohup); if it were blocked, it would arrive all the same. */
        taken = (ending | passed) & ~signals->ignored;
        /* In the background neither a message nor tcsetattr() may stop us: nobody would keep the timeout then. */
        ours = taken | BIT(SIGTTOU);
        if (syscall(SYS_rt_sigprocmask, SIG_SETMASK, &ours, &signals->blocked, sizeof ours) < 0)
                return -errno;

        /* Ignored, it would take the exit status of the command from us. */
        if (signals->ignored & BIT(SIGCHLD))
                signal(SIGCHLD, SIG_DFL);
        /* A message that nobody reads must not end us. */
        signal(SIGPIPE, SIG_IGN);

        signals->fd = (int)syscall(SYS_signalfd4, -1, &taken, sizeof taken, SFD_CLOEXEC | SFD_NONBLOCK);
        return signals->fd < 0 ? -errno : 0;
}

void run_signals_close(struct run_signals *signals) {
        if (signals->fd >= 0)
                close(signals->fd);
        signals->fd = -1;
}

bool run_signals_next(const struct run_signals *signals, struct signalfd_siginfo *ret_info) {
        return read(signals->fd, ret_info, sizeof *ret_info) == sizeof *ret_info;
}

bool run_signal_ends(int number) {
        return ending & BIT(number);
}

bool run_signal_is_typed(const struct signalfd_siginfo *info) {
        return info->ssi_code == SI_KERNEL && (info->ssi_signo == SIGINT || info->ssi_signo == SIGQUIT ||
                                                      info->ssi_signo == SIGWINCH || info->ssi_signo == SIGCONT);
}
