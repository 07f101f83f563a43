/* SPDX-License-Identifier: MIT */
#pragma once

/* Where the probe writes what it says. */
#define PROBE_REPORT 100
