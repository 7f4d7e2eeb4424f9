/* decode_cooked.c - cooked images (cooked.h): LZ4 blocks, each unpacked to its place. */
#include <inttypes.h>
#include <lz4.h>
#include <string.h>
#include <xxhash.h>

#include "decoders/cooked.h"
#include "decoders/decoder.h"
#include "proto/image_levels.h"

static uint32_t le32(const unsigned char *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static uint64_t le64(const unsigned char *at)
{
    return le32(at) | (uint64_t)le32(at + 4) << 32;
}

static bool recognises(const unsigned char *bytes, size_t count)
{
    return count >= COOKED_MAGIC_BYTES && memcmp(bytes, COOKED_MAGIC, COOKED_MAGIC_BYTES) == 0;
}

/* The parts of the header that say how to read the rest. */
static int check_header(const struct decode_source *source, struct ec_error *why)
{
    const unsigned char *bytes = source->bytes;
    uint32_t block_bytes;

    if (source->count < COOKED_HEADER_BYTES)
        return ec_fail(why, EC_ERR_SIZE, "cooked: the header is truncated at %zu bytes",
                       source->count);
    if (le32(bytes + COOKED_AT_VERSION) != COOKED_VERSION)
        return ec_fail(why, EC_ERR_VERSION, "cooked: version %" PRIu32 ", expected %d",
                       le32(bytes + COOKED_AT_VERSION), COOKED_VERSION);
    block_bytes = le32(bytes + COOKED_AT_BLOCK_BYTES);
    if (le32(bytes + COOKED_AT_HEADER_BYTES) != COOKED_HEADER_BYTES ||
        le32(bytes + COOKED_AT_ZERO) != 0 || block_bytes < COOKED_BLOCK_BYTES_MIN ||
        block_bytes > COOKED_BLOCK_BYTES_MAX)
        return ec_fail(why, EC_ERR_PARAM, "cooked: the header is damaged");
    if (le64(bytes + COOKED_AT_PACKED_BYTES) != source->count - COOKED_HEADER_BYTES)
        return ec_fail(why, EC_ERR_SIZE,
                       "cooked: %" PRIu64 " bytes follow the header, %" PRIu64 " were announced",
                       (uint64_t)source->count - COOKED_HEADER_BYTES,
                       le64(bytes + COOKED_AT_PACKED_BYTES));
    return EC_OK;
}

static int measure(struct decode_source *source, const struct decode_limits *limits,
                   struct decoded *decoded, struct ec_error *why)
{
    const unsigned char *bytes = source->bytes;
    uint32_t channels, levels;
    int rc = check_header(source, why);

    if (rc < 0)
        return rc;
    channels = le32(bytes + COOKED_AT_CHANNELS);
    levels = le32(bytes + COOKED_AT_LEVELS);
    if (channels < 1 || channels > 4)
        return ec_fail(why, EC_ERR_PARAM, "cooked: %" PRIu32 " channels, expected 1..4", channels);
    rc = decoded_image(decoded, limits, le32(bytes + COOKED_AT_WIDTH),
                       le32(bytes + COOKED_AT_HEIGHT), channels, why);
    if (rc < 0)
        return rc;
    if (levels < 1 || levels > ec_image_level_count(decoded->width, decoded->height))
        return ec_fail(why, EC_ERR_PARAM, "cooked: %" PRIu32 " levels of %" PRIu32 " x %" PRIu32,
                       levels, decoded->width, decoded->height);
    decoded->levels = decoded->file_levels = levels;
    decoded->bytes =
        ec_image_levels_bytes(decoded->width, decoded->height, decoded->channels, levels);
    if (le64(bytes + COOKED_AT_BYTES) != decoded->bytes)
        return ec_fail(why, EC_ERR_SIZE,
                       "cooked: %" PRIu64 " bytes are announced, the sizes make %" PRIu64,
                       le64(bytes + COOKED_AT_BYTES), decoded->bytes);
    return EC_OK;
}

/* Returns false when the packed bytes are not those of just so many. */
static bool unpack(const unsigned char *from, uint32_t packed, unsigned char *to, uint32_t bytes)
{
    if ((packed & COOKED_STORED) == 0)
        return LZ4_decompress_safe((const char *)from, (char *)to, (int)packed, (int)bytes) ==
               (int)bytes;
    if ((packed & ~COOKED_STORED) != bytes)
        return false;
    memcpy(to, from, bytes);
    return true;
}

static int decode(struct decode_source *source, const struct decoded *decoded, unsigned char *to,
                  struct ec_error *why)
{
    const unsigned char *at = source->bytes + COOKED_HEADER_BYTES;
    const unsigned char *end = source->bytes + source->count;
    const uint32_t block_bytes = le32(source->bytes + COOKED_AT_BLOCK_BYTES);

    for (uint64_t done = 0; done < decoded->bytes;) {
        const uint64_t rest = decoded->bytes - done;
        const uint32_t bytes = rest < block_bytes ? (uint32_t)rest : block_bytes;
        uint32_t packed, there;

        if (end - at < 4)
            return ec_fail(why, EC_ERR_SIZE, "cooked: the blocks end after %" PRIu64 " bytes",
                           done);
        packed = le32(at);
        there = packed & ~COOKED_STORED;
        at += 4;
        if (there > end - at || !unpack(at, packed, to + done, bytes))
            return ec_fail(why, EC_ERR_PARAM, "cooked: the block at byte %" PRIu64 " is damaged",
                           done);
        at += there;
        done += bytes;
    }
    if (at != end)
        return ec_fail(why, EC_ERR_SIZE, "cooked: bytes follow the last block");
    if (XXH3_64bits(to, decoded->bytes) != le64(source->bytes + COOKED_AT_HASH))
        return ec_fail(why, EC_ERR_PARAM, "cooked: the hash of the content is another one");
    return EC_OK;
}

const struct decoder decoder_cooked = { "cooked", EC_KIND_IMAGE, recognises, measure, decode };
