/* Pool: the fast paths, and what is seen of a pool from outside.
 *
 * pool_group.c has the groups and their bitmaps, pool_heap.c each thread's share of them,
 * pool_threads.c finds that share, pool_known.c tells blocks from other pointers.
 *
 * The design is that of Bonwick's magazines (Magazines and Vmem, 2001) over bitmap groups, with the
 * message-passing free of snmalloc (Liétar and others, 2019) between threads. */
#include "foundation/memory/pool.h"

#include <stdlib.h>
#include <string.h>

#include "foundation/memory/pool_known.h"
#include "foundation/memory/pool_threads.h"
#include "proto/memory_rows.h"

#define ALIGN_DEFAULT 16 /* and the least: a free block holds a link */
#define ALIGN_MAX 65536
#define BLOCK_BYTES_MAX 65536
#define MAGAZINE_DEFAULT 128
#define MAGAZINE_MIN 16
#define MAGAZINE_MAX 256

static int check_desc(const struct ec_pool_desc *desc, struct ec_error *why);
static void *alloc_slowly(struct ec_pool *pool);
static int free_slowly(struct ec_pool *pool, void *block);
static void free_parts(struct ec_pool *pool);
static void end_counts(struct ec_pool *pool);
static void sum_heaps(const struct ec_pool *pool, uint64_t *allocs, uint64_t *frees);

#ifdef EC_POOL_CHECKED
static _Atomic uint8_t *live_byte(const struct ec_pool_shape *shape, void *block)
{
    struct ec_pool_group *group = ec_pool_group_of(shape, block);

    return ec_pool_group_live(shape, group) + ec_pool_group_index(shape, block);
}

static void mark_live(const struct ec_pool_shape *shape, void *block)
{
    atomic_store_explicit(live_byte(shape, block), 1, memory_order_relaxed);
}

/* Is it a block of this pool that the user has? The answer ends his having it, in one step, so that
 * of two threads that free the same block at once only one is believed. */
static int check_block(struct ec_pool *pool, void *block)
{
    const struct ec_pool_shape *shape = &pool->shape;
    const struct ec_pool_group *group = ec_pool_group_of(shape, block);
    const size_t inside = (size_t)((char *)block - (const char *)group);
    int rc = EC_OK;

    if (!ec_pool_known_has(pool->known, group) || inside < shape->first ||
        (inside - shape->first) % shape->block_bytes != 0 ||
        (inside - shape->first) / shape->block_bytes >= group->blocks)
        rc = EC_ERR_PARAM;
    else if (atomic_exchange_explicit(live_byte(shape, block), 0, memory_order_relaxed) == 0)
        rc = EC_ERR_STATE;
    if (rc < 0)
        ec_count(&pool->row->failed, 1, true);
    return rc;
}
#else
static inline void mark_live(const struct ec_pool_shape *shape, void *block)
{
    (void)shape;
    (void)block;
}

static inline int check_block(struct ec_pool *pool, void *block)
{
    (void)pool;
    (void)block;
    return EC_OK;
}
#endif

int ec_pool_create_in(struct ec_memory_sink *sink, const struct ec_pool_desc *desc,
                      struct ec_pool **pool, struct ec_error *why)
{
    const size_t align = desc->align != 0 ? desc->align : ALIGN_DEFAULT;
    struct ec_pool *made;
    int rc = check_desc(desc, why);

    *pool = NULL;
    if (rc < 0)
        return rc;
    made = aligned_alloc(EC_HOT_BYTES, sizeof *made);
    if (made == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "pool \"%s\": no memory", desc->name);
    memset(made, 0, sizeof *made);
    made->magazine_blocks = desc->magazine_blocks != 0 ? desc->magazine_blocks : MAGAZINE_DEFAULT;
    made->tag = desc->tag;
    made->sink = sink;
    atomic_init(&made->blocks_left, desc->blocks_max != 0 ? desc->blocks_max : UINT64_MAX);
    ec_pool_shape_init(&made->shape, desc->block_bytes, align);
    pthread_mutex_init(&made->common_lock, NULL);
#ifdef EC_POOL_CHECKED
    made->known = ec_pool_known_create();
    if (made->known == NULL) {
        rc = ec_fail(why, EC_ERR_MEMORY, "pool \"%s\": no memory", desc->name);
        goto fail;
    }
#endif
    made->common = ec_pool_heap_create(made, NULL, false);
    if (made->common == NULL) {
        rc = ec_fail(why, EC_ERR_MEMORY, "pool \"%s\": no memory", desc->name);
        goto fail;
    }
    if (!ec_pool_threads_add(made)) {
        rc = ec_fail(why, EC_ERR_LIMIT, "pool \"%s\": %d pools exist", desc->name, EC_POOLS_MAX);
        goto fail;
    }
    if (sink != NULL)
        made->row = ec_memory_sink_row_take(sink, desc->name, EC_ALLOCATOR_POOL, desc->tag,
                                            made->shape.block_bytes);
    if (made->row == NULL) {
        made->row = &made->row_private;
        ec_memory_row_init(made->row, desc->name, EC_ALLOCATOR_POOL, desc->tag, 0);
    }
    atomic_store_explicit(&made->row->largest_free_bytes, made->shape.block_bytes,
                          memory_order_relaxed);
    *pool = made;
    return EC_OK;

fail:
    free_parts(made);
    return rc;
}

