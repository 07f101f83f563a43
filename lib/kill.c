/* SPDX-License-Identifier: MIT */
#include "kill.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "process.h"

#define FREEZE_BOUND_USEC   (20 * USEC_PER_MSEC)
#define HOLD_BOUND_USEC     USEC_PER_SEC
#define LOOK_MIN_USEC       UINT64_C(50)
#define LOOK_MAX_USEC       (2 * USEC_PER_MSEC)
#define LOOK_LATE_USEC      (100 * USEC_PER_MSEC)
#define LOCK_LOOK_MIN_USEC  (2 * USEC_PER_MSEC)
#define LOCK_LOOK_MAX_USEC  (10 * USEC_PER_MSEC)
#define LOCK_PATIENCE_USEC  USEC_PER_SEC  /* beyond the grace */
#define WALK_AFTER_USEC     UINT64_C(400) /* the usual tree is empty by then */
#define WALK_PAUSE_MAX_USEC (100 * USEC_PER_MSEC)
#define PASSES_MAX          8
#define PINNED_MAX          128
#define SURVIVORS_NAMED_MAX 8

/* ---- signals to members ----------------------------------------------------------------------------------------- */

struct pass {
        const struct cgroup *cgroup;
        const int *signals; /* in this order to each; 0 ends them */
        pid_t *done;        /* who has been looked at, ascending */
        size_t n_done, n_signalled;
        bool denied;
};

static int compare_pids(const void *a, const void *b) {
        pid_t left, right;

        memcpy(&left, a, sizeof(left));
        memcpy(&right, b, sizeof(right));
        return (left > right) - (left < right);
}

static bool is_in(pid_t pid, const pid_t *pids, size_t n) {
        return n > 0 && bsearch(&pid, pids, n, sizeof(*pids), compare_pids);
}

static void signal_one(struct pass *pass, int pidfd) {
        for (const int *signal = pass->signals; *signal; signal++)
                if (pidfd_signal(pidfd, *signal) == -EPERM)
                        pass->denied = true;
        pass->n_signalled++;
}

/* Without pidfd_open (before 5.3, filters, valgrind): what is listed twice, microseconds ago, is as good as it gets. */
static void signal_by_number(struct pass *pass, pid_t pid) {
        for (const int *signal = pass->signals; *signal; signal++)
                if (kill(pid, *signal) < 0 && errno == EPERM)
                        pass->denied = true;
        pass->n_signalled++;
}

/* As many as there are descriptors for. */
static size_t pin(const pid_t *pids, size_t n, int pidfds[PINNED_MAX]) {
        size_t i;

        for (i = 0; i < n && i < PINNED_MAX; i++) {
                pidfds[i] = pidfd_pin(pids[i]);
                if (pidfds[i] == -EMFILE || pidfds[i] == -ENFILE)
                        break;
        }
        return i;
}

/* Pins some; who is then listed once more, and not dead after that, was a member while pinned: its number cannot have been
 * another's. Returns how many pids that was; -EMFILE: pin fewer, the listing needs a few descriptors, too. */
static ssize_t signal_some(struct pass *pass, const pid_t *pids, size_t n) {
        _cleanup_free_ pid_t *members = NULL;
        int pidfds[PINNED_MAX], r;
        size_t n_pinned = pin(pids, n, pidfds), n_members;

        if (n_pinned == 0)
                return -EMFILE;
        r = cgroup_members(pass->cgroup, &members, &n_members, NULL);
        for (size_t i = 0; i < n_pinned; i++) {
                bool member = r >= 0 && is_in(pids[i], members, n_members);

                if (member && pidfds[i] == -ENOSYS)
                        signal_by_number(pass, pids[i]);
                else if (member && pidfd_is_dead(pidfds[i]) == 0)
                        signal_one(pass, pidfds[i]);
                close_fd(&pidfds[i]);
        }
        return r < 0 ? r : (ssize_t)n_pinned;
}

static int signal_each(struct pass *pass, const pid_t *pids, size_t n) {
        size_t at_once = PINNED_MAX;

        for (size_t i = 0; i < n;) {
                ssize_t some = signal_some(pass, pids + i, n - i < at_once ? n - i : at_once);

                if (some >= 0)
                        i += (size_t)some;
                else if ((some == -EMFILE || some == -ENFILE) && at_once > 1)
                        at_once /= 2;
                else
                        return (int)some;
        }
        return 0;
}

static int note_done(struct pass *pass, const pid_t *pids, size_t n) {
        pid_t *larger = realloc(pass->done, (pass->n_done + n) * sizeof(*larger));

        if (!larger)
                return -ENOMEM;
        memcpy(larger + pass->n_done, pids, n * sizeof(*pids));
        pass->done = larger;
        pass->n_done += n;
        qsort(pass->done, pass->n_done, sizeof(*pass->done), compare_pids);
        return 0;
}

