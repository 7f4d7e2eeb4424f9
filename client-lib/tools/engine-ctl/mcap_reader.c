/* mcap_reader.c - records out of a file that may be cut, damaged or hostile; see mcap_reader.h.
 *
 * All contents are read through struct span, which never goes beyond its end: what is not there reads
 * as zero and marks the span as broken. */
#include "engine-ctl/mcap_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine-ctl/fault.h"
#include "engine-ctl/mcap_bytes.h"
#include "engine-ctl/mcap_crc32.h"

#define METADATA_NAMES_MAX 64          /* kept; more is not ours */
#define CONTENT_BYTES_MAX (256u << 20) /* of a record that is no chunk and is looked into */

struct span {
    const unsigned char *at;
    size_t bytes;
    bool broken;
};

struct metadata {
    char *texts; /* what the map's pairs point into */
    const char *name;
    struct mcap_map map;
};

struct channel {
    struct mcap_channel channel;
    char *texts;
};

struct mcap_reader {
    int fd;
    uint64_t offset; /* of the next record of the file */
    char *profile;

    unsigned char *content; /* of the record that was read last */
    size_t capacity;
    struct span chunk; /* what is left of the chunk in content */
    uint64_t blocks;   /* chunks and messages outside of chunks, begun */

    struct channel **channels; /* MCAP_IDS pointers */
    struct metadata metadata[METADATA_NAMES_MAX];
    size_t metadata_count;
    struct mcap_totals totals;
};

/* ---- spans ----------------------------------------------------------------------------------- */

static const unsigned char *take(struct span *span, uint64_t bytes)
{
    const unsigned char *at = span->at;

    if (span->broken || bytes > span->bytes) {
        span->broken = true;
        return NULL;
    }
    span->at += bytes;
    span->bytes -= (size_t)bytes;
    return at;
}

static uint64_t take_number(struct span *span, size_t bytes)
{
    const unsigned char *at = take(span, bytes);

    return at != NULL ? mcap_load(at, bytes) : 0;
}

/* What has a length of 4 or 8 bytes before it. */
static struct span take_span(struct span *span, size_t length_bytes)
{
    uint64_t bytes = take_number(span, length_bytes);
    const unsigned char *at = take(span, bytes);

    return (
        struct span) { .at = at, .bytes = at != NULL ? (size_t)bytes : 0, .broken = at == NULL };
}

/* Copy a text and its NUL to *to, which moves on. A NUL inside makes the span broken. */
static const char *take_text(struct span *span, char **to)
{
    struct span text = take_span(span, 4);
    char *begin = *to;

    if (text.broken || memchr(text.at, '\0', text.bytes) != NULL) {
        span->broken = true;
        return "";
    }
    memcpy(begin, text.at, text.bytes);
    begin[text.bytes] = '\0';
    *to += text.bytes + 1;
    return begin;
}

static size_t count_pairs(struct span map)
{
    size_t count = 0;

    for (; map.bytes > 0 && !map.broken; count++) {
        take_span(&map, 4);
        take_span(&map, 4);
    }
    return count;
}

/* Returns whether there was memory. A map that makes no sense breaks the span. */
static bool take_map(struct span *span, char **to, struct mcap_map *map)
{
    struct span pairs = take_span(span, 4);
    size_t count = count_pairs(pairs);

    *map = (struct mcap_map) { 0 };
    if (count == 0)
        return true;
    map->pairs = calloc(count, sizeof *map->pairs);
    if (map->pairs == NULL)
        return false;
    for (; map->count < count; map->count++) {
        map->pairs[map->count].key = take_text(&pairs, to);
        map->pairs[map->count].value = take_text(&pairs, to);
    }
    span->broken |= pairs.broken;
    return true;
}

const char *mcap_map_find(const struct mcap_map *map, const char *key)
{
    for (size_t i = 0; map != NULL && i < map->count; i++)
        if (strcmp(map->pairs[i].key, key) == 0)
            return map->pairs[i].value;
    return NULL;
}

