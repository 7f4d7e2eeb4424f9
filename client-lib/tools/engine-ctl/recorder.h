/* recorder.h - events from the bus into chunks: one more lossy subscriber, which nobody waits for.
 *
 *     recorder_start(&recorder, &desc, &why);
 *     while (…)
 *         events = recorder_poll(&recorder);
 *     recorder_flush(&recorder);
 *     … chunk_queue_finish, mcap_writer_finish(writer, &recorder.catalog) …
 *     recorder_finish(&recorder);
 *
 * A payload is copied while its publisher may overwrite it, and counts when the library has found it
 * whole. What was overwritten first is counted and written into the file as lost.
 *
 * Thread:    one; ec_subscriber_fd and _arm of recorder.subscriber are the caller's to use there.
 * Ownership: client and queue are the caller's and outlive the recorder.
 * Cost:      a copy of each event; a call to the daemon for each new type. */
#ifndef ENGINE_CTL_RECORDER_H
#define ENGINE_CTL_RECORDER_H

#include <engine-core/subscriber.h>

#include "engine-ctl/chunk_queue.h"
#include "engine-ctl/recording.h"

struct recorded_type;    /* a type that was asked for, known or not */
struct recorded_channel; /* one port and type */
struct recorded_port;    /* a port that lost events */

struct recorder_desc {
    struct ec_client *client;
    struct chunk_queue *queue;
    const char *const *types; /* names */
    uint32_t type_count;      /* 0: all */
    uint32_t history;         /* 0: begin with what is published from now on */
};

struct recorder {
    struct ec_client *client;
    struct chunk_queue *queue;
    struct ec_subscriber *subscriber;
    struct mcap_catalog catalog;
    struct mcap_chunk *chunk; /* NULL: writing has failed */

    struct recorded_type *types;
    struct recorded_channel *channels; /* a hash table */
    uint32_t channel_count, channel_capacity;
    struct recorded_channel *last; /* that of the event before */
    struct recorded_port *lossy_ports;

    int64_t end_ns; /* 0: none; what is stamped later is passed over */
    uint64_t passed_over;

    uint64_t events, payload_bytes;
    uint32_t pending_bytes; /* of the event that is not kept yet */
    uint64_t lost_events, lost_bytes, torn;
    uint64_t
        unrecorded; /* of types that the daemon does not know, or that contradict their layout */
    uint64_t losses_told; /* lost_events + unrecorded as the file has them */
};

/* Returns EC_OK or what ec_subscriber_create and the daemon answer. Finish it also after an error. */
int recorder_start(struct recorder *recorder, const struct recorder_desc *desc,
                   struct ec_error *why);

/* Take what is there, up to some thousand events. Returns how many; -1: writing has failed. */
int recorder_poll(struct recorder *recorder);

/* Give what is in hand to the queue, with the losses so far. */
void recorder_flush(struct recorder *recorder);

void recorder_finish(struct recorder *recorder); /* leaves the counts */

#endif
