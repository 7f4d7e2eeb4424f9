/* foundation/memory/debug_guard.h - guard bytes and fill patterns.
 *
 *   | … front … | block | back |
 *
 * A guard is 16 bytes: eight times 0xFD, "no man's land", and eight that depend on the address, so that a
 * program that happens to write 0xFD is found, too.
 *
 * Thread: any. Cost: a few bytes compared. */
#ifndef EC_FOUNDATION_MEMORY_DEBUG_GUARD_H
#define EC_FOUNDATION_MEMORY_DEBUG_GUARD_H

#include <stdbool.h>
#include <stddef.h>

#define EC_DEBUG_GUARD_BYTES 16
#define EC_DEBUG_FILL_NEW 0xCD
#define EC_DEBUG_FILL_FREED 0xDD

/* Fill [guard, guard + bytes), a multiple of EC_DEBUG_GUARD_BYTES, with guards. */
void ec_debug_guard_write(void *guard, size_t bytes);

/* false: *offset is that of the first byte that changed. */
bool ec_debug_guard_check(const void *guard, size_t bytes, size_t *offset);

/* The same for memory that was filled with one byte. */
bool ec_debug_fill_check(const void *memory, size_t bytes, unsigned char fill, size_t *offset);

#endif
