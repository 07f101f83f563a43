/* SPDX-License-Identifier: MIT */
#pragma once

#include <poll.h>
#include <sys/file.h>
#include <time.h>

#include "cgroups.h"
#include "kill.h"

#define BOUND_USEC (20 * USEC_PER_SEC)

/* An ending, driven as an event loop would. */
struct drive {
        struct ending ending;
        int events;
};

static inline struct drive drive_new(const struct cgroup *cgroup) {
        struct drive drive = { .events = cgroup_open_events(cgroup) };

        ck_assert_int_ge(drive.events, 0);
        return drive;
}

static inline void wait_until(int events, uint64_t wakeup) {
        uint64_t now = now_usec(), left = wakeup > now ? wakeup - now : 0;
        struct timespec timeout = { .tv_sec = (time_t)(left / USEC_PER_SEC),
                .tv_nsec = (long)(left % USEC_PER_SEC) * 1000 };
        struct pollfd p = { .fd = events, .events = POLLPRI };

        ppoll(&p, 1, &timeout, NULL);
}

/* Until it is empty, or has come to that phase. */
static inline void drive_to(struct drive *drive, const struct cgroup *cgroup, enum ending_phase phase) {
        uint64_t deadline = now_usec() + BOUND_USEC, wakeup = 0;
        int r;

        while ((r = ending_step(&drive->ending, cgroup, drive->events, &wakeup)) == 0) {
                if (drive->ending.phase == phase)
                        return;
                ck_assert_msg(now_usec() < deadline, "lives on: %s", kill_survivors(cgroup));
                wait_until(drive->events, wakeup);
        }
        ck_assert_int_eq(r, 1);
}

static inline void drive_to_empty(struct drive *drive, const struct cgroup *cgroup) {
        drive_to(drive, cgroup, (enum ending_phase) - 1);
        ck_assert_int_eq(cgroup_is_populated(cgroup), 0);
}

static inline void drive_done(struct drive *drive, struct cgroup *cgroup) {
        char text[8] = "";

        ending_done(&drive->ending, cgroup);
        ck_assert_int_eq(drive->ending.phase, ENDING_IDLE);
        if (read_file_at(cgroup->fd, "cgroup.freeze", text, sizeof(text)) >= 0)
                ck_assert_str_eq(text, "0\n");
        ck_assert_int_eq(flock(cgroup->fd, LOCK_EX | LOCK_NB), 0); /* nobody else holds it */
        close_fd(&drive->events);
        cgroup_done(cgroup);
}

static inline void check_kill(struct cgroup *cgroup) {
        struct drive drive = drive_new(cgroup);

        ck_assert_int_eq(ending_kill(&drive.ending, cgroup), 0);
        ck_assert_int_eq(drive.ending.phase, ENDING_KILLING);
        drive_to_empty(&drive, cgroup);
        drive_done(&drive, cgroup);
}

static inline void tell_signal(int signal) {
        payload_say(payload_out, signal == SIGTERM ? 'T' : signal == SIGHUP ? 'H' : signal == SIGCONT ? 'C' : '?');
}

static inline void tell_signals(int out) {
        payload_out = out;
        signal(SIGTERM, tell_signal);
        signal(SIGHUP, tell_signal);
        signal(SIGCONT, tell_signal);
}

static inline void payload_tell_signals(int out) {
        tell_signals(out);
        payload_say(out, 'r');
}

static inline void payload_in_vfork(int out) {
        if (fork() != 0)
                return;
        if (vfork() == 0) {
                if (write(out, "r", 1) == 1)
                        pause();
                _exit(99);
        }
}
