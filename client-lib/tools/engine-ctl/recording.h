/* recording.h - what engine-core puts into MCAP files: the words that record and replay share.
 * docs/record-format.md describes them for others.
 *
 * Each message is an event: a prefix of 24 bytes, then its payload as it lay in the ring. A type
 * without fields has 4 bytes of length before its payload. One channel for each port and type. */
#ifndef ENGINE_CTL_RECORDING_H
#define ENGINE_CTL_RECORDING_H

#include <stdint.h>

#include "engine-ctl/event_layout.h"
#include "engine-ctl/mcap_reader.h"

#define RECORDING_PROFILE "x-engine-core"
#define RECORDING_ENCODING "ros1"
#define RECORDING_SCHEMA_ENCODING "ros1msg"

/* Keys of a channel's metadata. */
#define RECORDING_CLIENT "engine-core.client"       /* name of the publishing client */
#define RECORDING_CLIENT_ID "engine-core.client_id" /* its id in the recorded session */
#define RECORDING_PORT "engine-core.port"
#define RECORDING_PORT_ID "engine-core.port_id"
#define RECORDING_LAYOUT "engine-core.layout" /* JSON; see event_layout.h */

/* Metadata records of the file. */
#define RECORDING_ABOUT "engine-core.recording" /* first, in front of all events */
#define RECORDING_LOSSES "engine-core.losses"   /* all up to its place; the last one counts */

/* Of struct ec_event.flags. */
#define RECORDING_KEYFRAME 2u

#define RECORDING_PREFIX_BYTES 24u
#define RECORDING_PREFIX_ROS1                                                                      \
    "uint64 ec_sequence\nuint64 ec_step\nuint32 ec_sender\nuint32 ec_flags\n"

struct recorded_event {
    uint64_t time_ns;
    uint64_t sequence, step;
    uint32_t sender, flags;
    const unsigned char *payload;
    size_t bytes;
};

/* The whole message of an event with so many bytes of payload. */
size_t recording_message_bytes(const struct event_layout *layout, uint32_t payload_bytes);
void recording_put(const struct event_layout *layout, const struct ec_event *event,
                   unsigned char *to);

/* Take a message apart. false: its size does not fit the layout. */
bool recording_take(const struct event_layout *layout, const struct mcap_message *message,
                    struct recorded_event *event);

#endif
