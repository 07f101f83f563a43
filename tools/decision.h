/* SPDX-License-Identifier: MIT */
#pragma once

/* What sweep and watch say of each decision: a line on stdout, or a complaint. Returns 0, or why stdout could not be written. */
int decision_print(const char *id, const char *decision, const char *reason);
