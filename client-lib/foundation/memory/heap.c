/* Heap: a slab whose blocks have tags, and above it the C library, or units of the segment, with a table of
 * the blocks. */
#include "foundation/memory/heap.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "foundation/memory/block_table.h"
#include "foundation/memory/pool.h"
#include "foundation/memory/pool_heap.h"
#include "foundation/memory/shared_row.h"
#include "foundation/memory/slab.h"
#include "foundation/memory/watch.h"

#define ALIGN_DEFAULT 16
#define ALIGN_MAX ((size_t)2 << 20)
#define BYTES_MAX ((size_t)1 << 40)
#define NAME_BYTES_MAX 25

struct ec_heap {
    struct ec_slab *slab;
    struct ec_memory_sink *sink;
    struct ec_space *space;       /* of larger blocks; NULL: the C library */
    struct ec_shared_row large;   /* larger blocks */
    struct ec_block_table blocks; /* the same */
};

static void *alloc_large(struct ec_heap *heap, size_t bytes, size_t align, uint32_t tag);
static bool resize_in_place(struct ec_heap *heap, const struct ec_block *block, size_t bytes);
static bool make_large(const struct ec_heap *heap, size_t align, struct ec_block *block);
static void free_large(const struct ec_heap *heap, const struct ec_block *block);
static void count_in(struct ec_heap *heap, const struct ec_block *block);
static void count_out(struct ec_heap *heap, const struct ec_block *block);
static void *move(struct ec_heap *heap, void *block, size_t used_bytes, size_t bytes, uint32_t tag);
static void end_large(void *heap, const struct ec_block *block);

int ec_heap_create_in(struct ec_memory_sink *sink, const struct ec_heap_desc *desc,
                      struct ec_heap **heap, struct ec_error *why)
{
    const struct ec_slab_desc slab = { .name = desc->name,
                                       .guard_bytes = desc->guard_bytes,
                                       .in_segment = desc->in_segment };
    char name[NAME_BYTES_MAX + 7];
    struct ec_heap *made;
    int rc = ec_memory_check_name(desc->name, 0, why);

    *heap = NULL;
    if (rc < 0)
        return ec_error_prefix(why, rc, "heap");
    if (strlen(desc->name) > NAME_BYTES_MAX)
        return ec_fail(why, EC_ERR_PARAM, "heap: name has %zu bytes, expected 1..%d",
                       strlen(desc->name), NAME_BYTES_MAX);
    made = calloc(1, sizeof *made);
    if (made == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "heap \"%s\": no memory", desc->name);
    made->sink = sink;
    rc = ec_memory_sink_space(sink, desc->in_segment, &made->space, why);
    if (rc == EC_OK)
        rc = ec_slab_create_tagged(sink, &slab, &made->slab, why);
    if (rc < 0) {
        free(made);
        return ec_error_prefix(why, rc, "heap \"%s\"", desc->name);
    }
    snprintf(name, sizeof name, "%s/large", desc->name);
    ec_shared_row_init(&made->large, sink, name, EC_ALLOCATOR_HEAP, EC_TAG_NONE);
    ec_block_table_init(&made->blocks);
    *heap = made;
    return EC_OK;
}

void ec_heap_destroy(struct ec_heap *heap)
{
    if (heap == NULL)
        return;
    ec_block_table_visit(&heap->blocks, end_large, heap);
    ec_block_table_finish(&heap->blocks);
    ec_shared_row_finish(&heap->large);
    ec_slab_destroy(heap->slab);
    free(heap);
}

void *ec_alloc(struct ec_heap *heap, size_t bytes, uint32_t tag)
{
    struct ec_pool *pool;

    if (__builtin_expect(bytes - 1 >= EC_SLAB_BYTES_MAX || tag >= EC_TAGS_MAX, 0))
        return alloc_large(heap, bytes, ALIGN_DEFAULT, tag);
    pool = ec_slab_pool_for(heap->slab, bytes);
    return pool != NULL ? ec_pool_alloc_tagged(pool, tag, bytes) : NULL;
}

void *ec_alloc_array(struct ec_heap *heap, size_t count, size_t bytes, uint32_t tag)
{
    size_t product;

    if (__builtin_mul_overflow(count, bytes, &product))
        product = 0; /* refused and counted like it */
    return ec_alloc(heap, product, tag);
}

void *ec_alloc_aligned(struct ec_heap *heap, size_t bytes, size_t align, uint32_t tag)
{
    if (align != 0 && align <= ALIGN_DEFAULT && (align & (align - 1)) == 0)
        return ec_alloc(heap, bytes, tag);
    return alloc_large(heap, bytes, align, tag);
}

void *ec_realloc(struct ec_heap *heap, void *address, size_t bytes, uint32_t tag)
{
    struct ec_pool *pool;
    struct ec_block block;

    if (address == NULL)
        return ec_alloc(heap, bytes, tag);
    pool = ec_slab_pool_of(heap->slab, address);
    if (bytes == 0 || bytes > BYTES_MAX ||
        (pool != NULL ? ec_pool_tag_of(pool, address) == EC_TAG_NONE
                      : !ec_block_table_find(&heap->blocks, address, &block))) {
        ec_slab_failed(heap->slab);
        return NULL;
    }
    if (pool == NULL) {
        if (resize_in_place(heap, &block, bytes))
            return address;
        return move(heap, address, block.bytes, bytes, block.tag);
    }
    if (bytes <= EC_SLAB_BYTES_MAX && ec_slab_class_bytes(bytes) == pool->shape.block_bytes)
        return address;
    return move(heap, address, pool->shape.block_bytes, bytes, ec_pool_tag_of(pool, address));
}

