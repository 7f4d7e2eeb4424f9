/* Two lists and a thread between them; see chunk_queue.h. */
#include "engine-ctl/chunk_queue.h"

#include <stdlib.h>
#include <string.h>

#include "engine-ctl/fault.h"

#define KEPT_BYTES                                                                                 \
    (4u * CHUNK_QUEUE_CHUNK_BYTES) /* a chunk that grew beyond gives its memory back */

static void *write_chunks(void *context);

int chunk_queue_start(struct chunk_queue *queue, struct mcap_writer *writer, struct ec_error *why)
{
    int rc;

    *queue = (struct chunk_queue) { .writer = writer };
    queue->full_end = &queue->full;
    pthread_mutex_init(&queue->mutex, NULL);
    pthread_cond_init(&queue->changed, NULL);
    rc = pthread_create(&queue->thread, NULL, write_chunks, queue);
    return rc == 0 ? EC_OK : fault(why, EC_ERR_SYSTEM, "start a thread: %s", strerror(rc));
}

static struct mcap_chunk *make_chunk(struct chunk_queue *queue)
{
    struct mcap_chunk *chunk = calloc(1, sizeof *chunk);

    if (chunk == NULL || mcap_bytes_room(&chunk->records, CHUNK_QUEUE_CHUNK_BYTES) == NULL) {
        free(chunk);
        return NULL;
    }
    queue->made++;
    return chunk;
}

struct mcap_chunk *chunk_queue_take(struct chunk_queue *queue)
{
    struct mcap_chunk *chunk = NULL;

    pthread_mutex_lock(&queue->mutex);
    if (queue->empty == NULL && queue->made < CHUNK_QUEUE_CHUNKS && queue->why.code == 0)
        chunk = make_chunk(queue);
    while (chunk == NULL && queue->empty == NULL && queue->made > 0 && queue->why.code == 0)
        pthread_cond_wait(&queue->changed, &queue->mutex);
    if (chunk == NULL && queue->empty != NULL && queue->why.code == 0) {
        chunk = queue->empty;
        queue->empty = chunk->next;
    }
    pthread_mutex_unlock(&queue->mutex);
    return chunk;
}

void chunk_queue_give(struct chunk_queue *queue, struct mcap_chunk *chunk)
{
    chunk->next = NULL;
    pthread_mutex_lock(&queue->mutex);
    *queue->full_end = chunk;
    queue->full_end = &chunk->next;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->mutex);
}

uint64_t chunk_queue_written(struct chunk_queue *queue)
{
    uint64_t bytes;

    pthread_mutex_lock(&queue->mutex);
    bytes = queue->written_bytes;
    pthread_mutex_unlock(&queue->mutex);
    return bytes;
}

static void empty_chunk(struct mcap_chunk *chunk)
{
    if (chunk->records.capacity > KEPT_BYTES)
        mcap_chunk_finish(chunk);
    mcap_chunk_clear(chunk);
}

/* The mutex is held but while writing. After an error chunks are only passed through. */
static void *write_chunks(void *context)
{
    struct chunk_queue *queue = context;

    pthread_mutex_lock(&queue->mutex);
    while (queue->full != NULL || !queue->ending) {
        struct mcap_chunk *chunk = queue->full;
        struct ec_error why = queue->why;

        if (chunk == NULL) {
            pthread_cond_wait(&queue->changed, &queue->mutex);
            continue;
        }
        queue->full = chunk->next;
        if (queue->full == NULL)
            queue->full_end = &queue->full;
        pthread_mutex_unlock(&queue->mutex);
        if (why.code == 0)
            mcap_writer_chunk(queue->writer, chunk, &why);
        empty_chunk(chunk);
        pthread_mutex_lock(&queue->mutex);
        queue->why = why;
        queue->written_bytes = mcap_writer_bytes(queue->writer);
        chunk->next = queue->empty;
        queue->empty = chunk;
        pthread_cond_broadcast(&queue->changed);
    }
    pthread_mutex_unlock(&queue->mutex);
    return NULL;
}

int chunk_queue_finish(struct chunk_queue *queue, struct ec_error *why)
{
    pthread_mutex_lock(&queue->mutex);
    queue->ending = true;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->mutex);
    pthread_join(queue->thread, NULL);
    while (queue->empty != NULL) {
        struct mcap_chunk *next = queue->empty->next;

        mcap_chunk_finish(queue->empty);
        free(queue->empty);
        queue->empty = next;
    }
    pthread_cond_destroy(&queue->changed);
    pthread_mutex_destroy(&queue->mutex);
    return queue->why.code == 0 ? EC_OK : fault(why, queue->why.code, "%s", queue->why.text);
}
