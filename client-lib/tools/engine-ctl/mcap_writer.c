/* mcap_writer.c - chunks, their indexes and the summary; see mcap_writer.h.
 *
 * A chunk goes to disk in one writev: the head of the Chunk record, its records as they were filled
 * in, and the index records behind it. */
#include "engine-ctl/mcap_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "engine-ctl/fault.h"
#include "engine-ctl/mcap_crc32.h"

#define FIRST_ENTRIES 4096u
#define CHUNK_HEAD_BYTES 40 /* of the Chunk record's content before its records; no compression */

struct mcap_writer {
    int fd;
    uint64_t offset; /* end of the last whole record */

    uint64_t messages, time_min, time_max;
    uint32_t chunks, metadata;
    uint64_t *channel_messages; /* by channel id */
    uint32_t *starts;           /* by channel id: scratch of the message index */
    struct mcap_bytes index;    /* scratch: the index records of one chunk */
    struct mcap_chunk_entry *sorted;
    size_t sorted_capacity;

    struct mcap_bytes chunk_indexes, metadata_indexes; /* records for the summary */
};

/* ---- chunks ---------------------------------------------------------------------------------- */

void mcap_chunk_clear(struct mcap_chunk *chunk)
{
    chunk->records.count = chunk->behind.count = 0;
    chunk->records.failed = chunk->behind.failed = false;
    chunk->record_bytes = 0;
    chunk->entry_count = 0;
}

void mcap_chunk_finish(struct mcap_chunk *chunk)
{
    mcap_bytes_finish(&chunk->records);
    mcap_bytes_finish(&chunk->behind);
    free(chunk->entries);
    *chunk = (struct mcap_chunk) { 0 };
}

static bool has_room_for_entry(struct mcap_chunk *chunk)
{
    size_t capacity = chunk->entry_capacity != 0 ? chunk->entry_capacity * 2 : FIRST_ENTRIES;
    struct mcap_chunk_entry *grown;

    if (chunk->entry_count < chunk->entry_capacity)
        return true;
    grown = realloc(chunk->entries, capacity * sizeof *grown);
    if (grown == NULL)
        return false;
    chunk->entries = grown;
    chunk->entry_capacity = capacity;
    return true;
}

unsigned char *mcap_chunk_message(struct mcap_chunk *chunk, const struct mcap_message_head *head,
                                  size_t bytes)
{
    const size_t heads = MCAP_RECORD_HEAD_BYTES + MCAP_MESSAGE_HEAD_BYTES;
    unsigned char *at;

    chunk->record_bytes = 0;
    if (bytes > MCAP_CHUNK_BYTES_MAX - heads ||
        chunk->records.count > MCAP_CHUNK_BYTES_MAX - heads - bytes || !has_room_for_entry(chunk))
        return NULL;
    at = mcap_bytes_room(&chunk->records, heads + bytes);
    if (at == NULL)
        return NULL;
    at[0] = MCAP_MESSAGE;
    mcap_store(at + 1, MCAP_MESSAGE_HEAD_BYTES + bytes, 8);
    mcap_store(at + 9, head->channel, 2);
    mcap_store(at + 11, head->sequence, 4);
    mcap_store(at + 15, head->log_time, 8);
    mcap_store(at + 23, head->publish_time, 8);
    chunk->entry = (struct mcap_chunk_entry) { .time = head->log_time,
                                               .offset = (uint32_t)chunk->records.count,
                                               .channel = head->channel };
    chunk->record_bytes = heads + bytes;
    return at + heads;
}

void mcap_chunk_keep(struct mcap_chunk *chunk)
{
    if (chunk->record_bytes == 0)
        return;
    chunk->records.count += chunk->record_bytes;
    chunk->entries[chunk->entry_count++] = chunk->entry;
    chunk->record_bytes = 0;
}

void mcap_chunk_drop(struct mcap_chunk *chunk)
{
    chunk->record_bytes = 0;
}

static void put_metadata(struct mcap_bytes *bytes, const char *name, const struct mcap_pair *pairs,
                         size_t count)
{
    size_t record = mcap_put_record(bytes, MCAP_METADATA);

    mcap_put_text(bytes, name);
    mcap_put_map(bytes, pairs, count);
    mcap_end_record(bytes, record);
}

void mcap_chunk_metadata(struct mcap_chunk *chunk, const char *name, const struct mcap_pair *pairs,
                         size_t count)
{
    put_metadata(&chunk->behind, name, pairs, count);
}

/* ---- catalog --------------------------------------------------------------------------------- */

