/* What every misbehaving program shares: the arguments, the report, the life bound.  The contract is in README.md. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum payload_end {
        PAYLOAD_END_WAIT, /* wait until killed, TERM as the kernel has it */
        PAYLOAD_END_EXIT, /* exit with `status` at the harness's word */
        PAYLOAD_END_TRAP, /* wait, and answer TERM by exiting with `status` */
};

struct payload {
        const char *name;
        const char *report;
        const char *into;
        const char *mode;
        enum payload_end end;
        int status;
        bool as_root;
        int step_fd;
};

/* A one-byte handshake between two members. */
struct payload_step {
        int fd[2];
};

/* Reads the arguments, opens the report and starts the life bound of this process. */
void payload_begin(struct payload *p, int argc, char **argv);

/* fork(), with a life bound for the child; ends the payload where it fails. */
pid_t payload_fork(void);

/* One line of the report, written at once. */
void payload_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* `member role=... pid=...`: who the caller is, where it is. */
void payload_member(const char *role);
/* The same about a child of the caller that cannot speak for itself. */
void payload_member_other(const char *role, pid_t pid);
void payload_proof(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* `cannot`: this machine or user does not allow the misbehaviour; exits 77. */
void payload_cannot(const char *what) __attribute__((noreturn));
/* `failed`: with errno; exits 99. */
void payload_fail(const char *what) __attribute__((noreturn));

void payload_step_make(struct payload_step *s);
void payload_step_wait(struct payload_step *s);
void payload_step_done(struct payload_step *s);

/* Says `ready` and ends as the arguments ask. */
void payload_finish(const struct payload *p) __attribute__((noreturn));
void payload_wait(void) __attribute__((noreturn));

/* The caller's own cgroup as a directory of the file system, followed by `/BELOW` where `below` is given. */
void payload_cgroup_directory(char *ret, size_t size, const char *below);
/* Writes a word to DIRECTORY/FILE; 0 or negative errno. */
int payload_cgroup_write(const char *directory, const char *file, const char *word);
/* Makes a cgroup below the caller's own, and says `made`, since outside a tree nobody else knows whose it is. */
void payload_cgroup_make(char *ret, size_t size, const char *below);
/* The state letter of /proc/PID/stat. */
char payload_state_of(pid_t pid);
