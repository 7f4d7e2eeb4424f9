/* decode_raw.c - the file's bytes as they are, read straight into the heap. */
#include <inttypes.h>

#include "decoders/decoder.h"

static int measure(struct decode_source *source, const struct decode_limits *limits,
                   struct decoded *decoded, struct ec_error *why)
{
    uint64_t length = decode_source_length(source);

    if (length > limits->bytes_max)
        return ec_fail(why, EC_ERR_SIZE,
                       "the file has %" PRIu64 " bytes, at most %" PRIu64 " are allowed", length,
                       limits->bytes_max);
    *decoded = (struct decoded) { .bytes = length, .kind = EC_KIND_RAW };
    return EC_OK;
}

static int decode(struct decode_source *source, const struct decoded *decoded, unsigned char *to,
                  struct ec_error *why)
{
    return decode_source_copy(source, to, decoded->bytes, why);
}

const struct decoder decoder_raw = { "raw", EC_KIND_RAW, NULL, measure, decode };
