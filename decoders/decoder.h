/* decoder.h - turn the bytes of a file into what lies in the asset heap.
 *
 * Decoding has two passes. The first reads the header and says how large the result will be; then the
 * memory is reserved; the second decodes straight into it, so there is no second copy.
 *
 *     rc = decoder_choose(&request, &source, &decoder, why);
 *     if (rc == EC_OK)
 *         rc = decoder_measure(decoder, &request, &source, &decoded, why);
 *     … reserve decoded.bytes …
 *     if (rc == EC_OK)
 *         rc = decoder_decode(decoder, &source, &decoded, memory, why);
 *
 * The input is hostile: every length is checked before use, limits bound what is allocated, and a
 * truncated or damaged file is an error, never a partly decoded result. Formats are recognised by their
 * content; names say nothing.
 *
 * To add a decoder write one file that fills in a struct decoder, and one row in decoder.c.
 *
 * Thread: any, one call per source at a time. */
#ifndef DECODERS_DECODER_H
#define DECODERS_DECODER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "foundation/error.h"
#include "proto/directory.h"

struct decode_limits {
    uint64_t bytes_max;  /* of the file and of the result */
    uint64_t pixels_max; /* of an image, level 0 */
};

/* What an image is to become. */
struct decode_options {
    uint32_t channels; /* 1 grey, 2 grey and alpha, 3 RGB, 4 RGBA; 0: what the file has */
    uint32_t levels;   /* most mip levels, the picture included; 0 means 1 */
};

struct decode_request {
    enum ec_resource_kind kind;
    struct decode_options options;
    struct decode_limits limits;
};

/* What is decoded: memory, or a stream that is read once, from its beginning. */
struct decode_source {
    /* Read the next bytes, all of them: EC_OK or an error with its reason. NULL: memory. */
    int (*read)(void *stream, void *to, uint64_t bytes, struct ec_error *why);
    bool (*at_end)(void *stream);
    void *stream;
    uint64_t length; /* of the stream, as announced; may be a lie */

    const unsigned char *bytes; /* the whole file, once decode_source_load was called */
    size_t count;
    unsigned char *owned; /* the buffer behind bytes, of length bytes */
};

uint64_t decode_source_length(const struct decode_source *source);
/* Make bytes and count point to the whole file.
 *
 * Returns EC_OK, EC_ERR_SIZE (over bytes_max, or not as long as announced), EC_ERR_MEMORY or what the
 * stream's read returns. */
int decode_source_load(struct decode_source *source, const struct decode_limits *limits,
                       struct ec_error *why);
/* Copy all of a stream that was not loaded, or of memory, to its end. */
int decode_source_copy(struct decode_source *source, unsigned char *to, uint64_t bytes,
                       struct ec_error *why);
void decode_source_finish(struct decode_source *source);

/* The result of the first pass. */
struct decoded {
    uint64_t bytes;
    enum ec_resource_kind kind;
    uint32_t width, height, channels, stride; /* images; else 0 */
    uint32_t levels;                          /* images: at least 1; else 0 */
    uint32_t file_channels;                   /* images: what the decoder itself writes */
    uint32_t file_levels;
};

struct decoder {
    const char *name;
    enum ec_resource_kind kind;
    bool (*recognises)(const unsigned char *bytes, size_t count); /* NULL: takes anything */
    /* Sizes as the file has them; images by decoded_image(). */
    int (*measure)(struct decode_source *source, const struct decode_limits *limits,
                   struct decoded *decoded, struct ec_error *why);
    /* decoded is what measure said, and to has its bytes, all of which are to be written. */
    int (*decode)(struct decode_source *source, const struct decoded *decoded, unsigned char *to,
                  struct ec_error *why);
};

/* Find the decoder; loads the source when its content has to be looked at.
 *
 * Returns EC_OK, EC_ERR_PARAM (no decoder knows the content) or what decode_source_load returns. */
int decoder_choose(const struct decode_request *request, struct decode_source *source,
                   const struct decoder **decoder, struct ec_error *why);

/* Returns EC_OK, EC_ERR_SIZE (over a limit, or truncated), EC_ERR_PARAM (damaged, not supported) or
 * EC_ERR_MEMORY. */
int decoder_measure(const struct decoder *decoder, const struct decode_request *request,
                    struct decode_source *source, struct decoded *decoded, struct ec_error *why);

/* The same errors. to has decoded->bytes, all zero. Channels are added in place and taken away by way
 * of a buffer; mip levels are made from level 0. */
int decoder_decode(const struct decoder *decoder, struct decode_source *source,
                   const struct decoded *decoded, unsigned char *to, struct ec_error *why);

/* Is that what a decoder may have measured for the request? For who was told so by another process. */
bool decoded_is_possible(const struct decoded *decoded, const struct decode_request *request);

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
extern const struct decoder decoder_cooked;

#endif
