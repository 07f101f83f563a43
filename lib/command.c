/* SPDX-License-Identifier: MIT */
#include "command.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "record.h"

#define DEFAULT_PATH "/usr/local/bin:/usr/bin:/bin"
#define TARGET_MAX   1023

int cgtree_command_new(cgtree_command **ret_command, const char *const argv[]) {
        if (!ret_command || !argv || !argv[0] || !argv[0][0])
                return -EINVAL;

        cgtree_command *command = calloc(1, sizeof(*command));
        if (!command)
                return -ENOMEM;
        command->directory_fd = AT_FDCWD;
        command->grace_usec = CGTREE_DEFAULT;
        command->end_signal = SIGTERM;
        command->argv = strv_copy(argv);
        if (!command->argv || cgtree_command_set_fd(command, 0, CGTREE_FD_NULL) < 0 ||
                cgtree_command_set_fd(command, 1, CGTREE_FD_INHERIT) < 0 ||
                cgtree_command_set_fd(command, 2, CGTREE_FD_INHERIT) < 0) {
                cgtree_command_free(command);
                return -ENOMEM;
        }
        *ret_command = command;
        return 0;
}

void cgtree_command_free(cgtree_command *command) {
        if (!command)
                return;
        strv_free(command->argv);
        strv_free(command->environment);
        free(command->executable);
        free(command->directory);
        free(command->name);
        free(command->fds);
        free(command->groups);
        free(command->error_message);
        free(command);
}

static int replace_string(char **field, const char *value) {
        char *copy = NULL;
        if (value && !(copy = strdup(value)))
                return -ENOMEM;
        free(*field);
        *field = copy;
        return 0;
}

int cgtree_command_set_executable(cgtree_command *command, const char *path) {
        return command && path && path[0] ? replace_string(&command->executable, path) : -EINVAL;
}

int cgtree_command_set_environment(cgtree_command *command, const char *const envp[]) {
        if (!command || !envp)
                return -EINVAL;
        char **copy = strv_copy(envp);
        if (!copy)
                return -ENOMEM;
        strv_free(command->environment);
        command->environment = copy;
        return 0;
}

int cgtree_command_set_directory(cgtree_command *command, int dirfd, const char *path) {
        if (!command || !path || !path[0] || (dirfd < 0 && dirfd != AT_FDCWD))
                return -EINVAL;
        int r = replace_string(&command->directory, path);
        if (r >= 0)
                command->directory_fd = dirfd;
        return r;
}

int cgtree_command_set_user(cgtree_command *command, uid_t uid, gid_t gid, const gid_t groups[], size_t n_groups) {
        if (!command || uid == (uid_t)-1 || gid == (gid_t)-1 || (n_groups > 0 && !groups))
                return -EINVAL;
        gid_t *copy = calloc(n_groups + 1, sizeof(gid_t));
        if (!copy)
                return -ENOMEM;
        if (n_groups > 0)
                memcpy(copy, groups, n_groups * sizeof(gid_t));
        free(command->groups);
        command->groups = copy;
        command->n_groups = n_groups;
        command->uid = uid;
        command->gid = gid;
        command->set_user = true;
        return 0;
}

int cgtree_command_set_name(cgtree_command *command, const char *name) {
        if (!command || (name && !record_name_is_valid(name)))
                return -EINVAL;
        return replace_string(&command->name, name);
}

int cgtree_command_set_fd(cgtree_command *command, int target, int source) {
        if (!command || target < 0 || target > TARGET_MAX || source < CGTREE_FD_PIPE)
                return -EINVAL;

        size_t i = 0;
        while (i < command->n_fds && command->fds[i].target < target)
                i++;
        if (i == command->n_fds || command->fds[i].target != target) {
                struct child_fd *grown = realloc(command->fds, (command->n_fds + 1) * sizeof(*grown));
                if (!grown)
                        return -ENOMEM;
                command->fds = grown;
                memmove(grown + i + 1, grown + i, (command->n_fds - i) * sizeof(*grown));
                command->n_fds++;
        }
        command->fds[i] = (struct child_fd){ .target = target, .source = source };
        return 0;
}

int cgtree_command_set_inherit_fds(cgtree_command *command, bool yes) {
        if (!command)
                return -EINVAL;
        command->inherit_fds = yes;
        return 0;
}

int cgtree_command_set_session(cgtree_command *command, enum cgtree_session session) {
        if (!command || (unsigned)session > CGTREE_SESSION_TTY)
                return -EINVAL;
        command->session = session;
        return 0;
}

int cgtree_command_set_signals(cgtree_command *command, uint64_t blocked, uint64_t ignored) {
        if (!command)
                return -EINVAL;
        command->blocked = blocked;
        command->ignored = ignored;
        return 0;
}

int cgtree_command_set_timeout(cgtree_command *command, uint64_t usec) {
        if (!command || usec == CGTREE_DEFAULT)
                return -EINVAL;
        command->timeout_usec = usec;
        return 0;
}

int cgtree_command_set_grace(cgtree_command *command, int signal, bool root_only, uint64_t usec) {
        if (!command || signal < 1 || signal > SIGRTMAX)
                return -EINVAL;
        command->end_signal = signal;
        command->root_only = root_only;
        command->grace_usec = usec;
        return 0;
}

