/* SPDX-License-Identifier: MIT */
#include "group.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cgroup.h"

#define VARIABLE        "CGTREE_ID"
#define LINEAGE_LENGTH  1024 /* some 60 trees, one in the other */
#define PASSES_MAX      8
#define SURVIVORS_NAMED 8
#define GENERATIONS_MAX 4096

/* Ids joined by ':'. */
static bool lineage_is_sane(const char *lineage) {
        char id[ID_LENGTH + 1];

        if (strlen(lineage) > LINEAGE_LENGTH)
                return false;
        for (;;) {
                size_t length = strcspn(lineage, ":");

                if (length != ID_LENGTH)
                        return false;
                memcpy(id, lineage, length);
                id[length] = '\0';
                if (!id_is_valid(id))
                        return false;
                if (lineage[length] == '\0')
                        return true;
                lineage += length + 1;
        }
}

char *group_lineage(const char *id) {
        const char *outer = getenv(VARIABLE);

        return outer && lineage_is_sane(outer) ? format("%s:%s", outer, id) : strdup(id);
}

/* One look at all members; with `signal` set each is signalled in the moment it is proven: it may not live for long. */
struct look {
        const struct record *record;
        int signal;                /* 0: none */
        bool want_unproven;        /* count them: reads the environment of every process there is */
        struct lineage_set seen;   /* members, signalled or not */
        struct lineage_set others; /* ourselves, our ancestors, the owner */
        bool refused;              /* -EPERM of somebody */
        size_t n_unproven;
        char *cgroup_path; /* the last one asked for, and its id */
        uint64_t cgroup_id;
};

static void look_done(struct look *look) {
        lineage_set_done(&look->seen);
        lineage_set_done(&look->others);
        free(look->cgroup_path);
}

static int look_begin(struct look *look, const struct record *record, int signal) {
        pid_t pid = getpid();
        int r = 0;

        *look = (struct look){ .record = record, .signal = signal };
        for (int i = 0; r >= 0 && i < GENERATIONS_MAX && pid > 1; i++) {
                struct process_stat stat;

                r = lineage_set_add(&look->others, pid, 0);
                if (process_read_stat(pid, &stat) < 0)
                        break;
                pid = stat.parent;
        }
        if (r >= 0 && process_identify(&record->owner, NULL) == PROCESS_ALIVE)
                r = lineage_set_add(&look->others, record->owner.pid, 0);
        if (r < 0)
                look_done(look);
        return r;
}

static int cgroup_id_of(pid_t pid, char **cached_path, uint64_t *cached_id) {
        struct cgroup cgroup = CGROUP_NONE;
        _cleanup_free_ char *path = NULL;
        int r = cgroup_path_of(pid, &path);

        if (r < 0)
                return r;
        if (*cached_path && strcmp(*cached_path, path) == 0)
                return 0;
        r = cgroup_open(path, &cgroup);
        if (r < 0)
                return r;
        *cached_id = cgroup.id;
        cgroup_done(&cgroup);
        free(*cached_path);
        *cached_path = take_pointer(&path);
        return 0;
}

int group_cgroup_id(pid_t pid, uint64_t *ret_id) {
        _cleanup_free_ char *path = NULL;
        uint64_t id = 0;
        int r = cgroup_id_of(pid, &path, &id);

        if (r < 0)
                return r;
        *ret_id = id;
        return 0;
}

static bool has_component(const char *lineage, const char *id) {
        for (;;) {
                size_t length = strcspn(lineage, ":");

                if (length == strlen(id) && memcmp(lineage, id, length) == 0)
                        return true;
                if (lineage[length] == '\0')
                        return false;
                lineage += length + 1;
        }
}

static bool environment_names(const char *text, size_t size, const char *id) {
        for (const char *entry = text; entry < text + size; entry += strlen(entry) + 1)
                if (strncmp(entry, VARIABLE "=", strlen(VARIABLE "=")) == 0 &&
                        has_component(entry + strlen(VARIABLE "="), id))
                        return true;
        return false;
}

/* A leader that has exited has no memory left to read; its threads have. */
static int environment_of_threads(pid_t pid, char **ret_text, size_t *ret_size) {
        _cleanup_dir_ DIR *tasks = NULL;
        struct dirent *entry;
        char path[64];

        snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
        tasks = opendir(path);
        if (!tasks)
                return errno == ENOENT ? -ESRCH : -errno;
        while ((entry = readdir(tasks))) {
                _cleanup_free_ char *text = NULL;
                size_t size;
                pid_t tid;

                if (parse_pid(entry->d_name, &tid) < 0 || tid == pid)
                        continue;
                snprintf(path, sizeof(path), "/proc/%d/task/%d/environ", (int)pid, (int)tid);
                if (read_whole_file_at(AT_FDCWD, path, &text, &size) < 0 || size == 0)
                        continue;
                *ret_text = take_pointer(&text);
                *ret_size = size;
                return 0;
        }
        return -ENODATA;
}

