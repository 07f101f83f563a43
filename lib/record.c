/* SPDX-License-Identifier: MIT */
#include "record.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LABEL_MAX  255       /* bytes kept of a command's name */
#define FIELDS_MAX 256       /* of one object: far more than any version will have */
#define PID_LIMIT  (1 << 22) /* the kernel's PID_MAX_LIMIT */

void record_done(struct record *record) {
        if (!record)
                return;
        free(record->name);
        free(record->owner_comm);
        free(record->cgroup);
        free(record->unit);
        free(record->manager);
        free(record->group.lineage);
        free(record->command);
        *record = (struct record){ 0 };
}

struct record record_take(struct record *record) {
        struct record taken = *record;

        *record = (struct record){ 0 };
        return taken;
}

static uint64_t read_namespace(const char *path) {
        struct stat st;

        return stat(path, &st) < 0 ? 0 : st.st_ino;
}

static int read_line(const char *path, char *buffer, size_t size) {
        ssize_t n = read_file_at(AT_FDCWD, path, buffer, size);

        if (n < 0)
                return (int)n;
        if (n > 0 && buffer[n - 1] == '\n')
                buffer[n - 1] = '\0';
        return 0;
}

static bool boot_id_is_valid(const char *text) {
        return strlen(text) == 36 && strspn(text, "0123456789abcdef-") == 36;
}

/* Numbers of a /proc that belongs to another pid namespace are other processes' here. */
static bool proc_is_ours(void) {
        char target[32];
        ssize_t n = readlink("/proc/self", target, sizeof(target) - 1);
        uint64_t pid;

        if (n < 0)
                return false;
        target[n] = '\0';
        return parse_u64(target, &pid) >= 0 && pid == (uint64_t)getpid();
}

int record_fill_place(struct record *record) {
        char boot_id[64];
        int r = read_line("/proc/sys/kernel/random/boot_id", boot_id, sizeof(boot_id));

        if (r < 0)
                return r;
        if (!boot_id_is_valid(boot_id))
                return -EBADMSG;
        memcpy(record->boot_id, boot_id, sizeof(record->boot_id));
        record->cgroup_namespace = read_namespace("/proc/self/ns/cgroup");
        record->pid_namespace = proc_is_ours() ? read_namespace("/proc/self/ns/pid") : 0;
        return 0;
}

int record_fill_origin(struct record *record) {
        struct process_identity owner;
        char comm[64];
        int r;

        r = record_fill_place(record);
        if (r < 0)
                return r;
        r = read_line("/proc/self/comm", comm, sizeof(comm));
        if (r < 0)
                return r;
        r = process_self(&owner);
        if (r < 0)
                return r;
        if (record->pid_namespace == 0) /* better not known than another's */
                owner.start_time = 0;
        record->owner_comm = strdup(comm);
        if (!record->owner_comm)
                return -ENOMEM;
        record->owner = owner;
        return 0;
}

/* ---- sanity --------------------------------------------------------------------------------------------- */