int cgtree_command_set_limit(cgtree_command *command, enum cgtree_limit limit, uint64_t value) {
        if (!command || (unsigned)limit >= N_LIMITS || value > INT64_MAX / 1000)
                return -EINVAL;
        command->limits.values[limit] = value;
        return 0;
}

int cgtree_command_set_end_with_root(cgtree_command *command, bool yes) {
        if (!command)
                return -EINVAL;
        command->end_with_root = yes;
        return 0;
}

enum cgtree_step cgtree_command_get_error(cgtree_command *command, const char **ret_message) {
        if (!command)
                return CGTREE_STEP_NONE;
        if (ret_message)
                *ret_message = command->error_message ? command->error_message : "";
        return command->error_step;
}

void command_set_error(cgtree_command *command, enum cgtree_step step, const char *message) {
        command->error_step = step;
        free(command->error_message);
        command->error_message = message ? strdup(message) : NULL;
}

const char *command_short_name(const cgtree_command *command) {
        const char *name = command->executable ? command->executable : command->argv[0];
        const char *slash = strrchr(name, '/');
        return slash && slash[1] ? slash + 1 : name;
}

/* ---- the plan ------------------------------------------------------------------------------------------------- */

static const char *environment_get(char *const environment[], const char *name) {
        size_t length = strlen(name);
        for (size_t i = 0; environment[i]; i++)
                if (strncmp(environment[i], name, length) == 0 && environment[i][length] == '=')
                        return environment[i] + length + 1;
        return NULL;
}

/* Replaces or appends one "NAME=value". */
int command_put_environment(char ***environment, const char *assignment) {
        size_t length = (size_t)(strchr(assignment, '=') - assignment) + 1;
        char *copy = strdup(assignment);
        if (!copy)
                return -ENOMEM;

        size_t n = 0;
        for (; (*environment)[n]; n++)
                if (strncmp((*environment)[n], assignment, length) == 0) {
                        free((*environment)[n]);
                        (*environment)[n] = copy;
                        return 0;
                }
        char **grown = realloc(*environment, (n + 2) * sizeof(char *));
        if (!grown) {
                free(copy);
                return -ENOMEM;
        }
        grown[n] = copy;
        grown[n + 1] = NULL;
        *environment = grown;
        return 0;
}

/* Every place where PATH says that it could be; an empty element is the working directory, as ever. */
static char **search_path(const char *name, const char *path) {
        size_t n = 1;
        for (const char *c = path; *c; c++)
                n += *c == ':';
        char **found = calloc(n + 1, sizeof(char *));
        for (size_t i = 0; found && i < n; i++) {
                size_t length = strcspn(path, ":");
                found[i] = length > 0 ? format("%.*s/%s", (int)length, path, name) : format("./%s", name);
                if (!found[i]) {
                        strv_free(found);
                        return NULL;
                }
                path += length + 1;
        }
        return found;
}

static char **find_executables(const cgtree_command *command, char *const environment[]) {
        const char *name = command->executable ? command->executable : command->argv[0];
        if (command->executable || strchr(name, '/'))
                return strv_copy((const char *const[]){ name, NULL });
        const char *path = environment_get(environment, "PATH");
        return search_path(name, path ? path : DEFAULT_PATH);
}

int command_plan(const cgtree_command *command, struct child_plan **ret_plan) {
        struct child_plan *plan = calloc(1, sizeof(*plan));
        if (!plan)
                return -ENOMEM;
        plan->argv = strv_copy((const char *const *)command->argv);
        plan->envp = strv_copy((const char *const *)(command->environment ? command->environment : environ));
        bool failed = !plan->argv || !plan->envp;
        if (!failed)
                plan->executables = find_executables(command, plan->envp);
        plan->directory_fd = command->directory_fd;
        if (command->directory)
                plan->directory = strdup(command->directory);
        plan->session = command->session;
        plan->blocked = command->blocked;
        plan->ignored = command->ignored;
        plan->inherit_fds = command->inherit_fds;
        plan->set_user = command->set_user;
        plan->uid = command->uid;
        plan->gid = command->gid;
        plan->fds = calloc(command->n_fds + 1, sizeof(*plan->fds));
        plan->groups = calloc(command->n_groups + 1, sizeof(gid_t));
        if (failed || !plan->executables || (command->directory && !plan->directory) || !plan->fds || !plan->groups) {
                child_plan_free(plan);
                return -ENOMEM;
        }
        if (command->n_groups > 0)
                memcpy(plan->groups, command->groups, command->n_groups * sizeof(gid_t));
        plan->n_groups = command->n_groups;

        for (size_t i = 0; i < command->n_fds; i++) {
                struct child_fd fd = command->fds[i];
                /* Closed here: closed there. And where all is inherited, a plain exec decides: what is CLOEXEC, it closes. */
                if (fd.source == CGTREE_FD_INHERIT &&
                        (fcntl(fd.target, F_GETFD) < 0 || (command->inherit_fds && fd.target <= STDERR_FILENO)))
                        continue;
                if (fd.source == CGTREE_FD_INHERIT)
                        fd.source = fd.target;
                plan->fds[plan->n_fds++] = fd;
        }
        *ret_plan = plan;
        return 0;
}
