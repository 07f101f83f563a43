/* SPDX-License-Identifier: MIT */

/* The group placement's stub: stands between an owner and a root as a child subreaper, so that every orphan of the tree
 * comes back to it. It tells the owner of the root's birth and end, signals members when told to, ends them all when
 * told to or when the owner is gone, and exits when it has no child left. Started by gate.c with all signals blocked.
 */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gate-plan.h"
#include "lineage.h"
#include "reaper-terminal.h"
#include "record.h"

#define INTERVAL_MIN    UINT64_C(50)
#define INTERVAL_MAX    (50 * USEC_PER_MSEC)
#define INTERVAL_AFRESH (10 * USEC_PER_MSEC) /* from here on whoever still lives is signalled again */
#define ROUNDS_MAX      256

static const char usage[] = "cgtree-reaper: a part of cgtree; not to be run by hand\n";

/* What the owner has still to be told, in this order. A slot holds one message: nothing waits for an owner that does
 * not read. */
enum outbox_slot {
        OUTBOX_BIRTH,
        OUTBOX_STOPPED,
        OUTBOX_ENDED,
        OUTBOX_EMPTY,
        _OUTBOX_MAX,
};

struct reaper {
        int socket;                              /* to the owner; -1: it is gone */
        int owner_pidfd;                         /* -1: it is gone */
        int signals;                             /* signalfd */
        int gate;                                /* to the root to be; -1: it has exec'd, failed or died */
        struct gate_message outbox[_OUTBOX_MAX]; /* type 0: nothing */

        pid_t root;
        bool admitted, failed; /* GO was passed on; it never became the command */
        bool root_reaped, childless;

        bool foreground; /* SESSION_FOREGROUND */
        struct reaper_terminal terminal;

        int records_fd; /* where its record is; -1: not yet known */
        char id[ID_LENGTH + 1];
        int lock_fd; /* on the record: we end the tree */
        uint64_t grace_usec, death_grace_usec;
        bool terminating;
        uint64_t grace_until; /* of that */

        bool killing;
        bool child_ended; /* since the last strike: its children may be ours now */
        struct lineage_set struck;
        size_t n_struck_now;
        uint64_t interval, strike_at;
};

/* ---- what the owner is told ----------------------------------------------------------------------------------- */

static void tell(struct reaper *reaper, enum outbox_slot slot, struct gate_message message) {
        reaper->outbox[slot] = message;
}

static bool flush(struct reaper *reaper) {
        for (int slot = 0; slot < _OUTBOX_MAX; slot++) {
                struct gate_message *message = reaper->outbox + slot;

                if (message->type == 0)
                        continue;
                if (reaper->socket >= 0 && gate_message_send(reaper->socket, message, -1, MSG_DONTWAIT) == -EAGAIN)
                        return false;
                message->type = 0;
        }
        return true;
}

/* The root is ours and not reaped: the number of its group can be nobody else's. */
static void resume(struct reaper *reaper) {
        if (reaper->root_reaped)
                return;
        if (reaper->terminal.wanted)
                (void)reaper_terminal_give(&reaper->terminal);
        (void)kill(-reaper->root, SIGCONT);
}

/* The root was stopped because it read the terminal or changed its modes from the background: it did not have it yet, or
 * a shell has brought the owner to the foreground again without a word (SIGCONT is for stopped jobs only). */
static bool lend_terminal(struct reaper *reaper, int signal) {
        if ((signal != SIGTTIN && signal != SIGTTOU) || !reaper_terminal_give(&reaper->terminal))
                return false;
        reaper->terminal.wanted = true;
        (void)kill(-reaper->root, SIGCONT);
        return true;
}

/* ---- children ------------------------------------------------------------------------------------------------- */

/* End of file on its gate: the exec closed it. Or it died, which its own end will tell. */
static void hear_root(struct reaper *reaper) {
        struct gate_message message;
        int r;

        if (reaper->gate < 0)
                return;
        r = gate_message_receive(reaper->gate, &message, NULL, MSG_DONTWAIT);
        if (r == -EAGAIN)
                return;
        if (r >= 0) {
                reaper->failed = true;
                tell(reaper, OUTBOX_BIRTH, message);
        } else if (reaper->admitted)
                tell(reaper, OUTBOX_BIRTH, (struct gate_message){ .type = GATE_STARTED, .pid = reaper->root });
        close_fd(&reaper->gate);
}

