/* SPDX-License-Identifier: MIT */
#include "ground.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "process.h"

#define CLEAN_BOUND_USEC (5 * USEC_PER_SEC)
#define LOOK_USEC        500
#define OLD_SEC          60

struct ground ground;

/* ---- its making ------------------------------------------------------------------------------------------------- */

static int make_file(const char *path) {
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0)
                return -errno;
        close(fd);
        return 0;
}

static int make_directory(void) {
        strcpy(ground.top, "/tmp/cgtree-crash-XXXXXX");
        if (!mkdtemp(ground.top))
                return -errno;
        snprintf(ground.records, sizeof(ground.records), "%s/records", ground.top);
        snprintf(ground.ran, sizeof(ground.ran), "%s/ran", ground.top);
        snprintf(ground.unrecorded, sizeof(ground.unrecorded), "%s/unrecorded", ground.top);
        if (mkdir(ground.records, 0700) < 0)
                return -errno;
        ground.records_fd = open(ground.records, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (ground.records_fd < 0)
                return -errno;
        int r = make_file(ground.ran);
        return r < 0 ? r : make_file(ground.unrecorded);
}

int ground_make(const struct cgroup *base) {
        int r = cgroup_create(base, "runners", &ground.runners);
        if (r >= 0)
                r = cgroup_create(base, "trees", &ground.trees);
        return r < 0 ? r : make_directory();
}

int ground_enter(void) {
        return write_file_at(ground.runners.fd, "cgroup.procs", "0");
}

void ground_remove(void) {
        ground_clear();
        (void)unlink(ground.ran);
        (void)unlink(ground.unrecorded);
        (void)rmdir(ground.records);
        (void)rmdir(ground.top);
}

/* ---- what is left ----------------------------------------------------------------------------------------------- */

static char *add(char *text, const char *what, const char *name) {
        _cleanup_free_ char *before = text;
        return before ? format("%s, %s %s", before, what, name) : format("%s %s", what, name);
}

static DIR *open_again(int dirfd) {
        int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        return fd < 0 ? NULL : fdopendir(fd);
}

static char *add_entries(char *text, int dirfd, const char *what, unsigned char type) {
        _cleanup_dir_ DIR *dir = open_again(dirfd);
        struct dirent *entry;
        while (dir && (entry = readdir(dir)))
                if (entry->d_type == type && strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
                        text = add(text, what, entry->d_name);
        return text;
}

static char *add_members(char *text, const struct cgroup *cgroup) {
        _cleanup_free_ pid_t *pids = NULL;
        size_t n = 0;
        (void)cgroup_members(cgroup, &pids, &n, NULL);
        for (size_t i = 0; i < n; i++) {
                _cleanup_free_ char *who = pids[i] == getpid() ? NULL : process_describe(pids[i]);
                if (who)
                        text = add(text, "process", who);
        }
        return text;
}

static void reap_orphans(void) {
        while (waitpid(-1, NULL, WNOHANG) > 0)
                ;
}

char *ground_left(void) {
        reap_orphans();
        char *text = add_entries(NULL, ground.records_fd, "record", DT_REG);
        text = add_entries(text, ground.trees.fd, "cgroup", DT_DIR);
        if (cgroup_is_populated(&ground.trees) != 0)
                text = add(text, "cgroup", "populated");
        return add_members(add_members(text, &ground.trees), &ground.runners);
}

char *ground_wait_clean(void) {
        uint64_t deadline = now_usec() + CLEAN_BOUND_USEC;
        char *left;
        while ((left = ground_left()) && now_usec() < deadline) {
                free(left);
                usleep(LOOK_USEC);
        }
        return left;
}

bool ground_has_directories_alone(void) {
        _cleanup_free_ char *others =
                add_members(add_entries(NULL, ground.records_fd, "record", DT_REG), &ground.runners);
        return !others && cgroup_is_populated(&ground.trees) == 0;
}

static size_t count_lines(const char *file, bool empty) {
        _cleanup_close_ int fd = open(file, O_RDWR | O_CLOEXEC);
        struct stat status;
        if (fd < 0 || fstat(fd, &status) < 0 || (empty && ftruncate(fd, 0) < 0))
                return SIZE_MAX;
        return (size_t)status.st_size / strlen("one\n");
}

bool ground_has_run(void) {
        return count_lines(ground.ran, false) > 0;
}

size_t ground_unrecorded(void) {
        (void)count_lines(ground.ran, true);
        return count_lines(ground.unrecorded, true);
}

/* ---- helpers ---------------------------------------------------------------------------------------------------- */

static bool is_named(pid_t pid, const char *name) {
        struct process_stat stat;
        if (process_read_stat(pid, &stat) < 0)
                return false;
        return name ? strcmp(stat.comm, name) == 0
                    : strcmp(stat.comm, "cgtree-guard") == 0 || strcmp(stat.comm, "cgtree-reaper") == 0;
}

static void end(pid_t pid) {
        _cleanup_close_ int pidfd = pidfd_pin(pid);
        struct pollfd ended = { .fd = pidfd, .events = POLLIN };
        if (pidfd >= 0 && pidfd_signal(pidfd, SIGKILL) >= 0)
                (void)poll(&ended, 1, 5000);
}

size_t ground_helpers(const char *name, bool kill) {
        size_t n_found = 0, n_before;
        do {
                _cleanup_free_ pid_t *pids = NULL;
                size_t n = 0;
                n_before = n_found;
                (void)cgroup_members(&ground.runners, &pids, &n, NULL);
                for (size_t i = 0; i < n; i++) {
                        if (pids[i] == getpid() || !is_named(pids[i], name))
                                continue;
                        n_found++;
                        if (kill)
                                end(pids[i]);
                }
        } while (kill && n_found > n_before); /* one may have forked meanwhile */
        return n_found;
}

static bool has_stamp(const char *name) {
        struct cgroup home = CGROUP_NONE;
        char stamp[256];
        bool has = cgroup_open_child(&ground.trees, name, &home) < 0 ||
                   cgroup_get_xattr(&home, CGROUP_XATTR_OWNER, stamp, sizeof(stamp)) != -ENODATA;
        cgroup_done(&home);
        return has;
}

static size_t make_old(int dirfd, const char *name) {
        struct timespec times[2];
        clock_gettime(CLOCK_REALTIME, &times[0]);
        times[0].tv_sec -= OLD_SEC;
        times[1] = times[0];
        return utimensat(dirfd, name, times, 0) == 0;
}

size_t ground_age_unfinished(void) {
        _cleanup_dir_ DIR *records = open_again(ground.records_fd), *homes = open_again(ground.trees.fd);
        struct dirent *entry;
        size_t n = 0;
        while (records && (entry = readdir(records))) {
                const char *ending = strrchr(entry->d_name, '.');
                if (ending && strcmp(ending, ".tmp") == 0)
                        n += make_old(ground.records_fd, entry->d_name);
        }
        while (homes && (entry = readdir(homes)))
                if (entry->d_type == DT_DIR && entry->d_name[0] != '.' && !has_stamp(entry->d_name))
                        n += make_old(ground.trees.fd, entry->d_name);
        return n;
}

/* ---- by other means than those under test ----------------------------------------------------------------------- */

static void remove_files(void) {
        _cleanup_dir_ DIR *dir = open_again(ground.records_fd);
        struct dirent *entry;
        while (dir && (entry = readdir(dir)))
                (void)unlinkat(ground.records_fd, entry->d_name, 0);
}

static void remove_homes(void) {
        _cleanup_dir_ DIR *dir = open_again(ground.trees.fd);
        struct dirent *entry;
        while (dir && (entry = readdir(dir)))
                if (entry->d_type == DT_DIR && entry->d_name[0] != '.')
                        (void)cgroup_remove(&ground.trees, entry->d_name, USEC_PER_SEC);
}

void ground_clear(void) {
        for (int i = 0; i < 100; i++) {
                _cleanup_free_ pid_t *pids = NULL;
                size_t n = 0;
                (void)cgroup_kill(&ground.trees);
                (void)cgroup_members(&ground.runners, &pids, &n, NULL);
                for (size_t j = 0; j < n; j++)
                        if (pids[j] != getpid())
                                (void)kill(pids[j], SIGKILL);
                reap_orphans();
                if (n <= 1 && cgroup_is_populated(&ground.trees) == 0)
                        break;
                usleep(1000);
        }
        remove_files();
        remove_homes();
}
