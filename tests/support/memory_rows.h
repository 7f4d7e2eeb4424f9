/* support/memory_rows.h - a sink with rows of its own, as a client segment would have them.
 *
 * Threads get rows as in a client: the first free one, given back at the thread's end; the last row is
 * shared by those that found none. Only one struct is in use at a time. */
#ifndef EC_SUPPORT_MEMORY_ROWS_H
#define EC_SUPPORT_MEMORY_ROWS_H

#include "foundation/memory/sink.h"
#include "proto/memory_rows.h"

struct memory_rows {
    struct ec_memory_sink sink;
    struct ec_tag_row tags[EC_TAGS_MAX];
    struct ec_allocator_row allocators[EC_ALLOCATORS_MAX];
    struct ec_thread_row threads[EC_THREADS_MAX];
    _Atomic uint32_t threads_high;
};

struct memory_rows *memory_rows_create(void); /* ends the program when there is no memory */
void memory_rows_destroy(struct memory_rows *rows);

/* What a reader would see. */
struct ec_tag_sums memory_rows_tag(const struct memory_rows *rows, uint32_t tag);
/* The allocator with this name; all zero when there is none. */
struct ec_allocator_sums memory_rows_allocator(const struct memory_rows *rows, const char *name);
unsigned memory_rows_listed(const struct memory_rows *rows); /* allocators */

#endif
