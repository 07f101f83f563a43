/* SPDX-License-Identifier: MIT */

/* (A) PREFIX true: from its start to its end, as a shell sees it. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench.h"

#define ROUNDS     400
#define SLOW_EVERY 8 /* what takes 20 ms has fewer turns */

enum place { HERE, IN_A_TREE, AS_A_USER, PLACES_MAX };

struct contender {
        const char *name;
        enum place place;
        bool slow;
        const char *argv[16];
        struct row *row;
};

/* "cgtree" stands for ours, "BUNDLE" for crun's. */
static struct contender contenders[] = {
        { "true, nothing before it", HERE, false, { "true" }, NULL },
        { "env", HERE, false, { "env", "true" }, NULL },
        { "setsid -w", HERE, false, { "setsid", "-w", "true" }, NULL },
        { "timeout 60", HERE, false, { "timeout", "60", "true" }, NULL },
        { "tini -s", HERE, false, { "tini", "-s", "--", "true" }, NULL },
        { "bwrap, a pid namespace", HERE, false,
                { "bwrap", "--dev-bind", "/", "/", "--unshare-pid", "--die-with-parent", "true" }, NULL },
        { "crun run", HERE, true, { "crun", "--cgroup-manager=disabled", "run", "--bundle", "BUNDLE", "cgtree-bench" },
                NULL },
        { "cgtree run, subtree", HERE, false, { "cgtree", "run", "-q", "--backend=subtree", "--", "true" }, NULL },
        { "cgtree run, inside an outer tree", IN_A_TREE, false,
                { "cgtree", "run", "-q", "--backend=subtree", "--", "true" }, NULL },
        { "cgtree run, group", HERE, false, { "cgtree", "run", "-q", "--backend=group", "--", "true" }, NULL },
        { "systemd-run --scope", HERE, true, { "systemd-run", "-q", "--scope", "true" }, NULL },
        { "systemd-run --user --scope, as a user", AS_A_USER, true,
                { "systemd-run", "--user", "-q", "--scope", "true" }, NULL },
        { "cgtree run, as a user", AS_A_USER, false, { "cgtree", "run", "-q", "--", "true" }, NULL },
        { "cgtree run, a scope, as a user", AS_A_USER, true, { "cgtree", "run", "-q", "--backend=scope", "--", "true" },
                NULL },
};

#define N_CONTENDERS (sizeof(contenders) / sizeof(*contenders))

static struct stand stands[PLACES_MAX];
static bool is_open[PLACES_MAX];

static char bundle[256];

/* As little of a container as there can be: our own root, a pid namespace. */
static void make_bundle(void) {
        (void)snprintf(bundle, sizeof(bundle), "%s/bundle", bench.directory);
        (void)mkdir(bundle, 0755);
        char path[300];
        (void)snprintf(path, sizeof(path), "%s/config.json", bundle);
        FILE *file = fopen(path, "we");
        if (!file)
                die("%s: %m", path);
        (void)fputs(
                "{\"ociVersion\": \"1.0.0\", \"root\": {\"path\": \"/\"}, \"mounts\": [], \"linux\": {\"namespaces\": "
                "[{\"type\": \"pid\"}, {\"type\": \"mount\"}]}, \"process\": {\"terminal\": false, \"cwd\": \"/\", "
                "\"args\": [\"/usr/bin/true\"], \"user\": {\"uid\": 0, \"gid\": 0}, "
                "\"env\": [\"PATH=/usr/bin:/bin\"]}}\n",
                file);
        (void)fclose(file);
}

static void put_paths(struct contender *contender) {
        for (size_t i = 0; contender->argv[i]; i++)
                if (strcmp(contender->argv[i], "cgtree") == 0)
                        contender->argv[i] = bench.cgtree;
                else if (strcmp(contender->argv[i], "BUNDLE") == 0)
                        contender->argv[i] = bundle;
}