bool record_name_is_valid(const char *name) {
        static const char alphanumeric[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
        size_t length = strlen(name);

        if (length == 0 || length > RECORD_NAME_MAX || !strchr(alphanumeric, name[0]))
                return false;
        for (const char *c = name; *c; c++)
                if (!strchr(alphanumeric, *c) && !strchr("._-", *c))
                        return false;
        return !id_is_valid(name);
}

/* Absolute, each component a name, the last one the id: all that a tree's directory ever is. */
/* The last component, which is to be the tree's own; NULL: not a path of a cgroup. */
static const char *cgroup_path_last(const char *path) {
        const char *last = path;

        if (path[0] != '/' || strlen(path) >= PATH_MAX)
                return NULL;
        while (*path == '/') {
                size_t length = strcspn(path + 1, "/");

                last = path + 1;
                if (length == 0 || (length == 1 && last[0] == '.') || (length == 2 && last[0] == '.' && last[1] == '.'))
                        return NULL;
                path = last + length;
        }
        return last;
}

/* A scope carries the id at the end of its name. */
static bool is_scope_of(const char *unit, const char *id) {
        size_t length = strlen(unit), end = strlen("-.scope") + ID_LENGTH;

        return length > end && strncmp(unit + length - end + 1, id, ID_LENGTH) == 0 && unit[length - end] == '-' &&
               strcmp(unit + length - strlen(".scope"), ".scope") == 0;
}

static const char *check_cgroup(const struct record *record) {
        bool scope = record->placement == CGTREE_PLACEMENT_SCOPE;
        const char *last = record->cgroup ? cgroup_path_last(record->cgroup) : NULL;

        if (scope && (!record->unit || !is_scope_of(record->unit, record->id)))
                return "the unit is not one of a tree";
        if (record->manager && strcmp(record->manager, "user") != 0 && strcmp(record->manager, "system") != 0)
                return "the manager is not one that this version knows";
        if (!last || strcmp(last, scope ? record->unit : record->id) != 0)
                return "the cgroup is not one of a tree";
        return record->cgroup_id == 0 ? "the cgroup has no id" : NULL;
}

/* Ids, outermost first, joined by ':'; the last one is the tree's own. */
static bool lineage_is_sane(const char *lineage, const char *id) {
        const char *last = strrchr(lineage, ':');

        return strcmp(last ? last + 1 : lineage, id) == 0 &&
               strspn(lineage, "0123456789abcdefghjkmnpqrstvwxyz:") == strlen(lineage);
}

static bool pid_is_sane(pid_t pid) {
        return pid > 1 && pid <= PID_LIMIT;
}

static const char *check_group(const struct record *record) {
        pid_t leader = record->group.leader.pid, reaper = record->group.reaper.pid;

        if (!pid_is_sane(leader) || !pid_is_sane(reaper))
                return "the group has a pid that no command can have";
        if (leader == reaper || leader == record->owner.pid || reaper == record->owner.pid)
                return "owner, reaper and leader are not three processes";
        if (!record->group.lineage || !lineage_is_sane(record->group.lineage, record->id))
                return "the lineage does not end in the id";
        return NULL;
}

const char *record_check(const struct record *record) {
        if (!id_is_valid(record->id))
                return "the id is not one";
        if (record->name && !record_name_is_valid(record->name))
                return "the name is not one";
        if (!boot_id_is_valid(record->boot_id))
                return "the boot id is not one";
        if (!pid_is_sane(record->owner.pid))
                return "the owner has a pid that no owner can have";
        switch (record->placement) {
        case CGTREE_PLACEMENT_SUBTREE:
        case CGTREE_PLACEMENT_SCOPE: return check_cgroup(record);
        case CGTREE_PLACEMENT_GROUP: return check_group(record);
        case CGTREE_PLACEMENT_AUTO:
        default: return "the backend is not one that this version knows";
        }
}

/* ---- to JSON -------------------------------------------------------------------------------------------- */

/* Length of the UTF-8 sequence that begins here; 0: none does. */
static size_t utf8_length(const char *text) {
        const unsigned char *b = (const unsigned char *)text;
        size_t length = b[0] < 0x80 ? 1 : b[0] < 0xc2 ? 0 : b[0] < 0xe0 ? 2 : b[0] < 0xf0 ? 3 : b[0] < 0xf5 ? 4 : 0;

        for (size_t i = 1; i < length; i++)
                if ((b[i] & 0xc0) != 0x80)
                        return 0;
        if ((b[0] == 0xe0 && b[1] < 0xa0) || (b[0] == 0xed && b[1] > 0x9f) || (b[0] == 0xf0 && b[1] < 0x90) ||
                (b[0] == 0xf4 && b[1] > 0x8f))
                return 0;
        return length;
}

/* The name of a process may be any bytes; JSON is UTF-8. */
static char *make_label(const char *text) {
        char *label = malloc(LABEL_MAX + 1);
        size_t n = 0;

        if (!label)
                return NULL;
        while (*text) {
                size_t length = utf8_length(text);
                bool printable = length > 1 || (length == 1 && *text >= ' ' && *text != 0x7f);

                if (length == 0)
                        length = 1;
                if (n + length > LABEL_MAX)
                        break;
                memcpy(label + n, printable ? text : "?", length);
                n += length;
                text += length;
        }
        label[n] = '\0';
        return label;
}

static bool add_string(cJSON *object, const char *key, const char *text) {
        return text ? cJSON_AddStringToObject(object, key, text) : cJSON_AddNullToObject(object, key);
}

static bool add_label(cJSON *object, const char *key, const char *text) {
        _cleanup_free_ char *label = text ? make_label(text) : NULL;

        return (label || !text) && add_string(object, key, label);
}

/* Raw text: cJSON's own numbers are doubles, exact up to 2^53 only. */
static bool add_number(cJSON *object, const char *key, uint64_t number) {
        char text[32];

        snprintf(text, sizeof(text), "%" PRIu64, number);
        return cJSON_AddRawToObject(object, key, text);
}

static bool add_known(cJSON *object, const char *key, uint64_t number) {
        return number ? add_number(object, key, number) : cJSON_AddNullToObject(object, key) != NULL;
}

static bool add_process(cJSON *object, const struct process_identity *identity) {
        return add_number(object, "pid", (uint64_t)identity->pid) &&
               add_known(object, "start_time", identity->start_time) &&
               add_known(object, "pidfd_inode", identity->inode);
}

static bool add_group(cJSON *root, const struct record *record) {
        cJSON *group, *reaper;

        if (record->placement != CGTREE_PLACEMENT_GROUP)
                return cJSON_AddNullToObject(root, "group");
        group = cJSON_AddObjectToObject(root, "group");
        if (!group || !add_number(group, "pgid", (uint64_t)record->group.leader.pid) ||
                !add_known(group, "start_time", record->group.leader.start_time) ||
                !add_known(group, "leader_inode", record->group.leader.inode) ||
                !add_known(group, "birth_cgroup_id", record->group.birth_cgroup_id))
                return false;
        reaper = cJSON_AddObjectToObject(group, "reaper");
        return reaper && add_process(reaper, &record->group.reaper) &&
               add_string(group, "lineage", record->group.lineage);
}

static const char *backend_name(enum cgtree_placement placement) {
        switch (placement) {
        case CGTREE_PLACEMENT_SUBTREE: return "subtree";
        case CGTREE_PLACEMENT_SCOPE: return "scope";
        case CGTREE_PLACEMENT_GROUP: return "group";
        case CGTREE_PLACEMENT_AUTO:
        default: return NULL;
        }
}

static bool add_all(cJSON *root, const struct record *record) {
        cJSON *owner;

        if (!add_number(root, "version", RECORD_VERSION) || !add_string(root, "id", record->id) ||
                !add_string(root, "name", record->name) || !add_string(root, "lifetime", "owner") ||
                !add_string(root, "boot_id", record->boot_id) ||
                !add_known(root, "pid_namespace", record->pid_namespace) ||
                !add_known(root, "cgroup_namespace", record->cgroup_namespace))
                return false;
        owner = cJSON_AddObjectToObject(root, "owner");
        return owner && add_process(owner, &record->owner) && add_label(owner, "comm", record->owner_comm) &&
               add_string(root, "backend", backend_name(record->placement)) &&
               add_string(root, "cgroup", record->cgroup) && add_known(root, "cgroup_id", record->cgroup_id) &&
               add_string(root, "unit", record->unit) && add_string(root, "manager", record->manager) &&
               add_group(root, record) && add_number(root, "grace_usec", record->grace_usec) &&
               add_number(root, "owner_death_grace_usec", record->owner_death_grace_usec) &&
               add_number(root, "created_usec", record->created_usec) && add_label(root, "command", record->command);
}

int record_format(const struct record *record, char **ret_text) {
        cJSON *root = cJSON_CreateObject();
        char *json = root && add_all(root, record) ? cJSON_PrintUnformatted(root) : NULL;
        _cleanup_free_ char *text = json ? format("%s\n", json) : NULL;

        cJSON_free(json);
        cJSON_Delete(root);
        if (!text)
                return -ENOMEM;
        if (strlen(text) > RECORD_MAX_SIZE)
                return -EMSGSIZE;
        *ret_text = take_pointer(&text);
        return 0;
}

/* ---- from JSON ------------------------------------------------------------------------------------------ */

/* cJSON keeps a number as a double and forgets its text. So numbers reach it as strings that begin with this byte, which
 * no string of JSON can hold as it is, and which no string of ours begins with. */
#define NUMBER_MARK '\x01'

static bool is_json_space(char c) {
        return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Copies one string literal, quotes included. NULL: not one, or one that holds a NUL or would pass for a number. */
static const char *copy_string(const char *in, char **out) {
        *(*out)++ = *in++;
        if (strncmp(in, "\\u0001", 6) == 0)
                return NULL;
        for (; *in != '"'; in++) {
                if ((unsigned char)*in < ' ' || strncmp(in, "\\u0000", 6) == 0)
                        return NULL;
                *(*out)++ = *in;
                if (*in == '\\') {
                        in++;
                        if ((unsigned char)*in < ' ')
                                return NULL;
                        *(*out)++ = *in;
                }
        }
        *(*out)++ = *in++;
        return in;
}

/* Copies one number as a marked string. NULL: it is used as a key. */
static const char *copy_number(const char *in, char **out) {
        size_t length = strspn(in, "0123456789+-.eE");

        *(*out)++ = '"';
        *(*out)++ = NUMBER_MARK;
        memcpy(*out, in, length);
        *out += length;
        *(*out)++ = '"';
        for (in += length; is_json_space(*in);)
                in++;
        return *in == ':' ? NULL : in;
}

static int parse_json(const char *text, cJSON **ret_root) {
        _cleanup_free_ char *marked = malloc(strlen(text) * 4 + 1);
        char *out = marked;

        if (!marked)
                return -ENOMEM;
        for (const char *in = text; *in;) {
                if (*in == '"')
                        in = copy_string(in, &out);
                else if (*in == '-' || (*in >= '0' && *in <= '9'))
                        in = copy_number(in, &out);
                else
                        *out++ = *in++;
                if (!in)
                        return -EBADMSG;
        }
        *out = '\0';
        *ret_root = cJSON_ParseWithOpts(marked, NULL, true);
        return *ret_root ? 0 : -EBADMSG;
}

/* One object that is being read. The first thing that is wrong stands. */
struct reader {
        const cJSON *object;
        const char *problem;
        bool out_of_memory;
};

static void reader_fail(struct reader *reader, const char *problem) {
        if (!reader->problem)
                reader->problem = problem;
}

/* What the last of two equal keys says differs from reader to reader: so there may be no such two. */
static void reader_enter(struct reader *reader, const cJSON *object) {
        size_t n = 0;

        reader->object = cJSON_IsObject(object) ? object : NULL;
        if (!reader->object) {
                if (object)
                        reader_fail(reader, "a field is of the wrong type");
                return;
        }
        for (const cJSON *a = object->child; a; a = a->next) {
                if (++n > FIELDS_MAX) {
                        reader_fail(reader, "it has more fields than any record");
                        return;
                }
                for (const cJSON *b = a->next; b && n <= FIELDS_MAX; b = b->next)
                        if (strcmp(a->string, b->string) == 0)
                                reader_fail(reader, "a field is given twice");
        }
}

/* NULL: missing, or null. */
static const cJSON *reader_find(const struct reader *reader, const char *key) {
        const cJSON *item = cJSON_GetObjectItemCaseSensitive(reader->object, key);

        return cJSON_IsNull(item) ? NULL : item;
}

static const char *read_text(struct reader *reader, const char *key) {
        const cJSON *item = reader_find(reader, key);

        if (!item)
                return NULL;
        if (!cJSON_IsString(item) || item->valuestring[0] == NUMBER_MARK) {
                reader_fail(reader, "a field is of the wrong type");
                return NULL;
        }
        return item->valuestring;
}

static char *read_string(struct reader *reader, const char *key) {
        const char *text = read_text(reader, key);
        char *copy = text ? strdup(text) : NULL;

        if (text && !copy)
                reader->out_of_memory = true;
        return copy;
}

static bool read_is(struct reader *reader, const char *key, const char *wanted) {
        const char *text = read_text(reader, key);

        return text && strcmp(text, wanted) == 0;
}

static uint64_t read_number(struct reader *reader, const char *key, uint64_t missing) {
        const cJSON *item = reader_find(reader, key);
        uint64_t number;

        if (!item)
                return missing;
        if (!cJSON_IsString(item) || item->valuestring[0] != NUMBER_MARK)
                reader_fail(reader, "a field is of the wrong type");
        else if (parse_u64(item->valuestring + 1, &number) < 0)
                reader_fail(reader, "a number is not a whole one of 64 bits");
        else
                return number;
        return missing;
}

/* Numbers that no pid can be become 0, which no check lets pass. */
static pid_t read_pid(struct reader *reader, const char *key) {
        uint64_t number = read_number(reader, key, 0);

        return number > PID_LIMIT ? 0 : (pid_t)number;
}

static void read_process(struct reader *reader, struct process_identity *ret_identity) {
        ret_identity->pid = read_pid(reader, "pid");
        ret_identity->start_time = read_number(reader, "start_time", 0);
        ret_identity->inode = read_number(reader, "pidfd_inode", 0);
}

static void read_fixed(struct reader *reader, const char *key, char *buffer, size_t size) {
        const char *text = read_text(reader, key);

        if (text && strlen(text) < size)
                strcpy(buffer, text);
}

static void read_group(struct reader *reader, const cJSON *group, struct record *record) {
        const cJSON *reaper;

        reader_enter(reader, group);
        record->group.leader.pid = read_pid(reader, "pgid");
        record->group.leader.start_time = read_number(reader, "start_time", 0);
        record->group.leader.inode = read_number(reader, "leader_inode", 0);
        record->group.birth_cgroup_id = read_number(reader, "birth_cgroup_id", 0);
        record->group.lineage = read_string(reader, "lineage");
        reaper = reader_find(reader, "reaper");
        reader_enter(reader, reaper);
        read_process(reader, &record->group.reaper);
}

static void read_placement(struct reader *reader, struct record *record) {
        if (read_is(reader, "backend", "subtree"))
                record->placement = CGTREE_PLACEMENT_SUBTREE;
        else if (read_is(reader, "backend", "scope"))
                record->placement = CGTREE_PLACEMENT_SCOPE;
        else if (read_is(reader, "backend", "group"))
                record->placement = CGTREE_PLACEMENT_GROUP;
        record->unit = read_string(reader, "unit");
        record->manager = read_string(reader, "manager");
        record->cgroup = read_string(reader, "cgroup");
        record->cgroup_id = read_number(reader, "cgroup_id", 0);
}

static void read_all(struct reader *reader, const cJSON *root, struct record *record) {
        const cJSON *owner, *group;

        reader_enter(reader, root);
        if (read_number(reader, "version", 0) != RECORD_VERSION)
                reader_fail(reader, "the version is not one that this version knows");
        if (reader_find(reader, "lifetime") && !read_is(reader, "lifetime", "owner"))
                reader_fail(reader, "the lifetime is not one that this version knows");
        read_fixed(reader, "id", record->id, sizeof(record->id));
        record->name = read_string(reader, "name");
        read_fixed(reader, "boot_id", record->boot_id, sizeof(record->boot_id));
        record->pid_namespace = read_number(reader, "pid_namespace", 0);
        record->cgroup_namespace = read_number(reader, "cgroup_namespace", 0);
        read_placement(reader, record);
        record->grace_usec = read_number(reader, "grace_usec", 1500 * USEC_PER_MSEC);
        record->owner_death_grace_usec = read_number(reader, "owner_death_grace_usec", 0);
        record->created_usec = read_number(reader, "created_usec", 0);
        record->command = read_string(reader, "command");
        owner = reader_find(reader, "owner");
        group = reader_find(reader, "group");

        reader_enter(reader, owner);
        read_process(reader, &record->owner);
        record->owner_comm = read_string(reader, "comm");
        if (record->placement == CGTREE_PLACEMENT_GROUP)
                read_group(reader, group, record);
}

int record_parse(const char *text, size_t size, struct record *ret_record, const char **ret_problem) {
        _cleanup_free_ char *copy = strndup(text, size);
        struct reader reader = { 0 };
        struct record record = { 0 };
        cJSON *root;
        int r;

        if (!copy)
                return -ENOMEM;
        r = strlen(copy) == size && size <= RECORD_MAX_SIZE ? parse_json(copy, &root) : -EBADMSG;
        if (r < 0) {
                if (r == -EBADMSG)
                        *ret_problem = "it is not JSON";
                return r;
        }
        read_all(&reader, root, &record);
        cJSON_Delete(root);
        if (!reader.problem)
                reader.problem = record_check(&record);
        if (reader.out_of_memory || reader.problem) {
                record_done(&record);
                if (reader.out_of_memory)
                        return -ENOMEM;
                *ret_problem = reader.problem;
                return -EBADMSG;
        }
        *ret_record = record;
        return 0;
}