void ec_pool_destroy(struct ec_pool *pool)
{
    if (pool == NULL)
        return;
    ec_pool_threads_remove(pool);
    end_counts(pool);
    free_parts(pool);
}

void *ec_pool_alloc(struct ec_pool *pool)
{
    struct ec_pool_heap *heap = ec_pool_thread_heap(pool);
    uint64_t count;
    void *block;

    if (__builtin_expect(heap == NULL, 0))
        return alloc_slowly(pool);
    count = ec_pool_heap_count(heap);
    if (__builtin_expect(count == 0, 0))
        return alloc_slowly(pool);
    block = ec_pool_heap_pop(heap, count);
    mark_live(&pool->shape, block);
    return block;
}

int ec_pool_free(struct ec_pool *pool, void *block)
{
    struct ec_pool_heap *heap = ec_pool_thread_heap(pool);
    uint64_t count;
    int rc;

    if (__builtin_expect(block == NULL, 0))
        return EC_OK;
    rc = check_block(pool, block);
    if (__builtin_expect(rc < 0, 0))
        return rc;
    if (__builtin_expect(heap == NULL, 0))
        return free_slowly(pool, block);
    count = ec_pool_heap_count(heap);
    if (__builtin_expect(count >= heap->capacity, 0))
        return free_slowly(pool, block);
    ec_pool_heap_push(heap, block, count);
    return EC_OK;
}

uint64_t ec_pool_trim(struct ec_pool *pool)
{
    struct ec_pool_heap *heap = ec_pool_thread_heap(pool);
    uint64_t bytes = 0;

    if (heap != NULL)
        ec_pool_heap_flush(heap, ec_pool_heap_count(heap));
    pthread_mutex_lock(&pool->common_lock);
    heap = ec_pool_threads_common(pool);
    ec_pool_heap_flush(heap, ec_pool_heap_count(heap));
    pthread_mutex_unlock(&pool->common_lock);
    heap = atomic_load_explicit(&pool->heaps, memory_order_acquire);
    for (; heap != NULL; heap = heap->next)
        bytes += ec_pool_heap_trim(heap);
    return bytes;
}

void ec_pool_stats(const struct ec_pool *pool, struct ec_memory_stats *stats)
{
    const struct ec_allocator_row *row = pool->row;
    uint64_t allocs, frees, live;

    sum_heaps(pool, &allocs, &frees);
    live = ec_row_difference(allocs, frees);
    *stats = (struct ec_memory_stats) {
        .current_bytes = live * pool->shape.block_bytes,
        .peak_bytes = ec_row_load(&row->peak_bytes),
        .capacity_bytes = ec_row_load(&row->capacity_bytes),
        .count = live,
        .total = allocs,
        .failed = ec_row_load(&row->failed),
        .largest_free_bytes = ec_row_load(&row->largest_free_bytes),
    };
    if (stats->peak_bytes < stats->current_bytes)
        stats->peak_bytes = stats->current_bytes;
}

static int check_desc(const struct ec_pool_desc *desc, struct ec_error *why)
{
    const uint32_t magazine = desc->magazine_blocks;
    const size_t align = desc->align;
    const int rc = ec_memory_check_name(desc->name, desc->tag, why);

    if (rc < 0)
        return ec_error_prefix(why, rc, "pool");
    if (desc->block_bytes == 0 || desc->block_bytes > BLOCK_BYTES_MAX)
        return ec_fail(why, EC_ERR_SIZE, "pool \"%s\": block_bytes is %zu, expected 1..%d",
                       desc->name, desc->block_bytes, BLOCK_BYTES_MAX);
    if (align != 0 && ((align & (align - 1)) != 0 || align < ALIGN_DEFAULT || align > ALIGN_MAX))
        return ec_fail(why, EC_ERR_PARAM,
                       "pool \"%s\": align is %zu, expected a power of two, %d..%d", desc->name,
                       align, ALIGN_DEFAULT, ALIGN_MAX);
    if (magazine != 0 && (magazine < MAGAZINE_MIN || magazine > MAGAZINE_MAX))
        return ec_fail(why, EC_ERR_PARAM, "pool \"%s\": magazine_blocks is %u, expected %d..%d",
                       desc->name, magazine, MAGAZINE_MIN, MAGAZINE_MAX);
    return EC_OK;
}

