/* SPDX-License-Identifier: MIT */
#ifndef CGTREE_H
#define CGTREE_H

/**
 * libcgtree: process trees that can always be found and always be ended, whole.
 *
 * Objects    cgtree_owner: the process on whose behalf trees live. cgtree_command: what to run, data only.
 *            cgtree_tree: one tree. All opaque.
 * Errors     0 (or a documented positive value) or a negative errno. ret_* are set on success only and may be NULL.
 *            Common to all: -EINVAL (argument), -ENOMEM, -ECHILD (called in a forked child: it is not the owner),
 *            -ESHUTDOWN (teardown has begun), -EBUSY (another thread is in a call on this tree).
 *            Others are listed at each call.
 * Time       uint64_t microseconds, CLOCK_MONOTONIC, relative. CGTREE_FOREVER: no bound. 0: do not wait.
 * Waiting    A call that can wait takes a bound, and has a twin named begin_* that does not: it holds the caller for
 *            2 ms at most (the usual exec takes a tenth of that); progress then comes by get_fd() + dispatch().
 * Threads    One owner may be used by many threads (it locks inside). A tree or command: by one thread at a time.
 *            No global state; two owners in one process know nothing of each other.
 * Signals    Only calls marked [signal-safe] may run in a signal handler: in any thread, at any moment, also while any
 *            other call of this library is in progress. They keep errno, take no lock, allocate nothing, wait for nothing.
 * fork       A forked child owns nothing: every call gives -ECHILD (or NULL, 0, false); only *_free is allowed, and
 *            frees memory alone. Open the owner after daemon(3).
 * Children   Roots are your children: SIGCHLD arrives as for any child, the library reaps exactly its own roots and
 *            helpers and touches no handler. If your program reaps with waitpid(-1), or ignores SIGCHLD, the exit
 *            status may be lost: the tree is still settled, and get_exit() says -ENODATA (from Linux 6.15 on the
 *            kernel still tells, PIDFD_GET_INFO).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct cgtree_owner cgtree_owner;
typedef struct cgtree_command cgtree_command;
typedef struct cgtree_tree cgtree_tree;
typedef struct cgtree_watch cgtree_watch;

#define CGTREE_FOREVER UINT64_MAX
#define CGTREE_DEFAULT (UINT64_MAX - 1) /* "what the command, the owner or the record says" */

enum cgtree_placement {
        CGTREE_PLACEMENT_AUTO,
        CGTREE_PLACEMENT_SUBTREE, /* raw cgroup v2 subtree below a cgroup that is ours to divide: our own, or that of
                                     one scope for all trees of the owner, which systemd makes for it */
        CGTREE_PLACEMENT_SCOPE,   /* a scope of systemd's for each tree */
        CGTREE_PLACEMENT_GROUP,   /* process group with a subreaper: weaker; see cgtree(7) */
};

enum cgtree_guarantee {
        CGTREE_GUARANTEE_WHOLE = 1, /* every descendant, verified empty */
        CGTREE_GUARANTEE_GROUP,     /* every descendant that its reaper can still see */
};

enum cgtree_limit {
        CGTREE_LIMIT_MEMORY, /* bytes, swap included; whoever goes beyond takes the whole tree along */
        CGTREE_LIMIT_TASKS,  /* processes and threads at a time */
        CGTREE_LIMIT_CPU,    /* thousandths of one CPU */
};

/* ---- owner ------------------------------------------------------------------------------------------ */

/** New, not yet open: set options, then open. Nothing is touched on the system before cgtree_owner_open(). */
int cgtree_owner_new(cgtree_owner **ret_owner);

/** Explicit placements never fall back (-EOPNOTSUPP, see get_reason); AUTO (default) does, down to `minimum`. */
int cgtree_owner_set_placement(cgtree_owner *owner, enum cgtree_placement wanted, enum cgtree_guarantee minimum);
/** Cgroup below the cgroup2 root in which trees are made; ours to write. "self": our own cgroup, declared
 *  delegated. Default: $CGTREE_BASE, else what the machine offers. Copied. */
