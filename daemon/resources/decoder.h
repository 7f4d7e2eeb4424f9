/* decoder.h - turn the bytes of a file into what lies in the asset heap.
 *
 * A decoder works in two passes. The first reads the header and says how large the result will be;
 * then the memory is reserved; the second decodes straight into it, so there is no second copy.
 *
 *     rc = decoder_choose(kind, source, &decoder, why);
 *     if (rc == EC_OK)
 *         rc = decoder->measure(source, &limits, &decoded, why);
 *     … reserve decoded.bytes …
 *     if (rc == EC_OK)
 *         rc = decoder->decode(source, &decoded, memory, why);
 *
 * The input is hostile: every length is checked before use, limits bound what is allocated, and a
 * truncated or damaged file is an error, never a partly decoded result. Image formats are recognised by
 * their content; names say nothing.
 *
 * To add a decoder write one file and one row in decoder.c.
 *
 * Thread: any, one call per source at a time. */
#ifndef RESOURCES_DECODER_H
#define RESOURCES_DECODER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "foundation/error.h"
#include "proto/directory.h"
#include "resources/search_path.h"

struct decode_limits {
    uint64_t bytes_max;  /* of the file and of the result */
    uint64_t pixels_max; /* of an image */
};

/* What is decoded: an entry of the search path, or memory. */
struct decode_source {
    struct search_entry *entry; /* NULL: bytes and count are all of it */
    const unsigned char *bytes; /* the whole file once decode_source_load was called */
    size_t count;
    unsigned char *owned; /* the buffer behind bytes */
};

uint64_t decode_source_length(const struct decode_source *source);
/* Make bytes and count point to the whole file.
 *
 * Returns EC_OK, EC_ERR_SIZE (over bytes_max, or not as long as announced), EC_ERR_MEMORY or EC_ERR_PATH. */
int decode_source_load(struct decode_source *source, const struct decode_limits *limits,
                       struct ec_error *why);
/* Copy all of an entry that was not loaded, or of memory, to its end. */
int decode_source_copy(struct decode_source *source, unsigned char *to, uint64_t bytes,
                       struct ec_error *why);
void decode_source_finish(struct decode_source *source);

/* The result of the first pass. */
struct decoded {
    uint64_t bytes;
    enum ec_resource_kind kind;
    uint32_t width, height, channels, stride; /* images; else 0 */
};

struct decoder {
    const char *name;
    enum ec_resource_kind kind;
    bool (*recognises)(const unsigned char *bytes, size_t count); /* NULL: takes anything */
    int (*measure)(struct decode_source *source, const struct decode_limits *limits,
                   struct decoded *decoded, struct ec_error *why);
    /* decoded is what measure said; to has decoded->bytes. */
    int (*decode)(struct decode_source *source, const struct decoded *decoded, unsigned char *to,
                  struct ec_error *why);
};

/* Find the decoder; loads the source when its content has to be looked at.
 *
 * Returns EC_OK, EC_ERR_PARAM (no decoder knows the content) or what decode_source_load returns. */
int decoder_choose(enum ec_resource_kind kind, struct decode_source *source,
                   const struct decode_limits *limits, const struct decoder **decoder,
                   struct ec_error *why);

/* "raw", "image"; NULL beyond the last. decoder_kind answers false for a name that is none. */
const char *decoder_kind_name(unsigned kind);
bool decoder_kind(const char *name, enum ec_resource_kind *kind);

/* For image decoders: check the limits and fill in sizes for tight rows of 8-bit channels.
 *
 * Returns EC_OK or EC_ERR_SIZE with both values. */
int decoded_image(struct decoded *decoded, const struct decode_limits *limits, uint64_t width,
                  uint64_t height, uint32_t channels, struct ec_error *why);

extern const struct decoder decoder_raw;
extern const struct decoder decoder_png;
extern const struct decoder decoder_jpeg;
extern const struct decoder decoder_bmp;
extern const struct decoder decoder_tga;

#endif