/* ---- the file -------------------------------------------------------------------------------- */

/* EC_OK, EC_AGAIN (the file has fewer bytes) or EC_ERR_SYSTEM. */
static int read_at(const struct mcap_reader *reader, uint64_t offset, void *to, size_t bytes,
                   struct ec_error *why)
{
    unsigned char *at = to;

    while (bytes > 0) {
        ssize_t got = pread(reader->fd, at, bytes, (off_t)offset);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fault(why, EC_ERR_SYSTEM, "read: %s", strerror(errno));
        if (got == 0)
            return EC_AGAIN;
        at += got;
        bytes -= (size_t)got;
        offset += (uint64_t)got;
    }
    return EC_OK;
}

struct record {
    enum mcap_opcode opcode;
    uint64_t bytes; /* of the content; all of them are in the file */
};

/* The head of the record at reader->offset. EC_AGAIN: there is no whole one. */
static int read_head(struct mcap_reader *reader, struct record *record, struct ec_error *why)
{
    unsigned char head[MCAP_RECORD_HEAD_BYTES];
    int rc;

    if (reader->totals.bytes - reader->offset < sizeof head)
        return EC_AGAIN;
    rc = read_at(reader, reader->offset, head, sizeof head, why);
    record->opcode = (enum mcap_opcode)head[0];
    record->bytes = mcap_load(head + 1, 8);
    if (rc == EC_OK && record->bytes > reader->totals.bytes - reader->offset - sizeof head)
        rc = EC_AGAIN;
    return rc;
}

/* The content of the record at reader->offset into reader->content. EC_AGAIN: too large to be ours. */
static int read_content(struct mcap_reader *reader, const struct record *record,
                        struct ec_error *why)
{
    size_t limit = record->opcode == MCAP_CHUNK ? MCAP_CHUNK_BYTES_MAX + 4096u : CONTENT_BYTES_MAX;

    if (record->bytes > limit)
        return EC_AGAIN;
    if (record->bytes > reader->capacity) {
        free(reader->content);
        reader->capacity = 0;
        reader->content = malloc((size_t)record->bytes);
        if (reader->content == NULL)
            return fault(why, EC_ERR_MEMORY, "no memory for a record of %zu bytes",
                         (size_t)record->bytes);
        reader->capacity = (size_t)record->bytes;
    }
    return read_at(reader, reader->offset + MCAP_RECORD_HEAD_BYTES, reader->content,
                   (size_t)record->bytes, why);
}

static int read_beginning(struct mcap_reader *reader, struct ec_error *why)
{
    char magic[MCAP_MAGIC_BYTES];
    struct record record;
    struct span content;
    char *to;
    int rc = read_at(reader, 0, magic, sizeof magic, why);

    if (rc < 0)
        return rc;
    if (rc == EC_AGAIN || memcmp(magic, MCAP_MAGIC, sizeof magic) != 0)
        return fault(why, EC_ERR_PARSE, "this is no MCAP file");
    reader->offset = sizeof magic;
    rc = read_head(reader, &record, why);
    if (rc == EC_OK && record.opcode == MCAP_HEADER)
        rc = read_content(reader, &record, why);
    if (rc < 0)
        return rc;
    if (rc == EC_AGAIN || record.opcode != MCAP_HEADER)
        return fault(why, EC_ERR_PARSE, "the MCAP file has no whole header");
    reader->profile = to = malloc((size_t)record.bytes + 1);
    if (to == NULL)
        return fault(why, EC_ERR_MEMORY, "no memory for the header");
    content = (struct span) { .at = reader->content, .bytes = (size_t)record.bytes };
    take_text(&content, &to);
    if (content.broken)
        return fault(why, EC_ERR_PARSE, "the MCAP file's header makes no sense");
    reader->offset += MCAP_RECORD_HEAD_BYTES + record.bytes;
    reader->totals.end = reader->offset;
    return EC_OK;
}

