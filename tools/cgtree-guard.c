/* SPDX-License-Identifier: MIT */

/* An owner's guard: waits for the owner's end (its pidfd, or the end of file on its socket), then ends every tree of the owner, sees
 * them empty, removes their directories and records, and exits. SIGTERM (its service is being stopped) begins the same within the grace.
 * Started by guard.c with all signals blocked. No stdio: it is to be small. */

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "child.h"
#include "gate-plan.h"
#include "kill.h"
#include "process.h"
#include "record.h"

static const char usage[] = "cgtree-guard: a part of cgtree; not to be run by hand\n";

#define REMOVE_RETRY_USEC (20 * USEC_PER_MSEC)

/* One tree that is being terminated, or one that lies elsewhere; 4 descriptors at most. */
struct tree {
        char id[ID_LENGTH + 1];
        struct cgroup cgroup;
        struct ending ending;
        int events_fd;
        bool empty;
};

enum phase {
        PHASE_WATCHING,
        PHASE_STRIKING,    /* those trees that there were when the owner, which goes on, wanted all killed */
        PHASE_TERMINATING, /* each tree by itself: TERM, and the grace */
        PHASE_KILLING,     /* all trees by one write, until none has a member */
};

struct guard {
        int socket;      /* to the owner; -1: end of file */
        int owner_pidfd; /* -1: it is gone */
        int signals;
        int records_fd;
        char home[NAME_MAX + 1]; /* name of the directory above the trees */
        uint64_t grace_usec, death_grace_usec;
        bool leaving; /* SIGTERM: go when the trees are empty, the owner may stay */
        bool bye;

        struct cgroup trees;
        struct tree *elsewhere; /* given one by one */
        size_t n_elsewhere;
        enum phase phase;
        struct tree *ours; /* below trees, one by one: STRIKING, TERMINATING */
        size_t n_ours;
        uint64_t grace_until;
        struct ending ending; /* of all */
        int events_fd;        /* of all */
        uint64_t wakeup;
};

static bool owner_is_gone(const struct guard *guard) {
        return guard->socket < 0 || guard->owner_pidfd < 0;
}

static void wake_at(struct guard *guard, uint64_t when) {
        if (when < guard->wakeup)
                guard->wakeup = when;
}

/* ---- what is below the trees' directory ------------------------------------------------------------------------ */

typedef void (*tree_fn)(struct guard *guard, const char *id);

