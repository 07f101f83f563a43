/* SPDX-License-Identifier: MIT */
#include "signal-name.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define SIGNAL_LAST 64

/* The first name of a number is the one that is printed. */
static const struct name {
        const char *name;
        int number;
} names[] = {
        { "HUP", SIGHUP },
        { "INT", SIGINT },
        { "QUIT", SIGQUIT },
        { "ILL", SIGILL },
        { "TRAP", SIGTRAP },
        { "ABRT", SIGABRT },
        { "IOT", SIGABRT },
        { "BUS", SIGBUS },
        { "FPE", SIGFPE },
        { "KILL", SIGKILL },
        { "USR1", SIGUSR1 },
        { "SEGV", SIGSEGV },
        { "USR2", SIGUSR2 },
        { "PIPE", SIGPIPE },
        { "ALRM", SIGALRM },
        { "TERM", SIGTERM },
#ifdef SIGSTKFLT
        { "STKFLT", SIGSTKFLT },
#endif
        { "CHLD", SIGCHLD },
        { "CLD", SIGCHLD },
        { "CONT", SIGCONT },
        { "STOP", SIGSTOP },
        { "TSTP", SIGTSTP },
        { "TTIN", SIGTTIN },
        { "TTOU", SIGTTOU },
        { "URG", SIGURG },
        { "XCPU", SIGXCPU },
        { "XFSZ", SIGXFSZ },
        { "VTALRM", SIGVTALRM },
        { "PROF", SIGPROF },
        { "WINCH", SIGWINCH },
        { "IO", SIGIO },
        { "POLL", SIGIO },
        { "PWR", SIGPWR },
        { "SYS", SIGSYS },
};

#define N_NAMES (sizeof names / sizeof names[0])

/* Two digits at most; -EINVAL for anything else. */
static int parse_number(const char *text) {
        int value = 0, n = 0;

        for (; *text >= '0' && *text <= '9' && n < 3; text++, n++)
                value = value * 10 + (*text - '0');
        return n == 0 || n > 2 || *text ? -EINVAL : value;
}

static int checked(int signal) {
        return signal >= 1 && signal <= SIGNAL_LAST ? signal : -EINVAL;
}

/* What follows "RTMIN" or "RTMAX": nothing, or a sign and a number that stays between the two. */
static int parse_realtime(const char *rest, char sign, int base) {
        int offset = 0, signal;

        if (*rest) {
                if (*rest != sign)
                        return -EINVAL;
                offset = parse_number(rest + 1);
                if (offset < 0)
                        return -EINVAL;
        }
        signal = sign == '+' ? base + offset : base - offset;
        return signal >= SIGRTMIN && signal <= SIGRTMAX ? signal : -EINVAL;
}

int signal_parse(const char *text) {
        int number = parse_number(text);

        if (number >= 0)
                return checked(number);
        if (strncasecmp(text, "SIG", 3) == 0)
                text += 3;
        if (strncasecmp(text, "RTMIN", 5) == 0)
                return parse_realtime(text + 5, '+', SIGRTMIN);
        if (strncasecmp(text, "RTMAX", 5) == 0)
                return parse_realtime(text + 5, '-', SIGRTMAX);
        for (size_t i = 0; i < N_NAMES; i++)
                if (strcasecmp(text, names[i].name) == 0)
                        return names[i].number;
        return -EINVAL;
}

const char *signal_format(int signal, char buffer[static SIGNAL_TEXT_SIZE]) {
        for (size_t i = 0; i < N_NAMES; i++)
                if (names[i].number == signal) {
                        snprintf(buffer, SIGNAL_TEXT_SIZE, "SIG%s", names[i].name);
                        return buffer;
                }
        if (signal == SIGRTMIN)
                snprintf(buffer, SIGNAL_TEXT_SIZE, "SIGRTMIN");
        else if (signal > SIGRTMIN && signal <= SIGRTMAX)
                snprintf(buffer, SIGNAL_TEXT_SIZE, "SIGRTMIN+%d", signal - SIGRTMIN);
        else
                snprintf(buffer, SIGNAL_TEXT_SIZE, "signal %d", signal);
        return buffer;
}