int ec_free(struct ec_heap *heap, void *address)
{
    struct ec_pool *pool;
    struct ec_block block;

    if (address == NULL)
        return EC_OK;
    pool = ec_slab_pool_of(heap->slab, address);
    if (__builtin_expect(pool != NULL, 1))
        return ec_pool_free_tagged(pool, address);
    if (!ec_block_table_take(&heap->blocks, address, &block)) {
        ec_slab_failed(heap->slab);
        ec_memory_sink_fault(heap->sink);
        return EC_ERR_PARAM;
    }
    count_out(heap, &block);
    free_large(heap, &block);
    return EC_OK;
}

size_t ec_heap_block_bytes(struct ec_heap *heap, const void *address)
{
    struct ec_block block;
    const size_t bytes = ec_slab_block_bytes(heap->slab, address);

    if (bytes != 0)
        return bytes;
    return ec_block_table_find(&heap->blocks, address, &block) ? block.bytes : 0;
}

uint64_t ec_heap_trim(struct ec_heap *heap)
{
    return ec_slab_trim(heap->slab);
}

void ec_heap_stats(const struct ec_heap *heap, struct ec_memory_stats *stats)
{
    struct ec_memory_stats large;

    ec_slab_stats(heap->slab, stats);
    ec_shared_row_stats(&heap->large, &large);
    ec_memory_stats_add(stats, &large);
}

/* What has no class, or is no request at all. */
static __attribute__((noinline)) void *alloc_large(struct ec_heap *heap, size_t bytes, size_t align,
                                                   uint32_t tag)
{
    struct ec_block block = { .bytes = bytes, .tag = tag };

    if (bytes == 0 || bytes > BYTES_MAX || tag >= EC_TAGS_MAX || align == 0 ||
        (align & (align - 1)) != 0 || align > ALIGN_MAX || !make_large(heap, align, &block)) {
        ec_shared_row_failed(&heap->large);
        return NULL;
    }
    if (!ec_block_table_add(&heap->blocks, &block)) {
        free_large(heap, &block);
        ec_shared_row_failed(&heap->large);
        return NULL;
    }
    count_in(heap, &block);
    return block.address;
}

/* A block may stay where it is as long as its room is enough for it, and not twice too large. */
static bool resize_in_place(struct ec_heap *heap, const struct ec_block *block, size_t bytes)
{
    const size_t room =
        heap->space != NULL ? block->room_bytes : malloc_usable_size(block->address);
    struct ec_block resized = *block;

    if (bytes <= EC_SLAB_BYTES_MAX || bytes > room || bytes < room / 2)
        return false;
    resized.bytes = bytes;
    if (heap->space == NULL)
        resized.room_bytes = bytes;
    ec_block_table_update(&heap->blocks, &resized);
    count_out(heap, block);
    count_in(heap, &resized);
    return true;
}

static bool make_large(const struct ec_heap *heap, size_t align, struct ec_block *block)
{
    block->room_bytes = block->bytes;
    if (heap->space == NULL && align <= ALIGN_DEFAULT) {
        block->address = malloc(block->bytes);
    } else if (heap->space == NULL) {
        if (posix_memalign(&block->address, align, block->bytes) != 0)
            block->address = NULL;
    } else {
        block->room_bytes =
            (block->bytes + EC_SPACE_UNIT_BYTES - 1) & ~((size_t)EC_SPACE_UNIT_BYTES - 1);
        block->address = ec_space_map(heap->space, block->bytes, align);
    }
    return block->address != NULL;
}

static void free_large(const struct ec_heap *heap, const struct ec_block *block)
{
    if (heap->space != NULL)
        ec_space_unmap(heap->space, block->address, block->room_bytes);
    else
        free(block->address);
}

static void count_in(struct ec_heap *heap, const struct ec_block *block)
{
    ec_shared_row_allocated(&heap->large, block->bytes, block->room_bytes);
    if (heap->sink == NULL)
        return;
    ec_memory_sink_count(heap->sink, block->tag, 1, block->bytes, 0, 0);
    ec_watch_allocated(heap->sink, block->address, block->bytes, block->tag);
}

static void count_out(struct ec_heap *heap, const struct ec_block *block)
{
    ec_shared_row_freed(&heap->large, block->bytes, block->room_bytes);
    if (heap->sink == NULL)
        return;
    ec_watch_freed(heap->sink, block->address, block->bytes, block->tag);
    ec_memory_sink_count(heap->sink, block->tag, 0, 0, 1, block->bytes);
}

static void *move(struct ec_heap *heap, void *block, size_t used_bytes, size_t bytes, uint32_t tag)
{
    void *moved = ec_alloc(heap, bytes, tag);

    if (moved == NULL)
        return NULL;
    memcpy(moved, block, used_bytes < bytes ? used_bytes : bytes);
    ec_free(heap, block);
    return moved;
}

/* What is still out ends with the heap; its row counts that by itself. */
static void end_large(void *context, const struct ec_block *block)
{
    struct ec_heap *heap = context;

    if (heap->sink != NULL) {
        ec_watch_freed(heap->sink, block->address, block->bytes, block->tag);
        ec_memory_sink_count(heap->sink, block->tag, 0, 0, 1, block->bytes);
    }
    free_large(heap, block);
}
