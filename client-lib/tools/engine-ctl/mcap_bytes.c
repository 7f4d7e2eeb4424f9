/* Numbers and strings into a growing buffer; see mcap_bytes.h. */
#include "engine-ctl/mcap_bytes.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_BYTES 256u

void mcap_bytes_finish(struct mcap_bytes *bytes)
{
    free(bytes->at);
    *bytes = (struct mcap_bytes) { 0 };
}

unsigned char *mcap_bytes_room(struct mcap_bytes *bytes, size_t more)
{
    size_t capacity = bytes->capacity != 0 ? bytes->capacity : FIRST_BYTES;
    unsigned char *grown;

    if (bytes->failed)
        return NULL;
    if (more <= bytes->capacity - bytes->count)
        return bytes->at + bytes->count;
    while (capacity - bytes->count < more && capacity <= SIZE_MAX / 2)
        capacity *= 2;
    grown = capacity - bytes->count < more ? NULL : realloc(bytes->at, capacity);
    if (grown == NULL) {
        bytes->failed = true;
        return NULL;
    }
    bytes->at = grown;
    bytes->capacity = capacity;
    return grown + bytes->count;
}

void mcap_put(struct mcap_bytes *bytes, const void *data, size_t count)
{
    unsigned char *room = mcap_bytes_room(bytes, count);

    if (room == NULL || count == 0)
        return;
    memcpy(room, data, count);
    bytes->count += count;
}

static void put_number(struct mcap_bytes *bytes, uint64_t value, size_t count)
{
    unsigned char *room = mcap_bytes_room(bytes, count);

    if (room == NULL)
        return;
    mcap_store(room, value, count);
    bytes->count += count;
}

void mcap_put_u8(struct mcap_bytes *bytes, uint8_t value)
{
    put_number(bytes, value, 1);
}

void mcap_put_u16(struct mcap_bytes *bytes, uint16_t value)
{
    put_number(bytes, value, 2);
}

void mcap_put_u32(struct mcap_bytes *bytes, uint32_t value)
{
    put_number(bytes, value, 4);
}

void mcap_put_u64(struct mcap_bytes *bytes, uint64_t value)
{
    put_number(bytes, value, 8);
}

void mcap_put_text(struct mcap_bytes *bytes, const char *text)
{
    size_t count = strlen(text);

    mcap_put_u32(bytes, (uint32_t)count);
    mcap_put(bytes, text, count);
}

size_t mcap_put_record(struct mcap_bytes *bytes, enum mcap_opcode opcode)
{
    size_t record = bytes->count;

    mcap_put_u8(bytes, (uint8_t)opcode);
    mcap_put_u64(bytes, 0);
    return record;
}

void mcap_end_record(struct mcap_bytes *bytes, size_t record)
{
    if (!bytes->failed)
        mcap_store(bytes->at + record + 1, bytes->count - record - MCAP_RECORD_HEAD_BYTES, 8);
}

size_t mcap_put_list(struct mcap_bytes *bytes)
{
    size_t list = bytes->count;

    mcap_put_u32(bytes, 0);
    return list;
}

void mcap_end_list(struct mcap_bytes *bytes, size_t list)
{
    if (!bytes->failed)
        mcap_store(bytes->at + list, bytes->count - list - 4, 4);
}

void mcap_put_map(struct mcap_bytes *bytes, const struct mcap_pair *pairs, size_t count)
{
    size_t map = mcap_put_list(bytes);

    for (size_t i = 0; i < count; i++) {
        mcap_put_text(bytes, pairs[i].key);
        mcap_put_text(bytes, pairs[i].value);
    }
    mcap_end_list(bytes, map);
}
