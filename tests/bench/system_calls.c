/* system_calls.c - a filter that traps every system call, and what the kernel counts of a thread. */
#include "bench/system_calls.h"

#include <dirent.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

static _Thread_local volatile long trapped;

static void on_trap(int signal, siginfo_t *info, void *context)
{
    ucontext_t *at = context;

    (void)signal;
    (void)info;
    trapped++;
#if defined(__x86_64__)
    at->uc_mcontext.gregs[REG_RAX] = -ENOSYS;
#elif defined(__aarch64__)
    at->uc_mcontext.regs[0] = (unsigned long long)-ENOSYS;
#endif
}

/* All but the end of the handler, of the thread and of the process. */
static bool trap_all(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { .len = sizeof filter / sizeof *filter, .filter = filter };

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

struct counting {
    void (*work)(void *context);
    void *context;
    long calls;
    int failed; /* errno */
};

static void *count_in_thread(void *argument)
{
    struct counting *counting = argument;

    if (!trap_all()) {
        counting->failed = errno;
        return NULL;
    }
    trapped = 0;
    counting->work(counting->context);
    counting->calls = trapped;
    return NULL;
}

long count_system_calls(void (*work)(void *context), void *context)
{
    struct sigaction action = { .sa_sigaction = on_trap, .sa_flags = SA_SIGINFO };
    struct counting counting = { .work = work, .context = context };
    pthread_t thread;

    if (sigaction(SIGSYS, &action, NULL) < 0)
        return -1;
    errno = pthread_create(&thread, NULL, count_in_thread, &counting);
    if (errno != 0)
        return -1;
    pthread_join(thread, NULL);
    errno = counting.failed;
    return counting.failed == 0 ? counting.calls : -1;
}

long count_wakes(void)
{
    struct dirent *entry;
    DIR *tasks = opendir("/proc/self/task");
    long wakes = 0;

    while (tasks != NULL && (entry = readdir(tasks)) != NULL) {
        char path[300], line[128];
        FILE *status;

        snprintf(path, sizeof path, "/proc/self/task/%s/status", entry->d_name);
        status = fopen(path, "re");
        while (status != NULL && fgets(line, sizeof line, status) != NULL)
            if (strncmp(line, "voluntary_ctxt_switches:", 24) == 0)
                wakes += strtol(line + 24, NULL, 10);
        if (status != NULL)
            fclose(status);
    }
    if (tasks != NULL)
        closedir(tasks);
    return wakes;
}