void mcap_catalog_finish(struct mcap_catalog *catalog)
{
    mcap_bytes_finish(&catalog->schemas);
    mcap_bytes_finish(&catalog->channels);
    *catalog = (struct mcap_catalog) { 0 };
}

/* The record that was just put into the catalog goes into the chunk too. */
static bool repeat(const struct mcap_bytes *catalog, size_t record, struct mcap_chunk *chunk)
{
    mcap_chunk_drop(chunk);
    if (!catalog->failed)
        mcap_put(&chunk->records, catalog->at + record, catalog->count - record);
    return !catalog->failed && !chunk->records.failed;
}

int mcap_catalog_schema(struct mcap_catalog *catalog, struct mcap_chunk *chunk, const char *name,
                        const char *encoding, const void *data, size_t bytes)
{
    size_t record;

    if (catalog->schema_count == MCAP_IDS - 1)
        return -1;
    record = mcap_put_record(&catalog->schemas, MCAP_SCHEMA);
    mcap_put_u16(&catalog->schemas, (uint16_t)(catalog->schema_count + 1)); /* 0 means none */
    mcap_put_text(&catalog->schemas, name);
    mcap_put_text(&catalog->schemas, encoding);
    mcap_put_u32(&catalog->schemas, (uint32_t)bytes);
    mcap_put(&catalog->schemas, data, bytes);
    mcap_end_record(&catalog->schemas, record);
    return repeat(&catalog->schemas, record, chunk) ? (int)++catalog->schema_count : -1;
}

int mcap_catalog_channel(struct mcap_catalog *catalog, struct mcap_chunk *chunk,
                         const struct mcap_channel_desc *desc)
{
    size_t record;

    if (catalog->channel_count == MCAP_IDS)
        return -1;
    record = mcap_put_record(&catalog->channels, MCAP_CHANNEL);
    mcap_put_u16(&catalog->channels, (uint16_t)catalog->channel_count);
    mcap_put_u16(&catalog->channels, desc->schema);
    mcap_put_text(&catalog->channels, desc->topic);
    mcap_put_text(&catalog->channels, desc->encoding);
    mcap_put_map(&catalog->channels, desc->metadata, desc->metadata_count);
    mcap_end_record(&catalog->channels, record);
    return repeat(&catalog->channels, record, chunk) ? (int)catalog->channel_count++ : -1;
}

/* ---- the file -------------------------------------------------------------------------------- */

/* All of it or an error; then the file ends where it ended before. */
static int write_parts(struct mcap_writer *writer, struct iovec *parts, int count,
                       struct ec_error *why)
{
    uint64_t end = writer->offset;

    for (int i = 0; i < count; i++)
        end += parts[i].iov_len;
    while (count > 0) {
        ssize_t written = writev(writer->fd, parts, count);

        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0) {
            int rc = fault(why, EC_ERR_SYSTEM, "write: %s", strerror(errno));

            if (ftruncate(writer->fd, (off_t)writer->offset) < 0 ||
                lseek(writer->fd, (off_t)writer->offset, SEEK_SET) < 0)
                return rc; /* a part of a record stays at the end: readers stop before it */
            return rc;
        }
        for (; count > 0 && (size_t)written >= parts->iov_len; parts++, count--)
            written -= (ssize_t)parts->iov_len;
        if (count > 0) {
            parts->iov_base = (char *)parts->iov_base + written;
            parts->iov_len -= (size_t)written;
        }
    }
    writer->offset = end;
    return EC_OK;
}

static int write_bytes(struct mcap_writer *writer, const struct mcap_bytes *bytes,
                       struct ec_error *why)
{
    struct iovec part = { .iov_base = bytes->at, .iov_len = bytes->count };

    if (bytes->failed)
        return fault(why, EC_ERR_MEMORY, "no memory for %zu bytes of the file", bytes->count);
    return bytes->count != 0 ? write_parts(writer, &part, 1, why) : EC_OK;
}

int mcap_writer_open(const char *path, const char *profile, const char *library,
                     struct mcap_writer **writer, struct ec_error *why)
{
    struct mcap_writer *made = calloc(1, sizeof *made);
    struct mcap_bytes head = { 0 };
    size_t record;
    int rc;

