/* SPDX-License-Identifier: MIT */
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#define PIDFS_MAGIC 0x50494446

/* The first published form (64 bytes); headers of older kernels do not have it. */
struct pidfd_info_v0 {
        uint64_t mask, cgroup_id;
        uint32_t pid, tgid, ppid, ruid, rgid, euid, egid, suid, sgid, fsuid, fsgid;
        int32_t exit_code;
};
#define PIDFD_GET_INFO_V0   _IOWR(0xFF, 11, struct pidfd_info_v0)
#define PIDFD_INFO_HAS_EXIT (UINT64_C(1) << 3)

int pidfd_pin(pid_t pid) {
        int fd;

        if (pid <= 0)
                return -EINVAL;
        fd = (int)syscall(SYS_pidfd_open, pid, 0);
        if (fd >= 0)
                return fd;
        /* The number of a thread, or of a dead leader whose group or session lives on: there is no process of that pid. */
        if (errno == EINVAL || errno == ENOENT)
                return -ESRCH;
        return -errno;
}

/* Without the call (filters, valgrind): by the number that the kernel names for this pidfd, as long as it lives. */
static int signal_by_number(int pidfd, int signal) {
        char path[48], text[1024], *line;
        pid_t pid;
        int r;

        snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", pidfd);
        if (read_file_at(AT_FDCWD, path, text, sizeof(text)) < 0)
                return -ENOSYS;
        line = strstr(text, "\nPid:\t");
        if (!line)
                return -ENOSYS;
        line += strlen("\nPid:\t");
        line[strcspn(line, "\n")] = '\0';
        r = strcmp(line, "-1") == 0 ? 1 : pidfd_is_dead(pidfd);
        if (r != 0)
                return r < 0 ? r : -ESRCH;
        r = parse_pid(line, &pid);
        if (r < 0)
                return r;
        return kill(pid, signal) < 0 ? -errno : 0;
}

int pidfd_signal(int pidfd, int signal) {
        if (syscall(SYS_pidfd_send_signal, pidfd, signal, NULL, 0) >= 0)
                return 0;
        return errno == ENOSYS ? signal_by_number(pidfd, signal) : -errno;
}

/* Inside a time namespace start times are shifted: comparable with nobody's outside of it, so better not known. */
static bool start_times_are_of_boot(void) {
        static const char initial[] = "time:[4026531834]";
        char target[64];
        ssize_t n = readlink("/proc/self/ns/time", target, sizeof(target));

        return n < 0 ? errno == ENOENT : (size_t)n == strlen(initial) && memcmp(target, initial, (size_t)n) == 0;
}

/* What /proc says of the pid is of the pinned process only if that was not reaped until after the reading. */
static int identity_fill(int pidfd, pid_t pid, struct process_identity *ret_identity) {
        struct process_identity identity = { .pid = pid };
        struct process_stat stat;

        if (pidfd_get_inode(pidfd, &identity.inode) < 0)
                identity.inode = 0;
        if (process_read_stat(pid, &stat) >= 0 && (identity.inode != 0 || start_times_are_of_boot()))
                identity.start_time = stat.start_time;
        if (pidfd_signal(pidfd, 0) == -ESRCH)
                return -ESRCH;
        *ret_identity = identity;
        return 0;
}

int process_open(pid_t pid, struct process *ret_process) {
        _cleanup_close_ int pidfd = pidfd_pin(pid);
        struct process_identity identity;
        int r;

        if (pidfd < 0)
                return pidfd;
        r = identity_fill(pidfd, pid, &identity);
        if (r < 0)
                return r;
        *ret_process = (struct process){ .identity = identity, .pidfd = take_fd(&pidfd) };
        return 0;
}

int process_from_pidfd(int pidfd, pid_t pid, struct process *ret_process) {
        struct process process = { .identity.pid = pid, .pidfd = pidfd };

        if (pidfd < 0)
                return -EBADF;
        if (identity_fill(pidfd, pid, &process.identity) < 0 &&
                pidfd_get_inode(pidfd, &process.identity.inode) < 0) /* reaped already: all that can be known */
                process.identity.inode = 0;
        *ret_process = process;
        return 0;
}