int cgtree_owner_set_base(cgtree_owner *owner, const char *cgroup);
/** Directory of the records. Default: $CGTREE_RECORDS, else see cgtree-records(5). Copied. */
int cgtree_owner_set_records(cgtree_owner *owner, const char *directory);
/** Grace of terminate (default 1.5 s), and what an owner's death gives (default 0: SIGKILL at once). */
int cgtree_owner_set_grace(cgtree_owner *owner, uint64_t terminate_usec, uint64_t owner_death_usec);
/** The limits that commands will be given, as bits of 1 << enum cgtree_limit (default: none): then AUTO takes only a placement
 *  that can enforce them, and open gives -EOPNOTSUPP where there is none. */
int cgtree_owner_set_limits(cgtree_owner *owner, unsigned limits);
/** May this process be moved, to a cgroup of its own below the one that it is in? The kernel limits nothing beside a process that
 *  is a member of the cgroup above. It is moved back by cgtree_owner_close(). Default: no. */
int cgtree_owner_set_may_move_self(cgtree_owner *owner, bool yes);
/** The guard stays a child of this process, which cgtree_owner_close() reaps: for programs that wait for no child but
 *  their own. Default: no; it is nobody's, so that it neither holds up a `while (wait(NULL) > 0)` nor is reaped by it. */
int cgtree_owner_set_guard_is_child(cgtree_owner *owner, bool yes);
/** When this process returns from main or calls exit(3), in whichever thread, the owner is closed, as by
 *  cgtree_owner_close(owner, grace_usec, timeout_usec), or an end under way elsewhere is waited for as long. May be called
 *  again, for other times, and also when it is open. A forked child's exit does nothing; not for one from a log callback.
 *  What ends without exit(3) (_exit, a signal) is for the guard. */
int cgtree_owner_set_close_at_exit(cgtree_owner *owner, uint64_t grace_usec, uint64_t timeout_usec);
/** Syslog priorities; called in the thread that called the library. */
typedef void (*cgtree_log_fn)(void *userdata, int priority, const char *message);
int cgtree_owner_set_log(cgtree_owner *owner, cgtree_log_fn fn, void *userdata);

/** Chooses the placement and makes the owner's place there; waits `timeout_usec` at most.
 *  -EOPNOTSUPP: the wanted placement is not to be had (get_reason says why). -EALREADY: is open.
 *  -EACCES, -ENOSPC, -EROFS ...: the records directory; see cgtree_owner_get_error(). */
int cgtree_owner_open(cgtree_owner *owner, uint64_t timeout_usec);
int cgtree_owner_begin_open(cgtree_owner *owner); /* then get_fd/dispatch until event OPENED */

/** AUTO before the owner is open. */
enum cgtree_placement cgtree_owner_get_placement(cgtree_owner *owner);
enum cgtree_guarantee cgtree_owner_get_guarantee(cgtree_owner *owner);
/** Why `placement` was not taken: a sentence, valid until the next open or spawn of this owner; NULL if it was. AUTO
 *  below the best looks again, at a spawn, when the last look is older than a minute. */
const char *cgtree_owner_get_reason(cgtree_owner *owner, enum cgtree_placement placement);
/** What the last failed open says, in words; "" if none failed. Valid until the next open or free. */
const char *cgtree_owner_get_error(cgtree_owner *owner);

/** One fd for everything of this owner: level-triggered, POLLIN while dispatch has something to say. Borrowed. */
int cgtree_owner_get_fd(cgtree_owner *owner);
/** Does what is due without waiting. 1: `ret_tree` (NULL: the owner itself) has `ret_events`; call again. 0: no
 *  more. The tree is the handle that spawn returned; trees whose handle was freed are settled silently. */
int cgtree_owner_dispatch(cgtree_owner *owner, cgtree_tree **ret_tree, unsigned *ret_events);

/** End every tree now owned; the owner stays open and may spawn again afterwards. Their graces run side by side.
 *  0: all seen empty. -ETIMEDOUT: some are not; everything left has been sent SIGKILL, stays owned and recorded. */
