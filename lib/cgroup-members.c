/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "cgroup-dir.h"
#include "cgroup.h"

/* Who is in a cgroup. */

struct members {
        pid_t *pids;
        size_t n, allocated, n_foreign;
        bool by_threads;
};

static int add_pid(struct members *members, pid_t pid) {
        if (members->n == members->allocated) {
                size_t larger = members->allocated ? members->allocated * 2 : 32;
                pid_t *moved = realloc(members->pids, larger * sizeof(*moved));

                if (!moved)
                        return -ENOMEM;
                members->pids = moved;
                members->allocated = larger;
        }
        members->pids[members->n++] = pid;
        return 0;
}

/* /proc/TID exists for every thread, though it is not listed. */
static int thread_group_of(pid_t tid, pid_t *ret_pid) {
        _cleanup_free_ char *text = NULL;
        char file[32], *line;
        int r;

        snprintf(file, sizeof(file), "/proc/%d/status", (int)tid);
        r = read_whole_file_at(AT_FDCWD, file, &text, NULL);
        if (r < 0)
                return r;
        line = strstr(text, "\nTgid:\t");
        if (!line)
                return -EBADMSG;
        line += strlen("\nTgid:\t");
        line[strcspn(line, "\n")] = '\0';
        return parse_pid(line, ret_pid);
}

static int add_line(struct members *members, const char *line, bool thread) {
        pid_t pid;

        if (strcmp(line, "0") == 0)
                members->n_foreign++;
        if (parse_pid(line, &pid) < 0)
                return 0;
        if (thread && thread_group_of(pid, &pid) < 0)
                return 0; /* gone meanwhile */
        return add_pid(members, pid);
}

static int add_members(void *userdata, int dirfd, const char *relative_path) {
        struct members *members = userdata;
        _cleanup_free_ char *text = NULL;
        char *rest, *line;
        bool threads = members->by_threads;
        int r = threads ? -EOPNOTSUPP : cgroup_dir_read(dirfd, "cgroup.procs", &text);

        (void)relative_path;
        if (r == -EOPNOTSUPP) { /* a threaded cgroup, too */
                threads = true;
                r = cgroup_dir_read(dirfd, "cgroup.threads", &text);
        }
        if (r < 0)
                return r == -ENOMEM || r == -EMFILE || r == -ENFILE ? r : 0;
        for (rest = text; (line = strsep(&rest, "\n"));) {
                r = add_line(members, line, threads);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int compare_pids(const void *a, const void *b) {
        pid_t left, right;

        memcpy(&left, a, sizeof(left));
        memcpy(&right, b, sizeof(right));
        return (left > right) - (left < right);
}

static void sort_unique(struct members *members) {
        size_t kept = 0;

        if (members->n == 0)
                return;
        qsort(members->pids, members->n, sizeof(*members->pids), compare_pids);
        for (size_t i = 1; i < members->n; i++)
                if (members->pids[i] != members->pids[kept])
                        members->pids[++kept] = members->pids[i];
        members->n = kept + 1;
}

int cgroup_members(const struct cgroup *cgroup, pid_t **ret_pids, size_t *ret_n, size_t *ret_n_foreign) {
        struct members members = { 0 };
        int r = cgroup_walk(cgroup, add_members, &members);

        /* A kernel may leave out a process whose leader has exited; its threads are listed. */
        if (r >= 0 && members.n == 0 && members.n_foreign == 0 && cgroup_is_populated(cgroup) == 1) {
                members.by_threads = true;
                r = cgroup_walk(cgroup, add_members, &members);
        }
        if (r < 0) {
                free(members.pids);
                return r;
        }
        sort_unique(&members);
        *ret_pids = members.pids;
        *ret_n = members.n;
        if (ret_n_foreign)
                *ret_n_foreign = members.n_foreign;
        return 0;
}

/* `r` and `path` as cgroup_path_of() gave them. Who is in no cgroup that we could see is in this one least of all. */
static int judge(const struct cgroup *cgroup, int r, const char *path) {
        if (r == -ESTALE || r == -ENOLINK)
                return 0;
        return r < 0 ? r : cgroup_path_below(path, cgroup->path) != NULL;
}

static int contains_thread(const struct cgroup *cgroup, pid_t pid) {
        _cleanup_dir_ DIR *tasks = NULL;
        char directory[32];
        struct dirent *entry;

        snprintf(directory, sizeof(directory), "/proc/%d/task", (int)pid);
        tasks = opendir(directory);
        while (tasks && (entry = readdir(tasks))) {
                _cleanup_free_ char *path = NULL;
                pid_t tid;
                int r;

                if (parse_pid(entry->d_name, &tid) < 0 || tid == pid)
                        continue;
                r = cgroup_path_of_thread(pid, tid, &path);
                if (judge(cgroup, r, path) == 1)
                        return 1;
        }
        return 0;
}

int cgroup_contains(const struct cgroup *cgroup, pid_t pid) {
        _cleanup_free_ char *path = NULL;
        int r = cgroup_path_of(pid, &path);

        r = judge(cgroup, r, path);
        return r == 0 && pid > 0 ? contains_thread(cgroup, pid) : r;
}
