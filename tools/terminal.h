/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <termios.h>

/* Our controlling terminal, as it was at the start. The caller keeps SIGTTOU blocked: nothing here may stop us. */
struct terminal {
        int fd;          /* -1: there is none */
        bool foreground; /* our group had it at the start */
        struct termios modes;
};

void terminal_open(struct terminal *terminal);
void terminal_close(struct terminal *terminal);

/* After the tree is gone: makes our group the foreground one again if it was and the present one has no living member. */
void terminal_take_back(const struct terminal *terminal);
/* Puts the modes back, if our group is the foreground one, now as at the start. */
void terminal_restore(const struct terminal *terminal);