static void on_root(struct reaper *reaper, const siginfo_t *info) {
        struct gate_message message = { .code = info->si_code, .status = info->si_status, .pid = reaper->root };

        if (info->si_code == CLD_TRAPPED)
                return;
        if (info->si_code == CLD_STOPPED) {
                if (!reaper->foreground || lend_terminal(reaper, info->si_status))
                        return;
                reaper_terminal_hand_back(&reaper->terminal);
                message.type = GATE_ROOT_STOPPED;
                tell(reaper, OUTBOX_STOPPED, message);
                return;
        }
        hear_root(reaper);
        reaper->root_reaped = true;
        reaper_terminal_hand_back(&reaper->terminal);
        if (reaper->failed)
                return;
        message.type = GATE_ROOT_ENDED;
        tell(reaper, OUTBOX_ENDED, message);
}

static void reap(struct reaper *reaper) {
        for (;;) {
                siginfo_t info = { 0 };

                if (waitid(P_ALL, 0, &info, WEXITED | WSTOPPED | WNOHANG | __WALL) < 0) {
                        if (errno == EINTR)
                                continue;
                        reaper->childless = true;
                        return;
                }
                if (info.si_pid == 0)
                        return;
                if (info.si_pid == reaper->root && !reaper->root_reaped)
                        on_root(reaper, &info);
        }
}

/* ---- the end of all ------------------------------------------------------------------------------------------- */

/* A child of ours, and pinned: waitid() says so of the pidfd itself. Its number was read microseconds ago; in a chain
 * of processes that each fork and exit it may be dead by now, and its child with us. */
static int strike_child(void *userdata, pid_t pid) {
        struct reaper *reaper = userdata;
        _cleanup_close_ int pidfd = -1;
        siginfo_t info = { 0 };

        if (lineage_set_has(&reaper->struck, pid))
                return 0;
        pidfd = pidfd_pin(pid);
        if (pidfd < 0 || waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) < 0)
                return 0;
        if (info.si_pid != 0)
                return 0;
        (void)pidfd_signal(pidfd, SIGKILL);
        reaper->n_struck_now++;
        (void)lineage_set_add(&reaper->struck, pid, 0); /* out of memory: it is struck again, no more than that */
        return 0;
}

/* One pass: the root's group at once, which takes no fork by surprise (its number cannot be reused as long as the root
 * is our unreaped child, so this is no check-then-kill); then each child of ours. Every orphan becomes one. */
static bool strike_children(struct reaper *reaper) {
        if (!reaper->root_reaped)
                (void)kill(-reaper->root, SIGKILL);
        reaper->n_struck_now = 0;
        (void)lineage_children(getpid(), strike_child, reaper);
        reaper->child_ended = false;
        reap(reaper);
        if (reaper->n_struck_now == 0)
                return false;
        reaper->interval = INTERVAL_MIN;
        return true;
}

/* Children and who is below them, until there is nobody new. Whoever still lives after that is dying, cannot die (state
 * D), or is not ours to kill: worth a look now and then, not a processor. */
static void strike(struct reaper *reaper) {
        uint64_t began, pause;
        bool more = true;

        for (int round = 0; more && round < ROUNDS_MAX; round++) {
                began = now_usec();
                more = strike_children(reaper);
                if (!reaper->childless && lineage_signal_new(getpid(), SIGKILL, &reaper->struck) > 0)
                        more = true;
                pause = 4 * (now_usec() - began);
        }
        if (pause < reaper->interval)
                pause = reaper->interval;
        reaper->strike_at = now_usec() + pause;
        reaper->interval += reaper->interval / 2;
        if (reaper->interval > INTERVAL_MAX)
                reaper->interval = INTERVAL_MAX;
        if (reaper->interval >= INTERVAL_AFRESH)
                lineage_set_done(&reaper->struck);
}

/* In time, or when a child's end has brought us others. */
static bool strike_is_due(struct reaper *reaper) {
        if (!reaper->killing || reaper->childless)
                return false;
        return now_usec() >= reaper->strike_at || (reaper->child_ended && strike_children(reaper));
}

static void begin_kill(struct reaper *reaper) {
        reaper->killing = true;
        reaper->interval = INTERVAL_MIN;
        lineage_set_done(&reaper->struck);
        strike(reaper);
}

