/* SPDX-License-Identifier: MIT */

/* Crash points: an owner, a helper of it, or a sweep is SIGKILLed at every entry to a system call and every return from it, a
 * fresh one for each point. Then nothing may be left, no process, no cgroup, no record, and no command may ever have run that no
 * record named.
 *
 *     crash [--all] WITNESS CGTREE [WORD...]    WORDs choose the plans whose names have them all
 *
 * Without --all every point of one scene in each placement, and some 60 of each of the others; with it all, but of those
 * who look at every process there is some 1,500. Exit status: 0 no loss, 1 losses (each
 * is named), 77 no cgroups to be had here. */

#include <getopt.h>

#include "../unit/cgroups.h"
#include "ground.h"
#include "scenes.h"
#include "trace.h"

/* Who is killed, and who is left to clear up. */
enum kind {
        KIND_OWNER,       /* its helper lives */
        KIND_OWNER_ALONE, /* its helpers are killed before it: one sweep */
        KIND_HELPER,      /* the owner goes on to its end */
        KIND_HELPER_TOO,  /* the owner is killed right after it: one sweep */
        KIND_SWEEP,       /* the next sweep */
};

struct plan {
        const char *name;
        enum kind kind;
        struct scene scene;
        const char *helper;
        bool is_quick; /* every point, also without --all */
};

#define POINTS_MAX       1500
#define QUICK_POINTS_MAX 60

#define SUBTREE CGTREE_PLACEMENT_SUBTREE
#define GROUP   CGTREE_PLACEMENT_GROUP

static const struct plan plans[] = {
        { "owner subtree life", KIND_OWNER, { scene_life, SUBTREE, false }, NULL, false },
        { "owner group life", KIND_OWNER, { scene_life, GROUP, false }, NULL, false },
        { "owner subtree teardown", KIND_OWNER, { scene_teardown, SUBTREE, false }, NULL, true },
        { "owner group teardown", KIND_OWNER, { scene_teardown, GROUP, false }, NULL, true },
        { "owner subtree run", KIND_OWNER, { scene_run, SUBTREE, false }, NULL, false },
        { "owner group run", KIND_OWNER, { scene_run, GROUP, false }, NULL, false },
        { "owner+helper subtree life", KIND_OWNER_ALONE, { scene_life, SUBTREE, false }, NULL, false },
        { "owner+helper group life", KIND_OWNER_ALONE, { scene_life, GROUP, false }, NULL, false },
        { "owner+helper subtree run", KIND_OWNER_ALONE, { scene_run, SUBTREE, false }, NULL, false },
        { "owner+helper group run", KIND_OWNER_ALONE, { scene_run, GROUP, false }, NULL, false },
        { "guard subtree life", KIND_HELPER, { scene_life, SUBTREE, false }, "cgtree-guard", false },
        { "guard+owner subtree orphan", KIND_HELPER_TOO, { scene_orphan, SUBTREE, false }, "cgtree-guard", false },
        { "reaper group life", KIND_HELPER, { scene_life, GROUP, true }, "cgtree-reaper", false },
        { "reaper+owner group orphan", KIND_HELPER_TOO, { scene_orphan, GROUP, false }, "cgtree-reaper", false },
        { "sweep subtree", KIND_SWEEP, { scene_keeper, SUBTREE, false }, NULL, false },
        { "sweep group", KIND_SWEEP, { scene_keeper, GROUP, false }, NULL, false },
};
#define N_PLANS (sizeof(plans) / sizeof(plans[0]))

struct tally {
        size_t n_stops; /* of a run that nobody disturbed */
        size_t n_points, n_losses;
        size_t n_early; /* nobody was there yet to clear up: empty directories were left to the sweep */
        uint64_t usec;
};

/* ---- one point -------------------------------------------------------------------------------------------------- */

static void lose(struct tally *tally, const struct plan *plan, const struct stop *stop, const char *text) {
        tally->n_losses++;
        printf("LOST %s, stop %zu (%s system call %ld): %s\n", plan->name, stop->number,
                stop->entry ? "before" : "after", stop->syscall, text);
        ground_clear();
}

