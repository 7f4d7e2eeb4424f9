/* Read any bytes as a recording: all of it, by its summary, and in the order of a replay. What comes
 * must lie inside the file's bytes and be as many events as were counted first. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine-ctl/replay_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* For the sanitizers. */
static void touch(const unsigned char *bytes, size_t count)
{
    static volatile unsigned char last;

    for (size_t i = 0; i < count; i++)
        last = bytes[i];
    (void)last;
}

static void read_messages(const char *path)
{
    struct mcap_reader *reader;
    struct mcap_message message;
    struct mcap_totals totals;
    uint64_t count = 0;

    if (mcap_reader_open(path, &reader, NULL) != EC_OK)
        return;
    while (mcap_reader_next(reader, &message, NULL) == EC_OK) {
        if (mcap_reader_channel(reader, message.channel) == NULL)
            abort();
        touch(message.data, message.bytes);
        count++;
    }
    mcap_reader_totals(reader, &totals);
    if (totals.messages != count || totals.end > totals.bytes)
        abort();
    mcap_reader_close(reader);
    if (mcap_reader_open(path, &reader, NULL) != EC_OK)
        abort();
    mcap_reader_summary(reader, NULL);
    mcap_reader_close(reader);
}

static void read_in_order(const char *path, bool by_step)
{
    struct replay_choice choice = { .by_step = by_step };
    const struct replay_event *event;
    struct replay_file file;

    if (replay_file_open(&file, path, &choice, NULL) == EC_OK) {
        uint64_t count = 0, last = 0;
        int rc;

        while ((rc = replay_file_next(&file, &event, NULL)) == EC_OK) {
            if (event->key < last || event->port >= file.port_count)
                abort();
            last = event->key;
            count++;
        }
        if (rc == EC_AGAIN && count != file.events)
            abort();
    }
    replay_file_finish(&file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int fd = memfd_create("mcap", MFD_CLOEXEC);
    char path[64];

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (fd >= 0 && write(fd, data, size) == (ssize_t)size) {
        read_messages(path);
        read_in_order(path, false);
        read_in_order(path, true);
    }
    close(fd);
    return 0;
}
