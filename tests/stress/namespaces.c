/* namespaces.c - two forks: a namespace of processes begins with the next child. */
#include "stress/namespaces.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* What a child hands back. */
struct outcome {
    bool ran;
    char why[200];
};

static void run_inside(struct outcome *outcome, void (*fn)(void *context), void *context)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    /* Private first, or the other mount would be one of the host's. */
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("proc", "/proc", "proc", 0, NULL) < 0) {
        snprintf(outcome->why, sizeof outcome->why, "mount /proc: %s", strerror(errno));
        _exit(0);
    }
    outcome->ran = true;
    fn(context);
    _exit(0);
}

bool namespaces_run(void (*fn)(void *context), void *context, char *why, size_t bytes)
{
    struct outcome *outcome =
        mmap(NULL, sizeof *outcome, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t outer;
    bool ran;

    if (outcome == MAP_FAILED) {
        snprintf(why, bytes, "mmap: %s", strerror(errno));
        return false;
    }
    fflush(NULL);
    outer = fork();
    if (outer == 0) {
        pid_t inner;

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (unshare(CLONE_NEWPID | CLONE_NEWNS) < 0) {
            snprintf(outcome->why, sizeof outcome->why, "namespaces: %s", strerror(errno));
            _exit(0);
        }
        inner = fork();
        if (inner == 0)
            run_inside(outcome, fn, context);
        waitpid(inner, NULL, 0);
        _exit(0);
    }
    if (outer > 0)
        waitpid(outer, NULL, 0);
    ran = outcome->ran;
    if (!ran)
        snprintf(why, bytes, "%s", outcome->why);
    munmap(outcome, sizeof *outcome);
    return ran;
}
