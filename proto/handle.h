/* proto/handle.h - what a handle is made of.
 *
 * A handle is {index, generation}: where a thing lives, and which life of that place is meant.
 * Generation 0 is never valid, so a zeroed handle is always stale. A place whose generation would
 * wrap is retired. In JSON a handle is the string "0x…" of its 64 bits. */
#ifndef EC_PROTO_HANDLE_H
#define EC_PROTO_HANDLE_H

#include <stdint.h>

static inline uint64_t ec_handle_make(uint32_t index, uint32_t generation)
{
    return (uint64_t)generation << 32 | index;
}

static inline uint32_t ec_handle_index(uint64_t handle)
{
    return (uint32_t)handle;
}

static inline uint32_t ec_handle_generation(uint64_t handle)
{
    return (uint32_t)(handle >> 32);
}

#endif
