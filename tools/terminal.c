/* SPDX-License-Identifier: MIT */
#include "terminal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

void terminal_open(struct terminal *terminal) {
        /* Opens for a process with a controlling terminal only. */
        terminal->fd = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
        terminal->foreground = terminal->fd >= 0 && tcgetpgrp(terminal->fd) == getpgrp() &&
                               tcgetattr(terminal->fd, &terminal->modes) == 0;
}

void terminal_close(struct terminal *terminal) {
        if (terminal->fd >= 0)
                close(terminal->fd);
        terminal->fd = -1;
}

/* State and group from /proc/PID/stat: "PID (COMM) STATE PPID PGRP ...", where COMM may hold anything. */
static bool lives_in_group(int proc_fd, const char *pid, pid_t group) {
        char path[32], text[512], state;
        const char *rest;
        int fd, pgrp;
        ssize_t n;

        snprintf(path, sizeof path, "%.16s/stat", pid);
        fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return false;
        n = read(fd, text, sizeof text - 1);
        close(fd);
        if (n <= 0)
                return false;
        text[n] = '\0';
        rest = strrchr(text, ')');
        return rest && sscanf(rest, ") %c %*d %d", &state, &pgrp) == 2 && pgrp == group && state != 'Z' && state != 'X';
}

/* A group of zombies that nobody reaps still exists for kill(2), but will never give the terminal back. */
static bool group_lives(pid_t group) {
        struct dirent *entry;
        bool lives = false;
        DIR *proc;

        if (kill(-group, 0) < 0 && errno == ESRCH)
                return false;
        proc = opendir("/proc");
        if (!proc)
                return true;
        while (!lives && (entry = readdir(proc)))
                lives = entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
                        lives_in_group(dirfd(proc), entry->d_name, group);
        closedir(proc);
        return lives;
}

void terminal_take_back(const struct terminal *terminal) {
        pid_t group, ours = getpgrp();

        if (!terminal->foreground)
                return;
        group = tcgetpgrp(terminal->fd);
        if (group > 0 && group != ours && !group_lives(group))
                tcsetpgrp(terminal->fd, ours);
}

void terminal_restore(const struct terminal *terminal) {
        if (terminal->foreground && tcgetpgrp(terminal->fd) == getpgrp())
                tcsetattr(terminal->fd, TCSANOW, &terminal->modes);
}