/* Those not signalled before, and never ourselves. Returns how many there were. */
static ssize_t signal_new_members(struct pass *pass) {
        _cleanup_free_ pid_t *pids = NULL;
        size_t n, n_new = 0;
        int r = cgroup_members(pass->cgroup, &pids, &n, NULL);

        if (r < 0)
                return r;
        for (size_t i = 0; i < n; i++)
                if (pids[i] != getpid() && !is_in(pids[i], pass->done, pass->n_done))
                        pids[n_new++] = pids[i];
        r = signal_each(pass, pids, n_new);
        if (r >= 0 && n_new > 0)
                r = note_done(pass, pids, n_new);
        return r < 0 ? r : (ssize_t)n_new;
}

static int signal_members(const struct cgroup *cgroup, const int *signals, bool once) {
        struct pass pass = { .cgroup = cgroup, .signals = signals };
        ssize_t r = 1;

        for (unsigned i = 0; r > 0 && i < (once ? 1 : PASSES_MAX); i++)
                r = signal_new_members(&pass);
        free(pass.done);
        if (r < 0)
                return (int)r;
        return pass.denied ? -EPERM : (int)pass.n_signalled;
}

int kill_signal_members(const struct cgroup *cgroup, int signal, bool once) {
        return signal_members(cgroup, (const int[]){ signal, 0 }, once);
}

char *kill_survivors(const struct cgroup *cgroup) {
        _cleanup_free_ char *text = NULL;
        _cleanup_free_ pid_t *pids = NULL;
        size_t n, n_foreign, named;
        char *all;

        if (cgroup_members(cgroup, &pids, &n, &n_foreign) < 0 || n + n_foreign == 0)
                return NULL;
        named = n < SURVIVORS_NAMED_MAX ? n : SURVIVORS_NAMED_MAX;
        for (size_t i = 0; i < named; i++) {
                _cleanup_free_ char *one = process_describe(pids[i]);

                all = format("%s%s%s", text ? text : "", text ? "; " : "", one ? one : "?");
                free(text);
                text = all;
        }
        if (n > named) {
                all = format("%s; and %zu more", text ? text : "?", n - named);
                free(text);
                text = all;
        }
        if (n_foreign > 0) {
                all = format("%s%s%zu in another pid namespace", text ? text : "", text ? "; " : "", n_foreign);
                free(text);
                text = all;
        }
        return take_pointer(&text);
}

/* ---- ending ----------------------------------------------------------------------------------------------------- */

static void enter(struct ending *ending, enum ending_phase phase, uint64_t interval) {
        ending->phase = phase;
        ending->since = now_usec();
        ending->interval = interval;
}

static bool are_inside(const struct cgroup *cgroup) {
        return cgroup_contains(cgroup, 0) == 1;
}

/* True unless somebody else holds it: where there are no locks, we do without. */
static bool try_lock(struct ending *ending, const struct cgroup *cgroup) {
        if (!ending->locked && flock(cgroup->fd, LOCK_EX | LOCK_NB) >= 0)
                ending->locked = true;
        return ending->locked || errno != EWOULDBLOCK;
}

static void thaw(struct ending *ending, const struct cgroup *cgroup) {
        if (ending->froze)
                (void)cgroup_freeze(cgroup, false);
        ending->froze = false;
}

/* Stopped members are woken, else they could not answer. */
static void signal_once(struct ending *ending, const struct cgroup *cgroup, bool frozen) {
        const int signals[] = { ending->signal, ending->hangup ? SIGHUP : 0, 0 };

        (void)signal_members(cgroup, signals, frozen);
        thaw(ending, cgroup);
        (void)kill_signal_members(cgroup, SIGCONT, true);
        enter(ending, ENDING_SIGNALLED, LOOK_MIN_USEC);
}

static void begin_signal(struct ending *ending, const struct cgroup *cgroup) {
        ending->froze = cgroup_freeze(cgroup, true) >= 0;
        if (ending->froze)
                enter(ending, ENDING_FREEZING, LOOK_MIN_USEC);
        else
                signal_once(ending, cgroup, false);
}

int ending_terminate(struct ending *ending, const struct cgroup *cgroup, int signal, bool hangup, uint64_t grace_usec) {
        if (ending->phase != ENDING_IDLE)
                return 0;
        if (are_inside(cgroup))
                return -EDEADLK;
        ending->signal = signal;
        ending->hangup = hangup;
        ending->lock_deadline = usec_add(now_usec(), usec_add(grace_usec, LOCK_PATIENCE_USEC));
        if (try_lock(ending, cgroup))
                begin_signal(ending, cgroup);
        else
                enter(ending, ENDING_LOCKING, LOCK_LOOK_MIN_USEC);
        return 0;
}

