/* A process whose main thread has exited while another lives on and ignores TERM.  `ps` shows a zombie, and
 * cgroup.kill alone leaves it on some kernels.  --mode=sleep|read|futex is what the living thread does;
 * the process is a child, or (--as-root) the root. */
#include "payload.h"

#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static struct payload p;
static struct payload_step told;

static void prove(void) {
        for (int i = 0; i < 2000 && payload_state_of(getpid()) != 'Z'; i++)
                nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
        if (payload_state_of(getpid()) != 'Z')
                payload_cannot("outlive its main thread");
        kill(getpid(), SIGTERM);
        payload_proof("dead-leader pid=%d tid=%ld state=%c survived-term", getpid(), syscall(SYS_gettid),
                payload_state_of(getpid()));
}

static void linger(const char *mode) {
        static uint32_t word;
        int fd[2];
        char byte;

        if (strcmp(mode, "read") == 0) {
                if (pipe(fd) < 0)
                        payload_fail("pipe");
                for (;;)
                        (void)!read(fd[0], &byte, 1);
        }
        if (strcmp(mode, "futex") == 0)
                for (;;)
                        syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
        for (;;)
                sleep(1000);
}

static void *live_on(void *unused) {
        (void)unused;
        prove();
        if (p.as_root) {
                if (p.end == PAYLOAD_END_EXIT)
                        payload_finish(&p);
                payload_say("ready");
        } else
                payload_step_done(&told);
        linger(p.mode);
        return NULL;
}

static void lose_main_thread(void) {
        pthread_t thread;
        int r;

        signal(SIGTERM, SIG_IGN);
        r = pthread_create(&thread, NULL, live_on, NULL);
        if (r != 0)
                payload_cannot("start a thread");
        syscall(SYS_exit, 0);
}

int main(int argc, char **argv) {
        payload_begin(&p, argc, argv);
        if (!p.mode)
                p.mode = "sleep";
        payload_member("root");
        if (p.as_root)
                lose_main_thread();
        payload_step_make(&told);
        if (payload_fork() == 0) {
                payload_member("dead-leader");
                lose_main_thread();
        }
        payload_step_wait(&told);
        payload_finish(&p);
}
