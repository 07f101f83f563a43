/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "group.h"
#include "owner.h"
#include "sweep.h"

static void let_go(struct doomed_list *list, struct doomed **at) {
        struct doomed *doomed = *at;

        *at = doomed->next;
        list->n--;
        /* Closing it is not enough: a child that somebody has forked may have it still. */
        if (list->poll_fd >= 0)
                (void)epoll_ctl(list->poll_fd, EPOLL_CTL_DEL, doomed->tree->owner->poll_fd, NULL);
        cgtree_tree_free(doomed->tree);
        free(doomed);
}

/* ---- the beginning -------------------------------------------------------------------------------------- */

static int begin(cgtree_tree *tree, uint64_t grace_usec) {
        int r = grace_usec == 0 ? cgtree_tree_begin_kill(tree) : cgtree_tree_begin_terminate(tree, grace_usec);

        if (r >= 0)
                r = cgtree_owner_get_fd(tree->owner);
        return r < 0 ? r : 0;
}

static void report_not_begun(const cgtree_tree *tree, int error, struct report *report) {
        if (error == 0)
                report_tell(report, tree->record.id, "kept", "its owner is gone, and somebody else is ending it");
        else
                report_problem(
                        report, tree->record.id, "skipped", error == -EDEADLK ? "we are in it" : strerror(-error));
}

void doomed_add(struct doomed_list *list, cgtree_tree *tree, bool was_populated, const char *reason,
        uint64_t grace_usec, struct report *report) {
        struct doomed *doomed = calloc(1, sizeof(*doomed));
        int r = doomed ? begin(tree, grace_usec) : -ENOMEM;

        /* Who is at it already, a guard most likely, gives it the whole of its grace. */
        bool is_cut = grace_usec < tree->record.owner_death_grace_usec;
        if (r < 0 || (is_cut && tree->ending.phase == ENDING_LOCKING)) {
                report_not_begun(tree, r, report);
                cgtree_tree_free(tree);
                free(doomed);
                return;
        }
        *doomed = (struct doomed){
                .next = list->first,
                .tree = tree,
                .was_populated = was_populated,
                .due = true,
                .reason = reason,
        };
        struct epoll_event event = { .events = EPOLLIN, .data.ptr = doomed };
        if (list->poll_fd >= 0)
                (void)epoll_ctl(list->poll_fd, EPOLL_CTL_ADD, tree->owner->poll_fd, &event);
        list->first = doomed;
        list->n++;
}

bool doomed_has(const struct doomed_list *list, const char *id) {
        for (const struct doomed *doomed = list->first; doomed; doomed = doomed->next)
                if (strcmp(doomed->tree->record.id, id) == 0)
                        return true;
        return false;
}

/* ---- the end -------------------------------------------------------------------------------------------- */

/* Its marks may be on others, too: they are named, not touched. */
static char *describe_unproven(const struct record *record, const char *reason) {
        _cleanup_free_ pid_t *pids = NULL;
        size_t n, n_unproven = 0;

        if (record->placement != CGTREE_PLACEMENT_GROUP || group_members(record, &pids, &n, &n_unproven) < 0 ||
                n_unproven == 0)
                return strdup(reason);
        return format(
                "%s; %zu that carry its CGTREE_ID but do not prove to be of it were left alone", reason, n_unproven);
}

static void report_end(const struct doomed *doomed, struct report *report) {
        const struct record *record = &doomed->tree->record;
        _cleanup_free_ char *reason = describe_unproven(record, doomed->reason);

        report->n_ended += doomed->was_populated;
        report_tell(report, record->id, doomed->was_populated ? "ended" : "tidied", reason ? reason : doomed->reason);
}

static void report_failure(const struct doomed *doomed, struct report *report) {
        const char *survivors = doomed->tree->survivors;
        _cleanup_free_ char *reason = survivors ? format("it lives on after SIGKILL: %s", survivors) : NULL;

        report_problem(report, doomed->tree->record.id, "failed",
                reason ? reason : "it was not seen empty within the time given");
}

/* True: nothing more is to be done. */
static bool step(struct doomed *doomed, struct report *report) {
        const cgtree_tree *tree = doomed->tree;

        doomed->due = false;
        (void)cgtree_tree_dispatch(doomed->tree);
        if (tree_is_over(tree))
                report_end(doomed, report);
        else if (tree->state == TREE_KILLING && tree->bound_told)
                report_failure(doomed, report);
        else
                return false;
        return true;
}

void doomed_step(struct doomed_list *list, struct report *report) {
        for (struct doomed **at = &list->first; *at;)
                if ((*at)->due && step(*at, report))
                        let_go(list, at);
                else
                        at = &(*at)->next;
}

void doomed_wait(const struct doomed_list *list, uint64_t until) {
        _cleanup_free_ struct pollfd *sources = calloc(list->n, sizeof(*sources));
        uint64_t now = now_usec(), wait = until > now ? until - now : 0;
        struct timespec timeout;
        size_t n = 0;

        for (const struct doomed *doomed = list->first; sources && doomed; doomed = doomed->next)
                sources[n++] = (struct pollfd){ .fd = doomed->tree->owner->poll_fd, .events = POLLIN };
        if (!sources && wait > USEC_PER_MSEC) /* no memory: all are looked at, often */
                wait = USEC_PER_MSEC;
        timeout.tv_sec = (time_t)(wait / USEC_PER_SEC);
        timeout.tv_nsec = (long)(wait % USEC_PER_SEC * 1000);
        (void)ppoll(sources, n, wait == USEC_FOREVER ? NULL : &timeout, NULL);
        n = 0;
        for (struct doomed *doomed = list->first; doomed; doomed = doomed->next)
                doomed->due = !sources || sources[n++].revents != 0;
}

void doomed_give_up(struct doomed_list *list, struct report *report) {
        for (; list->first; let_go(list, &list->first))
                report_failure(list->first, report);
}

void doomed_done(struct doomed_list *list) {
        while (list->first)
                let_go(list, &list->first);
}
