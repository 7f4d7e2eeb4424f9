/* mcap_format.h - the words of MCAP, a container for streams of messages (mcap.dev/spec).
 *
 *     magic | Header | { Chunk | Message Index... | Metadata }... | Data End | summary | Footer | magic
 *
 * A record is one byte of opcode, eight of length, content. All integers are little-endian; a string
 * is four bytes of length and UTF-8; a map is four bytes of length and its keys and values in turn.
 * What engine-core puts into the messages stands in docs/record-format.md. */
#ifndef ENGINE_CTL_MCAP_FORMAT_H
#define ENGINE_CTL_MCAP_FORMAT_H

#define MCAP_MAGIC "\x89MCAP0\r\n"
#define MCAP_MAGIC_BYTES 8

enum mcap_opcode {
    MCAP_HEADER = 0x01,
    MCAP_FOOTER = 0x02,
    MCAP_SCHEMA = 0x03,
    MCAP_CHANNEL = 0x04,
    MCAP_MESSAGE = 0x05,
    MCAP_CHUNK = 0x06,
    MCAP_MESSAGE_INDEX = 0x07,
    MCAP_CHUNK_INDEX = 0x08,
    MCAP_STATISTICS = 0x0b,
    MCAP_METADATA = 0x0c,
    MCAP_METADATA_INDEX = 0x0d,
    MCAP_SUMMARY_OFFSET = 0x0e,
    MCAP_DATA_END = 0x0f,
};

#define MCAP_RECORD_HEAD_BYTES 9   /* opcode and length */
#define MCAP_MESSAGE_HEAD_BYTES 22 /* channel, sequence, log time, publish time */
#define MCAP_FOOTER_BYTES 20
#define MCAP_IDS 65536 /* of schemas and of channels; schema 0 means none */

/* Larger chunks are neither written nor read: offsets in them have 32 bits here. */
#define MCAP_CHUNK_BYTES_MAX (1u << 30)

/* A pair of a map of strings. */
struct mcap_pair {
    const char *key, *value;
};

#endif
