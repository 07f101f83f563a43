/* SPDX-License-Identifier: MIT */
#include "base.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cgroup-limits.h"

#define NEST_HELP "set Delegate=yes on its unit, or CGTREE_BASE to a cgroup of yours"

/* Sets the reason and hands the error on. */
#define refuse(ret_reason, error, ...) (*(ret_reason) = format(__VA_ARGS__), (error))

static bool has_xattr(const struct cgroup *cgroup, const char *name, const char *value) {
        char buffer[64];
        return cgroup_get_xattr(cgroup, name, buffer, sizeof(buffer)) >= 0 && (!value || strcmp(buffer, value) == 0);
}

/* A tree of cgtree's own, or a unit whose manager has handed its cgroup over. User managers before 256 set no xattr. */
static bool is_handed_over(const struct cgroup *cgroup) {
        return has_xattr(cgroup, CGROUP_XATTR_ID, NULL) || has_xattr(cgroup, "user.delegate", "1") ||
               has_xattr(cgroup, "trusted.delegate", "1");
}

/* A unit's own cgroup, by the name that systemd gives it. */
static bool is_unit(const char *path) {
        static const char *const types[] = { ".service", ".scope", ".slice", ".socket", ".mount", ".swap" };
        const char *type = strrchr(path, '.');
        for (size_t i = 0; type && i < sizeof(types) / sizeof(types[0]); i++)
                if (strcmp(type, types[i]) == 0)
                        return true;
        return false;
}

/* Ours to divide: what holds for a cgroup holds for everything below it, up to the next unit. What was handed over beyond that
 * went to another manager (user@UID.service to the user's), who has not handed on the unit that we are in. */
static bool lies_in_ours(const char *path) {
        _cleanup_free_ char *ancestor = strdup(path);
        while (ancestor && ancestor[0]) {
                struct cgroup cgroup = CGROUP_NONE;
                bool ours = cgroup_open(ancestor, &cgroup) >= 0 && is_handed_over(&cgroup);
                cgroup_done(&cgroup);
                if (ours || is_unit(ancestor))
                        return ours;
                *strrchr(ancestor, '/') = '\0';
        }
        return false;
}

const char *base_find_unit(const char *path, size_t *ret_length) {
        _cleanup_free_ char *ancestor = strdup(path);
        while (ancestor && ancestor[0]) {
                char *last = strrchr(ancestor, '/');
                if (is_unit(ancestor)) {
                        *ret_length = strlen(last + 1);
                        return path + (last + 1 - ancestor);
                }
                *last = '\0';
        }
        return NULL;
}

bool base_is_in_tree(const char *path) {
        _cleanup_free_ char *ancestor = strdup(path);
        while (ancestor && ancestor[0]) {
                struct cgroup cgroup = CGROUP_NONE;
                bool in = cgroup_open(ancestor, &cgroup) >= 0 && has_xattr(&cgroup, CGROUP_XATTR_ID, NULL);
                cgroup_done(&cgroup);
                if (in)
                        return true;
                *strrchr(ancestor, '/') = '\0';
        }
        return false;
}

bool base_is_managed(void) {
        return faccessat(AT_FDCWD, "/run/systemd/system", F_OK, AT_SYMLINK_NOFOLLOW) >= 0;
}

/* Birth and moves need write access to cgroup.procs of the nearest common ancestor, too (cgroup_attach_permissions). */
int base_check_way(const char *b, const char *a, char **ret_reason) {
        size_t common = 0;
        for (size_t i = 0; a[i] && a[i] == b[i]; i++)
                if (a[i + 1] == '/' || a[i + 1] == '\0')
                        common = (b[i + 1] == '/' || b[i + 1] == '\0') ? i + 1 : common;
        _cleanup_free_ char *path = common > 1 ? strndup(a, common) : strdup("/");
        struct cgroup ancestor = CGROUP_NONE;
        int r = path ? cgroup_open(path, &ancestor) : -ENOMEM;
        if (r >= 0 && faccessat(ancestor.fd, "cgroup.procs", W_OK, AT_EACCESS) < 0)
                r = -errno;
        cgroup_done(&ancestor);
        if (r < 0)
                return refuse(ret_reason, r,
                        "processes cannot be put into %s from %s: %s/cgroup.procs is not writable for us (%s)", b, a,
                        path ? path : "?", strerror(-r));
        return 0;
}

static int open_writable(const char *path, struct cgroup *ret_base, char **ret_reason) {
        struct cgroup base = CGROUP_NONE;
        int r = cgroup_open(path, &base);
        if (r < 0)
                return refuse(ret_reason, r, "cgroup %s cannot be opened: %s", path, strerror(-r));
        if (faccessat(base.fd, ".", W_OK | X_OK, AT_EACCESS) < 0 ||
                faccessat(base.fd, "cgroup.procs", W_OK, AT_EACCESS) < 0) {
                r = -errno;
                cgroup_done(&base);
                if (r == -EROFS)
                        return refuse(ret_reason, r, "the cgroup filesystem is mounted read-only");
                return refuse(ret_reason, r, "cgroup %s is not writable for us (%s): " NEST_HELP, path, strerror(-r));
        }
        *ret_base = base;
        return 0;
}

int base_open(const char *wanted, struct cgroup *ret_base, char **ret_reason) {
        _cleanup_free_ char *own = NULL;
        int r = cgroup_path_of(0, &own);
        if (r == -ENODATA)
                return refuse(ret_reason, r, "this system has no cgroup v2");
        if (r < 0)
                return refuse(ret_reason, r, "our own cgroup cannot be told: %s", strerror(-r));

        if (wanted && strcmp(wanted, "self") != 0) {
                if (wanted[0] != '/')
                        return refuse(ret_reason, -EINVAL, "CGTREE_BASE must be `self` or begin with '/': %s", wanted);
                r = base_check_way(wanted, own, ret_reason);
                return r < 0 ? r : open_writable(wanted, ret_base, ret_reason);
        }
        if (!wanted && base_is_managed() && !lies_in_ours(own))
                return refuse(ret_reason, -EOPNOTSUPP, "cgroup %s is systemd's and not delegated: " NEST_HELP, own);
        return open_writable(own, ret_base, ret_reason);
}

/* One up, if that was handed over together with it. */
static bool go_up(struct cgroup *cgroup) {
        _cleanup_free_ char *path = strdup(cgroup->path), *reason = NULL;
        struct cgroup parent = CGROUP_NONE;
        if (!path || is_handed_over(cgroup) || is_unit(path))
                return false;
        *strrchr(path, '/') = '\0';
        if (!lies_in_ours(path) || open_writable(path, &parent, &reason) < 0)
                return false;
        cgroup_done(cgroup);
        *cgroup = parent;
        return true;
}

void base_make_room(struct cgroup *base) {
        struct cgroup room = CGROUP_NONE;
        if (cgroup_open(base->path, &room) < 0)
                return;
        while (limits_has_others(&room, 0))
                if (!go_up(&room)) {
                        cgroup_done(&room);
                        return;
                }
        cgroup_done(base);
        *base = room;
}
