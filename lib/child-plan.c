/* SPDX-License-Identifier: MIT */
#include "child.h"

#include <stdlib.h>

struct child_plan *child_plan_free(struct child_plan *plan) {
        if (!plan)
                return NULL;
        strv_free(plan->argv);
        strv_free(plan->envp);
        strv_free(plan->executables);
        free(plan->directory);
        free(plan->fds);
        free(plan->groups);
        free(plan);
        return NULL;
}

const char *child_step_to_string(int step) {
        static const char *const strings[] = {
                [CHILD_OK] = "start",
                [CHILD_JOIN] = "join the cgroup",
                [CHILD_SESSION] = "make a session or process group",
                [CHILD_TERMINAL] = "take the terminal",
                [CHILD_SIGNALS] = "set the signals",
                [CHILD_USER] = "become the user",
                [CHILD_DIRECTORY] = "change to the working directory",
                [CHILD_FDS] = "arrange the descriptors",
                [CHILD_EXEC] = "execute the command",
        };

        return step >= 0 && (size_t)step < sizeof(strings) / sizeof(strings[0]) ? strings[step] : "do an unknown step";
}
