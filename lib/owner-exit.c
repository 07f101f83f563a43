/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <sys/mman.h>

#include "owner.h"

/* What exit(3) finds of an owner. It stays when that is freed: what was registered cannot be taken back. A forked child finds it
 * wiped. */
struct exit_hook {
        pthread_mutex_t lock; /* zero is unlocked: a child may take it */
        cgtree_owner *owner;  /* NULL: nothing to be done any more */
        uint64_t grace_usec, timeout_usec;
};

/* As C++ does for its own: with an argument, and called at dlclose(3) too. */
int __cxa_atexit(void (*fn)(void *), void *argument, void *dso_handle);
extern void *__dso_handle __attribute__((visibility("hidden")));

static void close_at_exit(void *argument) {
        struct exit_hook *hook = argument;
        if (!__atomic_load_n(&hook->owner, __ATOMIC_ACQUIRE))
                return;
        pthread_mutex_lock(&hook->lock);
        /* If another thread closes it just now, that call says nothing and does not wait. */
        if (hook->owner && cgtree_owner_close(hook->owner, hook->grace_usec, hook->timeout_usec) >= 0)
                (void)cgtree_owner_terminate_all(hook->owner, hook->grace_usec, hook->timeout_usec);
        pthread_mutex_unlock(&hook->lock);
}

static struct exit_hook *make_hook(void) {
        struct exit_hook *hook = mmap(NULL, sizeof(*hook), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (hook == MAP_FAILED)
                return NULL;
        if (madvise(hook, sizeof(*hook), MADV_WIPEONFORK) >= 0 && __cxa_atexit(close_at_exit, hook, &__dso_handle) == 0)
                return hook;
        (void)munmap(hook, sizeof(*hook));
        return NULL;
}

int cgtree_owner_set_close_at_exit(cgtree_owner *owner, uint64_t grace_usec, uint64_t timeout_usec) {
        if (!owner)
                return -EINVAL;
        int r = owner_check(owner);
        if (r < 0)
                return r;
        pthread_mutex_lock(&owner->lock);
        if (!owner->exit_hook)
                owner->exit_hook = make_hook();
        struct exit_hook *hook = owner->exit_hook;
        pthread_mutex_unlock(&owner->lock); /* an exit under way holds its own, and wants this one */
        if (!hook)
                return -ENOMEM;
        pthread_mutex_lock(&hook->lock);
        hook->grace_usec = grace_usec;
        hook->timeout_usec = timeout_usec;
        __atomic_store_n(&hook->owner, owner, __ATOMIC_RELEASE);
        pthread_mutex_unlock(&hook->lock);
        return 0;
}

void owner_leave_exit(cgtree_owner *owner) {
        struct exit_hook *hook = owner->exit_hook;
        if (!hook)
                return;
        pthread_mutex_lock(&hook->lock);
        __atomic_store_n(&hook->owner, NULL, __ATOMIC_RELEASE);
        pthread_mutex_unlock(&hook->lock);
}