int process_self(struct process_identity *ret_identity) {
        _cleanup_close_ int pidfd = pidfd_pin(getpid());
        struct process_identity identity = { .pid = getpid() };
        struct process_stat stat;

        if (pidfd >= 0)
                return identity_fill(pidfd, getpid(), ret_identity);
        if (pidfd != -ENOSYS) /* before Linux 5.3; valgrind */
                return pidfd;
        if (process_read_stat(identity.pid, &stat) >= 0 && start_times_are_of_boot())
                identity.start_time = stat.start_time;
        *ret_identity = identity;
        return 0;
}

void process_done(struct process *process) {
        if (!process)
                return;
        close_fd(&process->pidfd);
        process->identity = (struct process_identity){ 0 };
}

enum process_life process_life(const struct process *process) {
        int dead = pidfd_is_dead(process->pidfd);

        if (dead < 0)
                return PROCESS_UNKNOWN;
        return dead ? PROCESS_GONE : PROCESS_ALIVE;
}

static enum process_life identity_compare(const struct process_identity *a, const struct process_identity *b) {
        if (a->inode != 0 && b->inode != 0)
                return a->inode == b->inode ? PROCESS_ALIVE : PROCESS_GONE;
        if (a->start_time != 0 && b->start_time != 0)
                return a->start_time == b->start_time ? PROCESS_ALIVE : PROCESS_GONE;
        return PROCESS_UNKNOWN;
}

/* Where both have an inode nothing is left to be read. */
static bool identify_by_inode(const struct process_identity *identity, enum process_life *ret_life) {
        _cleanup_close_ int pidfd = identity->inode == 0 ? -1 : pidfd_pin(identity->pid);
        struct process process = { .pidfd = pidfd };
        uint64_t inode;

        if (pidfd < 0 || pidfd_get_inode(pidfd, &inode) < 0)
                return false;
        *ret_life = inode == identity->inode ? process_life(&process) : PROCESS_GONE;
        return true;
}

enum process_life process_identify(const struct process_identity *identity, struct process *ret_process) {
        struct process process = PROCESS_NONE;
        enum process_life life;
        int r;

        if (!ret_process && identify_by_inode(identity, &life))
                return life;
        r = process_open(identity->pid, &process);
        if (r == -ENOSYS && kill(identity->pid, 0) < 0 && errno == ESRCH)
                r = -ESRCH;
        if (r < 0)
                return r == -ESRCH ? PROCESS_GONE : PROCESS_UNKNOWN;
        /* Dead is dead, whoever it was: the process of old had that pid before, if it was not this one. */
        life = process_life(&process);
        if (life == PROCESS_ALIVE)
                life = identity_compare(identity, &process.identity);
        if (life == PROCESS_ALIVE && ret_process)
                *ret_process = process;
        else
                process_done(&process);
        return life;
}

int process_signal(const struct process *process, int signal) {
        int r = pidfd_signal(process->pidfd, signal);

        return r == -ESRCH ? 0 : r;
}

static int parse_stat(const char *text, struct process_stat *ret_stat) {
        struct process_stat stat = { 0 };
        const char *open = strchr(text, '('), *close = strrchr(text, ')');
        unsigned long long start_time;
        size_t length;

        if (!open || !close || close < open)
                return -EBADMSG;
        length = (size_t)(close - open - 1);
        if (length >= sizeof(stat.comm))
                length = sizeof(stat.comm) - 1;
        memcpy(stat.comm, open + 1, length);
        if (sscanf(close + 1, " %c %d %d %d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
                    &stat.state, &stat.parent, &stat.group, &stat.session, &start_time) != 5)
                return -EBADMSG;
        stat.start_time = start_time;
        *ret_stat = stat;
        return 0;
}

static int read_stat_of(const char *directory, struct process_stat *ret_stat) {
        char path[64], text[2048];
        ssize_t n;

        snprintf(path, sizeof(path), "%s/stat", directory);
        n = read_file_at(AT_FDCWD, path, text, sizeof(text));
        return n < 0 ? (int)n : parse_stat(text, ret_stat);
}

