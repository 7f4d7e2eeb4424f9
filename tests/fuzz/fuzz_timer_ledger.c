/* A file of timers of any content, from its header on: refused with a reason, or all of it can be taken over
 * by timers that fire, go back and end. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/boot_id.h"
#include "scheduler/timer_ledger.h"

#define CLOCKS (ALARM_STEP + 3)
#define BOOT_ID_AT 16
#define FILE_BYTES_MAX (4096 + 128 * 4096)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* The input as a file, of this boot unless the input is too short for that. */
static int write_file(const uint8_t *data, size_t bytes)
{
    int fd = memfd_create("timers", MFD_CLOEXEC);
    char boot_id[BOOT_ID_BYTES] = "";

    if (fd < 0 || write(fd, data, bytes) != (ssize_t)bytes)
        abort();
    boot_id_read(boot_id);
    if (bytes >= BOOT_ID_AT + sizeof boot_id &&
        pwrite(fd, boot_id, sizeof boot_id, BOOT_ID_AT) != (ssize_t)sizeof boot_id)
        abort();
    return fd;
}

static void live(const struct timer_ledger_rows *found)
{
    struct timer_firing firing;
    struct timers *timers;
    struct ec_error why = { 0 };
    uint32_t left = 10000;

    if (timers_create(64, &timers, &why) < 0)
        abort();
    if (timers_restore(timers, found->rows, found->count, &why) < 0 && why.text[0] == '\0')
        abort();
    for (uint32_t i = 0; i < found->count; i++)
        timers_release(timers, found->rows[i].desc.owner);
    for (unsigned clock = 0; clock < CLOCKS; clock++) {
        while (left > 0 && timers_fire(timers, clock, INT64_MAX / 2, &firing)) {
            left--;
            timers_settle(timers);
        }
        if (clock != ALARM_REAL)
            timers_set_back(timers, clock, 0);
    }
    for (uint32_t i = 0; i < found->count; i++)
        timers_cancel_owner(timers, found->rows[i].desc.owner);
    if (timers_armed(timers) + timers_held(timers) != 0)
        abort();
    timers_destroy(timers);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct timer_ledger_rows found;
    struct ec_error why = { 0 };
    int fd, rc;

    if (bytes > FILE_BYTES_MAX)
        return 0;
    fd = write_file(data, bytes);
    rc = timer_ledger_read_file(fd, CLOCKS, &found, &why);
    if (rc < 0 && why.text[0] == '\0')
        abort();
    for (uint32_t i = 0; i < found.count; i++)
        if (found.rows[i].life != TIMER_FREE &&
            (found.rows[i].desc.clock >= CLOCKS || found.rows[i].desc.every < 0 ||
             found.rows[i].desc.owner == 0))
            abort();
    live(&found);
    timer_ledger_rows_finish(&found);
    close(fd);
    return 0;
}
