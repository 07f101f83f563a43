/* SPDX-License-Identifier: MIT */
#include "reaper-terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "lineage.h"

/* Opened when it is needed: held open it would keep a pseudoterminal's other end from seeing the hangup. SIGTTOU is
 * ignored, so a background group may hand it about. */
static int open_terminal(void) {
        return open("/dev/tty", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
}

void reaper_terminal_note(struct reaper_terminal *terminal, pid_t root) {
        _cleanup_close_ int fd = terminal->wanted ? open_terminal() : -1;

        terminal->root = root;
        terminal->foreground_group = root;
        terminal->given = fd >= 0 && tcgetpgrp(fd) == terminal->owner_group;
}

/* A shell as root gives the terminal to groups of its own. Whose group it is else (the caller's shell, which took it
 * while all of us were stopped) keeps it. */
static bool is_group_of_tree(const struct reaper_terminal *terminal, pid_t group) {
        _cleanup_free_ pid_t *pids = NULL;
        size_t n = 0;

        if (group == terminal->root || (kill(-group, 0) < 0 && errno == ESRCH))
                return true;
        if (lineage_descendants(getpid(), &pids, &n) < 0)
                return false;
        for (size_t i = 0; i < n; i++)
                if (getpgid(pids[i]) == group)
                        return true;
        return false;
}

void reaper_terminal_hand_back(struct reaper_terminal *terminal) {
        _cleanup_close_ int fd = terminal->given ? open_terminal() : -1;
        pid_t group = fd < 0 ? -1 : tcgetpgrp(fd);

        terminal->given = false;
        if (group <= 1 || group == terminal->owner_group || !is_group_of_tree(terminal, group))
                return;
        terminal->foreground_group = group;
        (void)tcsetpgrp(fd, terminal->owner_group);
}

/* Only what the owner's group has can be given. */
bool reaper_terminal_give(struct reaper_terminal *terminal) {
        _cleanup_close_ int fd = open_terminal();

        if (fd < 0 || tcgetpgrp(fd) != terminal->owner_group || tcsetpgrp(fd, terminal->foreground_group) < 0)
                return false;
        terminal->given = true;
        return true;
}
