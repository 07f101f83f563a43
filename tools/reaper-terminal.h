/* SPDX-License-Identifier: MIT */
#pragma once

/* The terminal between the owner's process group and the tree's: who has it, who gets it back. Called by the reaper, whose
 * group is never the foreground one. */

#include <stdbool.h>
#include <sys/types.h>

struct reaper_terminal {
        pid_t owner_group, root;
        bool wanted;            /* by the root: at once, or since it asked for it */
        bool given;             /* the root took it from the owner's group */
        pid_t foreground_group; /* which group of the tree has it, or had it when it was stopped */
};

/* Before the root may go. */
void reaper_terminal_note(struct reaper_terminal *terminal, pid_t root);
/* To the tree, if the owner's group has it. */
bool reaper_terminal_give(struct reaper_terminal *terminal);
/* To the owner's group, if the tree has it. */
void reaper_terminal_hand_back(struct reaper_terminal *terminal);