int cgtree_owner_terminate_all(cgtree_owner *owner, uint64_t grace_usec, uint64_t timeout_usec);
/** terminate_all, and no spawn after it (-ESHUTDOWN). The handle may be freed in either case. */
int cgtree_owner_close(cgtree_owner *owner, uint64_t grace_usec, uint64_t timeout_usec);
/** [signal-safe] SIGKILL to every tree: one write for all subtrees, one message for each group. Requests, does not verify,
 *  does not settle: no state changes here. A failure at one does not stop the others. Repeatable; a birth in progress is
 *  included. Returns how many could not be asked. */
int cgtree_owner_kill_now(cgtree_owner *owner);
/** [signal-safe] TERM now, KILL after the terminate grace, done by the guard even if we are SIGKILLed meanwhile. From now
 *  on spawns give -ESHUTDOWN, and a birth in progress is ended. Idempotent. Without a guard: kill_now. */
int cgtree_owner_begin_teardown(cgtree_owner *owner);

/** Closes descriptors and frees. Trees of an owner freed without close end like those of an owner that died: at once,
 *  by their guard. Tree handles become invalid. NULL is fine. */
void cgtree_owner_free(cgtree_owner *owner);

/* ---- command: what to run, as data; may be used for many spawns -------------------------------------- */

/** argv is copied. A name without '/' is searched in the PATH of the environment the command will have. */
int cgtree_command_new(cgtree_command **ret_command, const char *const argv[]);
void cgtree_command_free(cgtree_command *command);

int cgtree_command_set_executable(cgtree_command *command, const char *path);          /* argv[0] stays as given */
int cgtree_command_set_environment(cgtree_command *command, const char *const envp[]); /* default: our environ */
/** chdir to `path` relative to `dirfd` (AT_FDCWD fine; not consumed, must stay open until the spawn). */
int cgtree_command_set_directory(cgtree_command *command, int dirfd, const char *path);
int cgtree_command_set_user(cgtree_command *command, uid_t uid, gid_t gid, const gid_t groups[], size_t n_groups);
/** Unique among the recorded trees of the directory: else the spawn gives -EEXIST. 1 to 64 of [A-Za-z0-9._-],
 *  beginning with a letter or digit, not of the form of an id. NULL: none. */
int cgtree_command_set_name(cgtree_command *command, const char *name);

/** `target` 0, 1, 2: default null, inherit, inherit. Others: default closed. The fd is not consumed. */
#define CGTREE_FD_NULL    (-1)
#define CGTREE_FD_INHERIT (-2)
#define CGTREE_FD_PIPE    (-3) /* our end: cgtree_tree_take_fd(), O_CLOEXEC | O_NONBLOCK */
int cgtree_command_set_fd(cgtree_command *command, int target, int source);
/** Every descriptor that a plain exec would pass on is passed on (what `cgtree run` does). Default: no. */
int cgtree_command_set_inherit_fds(cgtree_command *command, bool yes);

enum cgtree_session {
        CGTREE_SESSION_INHERIT,    /* same session and process group (default); group placement: a new session */
        CGTREE_SESSION_GROUP,      /* own process group */
        CGTREE_SESSION_FOREGROUND, /* own process group, made the foreground one of our terminal if ours was (group
                                      placement: at the latest when the root asks for the terminal; at once unless it
                                      writes to a pipe); handed back when the root has ended or stopped */
        CGTREE_SESSION_NEW,        /* setsid */
        CGTREE_SESSION_TTY,        /* setsid, fd 0 becomes the controlling terminal; terminate sends HUP after TERM */
};
int cgtree_command_set_session(cgtree_command *command, enum cgtree_session session);
/** Bit N-1 is signal N. Default: nothing blocked, nothing ignored (event-loop hosts block TERM; a child that inherits
 *  that ignores ours). */
int cgtree_command_set_signals(cgtree_command *command, uint64_t blocked, uint64_t ignored);

/** After this long: terminate, cause TIMEOUT. 0 or CGTREE_FOREVER: never (default). */
int cgtree_command_set_timeout(cgtree_command *command, uint64_t usec);
/** How terminate begins: `signal` (default SIGTERM) to every member, or with `root_only` to the root alone; SIGKILL to
 *  all after `usec` (CGTREE_DEFAULT: the owner's). */
