/* engine-core/allocator.h - any allocator, behind one small struct, for containers and the debug manager.
 *
 *     struct ec_allocator from = ec_pool_allocator(pool);
 *
 *     ec_array_init(&array, &from, sizeof(struct item)); // <engine-core/array.h>
 *
 * The struct is a value: copy it as you like. What it names stays the owner's and must outlive all who
 * use it. To bring an allocator of your own, fill in a struct ec_allocator_methods.
 *
 * What differs from kind to kind:
 *
 *   | from                 | sizes           | alignment    | free gives back   | threads       |
 *   | ec_system_allocator  | any             | up to 2 MiB  | at once           | any           |
 *   | ec_heap_allocator    | any             | up to 2 MiB  | at once           | any           |
 *   | ec_slab_allocator    | up to 2,048     | 16           | at once           | any           |
 *   | ec_pool_allocator    | up to its block | the pool's   | at once           | any           |
 *   | ec_aligned_allocator | any             | up to 2 MiB  | at once           | any           |
 *   | ec_stack_allocator   | any             | up to 2 MiB  | the newest only   | one at a time |
 *   | ec_arena_allocator   | any             | up to 2 MiB  | the newest only   | one at a time |
 *   | ec_frame_allocator   | any             | up to 2 MiB  | the newest only   | one at a time |
 *   | ec_debug_allocator   | any             | up to 4 KiB  | after quarantine  | any           |
 *
 * Thread: that of the allocator behind it. Cost: a call through a pointer more. */
#ifndef ENGINE_CORE_ALLOCATOR_H
#define ENGINE_CORE_ALLOCATOR_H

#include <engine-core/memory.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ec_aligned;
struct ec_arena;
struct ec_frame_arena;
struct ec_heap;
struct ec_pool;
struct ec_slab;
struct ec_stack;

struct ec_allocator_methods {
    /* bytes >= 1, align a power of two of at least 1. NULL: refused. */
    void *(*alloc)(void *context, size_t bytes, size_t align, uint32_t tag);

    /* Make the block larger or smaller where it is; false: it is as it was, and has to move. NULL: never. */
    bool (*resize)(void *context, void *block, size_t old_bytes, size_t bytes);

    /* bytes: as the block was asked for, or resized to. Returns EC_OK or an error of the allocator. */
    int (*free)(void *context, void *block, size_t bytes);
};

struct ec_allocator {
    const struct ec_allocator_methods *methods;
    void *context;
    uint32_t tag; /* handed to alloc; looked at by allocators whose blocks have tags of their own */
};

EC_API struct ec_allocator ec_system_allocator(void); /* the C library's; counted nowhere */
EC_API struct ec_allocator ec_heap_allocator(struct ec_heap *heap, uint32_t tag);
EC_API struct ec_allocator ec_slab_allocator(struct ec_slab *slab);
EC_API struct ec_allocator ec_pool_allocator(struct ec_pool *pool);
EC_API struct ec_allocator ec_aligned_allocator(struct ec_aligned *aligned);
EC_API struct ec_allocator ec_stack_allocator(struct ec_stack *stack);
EC_API struct ec_allocator ec_arena_allocator(struct ec_arena *arena);
EC_API struct ec_allocator ec_frame_allocator(struct ec_frame_arena *frame);

/* align 0 means 16. NULL: bytes is 0, or the allocator refuses. */
EC_API void *ec_allocator_alloc(const struct ec_allocator *from, size_t bytes, size_t align)
    __attribute__((alloc_size(2), warn_unused_result));

/* Change the size of a block, moving it if need be; align as it was asked for. block NULL: a new one. NULL:
 * refused, and the block is as it was. */
EC_API void *ec_allocator_resize(const struct ec_allocator *from, void *block, size_t old_bytes,
                                 size_t bytes, size_t align)
    __attribute__((alloc_size(4), warn_unused_result));

/* bytes: as it was asked for, or resized to; block NULL is accepted. */
EC_API int ec_allocator_free(const struct ec_allocator *from, void *block, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
