/* SPDX-License-Identifier: MIT */
#pragma once

#include <stddef.h>
#include <sys/types.h>

/* Starts one of our own small executables: everything blocked (no handler of ours can run in it, and what is sent to it
 * waits), the descriptors `fds` under the numbers that they have (negative ones are skipped), all else as exec leaves it.
 * 0 or negative errno, that of the exec too. */
int stub_spawn(const char *path, char *const argv[], char *const envp[], const int fds[], size_t n_fds, pid_t *ret_pid);
