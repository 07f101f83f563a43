/* Prints on stdout what a program is born with, a line for each thing, so that a birth through the tool can be compared
 * with a plain exec's. */
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static void tell_descriptors(void) {
        DIR *directory = opendir("/proc/self/fd");
        const struct dirent *entry;

        if (!directory)
                exit(99);
        while ((entry = readdir(directory))) {
                int fd = atoi(entry->d_name);
                char target[4096];
                ssize_t n;

                if (entry->d_name[0] == '.' || fd == dirfd(directory))
                        continue;
                n = readlinkat(dirfd(directory), entry->d_name, target, sizeof(target) - 1);
                target[n > 0 ? n : 0] = 0;
                printf("fd %d flags=%#x %s\n", fd, (unsigned)fcntl(fd, F_GETFL), target);
        }
        closedir(directory);
}

static void tell_status(void) {
        static const char *const wanted[] = { "Umask:", "Uid:", "Gid:", "Groups:", "SigBlk:", "SigIgn:", "SigCgt:",
                "CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:", "NoNewPrivs:", "Seccomp:", "Cpus_allowed:" };
        FILE *file = fopen("/proc/self/status", "re");
        char line[4096];

        if (!file)
                exit(99);
        while (fgets(line, sizeof(line), file))
                for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
                        if (strncmp(line, wanted[i], strlen(wanted[i])) == 0)
                                printf("status %s", line);
        fclose(file);
}

static void tell_limits(void) {
        for (int i = 0; i < RLIM_NLIMITS; i++) {
                struct rlimit limit;

                if (getrlimit((__rlimit_resource_t)i, &limit) == 0)
                        printf("limit %d %llu %llu\n", i, (unsigned long long)limit.rlim_cur,
                                (unsigned long long)limit.rlim_max);
        }
}

int main(int argc, char **argv) {
        int death_signal = 0, subreaper = 0;
        char cwd[4096];

        tell_descriptors();
        tell_status();
        tell_limits();
        printf("cwd %s\n", getcwd(cwd, sizeof(cwd)) ? cwd : "?");
        prctl(PR_GET_PDEATHSIG, &death_signal);
        prctl(PR_GET_CHILD_SUBREAPER, &subreaper);
        printf("death-signal %d\nsubreaper %d\n", death_signal, subreaper);
        printf("dumpable %d\nkeepcaps %d\ntimerslack %d\nsecurebits %d\n", prctl(PR_GET_DUMPABLE),
                prctl(PR_GET_KEEPCAPS), prctl(PR_GET_TIMERSLACK), prctl(PR_GET_SECUREBITS));
        printf("nice %d\nscheduler %d\n", getpriority(PRIO_PROCESS, 0), sched_getscheduler(0));
        for (int i = 0; i < argc; i++)
                printf("argument %d %s\n", i, argv[i]);
        for (char **e = environ; *e; e++)
                printf("environment %s\n", *e);
        printf("session leader=%d\ngroup leader=%d\nforeground=%d\n", getsid(0) == getpid(), getpgrp() == getpid(),
                tcgetpgrp(0) == getpgrp());
        return 0;
}
