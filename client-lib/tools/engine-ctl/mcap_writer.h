/* mcap_writer.h - write an MCAP file, chunk by chunk.
 *
 * Filling a chunk and writing it are apart, so that two threads can do them: one fills chunks and the
 * catalog of schemas and channels, the other one writes full chunks behind each other.
 *
 *     mcap_writer_open("game.mcap", "x-engine-core", "engine-ctl 1", &writer, &why);
 *     schema = mcap_catalog_schema(&catalog, &chunk, "engine_core/shot", "ros1msg", text, bytes);
 *     channel = mcap_catalog_channel(&catalog, &chunk, &(struct mcap_channel_desc){ … });
 *     to = mcap_chunk_message(&chunk, &(struct mcap_message_head){ channel, … }, payload_bytes);
 *     memcpy(to, payload, payload_bytes);
 *     mcap_chunk_keep(&chunk);
 *     mcap_writer_chunk(writer, &chunk, &why);
 *     mcap_writer_finish(writer, &catalog, &why);
 *
 * Whatever happens between two chunks, all chunks before can be read: each stands for itself, with its
 * CRC. The summary at the end is an index for quick readers.
 *
 * Thread:    a chunk and the catalog have one user at a time, the writer has one.
 * Ownership: zero is an empty catalog; chunk and catalog are finished by who has them.
 * Cost:      a message is copied once; 16 bytes of index each; the writer keeps some hundred bytes per
 *            chunk until the end. */
#ifndef ENGINE_CTL_MCAP_WRITER_H
#define ENGINE_CTL_MCAP_WRITER_H

#include <engine-core/error.h>

#include "engine-ctl/mcap_bytes.h"

struct mcap_chunk_entry {
    uint64_t time;
    uint32_t offset;
    uint16_t channel;
};

struct mcap_chunk {
    struct mcap_bytes records;
    size_t record_bytes; /* of the message at the end that is not kept yet; 0: none */
    struct mcap_chunk_entry *entries;
    size_t entry_count, entry_capacity;
    struct mcap_chunk_entry entry; /* of the message that is not kept yet */
    struct mcap_bytes behind;      /* metadata records to be written behind the chunk */
    struct mcap_chunk *next;       /* for a queue; not used here */
};

void mcap_chunk_clear(struct mcap_chunk *chunk);
void mcap_chunk_finish(struct mcap_chunk *chunk);

static inline bool mcap_chunk_failed(const struct mcap_chunk *chunk)
{
    return chunk->records.failed || chunk->behind.failed;
}

struct mcap_message_head {
    uint16_t channel;
    uint32_t sequence;
    uint64_t log_time;
    uint64_t publish_time;
};

/* Room for the bytes of one message. It counts once it is kept; the next call takes the room back
 * otherwise. NULL: no memory, or the chunk would exceed MCAP_CHUNK_BYTES_MAX. */
unsigned char *mcap_chunk_message(struct mcap_chunk *chunk, const struct mcap_message_head *head,
                                  size_t bytes);
void mcap_chunk_keep(struct mcap_chunk *chunk); /* does nothing when there is nothing to keep */
void mcap_chunk_drop(struct mcap_chunk *chunk);

/* A Metadata record, written behind this chunk. */
void mcap_chunk_metadata(struct mcap_chunk *chunk, const char *name, const struct mcap_pair *pairs,
                         size_t count);

/* All schemas and channels so far, as the summary repeats them. */
struct mcap_catalog {
    struct mcap_bytes schemas, channels;
    uint32_t schema_count, channel_count;
};

void mcap_catalog_finish(struct mcap_catalog *catalog);

struct mcap_channel_desc {
    uint16_t schema;
    const char *topic;
    const char *encoding;
    const struct mcap_pair *metadata;
    size_t metadata_count;
};

/* Put one more into catalog and chunk; nothing of it may be between a message and its keeping. Returns
 * the id, or -1: there are no more ids, or no memory. */
int mcap_catalog_schema(struct mcap_catalog *catalog, struct mcap_chunk *chunk, const char *name,
                        const char *encoding, const void *data, size_t bytes);
int mcap_catalog_channel(struct mcap_catalog *catalog, struct mcap_chunk *chunk,
                         const struct mcap_channel_desc *desc);

struct mcap_writer; /* opaque */

/* Make a new file: one that is there is not touched.
 *
 * Returns EC_OK, EC_ERR_STATE (the file exists), EC_ERR_MEMORY or EC_ERR_SYSTEM. */
int mcap_writer_open(const char *path, const char *profile, const char *library,
                     struct mcap_writer **writer, struct ec_error *why);

/* Append a chunk and what stands behind it; an empty one is left out. After an error the file ends
 * behind the last whole record, and only mcap_writer_finish or _close may follow.
 *
 * Returns EC_OK, EC_ERR_MEMORY or EC_ERR_SYSTEM. */
int mcap_writer_chunk(struct mcap_writer *writer, const struct mcap_chunk *chunk,
                      struct ec_error *why);

uint64_t mcap_writer_bytes(const struct mcap_writer *writer); /* written so far */

/* Write the summary, close the file and free the writer, also after an error. */
int mcap_writer_finish(struct mcap_writer *writer, const struct mcap_catalog *catalog,
                       struct ec_error *why);

/* Close the file as it is and free the writer. Accepts NULL. */
void mcap_writer_close(struct mcap_writer *writer);

#endif
