/* boot_id.c - see boot_id.h. */
#include "daemon/boot_id.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

void boot_id_read(char text[BOOT_ID_BYTES])
{
    const int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    const ssize_t got = fd >= 0 ? read(fd, text, BOOT_ID_BYTES - 1) : -1;

    if (fd >= 0)
        close(fd);
    text[got > 0 ? got : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
}
