#include "payload.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LIFE_SECONDS_DEFAULT 60

static unsigned life_seconds = LIFE_SECONDS_DEFAULT;
static int report_fd = STDERR_FILENO;

/* A timer that sends KILL, since alarm() leaves a stopped, frozen or TERM-ignoring process alone. */
static void bound_life(void) {
        struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL };
        struct itimerspec after = { .it_value.tv_sec = life_seconds };
        timer_t timer;

        if (timer_create(CLOCK_MONOTONIC, &event, &timer) < 0 || timer_settime(timer, 0, &after, NULL) < 0)
                payload_fail("timer");
}

static void parse_end(struct payload *p, const char *text) {
        if (strcmp(text, "wait") == 0)
                p->end = PAYLOAD_END_WAIT;
        else if (sscanf(text, "exit:%d", &p->status) == 1)
                p->end = PAYLOAD_END_EXIT;
        else if (sscanf(text, "trap:%d", &p->status) == 1)
                p->end = PAYLOAD_END_TRAP;
        else
                payload_cannot("understand --end");
}

static void parse_arguments(struct payload *p, int argc, char **argv) {
        static const struct option options[] = {
                { "report", required_argument, NULL, 'r' },
                { "end", required_argument, NULL, 'e' },
                { "life", required_argument, NULL, 'l' },
                { "mode", required_argument, NULL, 'm' },
                { "into", required_argument, NULL, 'i' },
                { "as-root", no_argument, NULL, 'R' },
                { "step-fd", required_argument, NULL, 's' },
                { NULL, 0, NULL, 0 },
        };
        int c;

        while ((c = getopt_long(argc, argv, "", options, NULL)) >= 0) {
                switch (c) {
                case 'r': p->report = optarg; break;
                case 'e': parse_end(p, optarg); break;
                case 'l': life_seconds = (unsigned)atoi(optarg); break;
                case 'm': p->mode = optarg; break;
                case 'i': p->into = optarg; break;
                case 'R': p->as_root = true; break;
                case 's': p->step_fd = atoi(optarg); break;
                default: exit(99);
                }
        }
}

void payload_begin(struct payload *p, int argc, char **argv) {
        *p = (struct payload){ .name = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0], .step_fd = -1 };
        parse_arguments(p, argc, argv);
        /* Every member inherits it: its last close is the kernel's word that none is left. */
        if (p->report)
                report_fd = open(p->report, O_WRONLY | O_NOCTTY);
        else
                report_fd = fcntl(STDERR_FILENO, F_DUPFD, 3); /* a daemon's stderr is soon another */
        if (report_fd < 0) {
                report_fd = STDERR_FILENO;
                payload_fail(p->report ? p->report : "stderr");
        }
        bound_life();
}

pid_t payload_fork(void) {
        pid_t pid = fork();

        if (pid < 0)
                payload_fail("fork");
        if (pid == 0)
                bound_life();
        return pid;
}

__attribute__((format(printf, 2, 0))) static void say(const char *word, const char *format, va_list arguments) {
        char line[2048];
        size_t used = (size_t)snprintf(line, sizeof(line), "%s", word);

        used += (size_t)vsnprintf(line + used, sizeof(line) - used, format, arguments);
        if (used > sizeof(line) - 2)
                used = sizeof(line) - 2;
        line[used++] = '\n';
        if (write(report_fd, line, used) != (ssize_t)used)
                _exit(99);
}

void payload_say(const char *format, ...) {
        va_list arguments;

        va_start(arguments, format);
        say("", format, arguments);
        va_end(arguments);
}

void payload_proof(const char *format, ...) {
        va_list arguments;

        va_start(arguments, format);
        say("proof ", format, arguments);
        va_end(arguments);
}

void payload_cannot(const char *what) {
        payload_say("cannot %s", what);
        exit(77);
}

void payload_fail(const char *what) {
        payload_say("failed %s: %s", what, strerror(errno));
        exit(99);
}

static void own_cgroup(pid_t pid, char *ret, size_t size) {
        char line[1024], path[64];
        FILE *file;

        snprintf(ret, size, "?");
        snprintf(path, sizeof(path), "/proc/%d/cgroup", pid);
        file = fopen(path, "re");
        if (!file)
                return;
        while (fgets(line, sizeof(line), file)) {
                if (strncmp(line, "0::", 3) == 0) {
                        line[strcspn(line, "\n")] = 0;
                        snprintf(ret, size, "%s", line + 3);
                }
        }
        fclose(file);
}

void payload_member(const char *role) {
        char cgroup[1024];

        own_cgroup(getpid(), cgroup, sizeof(cgroup));
        payload_say("member role=%s pid=%d ppid=%d sid=%d pgid=%d uid=%u cgroup=%s", role, getpid(), getppid(),
                getsid(0), getpgrp(), getuid(), cgroup);
}