static void count_decision(void *userdata, const char *id, const char *decision, const char *reason) {
        (void)id, (void)decision, (void)reason;
        ++*(size_t *)userdata;
}

/* One sweep leaves nothing; the next finds nothing to do. */
static char *sweep(void) {
        size_t n_decisions = 0;
        setenv("CGTREE_BASE", ground.trees.path, 1);
        int r = cgtree_sweep(ground.records, false, 10 * USEC_PER_SEC, NULL, NULL);
        if (r >= 0 && ground_age_unfinished() > 0)
                r = cgtree_sweep(ground.records, false, 10 * USEC_PER_SEC, NULL, NULL);
        if (r < 0)
                return format("the sweep says %d", r);
        char *left = ground_wait_clean(); /* nobody removes anything any more; the dead may need a moment */
        if (left)
                return left;
        r = cgtree_sweep(ground.records, false, 10 * USEC_PER_SEC, count_decision, &n_decisions);
        return r != 0 || n_decisions > 0 ? format("the second sweep says %d", r) : NULL;
}

static char *look(const struct plan *plan, struct tally *tally, bool unguarded) {
        if (plan->kind != KIND_OWNER && plan->kind != KIND_HELPER)
                return sweep();
        if (!unguarded)
                return ground_wait_clean();
        /* Where there was no helper yet nothing has run, so that nothing but empty directories may be there. */
        if (!ground_has_directories_alone())
                return ground_left();
        tally->n_early++;
        return sweep();
}

static int strike(const struct plan *plan, struct trace *trace, const struct stop *stop) {
        switch (plan->kind) {
        case KIND_OWNER:
        case KIND_SWEEP: return trace_kill(trace);
        case KIND_OWNER_ALONE: ground_helpers(NULL, true); return trace_kill(trace);
        case KIND_HELPER: {
                int r = trace_kill_stopped(trace, stop);
                return r < 0 ? r : trace_finish(trace);
        }
        case KIND_HELPER_TOO:
        default: {
                int r = trace_kill(
                        trace); /* first, lest it starts another; the helper is stopped and sees nothing of it */
                return r < 0 ? r : trace_kill_stopped(trace, stop);
        }
        }
}

/* An orphaned tree for a sweep. */
static int prepare(const struct plan *plan) {
        if (plan->kind != KIND_SWEEP)
                return 0;
        pid_t pid = fork();
        if (pid == 0)
                _exit(plan->scene.run((void *)&plan->scene));
        for (uint64_t until = now_usec() + 10 * USEC_PER_SEC; !ground_has_run() && now_usec() < until;)
                usleep(200);
        (void)kill(pid, SIGSTOP);
        int status;
        (void)waitpid(pid, &status, WUNTRACED);
        ground_helpers(NULL, true);
        (void)kill(pid, SIGKILL);
        return waitpid(pid, &status, 0) == pid && ground_has_run() ? 0 : -ECHILD;
}

/* True: there is such a point. */
static bool try_point(const struct plan *plan, size_t number, struct tally *tally) {
        struct trace trace;
        struct stop stop = { .number = number };
        int r = prepare(plan);
        if (r >= 0)
                r = plan->kind == KIND_SWEEP ? trace_begin(&trace, scene_sweep, NULL, NULL)
                                             : trace_begin(&trace, plan->scene.run, (void *)&plan->scene, plan->helper);
        if (r < 0) {
                lose(tally, plan, &stop, strerror(-r));
                return false;
        }
        r = trace_run(&trace, number, &stop);
        bool is_there = r >= 0 && stop.number > 0, unguarded = false;
        if (is_there) {
                unguarded = plan->kind == KIND_OWNER && !ground_has_run() && ground_helpers(NULL, false) == 0;
                tally->n_points++;
                r = strike(plan, &trace, &stop);
        }
        if (number == SIZE_MAX)
                tally->n_stops = trace.n_stops;
        int status = trace.status;
        trace_done(&trace);
        if (plan->kind == KIND_HELPER_TOO)
                ground_helpers(NULL, true); /* it may have been one of two */
        fflush(stderr);
        bool ends_well = !is_there || plan->kind == KIND_HELPER;
        bool kills_itself = plan->kind == KIND_HELPER_TOO;
        _cleanup_free_ char *left = r < 0 ? strdup(strerror(-r)) : NULL;
        if (!left && ends_well && status != (kills_itself ? SIGKILL : 0))
                left = format("it ended with wait status %#x", (unsigned)status);
        if (!left)
                left = is_there ? look(plan, tally, unguarded) : ground_wait_clean();
        size_t n_unrecorded = ground_unrecorded();
        if (!left && n_unrecorded > 0)
                left = format("%zu ran without a record", n_unrecorded);
        if (left)
                lose(tally, plan, &stop, left);
        return is_there;
}

