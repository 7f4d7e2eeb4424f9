/* cook.h - decode images ahead of time into files that load as fast as they can be read.
 *
 *     const struct cook_desc desc = { .input = "wall.png", .output = "wall.cooked", .levels = 32 };
 *
 *     rc = cook_image(&desc, &cooked, &why);
 *
 * cooked.h has the layout. The same input and description make the same bytes.
 *
 * Thread: any. Cost: decoding, and packing at LZ4's best ratio. */
#ifndef DECODERS_COOK_H
#define DECODERS_COOK_H

#include <stdint.h>

#include <engine-core/error.h>

struct cook_desc {
    const char *input;
    const char *output; /* made anew; takes its name when it is whole */
    uint32_t channels;  /* 1..4; 0: what the file has */
    uint32_t levels;    /* most mip levels; 0 means 1 */
};

struct cook_result {
    uint32_t width, height, channels, levels;
    uint64_t decoded_bytes;
    uint64_t input_bytes, output_bytes;
};

/* Returns EC_OK, what a decoder returns, EC_ERR_MEMORY, or EC_ERR_SYSTEM naming the file; then there is
 * no new output. */
int cook_image(const struct cook_desc *desc, struct cook_result *result, struct ec_error *why);

#endif
