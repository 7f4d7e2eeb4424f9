/* Events as messages; see recording.h. */
#include "engine-ctl/recording.h"

#include <string.h>

size_t recording_message_bytes(const struct event_layout *layout, uint32_t payload_bytes)
{
    return RECORDING_PREFIX_BYTES + (layout->field_count == 0 ? 4 : 0) + (size_t)payload_bytes;
}

void recording_put(const struct event_layout *layout, const struct ec_event *event,
                   unsigned char *to)
{
    mcap_store(to, event->sequence, 8);
    mcap_store(to + 8, event->step, 8);
    mcap_store(to + 16, event->sender, 4);
    mcap_store(to + 20, event->flags, 4);
    to += RECORDING_PREFIX_BYTES;
    if (layout->field_count == 0) {
        mcap_store(to, event->bytes, 4);
        to += 4;
    }
    memcpy(to, event->payload, event->bytes);
}

bool recording_take(const struct event_layout *layout, const struct mcap_message *message,
                    struct recorded_event *event)
{
    size_t head = recording_message_bytes(layout, 0);

    if (message->bytes < head)
        return false;
    *event = (struct recorded_event) {
        .time_ns = message->log_time,
        .sequence = mcap_load(message->data, 8),
        .step = mcap_load(message->data + 8, 8),
        .sender = (uint32_t)mcap_load(message->data + 16, 4),
        .flags = (uint32_t)mcap_load(message->data + 20, 4),
        .payload = message->data + head,
        .bytes = message->bytes - head,
    };
    if (layout->field_count != 0)
        return event->bytes == layout->bytes;
    return event->bytes <= layout->bytes &&
           mcap_load(message->data + RECORDING_PREFIX_BYTES, 4) == event->bytes;
}