int mcap_reader_open(const char *path, struct mcap_reader **reader, struct ec_error *why)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    *reader = NULL;
    if (fd < 0)
        return fault(why, EC_ERR_SYSTEM, "%s", strerror(errno));
    return mcap_reader_open_fd(fd, reader, why);
}

int mcap_reader_open_fd(int fd, struct mcap_reader **reader, struct ec_error *why)
{
    struct mcap_reader *made = calloc(1, sizeof *made);
    struct stat status;
    int rc = EC_OK;

    *reader = NULL;
    if (made == NULL) {
        close(fd);
        return fault(why, EC_ERR_MEMORY, "no memory for a reader");
    }
    made->fd = fd;
    made->channels = calloc(MCAP_IDS, sizeof *made->channels);
    if (made->channels == NULL)
        rc = fault(why, EC_ERR_MEMORY, "no memory for channels");
    else if (fstat(fd, &status) < 0)
        rc = fault(why, EC_ERR_SYSTEM, "fstat: %s", strerror(errno));
    else if (!S_ISREG(status.st_mode))
        rc = fault(why, EC_ERR_PARSE, "this is no file");
    if (rc == EC_OK) {
        made->totals.bytes = (uint64_t)status.st_size;
        rc = read_beginning(made, why);
    }
    if (rc < 0) {
        mcap_reader_close(made);
        return rc;
    }
    *reader = made;
    return EC_OK;
}

static void finish_metadata(struct metadata *metadata)
{
    free(metadata->texts);
    free(metadata->map.pairs);
}

void mcap_reader_close(struct mcap_reader *reader)
{
    if (reader == NULL)
        return;
    for (uint32_t id = 0; id < reader->totals.channel_end; id++) {
        if (reader->channels[id] == NULL)
            continue;
        free(reader->channels[id]->channel.metadata.pairs);
        free(reader->channels[id]->texts);
        free(reader->channels[id]);
    }
    for (size_t i = 0; i < reader->metadata_count; i++)
        finish_metadata(&reader->metadata[i]);
    close(reader->fd);
    free(reader->channels);
    free(reader->content);
    free(reader->profile);
    free(reader);
}

void mcap_reader_totals(const struct mcap_reader *reader, struct mcap_totals *totals)
{
    *totals = reader->totals;
}

const struct mcap_channel *mcap_reader_channel(const struct mcap_reader *reader, uint32_t id)
{
    return id < MCAP_IDS && reader->channels[id] != NULL ? &reader->channels[id]->channel : NULL;
}

const char *mcap_reader_profile(const struct mcap_reader *reader)
{
    return reader->profile;
}

const struct mcap_map *mcap_reader_metadata(const struct mcap_reader *reader, const char *name)
{
    for (size_t i = 0; i < reader->metadata_count; i++)
        if (strcmp(reader->metadata[i].name, name) == 0)
            return &reader->metadata[i].map;
    return NULL;
}

/* ---- records --------------------------------------------------------------------------------- */

static int no_memory(struct ec_error *why)
{
    return fault(why, EC_ERR_MEMORY, "no memory for what the file describes");
}

/* Learn a channel. Its texts take less room than its content: each NUL takes the place of a length. */
static int learn_channel(struct mcap_reader *reader, struct span content, struct ec_error *why)
{
    uint16_t id = (uint16_t)take_number(&content, 2);
    struct channel *made;
    bool memory = true;
    char *to;

    if (content.broken) {
        reader->totals.damaged++;
        return EC_OK;
    }
    if (reader->channels[id] != NULL)
        return EC_OK; /* a repetition */
    made = calloc(1, sizeof *made);
    to = malloc(content.bytes + 1);
    if (made == NULL || to == NULL) {
        free(made);
        free(to);
        return no_memory(why);
    }
    made->texts = to;
    made->channel.id = id;
    made->channel.schema = (uint16_t)take_number(&content, 2);
    made->channel.topic = take_text(&content, &to);
    made->channel.encoding = take_text(&content, &to);
    memory = take_map(&content, &to, &made->channel.metadata);
    if (content.broken || !memory) {
        free(made->channel.metadata.pairs);
        free(made->texts);
        free(made);
        reader->totals.damaged += memory;
        return memory ? EC_OK : no_memory(why);
    }
    reader->channels[id] = made;
    reader->totals.channels++;
    if (id >= reader->totals.channel_end)
        reader->totals.channel_end = id + 1u;
    return EC_OK;
}