/* Once: a second TEARDOWN, or the owner's death during one, does not put it off. */
static void begin_terminate(struct reaper *reaper, uint64_t grace_usec) {
        if (grace_usec == 0) {
                begin_kill(reaper);
                return;
        }
        reaper->terminating = true;
        reaper->grace_until = usec_add(now_usec(), grace_usec);
        if (reaper->records_fd >= 0 && record_lock(reaper->records_fd, reaper->id, &reaper->lock_fd) == -EWOULDBLOCK)
                return; /* somebody else has begun it */
        (void)lineage_signal_all(getpid(), SIGTERM);
        (void)lineage_signal_all(getpid(), SIGCONT);
}

static void lose_owner(struct reaper *reaper) {
        close_fd(&reaper->socket);
        close_fd(&reaper->owner_pidfd);
        if (!reaper->killing && !reaper->terminating)
                begin_terminate(reaper, reaper->death_grace_usec);
}

/* ---- what the owner says -------------------------------------------------------------------------------------- */

static void signal_members(const struct reaper *reaper, const struct gate_message *message) {
        if (message->pid == 0) {
                (void)lineage_signal_all(getpid(), message->status);
                if (message->code)
                        (void)lineage_signal_all(getpid(), SIGCONT);
        } else if (!reaper->root_reaped) {
                (void)kill(reaper->root, message->status);
                if (message->code)
                        (void)kill(reaper->root, SIGCONT);
        }
}

static void obey(struct reaper *reaper, const struct gate_message *message, int *fd) {
        switch (message->type) {
        case GATE_RECORD:
                close_fd(&reaper->records_fd);
                reaper->records_fd = take_fd(fd);
                memcpy(reaper->id, message->id, sizeof(reaper->id));
                reaper->grace_usec = message->grace_usec;
                reaper->death_grace_usec = message->death_grace_usec;
                break;
        case GATE_GO:
                if (reaper->admitted || reaper->gate < 0)
                        break;
                reaper_terminal_note(&reaper->terminal, reaper->root);
                reaper->admitted = gate_message_send(reaper->gate, message, -1, MSG_DONTWAIT) >= 0;
                break;
        case GATE_SIGNAL: signal_members(reaper, message); break;
        case GATE_KILL: begin_kill(reaper); break;
        case GATE_TEARDOWN:
                if (!reaper->killing && !reaper->terminating)
                        begin_terminate(reaper, reaper->grace_usec);
                break;
        case GATE_RESUME: resume(reaper); break;
        default: break;
        }
}

static void hear_owner(struct reaper *reaper) {
        while (reaper->socket >= 0) {
                struct gate_message message;
                _cleanup_close_ int fd = -1;
                int r = gate_message_receive(reaper->socket, &message, &fd, MSG_DONTWAIT);

                if (r == -EAGAIN)
                        return;
                if (r >= 0)
                        obey(reaper, &message, &fd);
                else if (r != -EBADMSG)
                        lose_owner(reaper);
        }
}

/* TERM: the service that we are part of is being stopped, or the command means its parent, as it would without us. */
static void hear_signals(struct reaper *reaper) {
        struct signalfd_siginfo info;

        while (read(reaper->signals, &info, sizeof(info)) == sizeof(info)) {
                if (info.ssi_signo == SIGCHLD)
                        reaper->child_ended = true;
                else if (!reaper->killing && !reaper->terminating)
                        begin_terminate(reaper, reaper->grace_usec);
        }
}

/* ---- life ----------------------------------------------------------------------------------------------------- */

static void wait_for_news(struct reaper *reaper, bool owner_is_slow) {
        struct pollfd fds[] = {
                { .fd = reaper->socket, .events = POLLIN | (owner_is_slow ? POLLOUT : 0) },
                { .fd = reaper->owner_pidfd, .events = POLLIN },
                { .fd = reaper->signals, .events = POLLIN },
                { .fd = reaper->gate, .events = POLLIN },
        };
        struct timespec timeout = { 0 };
        uint64_t now = now_usec();

        uint64_t until = reaper->childless     ? USEC_FOREVER
                         : reaper->killing     ? reaper->strike_at
                         : reaper->terminating ? reaper->grace_until
                                               : USEC_FOREVER;

        if (until > now && until != USEC_FOREVER) {
                timeout.tv_sec = (time_t)((until - now) / USEC_PER_SEC);
                timeout.tv_nsec = (long)((until - now) % USEC_PER_SEC * 1000);
        }
        if (ppoll(fds, 4, until != USEC_FOREVER ? &timeout : NULL, NULL) < 0)
                return;
        if (fds[2].revents)
                hear_signals(reaper);
        if (fds[3].revents)
                hear_root(reaper);
        if (fds[0].revents & (POLLIN | POLLHUP | POLLERR))
                hear_owner(reaper);
        if (fds[1].revents && reaper->owner_pidfd >= 0)
                lose_owner(reaper);
}

