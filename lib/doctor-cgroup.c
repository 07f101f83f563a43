/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "doctor.h"

/* Cgroups: where they are mounted, which is ours, and what somebody could do about it. */

/* Is there a line of mountinfo with both, the second among the options at its end? */
static bool has_mount(const char *type, const char *option) {
        _cleanup_free_ char *text = NULL;
        if (read_whole_file_at(AT_FDCWD, "/proc/self/mountinfo", &text, NULL) < 0)
                return false;
        char *rest = text, *line;
        while ((line = strsep(&rest, "\n"))) {
                const char *at = strstr(line, type);
                if (at && strstr(at, option))
                        return true;
        }
        return false;
}

static bool is_read_only(int fd) {
        struct statvfs fs;
        return fstatvfs(fd, &fs) >= 0 && fs.f_flag & ST_RDONLY;
}

static void look_at_mount(struct doctor *doctor) {
        _cleanup_close_ int fd = -1;
        _cleanup_free_ char *prefix = NULL;
        char link[32], point[4096];
        int r = cgroup_open_root(&fd, &prefix);
        if (r < 0) {
                doctor_say(doctor, "cgroup2", CGTREE_FINDING_NOTE, NULL, "cgroup v2 is not to be had: %s",
                        r == -ENOENT ? "it is not mounted" : strerror(-r));
                return;
        }
        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        ssize_t n = readlink(link, point, sizeof(point) - 1);
        point[n < 0 ? 0 : n] = '\0';
        bool hybrid = has_mount(" - cgroup ", ""), delegating = has_mount(" - cgroup2 ", "nsdelegate");
        doctor_say(doctor, "cgroup2", is_read_only(fd) ? CGTREE_FINDING_NOTE : CGTREE_FINDING_GOOD, NULL,
                "at %s, %s%s%s", point, hybrid ? "beside cgroup v1 (hybrid)" : "alone (unified)",
                delegating ? ", nsdelegate" : "", is_read_only(fd) ? ", read-only" : "");
}

static void look_at_own(struct doctor *doctor) {
        _cleanup_free_ char *own = NULL;
        const struct home *home = doctor->owner ? &doctor->owner->home : NULL;
        int r = cgroup_path_of(0, &own);
        if (r < 0)
                doctor_say(doctor, "own_cgroup", CGTREE_FINDING_NOTE, NULL, "none in cgroup v2 (%s)", strerror(-r));
        else if (!home || home->base.fd < 0 || home->scope)
                doctor_say(doctor, "own_cgroup", CGTREE_FINDING_NOTE, NULL, "%s", own);
        else
                doctor_say(doctor, "own_cgroup", CGTREE_FINDING_GOOD, NULL, "%s; %s is ours to divide", own,
                        strcmp(own, home->base.path) == 0 ? "it" : home->base.path);
}

void doctor_look_at_cgroups(struct doctor *doctor) {
        look_at_mount(doctor);
        look_at_own(doctor);
}

/* ---- advice ------------------------------------------------------------------------------------------------------ */

static bool systemd_manages(void) {
        return faccessat(AT_FDCWD, "/run/systemd/system", F_OK, AT_SYMLINK_NOFOLLOW) >= 0;
}

/* NAME.service on the path, the innermost; malloc'd. */
static char *service_of(const char *path) {
        _cleanup_free_ char *copy = strdup(path);
        char *slash;
        while (copy && (slash = strrchr(copy, '/'))) {
                const char *type = strrchr(slash, '.');
                if (type && strcmp(type, ".service") == 0 && strncmp(slash, "/user@", 6) != 0)
                        return strdup(slash + 1);
                *slash = '\0';
        }
        return NULL;
}

static char *advise_with_systemd(const char *own) {
        _cleanup_free_ char *service = service_of(own);
        bool users = strstr(own, "/user.slice/");
        if (service)
                return format("systemctl %sedit %s\n[Service]\nDelegate=yes", users ? "--user " : "", service);
        return format("systemd-run %s--scope --property=Delegate=yes COMMAND", users ? "--user " : "");
}

static char *advise_without(const char *own, const char *point) {
        const char *path = strcmp(own, "/") == 0 ? "" : own;
        return format("as root, once: mkdir %s%s/NAME && cd %s%s/NAME\n"
                      "chown %u . cgroup.procs cgroup.threads cgroup.subtree_control && echo PID >cgroup.procs",
                point, path, point, path, (unsigned)geteuid());
}

char *doctor_advise(void) {
        _cleanup_close_ int fd = -1;
        _cleanup_free_ char *prefix = NULL, *own = NULL;
        char link[32], point[4096];
        if (cgroup_open_root(&fd, &prefix) < 0)
                return strdup(
                        has_mount(" - cgroup ", "")
                                ? "mkdir -p /sys/fs/cgroup/unified\nmount -t cgroup2 cgroup2 /sys/fs/cgroup/unified"
                                : "mount -t cgroup2 cgroup2 /sys/fs/cgroup");
        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        ssize_t n = readlink(link, point, sizeof(point) - 1);
        point[n < 0 ? 0 : n] = '\0';
        if (is_read_only(fd))
                return format("mount -o remount,rw %s", point);
        if (cgroup_path_of(0, &own) < 0)
                return NULL;
        return systemd_manages() ? advise_with_systemd(own) : advise_without(own, point);
}
