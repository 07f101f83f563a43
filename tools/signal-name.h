/* SPDX-License-Identifier: MIT */
#pragma once

/* "TERM", "SIGTERM", "term", "15", "RTMIN+1", "RTMAX". Returns the number, or -EINVAL. */
int signal_parse(const char *text);

/* "SIGTERM", "SIGRTMIN+1", or "signal 33" for what has no name. */
#define SIGNAL_TEXT_SIZE 24
const char *signal_format(int signal, char buffer[static SIGNAL_TEXT_SIZE]);
