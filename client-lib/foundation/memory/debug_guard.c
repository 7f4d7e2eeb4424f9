/* Guards at any address, so bytes are copied and compared, not words. */
#include "foundation/memory/debug_guard.h"

#include <stdint.h>
#include <string.h>

#define NO_MANS_LAND 0xFD

static void make(unsigned char guard[EC_DEBUG_GUARD_BYTES], const void *address)
{
    const uint64_t word = ((uintptr_t)address ^ 0xec0debu) * 0x9e3779b97f4a7c15u;

    memset(guard, NO_MANS_LAND, EC_DEBUG_GUARD_BYTES / 2);
    memcpy(guard + EC_DEBUG_GUARD_BYTES / 2, &word, sizeof word);
}

void ec_debug_guard_write(void *guard, size_t bytes)
{
    unsigned char *const to = guard;

    for (size_t i = 0; i < bytes; i += EC_DEBUG_GUARD_BYTES)
        make(to + i, to + i);
}

bool ec_debug_guard_check(const void *guard, size_t bytes, size_t *offset)
{
    const unsigned char *const from = guard;
    unsigned char expected[EC_DEBUG_GUARD_BYTES];

    for (size_t i = 0; i < bytes; i += EC_DEBUG_GUARD_BYTES) {
        make(expected, from + i);
        if (memcmp(from + i, expected, EC_DEBUG_GUARD_BYTES) == 0)
            continue;
        for (*offset = i; from[*offset] == expected[*offset - i];)
            ++*offset;
        return false;
    }
    return true;
}

bool ec_debug_fill_check(const void *memory, size_t bytes, unsigned char fill, size_t *offset)
{
    const unsigned char *const from = memory;

    if (bytes == 0 || (from[0] == fill && memcmp(from, from + 1, bytes - 1) == 0))
        return true;
    for (*offset = 0; from[*offset] == fill;)
        ++*offset;
    return false;
}
