/* SPDX-License-Identifier: MIT */
#include "cgroup-limits.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cgroup-dir.h"
#include "process.h"

static const struct {
        const char *name, *controller, *file;
} kinds[N_LIMITS] = {
        [CGTREE_LIMIT_MEMORY] = { "memory", "memory", "memory.max" },
        [CGTREE_LIMIT_TASKS] = { "tasks", "pids", "pids.max" },
        [CGTREE_LIMIT_CPU] = { "cpu", "cpu", "cpu.max" },
};

#define CPU_PERIOD_USEC      UINT64_C(100000)
#define CPU_LONG_PERIOD_USEC UINT64_C(1000000) /* the kernel's longest; its shortest quota is a millisecond */
#define CPU_QUOTA_MIN_USEC   UINT64_C(1000)
#define MOVE_ROUNDS          10 /* who is moved may have forked before */

#define refuse(ret_reason, error, ...) (*(ret_reason) = format(__VA_ARGS__), (error))

unsigned limits_mask(const struct limits *limits) {
        unsigned mask = 0;
        for (unsigned i = 0; i < N_LIMITS; i++)
                mask |= limits->values[i] > 0 ? 1U << i : 0;
        return mask;
}

char *limits_name(unsigned mask) {
        char *text = strdup("");
        for (unsigned i = 0; text && i < N_LIMITS; i++) {
                if (!(mask & 1U << i))
                        continue;
                const char *joint = !*text ? "" : mask >> (i + 1) ? ", " : " and ";
                char *longer = format("%s%s%s", text, joint, kinds[i].name);
                free(text);
                text = longer;
        }
        return text;
}

/* ---- controllers ------------------------------------------------------------------------------------------------ */

static bool has_word(const char *list, const char *word) {
        size_t length = strlen(word);
        for (const char *at = list; (at = strstr(at, word)); at += length)
                if ((at == list || strchr(" ,:", at[-1])) && strchr(" ,:\n", at[length]))
                        return true;
        return false;
}

/* The controllers in a file of names, as a mask. */
static int read_mask(const struct cgroup *cgroup, const char *file, unsigned *ret_mask) {
        _cleanup_free_ char *text = NULL;
        int r = cgroup_dir_read(cgroup->fd, file, &text);
        if (r < 0)
                return r;
        *ret_mask = 0;
        for (unsigned i = 0; i < N_LIMITS; i++)
                *ret_mask |= has_word(text, kinds[i].controller) ? 1U << i : 0;
        return 0;
}

int limits_available(const struct cgroup *cgroup, unsigned *ret_mask) {
        return read_mask(cgroup, "cgroup.controllers", ret_mask);
}

/* The rule of members does not hold for the root, which alone has no cgroup.events. */
static bool is_root(const struct cgroup *cgroup) {
        return faccessat(cgroup->fd, "cgroup.events", F_OK, 0) < 0 && errno == ENOENT;
}

/* A controller that a v1 hierarchy has is not to be had in v2. */
static bool is_in_v1(const char *controller) {
        _cleanup_free_ char *text = NULL;
        if (read_whole_file_at(AT_FDCWD, "/proc/self/cgroup", &text, NULL) < 0)
                return false;
        char *rest = text, *line;
        while ((line = strsep(&rest, "\n")))
                if (strncmp(line, "0:", 2) != 0 && has_word(line, controller))
                        return true;
        return false;
}

static int refuse_missing(const struct cgroup *cgroup, unsigned missing, char **ret_reason) {
        const char *controller = kinds[__builtin_ctz(missing)].controller;
        const char *why = is_in_v1(controller) ? "a cgroup v1 hierarchy has it here"
                          : is_root(cgroup)    ? "this kernel does not offer it"
                                               : "it is not enabled for it in the cgroup above";
        return refuse(ret_reason, -EOPNOTSUPP, "cgroup %s has no '%s' controller: %s", cgroup->path, controller, why);
}

/* One process that is a member of the cgroup itself; 0: there is none. */
static pid_t find_member(const struct cgroup *cgroup) {
        _cleanup_free_ char *text = NULL;
        if (cgroup_dir_read(cgroup->fd, "cgroup.procs", &text) < 0 || !*text)
                return 0;
        return atoi(text) > 0 ? atoi(text) : -1; /* 0: of another pid namespace */
}