static void live(struct reaper *reaper) {
        for (;;) {
                bool told;

                reap(reaper);
                if (reaper->terminating && !reaper->killing && now_usec() >= reaper->grace_until)
                        begin_kill(reaper);
                if (strike_is_due(reaper))
                        strike(reaper);
                if (reaper->childless && reaper->outbox[OUTBOX_EMPTY].type == 0) {
                        /* The owner does so, too, unless it is killed first. */
                        if (reaper->records_fd >= 0)
                                (void)record_remove(reaper->records_fd, reaper->id);
                        tell(reaper, OUTBOX_EMPTY, (struct gate_message){ .type = GATE_EMPTY });
                }
                told = flush(reaper);
                if (reaper->childless && told)
                        return;
                wait_for_news(reaper, !told);
        }
}

/* ---- birth ---------------------------------------------------------------------------------------------------- */

/* The root to be: waits as cgtree-gate does. All descriptors but its gate are CLOEXEC or for the command. */
static void become_root(struct reaper *reaper, struct gate_plan *plan, int gate) {
        struct gate_message message;
        struct child_result result = { 0 };

        close_fd(&reaper->socket);
        close_fd(&reaper->gate); /* held here too, it would never say that the reaper is gone */
        if (gate_message_receive(gate, &message, NULL, 0) < 0 || message.type != GATE_GO)
                _exit(0);
        child_run(&plan->child, &result);
        message = (struct gate_message){ .type = GATE_FAILED, .step = result.step, .error = result.error };
        (void)gate_message_send(gate, &message, -1, 0);
        _exit(125);
}

/* The parent is the owner if it made our socket; and if it is still our parent after it was pinned, it was pinned. */
static int pin_owner(struct reaper *reaper) {
        pid_t owner = getppid();
        struct ucred maker;
        socklen_t size = sizeof(maker);

        if (getsockopt(reaper->socket, SOL_SOCKET, SO_PEERCRED, &maker, &size) < 0)
                return -errno;
        reaper->owner_pidfd = pidfd_pin(owner);
        if (reaper->owner_pidfd < 0)
                return reaper->owner_pidfd;
        return maker.pid == owner && getppid() == owner ? 0 : -EOWNERDEAD;
}

static void heard_signals(sigset_t *ret_heard) {
        sigemptyset(ret_heard);
        sigaddset(ret_heard, SIGCHLD);
        sigaddset(ret_heard, SIGTERM);
}

/* Above the numbers that the command will have, and above 0, 1 and 2. */
static int move_up(int *fd, int lowest) {
        int moved = fcntl(*fd, F_DUPFD_CLOEXEC, lowest);

        if (moved < 0)
                return -errno;
        close_fd(fd);
        *fd = moved;
        return 0;
}