static void open_stands(void) {
        const char *const none[] = { NULL };
        const char *const tree[] = { bench.cgtree, "run", "-q", "--backend=subtree", "--", NULL };
        static char build[4096];
        (void)snprintf(build, sizeof(build), "%s", bench.self);
        *strrchr(build, '/') = '\0';
        is_open[HERE] = stand_open(&stands[HERE], none) >= 0;
        is_open[IN_A_TREE] = stand_open(&stands[IN_A_TREE], tree) >= 0;
        if (!bench.userhost)
                return;
        char *top = getenv("BENCH_SHARE");
        static char libexec[4200];
        const char *known = getenv("CGTREE_LIBEXEC");
        (void)snprintf(libexec, sizeof(libexec), "CGTREE_LIBEXEC=%s", known ? known : "");
        const char *const user[] = { bench.userhost, "--share", top ? top : build, "--", "env", "-u", "CGTREE_RECORDS",
                libexec, NULL };
        is_open[AS_A_USER] = stand_open(&stands[AS_A_USER], user) >= 0;
}

static bool run_once(const struct contender *contender, struct run_result *ret_result) {
        struct stand *stand = &stands[contender->place];
        return stand_run(stand, contender->argv, ret_result) >= 0 && ret_result->status == 0;
}

static struct row *row_of(const char *name) {
        for (size_t i = 0; i < N_CONTENDERS; i++)
                if (strcmp(contenders[i].name, name) == 0)
                        return contenders[i].row;
        return NULL;
}

static void expect(struct table *table) {
        double subtree = row_median(row_of("cgtree run, subtree")), timeout = row_median(row_of("timeout 60")),
               env = row_median(row_of("env")), scope = row_median(row_of("systemd-run --scope")),
               user_scope = row_median(row_of("systemd-run --user --scope, as a user"));
        table_expect(table, "subtree / timeout", subtree / timeout, false, 1.1);
        table_expect(table, "subtree / env", subtree / env, false, 1.4);
        table_expect(table, "systemd-run --scope / subtree", scope / subtree, true, 4);
        table_expect(table, "systemd-run --user --scope / subtree", user_scope / subtree, true, 4);
        table_expect(table, "as a user / systemd-run --user --scope",
                row_median(row_of("cgtree run, as a user")) / user_scope, false, 1.1);
        table_expect(table, "a scope / systemd-run --user --scope",
                row_median(row_of("cgtree run, a scope, as a user")) / user_scope, false, 1.1);
}

void part_prefix(void) {
        struct table *table = table_new("A", "PREFIX true", "us");
        struct run_result result;
        bool usable[N_CONTENDERS];
        make_bundle();
        open_stands();
        for (size_t i = 0; i < N_CONTENDERS; i++) {
                struct contender *contender = &contenders[i];
                put_paths(contender);
                contender->row = table_row(table, "%s", contender->name);
                /* Twice: the first brings everything into memory. */
                usable[i] = is_open[contender->place] && run_once(contender, &result) && run_once(contender, &result);
        }
        unsigned rounds = repeats(ROUNDS, 10);
        for (unsigned round = 0; round < rounds; round++)
                for (size_t i = 0; i < N_CONTENDERS; i++) {
                        struct contender *contender = &contenders[(i + round) % N_CONTENDERS];
                        if (!usable[contender - contenders] || (contender->slow && round % SLOW_EVERY != 0))
                                continue;
                        if (!run_once(contender, &result))
                                die("%s: ended with status %d", contender->name, result.status);
                        row_add(contender->row, (double)result.wall_nsec / 1000);
                        row_add_cpu(contender->row, (double)result.cpu_nsec / 1000);
                }
        for (int i = 0; i < PLACES_MAX; i++)
                if (is_open[i])
                        stand_close(&stands[i]);
        table_set_reference(table, row_of("timeout 60"));
        expect(table);
        table_print(table);
}