/* Keep a Metadata record in place of an earlier one of its name. */
static int learn_metadata(struct mcap_reader *reader, struct span content, struct ec_error *why)
{
    struct metadata made = { .texts = malloc(content.bytes + 1) };
    char *to = made.texts;
    size_t at = 0;

    if (made.texts == NULL)
        return no_memory(why);
    made.name = take_text(&content, &to);
    if (!take_map(&content, &to, &made.map)) {
        finish_metadata(&made);
        return no_memory(why);
    }
    while (at < reader->metadata_count && strcmp(reader->metadata[at].name, made.name) != 0)
        at++;
    if (content.broken || at == METADATA_NAMES_MAX) {
        reader->totals.damaged += content.broken;
        finish_metadata(&made);
        return EC_OK;
    }
    if (at < reader->metadata_count)
        finish_metadata(&reader->metadata[at]);
    else
        reader->metadata_count++;
    reader->metadata[at] = made;
    return EC_OK;
}

/* false: it makes no sense, and is counted. */
static bool parse_message(struct mcap_reader *reader, struct span content,
                          struct mcap_message *message)
{
    struct channel *channel;

    message->channel = (uint16_t)take_number(&content, 2);
    message->sequence = (uint32_t)take_number(&content, 4);
    message->log_time = take_number(&content, 8);
    message->publish_time = take_number(&content, 8);
    message->data = content.at;
    message->bytes = content.bytes;
    message->chunk = reader->blocks - 1;
    channel = reader->channels[message->channel];
    if (content.broken || channel == NULL) {
        reader->totals.damaged++;
        return false;
    }
    if (reader->totals.messages == 0 || message->log_time < reader->totals.time_min)
        reader->totals.time_min = message->log_time;
    if (message->log_time > reader->totals.time_max)
        reader->totals.time_max = message->log_time;
    reader->totals.messages++;
    channel->channel.messages++;
    return true;
}

/* Begin with the chunk in content, or count it as damaged. */
static int open_chunk(struct mcap_reader *reader, struct span content, struct ec_error *why)
{
    uint64_t records_bytes;
    uint32_t crc;
    struct span compression;

    take(&content, 16); /* times: the messages tell theirs */
    records_bytes = take_number(&content, 8);
    crc = (uint32_t)take_number(&content, 4);
    compression = take_span(&content, 4);
    if (!compression.broken && compression.bytes != 0)
        return fault(why, EC_ERR_VERSION, "its chunks are compressed (%.*s): decompress it first",
                     (int)(compression.bytes < 16 ? compression.bytes : 16),
                     (const char *)compression.at);
    reader->chunk = take_span(&content, 8);
    if (reader->chunk.broken || reader->chunk.bytes != records_bytes ||
        (crc != 0 && mcap_crc32(0, reader->chunk.at, reader->chunk.bytes) != crc)) {
        reader->chunk = (struct span) { 0 };
        reader->totals.damaged++;
        return EC_OK;
    }
    reader->blocks++;
    reader->totals.chunks++;
    return EC_OK;
}