static int refuse_member(const struct cgroup *cgroup, pid_t member, char **ret_reason) {
        _cleanup_free_ char *name = member > 0 ? process_describe(member) : NULL;
        return refuse(ret_reason, -EBUSY,
                "cgroup %s has processes of its own (%s), so that the kernel lets nothing below it be limited",
                cgroup->path, name ? name : "not visible from here");
}

static int write_controllers(const struct cgroup *cgroup, char sign, unsigned mask) {
        char text[64] = "";
        for (unsigned i = 0; i < N_LIMITS; i++)
                if (mask & 1U << i)
                        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%c%s ", sign, kinds[i].controller);
        return cgroup_dir_write(cgroup->fd, "cgroup.subtree_control", text);
}

int limits_enable(const struct cgroup *cgroup, unsigned mask, unsigned *ret_enabled, char **ret_reason) {
        unsigned there, enabled;
        int r = read_mask(cgroup, "cgroup.controllers", &there);
        if (r >= 0)
                r = read_mask(cgroup, "cgroup.subtree_control", &enabled);
        if (r < 0)
                return refuse(
                        ret_reason, r, "the controllers of cgroup %s cannot be read: %s", cgroup->path, strerror(-r));
        if (mask & ~there)
                return refuse_missing(cgroup, mask & ~there, ret_reason);
        unsigned wanted = mask & ~enabled;
        *ret_enabled = 0;
        if (wanted == 0)
                return 0;

        /* Asked before and after: with pids and cpu alone the kernel would take it for the beginning of a threaded subtree, in
         * which no process can live below. */
        bool root = is_root(cgroup);
        pid_t member = root ? 0 : find_member(cgroup);
        if (member == 0) {
                r = write_controllers(cgroup, '+', wanted);
                if (r < 0 && r != -EBUSY)
                        return refuse(ret_reason, r, "controllers cannot be enabled in cgroup %s: %s", cgroup->path,
                                strerror(-r));
                member = root ? 0 : find_member(cgroup);
                if (r == -EBUSY && member == 0)
                        return refuse(
                                ret_reason, r, "controllers cannot be enabled in cgroup %s: it is busy", cgroup->path);
        }
        if (member != 0) {
                limits_disable(cgroup, wanted);
                return refuse_member(cgroup, member, ret_reason);
        }
        *ret_enabled = wanted;
        return 0;
}

void limits_disable(const struct cgroup *cgroup, unsigned mask) {
        /* One by one: the kernel refuses what a child passes on in its turn. */
        for (unsigned i = 0; i < N_LIMITS; i++)
                if (mask & 1U << i)
                        (void)write_controllers(cgroup, '-', 1U << i);
}

/* ---- values ----------------------------------------------------------------------------------------------------- */

static void print_value(unsigned kind, uint64_t value, char *text, size_t size) {
        if (kind != CGTREE_LIMIT_CPU) {
                snprintf(text, size, "%" PRIu64, value);
                return;
        }
        uint64_t period = CPU_PERIOD_USEC;
        if (value * period / 1000 < CPU_QUOTA_MIN_USEC)
                period = CPU_LONG_PERIOD_USEC;
        snprintf(text, size, "%" PRIu64 " %" PRIu64, value * (period / 1000), period);
}

static int set_file(const struct cgroup *cgroup, const char *file, const char *text, char **ret_reason) {
        int r = cgroup_dir_write(cgroup->fd, file, text);
        if (r < 0)
                return refuse(ret_reason, r, "%s of cgroup %s cannot be set to %s: %s", file, cgroup->path, text,
                        strerror(-r));
        return 0;
}