    *writer = NULL;
    if (made == NULL)
        return fault(why, EC_ERR_MEMORY, "no memory for a writer");
    made->channel_messages = calloc(MCAP_IDS, sizeof *made->channel_messages);
    made->starts = calloc(MCAP_IDS + 1, sizeof *made->starts);
    made->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (made->fd < 0) {
        rc = errno == EEXIST ? fault(why, EC_ERR_STATE, "it exists already: choose another name")
                             : fault(why, EC_ERR_SYSTEM, "create it: %s", strerror(errno));
        mcap_writer_close(made);
        return rc;
    }
    mcap_put(&head, MCAP_MAGIC, MCAP_MAGIC_BYTES);
    record = mcap_put_record(&head, MCAP_HEADER);
    mcap_put_text(&head, profile);
    mcap_put_text(&head, library);
    mcap_end_record(&head, record);
    rc = made->channel_messages == NULL || made->starts == NULL
             ? fault(why, EC_ERR_MEMORY, "no memory for the counts of channels")
             : write_bytes(made, &head, why);
    mcap_bytes_finish(&head);
    if (rc < 0) {
        mcap_writer_close(made);
        return rc;
    }
    *writer = made;
    return EC_OK;
}

uint64_t mcap_writer_bytes(const struct mcap_writer *writer)
{
    return writer->offset;
}

void mcap_writer_close(struct mcap_writer *writer)
{
    if (writer == NULL)
        return;
    if (writer->fd >= 0)
        close(writer->fd);
    free(writer->channel_messages);
    free(writer->starts);
    free(writer->sorted);
    mcap_bytes_finish(&writer->index);
    mcap_bytes_finish(&writer->chunk_indexes);
    mcap_bytes_finish(&writer->metadata_indexes);
    free(writer);
}

/* ---- a chunk and its index ------------------------------------------------------------------- */

struct time_range {
    uint64_t min, max;
};

static struct time_range times_of(const struct mcap_chunk *chunk)
{
    struct time_range times = { 0, 0 };

    for (size_t i = 0; i < chunk->entry_count; i++) {
        uint64_t time = chunk->entries[i].time;

        if (i == 0 || time < times.min)
            times.min = time;
        if (time > times.max)
            times.max = time;
    }
    return times;
}

/* Order the entries by channel, as they came within each: a counting sort over starts[]. */
static bool sort_entries(struct mcap_writer *writer, const struct mcap_chunk *chunk,
                         uint32_t channels)
{
    uint32_t *starts = writer->starts;

    if (chunk->entry_count > writer->sorted_capacity) {
        free(writer->sorted);
        writer->sorted = malloc(chunk->entry_capacity * sizeof *writer->sorted);
        writer->sorted_capacity = writer->sorted != NULL ? chunk->entry_capacity : 0;
        if (writer->sorted == NULL)
            return false;
    }
    memset(starts, 0, (channels + 1) * sizeof *starts);
    for (size_t i = 0; i < chunk->entry_count; i++)
        starts[chunk->entries[i].channel + 1]++;
    for (uint32_t c = 0; c < channels; c++)
        starts[c + 1] += starts[c];
    for (size_t i = 0; i < chunk->entry_count; i++)
        writer->sorted[starts[chunk->entries[i].channel]++] = chunk->entries[i];
    return true; /* starts[c] is where channel c ends now */
}

/* The Message Index records of one chunk into writer->index, and into offsets where each will stand. */
static void put_message_indexes(struct mcap_writer *writer, uint32_t channels, uint64_t at,
                                struct mcap_bytes *offsets)
{
    uint32_t begin = 0;

    writer->index.count = 0;
    for (uint32_t c = 0; c < channels; c++) {
        uint32_t end = writer->starts[c];
        size_t record = writer->index.count, list;

        if (begin == end)
            continue;
        mcap_put_u16(offsets, (uint16_t)c);
        mcap_put_u64(offsets, at + record);
        mcap_put_record(&writer->index, MCAP_MESSAGE_INDEX);
        mcap_put_u16(&writer->index, (uint16_t)c);
        list = mcap_put_list(&writer->index);
        for (; begin < end; begin++) {
            mcap_put_u64(&writer->index, writer->sorted[begin].time);
            mcap_put_u64(&writer->index, writer->sorted[begin].offset);
        }
        mcap_end_list(&writer->index, list);
        mcap_end_record(&writer->index, record);
    }
}

static uint32_t channels_of(const struct mcap_chunk *chunk)
{
    uint32_t channels = 0;

    for (size_t i = 0; i < chunk->entry_count; i++)
        if (chunk->entries[i].channel >= channels)
            channels = chunk->entries[i].channel + 1u;
    return channels;
}

static void count_chunk(struct mcap_writer *writer, const struct mcap_chunk *chunk,
                        struct time_range times)
{
    writer->chunks++;
    for (size_t i = 0; i < chunk->entry_count; i++)
        writer->channel_messages[chunk->entries[i].channel]++;
    if (chunk->entry_count == 0)
        return;
    if (writer->messages == 0 || times.min < writer->time_min)
        writer->time_min = times.min;
    if (times.max > writer->time_max)
        writer->time_max = times.max;
    writer->messages += chunk->entry_count;
}