int cgtree_command_set_grace(cgtree_command *command, int signal, bool root_only, uint64_t usec);
/** `value` by kind, 1 at least; 0: none (default). The spawn gives -EOPNOTSUPP if the owner was not opened for it
 *  (cgtree_owner_set_limits). */
int cgtree_command_set_limit(cgtree_command *command, enum cgtree_limit limit, uint64_t value);
/** What to do with the rest when the root has ended: nothing (default: it stays owned), or terminate it. */
int cgtree_command_set_end_with_root(cgtree_command *command, bool yes);

/** Which step failed in the last spawn of this command, and the same in words; valid until the next spawn or free. */
enum cgtree_step {
        CGTREE_STEP_NONE,
        CGTREE_STEP_RECORD, /* the record could not be written; nothing ran */
        CGTREE_STEP_PLACE,  /* no place for the tree; nothing ran */
        CGTREE_STEP_CHILD,  /* the child could not be set up */
        CGTREE_STEP_EXEC,   /* execve itself: -ENOENT, -EACCES, -ENOEXEC ... */
};
enum cgtree_step cgtree_command_get_error(cgtree_command *command, const char **ret_message);

/* ---- tree -------------------------------------------------------------------------------------------- */

/** The tree runs when this returns: exec has succeeded, the record is on disk. Errors: of exec as such (-ENOENT,
 *  -EACCES, -ENOEXEC, -E2BIG ..., step EXEC), -EEXIST (name), -ENOSPC ... (record), -ENOTCONN (the owner is not
 *  open), -ETIMEDOUT (no exec within 10 s: a frozen cgroup, a dead filesystem; the child has been killed). */
int cgtree_spawn(cgtree_owner *owner, cgtree_command *command, cgtree_tree **ret_tree);
/** Same, not waiting: event STARTED or FAILED follows. May be cancelled by begin_kill. */
int cgtree_begin_spawn(cgtree_owner *owner, cgtree_command *command, cgtree_tree **ret_tree);

/** Forget the handle. A living tree stays owned: it is ended with its owner, and leaves the books when seen empty. */
void cgtree_tree_free(cgtree_tree *tree);
void cgtree_tree_set_userdata(cgtree_tree *tree, void *userdata);
void *cgtree_tree_get_userdata(cgtree_tree *tree);

const char *cgtree_tree_get_id(cgtree_tree *tree);
const char *cgtree_tree_get_name(cgtree_tree *tree);    /* NULL: none */
const char *cgtree_tree_get_command(cgtree_tree *tree); /* name of the program, without its arguments */
const char *cgtree_tree_get_cgroup(cgtree_tree *tree);  /* path below the cgroup2 root; NULL: group placement */
enum cgtree_placement cgtree_tree_get_placement(cgtree_tree *tree);
enum cgtree_guarantee cgtree_tree_get_guarantee(cgtree_tree *tree);
uint64_t cgtree_tree_get_created(cgtree_tree *tree); /* microseconds, CLOCK_REALTIME */
/** Pid of the owner, and its name as recorded. `ret_alive`: 1, 0 (proven gone), or -errno: cannot be told. */
pid_t cgtree_tree_get_owner(cgtree_tree *tree, const char **ret_comm, int *ret_alive);
pid_t cgtree_tree_get_root(cgtree_tree *tree);          /* 0: not started, unknown, or reaped */
int cgtree_tree_get_root_pidfd(cgtree_tree *tree);      /* borrowed; -1: none */
int cgtree_tree_take_fd(cgtree_tree *tree, int target); /* our end of a pipe; now yours. -ENOENT: none, or taken */

