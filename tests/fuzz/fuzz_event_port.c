/* A hostile port against its reader: whatever lies in the header, the marks and the ring, and however it
 * changes between two looks, the reader touches nothing outside of what is mapped and comes to an end.
 *
 * The input is a list of operations: the publisher writes anywhere, the reader does its next step. Header,
 * ring and blocks are allocations of their own, so that AddressSanitizer guards the ends of each. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "segment/event_port.h"

#define RING_BYTES EC_PORT_RING_BYTES_MIN
#define BLOCK_BYTES 4096u
#define BLOCKS 2u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

struct input {
    const uint8_t *data;
    size_t bytes;
};

static uint64_t take(struct input *input, size_t bytes)
{
    uint64_t value = 0;

    if (bytes > input->bytes)
        bytes = input->bytes;
    memcpy(&value, input->data, bytes);
    input->data += bytes;
    input->bytes -= bytes;
    return value;
}

/* Small values are near the ring, so that most of them mean something. */
static uint64_t take_position(struct input *input)
{
    uint8_t kind = (uint8_t)take(input, 1);

    if (kind < 200)
        return take(input, 2) & ~(uint64_t)15;
    return kind < 250 ? take(input, 2) : take(input, 8);
}

static void write_word(struct ec_event_port *port, struct input *input)
{
    _Atomic uint64_t *words[] = { &port->tail,     &port->tail_intent,       &port->published,
                                  &port->keyframe, &port->keyframe_position, &port->step_passed };
    uint8_t which = (uint8_t)take(input, 1);
    struct ec_port_mark *mark;

    if (which < 128) {
        atomic_store(words[which % (sizeof words / sizeof words[0])], take_position(input));
    } else if (which < 144) {
        atomic_store(&port->block_sequence[which % BLOCKS], take(input, 1));
    } else {
        mark = &port->marks[take_position(input) & (EC_PORT_MARKS - 1)];
        atomic_store(&mark->position, take_position(input));
        atomic_store(&mark->sequence, take_position(input));
    }
}

static void write_event(unsigned char *ring, uint32_t mapped, struct input *input)
{
    struct ec_event_header header = {
        .type = take(input, 1),
        .sequence = take(input, 1),
        .bytes = (uint32_t)take_position(input),
        .block = (uint32_t)take(input, 1) % 8,
        .flags = (uint32_t)take(input, 1) % 4,
    };
    struct ec_event_block block = { .sequence = take(input, 1) };
    uint64_t offset = take_position(input) % (mapped - sizeof header - sizeof block);

    memcpy(ring + offset, &header, sizeof header);
    memcpy(ring + offset + sizeof header, &block, sizeof block);
}

static void use(const struct ec_port_view *view, const struct ec_port_item *item)
{
    const unsigned char *payload = item->payload;
    const uint64_t ring_bytes = view->mirrored ? 2u * RING_BYTES : RING_BYTES;
    const bool in_ring =
        payload >= view->ring && payload + item->header.bytes <= view->ring + ring_bytes;
    const bool in_block = payload >= view->blocks &&
                          payload + item->header.bytes <= view->blocks + BLOCKS * BLOCK_BYTES;
    volatile unsigned char sum = 0;

    if (!in_ring && !in_block)
        abort();
    for (uint32_t i = 0; i < item->header.bytes; i++)
        sum = (unsigned char)(sum + payload[i]);
}

static void read_next(const struct ec_port_view *view, struct ec_port_reading *reading)
{
    uint64_t lost_events, lost_bytes;
    struct ec_port_item item;
    int rc = ec_port_peek(reading, &item);

    if (rc == EC_OK) {
        use(view, &item);
        if (ec_port_intact(reading))
            ec_port_advance(reading, &item);
        else
            ec_port_resync(reading, &lost_events, &lost_bytes);
    } else if (rc == EC_ERR_STALE) {
        ec_port_resync(reading, &lost_events, &lost_bytes);
    } else if (rc != EC_AGAIN && rc != EC_ERR_LAYOUT) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct input input = { .data = data, .bytes = bytes };
    const bool mirrored = take(&input, 1) % 2 == 0;
    const uint32_t mapped = mirrored ? 2 * RING_BYTES : RING_BYTES;
    struct ec_event_port *port = aligned_alloc(4096, EC_PORT_HEAD_BYTES);
    unsigned char *ring = aligned_alloc(4096, mapped);
    unsigned char *blocks = aligned_alloc(4096, BLOCKS * BLOCK_BYTES);
    struct ec_port_view view = { .port = port,
                                 .blocks = blocks,
                                 .ring = ring,
                                 .ring_bytes = RING_BYTES,
                                 .block_bytes = BLOCK_BYTES,
                                 .block_count = BLOCKS,
                                 .mirrored = mirrored };
    struct ec_cursor_slot slot = { 0 };
    struct ec_port_reading reading;

    if (port == NULL || ring == NULL || blocks == NULL)
        abort();
    memset(port, 0, EC_PORT_HEAD_BYTES);
    memset(ring, 0, mapped);
    memset(blocks, 0, BLOCKS * BLOCK_BYTES);
    ec_port_reading_init(&reading, &view, &slot, 1, EC_PORT_START_OLDEST, 0);
    while (input.bytes > 0) {
        switch (take(&input, 1) % 8) {
        case 0:
        case 1:
            write_word(port, &input);
            break;
        case 2:
        case 3:
            write_event(ring, mapped, &input);
            break;
        case 4:
            ec_port_seek(&reading, (enum ec_port_start)(take(&input, 1) % 4),
                         (uint32_t)take(&input, 2));
            break;
        case 5:
            ec_port_show_cursor(&reading);
            break;
        default:
            read_next(&view, &reading);
        }
    }
    ec_port_reading_finish(&reading);
    free(port);
    free(ring);
    free(blocks);
    return 0;
}