/* The metadata records behind a chunk were written at this offset: index them. */
static void index_metadata(struct mcap_writer *writer, const struct mcap_bytes *behind, uint64_t at)
{
    for (size_t begin = 0; begin < behind->count;) {
        const unsigned char *head = behind->at + begin;
        size_t bytes = MCAP_RECORD_HEAD_BYTES + (size_t)mcap_load(head + 1, 8);
        size_t name_bytes = (size_t)mcap_load(head + MCAP_RECORD_HEAD_BYTES, 4);
        size_t record = mcap_put_record(&writer->metadata_indexes, MCAP_METADATA_INDEX);

        mcap_put_u64(&writer->metadata_indexes, at + begin);
        mcap_put_u64(&writer->metadata_indexes, bytes);
        mcap_put(&writer->metadata_indexes, head + MCAP_RECORD_HEAD_BYTES, 4 + name_bytes);
        mcap_end_record(&writer->metadata_indexes, record);
        writer->metadata++;
        begin += bytes;
    }
}

/* Of a chunk without records. */
static int write_metadata(struct mcap_writer *writer, const struct mcap_bytes *behind,
                          struct ec_error *why)
{
    int rc = write_bytes(writer, behind, why);

    if (rc == EC_OK)
        index_metadata(writer, behind, writer->offset - behind->count);
    return rc;
}

/* Returns whether there was memory; chunk_indexes has one more record then. */
static bool put_chunk_index(struct mcap_writer *writer, const struct mcap_chunk *chunk,
                            struct time_range times, size_t chunk_bytes, uint32_t channels)
{
    struct mcap_bytes *indexes = &writer->chunk_indexes;
    size_t record = mcap_put_record(indexes, MCAP_CHUNK_INDEX), map;

    mcap_put_u64(indexes, times.min);
    mcap_put_u64(indexes, times.max);
    mcap_put_u64(indexes, writer->offset);
    mcap_put_u64(indexes, chunk_bytes);
    map = mcap_put_list(indexes);
    put_message_indexes(writer, channels, writer->offset + chunk_bytes, indexes);
    mcap_end_list(indexes, map);
    mcap_put_u64(indexes, writer->index.count);
    mcap_put_text(indexes, "");
    mcap_put_u64(indexes, chunk->records.count);
    mcap_put_u64(indexes, chunk->records.count);
    mcap_end_record(indexes, record);
    return !indexes->failed && !writer->index.failed;
}

int mcap_writer_chunk(struct mcap_writer *writer, const struct mcap_chunk *chunk,
                      struct ec_error *why)
{
    struct time_range times = times_of(chunk);
    size_t chunk_bytes = MCAP_RECORD_HEAD_BYTES + CHUNK_HEAD_BYTES + chunk->records.count;
    size_t indexes_before = writer->chunk_indexes.count;
    uint32_t channels = channels_of(chunk);
    unsigned char head[MCAP_RECORD_HEAD_BYTES + CHUNK_HEAD_BYTES] = { MCAP_CHUNK };
    struct iovec parts[4];
    int rc;

    if (chunk->records.count == 0)
        return write_metadata(writer, &chunk->behind, why);
    if (mcap_chunk_failed(chunk) || !sort_entries(writer, chunk, channels) ||
        !put_chunk_index(writer, chunk, times, chunk_bytes, channels))
        return fault(why, EC_ERR_MEMORY, "no memory for a chunk of %zu bytes",
                     chunk->records.count);
    mcap_store(head + 1, chunk_bytes - MCAP_RECORD_HEAD_BYTES, 8);
    mcap_store(head + 9, times.min, 8);
    mcap_store(head + 17, times.max, 8);
    mcap_store(head + 25, chunk->records.count, 8);
    mcap_store(head + 33, mcap_crc32(0, chunk->records.at, chunk->records.count), 4);
    mcap_store(head + 37, 0, 4); /* no compression */
    mcap_store(head + 41, chunk->records.count, 8);
    parts[0] = (struct iovec) { head, sizeof head };
    parts[1] = (struct iovec) { chunk->records.at, chunk->records.count };
    parts[2] = (struct iovec) { writer->index.at, writer->index.count };
    parts[3] = (struct iovec) { chunk->behind.at, chunk->behind.count };
    rc = write_parts(writer, parts, 4, why);
    if (rc < 0) {
        writer->chunk_indexes.count = indexes_before;
        return rc;
    }
    count_chunk(writer, chunk, times);
    index_metadata(writer, &chunk->behind, writer->offset - chunk->behind.count);
    return EC_OK;
}

