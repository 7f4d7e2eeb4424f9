/* cooked.h - the layout of a cooked image: what `engine-ctl cook` writes and the decoder reads.
 *
 * The decoded picture with all its mip levels, as it will lie in the asset heap (proto/image_levels.h),
 * cut into blocks that LZ4 packed one by one. All numbers are little-endian.
 *
 *     offset bytes
 *          0     8  "ECCOOKED"
 *          8     4  version: 1
 *         12     4  bytes of this header: 64
 *         16     4  width
 *         20     4  height
 *         24     4  channels, 1..4
 *         28     4  levels, 1..as many as there are down to 1 x 1
 *         32     4  bytes of a block before packing, 4,096..16 MiB; the last one has the rest
 *         36     4  0
 *         40     8  bytes of all levels
 *         48     8  bytes of all blocks, each with its number in front; the file ends there
 *         56     8  XXH3 (64 bits) of all levels
 *         64        blocks: 4 bytes n, then n bytes of LZ4; with the highest bit of n set, the bytes
 *                   themselves
 *
 * A reader refuses another version, and whatever is not exactly so. */
#ifndef DECODERS_COOKED_H
#define DECODERS_COOKED_H

#include <stdint.h>

#define COOKED_MAGIC "ECCOOKED"
#define COOKED_MAGIC_BYTES 8
#define COOKED_VERSION 1
#define COOKED_HEADER_BYTES 64
#define COOKED_BLOCK_BYTES_MIN 4096
#define COOKED_BLOCK_BYTES_MAX (16u << 20)
#define COOKED_STORED 0x80000000u

enum cooked_offset {
    COOKED_AT_VERSION = 8,
    COOKED_AT_HEADER_BYTES = 12,
    COOKED_AT_WIDTH = 16,
    COOKED_AT_HEIGHT = 20,
    COOKED_AT_CHANNELS = 24,
    COOKED_AT_LEVELS = 28,
    COOKED_AT_BLOCK_BYTES = 32,
    COOKED_AT_ZERO = 36,
    COOKED_AT_BYTES = 40,
    COOKED_AT_PACKED_BYTES = 48,
    COOKED_AT_HASH = 56,
};

#endif
