/* png_file.h - write pixels as a PNG file, for people to look at.
 *
 * Thread: any. Cost: as of zlib; nothing for games to do while they run. */
#ifndef ENGINE_CORE_DECODERS_PNG_FILE_H
#define ENGINE_CORE_DECODERS_PNG_FILE_H

#include <stdint.h>
#include <stdio.h>

#include <engine-core/error.h>

struct png_file_image {
    const void *pixels; /* 8 bits a channel, from the top row */
    uint32_t width, height;
    uint32_t channels; /* 1 grey, 2 grey and alpha, 3 RGB, 4 RGBA */
    uint32_t stride;   /* bytes from row to row */
};

/* Write into a file that the caller opened and closes; its end tells whether all was written.
 *
 * Returns EC_OK, EC_ERR_PARAM (sizes that PNG does not have), EC_ERR_SYSTEM (it cannot be written) or
 * EC_ERR_MEMORY. */
int png_file_write(FILE *file, const struct png_file_image *image, struct ec_error *why);

#endif
