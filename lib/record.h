/* SPDX-License-Identifier: MIT */
#pragma once

/* One record: what is known of one tree, as data, and its JSON file (cgtree-records(5)). Written once, before the first process of
 * the tree exists; never rewritten; unlinked when the tree was seen empty. */

#include "cgtree.h"
#include "process.h"

#define RECORD_VERSION  1
#define RECORD_MAX_SIZE (64 * 1024)
#define RECORD_NAME_MAX 64

struct record {
        char id[ID_LENGTH + 1];
        char *name;                               /* NULL: none */
        char boot_id[37];                         /* of /proc/sys/kernel/random/boot_id */
        uint64_t pid_namespace, cgroup_namespace; /* inodes; 0: not known */
        struct process_identity owner;
        char *owner_comm;
        enum cgtree_placement placement;
        char *cgroup; /* path below the cgroup2 root; NULL: none */
        uint64_t cgroup_id;
        struct { /* placement GROUP */
                struct process_identity
                        leader; /* the root: leader of group pgid == leader.pid (and of its session, if it has its own) */
                struct process_identity reaper; /* the subreaper above it */
                uint64_t birth_cgroup_id;       /* inode of the cgroup in which the root was born; 0: no cgroup v2 */
                char *lineage;                  /* the value of CGTREE_ID */
        } group;
        uint64_t grace_usec, owner_death_grace_usec;
        uint64_t created_usec; /* CLOCK_REALTIME */
        char *command;         /* name only: argv holds secrets */
};

void record_done(struct record *record);

/* Fills boot_id, the namespaces and the owner (ourselves); these are read once and handed on by the owner. */
int record_fill_origin(struct record *record);

/* JSON text of at most RECORD_MAX_SIZE, malloc'd; parse refuses everything that is not sane: wrong version or types, pid <= 1,
 * relative cgroup or "..", bad id or name, ids of zero. -EBADMSG with *ret_problem (a static string or malloc'd? static) */
int record_format(const struct record *record, char **ret_text);
int record_parse(const char *text, size_t size, struct record *ret_record, const char **ret_problem);

/* Writes ID.json below dirfd (temporary name, then link: a taken name is -EEXIST), then NAME.name if it has a name (-EEXIST: that name
 * belongs to another tree; nothing is left behind). -ENOSPC, -EDQUOT, -EROFS, -EACCES ...: nothing is left behind, others untouched. */
int record_write(int dirfd, const struct record *record);
/* Reads FILE ("ID.json") with every check of the file itself: regular, ours, not writable by others, small, O_NOFOLLOW | O_NONBLOCK;
 * the id inside must be that of the name. -ENOENT; -EBADMSG with *ret_problem (static string) for anything that is not right. */
int record_read(int dirfd, const char *file, struct record *ret_record, const char **ret_problem);
/* NAME.name first, then ID.json. 0 also when it is gone already. */
int record_unlink(int dirfd, const char *id, const char *name);

bool record_name_is_valid(
        const char *name); /* 1..64 of [A-Za-z0-9._-], begins alphanumeric, not of the form of an id */