/* Not when it cannot be read. Without memory (kernel threads, zombies, leaders that have exited) it is empty, from 6.14
 * on ESRCH. */
static bool is_nominated(pid_t pid, const char *id) {
        _cleanup_free_ char *text = NULL;
        char path[64];
        size_t size;
        int r;

        snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
        r = read_whole_file_at(AT_FDCWD, path, &text, &size);
        if (r == -ESRCH || (r >= 0 && size == 0)) {
                free(take_pointer(&text));
                r = environment_of_threads(pid, &text, &size);
        }
        return r >= 0 && environment_names(text, size, id);
}

/* Cheap first, and before anything is read of the memory of a process, which can be stuck with its lock held: not many
 * are as young as the tree and in its cgroup. */
static bool may_be_member(struct look *look, const struct process_identity *identity) {
        uint64_t started = look->record->group.leader.start_time, birth = look->record->group.birth_cgroup_id;

        if (started == 0 || birth == 0 || identity->start_time < started)
                return false;
        return cgroup_id_of(identity->pid, &look->cgroup_path, &look->cgroup_id) >= 0 && look->cgroup_id == birth;
}

static bool is_member(struct look *look, const struct process *process) {
        pid_t pid = process->identity.pid;
        bool proven = !lineage_set_has(&look->others, pid) && may_be_member(look, &process->identity);

        if ((!proven && !look->want_unproven) || !is_nominated(pid, look->record->id))
                return false;
        if (process_life(process) == PROCESS_GONE) /* all that was read may be of another one by now */
                return false;
        look->n_unproven += !proven;
        return proven;
}

static int add_descendants(struct look *look, pid_t ancestor) {
        _cleanup_free_ pid_t *pids = NULL;
        size_t n;
        int r;

        r = lineage_descendants(ancestor, &pids, &n);
        for (size_t i = 0; r >= 0 && i < n; i++) {
                struct process process = PROCESS_NONE;

                if (process_open(pids[i], &process) >= 0 && process_life(&process) != PROCESS_GONE)
                        r = lineage_set_add(&look->seen, pids[i], process.identity.start_time);
                process_done(&process);
        }
        return r;
}

static int signal_one(struct look *look, struct process *process) {
        int r = 0;

        if (process->pidfd >= 0 && !lineage_set_has(&look->seen, process->identity.pid)) {
                look->refused |= process_signal(process, look->signal) == -EPERM;
                r = lineage_set_add(&look->seen, process->identity.pid, process->identity.start_time);
        }
        return r;
}

/* All are pinned before the first is signalled: whom a death leaves to other parents cannot be proven any more. Where
 * descriptors run out, the next pass goes on. */
static int signal_family(struct look *look, struct process *first) {
        _cleanup_free_ pid_t *pids = NULL;
        _cleanup_free_ struct process *family = NULL;
        struct lineage_set proven = { 0 };
        size_t n, n_pinned = 0;
        int r = lineage_descendants(first->identity.pid, &pids, &n);

        if (r < 0)
                return r;
        family = calloc(n + 1, sizeof(*family));
        if (!family)
                return -ENOMEM;
        for (size_t i = 0; i < n && r != -EMFILE && r != -ENFILE; i++) {
                r = lineage_pin_below(first->identity.pid, pids[i], &proven, family + n_pinned);
                if (r < 0)
                        continue;
                (void)lineage_set_add(&proven, pids[i], family[n_pinned].identity.start_time);
                n_pinned++;
        }
        r = signal_one(look, first);
        for (size_t i = 0; i < n_pinned; i++) {
                if (r >= 0)
                        r = signal_one(look, family + i);
                process_done(family + i);
        }
        lineage_set_done(&proven);
        return r;
}

static int add_family(struct look *look, struct process *process) {
        int r;

        if (look->signal != 0)
                return signal_family(look, process);
        r = lineage_set_add(&look->seen, process->identity.pid, process->identity.start_time);
        return r < 0 ? r : add_descendants(look, process->identity.pid);
}

static int on_process(void *userdata, pid_t pid) {
        struct look *look = userdata;
        struct process process = PROCESS_NONE;
        struct process_stat stat;
        int r = 0;

        if (lineage_set_has(&look->seen, pid))
                return 0;
        process.pidfd = pidfd_pin(pid);
        if (process.pidfd >= 0 && process_read_stat(pid, &stat) >= 0) {
                process.identity = (struct process_identity){ .pid = pid, .start_time = stat.start_time };
                if (is_member(look, &process))
                        r = add_family(look, &process);
        }
        process_done(&process);
        return r;
}

