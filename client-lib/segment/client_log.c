/* client_log.c - see client_log.h. Texts are copied by relaxed atomic bytes: a reader may look at them
 * while they change. */
#include "segment/client_log.h"

#include <string.h>

void ec_client_log_write(struct ec_client_segment *segment, int64_t at_ns, const char *text)
{
    struct ec_client_log *log = &segment->log;
    uint64_t at = atomic_fetch_add_explicit(&log->next, 1, memory_order_relaxed);
    struct ec_client_log_line *line = &log->lines[at % EC_CLIENT_LOG_LINES];
    const size_t bytes = strnlen(text, sizeof line->text - 1);

    atomic_store_explicit(&line->at_ns, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_release); /* before the first byte of the text */
    for (size_t i = 0; i < bytes; i++)
        __atomic_store_n(&line->text[i], text[i], __ATOMIC_RELAXED);
    __atomic_store_n(&line->text[bytes], '\0', __ATOMIC_RELAXED);
    /* release: partner is the acquire in ec_client_log_read. */
    atomic_store_explicit(&line->at_ns, at_ns, memory_order_release);
}

/* The bytes of the UTF-8 character at text, or 0. */
static size_t character_bytes(const char *text)
{
    const unsigned char *byte = (const unsigned char *)text;
    size_t bytes = byte[0] < 0x80                      ? 1
                   : byte[0] >= 0xc2 && byte[0] < 0xe0 ? 2
                   : byte[0] >= 0xe0 && byte[0] < 0xf0 ? 3
                   : byte[0] >= 0xf0 && byte[0] < 0xf5 ? 4
                                                       : 0;

    for (size_t i = 1; i < bytes; i++)
        if ((byte[i] & 0xc0) != 0x80) /* the end of the text, too */
            return 0;
    if ((byte[0] == 0xe0 && byte[1] < 0xa0) || (byte[0] == 0xed && byte[1] >= 0xa0) ||
        (byte[0] == 0xf0 && byte[1] < 0x90) || (byte[0] == 0xf4 && byte[1] >= 0x90))
        return 0; /* longer than it must be, a surrogate, or beyond the last character */
    return bytes == 1 && (byte[0] < 0x20 || byte[0] == 0x7f) ? 0 : bytes;
}

static void clean(char *text)
{
    while (*text != '\0') {
        size_t bytes = character_bytes(text);

        if (bytes == 0) {
            *text = '?';
            bytes = 1;
        }
        text += bytes;
    }
}

unsigned ec_client_log_read(const struct ec_client_segment *segment,
                            struct ec_client_log_seen lines[EC_CLIENT_LOG_LINES])
{
    const struct ec_client_log *log = &segment->log;
    uint64_t next = atomic_load_explicit(&log->next, memory_order_relaxed);
    unsigned count = 0;

    for (unsigned i = 0; i < EC_CLIENT_LOG_LINES; i++) { /* the oldest is the one that comes next */
        const struct ec_client_log_line *line = &log->lines[(next + i) % EC_CLIENT_LOG_LINES];
        struct ec_client_log_seen *seen = &lines[count];

        /* acquire: partner is the release in ec_client_log_write. */
        seen->at_ns = atomic_load_explicit(&line->at_ns, memory_order_acquire);
        if (seen->at_ns == 0)
            continue;
        for (size_t byte = 0; byte < sizeof seen->text; byte++)
            seen->text[byte] = __atomic_load_n(&line->text[byte], __ATOMIC_RELAXED);
        seen->text[sizeof seen->text - 1] = '\0';
        clean(seen->text);
        count++;
    }
    return count;
}