int process_read_stat(pid_t pid, struct process_stat *ret_stat) {
        char directory[32];
        int r;

        if (pid <= 0)
                return -EINVAL;
        snprintf(directory, sizeof(directory), "/proc/%d", (int)pid);
        r = read_stat_of(directory, ret_stat);
        if (r == -ENOENT && kill(pid, 0) < 0 && errno == ESRCH)
                return -ESRCH;
        return r;
}

int pidfd_get_inode(int pidfd, uint64_t *ret_inode) {
        struct statfs fs;
        struct stat st;

        if (fstatfs(pidfd, &fs) < 0 || fstat(pidfd, &st) < 0)
                return -errno;
        if (fs.f_type != PIDFS_MAGIC)
                return -EOPNOTSUPP;
        *ret_inode = st.st_ino;
        return 0;
}

int pidfd_is_dead(int pidfd) {
        struct pollfd p = { .fd = pidfd, .events = POLLIN };
        int r;

        if (pidfd < 0)
                return -EBADF;
        do
                r = poll(&p, 1, 0);
        while (r < 0 && errno == EINTR);
        if (r < 0)
                return -errno;
        if (p.revents & POLLNVAL)
                return -EBADF;
        return (p.revents & POLLIN) != 0;
}

int pidfd_get_exit(int pidfd, int *ret_wait_status) {
        struct pidfd_info_v0 info = { .mask = PIDFD_INFO_HAS_EXIT };

        if (ioctl(pidfd, PIDFD_GET_INFO_V0, &info) < 0 || !(info.mask & PIDFD_INFO_HAS_EXIT))
                return -ENODATA;
        *ret_wait_status = info.exit_code;
        return 0;
}

/* " in state D at folio_wait_bit" of one process or thread; "" when /proc does not show it. */
static char *describe_state(const char *directory, const struct process_stat *stat) {
        char path[80], wait_channel[128];

        snprintf(path, sizeof(path), "%s/wchan", directory);
        if (read_file_at(AT_FDCWD, path, wait_channel, sizeof(wait_channel)) <= 0 || strcmp(wait_channel, "0") == 0)
                return format(" in state %c", stat->state);
        return format(" in state %c at %s", stat->state, wait_channel);
}

/* A Z that is not dead: its leader has exited, so a thread that lives is what is interesting. */
static char *describe_living_thread(const char *directory) {
        char path[64];
        _cleanup_dir_ DIR *tasks = NULL;
        struct dirent *entry;

        snprintf(path, sizeof(path), "%s/task", directory);
        tasks = opendir(path);
        while (tasks && (entry = readdir(tasks))) {
                _cleanup_free_ char *state = NULL;
                struct process_stat stat;
                char thread[64];
                pid_t tid;

                if (parse_pid(entry->d_name, &tid) < 0)
                        continue;
                snprintf(thread, sizeof(thread), "%s/task/%d", directory, (int)tid);
                if (read_stat_of(thread, &stat) < 0 || stat.state == 'Z' || stat.state == 'X')
                        continue;
                state = describe_state(thread, &stat);
                return state ? format(", its thread %d%s", (int)tid, state) : NULL;
        }
        return strdup("");
}

static void make_printable(char *text) {
        for (; *text; text++)
                if ((unsigned char)*text < ' ' || *text == 0x7f)
                        *text = '?';
}

char *process_describe(pid_t pid) {
        _cleanup_free_ char *state = NULL, *thread = NULL;
        struct process_stat stat;
        char directory[32];

        if (process_read_stat(pid, &stat) < 0)
                return format("pid %d", (int)pid);
        make_printable(stat.comm);
        snprintf(directory, sizeof(directory), "/proc/%d", (int)pid);
        state = describe_state(directory, &stat);
        thread = stat.state == 'Z' ? describe_living_thread(directory) : strdup("");
        if (!state || !thread)
                return NULL;
        return format("pid %d (%s)%s%s", (int)pid, stat.comm, state, thread);
}