/* Everybody whom /proc shows, when there is no reaper any more. */
static int look_without_reaper(struct look *look) {
        struct process leader = PROCESS_NONE;
        int r = 0;

        look->n_unproven = 0;
        if (process_identify(&look->record->group.leader, &leader) == PROCESS_ALIVE)
                r = look->signal != 0 && lineage_set_has(&look->others, leader.identity.pid)
                            ? -EDEADLK
                            : add_family(look, &leader);
        process_done(&leader);
        return r < 0 ? r : lineage_each_process(on_process, look);
}

static int look_below_reaper(struct look *look, const struct process *reaper) {
        pid_t pid = reaper->identity.pid;
        int r;

        if (look->signal == 0)
                return add_descendants(look, pid);
        if (lineage_set_has(&look->others, pid))
                return -EDEADLK;
        (void)process_signal(reaper, SIGCONT); /* a member may have stopped it */
        r = lineage_signal_new(pid, look->signal, &look->seen);
        look->refused |= r == -EPERM;
        return r == -EPERM ? 0 : r;
}

static int look_around(struct look *look, enum process_life *ret_reaper) {
        struct process reaper = PROCESS_NONE;
        int r;

        *ret_reaper = process_identify(&look->record->group.reaper, &reaper);
        r = *ret_reaper == PROCESS_ALIVE ? look_below_reaper(look, &reaper) : look_without_reaper(look);
        process_done(&reaper);
        return r;
}

int group_members(const struct record *record, pid_t **ret_pids, size_t *ret_n, size_t *ret_n_unproven) {
        _cleanup_free_ pid_t *pids = NULL;
        enum process_life reaper;
        struct look look;
        int r = look_begin(&look, record, 0);

        if (r < 0)
                return r;
        look.want_unproven = ret_n_unproven != NULL;
        r = look_around(&look, &reaper);
        pids = r < 0 ? NULL : malloc((look.seen.n + 1) * sizeof(*pids));
        if (r >= 0 && !pids)
                r = -ENOMEM;
        if (r >= 0) {
                for (size_t i = 0; i < look.seen.n; i++)
                        pids[i] = look.seen.members[i].pid;
                *ret_n = look.seen.n;
                *ret_pids = take_pointer(&pids);
                if (ret_n_unproven)
                        *ret_n_unproven = look.n_unproven;
        }
        look_done(&look);
        return r < 0 ? r : 0;
}

/* Passes until one finds nobody new. */
static int signal_all(const struct record *record, int signal) {
        enum process_life reaper;
        struct look look;
        size_t before;
        int r = look_begin(&look, record, signal);

        if (r < 0)
                return r;
        for (int pass = 0; pass < PASSES_MAX; pass++) {
                before = look.seen.n;
                r = look_around(&look, &reaper);
                if (r < 0 || look.seen.n == before)
                        break;
        }
        if (r >= 0)
                r = look.refused ? -EPERM : (int)look.seen.n;
        look_done(&look);
        return r;
}

/* Without a reaper all are stopped first: orphans that a member forked in the moment of its death are lost sight of. */
int group_signal(const struct record *record, int signal) {
        if (signal == SIGKILL && process_identify(&record->group.reaper, NULL) != PROCESS_ALIVE)
                (void)signal_all(record, SIGSTOP);
        return signal_all(record, signal);
}

/* In a chain of processes that each fork and exit, a child has the higher number and is still met by a walk in their
 * order; unless the numbers begin anew just then. They do not do that twice in a row. */
int group_is_empty(const struct record *record) {
        enum process_life reaper;
        struct look look;
        int r = look_begin(&look, record, 0);

        if (r < 0)
                return r;
        r = 1;
        for (int i = 0; i < 2 && r > 0; i++) {
                r = look_around(&look, &reaper);
                if (r >= 0)
                        r = reaper == PROCESS_GONE && look.seen.n == 0;
        }
        look_done(&look);
        return r;
}

char *group_survivors(const struct record *record) {
        _cleanup_free_ pid_t *pids = NULL;
        _cleanup_free_ char *text = NULL;
        size_t n;

        if (group_members(record, &pids, &n, NULL) < 0)
                return NULL;
        for (size_t i = 0; i < n && i < SURVIVORS_NAMED; i++) {
                _cleanup_free_ char *one = process_describe(pids[i]), *longer = NULL;

                if (!one)
                        return NULL;
                longer = text ? format("%s; %s", text, one) : strdup(one);
                if (!longer)
                        return NULL;
                free(text);
                text = take_pointer(&longer);
        }
        if (n > SURVIVORS_NAMED)
                return format("%s; and %zu more", text, n - SURVIVORS_NAMED);
        return take_pointer(&text);
}
