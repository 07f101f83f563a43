/* SPDX-License-Identifier: MIT */
#pragma once

/* One record: what is known of one tree, as data (record.c), and its JSON file (record-file.c), whose form is
 * cgtree-records(5). Written once, before the first process of the tree runs; never rewritten; unlinked when the tree
 * was seen empty. */

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
        char *unit,
                *manager; /* of systemd, that the cgroup is or lies in, made for it; "user" or "system". NULL: none */
        struct {          /* placement GROUP */
                struct process_identity leader; /* the root: leader of group leader.pid (and of its session, if new) */
                struct process_identity reaper; /* the subreaper above it */
                uint64_t birth_cgroup_id;       /* inode of the cgroup in which the root was born; 0: no cgroup v2 */
                char *lineage;                  /* the value of CGTREE_ID */
        } group;
        uint64_t grace_usec, owner_death_grace_usec;
        uint64_t created_usec; /* CLOCK_REALTIME */
        char *command;         /* name only: argv holds secrets */
};

void record_done(struct record *record);
struct record record_take(struct record *record);

/* Fills boot_id and the namespaces: what those who judge a record compare it with. */
int record_fill_place(struct record *record);
/* And the owner, ourselves: what an owner reads once for all its records. */
int record_fill_origin(struct record *record);

/* What is not sane about it, as a sentence; NULL: nothing. */
const char *record_check(const struct record *record);
bool record_name_is_valid(const char *name); /* 1..64 of [A-Za-z0-9._-], begins alphanumeric, not of an id's form */

/* JSON text of at most RECORD_MAX_SIZE, malloc'd. -EMSGSIZE: it would be longer. */
int record_format(const struct record *record, char **ret_text);
/* Refuses everything that record_check() would, and wrong types, unknown versions, keys given twice: -EBADMSG, and why
 * in *ret_problem (a static string). Fields that this version does not know are ignored. */
int record_parse(const char *text, size_t size, struct record *ret_record, const char **ret_problem);

/* Writes ID.json below dirfd (temporary name, then link: a taken name is -EEXIST), then NAME.name if it has a name
 * (-EEXIST: that name belongs to another tree). -EINVAL: not sane. -ENOSPC, -EDQUOT, -EROFS, -EACCES ... Nothing is left
 * behind by a failure, and no other file is touched ever. */
int record_write(int dirfd, const struct record *record);
/* Reads FILE ("ID.json") with every check of the file itself: regular, ours, not writable by others, small, opened
 * O_NOFOLLOW | O_NONBLOCK; the id inside must be that of the name. -ENOENT; -EBADMSG, with *ret_problem (a static
 * string), for anything that is not right; -ENOMEM. */
int record_read(int dirfd, const char *file, struct record *ret_record, const char **ret_problem);
int record_read_id(int dirfd, const char *id, struct record *ret_record, const char **ret_problem);
/* The record that has that name. */
int record_read_name(int dirfd, const char *name, struct record *ret_record, const char **ret_problem);
/* NAME.name first (if it is this record's), then ID.json. 0 also when it is gone already. */
int record_unlink(int dirfd, const char *id, const char *name);
/* The same without knowing the name, and what a killed writer has left of it. */
int record_remove(int dirfd, const char *id);
/* Whoever ends a tree that has no cgroup holds this lock on its record, so that it gets its signal once. -EWOULDBLOCK:
 * somebody else does. -ENOENT: the record is gone. */
int record_lock(int dirfd, const char *id, int *ret_fd);

/* Removes what writers left that died halfway: temporary files nobody holds, names whose record is gone. */
int record_tidy(int dirfd);