static int open_descriptors(struct reaper *reaper, int *ret_gate) {
        sigset_t heard;
        int pair[2], r;

        r = pin_owner(reaper);
        if (r < 0)
                return r;
        heard_signals(&heard);
        reaper->signals = signalfd(-1, &heard, SFD_CLOEXEC | SFD_NONBLOCK);
        if (reaper->signals < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return -errno;
        reaper->gate = pair[0];
        *ret_gate = pair[1];
        r = move_up(&reaper->owner_pidfd, reaper->socket);
        if (r >= 0)
                r = move_up(&reaper->signals, reaper->socket);
        if (r >= 0)
                r = move_up(&reaper->gate, reaper->socket);
        return r < 0 ? r : move_up(ret_gate, reaper->socket);
}

static int fork_root(struct reaper *reaper, struct gate_plan *plan) {
        _cleanup_close_ int gate = -1;
        int r = open_descriptors(reaper, &gate);

        if (r < 0)
                return r;
        /* Ignored by the caller, it would reap our children in our place. */
        if (signal(SIGCHLD, SIG_DFL) == SIG_ERR || prctl(PR_SET_CHILD_SUBREAPER, 1L) < 0)
                return -errno;
        reaper->root = fork();
        if (reaper->root < 0)
                return -errno;
        if (reaper->root == 0)
                become_root(reaper, plan, gate);
        return 0;
}

/* `ps` and pgrep are to see the command once; and what the caller's environment holds is none of our business. */
static void forget_arguments(char *argv[]) {
        for (char **argument = argv + 1; *argument; argument++)
                memset(*argument, 0, strlen(*argument));
        for (char **variable = environ; *variable; variable++)
                memset(*variable, 0, strlen(*variable));
}

/* Nothing of the caller's is held, and nothing that is meant for it is heard. A session of its own, unless the root
 * stays in the caller's: there the root's group would be an orphaned one, which the keyboard cannot stop. */
static void leave_caller(const struct reaper *reaper, const struct gate_plan *plan) {
        const int kept[] = { reaper->socket, reaper->owner_pidfd, reaper->signals, reaper->gate };
        sigset_t heard;
        int null;

        if (plan->child.session == CGTREE_SESSION_NEW || plan->child.session == CGTREE_SESSION_TTY)
                (void)setsid();
        else
                (void)setpgid(0, 0);
        for (int number = 1; number <= SIGRTMAX; number++)
                if (number != SIGCHLD && number != SIGTERM)
                        (void)signal(number, SIG_IGN);
        heard_signals(&heard);
        sigprocmask(SIG_SETMASK, &heard, NULL);
        (void)!chdir("/");
        (void)child_close_others(kept, sizeof(kept) / sizeof(*kept));
        null = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (null >= 0) {
                (void)dup2(null, STDOUT_FILENO);
                (void)dup2(null, STDERR_FILENO);
        }
}

/* Whoever reads the pipe shares the owner's group and may need the terminal (a pager). */
static bool writes_to_pipe(const struct child_plan *plan) {
        int output = STDOUT_FILENO;
        struct stat status;

        for (size_t i = 0; i < plan->n_fds; i++)
                if (plan->fds[i].target == STDOUT_FILENO)
                        output = plan->fds[i].source;
        return output >= 0 && fstat(output, &status) >= 0 && (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode));
}

/* Nothing said: a session of its own. In the foreground, but behind a pipe: the terminal only when it is asked for, by a
 * SIGTTIN (a shell's $(...) ignores it). */
static void settle_session(struct reaper *reaper, struct child_plan *plan) {
        if (plan->session == CGTREE_SESSION_INHERIT)
                plan->session = CGTREE_SESSION_NEW;
        reaper->terminal.owner_group = getpgrp();
        reaper->foreground = plan->session == CGTREE_SESSION_FOREGROUND;
        if (reaper->foreground && writes_to_pipe(plan) && !(plan->ignored & UINT64_C(1) << (SIGTTIN - 1)))
                plan->session = CGTREE_SESSION_GROUP;
        reaper->terminal.wanted = plan->session == CGTREE_SESSION_FOREGROUND;
}

static int announce_root(const struct reaper *reaper) {
        struct gate_message message = { .type = GATE_READY, .pid = reaper->root };
        _cleanup_close_ int pidfd = pidfd_pin(reaper->root);

        return pidfd < 0 ? pidfd : gate_message_send(reaper->socket, &message, pidfd, 0);
}

static int report(int socket, int error) {
        struct gate_message message = { .type = GATE_FAILED, .step = CHILD_JOIN, .error = error };

        (void)gate_message_send(socket, &message, -1, 0);
        return 125;
}

int main(int argc, char *argv[]) {
        struct reaper reaper = {
                .socket = -1, .owner_pidfd = -1, .signals = -1, .gate = -1, .records_fd = -1, .lock_fd = -1
        };
        struct gate_plan plan;
        int r;

        if (argc < 1 || gate_plan_decode(argv, environ, &plan) < 0)
                return write(STDERR_FILENO, usage, strlen(usage)) < 0 ? 1 : 2;
        settle_session(&reaper, &plan.child);
        r = gate_plan_settle(&plan);
        reaper.socket = plan.socket;
        if (r >= 0)
                r = fork_root(&reaper, &plan);
        if (r < 0)
                return report(plan.socket, -r);
        leave_caller(&reaper, &plan);
        forget_arguments(argv);
        gate_plan_done(&plan);
        if (announce_root(&reaper) < 0)
                begin_kill(&reaper);
        live(&reaper);
        _exit(0); /* no exit handlers: a leak checker's would fork, and what we fork is killed with the tree */
}
