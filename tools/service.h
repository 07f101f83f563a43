/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>

/* What a service says to its manager: sd_notify(3)'s protocol. Nothing where there is no manager. */
void service_notify(const char *state);
/* How often "WATCHDOG=1" is expected of us, halved, in microseconds; 0: it is not. */
uint64_t service_watchdog_interval(void);
