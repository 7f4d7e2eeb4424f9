/* stress/earlyoom.h - earlyoom, the best guard that a host has without engine-core, over a control group.
 *
 * It knows the host only, so it runs in namespaces of its own (stress/namespaces.h), where a file that
 * tells of the group stands for /proc/meminfo. Whoever changes the group's memory writes that file.
 *
 * Thread: one. */
#ifndef EC_STRESS_EARLYOOM_H
#define EC_STRESS_EARLYOOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define EARLYOOM_PATH_BYTES 160

/* meminfo_fd -1: not started. */
struct earlyoom {
    pid_t pid;
    int meminfo_fd;
    uint64_t limit_bytes;
    char meminfo_path[EARLYOOM_PATH_BYTES];
};

/* directory is for the file. marks are its -m: SIGTERM below so many per cent, SIGKILL below the second
 * number. false: why says what is missing. */
bool earlyoom_start(struct earlyoom *earlyoom, const char *directory, const char *marks,
                    uint64_t limit_bytes, char *why, size_t bytes);
void earlyoom_write(struct earlyoom *earlyoom, uint64_t available_bytes);
void earlyoom_stop(struct earlyoom *earlyoom); /* accepts one that was not started */

#endif