static __attribute__((noinline)) void *alloc_slowly(struct ec_pool *pool)
{
    struct ec_pool_heap *heap = ec_pool_threads_heap(pool);
    const bool common = heap == NULL;
    void *block = NULL;

    if (common) {
        pthread_mutex_lock(&pool->common_lock);
        heap = ec_pool_threads_common(pool);
    }
    if (ec_pool_heap_count(heap) != 0 || ec_pool_heap_refill(heap)) {
        block = ec_pool_heap_pop(heap, ec_pool_heap_count(heap));
        mark_live(&pool->shape, block);
    }
    if (common)
        pthread_mutex_unlock(&pool->common_lock);
    if (block == NULL) {
        ec_count(&pool->row->failed, 1, true);
        atomic_store_explicit(&pool->row->largest_free_bytes, 0, memory_order_relaxed);
    }
    return block;
}

static __attribute__((noinline)) int free_slowly(struct ec_pool *pool, void *block)
{
    struct ec_pool_heap *heap = ec_pool_threads_heap(pool);
    const bool common = heap == NULL;

    if (common) {
        pthread_mutex_lock(&pool->common_lock);
        heap = ec_pool_threads_common(pool);
    }
    if (ec_pool_heap_count(heap) == heap->capacity)
        ec_pool_heap_flush(heap, heap->capacity / 2);
    ec_pool_heap_push(heap, block, ec_pool_heap_count(heap));
    if (common)
        pthread_mutex_unlock(&pool->common_lock);
    atomic_store_explicit(&pool->row->largest_free_bytes, pool->shape.block_bytes,
                          memory_order_relaxed);
    return EC_OK;
}

/* Accepts a half-built pool that has no index yet. */
static void free_parts(struct ec_pool *pool)
{
    struct ec_pool_heap *heap = atomic_load_explicit(&pool->heaps, memory_order_acquire);
    struct ec_pool_heap *next;

    for (; heap != NULL; heap = next) {
        next = heap->next;
        ec_pool_heap_destroy(heap);
    }
    ec_pool_known_destroy(pool->known);
    pthread_mutex_destroy(&pool->common_lock);
    free(pool);
}

/* The row goes, and with it what was counted there; from now on the tag itself says so. Blocks that
 * are still out end with the pool: all that was allocated is freed. */
static void end_counts(struct ec_pool *pool)
{
    const struct ec_pool_heap *heap = atomic_load_explicit(&pool->heaps, memory_order_acquire);
    const uint32_t block_bytes = pool->shape.block_bytes;
    struct ec_memory_account account;
    uint64_t allocs, frees, in, out;

    if (pool->sink == NULL)
        return;
    sum_heaps(pool, &allocs, &frees);
    for (in = out = allocs; heap != NULL; heap = heap->next) {
        in -= heap->told_allocs;
        out -= heap->told_frees;
    }
    account = ec_memory_sink_account(pool->sink, pool->tag);
    ec_count(&account.tag->allocs, in, account.shared);
    ec_count(&account.tag->bytes_in, in * block_bytes, account.shared);
    ec_count(&account.tag->frees, out, account.shared);
    ec_count(&account.tag->bytes_out, out * block_bytes, account.shared);
    ec_memory_sink_push_bytes(pool->sink, pool->tag,
                              -atomic_load_explicit(&pool->live, memory_order_relaxed) *
                                  (int64_t)block_bytes);
    if (pool->row != &pool->row_private)
        ec_memory_sink_row_leave(pool->sink, pool->row);
}

/* What all threads counted, wherever they did. */
static void sum_heaps(const struct ec_pool *pool, uint64_t *allocs, uint64_t *frees)
{
    const struct ec_memory_sink *sink = pool->sink;
    const struct ec_pool_heap *heap = atomic_load_explicit(&pool->heaps, memory_order_acquire);

    if (pool->row != &pool->row_private) {
        ec_allocator_count(sink->threads,
                           atomic_load_explicit(sink->threads_high, memory_order_relaxed),
                           (uint32_t)(pool->row - sink->allocators), allocs, frees);
        return;
    }
    *allocs = *frees = 0;
    for (; heap != NULL; heap = heap->next) {
        *frees += ec_row_load(&heap->own_private.frees);
        *allocs += ec_row_load(&heap->own_private.allocs);
    }
}