/* Many, and fewer than at the last look: no need to get into their way. */
static bool are_dying(struct ending *ending, const struct cgroup *cgroup) {
        _cleanup_free_ pid_t *pids = NULL;
        size_t n, before = ending->n_left;

        if (cgroup_members(cgroup, &pids, &n, NULL) < 0)
                return false;
        ending->n_left = n;
        return n > PINNED_MAX && (before == 0 || n < before);
}

/* cgroup.kill leaves processes whose main thread has exited (5.14 to 6.12.116, 6.18), and one write may miss a fork in
 * flight (before 6.14): so write again, and kill each that is left by itself. */
static void walk(struct ending *ending, const struct cgroup *cgroup) {
        if (ending->only_walk || !are_dying(ending, cgroup)) {
                if (!ending->only_walk)
                        (void)cgroup_kill(cgroup);
                (void)kill_signal_members(cgroup, SIGKILL, false);
        }
        ending->walk_pause = ending->walk_pause < WALK_PAUSE_MAX_USEC ? 2 * ending->walk_pause : WALK_PAUSE_MAX_USEC;
        ending->walk_at = now_usec() + (ending->only_walk ? 0 : ending->walk_pause);
}

int ending_kill(struct ending *ending, const struct cgroup *cgroup) {
        if (are_inside(cgroup))
                return -EDEADLK;
        (void)try_lock(ending, cgroup);
        ending->only_walk = cgroup_kill(cgroup) < 0;
        if (ending->only_walk) {
                /* Frozen, they cannot fork while they are killed one by one; SIGKILL needs no thaw. */
                ending->froze = cgroup_freeze(cgroup, true) >= 0 || ending->froze;
        } else
                thaw(ending, cgroup);
        enter(ending, ENDING_KILLING, LOOK_MIN_USEC);
        ending->n_left = 0;
        ending->walk_pause = WALK_AFTER_USEC;
        ending->walk_at = ending->since + WALK_AFTER_USEC;
        if (ending->only_walk)
                walk(ending, cgroup);
        return 0;
}

/* Quick at first, when most trees end; after that a notification is not late, and who waits long can wait 3 % longer. */
static uint64_t longest_look(const struct ending *ending, uint64_t now) {
        uint64_t share = (now - ending->since) / 32;

        if (ending->phase == ENDING_LOCKING)
                return LOCK_LOOK_MAX_USEC;
        if (share < LOOK_MAX_USEC)
                return LOOK_MAX_USEC;
        return share < LOOK_LATE_USEC ? share : LOOK_LATE_USEC;
}

static uint64_t next_wakeup(struct ending *ending) {
        uint64_t now = now_usec(), longest = longest_look(ending, now), wakeup = usec_add(now, ending->interval);

        if (ending->phase == ENDING_IDLE)
                return USEC_FOREVER;
        if (ending->phase == ENDING_LOCKING && ending->lock_deadline < wakeup)
                wakeup = ending->lock_deadline;
        ending->interval += ending->interval / 2;
        if (ending->interval > longest)
                ending->interval = longest;
        return wakeup;
}

static void do_what_is_due(struct ending *ending, const struct cgroup *cgroup, int events_fd) {
        uint64_t now = now_usec();
        bool frozen;

        switch (ending->phase) {
        case ENDING_LOCKING:
                if (try_lock(ending, cgroup) || now >= ending->lock_deadline)
                        begin_signal(ending, cgroup);
                break;
        case ENDING_FREEZING:
                frozen = cgroup_events_frozen(events_fd) == 1;
                if (frozen || now >= ending->since + FREEZE_BOUND_USEC)
                        signal_once(ending, cgroup, frozen);
                break;
        case ENDING_KILLING:
                if (now < ending->walk_at)
                        break;
                frozen = cgroup_events_frozen(events_fd) == 1;
                walk(ending, cgroup);
                /* Held still, each was reached that can be. Who is left (another user's, or in the kernel's hands) is to run. */
                if (frozen || now >= ending->since + HOLD_BOUND_USEC)
                        thaw(ending, cgroup);
                break;
        case ENDING_IDLE:
        case ENDING_SIGNALLED: break;
        }
}

int ending_step(struct ending *ending, const struct cgroup *cgroup, int events_fd, uint64_t *ret_wakeup) {
        int r = cgroup_events_populated(events_fd);

        if (r > 0) {
                do_what_is_due(ending, cgroup, events_fd);
                r = cgroup_events_populated(events_fd); /* as late as possible: often that was all it took */
        }
        if (r < 0)
                return r;
        if (r == 0) {
                thaw(ending, cgroup);
                return 1;
        }
        *ret_wakeup = next_wakeup(ending);
        return 0;
}

void ending_done(struct ending *ending, const struct cgroup *cgroup) {
        thaw(ending, cgroup);
        if (ending->locked)
                (void)flock(cgroup->fd, LOCK_UN);
        *ending = (struct ending){ 0 };
}