/* ---- all points ------------------------------------------------------------------------------------------------- */

/* Entries and returns in turn. */
static size_t stride_of(size_t n_stops, size_t n_wanted) {
        return n_stops <= n_wanted ? 1 : (n_stops / n_wanted) | 1;
}

static struct tally run_plan(const struct plan *plan, bool every) {
        struct tally tally = { 0 };
        uint64_t began = now_usec();
        (void)try_point(plan, SIZE_MAX, &tally);
        size_t stride = stride_of(tally.n_stops, every || plan->is_quick ? POINTS_MAX : QUICK_POINTS_MAX);
        /* No two runs are the same: one may end earlier, or later. */
        for (size_t number = 1; try_point(plan, number, &tally) || number < tally.n_stops; number += stride)
                ;
        tally.usec = now_usec() - began;
        printf("%-28s %5zu points of %5zu, %zu losses, %4zu before its helper was there, %6.1f s\n", plan->name,
                tally.n_points, tally.n_stops, tally.n_losses, tally.n_early, (double)tally.usec / 1e6);
        fflush(stdout);
        return tally;
}

static bool is_chosen(const struct plan *plan, char *words[]) {
        for (; *words; words++)
                if (!strstr(plan->name, *words))
                        return false;
        return true;
}

static int run_plans(bool every, char *words[]) {
        struct tally all = { 0 };
        int r = ground_enter();
        if (r < 0) {
                printf("the ground cannot be entered: %s\n", strerror(-r));
                return 1;
        }
        setenv("CGTREE_RECORDS", ground.records, 1);
        for (size_t i = 0; i < N_PLANS; i++) {
                struct tally tally = { 0 };
                if (is_chosen(&plans[i], words))
                        tally = run_plan(&plans[i], every);
                all.n_points += tally.n_points;
                all.n_losses += tally.n_losses;
                all.usec += tally.usec;
        }
        printf("crash: %zu points, %zu losses, %.1f s\n", all.n_points, all.n_losses, (double)all.usec / 1e6);
        return all.n_losses > 0 || all.n_points == 0;
}

static pid_t worker;

static void stop_worker(int number) {
        (void)number;
        (void)kill(worker, SIGKILL);
}

/* The children run in a cgroup that is to be removed: its maker stays outside. */
static int guarded(bool every, char *words[]) {
        int status = 1;
        if (!cgroups_make())
                return 77;
        fflush(stdout);
        worker = ground_make(&cgroups_base) < 0 ? -1 : fork();
        if (worker == 0) {
                prctl(PR_SET_CHILD_SUBREAPER, 1);
                exit(run_plans(every, words));
        }
        signal(SIGTERM, stop_worker);
        signal(SIGINT, stop_worker);
        if (worker > 0)
                while (waitpid(worker, &status, 0) < 0 && errno == EINTR)
                        ;
        ground_remove();
        bool clean = cgroups_remove();
        return clean && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(int argc, char *argv[]) {
        static const struct option options[] = { { "all", no_argument, NULL, 'a' }, { 0 } };
        bool every = false;
        int option;
        setlinebuf(stdout);
        while ((option = getopt_long(argc, argv, "", options, NULL)) == 'a')
                every = true;
        if (option >= 0 || argc - optind < 2) {
                fprintf(stderr, "usage: crash [--all] WITNESS CGTREE [WORD...]\n");
                return 2;
        }
        ground.witness = argv[optind];
        ground.cgtree = argv[optind + 1];
        return guarded(every, argv + optind + 2);
}
