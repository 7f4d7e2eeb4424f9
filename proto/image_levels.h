/* proto/image_levels.h - where the mip levels of an image lie behind one another.
 *
 * Level 0 is the picture; each further level has half the width and height, rounded down and at least
 * 1, down to 1 x 1. Rows of all levels are tight. Each level begins at a multiple of
 * EC_IMAGE_LEVEL_ALIGN bytes behind the first:
 *
 *     | level 0: width * height * channels | pad | level 1 | pad | level 2 ...
 *
 * Width and height are at most EC_IMAGE_SIDE_MAX and channels at most 4, so no sum here overflows. */
#ifndef EC_PROTO_IMAGE_LEVELS_H
#define EC_PROTO_IMAGE_LEVELS_H

#include <stdint.h>

#define EC_IMAGE_LEVEL_ALIGN 16
#define EC_IMAGE_SIDE_MAX (1u << 24)

/* Of a side at a level, 0..31. */
static inline uint32_t ec_image_level_side(uint32_t side, uint32_t level)
{
    return side >> level > 0 ? side >> level : 1;
}

/* How many levels there are down to 1 x 1. */
static inline uint32_t ec_image_level_count(uint32_t width, uint32_t height)
{
    uint32_t count = 1;

    for (uint32_t side = width > height ? width : height; side > 1; side >>= 1)
        count++;
    return count;
}

/* Where a level begins, behind level 0. */
static inline uint64_t ec_image_level_offset(uint32_t width, uint32_t height, uint32_t channels,
                                             uint32_t level)
{
    uint64_t offset = 0;

    for (uint32_t i = 0; i < level; i++) {
        offset +=
            (uint64_t)ec_image_level_side(width, i) * ec_image_level_side(height, i) * channels;
        offset = (offset + EC_IMAGE_LEVEL_ALIGN - 1) & ~(uint64_t)(EC_IMAGE_LEVEL_ALIGN - 1);
    }
    return offset;
}

/* All bytes of so many levels, at least one. */
static inline uint64_t ec_image_levels_bytes(uint32_t width, uint32_t height, uint32_t channels,
                                             uint32_t levels)
{
    const uint32_t last = levels - 1;

    return ec_image_level_offset(width, height, channels, last) +
           (uint64_t)ec_image_level_side(width, last) * ec_image_level_side(height, last) *
               channels;
}

#endif