/* The next message of the chunk. EC_AGAIN: it has no more. */
static int next_in_chunk(struct mcap_reader *reader, struct mcap_message *message,
                         struct ec_error *why)
{
    while (reader->chunk.bytes > 0) {
        enum mcap_opcode opcode = (enum mcap_opcode)take_number(&reader->chunk, 1);
        struct span content = take_span(&reader->chunk, 8);
        int rc = EC_OK;

        if (content.broken) {
            reader->totals.damaged++;
            break;
        }
        if (opcode == MCAP_CHANNEL)
            rc = learn_channel(reader, content, why);
        else if (opcode == MCAP_MESSAGE && parse_message(reader, content, message))
            return EC_OK;
        if (rc < 0)
            return rc;
    }
    reader->chunk = (struct span) { 0 };
    return EC_AGAIN;
}

static bool is_looked_into(enum mcap_opcode opcode)
{
    return opcode == MCAP_CHUNK || opcode == MCAP_CHANNEL || opcode == MCAP_METADATA ||
           opcode == MCAP_MESSAGE;
}

/* Take the record at reader->offset. *found: it was a message. EC_AGAIN: there are no more. */
static int next_record(struct mcap_reader *reader, struct mcap_message *message, bool *found,
                       struct ec_error *why)
{
    struct span content = { 0 };
    struct record record;
    int rc = read_head(reader, &record, why);

    *found = false;
    if (rc != EC_OK)
        return rc;
    if (record.opcode == MCAP_DATA_END || record.opcode == MCAP_FOOTER) {
        reader->totals.whole = true;
        reader->totals.end = reader->totals.bytes;
        return EC_AGAIN;
    }
    if (is_looked_into(record.opcode)) {
        rc = read_content(reader, &record, why);
        if (rc != EC_OK)
            return rc;
        content = (struct span) { .at = reader->content, .bytes = (size_t)record.bytes };
    }
    if (record.opcode == MCAP_CHUNK) {
        rc = open_chunk(reader, content, why);
    } else if (record.opcode == MCAP_CHANNEL) {
        rc = learn_channel(reader, content, why);
    } else if (record.opcode == MCAP_METADATA) {
        rc = learn_metadata(reader, content, why);
    } else if (record.opcode == MCAP_MESSAGE) {
        reader->blocks++;
        *found = parse_message(reader, content, message);
    }
    if (rc < 0)
        return rc;
    reader->offset += MCAP_RECORD_HEAD_BYTES + record.bytes;
    reader->totals.end = reader->offset;
    return EC_OK;
}

int mcap_reader_next(struct mcap_reader *reader, struct mcap_message *message, struct ec_error *why)
{
    for (;;) {
        bool found;
        int rc = next_in_chunk(reader, message, why);

        if (rc != EC_AGAIN)
            return rc;
        rc = next_record(reader, message, &found, why);
        if (rc != EC_OK || found)
            return rc;
    }
}

/* ---- the summary ----------------------------------------------------------------------------- */

static void learn_statistics(struct mcap_reader *reader, struct span content)
{
    struct mcap_totals totals = reader->totals;
    struct span counts;

    totals.messages = take_number(&content, 8);
    take(&content, 2 + 4 + 4 + 4);
    totals.chunks = take_number(&content, 4);
    totals.time_min = take_number(&content, 8);
    totals.time_max = take_number(&content, 8);
    counts = take_span(&content, 4);
    if (content.broken) {
        reader->totals.damaged++;
        return;
    }
    reader->totals = totals;
    while (counts.bytes > 0 && !counts.broken) {
        struct channel *channel = reader->channels[take_number(&counts, 2)];
        uint64_t messages = take_number(&counts, 8);

        if (channel != NULL && !counts.broken)
            channel->channel.messages = messages;
    }
}

/* Read the Metadata record that an index points to. */
static int follow_index(struct mcap_reader *reader, struct span content, struct ec_error *why)
{
    uint64_t back = reader->offset, offset = take_number(&content, 8);
    struct record record;
    int rc;

    if (content.broken || offset >= reader->totals.bytes)
        return EC_AGAIN;
    reader->offset = offset;
    rc = read_head(reader, &record, why);
    if (rc == EC_OK && record.opcode != MCAP_METADATA)
        rc = EC_AGAIN;
    if (rc == EC_OK)
        rc = read_content(reader, &record, why);
    if (rc == EC_OK)
        rc = learn_metadata(
            reader, (struct span) { .at = reader->content, .bytes = (size_t)record.bytes }, why);
    reader->offset = back;
    return rc;
}

