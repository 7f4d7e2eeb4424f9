/* earlyoom.c - bind a file over /proc/meminfo, start earlyoom. */
#include "stress/earlyoom.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROGRAM "/usr/bin/earlyoom"

bool earlyoom_start(struct earlyoom *earlyoom, const char *directory, const char *marks,
                    uint64_t limit_bytes, char *why, size_t bytes)
{
    *earlyoom = (struct earlyoom) { .meminfo_fd = -1, .limit_bytes = limit_bytes };
    if (access(PROGRAM, X_OK) < 0) {
        snprintf(why, bytes, "earlyoom is not installed");
        return false;
    }
    snprintf(earlyoom->meminfo_path, sizeof earlyoom->meminfo_path, "%s/meminfo", directory);
    earlyoom->meminfo_fd = open(earlyoom->meminfo_path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    earlyoom_write(earlyoom, limit_bytes);
    if (mount(earlyoom->meminfo_path, "/proc/meminfo", NULL, MS_BIND, NULL) < 0) {
        snprintf(why, bytes, "bind mount over /proc/meminfo: %s", strerror(errno));
        earlyoom_stop(earlyoom);
        return false;
    }
    earlyoom->pid = fork();
    if (earlyoom->pid == 0) {
        const int null = open("/dev/null", O_WRONLY);

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (null >= 0) {
            dup2(null, STDOUT_FILENO);
            dup2(null, STDERR_FILENO);
        }
        execl(PROGRAM, "earlyoom", "-r", "0", "-m", marks, (char *)NULL);
        _exit(127);
    }
    return earlyoom->pid > 0;
}

/* The group as if it were a host. One write of a constant length: who reads never sees half of it. */
void earlyoom_write(struct earlyoom *earlyoom, uint64_t available_bytes)
{
    const uint64_t limit_bytes = earlyoom->limit_bytes;
    char text[512];
    int bytes;

    if (earlyoom->meminfo_fd < 0)
        return;
    bytes = snprintf(text, sizeof text,
                     "MemTotal:       %12" PRIu64 " kB\nMemFree:        %12" PRIu64
                     " kB\nMemAvailable:   %12" PRIu64
                     " kB\nBuffers:                   0 kB\nCached:                    0 kB\n"
                     "AnonPages:      %12" PRIu64
                     " kB\nSwapTotal:                 0 kB\nSwapFree:                  0 kB\n",
                     limit_bytes / 1024, available_bytes / 1024, available_bytes / 1024,
                     (limit_bytes - available_bytes) / 1024);
    if (pwrite(earlyoom->meminfo_fd, text, (size_t)bytes, 0) < 0)
        perror("meminfo");
}

void earlyoom_stop(struct earlyoom *earlyoom)
{
    if (earlyoom->pid > 0) {
        kill(earlyoom->pid, SIGKILL);
        waitpid(earlyoom->pid, NULL, 0);
    }
    if (earlyoom->meminfo_fd >= 0) {
        umount2("/proc/meminfo", MNT_DETACH);
        close(earlyoom->meminfo_fd);
        unlink(earlyoom->meminfo_path);
    }
    *earlyoom = (struct earlyoom) { .meminfo_fd = -1 };
}
