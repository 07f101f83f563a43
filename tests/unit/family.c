/* SPDX-License-Identifier: MIT */

/* A root with members that are hard to find or to end: `family MODE [NUMBER]`. Every member holds descriptor
 * FAMILY_LIFE, the writing end of a pipe: its end of file is the kernel's word that none is left. Once the mode's
 * members are what they are to be, "ready" is written to it. Nobody lives for longer than a minute. */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "family.h"

#define LIFE_SECONDS 60

static char **arguments;
static int leash = -1;

static void die(const char *what) {
        dprintf(FAMILY_LIFE, "failed: %s: %s\n", what, strerror(errno));
        _exit(99);
}

static void say(const char *word) {
        if (write(FAMILY_LIFE, word, strlen(word)) < 0)
                _exit(99);
}

/* KILL, not alarm(): most of them would not hear that. */
static void bound_life(void) {
        struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL };
        struct itimerspec after = { .it_value.tv_sec = LIFE_SECONDS };
        timer_t timer;

        if (timer_create(CLOCK_MONOTONIC, &event, &timer) < 0 || timer_settime(timer, 0, &after, NULL) < 0)
                die("timer");
}

/* Until a signal ends it; or until the leash, where there is one, has lost its other end. */
static void stay(void) __attribute__((noreturn));
static void stay(void) {
        struct pollfd end = { .fd = leash };

        for (;;)
                if (poll(&end, 1, -1) > 0)
                        _exit(0);
}

/* Returns in the child once it is bound; in the parent when the child has said "here" through the pipe that it holds.
 */
static pid_t grow(int *ret_said) {
        int said[2];
        pid_t pid;

        if (pipe2(said, O_CLOEXEC) < 0)
                die("pipe");
        pid = fork();
        if (pid < 0)
                die("fork");
        if (pid == 0) {
                close(said[0]);
                bound_life();
        } else
                close(said[1]);
        *ret_said = said[pid == 0];
        return pid;
}

/* The child is, or has done, what it was to be; or is dead. */
static void await(int said) {
        char byte;

        while (read(said, &byte, 1) < 0 && errno == EINTR)
                continue;
        close(said);
}

static void here(int said) {
        if (write(said, "", 1) < 0)
                _exit(99);
        close(said);
}

static void grow_plain(void) {
        int said;

        if (grow(&said) == 0) {
                here(said);
                stay();
        }
        await(said);
}

static void grow_setsid(void) {
        int said;

        if (grow(&said) == 0) {
                if (setsid() < 0)
                        die("setsid");
                here(said);
                stay();
        }
        await(said);
}

static void grow_daemon(void) {
        int said;
        pid_t pid = grow(&said);

        if (pid == 0) {
                if (setsid() < 0)
                        die("setsid");
                if (fork() != 0)
                        _exit(0);
                bound_life();
                here(said);
                stay();
        }
        await(said);
        waitpid(pid, NULL, 0);
}

static void grow_ignorer(void) {
        int said;

        if (grow(&said) == 0) {
                for (int number = 1; number < 32; number++)
                        signal(number, SIG_IGN);
                setsid();
                here(said);
                stay();
        }
        await(said);
}

static void *stay_in_thread(void *said) {
        here(*(int *)said);
        stay();
}

/* An orphan whose main thread has exited. */
static void grow_dead_leader(void) {
        static int said;
        pthread_t thread;
        pid_t pid = grow(&said);

        if (pid == 0) {
                setsid();
                signal(SIGTERM, SIG_IGN);
                if (fork() != 0)
                        _exit(0);
                bound_life();
                if (pthread_create(&thread, NULL, stay_in_thread, &said) != 0)
                        die("thread");
                syscall(SYS_exit, 0);
        }
        await(said);
        waitpid(pid, NULL, 0);
}

static void grow_stopped(void) {
        int said;
        pid_t pid = grow(&said);

        if (pid == 0) {
                setsid();
                raise(SIGSTOP);
                _exit(0);
        }
        if (waitpid(pid, NULL, WUNTRACED) != pid)
                die("waitpid");
        close(said);
}

/* Executes itself anew without any environment; which closes `said`. */
static void be_nameless(void) {
        char *argv[] = { arguments[0], strdup("silent"), NULL }, *envp[] = { NULL };

        execve("/proc/self/exe", argv, envp);
        die("execve");
}

static void grow_nameless_child(void) {
        int said;

        if (grow(&said) == 0) {
                setsid();
                be_nameless();
        }
        await(said);
}

/* An orphan without a name. */
static void grow_nameless(void) {
        int said;
        pid_t pid = grow(&said);

        if (pid == 0) {
                setsid();
                if (fork() != 0)
                        _exit(0);
                be_nameless();
        }
        await(said);
        waitpid(pid, NULL, 0);
}

/* A subreaper of its own, with an orphan. */
static void grow_subreaper(void) {
        int said;

        if (grow(&said) == 0) {
                if (prctl(PR_SET_CHILD_SUBREAPER, 1L) < 0)
                        die("subreaper");
                setsid();
                grow_daemon();
                here(said);
                stay();
        }
        await(said);
}

