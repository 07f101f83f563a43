/* caller [OPTIONS] COMMAND...: executes COMMAND as a caller of a given kind would:
 *   --cgroup=DIR   from inside that cgroup          --ignore=N  with signal N ignored
 *   --block=N      with signal N blocked            --tty=PATH  as leader of a session with that terminal
 *   --nofile=N     with that soft limit             --session   as leader of a new session
 *   --fd=N:PATH    with PATH open as N, not close-on-exec
 *   --uid=N        as that user, wholly
 *   --answer-clone3=ERRNO  under a seccomp filter that lets clone3 fail with ERRNO */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static void fail(const char *what) {
        fprintf(stderr, "caller: %s: %s\n", what, strerror(errno));
        exit(99);
}

static void enter_cgroup(const char *directory) {
        char path[4096];
        int fd;

        snprintf(path, sizeof(path), "%s/cgroup.procs", directory);
        fd = open(path, O_WRONLY | O_CLOEXEC);
        if (fd < 0 || write(fd, "0", 1) != 1)
                fail(path);
        close(fd);
}

static void block_signal(int number) {
        sigset_t set;

        sigemptyset(&set);
        sigaddset(&set, number);
        if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
                fail("sigprocmask");
}

static void take_terminal(const char *path) {
        int fd;

        if (setsid() < 0)
                fail("setsid");
        fd = open(path, O_RDWR | O_NOCTTY);
        if (fd < 0 || ioctl(fd, TIOCSCTTY, 0) < 0)
                fail(path);
        for (int i = 0; i < 3; i++)
                dup2(fd, i);
        if (fd > 2)
                close(fd);
}

static void open_as(const char *text) {
        const char *path = strchr(text, ':');
        int fd, wanted = atoi(text);

        if (!path)
                exit(99);
        fd = open(path + 1, O_RDWR | O_CREAT, 0600);
        if (fd < 0)
                fail(path + 1);
        if (fd != wanted) {
                if (dup2(fd, wanted) < 0)
                        fail("dup2");
                close(fd);
        }
}

static void limit_descriptors(unsigned long limit) {
        struct rlimit now;

        if (getrlimit(RLIMIT_NOFILE, &now) < 0)
                fail("getrlimit");
        now.rlim_cur = limit;
        if (setrlimit(RLIMIT_NOFILE, &now) < 0)
                fail("setrlimit");
}

static void become_user(unsigned uid) {
        if (setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0)
                fail("setresuid");
}

static void filter_clone3(unsigned error) {
        struct sock_filter code[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (error & SECCOMP_RET_DATA)),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog program = { .len = sizeof(code) / sizeof(code[0]), .filter = code };

        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
                fail("seccomp");
}

int main(int argc, char **argv) {
        static const struct option options[] = {
                { "cgroup", required_argument, NULL, 'c' },
                { "ignore", required_argument, NULL, 'i' },
                { "block", required_argument, NULL, 'b' },
                { "tty", required_argument, NULL, 't' },
                { "session", no_argument, NULL, 's' },
                { "fd", required_argument, NULL, 'f' },
                { "nofile", required_argument, NULL, 'n' },
                { "uid", required_argument, NULL, 'u' },
                { "answer-clone3", required_argument, NULL, 'a' },
                { NULL, 0, NULL, 0 },
        };
        int c;

        while ((c = getopt_long(argc, argv, "+", options, NULL)) >= 0) {
                switch (c) {
                case 'c': enter_cgroup(optarg); break;
                case 'i': signal(atoi(optarg), SIG_IGN); break;
                case 'b': block_signal(atoi(optarg)); break;
                case 't': take_terminal(optarg); break;
                case 's': setsid(); break;
                case 'f': open_as(optarg); break;
                case 'n': limit_descriptors(strtoul(optarg, NULL, 10)); break;
                case 'u': become_user((unsigned)atoi(optarg)); break;
                case 'a': filter_clone3((unsigned)atoi(optarg)); break;
                default: return 99;
                }
        }
        if (optind >= argc)
                return 99;
        execvp(argv[optind], argv + optind);
        fail(argv[optind]);
}