enum cgtree_event { /* bits */
        CGTREE_EVENT_OPENED = 1 << 0,
        CGTREE_EVENT_STARTED = 1 << 1,
        CGTREE_EVENT_FAILED = 1 << 2, /* did not start: cgtree_tree_get_error() */
        CGTREE_EVENT_ROOT_ENDED = 1 << 3,
        CGTREE_EVENT_EMPTY = 1 << 4,        /* settled: no member, no cgroup, no record; resources are released */
        CGTREE_EVENT_SURVIVORS = 1 << 5,    /* the bound of a kill is over: see get_survivors; still owned */
        CGTREE_EVENT_ROOT_STOPPED = 1 << 6, /* SESSION_FOREGROUND: the root was stopped, the terminal is ours again */
};
/** A pollable fd for one tree, made at the first call: POLLIN while dispatch has something to say. Borrowed. */
int cgtree_tree_get_fd(cgtree_tree *tree);
/** Does what is due without waiting. Returns the new events (0: none) or an error. */
int cgtree_tree_dispatch(cgtree_tree *tree);

/** One signal to every member, or to the root. 0 also if no member is left. -EPERM: some could not be signalled. */
int cgtree_tree_signal(cgtree_tree *tree, int signal, bool root_only);
/** SESSION_FOREGROUND: make the root's group the foreground one again (if ours is) and continue it. */
int cgtree_tree_resume(cgtree_tree *tree);

/** TERM, CONT, wait until empty or the grace is over, KILL, wait until empty. Idempotent; a tree that is gone is 0.
 *  -ETIMEDOUT: survivors. Calling kill while a terminate runs shortens it, never lengthens it. */
int cgtree_tree_terminate(cgtree_tree *tree, uint64_t grace_usec, uint64_t timeout_usec);
int cgtree_tree_begin_terminate(cgtree_tree *tree, uint64_t grace_usec);
/** The same, beginning with another signal than the command's. */
int cgtree_tree_begin_terminate_with(cgtree_tree *tree, int signal, uint64_t grace_usec);
int cgtree_tree_kill(cgtree_tree *tree, uint64_t timeout_usec);
/** SURVIVORS follows when members are left 5 s later. */
int cgtree_tree_begin_kill(cgtree_tree *tree);

int cgtree_tree_wait_root(cgtree_tree *tree, uint64_t timeout_usec);  /* -ETIMEDOUT; -ENODATA: a found tree */
int cgtree_tree_wait_empty(cgtree_tree *tree, uint64_t timeout_usec); /* -ETIMEDOUT */

enum cgtree_cause { /* why the tree ended, or is ending */
        CGTREE_CAUSE_NONE,
        CGTREE_CAUSE_ENDED,     /* by itself */
        CGTREE_CAUSE_TIMEOUT,   /* its own timeout */
        CGTREE_CAUSE_CANCELLED, /* terminate or kill was called */
        CGTREE_CAUSE_OWNER,     /* the owner's teardown */
        CGTREE_CAUSE_OOM,       /* killed by the kernel, whole, because memory ran out (with CGTREE_LIMIT_MEMORY) */
};
/** As waitid(2): CLD_EXITED and the code, or CLD_KILLED/CLD_DUMPED and the signal. -EBUSY: runs. -ENODATA: lost. */
int cgtree_tree_get_exit(cgtree_tree *tree, int *ret_code, int *ret_status);
enum cgtree_cause cgtree_tree_get_cause(cgtree_tree *tree);
/** After FAILED: the errno, negative; the step, and the failure in words, valid until the tree is freed. 0: none. */
int cgtree_tree_get_error(cgtree_tree *tree, enum cgtree_step *ret_step, const char **ret_message);
/** Pids that live in the tree at some moment during the call, nested cgroups included; free(3) the array. */
int cgtree_tree_get_members(cgtree_tree *tree, pid_t **ret_pids, size_t *ret_n);
/** "pid 71 (dd) in state D at folio_wait_bit; ..." of the last kill that ran into its bound. NULL: none. */
const char *cgtree_tree_get_survivors(cgtree_tree *tree);
/** The cgroup in which the root was seen after it had left its tree (it was signalled all the same); NULL: it stayed,
 *  or was not looked for. */
const char *cgtree_tree_get_stray(cgtree_tree *tree);

