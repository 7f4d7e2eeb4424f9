/* The allocators behind struct ec_allocator: a row of functions for each. */
#include <engine-core/allocator.h>

#include <engine-core/aligned.h>
#include <engine-core/frame_arena.h>
#include <engine-core/heap.h>
#include <engine-core/pool.h>
#include <engine-core/slab.h>
#include <engine-core/stack.h>

#include <stdlib.h>
#include <string.h>

#include "foundation/memory/arena.h"
#include "foundation/memory/pool.h"
#include "foundation/memory/pool_heap.h"

#define ALIGN_DEFAULT 16
#define ALIGN_MAX ((size_t)2 << 20)

static void *system_alloc(void *context, size_t bytes, size_t align, uint32_t tag)
{
    void *block = NULL;

    (void)context;
    (void)tag;
    if (align <= ALIGN_DEFAULT)
        return malloc(bytes);
    return align <= ALIGN_MAX && posix_memalign(&block, align, bytes) == 0 ? block : NULL;
}

static int system_free(void *context, void *block, size_t bytes)
{
    (void)context;
    (void)bytes;
    free(block);
    return EC_OK;
}

static void *heap_alloc(void *heap, size_t bytes, size_t align, uint32_t tag)
{
    return ec_alloc_aligned(heap, bytes, align, tag);
}

/* Up to what the block has anyway. Larger blocks are known by their exact size and move. */
static bool heap_resize(void *heap, void *block, size_t old_bytes, size_t bytes)
{
    return old_bytes <= EC_SLAB_BYTES_MAX && bytes <= ec_heap_block_bytes(heap, block) &&
           bytes >= old_bytes / 2;
}

static int heap_free(void *heap, void *block, size_t bytes)
{
    (void)bytes;
    return ec_free(heap, block);
}

static void *slab_alloc(void *slab, size_t bytes, size_t align, uint32_t tag)
{
    (void)tag;
    return align <= ALIGN_DEFAULT ? ec_slab_alloc(slab, bytes) : NULL;
}

static bool slab_resize(void *slab, void *block, size_t old_bytes, size_t bytes)
{
    return bytes <= ec_slab_block_bytes(slab, block) && bytes >= old_bytes / 2;
}

static int slab_free(void *slab, void *block, size_t bytes)
{
    (void)bytes;
    return ec_slab_free(slab, block);
}

static void *pool_alloc(void *context, size_t bytes, size_t align, uint32_t tag)
{
    struct ec_pool *pool = context;

    (void)tag;
    /* Blocks lie at multiples of their own size from a multiple of the pool's alignment. */
    if (bytes > pool->shape.block_bytes || align > pool->align) {
        ec_count(&pool->row->failed, 1, true);
        return NULL;
    }
    return ec_pool_alloc(pool);
}

static bool pool_resize(void *context, void *block, size_t old_bytes, size_t bytes)
{
    const struct ec_pool *pool = context;

    (void)block;
    (void)old_bytes;
    return bytes <= pool->shape.block_bytes;
}

static int pool_free(void *pool, void *block, size_t bytes)
{
    (void)bytes;
    return ec_pool_free(pool, block);
}

static void *aligned_alloc_block(void *aligned, size_t bytes, size_t align, uint32_t tag)
{
    (void)tag;
    return ec_aligned_alloc(aligned, bytes, align);
}

static int aligned_free(void *aligned, void *block, size_t bytes)
{
    (void)bytes;
    return ec_aligned_free(aligned, block);
}

static void *stack_alloc(void *stack, size_t bytes, size_t align, uint32_t tag)
{
    (void)tag;
    return ec_stack_alloc(stack, bytes, align);
}

static int stack_free(void *stack, void *block, size_t bytes)
{
    (void)bytes;
    return ec_stack_free(stack, block);
}

static void *arena_alloc(void *arena, size_t bytes, size_t align, uint32_t tag)
{
    (void)tag;
    return ec_arena_alloc(arena, bytes, align);
}

static bool arena_resize(void *arena, void *block, size_t old_bytes, size_t bytes)
{
    return ec_arena_resize_newest(arena, block, old_bytes, bytes) || bytes <= old_bytes;
}

/* Any but the newest stays until the arena is reset. */
static int arena_free(void *arena, void *block, size_t bytes)
{
    ec_arena_resize_newest(arena, block, bytes, 0);
    return EC_OK;
}

static const struct ec_allocator_methods system_methods = { system_alloc, NULL, system_free };
static const struct ec_allocator_methods heap_methods = { heap_alloc, heap_resize, heap_free };
static const struct ec_allocator_methods slab_methods = { slab_alloc, slab_resize, slab_free };
static const struct ec_allocator_methods pool_methods = { pool_alloc, pool_resize, pool_free };
static const struct ec_allocator_methods aligned_methods = { aligned_alloc_block, NULL,
                                                             aligned_free };
static const struct ec_allocator_methods stack_methods = { stack_alloc, NULL, stack_free };
static const struct ec_allocator_methods arena_methods = { arena_alloc, arena_resize, arena_free };

struct ec_allocator ec_system_allocator(void)
{
    return (struct ec_allocator) { .methods = &system_methods };
}

struct ec_allocator ec_heap_allocator(struct ec_heap *heap, uint32_t tag)
{
    return (struct ec_allocator) { .methods = &heap_methods, .context = heap, .tag = tag };
}

struct ec_allocator ec_slab_allocator(struct ec_slab *slab)
{
    return (struct ec_allocator) { .methods = &slab_methods, .context = slab };
}

struct ec_allocator ec_pool_allocator(struct ec_pool *pool)
{
    return (struct ec_allocator) { .methods = &pool_methods, .context = pool };
}

struct ec_allocator ec_aligned_allocator(struct ec_aligned *aligned)
{
    return (struct ec_allocator) { .methods = &aligned_methods, .context = aligned };
}

struct ec_allocator ec_stack_allocator(struct ec_stack *stack)
{
    return (struct ec_allocator) { .methods = &stack_methods, .context = stack };
}

struct ec_allocator ec_arena_allocator(struct ec_arena *arena)
{
    return (struct ec_allocator) { .methods = &arena_methods, .context = arena };
}

struct ec_allocator ec_frame_allocator(struct ec_frame_arena *frame)
{
    return ec_arena_allocator(ec_frame_arena_base(frame));
}

void *ec_allocator_alloc(const struct ec_allocator *from, size_t bytes, size_t align)
{
    if (align == 0)
        align = ALIGN_DEFAULT;
    if (bytes == 0 || (align & (align - 1)) != 0)
        return NULL;
    return from->methods->alloc(from->context, bytes, align, from->tag);
}

void *ec_allocator_resize(const struct ec_allocator *from, void *block, size_t old_bytes,
                          size_t bytes, size_t align)
{
    void *moved;

    if (block != NULL && bytes != 0 && from->methods->resize != NULL &&
        from->methods->resize(from->context, block, old_bytes, bytes))
        return block;
    moved = ec_allocator_alloc(from, bytes, align);
    if (moved == NULL || block == NULL)
        return moved;
    memcpy(moved, block, old_bytes < bytes ? old_bytes : bytes);
    from->methods->free(from->context, block, old_bytes);
    return moved;
}

int ec_allocator_free(const struct ec_allocator *from, void *block, size_t bytes)
{
    return block != NULL ? from->methods->free(from->context, block, bytes) : EC_OK;
}
