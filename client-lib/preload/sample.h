/* sample.h - an allocation that was chosen: which site it belongs to, and its mark.
 *
 * Thread: signal. */
#ifndef EC_PRELOAD_SAMPLE_H
#define EC_PRELOAD_SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "preload/account.h"

/* Where the program called: the return address, and the frame that returns to it. */
struct caller {
    const void *address;
    const void *frame;
};

/* Get a block with a mark at its end, at least so aligned, and count it for the caller's site. NULL: no
 * memory. */
void *sample_alloc(struct preload_thread *thread, size_t align, size_t bytes, bool zero,
                   uint64_t weight, const struct caller *caller);

/* A block goes back whose address may be that of a marked one: if it is, its site loses it. Returns
 * whether it was. */
bool sample_free(void *block, size_t usable);

/* realloc where the old block may be marked, or the growth was chosen (weight is not 0). */
void *sample_realloc(struct preload_thread *thread, void *block, size_t usable, size_t bytes,
                     uint64_t weight, const struct caller *caller);

/* How much of a block is the program's. */
size_t sample_usable(const void *block, size_t usable);

#endif
