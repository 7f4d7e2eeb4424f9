/* engine-core/copy.h - copies that know how much room there is.
 *
 * Thread: any. Cost: memcpy and a comparison. */
#ifndef ENGINE_CORE_COPY_H
#define ENGINE_CORE_COPY_H

#include <stdint.h>
#include <string.h>

#include <engine-core/error.h>

/* Copy all bytes, or none when they do not fit or when the ranges overlap (memmove is for those).
 *
 * Returns EC_OK, EC_ERR_SIZE (more than room), EC_ERR_PARAM (the ranges overlap). */
static inline int ec_copy(void *to, size_t room, const void *from, size_t bytes)
{
    const uintptr_t t = (uintptr_t)to, f = (uintptr_t)from;

    if (bytes > room)
        return EC_ERR_SIZE;
    if (bytes == 0)
        return EC_OK;
    if (t < f ? f - t < bytes : t - f < bytes)
        return EC_ERR_PARAM;
    memcpy(to, from, bytes);
    return EC_OK;
}

/* Copy a string with its NUL into room bytes. One that does not fit is cut at a whole UTF-8
 * character, and the result ends with a NUL all the same; with no room at all nothing is written.
 *
 * Returns EC_OK or EC_ERR_SIZE: it was cut. */
static inline int ec_copy_string(char *to, size_t room, const char *from)
{
    size_t bytes = strlen(from);

    if (bytes < room) {
        memcpy(to, from, bytes + 1);
        return EC_OK;
    }
    if (room == 0)
        return EC_ERR_SIZE;
    bytes = room - 1;
    while (bytes > 0 && ((unsigned char)from[bytes] & 0xc0) == 0x80)
        bytes--;
    memcpy(to, from, bytes);
    to[bytes] = '\0';
    return EC_ERR_SIZE;
}

#endif