/* ---- the end --------------------------------------------------------------------------------- */

static void put_statistics(const struct mcap_writer *writer, const struct mcap_catalog *catalog,
                           struct mcap_bytes *to)
{
    size_t record = mcap_put_record(to, MCAP_STATISTICS), map;

    mcap_put_u64(to, writer->messages);
    mcap_put_u16(to, (uint16_t)catalog->schema_count);
    mcap_put_u32(to, catalog->channel_count);
    mcap_put_u32(to, 0); /* attachments */
    mcap_put_u32(to, writer->metadata);
    mcap_put_u32(to, writer->chunks);
    mcap_put_u64(to, writer->time_min);
    mcap_put_u64(to, writer->time_max);
    map = mcap_put_list(to);
    for (uint32_t c = 0; c < catalog->channel_count; c++) {
        mcap_put_u16(to, (uint16_t)c);
        mcap_put_u64(to, writer->channel_messages[c]);
    }
    mcap_end_list(to, map);
    mcap_end_record(to, record);
}

/* One group of the summary, and the record that says where it is. start: of the summary in the file. */
static void put_group(struct mcap_bytes *summary, struct mcap_bytes *offsets, uint64_t start,
                      enum mcap_opcode opcode, const struct mcap_bytes *records)
{
    size_t record;

    if (records->count == 0)
        return;
    record = mcap_put_record(offsets, MCAP_SUMMARY_OFFSET);
    mcap_put_u8(offsets, (uint8_t)opcode);
    mcap_put_u64(offsets, start + summary->count);
    mcap_put_u64(offsets, records->count);
    mcap_end_record(offsets, record);
    mcap_put(summary, records->at, records->count);
}

static int write_summary(struct mcap_writer *writer, const struct mcap_catalog *catalog,
                         struct ec_error *why)
{
    struct mcap_bytes summary = { 0 }, offsets = { 0 }, statistics = { 0 };
    uint64_t start = writer->offset, offsets_start;
    size_t footer;
    int rc;

    put_statistics(writer, catalog, &statistics);
    put_group(&summary, &offsets, start, MCAP_SCHEMA, &catalog->schemas);
    put_group(&summary, &offsets, start, MCAP_CHANNEL, &catalog->channels);
    put_group(&summary, &offsets, start, MCAP_STATISTICS, &statistics);
    put_group(&summary, &offsets, start, MCAP_CHUNK_INDEX, &writer->chunk_indexes);
    put_group(&summary, &offsets, start, MCAP_METADATA_INDEX, &writer->metadata_indexes);
    offsets_start = start + summary.count;
    mcap_put(&summary, offsets.at, offsets.count);
    footer = mcap_put_record(&summary, MCAP_FOOTER);
    mcap_put_u64(&summary, start);
    mcap_put_u64(&summary, offsets_start);
    if (!summary.failed) {
        mcap_store(summary.at + footer + 1, MCAP_FOOTER_BYTES, 8);
        mcap_put_u32(&summary, mcap_crc32(0, summary.at, summary.count));
    }
    mcap_put(&summary, MCAP_MAGIC, MCAP_MAGIC_BYTES);
    summary.failed |= offsets.failed || statistics.failed || catalog->schemas.failed ||
                      catalog->channels.failed || writer->chunk_indexes.failed ||
                      writer->metadata_indexes.failed;
    rc = write_bytes(writer, &summary, why);
    mcap_bytes_finish(&summary);
    mcap_bytes_finish(&offsets);
    mcap_bytes_finish(&statistics);
    return rc;
}

int mcap_writer_finish(struct mcap_writer *writer, const struct mcap_catalog *catalog,
                       struct ec_error *why)
{
    struct mcap_bytes end = { 0 };
    size_t record = mcap_put_record(&end, MCAP_DATA_END);
    int rc;

    mcap_put_u32(&end, 0); /* no CRC over all of the data: each chunk has its own */
    mcap_end_record(&end, record);
    rc = write_bytes(writer, &end, why);
    mcap_bytes_finish(&end);
    if (rc == EC_OK)
        rc = write_summary(writer, catalog, why);
    if (close(writer->fd) < 0 && rc == EC_OK)
        rc = fault(why, EC_ERR_SYSTEM, "close: %s", strerror(errno));
    writer->fd = -1;
    mcap_writer_close(writer);
    return rc;
}
