/* SPDX-License-Identifier: MIT */

/* How long it takes, beside what it could be compared with. The contenders take turns within one run, so that noise meets
 * all of them alike; what counts is the ratio of medians. */

#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

static const char usage[] =
        "Usage: bench [--parts=LETTERS] [--scale=FACTOR] [--json=FILE]\n"
        "  A a prefix   B the library   C ending a tree   D death of the owner   E sweep and watch   F memory\n"
        "  --scale: of the repeats, 1 by default. $CGTREE, $BENCH_PAYLOAD, $BENCH_USERHOST: the programs.\n";

struct bench bench = { .scale = 1 };

static const struct {
        char letter;
        void (*run)(void);
} parts[] = {
        { 'A', part_prefix },
        { 'B', part_library },
        { 'C', part_ending },
        { 'D', part_owner_death },
        { 'E', part_sweep },
        { 'F', part_memory },
};

void die(const char *template, ...) {
        va_list arguments;
        va_start(arguments, template);
        (void)fputs("bench: ", stderr);
        (void)vfprintf(stderr, template, arguments);
        (void)fputc('\n', stderr);
        va_end(arguments);
        exit(1);
}

uint64_t now_nsec(void) {
        struct timespec now;
        (void)clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

unsigned repeats(unsigned n, unsigned least) {
        double scaled = n * bench.scale;
        return scaled < least ? least : (unsigned)scaled;
}

static void describe_machine(void) {
        struct utsname machine;
        double load = 0;
        (void)uname(&machine);
        (void)getloadavg(&load, 1);
        printf("Linux %s, %s, %ld CPUs, load %.1f\n", machine.release, machine.machine, sysconf(_SC_NPROCESSORS_ONLN),
                load);
        if (load > 1)
                note("the machine is not idle (load %.1f): figures are larger, and p99 is the others'", load);
}

static char directory[] = "/tmp/cgtree-bench-XXXXXX";

/* Also when we are killed: an orphan, no child that part D would wait for, sees our end by that of a pipe. */
static void start_remover(void) {
        int alive[2];
        char command[64], byte;
        if (pipe2(alive, O_CLOEXEC) < 0)
                die("pipe: %m");
        pid_t pid = fork();
        if (pid != 0) {
                (void)close(alive[0]);
                (void)waitpid(pid, NULL, 0);
                return;
        }
        if (fork() != 0)
                _exit(0);
        (void)setsid();
        (void)close(alive[1]);
        (void)!read(alive[0], &byte, 1);
        (void)snprintf(command, sizeof(command), "rm -rf %s", directory);
        (void)execl("/bin/sh", "sh", "-c", command, NULL);
        _exit(1);
}

static void prepare(const char *self) {
        static char path[PATH_MAX];
        struct rlimit limit;
        if (!realpath(self, path))
                die("%s: %m", self);
        (void)unsetenv("LD_LIBRARY_PATH"); /* a test runner's; the programs find what they need */
        bench.self = path;
        bench.cgtree = getenv("CGTREE");
        bench.payload = getenv("BENCH_PAYLOAD");
        bench.userhost = getenv("BENCH_USERHOST");
        if (getrlimit(RLIMIT_NOFILE, &limit) >= 0) {
                limit.rlim_cur = limit.rlim_max;
                (void)setrlimit(RLIMIT_NOFILE, &limit);
        }
}

static void make_records_directory(void) {
        char *records;
        if (!mkdtemp(directory))
                die("%s: %m", directory);
        bench.directory = directory;
        start_remover();
        if (asprintf(&records, "%s/records", directory) < 0 || setenv("CGTREE_RECORDS", records, 1) < 0)
                die("out of memory");
        free(records);
}

int main(int argc, char *argv[]) {
        static const struct option options[] = {
                { "parts", required_argument, NULL, 'p' },
                { "scale", required_argument, NULL, 's' },
                { "json", required_argument, NULL, 'j' },
                { 0 },
        };
        const char *wanted = "ABCDEF", *json = NULL;
        prepare("/proc/self/exe");
        if (argc > 1 && strcmp(argv[1], "--stand") == 0)
                return program_stand();
        if (argc > 1 && strcmp(argv[1], "--library-stand") == 0)
                return library_stand(argc - 1, argv + 1);
        if (argc > 1 && strcmp(argv[1], "--death-stand") == 0)
                return death_stand(argc - 1, argv + 1);
        for (int option; (option = getopt_long(argc, argv, "", options, NULL)) >= 0;)
                if (option == 'p')
                        wanted = optarg;
                else if (option == 's')
                        bench.scale = strtod(optarg, NULL);
                else if (option == 'j')
                        json = optarg;
                else
                        return fputs(usage, stderr) < 0 ? 1 : 2;
        if (bench.scale <= 0 || optind < argc)
                return fputs(usage, stderr) < 0 ? 1 : 2;
        if (!bench.cgtree || !bench.payload)
                die("$CGTREE and $BENCH_PAYLOAD are to name the programs");
        make_records_directory();
        describe_machine();
        for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
                if (strchr(wanted, parts[i].letter))
                        parts[i].run();
        if (json)
                tables_write_json(json);
        return 0;
}
