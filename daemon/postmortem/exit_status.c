/* exit_status.c - see exit_status.h. */
#include "postmortem/exit_status.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

/* linux/pidfd.h of 6.15; older headers lack it. */
struct pidfd_information {
    uint64_t mask;
    uint64_t cgroup_id;
    uint32_t pid, tgid, ppid;
    uint32_t ids[8];
    int32_t exit_code;
    uint32_t coredump_mask;
    uint32_t reserved;
};
#define INFORMATION_EXIT (UINT64_C(1) << 3)
#define GET_INFORMATION _IOWR(0xFF, 11, struct pidfd_information)

/* The last field of /proc/PID/stat of a process that has ended and was not collected. */
static bool read_stat(pid_t pid, int *status)
{
    char path[64], text[2048];
    const char *fields;
    size_t bytes;
    FILE *file;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    file = fopen(path, "re");
    if (file == NULL)
        return false;
    bytes = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[bytes] = '\0';
    fields = strrchr(text, ')'); /* behind the name, which may hold anything */
    if (fields == NULL || (fields[1] != '\0' && fields[2] != 'Z'))
        return false;
    fields = strrchr(text, ' ');
    /* 0 is also what is shown to those who may not look. */
    return fields != NULL && sscanf(fields, " %d", status) == 1 && *status != 0;
}

bool exit_status_of(int pidfd, pid_t pid, int *status)
{
    struct pidfd_information information = { .mask = INFORMATION_EXIT };

    if (ioctl(pidfd, GET_INFORMATION, &information) == 0 &&
        (information.mask & INFORMATION_EXIT) != 0) {
        *status = information.exit_code;
        return true;
    }
    return read_stat(pid, status);
}