/** spawn, wait for the root, end the rest, wait until empty: for programs without a loop. ret_code, ret_status as
 *  waitid(2). -ETIMEDOUT: survivors (5 s after SIGKILL). */
int cgtree_run(cgtree_owner *owner, cgtree_command *command, int *ret_code, int *ret_status);

/* ---- trees of others, from their records alone -------------------------------------------------------- */

/** By id, name, or unique prefix of an id. `records` NULL: $CGTREE_RECORDS or every default directory. -ENOENT,
 *  -ENOTUNIQ (a prefix of several), -EBADMSG (its record is bad), -ESTALE (the record is of another boot or namespace,
 *  or does not prove itself). All calls work, but not wait_root; free the handle with cgtree_tree_free(). terminate and
 *  kill give -EDEADLK where they would end this process, an ancestor of it, or the trees of an owner that lives outside.
 *  wait_empty waits until the owner, or whoever ends the tree, has seen it empty. */
int cgtree_find(const char *records, const char *id_or_name, cgtree_tree **ret_tree);

/** `tree` is valid during the call only. NULL: `file` is a bad record, or one that cannot be judged; `problem` says
 *  why. Return 0 to go on; anything else ends the listing and is returned. */
typedef int (*cgtree_list_fn)(void *userdata, cgtree_tree *tree, const char *file, const char *problem);
int cgtree_list(const char *records, cgtree_list_fn fn, void *userdata);

/** Ends the trees whose owner is provably gone. Blocks, bounded by `timeout_usec`: a grace that is longer is cut, unless
 *  somebody else is ending that tree already. Trees are ended side by side, as many as RLIMIT_NOFILE lets. `fn` (may be NULL) hears each
 *  decision: "ended", "tidied" (nothing ran any more), "kept" (the owner lives), "skipped", "failed"; with dry_run "would
 *  end", "would tidy". `id` is that of the tree; of a bad record its file's name, of an empty directory that a dead owner
 *  has left its name. Returns how many trees were (or would be) ended. -EBADMSG: all judged, but some records were bad or
 *  could not be swept. */
typedef void (*cgtree_sweep_fn)(void *userdata, const char *id, const char *decision, const char *reason);
int cgtree_sweep(const char *records, bool dry_run, uint64_t timeout_usec, cgtree_sweep_fn fn, void *userdata);

/** Sweep as things happen: of trees whose owner dies from now on, and at once of those that are there. Nothing is polled
 *  while nothing happens. One thread. -EACCES ...: the records directory. */
int cgtree_watch_new(const char *records, cgtree_watch **ret_watch);
void cgtree_watch_free(cgtree_watch *watch);
/** POLLIN while dispatch has something to do. Borrowed. */
int cgtree_watch_get_fd(cgtree_watch *watch);
/** Sweeps what is due, 20 ms after its owner's end: a living guard is faster. Waits for nothing: trees are ended side by
 *  side, each with its whole grace, from call to call. `fn` as of cgtree_sweep(). Returns the number of trees that were
 *  seen to have ended, 0 also where some could not be. */
int cgtree_watch_dispatch(cgtree_watch *watch, cgtree_sweep_fn fn, void *userdata);

/* ---- what this machine gives --------------------------------------------------------------------------- */

enum cgtree_finding {
        CGTREE_FINDING_GOOD,
        CGTREE_FINDING_NOTE,    /* to be known; no guarantee is weaker for it */
        CGTREE_FINDING_REDUCED, /* trees have the weaker guarantee */
        CGTREE_FINDING_BROKEN,  /* no tree can be started */
};
/** Looks, and tries in cgroups of its own, what can be had here, where this process is; nothing stays. `fn` hears each finding: its
 *  topic ("cgroup2", "kernel", "records", "placement" ...), what it is, and what could be done about it, in lines, or NULL.
 *  Returns the worst. Forks without exec, and waits some seconds where a manager does not answer: for programs with one thread. */
typedef void (*cgtree_examine_fn)(
        void *userdata, const char *topic, enum cgtree_finding finding, const char *text, const char *advice);
int cgtree_examine(const char *records, cgtree_examine_fn fn, void *userdata);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
