/* engine-core/publisher.h - publish events from this thread.
 *
 * A publisher owns one port: a ring that only this thread writes and any subscriber may read.
 * Claim an event, fill it in place, commit it; nobody sees anything before the commit.
 *
 *     if (ec_publisher_claim(publisher, SHOT, sizeof *shot, (void **)&shot) == EC_OK) {
 *         shot->x = 1.0f;
 *         ec_publisher_commit(publisher);
 *     }
 *
 * A payload over a quarter of the ring goes into a block of the port's own pool, by the same calls. A
 * block is used again when every reliable reader has passed its event; claim says EC_AGAIN until then.
 *
 * Many events cost less in a batch: they become visible, are stamped and wake their readers together.
 *
 *     ec_publisher_batch_begin(publisher);
 *     for (…)
 *         ec_publisher_publish(publisher, SHOT, &shots[i], sizeof shots[i]);
 *     ec_publisher_batch_end(publisher);
 *
 * A reliable reader that holds the publisher up for longer than the daemon's event.stall_ms is
 * demoted to lossy and told so: one hung program never stops another.
 *
 * Thread:    create and destroy from any thread; everything else from the one that publishes.
 * Ownership: the caller owns the publisher and destroys it before the client.
 * Cost:      claim and commit take no lock, allocate nothing and make no system call, unless a reader
 *            sleeps: waking it costs one write of 8 bytes. The same for 1 reader and for 100.
 *
 * The ring is the broadcast log of LMAX Disruptor (Thompson and others, 2011) with one writer, and
 * its wake-up is Dekker's store-load handshake; segment/event_port.h argues the orders. */
#ifndef ENGINE_CORE_PUBLISHER_H
#define ENGINE_CORE_PUBLISHER_H

#include <engine-core/event.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ec_publisher; /* opaque */

/* Stamps are of the real clock, within a microsecond; those of one port never go back. */
enum ec_stamp {
    EC_STAMP_BATCH = 0, /* one reading of the clock per batch, or per commit outside of one */
    EC_STAMP_EVENT = 1, /* one per event */
    EC_STAMP_FRAME = 2, /* only by ec_publisher_stamp, such as once per frame */
};

/* Zero means the default. */
struct ec_publisher_desc {
    const char *name;    /* of the port, 1..47 bytes; default "main" */
    uint32_t ring_bytes; /* power of two, 16 KiB..1 GiB; default 1 MiB */
    enum ec_stamp stamp;
    uint32_t
        block_bytes; /* of a block for payloads over a quarter of the ring, up to 64 MiB; default
                             none */
    uint32_t block_count; /* 1..256; default 4; all of them are reserved at creation */
};

/* Returns EC_OK, EC_ERR_PARAM (name, ring_bytes, blocks), EC_ERR_LIMIT (64 ports a client), EC_ERR_MEMORY,
 *         EC_ERR_DISCONNECTED, EC_ERR_TIMEOUT, EC_ERR_SYSTEM. */
EC_API int ec_publisher_create(struct ec_client *client, const struct ec_publisher_desc *desc,
                               struct ec_publisher **publisher, struct ec_error *why);
EC_API void ec_publisher_destroy(struct ec_publisher *publisher); /* accepts NULL */

/* Reserve room for one event of at most bytes. payload points into the ring, aligned to 16 bytes,
 * until the commit; claiming again without a commit gives the same room anew.
 *
 * Returns EC_OK, EC_AGAIN (a reliable reader is behind; nothing was claimed),
 *         EC_ERR_SIZE (more than the type allows, or than both a quarter of the ring and a block; a type
 *         with fields takes exactly its size), EC_ERR_TYPE (not registered by this client). */
EC_API int ec_publisher_claim(struct ec_publisher *publisher, uint64_t type, size_t bytes,
                              void **payload);

/* The same, but wait for up to timeout_ns while a reliable reader is behind: EC_ERR_TIMEOUT then. */
EC_API int ec_publisher_claim_wait(struct ec_publisher *publisher, uint64_t type, size_t bytes,
                                   int64_t timeout_ns, void **payload);

/* Publish what was claimed: all of it, or only its first used bytes (types without fields). Without
 * a claim: EC_ERR_STATE. */
EC_API int ec_publisher_commit(struct ec_publisher *publisher);
EC_API int ec_publisher_commit_used(struct ec_publisher *publisher, size_t used);

/* Claim, copy and commit in one. */
EC_API int ec_publisher_publish(struct ec_publisher *publisher, uint64_t type, const void *payload,
                                size_t bytes);

/* Events committed between the two become visible together at the end. */
EC_API void ec_publisher_batch_begin(struct ec_publisher *publisher);
EC_API void ec_publisher_batch_end(struct ec_publisher *publisher);

/* The next event is a keyframe: it holds the whole state, and a late joiner that asks for it starts
 * there and goes on with the increments behind it. */
EC_API void ec_publisher_keyframe(struct ec_publisher *publisher);

/* Nothing of this step or an earlier one will be published any more. Subscribers that read in the order
 * of steps wait for this; call it once per step, also when there was nothing to publish. Makes an open
 * batch visible. What is stamped from now on has the step after it, even if that is not announced yet. */
EC_API void ec_publisher_step_passed(struct ec_publisher *publisher, uint64_t step);

/* Take the time (and the step) for the events that follow; with EC_STAMP_FRAME the only stamp. */
EC_API void ec_publisher_stamp(struct ec_publisher *publisher);

struct ec_publisher_stats {
    uint64_t published;
    uint64_t would_block; /* claims that found a reliable reader behind */
    uint64_t refused;     /* claims of unknown types or wrong sizes */
    uint64_t bells;       /* sleeping readers that were woken */
    uint32_t readers;     /* admitted now */
    uint32_t reliable;    /* of them, those that are waited for */
    uint32_t demoted;     /* of them, those that held the publisher up for too long */
};

EC_API void ec_publisher_stats(const struct ec_publisher *publisher,
                               struct ec_publisher_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
