/* SPDX-License-Identifier: MIT */
#include "sweep-users.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define USER_BOUND_MSEC  10000
#define SWEEP_BOUND_USEC UINT64_C(8000000) /* of that: graces that are longer are cut */

/* ---- who ------------------------------------------------------------------------------------------------ */

struct user {
        uid_t uid;
        gid_t gid;
};

struct users {
        struct user *all;
        size_t n;
};

static int add_user(struct users *users, uid_t uid, gid_t gid) {
        struct user *larger;

        for (size_t i = 0; i < users->n; i++)
                if (users->all[i].uid == uid)
                        return 0;
        larger = reallocarray(users->all, users->n + 1, sizeof *larger);
        if (!larger)
                return -ENOMEM;
        users->all = larger;
        users->all[users->n++] = (struct user){ uid, gid };
        return 0;
}

/* The number behind the prefix; -1: it is another name. */
static long parse_uid(const char *name, const char *prefix) {
        size_t length = strlen(prefix);
        char *end;
        long uid;

        if (strncmp(name, prefix, length) != 0 || name[length] < '0' || name[length] > '9')
                return -1;
        errno = 0;
        uid = strtol(name + length, &end, 10);
        return errno != 0 || *end || uid >= UINT32_MAX ? -1 : uid;
}

/* FOLDER/PREFIXuid: where that user may have records. The directory has to be that user's, for its group is believed, too. */
static int find_users_in(struct users *users, const char *folder, const char *prefix) {
        DIR *dir = opendir(folder);
        struct dirent *entry;
        int r = 0;

        while (r >= 0 && dir && (entry = readdir(dir))) {
                long uid = parse_uid(entry->d_name, prefix);
                struct stat st;

                if (uid > 0 && fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) >= 0 &&
                        S_ISDIR(st.st_mode) && st.st_uid == (uid_t)uid && st.st_gid != 0)
                        r = add_user(users, st.st_uid, st.st_gid);
        }
        if (dir)
                closedir(dir);
        return r;
}

static int find_users(struct users *users) {
        int r = find_users_in(users, "/run/user", "");

        if (r >= 0)
                r = find_users_in(users, "/dev/shm", "cgtree-");
        if (r >= 0)
                r = find_users_in(users, "/tmp", "cgtree-");
        return r;
}

/* ---- the child ------------------------------------------------------------------------------------------ */

#define FIELDS 3 /* of a decision, each with its NUL, in one write */

static void send_decision(void *userdata, const char *id, const char *decision, const char *reason) {
        int fd = *(const int *)userdata;
        char text[PIPE_BUF];
        int n = snprintf(
                text, sizeof text, "%.200s%c%.20s%c%.3500s", id ? id : "-", 0, decision, 0, reason ? reason : "");

        if (n < 0 || write(fd, text, (size_t)n + 1) < 0)
                _exit(1);
}

static int close_all_but(int fd) {
        DIR *dir = opendir("/proc/self/fd");
        struct dirent *entry;

        if (!dir)
                return -errno;
        while ((entry = readdir(dir))) {
                int other = atoi(entry->d_name);

                if (other > STDERR_FILENO && other != fd && other != dirfd(dir))
                        close(other);
        }
        closedir(dir);
        return 0;
}

/* Nothing of root's is left: no descriptor, no group, no variable that says where to look. */
static int become(const struct user *user, int fd) {
        char runtime[32];
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);

        for (int standard = 0; standard <= STDERR_FILENO; standard++)
                if (null < 0 || dup2(null, standard) < 0)
                        return -errno;
        if (close_all_but(fd) < 0 || chdir("/") < 0 || setgroups(0, NULL) < 0 ||
                setresgid(user->gid, user->gid, user->gid) < 0 || setresuid(user->uid, user->uid, user->uid) < 0)
                return -errno;
        snprintf(runtime, sizeof runtime, "/run/user/%u", user->uid);
        return clearenv() != 0 || setenv("XDG_RUNTIME_DIR", runtime, 1) < 0 ? -ENOMEM : 0;
}

__attribute__((noreturn)) static void sweep_as(const struct user *user, bool dry_run, int fd) {
        int r = become(user, fd);

        if (r >= 0)
                r = cgtree_sweep(NULL, dry_run, SWEEP_BOUND_USEC, send_decision, &fd);
        if (r < 0 && r != -EBADMSG)
                send_decision(&fd, "-", "failed", strerror(-r));
        _exit(r < 0);
}

/* ---- the parent ----------------------------------------------------------------------------------------- */

struct hearing {
        sweep_user_fn fn;
        void *userdata;
        uid_t uid;
        char text[2 * PIPE_BUF];
        size_t n;
};

/* Whole decisions, as far as they have come. */
static void tell(struct hearing *hearing) {
        for (;;) {
                const char *fields[FIELDS], *at = hearing->text, *end = hearing->text + hearing->n;

                for (size_t i = 0; i < FIELDS; i++) {
                        const char *nul = memchr(at, 0, (size_t)(end - at));

                        if (!nul)
                                return;
                        fields[i] = at;
                        at = nul + 1;
                }
                hearing->fn(hearing->userdata, hearing->uid, fields[0], fields[1], fields[2]);
                hearing->n = (size_t)(end - at);
                memmove(hearing->text, at, hearing->n);
        }
}

static int64_t now_msec(void) {
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Until the child has closed its end; false: not in time. */
static bool hear_all(struct hearing *hearing, int fd) {
        struct pollfd source = { .fd = fd, .events = POLLIN };
        int64_t deadline = now_msec() + USER_BOUND_MSEC, left;

        while ((left = deadline - now_msec()) > 0 && hearing->n < sizeof hearing->text) {
                ssize_t n;

                if (poll(&source, 1, (int)left) <= 0)
                        continue;
                n = read(fd, hearing->text + hearing->n, sizeof hearing->text - hearing->n);
                if (n == 0)
                        return true;
                if (n > 0)
                        hearing->n += (size_t)n;
                else if (errno != EINTR)
                        return false;
                tell(hearing);
        }
        return false;
}

/* True: all is well with that user. */
static bool sweep_user(const struct user *user, bool dry_run, struct hearing *hearing) {
        int ends[2], status = -1;
        bool complete;
        pid_t pid;

        if (pipe2(ends, O_CLOEXEC) < 0)
                return false;
        fflush(NULL);
        pid = fork();
        if (pid == 0)
                sweep_as(user, dry_run, ends[1]);
        close(ends[1]);
        complete = pid > 0 && hear_all(hearing, ends[0]);
        close(ends[0]);
        if (pid > 0 && !complete)
                kill(pid, SIGKILL);
        while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
        if (!complete)
                hearing->fn(
                        hearing->userdata, user->uid, "-", "failed", "not done within 10 s, or it could not be begun");
        else if (!WIFEXITED(status))
                hearing->fn(hearing->userdata, user->uid, "-", "failed", "it was killed");
        return complete && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int sweep_users(bool dry_run, sweep_user_fn fn, void *userdata) {
        struct users users = { 0 };
        int r = find_users(&users), n_failed = 0;

        for (size_t i = 0; r >= 0 && i < users.n; i++) {
                struct hearing hearing = { .fn = fn, .userdata = userdata, .uid = users.all[i].uid };

                n_failed += !sweep_user(&users.all[i], dry_run, &hearing);
        }
        free(users.all);
        return r < 0 ? r : n_failed;
}