void payload_member_other(const char *role, pid_t pid) {
        char cgroup[1024];

        own_cgroup(pid, cgroup, sizeof(cgroup));
        payload_say("member role=%s pid=%d ppid=%d sid=%d pgid=%d uid=%u cgroup=%s", role, pid, getpid(), getsid(pid),
                getpgid(pid), getuid(), cgroup);
}

void payload_step_make(struct payload_step *s) {
        if (pipe2(s->fd, O_CLOEXEC) < 0)
                payload_fail("pipe");
}

void payload_step_wait(struct payload_step *s) {
        char byte;

        close(s->fd[1]);
        if (read(s->fd[0], &byte, 1) != 1) {
                errno = EPIPE; /* the other side ended first, and has said why */
                payload_fail("handshake");
        }
        close(s->fd[0]);
}

void payload_step_done(struct payload_step *s) {
        close(s->fd[0]);
        if (write(s->fd[1], "x", 1) != 1)
                payload_fail("handshake");
        close(s->fd[1]);
}

static volatile sig_atomic_t trap_status;

static void on_trap(int number) {
        (void)number;
        _exit(trap_status);
}

void payload_wait(void) {
        for (;;)
                pause();
}

/* The harness's word comes through the FIFO beside the report; without one the root ends at once. */
static void wait_for_word(const struct payload *p) {
        char path[1024], byte;
        int fd;

        if (!p->report)
                return;
        snprintf(path, sizeof(path), "%s.go", p->report);
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        if (fd < 0 && errno == ENOENT)
                return;
        if (fd < 0 || read(fd, &byte, 1) != 1)
                payload_fail("word of the harness");
        close(fd);
}

void payload_finish(const struct payload *p) {
        if (p->end == PAYLOAD_END_TRAP) {
                trap_status = p->status;
                signal(SIGTERM, on_trap);
        }
        payload_say("ready");
        if (p->end == PAYLOAD_END_EXIT) {
                wait_for_word(p);
                _exit(p->status);
        }
        payload_wait();
}

/* Where cgroup2 is mounted, and which part of it: the fields of mountinfo before and after the dash. */
static void find_cgroup2(char *ret_root, char *ret_point, size_t size) {
        char line[4096], root[1024], point[1024], type[64];
        FILE *file = fopen("/proc/self/mountinfo", "re");

        if (!file)
                payload_fail("/proc/self/mountinfo");
        while (fgets(line, sizeof(line), file)) {
                const char *dash = strstr(line, " - ");

                if (!dash || sscanf(dash, " - %63s", type) != 1 || strcmp(type, "cgroup2") != 0)
                        continue;
                if (sscanf(line, "%*s %*s %*s %1023s %1023s", root, point) != 2)
                        continue;
                snprintf(ret_root, size, "%s", root);
                snprintf(ret_point, size, "%s", point);
                fclose(file);
                return;
        }
        fclose(file);
        payload_cannot("find a cgroup2 mount");
}

void payload_cgroup_directory(char *ret, size_t size, const char *below) {
        char root[1024], point[1024], own[1024];
        const char *relative = own;
        int n;

        find_cgroup2(root, point, sizeof(root));
        own_cgroup(getpid(), own, sizeof(own));
        if (strcmp(root, "/") != 0 && strncmp(own, root, strlen(root)) == 0)
                relative += strlen(root);
        if (strcmp(relative, "/") == 0)
                relative = "";
        n = snprintf(ret, size, "%s%s%s%s", point, relative, below ? "/" : "", below ? below : "");
        if (n < 0 || (size_t)n >= size)
                payload_cannot("hold a cgroup path of this length");
}

int payload_cgroup_write(const char *directory, const char *file, const char *word) {
        char path[4096];
        ssize_t n;
        int fd, r;

        snprintf(path, sizeof(path), "%s/%s", directory, file);
        fd = open(path, O_WRONLY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        n = write(fd, word, strlen(word));
        r = n < 0 ? -errno : 0;
        close(fd);
        return r;
}

void payload_cgroup_make(char *ret, size_t size, const char *below) {
        payload_cgroup_directory(ret, size, below);
        if (mkdir(ret, 0755) < 0) {
                if (errno == EACCES || errno == EROFS || errno == EPERM)
                        payload_cannot("make a cgroup below its own");
                payload_fail(ret);
        }
        payload_say("made %s", ret);
}

char payload_state_of(pid_t pid) {
        char path[64], text[512];
        const char *end;
        ssize_t n;
        int fd;

        snprintf(path, sizeof(path), "/proc/%d/stat", pid);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return '?';
        n = read(fd, text, sizeof(text) - 1);
        close(fd);
        if (n <= 0)
                return '?';
        text[n] = 0;
        end = strrchr(text, ')'); /* the name before it may hold anything */
        return end && end[1] == ' ' ? end[2] : '?';
}
