/* mcap_bytes.h - a growing buffer, and how MCAP writes numbers, strings and records into it.
 *
 *     size_t record = mcap_put_record(&bytes, MCAP_SCHEMA);
 *     mcap_put_u16(&bytes, id);
 *     mcap_put_text(&bytes, name);
 *     mcap_end_record(&bytes, record);
 *     if (bytes.failed) … // no memory; nothing of what was put since counts
 *
 * Thread: one. Ownership: zero is an empty buffer; mcap_bytes_finish frees it. */
#ifndef ENGINE_CTL_MCAP_BYTES_H
#define ENGINE_CTL_MCAP_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine-ctl/mcap_format.h"

struct mcap_bytes {
    unsigned char *at;
    size_t count, capacity;
    bool failed; /* there was no memory at some time */
};

void mcap_bytes_finish(struct mcap_bytes *bytes);

/* Make room for more behind count, which stays. NULL: no memory, and failed is set. */
unsigned char *mcap_bytes_room(struct mcap_bytes *bytes, size_t more);

void mcap_put(struct mcap_bytes *bytes, const void *data, size_t count);
void mcap_put_u8(struct mcap_bytes *bytes, uint8_t value);
void mcap_put_u16(struct mcap_bytes *bytes, uint16_t value);
void mcap_put_u32(struct mcap_bytes *bytes, uint32_t value);
void mcap_put_u64(struct mcap_bytes *bytes, uint64_t value);
void mcap_put_text(struct mcap_bytes *bytes, const char *text); /* length and bytes, without NUL */

/* The begin of a record whose length is filled in at its end; the same for what has 4 bytes of length. */
size_t mcap_put_record(struct mcap_bytes *bytes, enum mcap_opcode opcode);
void mcap_end_record(struct mcap_bytes *bytes, size_t record);
size_t mcap_put_list(struct mcap_bytes *bytes);
void mcap_end_list(struct mcap_bytes *bytes, size_t list);

void mcap_put_map(struct mcap_bytes *bytes, const struct mcap_pair *pairs, size_t count);

/* Write and read the numbers of a message or prefix in place. */
static inline void mcap_store(unsigned char *at, uint64_t value, size_t count)
{
    for (size_t i = 0; i < count; i++)
        at[i] = (unsigned char)(value >> (8 * i));
}

static inline uint64_t mcap_load(const unsigned char *at, size_t count)
{
    uint64_t value = 0;

    for (size_t i = 0; i < count; i++)
        value |= (uint64_t)at[i] << (8 * i);
    return value;
}

#endif
