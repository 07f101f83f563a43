/* SPDX-License-Identifier: MIT */
#include "lineage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PASSES_MAX  8
#define GENERATIONS 32768 /* more parents than this one does not have: the reading went astray */

struct pid_list {
        pid_t *pids;
        size_t n, allocated;
};

static int pid_list_append(void *userdata, pid_t pid) {
        struct pid_list *list = userdata;

        if (list->n == list->allocated) {
                size_t allocated = list->allocated ? list->allocated * 2 : 64;
                pid_t *pids = reallocarray(list->pids, allocated, sizeof(*pids));

                if (!pids)
                        return -ENOMEM;
                list->pids = pids;
                list->allocated = allocated;
        }
        list->pids[list->n++] = pid;
        return 0;
}

/* Where pid is, or would have to be. */
static size_t set_position(const struct lineage_set *set, pid_t pid) {
        size_t low = 0, high = set->n;

        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (set->members[middle].pid < pid)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

static const struct lineage_member *set_find(const struct lineage_set *set, pid_t pid) {
        size_t position = set_position(set, pid);

        return position < set->n && set->members[position].pid == pid ? set->members + position : NULL;
}

bool lineage_set_has(const struct lineage_set *set, pid_t pid) {
        return set_find(set, pid);
}

int lineage_set_add(struct lineage_set *set, pid_t pid, uint64_t start_time) {
        size_t position = set_position(set, pid);

        if (position < set->n && set->members[position].pid == pid)
                return 0;
        if (set->n == set->allocated) {
                size_t allocated = set->allocated ? set->allocated * 2 : 64;
                struct lineage_member *members = reallocarray(set->members, allocated, sizeof(*members));

                if (!members)
                        return -ENOMEM;
                set->members = members;
                set->allocated = allocated;
        }
        memmove(set->members + position + 1, set->members + position, (set->n - position) * sizeof(*set->members));
        set->members[position] = (struct lineage_member){ .pid = pid, .start_time = start_time };
        set->n++;
        return 0;
}

void lineage_set_done(struct lineage_set *set) {
        free(set->members);
        *set = (struct lineage_set){ 0 };
}

/* Numbers of a /proc that belongs to another pid namespace would be taken for other processes' here. */
static int check_proc(void) {
        char target[32];
        ssize_t n = readlink("/proc/self", target, sizeof(target) - 1);
        uint64_t pid;

        if (n < 0)
                return errno == ENOENT ? -EXDEV : -errno;
        target[n] = '\0';
        return parse_u64(target, &pid) == 0 && pid == (uint64_t)getpid() ? 0 : -EXDEV;
}

static bool have_children_files(void) {
        char path[64];

        snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
        return access(path, F_OK) == 0;
}

/* Each number is handed on as soon as it is read: a process that is to be caught may live for microseconds only. */
static int read_children_file(const char *path, lineage_fn fn, void *userdata) {
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        char text[4096];
        pid_t pid = 0;

        if (fd < 0)
                return -errno;
        for (;;) {
                ssize_t n = read(fd, text, sizeof(text));

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return n == 0 || errno == ESRCH ? 0 : -errno;
                for (ssize_t i = 0; i < n; i++) {
                        int r;

                        if (text[i] >= '0' && text[i] <= '9') {
                                pid = pid * 10 + (text[i] - '0');
                                continue;
                        }
                        r = pid > 1 ? fn(userdata, pid) : 0; /* 0: of a pid namespace that we do not see */
                        if (r < 0)
                                return r;
                        pid = 0;
                }
        }
}

/* Children belong to the thread that forked them; most processes have one thread, so the directory is rarely read. */
static int children_of_threads(pid_t parent, const char *directory, lineage_fn fn, void *userdata) {
        _cleanup_dir_ DIR *tasks = NULL;
        struct dirent *entry;
        struct stat st;

        if (stat(directory, &st) < 0 || st.st_nlink <= 3)
                return 0;
        tasks = opendir(directory);
        while (tasks && (entry = readdir(tasks))) {
                char path[64];
                pid_t tid;
                int r;

                if (parse_pid(entry->d_name, &tid) < 0 || tid == parent)
                        continue;
                snprintf(path, sizeof(path), "%s/%d/children", directory, (int)tid);
                r = read_children_file(path, fn, userdata);
                if (r < 0 && r != -ENOENT)
                        return r;
        }
        return 0;
}

static int children_by_files(pid_t parent, lineage_fn fn, void *userdata) {
        char directory[32], path[64];
        int r;

        snprintf(directory, sizeof(directory), "/proc/%d/task", (int)parent);
        snprintf(path, sizeof(path), "%s/%d/children", directory, (int)parent);
        r = read_children_file(path, fn, userdata);
        if (r == -ENOENT)
                return have_children_files() ? 0 : -EOPNOTSUPP;
        return r < 0 ? r : children_of_threads(parent, directory, fn, userdata);
}

/* Names are taken from /proc one by one: what is said of a process is read right after it was listed, and a child that
 * it forked before that is listed after it. Room for one pid; more for the longer names at the top, where that is
 * refused. */
#define SCAN_ONE  47
#define SCAN_MORE 512

union scan_buffer {
        struct dirent64 entry;
        char bytes[SCAN_MORE];
};

static ssize_t scan_next(int proc, union scan_buffer *buffer) {
        ssize_t n = getdents64(proc, buffer, SCAN_ONE);

        if (n < 0 && errno == EINVAL)
                n = getdents64(proc, buffer, SCAN_MORE);
        return n < 0 ? -errno : n;
}

int lineage_each_process(lineage_fn fn, void *userdata) {
        _cleanup_close_ int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        union scan_buffer buffer;
        int r = check_proc();
        ssize_t n;

        if (r < 0)
                return r;
        if (proc < 0)
                return -errno;
        while ((n = scan_next(proc, &buffer)) > 0) {
                for (ssize_t at = 0; at < n;) {
                        const struct dirent64 *entry = (const void *)(buffer.bytes + at);
                        pid_t pid;

                        at += entry->d_reclen;
                        r = parse_pid(entry->d_name, &pid) == 0 ? fn(userdata, pid) : 0;
                        if (r < 0)
                                return r;
                }
        }
        return (int)n;
}

struct children_scan {
        pid_t parent;
        lineage_fn fn;
        void *userdata;
};

static int on_scanned_child(void *userdata, pid_t pid) {
        const struct children_scan *scan = userdata;
        struct process_stat stat;

        return process_read_stat(pid, &stat) == 0 && stat.parent == scan->parent ? scan->fn(scan->userdata, pid) : 0;
}

int lineage_children(pid_t parent, lineage_fn fn, void *userdata) {
        struct children_scan scan = { .parent = parent, .fn = fn, .userdata = userdata };
        int r = check_proc();

        if (r < 0)
                return r;
        r = children_by_files(parent, fn, userdata);
        return r == -EOPNOTSUPP ? lineage_each_process(on_scanned_child, &scan) : r;
}

/* A process that moved to another parent during the walk is met twice; it counts once. */
struct descent {
        struct pid_list found;
        struct lineage_set met;
};

static int on_descendant(void *userdata, pid_t pid) {
        struct descent *descent = userdata;
        int r;

        if (lineage_set_has(&descent->met, pid))
                return 0;
        r = lineage_set_add(&descent->met, pid, 0);
        return r < 0 ? r : pid_list_append(&descent->found, pid);
}

static int descend_by_files(pid_t ancestor, struct descent *descent) {
        int r = children_by_files(ancestor, on_descendant, descent);

        for (size_t i = 0; r >= 0 && i < descent->found.n; i++)
                r = children_by_files(descent->found.pids[i], on_descendant, descent);
        return r;
}

struct family {
        struct pid_list pids, parents;
};

static int on_scanned(void *userdata, pid_t pid) {
        struct family *family = userdata;
        struct process_stat stat;
        int r;

        if (process_read_stat(pid, &stat) < 0)
                return 0;
        r = pid_list_append(&family->pids, pid);
        return r < 0 ? r : pid_list_append(&family->parents, stat.parent);
}

static int descend_by_scan(pid_t ancestor, struct descent *descent) {
        struct family family = { 0 };
        int r = lineage_each_process(on_scanned, &family);
        bool more = true;

        /* A generation or more in each round: whose parent is known, is known. */
        while (r >= 0 && more) {
                more = false;
                for (size_t i = 0; r >= 0 && i < family.pids.n; i++) {
                        pid_t parent = family.parents.pids[i];

                        if ((parent != ancestor && !lineage_set_has(&descent->met, parent)) ||
                                lineage_set_has(&descent->met, family.pids.pids[i]))
                                continue;
                        r = on_descendant(descent, family.pids.pids[i]);
                        more = true;
                }
        }
        free(family.pids.pids);
        free(family.parents.pids);
        return r;
}

static int descend(pid_t ancestor, int (*way)(pid_t, struct descent *), pid_t **ret_pids, size_t *ret_n) {
        struct descent descent = { 0 };
        int r = check_proc();

        /* Itself counts as met: a stale parent link must not lead around in a circle. */
        if (r >= 0)
                r = lineage_set_add(&descent.met, ancestor, 0);
        if (r >= 0)
                r = way(ancestor, &descent);
        lineage_set_done(&descent.met);
        if (r < 0) {
                free(descent.found.pids);
                return r;
        }
        *ret_pids = descent.found.pids;
        *ret_n = descent.found.n;
        return 0;
}

int lineage_descendants_by_children(pid_t ancestor, pid_t **ret_pids, size_t *ret_n) {
        return descend(ancestor, descend_by_files, ret_pids, ret_n);
}

int lineage_descendants_by_scan(pid_t ancestor, pid_t **ret_pids, size_t *ret_n) {
        return descend(ancestor, descend_by_scan, ret_pids, ret_n);
}

int lineage_descendants(pid_t ancestor, pid_t **ret_pids, size_t *ret_n) {
        int r = lineage_descendants_by_children(ancestor, ret_pids, ret_n);

        return r == -EOPNOTSUPP ? lineage_descendants_by_scan(ancestor, ret_pids, ret_n) : r;
}

static int parent_of(pid_t pid, pid_t *ret_parent, uint64_t *ret_start_time) {
        struct process_stat stat;
        int r = process_read_stat(pid, &stat);

        if (r < 0)
                return r;
        *ret_parent = stat.parent;
        *ret_start_time = stat.start_time;
        return 0;
}

/* Up from pid to the ancestor, or to one that is proven already (whose number, if reused since, would not have its
 * start time). A number that stays the parent's while that parent is looked at was not reused in between: an orphan is
 * given to another process, and that one had its number before. */
static int prove(pid_t ancestor, pid_t pid, const struct lineage_set *proven, uint64_t *ret_start_time) {
        uint64_t start_time, parent_start_time, ignored;
        pid_t parent, grandparent, again;

        if (parent_of(pid, &parent, &start_time) < 0)
                return -ESRCH;
        *ret_start_time = start_time;
        for (int i = 0; i < GENERATIONS && parent > 1; i++) {
                const struct lineage_member *member = set_find(proven, parent);

                if (parent == ancestor)
                        return 0;
                if (parent_of(parent, &grandparent, &parent_start_time) < 0)
                        return -ESRCH;
                if (member && member->start_time == parent_start_time)
                        return 0;
                if (parent_of(pid, &again, &ignored) < 0 || again != parent)
                        return -ESRCH;
                pid = parent;
                parent = grandparent;
        }
        return -ESRCH;
}

/* The pidfd alone, without the identity: a pass has no use for that, and it costs as much as all the rest. */
static int pin(pid_t ancestor, pid_t pid, const struct lineage_set *proven, struct process *ret_process) {
        _cleanup_close_ int pidfd = pidfd_pin(pid);
        struct process_identity identity = { .pid = pid };
        int r;

        if (pidfd < 0)
                return pidfd;
        r = prove(ancestor, pid, proven, &identity.start_time);
        if (r < 0)
                return r;
        *ret_process = (struct process){ .identity = identity, .pidfd = take_fd(&pidfd) };
        return 0;
}

int lineage_pin_below(pid_t ancestor, pid_t pid, const struct lineage_set *proven, struct process *ret_process) {
        int r = check_proc();

        return r < 0 ? r : pin(ancestor, pid, proven, ret_process);
}

int lineage_pin(pid_t ancestor, pid_t pid, struct process *ret_process) {
        const struct lineage_set nobody = { 0 };

        return lineage_pin_below(ancestor, pid, &nobody, ret_process);
}

int lineage_signal_new(pid_t ancestor, int signal, struct lineage_set *seen) {
        _cleanup_free_ pid_t *pids = NULL;
        bool refused = false;
        size_t n, n_new = 0;
        int r = lineage_descendants(ancestor, &pids, &n);

        if (r < 0)
                return r;
        for (size_t i = 0; i < n; i++) {
                struct process process = PROCESS_NONE;

                if (lineage_set_has(seen, pids[i]))
                        continue;
                r = pin(ancestor, pids[i], seen, &process);
                if (r >= 0) {
                        refused |= process_signal(&process, signal) == -EPERM;
                        r = lineage_set_add(seen, pids[i], process.identity.start_time);
                        n_new++;
                }
                process_done(&process);
                if (r < 0 && r != -ESRCH)
                        return r;
        }
        return refused ? -EPERM : (int)n_new;
}

int lineage_signal_all(pid_t ancestor, int signal) {
        struct lineage_set seen = { 0 };
        bool refused = false;
        int r = 1, n;

        for (int pass = 0; pass < PASSES_MAX && (r > 0 || r == -EPERM); pass++) {
                r = lineage_signal_new(ancestor, signal, &seen);
                refused |= r == -EPERM;
        }
        n = (int)seen.n;
        lineage_set_done(&seen);
        if (r < 0 && r != -EPERM)
                return r;
        return refused ? -EPERM : n;
}