/* Where the summary starts, checked by its CRC when it has one. EC_AGAIN: there is no good one. */
static int find_summary(struct mcap_reader *reader, uint64_t *start, uint64_t *end,
                        struct ec_error *why)
{
    unsigned char tail[MCAP_RECORD_HEAD_BYTES + MCAP_FOOTER_BYTES + MCAP_MAGIC_BYTES];
    unsigned char block[4096];
    uint32_t crc = 0, expected;
    uint64_t covered;
    int rc;

    if (reader->totals.bytes - reader->offset < sizeof tail)
        return EC_AGAIN;
    *end = reader->totals.bytes - sizeof tail;
    rc = read_at(reader, *end, tail, sizeof tail, why);
    if (rc != EC_OK)
        return rc;
    *start = mcap_load(tail + MCAP_RECORD_HEAD_BYTES, 8);
    expected = (uint32_t)mcap_load(tail + MCAP_RECORD_HEAD_BYTES + 16, 4);
    if (tail[0] != MCAP_FOOTER || mcap_load(tail + 1, 8) != MCAP_FOOTER_BYTES ||
        memcmp(tail + sizeof tail - MCAP_MAGIC_BYTES, MCAP_MAGIC, MCAP_MAGIC_BYTES) != 0 ||
        *start < reader->offset || *start > *end)
        return EC_AGAIN;
    if (expected == 0)
        return EC_OK;
    covered = *end + MCAP_RECORD_HEAD_BYTES + 16 - *start;
    for (uint64_t at = *start; covered > 0;) {
        size_t bytes = covered < sizeof block ? (size_t)covered : sizeof block;

        rc = read_at(reader, at, block, bytes, why);
        if (rc != EC_OK)
            return rc;
        crc = mcap_crc32(crc, block, bytes);
        at += bytes;
        covered -= bytes;
    }
    return crc == expected ? EC_OK : EC_AGAIN;
}

static int read_summary_record(struct mcap_reader *reader, const struct record *record,
                               bool *statistics, struct ec_error *why)
{
    struct span content;
    int rc;

    if (record->opcode != MCAP_CHANNEL && record->opcode != MCAP_STATISTICS &&
        record->opcode != MCAP_METADATA_INDEX)
        return EC_OK;
    rc = read_content(reader, record, why);
    if (rc != EC_OK)
        return rc;
    content = (struct span) { .at = reader->content, .bytes = (size_t)record->bytes };
    if (record->opcode == MCAP_CHANNEL)
        return learn_channel(reader, content, why);
    if (record->opcode == MCAP_METADATA_INDEX)
        return follow_index(reader, content, why);
    *statistics = true;
    learn_statistics(reader, content);
    return EC_OK;
}

int mcap_reader_summary(struct mcap_reader *reader, struct ec_error *why)
{
    bool statistics = false;
    uint64_t start, end;
    int rc = find_summary(reader, &start, &end, why);

    if (rc == EC_OK)
        reader->offset = start;
    while (rc == EC_OK && reader->offset < end) {
        struct record record;

        rc = read_head(reader, &record, why);
        if (rc == EC_OK && record.bytes > end - reader->offset)
            rc = EC_AGAIN;
        if (rc == EC_OK)
            rc = read_summary_record(reader, &record, &statistics, why);
        reader->offset += MCAP_RECORD_HEAD_BYTES + (rc == EC_OK ? record.bytes : 0);
    }
    if (rc < 0)
        return rc;
    if (rc == EC_AGAIN || !statistics)
        return fault(why, EC_ERR_NOT_FOUND, "the file has no whole summary");
    reader->totals.whole = true;
    reader->totals.end = reader->totals.bytes;
    return EC_OK;
}
