/* mcap_reader.h - read the messages of an MCAP file that anybody may have written.
 *
 *     mcap_reader_open("game.mcap", &reader, &why);
 *     while ((rc = mcap_reader_next(reader, &message, &why)) == EC_OK)
 *         use(mcap_reader_channel(reader, message.channel), message.data, message.bytes);
 *     mcap_reader_totals(reader, &totals); // totals.whole: to its end
 *     mcap_reader_close(reader);
 *
 * The file may be cut anywhere: reading ends behind the last whole chunk. A chunk whose CRC is wrong,
 * and records that make no sense, are passed over and counted. No byte is believed before its bounds
 * are known. Compressed chunks are refused.
 *
 * Thread:    one per reader. Several readers may read one file.
 * Ownership: what a message and a channel point to belongs to the reader: a message until the next
 *            call, a channel until the reader is closed.
 * Cost:      one chunk in memory at a time, and the channels. */
#ifndef ENGINE_CTL_MCAP_READER_H
#define ENGINE_CTL_MCAP_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <engine-core/error.h>

#include "engine-ctl/mcap_format.h"

struct mcap_reader; /* opaque */

struct mcap_message {
    uint16_t channel; /* one that the reader knows */
    uint32_t sequence;
    uint64_t log_time;
    uint64_t publish_time;
    const unsigned char *data;
    size_t bytes;
    uint64_t chunk; /* 0, 1, 2 …: a message outside of chunks counts as one of its own */
};

struct mcap_map {
    struct mcap_pair *pairs; /* NUL-terminated texts */
    size_t count;
};

struct mcap_channel {
    uint16_t id;
    uint16_t schema;
    const char *topic;
    const char *encoding;
    struct mcap_map metadata;
    uint64_t messages; /* read so far, or as the summary says */
};

struct mcap_totals {
    uint64_t messages, time_min, time_max; /* log times; 0 without messages */
    uint64_t chunks;
    uint64_t damaged;     /* chunks with a wrong CRC, and records that make no sense */
    uint64_t end;         /* offset up to which the file was understood */
    uint64_t bytes;       /* of the file */
    uint32_t channels;    /* known */
    uint32_t channel_end; /* their ids lie below */
    bool whole;           /* Data End was reached, or the summary read: nothing is cut off */
};

/* Returns EC_OK, EC_ERR_SYSTEM, EC_ERR_MEMORY, or EC_ERR_PARSE (no MCAP file). */
int mcap_reader_open(const char *path, struct mcap_reader **reader, struct ec_error *why);
/* The same with an open file; the descriptor is the reader's from then on, also after an error. */
int mcap_reader_open_fd(int fd, struct mcap_reader **reader, struct ec_error *why);
void mcap_reader_close(struct mcap_reader *reader); /* accepts NULL */

/* The next message in the order of the file.
 *
 * Returns EC_OK, EC_AGAIN (there are no more), EC_ERR_SYSTEM, EC_ERR_MEMORY or EC_ERR_VERSION (a
 *         chunk is compressed). */
int mcap_reader_next(struct mcap_reader *reader, struct mcap_message *message,
                     struct ec_error *why);

/* Read the summary at the end instead of all messages: totals, channels and metadata are filled in
 * from it. For a reader that has read nothing yet, and does nothing else.
 *
 * Returns EC_OK, EC_ERR_NOT_FOUND (there is none, or it is damaged: open the file again and read the
 *         messages), EC_ERR_SYSTEM or EC_ERR_MEMORY. */
int mcap_reader_summary(struct mcap_reader *reader, struct ec_error *why);

void mcap_reader_totals(const struct mcap_reader *reader, struct mcap_totals *totals);

/* NULL: not known. */
const struct mcap_channel *mcap_reader_channel(const struct mcap_reader *reader, uint32_t id);
const char *mcap_reader_profile(const struct mcap_reader *reader);

/* The last Metadata record of this name so far. NULL: none. */
const struct mcap_map *mcap_reader_metadata(const struct mcap_reader *reader, const char *name);

/* The value of a key, or NULL. */
const char *mcap_map_find(const struct mcap_map *map, const char *key);

#endif
