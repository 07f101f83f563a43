/* SPDX-License-Identifier: MIT */

/* The command of every tree here: RAN UNRECORDED [leave|ignore]. Before anything else it says that it ran, in the file RAN,
 * and looks for its own record, the directory of which is in $CGTREE_RECORDS; without one it says so in the file UNRECORDED.
 * Then it has a child in a session of its own, tells whoever reads its standard output, and stays, or leaves that child. */

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ID_LENGTH 16
#define LIFE_SEC  120

static void say(const char *file, const char *text) {
        int fd = open(file, O_WRONLY | O_APPEND | O_CLOEXEC);
        if (fd < 0 || write(fd, text, strlen(text)) < 0)
                _exit(99);
        close(fd);
}

/* The last component of its cgroup, in a tree of the placement subtree. */
static const char *id_of_cgroup(char *buffer, size_t size) {
        FILE *file = fopen("/proc/self/cgroup", "re");
        char *id = NULL;
        while (!id && file && fgets(buffer, (int)size, file))
                if (strncmp(buffer, "0::", 3) == 0)
                        id = strstr(buffer, "/trees/cgtree-") ? strrchr(buffer, '/') + 1 : NULL;
        if (file)
                fclose(file);
        return id;
}

/* The last id of its lineage, in a group. */
static const char *id_of_lineage(void) {
        const char *lineage = getenv("CGTREE_ID");
        const char *last = lineage ? strrchr(lineage, ':') : NULL;
        return last ? last + 1 : lineage;
}

static void look_for_record(const char *unrecorded) {
        char line[4096], path[4096];
        const char *id = id_of_cgroup(line, sizeof(line)), *records = getenv("CGTREE_RECORDS");
        if (!id)
                id = id_of_lineage();
        snprintf(path, sizeof(path), "%s/%.*s.json", records ? records : "", ID_LENGTH, id ? id : "?");
        if (access(path, F_OK) < 0)
                say(unrecorded, "one\n");
}

int main(int argc, char *argv[]) {
        if (argc < 3)
                return 2;
        alarm(LIFE_SEC);
        say(argv[1], "one\n");
        look_for_record(argv[2]);
        const char *way = argc > 3 ? argv[3] : "";
        if (strcmp(way, "ignore") == 0)
                signal(SIGTERM, SIG_IGN);
        if (fork() == 0) {
                setsid();
                alarm(LIFE_SEC);
                for (;;)
                        pause();
        }
        (void)!write(STDOUT_FILENO, "r", 1);
        close(STDOUT_FILENO);
        while (strcmp(way, "leave") != 0)
                pause();
        return 0;
}
