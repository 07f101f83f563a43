/* SPDX-License-Identifier: MIT */
#include "service.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* One datagram: libsystemd for this alone would cost more than all the rest of us. */
void service_notify(const char *state) {
        const char *path = getenv("NOTIFY_SOCKET");
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        size_t length;
        int fd;

        if (!path || (path[0] != '/' && path[0] != '@') || strlen(path) >= sizeof address.sun_path)
                return;
        length = strlen(path);
        memcpy(address.sun_path, path, length);
        if (path[0] == '@')
                address.sun_path[0] = '\0';
        fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
                return;
        (void)sendto(fd, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *)&address,
                (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length));
        close(fd);
}

uint64_t service_watchdog_interval(void) {
        const char *interval = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");

        if (!interval || (pid && strtoull(pid, NULL, 10) != (unsigned long long)getpid()))
                return 0;
        return strtoull(interval, NULL, 10) / 2;
}
