/* chunk_queue.h - full chunks on their way to the file, which a thread of its own writes.
 *
 *     chunk = chunk_queue_take(&queue);   // an empty one; waits while all are on their way
 *     … fill it …
 *     chunk_queue_give(&queue, chunk);
 *     rc = chunk_queue_finish(&queue, &why); // all of them are written
 *
 * Thread:    take, give and finish from one; the queue runs the writing one.
 * Ownership: the writer stays the caller's; between start and finish only the queue uses it.
 * Cost:      chunks are made when they are needed for the first time, up to CHUNK_QUEUE_CHUNKS. */
#ifndef ENGINE_CTL_CHUNK_QUEUE_H
#define ENGINE_CTL_CHUNK_QUEUE_H

#include <pthread.h>
#include <stdbool.h>

#include "engine-ctl/mcap_writer.h"

#define CHUNK_QUEUE_CHUNK_BYTES (1u << 20) /* what a full chunk has, unless one event is larger */
#define CHUNK_QUEUE_CHUNKS 64              /* bridges a disk that stalls for a while */

struct chunk_queue {
    struct mcap_writer *writer;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct mcap_chunk *empty, *full, **full_end;
    unsigned made;
    bool ending;
    uint64_t written_bytes; /* of the file */
    struct ec_error why;    /* code 0: the file takes all so far */
};

/* Returns EC_OK or EC_ERR_SYSTEM. */
int chunk_queue_start(struct chunk_queue *queue, struct mcap_writer *writer, struct ec_error *why);

/* NULL: there is no memory for the first one, or writing has failed: chunk_queue_finish tells why. */
struct mcap_chunk *chunk_queue_take(struct chunk_queue *queue);
void chunk_queue_give(struct chunk_queue *queue, struct mcap_chunk *chunk);

uint64_t chunk_queue_written(struct chunk_queue *queue);

/* Write what is still there, end the thread and free the chunks; those that were taken too, if they
 * were given back. Returns EC_OK or the first error of the writer. */
int chunk_queue_finish(struct chunk_queue *queue, struct ec_error *why);

#endif