static void each_tree(struct guard *guard, tree_fn fn) {
        if (guard->trees.fd < 0)
                return;
        int fd = openat(guard->trees.fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        _cleanup_dir_ DIR *dir = fd < 0 ? NULL : fdopendir(fd);
        struct dirent *entry;
        while (dir && (entry = readdir(dir)))
                if (id_is_valid(entry->d_name))
                        fn(guard, entry->d_name);
}

/* ---- the end of the trees --------------------------------------------------------------------------------------- */

/* NULL: it is gone, or there is no memory for it. */
static struct tree *open_tree(struct guard *guard, const char *id) {
        struct tree *larger = reallocarray(guard->ours, guard->n_ours + 1, sizeof(*larger));
        if (!larger)
                return NULL;
        guard->ours = larger;
        struct tree *tree = &larger[guard->n_ours];
        *tree = (struct tree){ .cgroup = CGROUP_NONE, .events_fd = -1 };
        memcpy(tree->id, id, ID_LENGTH);
        if (cgroup_open_child(&guard->trees, id, &tree->cgroup) < 0)
                return NULL;
        tree->events_fd = cgroup_open_events(&tree->cgroup);
        guard->n_ours++;
        return tree;
}

/* One without memory gets SIGKILL with all others. */
static void terminate_tree(struct guard *guard, const char *id) {
        struct tree *tree = open_tree(guard, id);
        if (tree)
                (void)ending_terminate(&tree->ending, &tree->cgroup, SIGTERM, false, guard->grace_usec);
}

static void strike_tree(struct guard *guard, const char *id) {
        struct tree *tree = open_tree(guard, id);
        if (tree)
                (void)ending_kill(&tree->ending, &tree->cgroup);
}

static void tree_done(struct tree *tree) {
        ending_done(&tree->ending, &tree->cgroup);
        close_fd(&tree->events_fd);
        cgroup_done(&tree->cgroup);
}

static void let_go(struct guard *guard) {
        for (size_t i = 0; i < guard->n_ours; i++)
                tree_done(&guard->ours[i]);
        free(guard->ours);
        guard->ours = NULL;
        guard->n_ours = 0;
}

static void begin_kill(struct guard *guard) {
        let_go(guard);
        guard->phase = PHASE_KILLING;
        if (guard->trees.fd >= 0)
                (void)ending_kill(&guard->ending, &guard->trees);
        for (size_t i = 0; i < guard->n_elsewhere; i++)
                (void)ending_kill(&guard->elsewhere[i].ending, &guard->elsewhere[i].cgroup);
}

static void begin_terminate(struct guard *guard, uint64_t grace_usec) {
        if (grace_usec == 0) {
                begin_kill(guard);
                return;
        }
        guard->phase = PHASE_TERMINATING;
        guard->grace_usec = grace_usec;
        guard->grace_until = usec_add(now_usec(), grace_usec);
        each_tree(guard, terminate_tree);
        for (size_t i = 0; i < guard->n_elsewhere; i++) {
                struct tree *tree = &guard->elsewhere[i];
                (void)ending_terminate(&tree->ending, &tree->cgroup, SIGTERM, false, grace_usec);
        }
}

static bool step_trees(struct guard *guard, struct tree *trees, size_t n) {
        bool all_empty = true;
        for (size_t i = 0; i < n; i++) {
                struct tree *tree = &trees[i];
                uint64_t wakeup = USEC_FOREVER;
                if (!tree->empty)
                        tree->empty = tree->events_fd < 0 ||
                                      ending_step(&tree->ending, &tree->cgroup, tree->events_fd, &wakeup) == 1;
                all_empty = all_empty && tree->empty;
                wake_at(guard, wakeup);
        }
        return all_empty;
}

static void step_terminating(struct guard *guard) {
        bool all_empty = step_trees(guard, guard->ours, guard->n_ours);
        all_empty = step_trees(guard, guard->elsewhere, guard->n_elsewhere) && all_empty;
        if (all_empty || now_usec() >= guard->grace_until)
                begin_kill(guard);
        else
                wake_at(guard, guard->grace_until);
}

static void strike(struct guard *guard) {
        guard->phase = PHASE_STRIKING;
        each_tree(guard, strike_tree);
        for (size_t i = 0; i < guard->n_elsewhere; i++)
                (void)ending_kill(&guard->elsewhere[i].ending, &guard->elsewhere[i].cgroup);
}

static void watch_again(struct guard *guard) {
        guard->phase = PHASE_WATCHING;
        let_go(guard);
        for (size_t i = 0; i < guard->n_elsewhere; i++) {
                ending_done(&guard->elsewhere[i].ending, &guard->elsewhere[i].cgroup);
                guard->elsewhere[i].empty = false;
        }
}

/* What was given since is not struck. */
static void step_striking(struct guard *guard) {
        bool all_empty = step_trees(guard, guard->ours, guard->n_ours);
        for (size_t i = 0; i < guard->n_elsewhere; i++)
                if (guard->elsewhere[i].ending.phase != ENDING_IDLE)
                        all_empty = step_trees(guard, &guard->elsewhere[i], 1) && all_empty;
        if (all_empty || owner_is_gone(guard) || guard->bye)
                watch_again(guard);
}

/* ---- what is left of them ---------------------------------------------------------------------------------------- */

static void remove_tree(struct guard *guard, const char *id) {
        if (cgroup_remove(&guard->trees, id, REMOVE_RETRY_USEC) != -EBUSY)
                (void)record_remove(guard->records_fd, id);
}

/* Only when the owner is gone: else they are its to remove. */
static void tidy(struct guard *guard) {
        each_tree(guard, remove_tree);
        for (size_t i = 0; i < guard->n_elsewhere; i++)
                (void)record_remove(guard->records_fd, guard->elsewhere[i].id); /* its directory is its maker's */
        if (guard->trees.fd < 0)
                return;
        _cleanup_close_ int home = openat(guard->trees.fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        _cleanup_close_ int base = home < 0 ? -1 : openat(home, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (home < 0 || (unlinkat(home, "trees", AT_REMOVEDIR) < 0 && errno != ENOENT) || base < 0)
                return;
        (void)unlinkat(base, guard->home, AT_REMOVEDIR);
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static bool step(struct guard *guard) {
        guard->wakeup = USEC_FOREVER;
        if (guard->phase == PHASE_STRIKING)
                step_striking(guard);
        if (guard->phase == PHASE_WATCHING && owner_is_gone(guard) && !guard->bye)
                begin_terminate(guard, guard->death_grace_usec);
        if (guard->phase == PHASE_WATCHING)
                return guard->bye;
        if (guard->phase == PHASE_TERMINATING)
                step_terminating(guard);
        if (guard->phase != PHASE_KILLING)
                return false;

        uint64_t wakeup = USEC_FOREVER;
        bool empty = guard->events_fd < 0 || ending_step(&guard->ending, &guard->trees, guard->events_fd, &wakeup) == 1;
        wake_at(guard, wakeup);
        empty = step_trees(guard, guard->elsewhere, guard->n_elsewhere) && empty;
        if (!empty)
                return false;
        if (owner_is_gone(guard)) {
                tidy(guard);
                return true;
        }
        /* A birth that was under way when the owner began its teardown may still bring a member. */
        return guard->leaving || guard->bye;
}

/* ---- what we are given later ------------------------------------------------------------------------------------- */

/* .../HOME/trees: to know ourselves outside of it, and to remove HOME in the end; never opened again. */
static int take_path(struct guard *guard, const char *text) {
        _cleanup_free_ char *path = strdup(text);
        char *trees = path ? strrchr(path, '/') : NULL;
        if (!trees || trees == path)
                return -EINVAL;
        *trees = '\0';
        const char *home = strrchr(path, '/');
        size_t length = home ? strlen(home + 1) : 0;
        if (length == 0 || length >= sizeof(guard->home))
                return -EINVAL;
        memcpy(guard->home, home + 1, length + 1);
        *trees = '/';
        guard->trees.path = take_pointer(&path);
        return 0;
}

static int take_trees(struct guard *guard, int *fd, const char *path) {
        struct stat status;
        if (guard->trees.fd >= 0 || fstat(*fd, &status) < 0)
                return -EBADF;
        int r = take_path(guard, path);
        if (r < 0)
                return r;
        guard->trees.fd = take_fd(fd);
        guard->trees.id = status.st_ino;
        guard->events_fd = cgroup_open_events(&guard->trees);
        return guard->events_fd;
}

static int take_tree(struct guard *guard, const char *id, int *fd, const char *path) {
        struct tree *larger = reallocarray(guard->elsewhere, guard->n_elsewhere + 1, sizeof(*larger));
        char *copy = larger ? strdup(path) : NULL;
        struct stat status;
        if (larger)
                guard->elsewhere = larger;
        if (!copy || fstat(*fd, &status) < 0) {
                free(copy);
                return -ENOMEM;
        }
        struct tree *tree = &larger[guard->n_elsewhere++];
        *tree = (struct tree){ .cgroup = { .fd = take_fd(fd), .path = copy, .id = status.st_ino } };
        memcpy(tree->id, id, ID_LENGTH);
        tree->events_fd = cgroup_open_events(&tree->cgroup);
        if (tree->events_fd == -ENODEV || tree->events_fd == -ENOENT)
                return 0; /* it was killed and removed meanwhile: empty for ever */
        return tree->events_fd < 0 ? tree->events_fd : 0;
}

static void drop_tree(struct guard *guard, const char *id) {
        for (size_t i = 0; i < guard->n_elsewhere; i++)
                if (strcmp(guard->elsewhere[i].id, id) == 0) {
                        tree_done(&guard->elsewhere[i]);
                        guard->elsewhere[i] = guard->elsewhere[--guard->n_elsewhere];
                        return;
                }
}

/* What is not held is not born; and what comes while we kill is killed. */
static void take_directory(struct guard *guard, const struct gate_message *message, int *fd, const char *path) {
        int r = *fd < 0                       ? -EBADF
                : message->type == GATE_TREES ? take_trees(guard, fd, path)
                                              : take_tree(guard, message->id, fd, path);
        if (guard->phase == PHASE_KILLING)
                begin_kill(guard);
        struct gate_message answer = { .type = GATE_HELD, .error = r < 0 ? r : 0 };
        memcpy(answer.id, message->id, sizeof(answer.id));
        (void)gate_message_send(guard->socket, &answer, -1, MSG_DONTWAIT);
}

static void tear_down(struct guard *guard) {
        if (guard->phase == PHASE_STRIKING)
                watch_again(guard);
        if (guard->phase == PHASE_WATCHING)
                begin_terminate(guard, guard->grace_usec);
}

static void hear_word(struct guard *guard, const struct gate_message *message, int *fd, const char *text) {
        if (message->type == GATE_BYE)
                guard->bye = true;
        else if (message->type == GATE_TEARDOWN)
                tear_down(guard);
        else if (message->type == GATE_KILL && guard->phase <= PHASE_STRIKING) {
                watch_again(guard); /* those that have come since, too */
                strike(guard);
        } else if (message->type == GATE_TREES || message->type == GATE_HOLD)
                take_directory(guard, message, fd, text);
        else if (message->type == GATE_DROP)
                drop_tree(guard, message->id);
}

/* ---- news -------------------------------------------------------------------------------------------------------- */

static void hear_owner(struct guard *guard) {
        char text[PATH_MAX];
        while (guard->socket >= 0) {
                struct gate_message message;
                _cleanup_close_ int fd = -1;
                int r = gate_message_receive_text(guard->socket, &message, text, sizeof(text), &fd, MSG_DONTWAIT);
                if (r == -EAGAIN)
                        return;
                if (r < 0 && r != -EBADMSG)
                        close_fd(&guard->socket);
                else if (r >= 0)
                        hear_word(guard, &message, &fd, text);
        }
}

static void hear_signal(struct guard *guard) {
        struct signalfd_siginfo info;
        while (read(guard->signals, &info, sizeof(info)) == sizeof(info)) {
                guard->leaving = true;
                tear_down(guard);
        }
}

static void wait_for_news(struct guard *guard) {
        struct pollfd fds[] = {
                { .fd = guard->socket, .events = POLLIN },
                { .fd = guard->owner_pidfd, .events = POLLIN },
                { .fd = guard->signals, .events = POLLIN },
                { .fd = guard->phase <= PHASE_STRIKING ? -1 : guard->events_fd, .events = POLLPRI },
        };
        uint64_t now = now_usec(), wait = guard->wakeup > now ? guard->wakeup - now : 0;
        struct timespec timeout = {
                .tv_sec = (time_t)(wait / USEC_PER_SEC),
                .tv_nsec = (long)(wait % USEC_PER_SEC * 1000),
        };
        if (ppoll(fds, 4, guard->wakeup == USEC_FOREVER ? NULL : &timeout, NULL) <= 0)
                return;
        /* The socket to its end before anything is done: what the owner said last counts. */
        if (fds[0].revents || fds[1].revents)
                hear_owner(guard);
        if (fds[1].revents)
                close_fd(&guard->owner_pidfd);
        if (fds[2].revents)
                hear_signal(guard);
}

/* ---- birth ------------------------------------------------------------------------------------------------------- */

/* The owner made our socket. If it is our parent after it was pinned, it was pinned; if not, it has to be seen dead. */
static int pin_owner(struct guard *guard) {
        struct ucred maker;
        socklen_t size = sizeof(maker);
        if (getsockopt(guard->socket, SOL_SOCKET, SO_PEERCRED, &maker, &size) < 0)
                return -errno;
        guard->owner_pidfd = (int)syscall(SYS_pidfd_open, maker.pid, 0);
        if (guard->owner_pidfd < 0 && errno != ESRCH)
                return -errno;
        if (getppid() == maker.pid)
                return 0;
        if (guard->owner_pidfd >= 0 && pidfd_is_dead(guard->owner_pidfd) != 1)
                return -EOWNERDEAD;
        close_fd(&guard->owner_pidfd);
        return 0;
}

static int parse_fd(const char *text) {
        uint64_t number;
        return parse_u64(text, &number) < 0 || number > INT32_MAX ? -1 : (int)number;
}

/* Nothing of the owner's is held but what it gave us; a session of our own; many trees have many descriptors. */
static int leave_owner(struct guard *guard) {
        const int kept[] = { guard->socket, guard->owner_pidfd, guard->trees.fd, guard->records_fd };
        for (size_t i = 0; i < sizeof(kept) / sizeof(*kept); i++)
                if (kept[i] >= 0 && fcntl(kept[i], F_SETFD, FD_CLOEXEC) < 0)
                        return -errno;
        int r = child_close_others(kept, sizeof(kept) / sizeof(*kept));
        if (r < 0)
                return r;
        (void)setsid();
        (void)!chdir("/");
        struct rlimit limit;
        if (getrlimit(RLIMIT_NOFILE, &limit) >= 0) {
                limit.rlim_cur = limit.rlim_max;
                (void)setrlimit(RLIMIT_NOFILE, &limit);
        }
        sigset_t term;
        sigemptyset(&term);
        sigaddset(&term, SIGTERM);
        for (int number = 1; number <= SIGRTMAX; number++)
                if (number != SIGTERM)
                        (void)signal(number, SIG_IGN);
        sigprocmask(SIG_SETMASK, &term, NULL);
        guard->signals = signalfd(-1, &term, SFD_CLOEXEC | SFD_NONBLOCK);
        if (guard->signals < 0)
                return -errno;
        if (guard->trees.fd < 0)
                return 0;
        guard->events_fd = cgroup_open_events(&guard->trees);
        /* An owner that was killed at its end may have removed it. */
        return guard->events_fd == -ENODEV || guard->events_fd == -ENOENT ? 0 : guard->events_fd;
}

/* The acknowledgement: from now on no end of the owner goes unseen. An owner that is gone needs none. */
static int announce(const struct guard *guard) {
        _cleanup_close_ int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
        struct gate_message message = { .type = GATE_READY, .pid = getpid() };
        int r = pidfd < 0 ? -errno : gate_message_send(guard->socket, &message, pidfd, 0);
        return r == -EPIPE ? 0 : r;
}

int main(int argc, char *argv[]) {
        struct guard guard = { .trees = CGROUP_NONE, .signals = -1, .events_fd = -1 };
        if (argc != 8 || parse_u64(argv[4], &guard.grace_usec) < 0 || parse_u64(argv[5], &guard.death_grace_usec) < 0)
                return write(STDERR_FILENO, usage, strlen(usage)) < 0 ? 1 : 2;
        guard.socket = parse_fd(argv[1]);
        guard.records_fd = parse_fd(argv[3]);
        guard.trees.fd = parse_fd(argv[2]);
        struct stat trees;
        if (guard.trees.fd >= 0 && (take_path(&guard, argv[7]) < 0 || fstat(guard.trees.fd, &trees) < 0))
                return 1;
        if (pin_owner(&guard) < 0)
                return 1;
        guard.trees.id = guard.trees.fd >= 0 ? trees.st_ino : 0;
        /* An orphan is not waited for by whom it guards. */
        if (strcmp(argv[6], "orphan") == 0) {
                pid_t pid = fork();
                if (pid != 0)
                        _exit(pid < 0); /* nothing to flush, nothing to free */
        }
        if (leave_owner(&guard) < 0 || announce(&guard) < 0)
                return 1;
        while (!step(&guard))
                wait_for_news(&guard);
        _exit(0); /* nothing to flush, and nobody to wait for */
}