static void *grow_in_thread(void *said) {
        grow_plain();
        here(*(int *)said);
        stay();
}

static void grow_threaded_parent(void) {
        static int said;
        pthread_t thread;

        if (grow(&said) == 0) {
                if (pthread_create(&thread, NULL, grow_in_thread, &said) != 0)
                        die("thread");
                stay();
        }
        await(said);
}

static void grow_nest(int depth) {
        int said;

        if (depth == 0)
                return;
        if (grow(&said) == 0) {
                setsid();
                grow_nest(depth - 1);
                here(said);
                stay();
        }
        await(said);
}

/* Each generation forks and exits, in a session of its own; nobody lives for more than some hundred microseconds. */
static void run_chain(int said) {
        struct timespec began, now;
        int generation = 0;

        clock_gettime(CLOCK_MONOTONIC, &began);
        for (;;) {
                pid_t pid = fork();

                if (pid > 0)
                        _exit(0);
                setsid();
                if (++generation == 20)
                        here(said);
                clock_gettime(CLOCK_MONOTONIC, &now);
                if (pid < 0 || now.tv_sec - began.tv_sec > 20)
                        _exit(0);
        }
}

static void grow_chains(int n) {
        for (int i = 0; i < n; i++) {
                int said;
                pid_t pid = grow(&said);

                if (pid == 0)
                        run_chain(said);
                await(said);
                waitpid(pid, NULL, 0);
        }
}

/* Everybody forks, in sessions of their own and as orphans, until N were born: half of them before "ready", the others
 * while the bomb is being ended. */
static void explode(atomic_int *born, int n) {
        while (atomic_load(born) < n) {
                int number = atomic_fetch_add(born, 1);
                pid_t pid = fork();

                if (pid < 0)
                        break;
                if (pid == 0) {
                        bound_life();
                        setsid();
                } else if (number % 3 == 0)
                        _exit(0);
        }
        stay();
}

static void grow_bomb(int n) {
        atomic_int *born = mmap(NULL, sizeof(*born), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        struct timespec nap = { .tv_nsec = 200000 };

        if (born == MAP_FAILED)
                die("mmap");
        if (fork() == 0)
                explode(born, n);
        while (atomic_load(born) < n / 2)
                nanosleep(&nap, NULL);
}

static void grow_all(void) {
        grow_plain();
        grow_setsid();
        grow_daemon();
        grow_ignorer();
        grow_dead_leader();
        grow_stopped();
        grow_nameless();
        grow_subreaper();
        grow_threaded_parent();
        grow_nest(5);
}

/* Exits with the first key that is typed. */
static void read_terminal(void) {
        int terminal = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
        unsigned char key;

        say("ready\n");
        if (read(terminal, &key, 1) != 1)
                die("read");
        _exit(key);
}

static void grow_regicide(void) {
        if (kill(getppid(), SIGKILL) < 0)
                die("kill");
        grow_daemon();
}

/* A job of its own that has the terminal. */
static void grow_terminal(void) {
        int said, terminal = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
        pid_t pid = grow(&said);

        if (pid == 0) {
                here(said);
                stay();
        }
        setpgid(pid, pid);
        if (tcsetpgrp(terminal, pid) < 0)
                die("tcsetpgrp");
        await(said);
}

int main(int argc, char *argv[]) {
        static const struct {
                const char *mode;
                void (*grow)(void);
                void (*grow_number)(int number);
        } modes[] = {
                { "stay", NULL, NULL },
                { "plain", grow_plain, NULL },
                { "setsid", grow_setsid, NULL },
                { "daemon", grow_daemon, NULL },
                { "ignorer", grow_ignorer, NULL },
                { "dead-leader", grow_dead_leader, NULL },
                { "stopped", grow_stopped, NULL },
                { "nameless", grow_nameless, NULL },
                { "subreaper", grow_subreaper, NULL },
                { "threaded-parent", grow_threaded_parent, NULL },
                { "nameless-child", grow_nameless_child, NULL },
                { "regicide", grow_regicide, NULL },
                { "terminal", grow_terminal, NULL },
                { "reader", read_terminal, NULL },
                { "all", grow_all, NULL },
                { "nest", NULL, grow_nest },
                { "chains", NULL, grow_chains },
                { "bomb", NULL, grow_bomb },
        };
        int number = argc > 2 ? atoi(argv[2]) : 0;

        arguments = argv;
        if (fcntl(FAMILY_LEASH, F_GETFD) >= 0)
                leash = FAMILY_LEASH;
        bound_life();
        if (argc > 1 && strcmp(argv[1], "silent") == 0)
                stay();
        if (argc > 1 && strcmp(argv[1], "exit") == 0)
                return number;
        if (argc > 1 && strcmp(argv[1], "die") == 0)
                raise(number);
        for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++) {
                if (argc < 2 || strcmp(argv[1], modes[i].mode) != 0)
                        continue;
                if (modes[i].grow)
                        modes[i].grow();
                if (modes[i].grow_number)
                        modes[i].grow_number(number);
                say("ready\n");
                if (argc > 2 && strcmp(argv[argc - 1], "leave") == 0)
                        return 7;
                stay();
        }
        return 98;
}