int limits_set(const struct cgroup *cgroup, const struct limits *limits, unsigned enabled, char **ret_reason) {
        char text[64];
        int r = 0;
        for (unsigned i = 0; r >= 0 && i < N_LIMITS; i++) {
                if (limits->values[i] == 0)
                        continue;
                print_value(i, limits->values[i], text, sizeof(text));
                r = set_file(cgroup, kinds[i].file, text, ret_reason);
        }
        if (r >= 0 && enabled & 1U << CGTREE_LIMIT_MEMORY)
                r = set_file(cgroup, "memory.oom.group", "1", ret_reason);
        /* What does not fit is to end the tree, not to be written to disk. A kernel without swap has no such file. */
        if (r >= 0 && limits->values[CGTREE_LIMIT_MEMORY] > 0 && faccessat(cgroup->fd, "memory.swap.max", F_OK, 0) >= 0)
                r = set_file(cgroup, "memory.swap.max", "0", ret_reason);
        return r;
}

int limits_check(const struct cgroup *cgroup, const struct limits *limits, char **ret_reason) {
        for (unsigned i = 0; i < N_LIMITS; i++) {
                _cleanup_free_ char *text = NULL;
                if (limits->values[i] == 0)
                        continue;
                int r = cgroup_dir_read(cgroup->fd, kinds[i].file, &text);
                if (r >= 0 && strncmp(text, "max", 3) == 0)
                        r = -ENODATA;
                if (r < 0)
                        return refuse(ret_reason, -EOPNOTSUPP,
                                "cgroup %s is not limited in %s: its manager has not got the '%s' controller",
                                cgroup->path, kinds[i].name, kinds[i].controller);
        }
        return 0;
}

/* Those below count for themselves: an end there is theirs. */
int limits_out_of_memory(const struct cgroup *cgroup) {
        _cleanup_free_ char *text = NULL;
        int r = cgroup_dir_read(cgroup->fd, "memory.events.local", &text);
        if (r < 0)
                return r;
        const char *count = strstr(text, "oom_kill ");
        return count && strtoull(count + strlen("oom_kill "), NULL, 10) > 0;
}

/* ---- members ---------------------------------------------------------------------------------------------------- */

static int move_one(const struct cgroup *from, const struct cgroup *to, pid_t pid, char **ret_reason) {
        char text[16];
        snprintf(text, sizeof(text), "%d", (int)pid);
        int r = cgroup_dir_write(to->fd, "cgroup.procs", text);
        if (r < 0 && r != -ESRCH)
                return refuse(ret_reason, r, "process %d cannot be moved from cgroup %s to %s: %s", (int)pid,
                        from->path, to->path, strerror(-r));
        return 0;
}

static bool is_among(pid_t pid, const pid_t *pids, size_t n) {
        for (size_t i = 0; i < n; i++)
                if (pids[i] == pid)
                        return true;
        return false;
}

bool limits_has_others(const struct cgroup *cgroup, pid_t other) {
        _cleanup_free_ char *members = NULL;
        if (cgroup_dir_read(cgroup->fd, "cgroup.procs", &members) < 0)
                return true;
        for (const char *line = members; *line; line += strcspn(line, "\n") + 1)
                if (atoi(line) != getpid() && (other == 0 || atoi(line) != other))
                        return true;
        return false;
}

/* All or none: a stranger among them, and nobody is moved. */
static int move_all(const struct cgroup *from, const struct cgroup *to, const char *members, const pid_t *pids,
        size_t n, char **ret_reason) {
        for (int move = 0; move <= 1; move++)
                for (const char *line = members; *line; line += strcspn(line, "\n") + 1) {
                        pid_t pid = atoi(line);
                        int r = 0;
                        if (!is_among(pid, pids, n))
                                return refuse_member(from, pid, ret_reason);
                        if (move)
                                r = move_one(from, to, pid, ret_reason);
                        if (r < 0)
                                return r;
                }
        return 0;
}

int limits_move_members(
        const struct cgroup *from, const struct cgroup *to, const pid_t *pids, size_t n, char **ret_reason) {
        for (int round = 0; round < MOVE_ROUNDS; round++) {
                _cleanup_free_ char *members = NULL;
                int r = cgroup_dir_read(from->fd, "cgroup.procs", &members);
                if (r < 0)
                        return refuse(
                                ret_reason, r, "the members of cgroup %s cannot be read: %s", from->path, strerror(-r));
                if (!*members)
                        return 0;
                r = move_all(from, to, members, pids, n, ret_reason);
                if (r < 0)
                        return r;
        }
        return refuse(ret_reason, -EBUSY, "cgroup %s cannot be left", from->path);
}
