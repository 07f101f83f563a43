/* SPDX-License-Identifier: MIT */
#pragma once

/* Ends this process by `signal`, as the command ended by it, leaving no core of its own; where that cannot be (the first
 * process of a pid namespace), with the status 128 + signal. */
_Noreturn void exit_as_signal(int signal);
