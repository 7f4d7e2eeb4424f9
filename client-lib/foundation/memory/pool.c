/* Pool: the fast paths, and what is seen of a pool from outside.
 *
 * pool_group.c has the groups and their bitmaps, pool_heap.c each thread's share of them,
 * pool_threads.c finds that share, pool_known.c tells blocks from other pointers.
 *
 * The design is that of Bonwick's magazines (Magazines and Vmem, 2001) over bitmap groups, with the
 * message-passing free of snmalloc (Liétar and others, 2019) between threads. */
#include "foundation/memory/pool.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "foundation/memory/checks.h"
#include "foundation/memory/pool_known.h"
#include "foundation/memory/pool_threads.h"
#include "foundation/memory/watch.h"
#include "proto/memory_rows.h"

#define ALIGN_DEFAULT 16 /* and the least: a free block holds a link */
#define ALIGN_MAX 65536
#define BLOCK_BYTES_MAX 65536
#define MAGAZINE_DEFAULT 128
#define MAGAZINE_MIN 16
#define MAGAZINE_MAX 256
#define MAGAZINE_GROWN_MAX 1024
#define MAGAZINE_BYTES                                                                             \
    (256u * 1024) /* of blocks; what a thread may hold of one size: 64 of them 16 MiB */

static int check_desc(const struct ec_pool_desc *desc, struct ec_error *why);
static void join_sink(struct ec_pool *pool);
static void leave_sink(struct ec_pool *pool);
static void *alloc_looked_at(struct ec_pool *pool, void *block);
static int free_looked_at(struct ec_pool *pool, void *block);
static int refuse(struct ec_pool *pool, int code);
static void *alloc_slowly(struct ec_pool *pool);
static void free_slowly(struct ec_pool *pool, void *block);
static void size_magazine(struct ec_pool *pool, const struct ec_pool_desc *desc);
static void end_tagged_counts(struct ec_pool *pool);
static void free_parts(struct ec_pool *pool);
static void end_counts(struct ec_pool *pool);
static void sum_heaps(const struct ec_pool *pool, uint64_t *allocs, uint64_t *frees);

/* The user has the block from now on. `mark` is not 0. */
static inline void hand_out(struct ec_pool *pool, void *block, uint8_t mark)
{
    atomic_store_explicit(ec_pool_live_byte(&pool->shape, block), mark, memory_order_relaxed);
    if (__builtin_expect(pool->shape.guard_from != 0, 0))
        ec_pool_guard_write(&pool->shape, block);
}

static inline bool is_block(const struct ec_pool *pool, const void *address)
{
    const struct ec_pool_shape *shape = &pool->shape;

    return ec_pool_known_number(pool->known, address) == pool->number &&
           ec_pool_group_is_start(shape, address) &&
           ec_pool_group_index(shape, address) < ec_pool_group_of(shape, address)->blocks;
}

/* Is it a block of this pool that the user has? The answer ends his having it, in one step, so that
 * of two threads that free the same block at once only one is believed. mark: what hand_out was given. */
static int take_back(struct ec_pool *pool, void *block, uint8_t *mark)
{
    const struct ec_pool_shape *shape = &pool->shape;

    if (!is_block(pool, block))
        return EC_ERR_PARAM;
    *mark = atomic_exchange_explicit(ec_pool_live_byte(shape, block), 0, memory_order_relaxed);
    if (*mark == 0)
        return EC_ERR_STATE;
    if (shape->guard_from != 0 && !ec_pool_guard_is_whole(shape, block)) {
        atomic_store_explicit(ec_pool_live_byte(shape, block), *mark, memory_order_relaxed);
        return EC_ERR_SIZE;
    }
    return EC_OK;
}

/* The same where checks were switched on while the pool was in use: who has which block is not known, but those
 * that were freed since then and not handed out again carry the number of these checks. Marks that earlier
 * checks left have other numbers. */
static int take_back_unmarked(struct ec_pool *pool, void *block, uint8_t checks)
{
    if (!is_block(pool, block))
        return EC_ERR_PARAM;
    return atomic_exchange_explicit(ec_pool_live_byte(&pool->shape, block), checks,
                                    memory_order_relaxed) == checks
               ? EC_ERR_STATE
               : EC_OK;
}

int ec_pool_create_in(struct ec_memory_sink *sink, const struct ec_pool_desc *desc,
                      struct ec_pool **pool, struct ec_error *why)
{
    return ec_pool_create_kind(sink, desc, &(struct ec_pool_kind) { .kind = EC_ALLOCATOR_POOL },
                               pool, why);
}

int ec_pool_create_kind(struct ec_memory_sink *sink, const struct ec_pool_desc *desc,
                        const struct ec_pool_kind *kind, struct ec_pool **pool,
                        struct ec_error *why)
{
    const size_t align = desc->align != 0 ? desc->align : ALIGN_DEFAULT;
    const bool checked = desc->checked || desc->guard_bytes || ec_memory_checks_are_on();
    struct ec_pool_extras extras = { .guard_bytes = desc->guard_bytes || ec_memory_guards_are_on(),
                                     .guard_pages = desc->guard_pages };
    struct ec_pool *made;
    int rc = check_desc(desc, why);

    *pool = NULL;
    if (rc < 0)
        return rc;
    rc = ec_memory_sink_space(sink, desc->in_segment, &extras.space, why);
    if (rc < 0)
        return ec_error_prefix(why, rc, "pool \"%s\"", desc->name);
    made = aligned_alloc(EC_HOT_BYTES, sizeof *made);
    if (made == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "pool \"%s\": no memory", desc->name);
    memset(made, 0, sizeof *made);
    made->tag = kind->tagged ? EC_TAG_NONE : desc->tag;
    made->align = (uint32_t)align;
    made->sink = sink;
    atomic_init(&made->blocks_left, desc->blocks_max != 0 ? desc->blocks_max : UINT64_MAX);
    ec_pool_shape_init(&made->shape, desc->block_bytes, align, &extras);
    size_magazine(made, desc);
    pthread_mutex_init(&made->common_lock, NULL);
    atomic_init(&made->unusual, checked ? EC_POOL_MARKED : 0);
    made->known = kind->known;
    made->number = kind->known != NULL ? kind->number : 1;
    if (kind->known == NULL) {
        made->known = made->own_known = ec_pool_known_create();
        if (made->known == NULL) {
            rc = ec_fail(why, EC_ERR_MEMORY, "pool \"%s\": no memory", desc->name);
            goto fail;
        }
    }
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
        made->row = ec_memory_sink_row_take(sink, desc->name, kind->kind, made->tag,
                                            made->shape.block_bytes);
    if (made->row == NULL) {
        made->row = &made->row_private;
        ec_memory_row_init(made->row, desc->name, kind->kind, made->tag, 0);
    }
    atomic_store_explicit(&made->row->largest_free_bytes, made->shape.block_bytes,
                          memory_order_relaxed);
    join_sink(made);
    *pool = made;
    return EC_OK;

fail:
    free_parts(made);
    return rc;
}

/* Magazines that nobody sized grow where a thread empties and fills them again and again, up to what 256 KiB
 * hold. With blocks_max they do not: what lies in them is out of the others' reach. */
static void size_magazine(struct ec_pool *pool, const struct ec_pool_desc *desc)
{
    const uint32_t blocks = MAGAZINE_BYTES / pool->shape.block_bytes;

    pool->magazine_blocks = desc->magazine_blocks != 0 ? desc->magazine_blocks : MAGAZINE_DEFAULT;
    pool->magazine_blocks_max = pool->magazine_blocks;
    if (desc->magazine_blocks == 0 && desc->blocks_max == 0 && blocks > pool->magazine_blocks)
        pool->magazine_blocks_max = blocks < MAGAZINE_GROWN_MAX ? blocks : MAGAZINE_GROWN_MAX;
}

static void join_sink(struct ec_pool *pool)
{
    if (pool->sink == NULL)
        return;
    pthread_mutex_lock(&pool->sink->lock);
    pool->next = pool->sink->pools;
    pool->sink->pools = pool;
    ec_pool_follow_sink(pool);
    pthread_mutex_unlock(&pool->sink->lock);
}

void ec_pool_follow_sink(struct ec_pool *pool)
{
    uint32_t unusual = atomic_load_explicit(&pool->unusual, memory_order_relaxed) & EC_POOL_MARKED;

    if (ec_memory_watch_of(pool->sink) != NULL)
        unusual |= EC_POOL_WATCHED;
    unusual |= (uint32_t)pool->sink->checks << EC_POOL_CHECKS_SHIFT;
    atomic_store_explicit(&pool->unusual, unusual, memory_order_relaxed);
}

static void leave_sink(struct ec_pool *pool)
{
    struct ec_pool **place;

    if (pool->sink == NULL)
        return;
    pthread_mutex_lock(&pool->sink->lock);
    for (place = &pool->sink->pools; *place != pool; place = &(*place)->next)
        ;
    *place = pool->next;
    pthread_mutex_unlock(&pool->sink->lock);
}

void ec_pool_destroy(struct ec_pool *pool)
{
    if (pool == NULL)
        return;
    leave_sink(pool);
    ec_pool_threads_remove(pool);
    end_counts(pool);
    free_parts(pool);
}

/* A block of a tagged pool, in the row of the calling thread, as its heap knows it; a thread without a heap
 * counts in the shared row. Where bytes_in passes a multiple of the step, the balance is pushed. */
static inline void count_tagged_in(struct ec_pool *pool, const struct ec_pool_heap *heap,
                                   uint32_t tag)
{
    const uint64_t bytes = pool->shape.block_bytes;
    struct ec_memory_account account;
    uint64_t before;

    if (pool->sink == NULL)
        return;
    if (__builtin_expect(heap != NULL, 1))
        account =
            (struct ec_memory_account) { .tag = heap->tags + tag, .slot = heap->account.slot };
    else
        account = ec_memory_sink_account_shared(pool->sink, tag);
    before = ec_row_load(&account.tag->bytes_in);
    ec_count(&account.tag->allocs, 1, account.shared);
    ec_count(&account.tag->bytes_in, bytes, account.shared);
    if (__builtin_expect((before ^ (before + bytes)) / EC_TAG_PEAK_STEP != 0, 0))
        ec_memory_sink_push(pool->sink, &account, tag);
}

static inline void count_tagged_out(struct ec_pool *pool, const struct ec_pool_heap *heap,
                                    uint32_t tag)
{
    struct ec_memory_account account = { 0 };

    if (pool->sink == NULL)
        return;
    if (__builtin_expect(heap != NULL, 1))
        account.tag = heap->tags + tag;
    else
        account = ec_memory_sink_account_shared(pool->sink, tag);
    ec_count(&account.tag->frees, 1, account.shared);
    ec_count(&account.tag->bytes_out, pool->shape.block_bytes, account.shared);
}

/* A thread without a heap counts nothing here: what is made of it is an average. */
static inline void count_requested(const struct ec_pool_heap *heap, size_t bytes)
{
    if (__builtin_expect(heap != NULL, 1))
        ec_count(heap->requested, bytes, false);
}

static inline void put_block(struct ec_pool *pool, void *block)
{
    struct ec_pool_heap *heap = ec_pool_thread_heap(pool);

    if (__builtin_expect(heap == NULL || !ec_pool_heap_push(heap, block), 0))
        free_slowly(pool, block);
}

/* One flag stands for all that is unusual, so that the plain way saves no registers. */
void *ec_pool_alloc(struct ec_pool *pool)
{
    struct ec_pool_heap *heap = ec_pool_thread_heap(pool);
    void *block;

    if (__builtin_expect(heap == NULL, 0))
        return alloc_looked_at(pool, NULL);
    block = ec_pool_heap_pop(heap);
    if (__builtin_expect(
            block == NULL || atomic_load_explicit(&pool->unusual, memory_order_relaxed) != 0, 0))
        return alloc_looked_at(pool, block);
    return block;
}

int ec_pool_free(struct ec_pool *pool, void *block)
{
    struct ec_pool_heap *heap = ec_pool_thread_heap(pool);

    if (__builtin_expect(block == NULL || heap == NULL ||
                             atomic_load_explicit(&pool->unusual, memory_order_relaxed) != 0 ||
                             !ec_pool_heap_push(heap, block),
                         0))
        return free_looked_at(pool, block);
    return EC_OK;
}

static int refuse(struct ec_pool *pool, int code)
{
    ec_count(&pool->row->failed, 1, true);
    ec_memory_sink_fault(pool->sink);
    return code;
}

/* Goes on with the block that ec_pool_alloc has already; NULL: with none. */
static __attribute__((noinline)) void *alloc_looked_at(struct ec_pool *pool, void *block)
{
    uint32_t unusual;

    if (block == NULL)
        block = alloc_slowly(pool);
    if (block == NULL)
        return NULL;
    unusual = atomic_load_explicit(&pool->unusual, memory_order_relaxed);
    if ((unusual & EC_POOL_MARKED) != 0)
        hand_out(pool, block, 1);
    else if (unusual >> EC_POOL_CHECKS_SHIFT != 0)
        atomic_store_explicit(ec_pool_live_byte(&pool->shape, block), 0, memory_order_relaxed);
    ec_watch_allocated(pool->sink, block, pool->shape.block_bytes, pool->tag);
    return block;
}

static __attribute__((noinline)) int free_looked_at(struct ec_pool *pool, void *block)
{
    const uint32_t unusual = atomic_load_explicit(&pool->unusual, memory_order_relaxed);
    int rc = EC_OK;
    uint8_t mark;

    if (block == NULL)
        return EC_OK;
    if ((unusual & EC_POOL_MARKED) != 0)
        rc = take_back(pool, block, &mark);
    else if (unusual >> EC_POOL_CHECKS_SHIFT != 0)
        rc = take_back_unmarked(pool, block, (uint8_t)(unusual >> EC_POOL_CHECKS_SHIFT));
    if (__builtin_expect(rc < 0, 0))
        return refuse(pool, rc);
    ec_watch_freed(pool->sink, block, pool->shape.block_bytes, pool->tag);
    put_block(pool, block);
    return EC_OK;
}

void *ec_pool_alloc_requested(struct ec_pool *pool, size_t bytes)
{
    void *block = ec_pool_alloc(pool);

    if (__builtin_expect(block != NULL, 1))
        count_requested(ec_pool_thread_heap(pool), bytes);
    return block;
}

void *ec_pool_alloc_tagged(struct ec_pool *pool, uint32_t tag, size_t bytes)
{
    struct ec_pool_heap *heap = ec_pool_thread_heap(pool);
    void *block = __builtin_expect(heap != NULL, 1) ? ec_pool_heap_pop(heap) : NULL;

    if (__builtin_expect(block == NULL, 0)) {
        block = alloc_slowly(pool);
        if (block == NULL)
            return NULL;
        heap = ec_pool_thread_heap(pool);
    }
    hand_out(pool, block, (uint8_t)(tag + 1));
    count_tagged_in(pool, heap, tag);
    count_requested(heap, bytes);
    ec_watch_allocated(pool->sink, block, pool->shape.block_bytes, tag);
    return block;
}

/* A double free by two threads at once is found where it is looked for, with an exchange; one after the other
 * costs a load and a store, and an address within a block a multiplication, so these are found everywhere. */
int ec_pool_free_tagged(struct ec_pool *pool, void *block)
{
    struct ec_pool_heap *heap = ec_pool_thread_heap(pool);
    int rc = EC_OK;
    uint8_t mark = 0;

    if ((atomic_load_explicit(&pool->unusual, memory_order_relaxed) & ~EC_POOL_WATCHED) != 0) {
        rc = take_back(pool, block, &mark);
    } else if (!ec_pool_group_is_start(&pool->shape, block)) {
        rc = EC_ERR_PARAM;
    } else {
        _Atomic uint8_t *live = ec_pool_live_byte(&pool->shape, block);

        mark = atomic_load_explicit(live, memory_order_relaxed);
        atomic_store_explicit(live, 0, memory_order_relaxed);
        if (mark == 0)
            rc = EC_ERR_STATE;
    }
    if (__builtin_expect(rc < 0, 0))
        return refuse(pool, rc);
    ec_watch_freed(pool->sink, block, pool->shape.block_bytes, mark - 1u);
    count_tagged_out(pool, heap, mark - 1u);
    if (__builtin_expect(heap == NULL || !ec_pool_heap_push(heap, block), 0))
        free_slowly(pool, block);
    return EC_OK;
}

uint32_t ec_pool_tag_of(const struct ec_pool *pool, const void *block)
{
    if (!ec_pool_group_is_start(&pool->shape, block))
        return EC_TAG_NONE;
    return atomic_load_explicit(ec_pool_live_byte(&pool->shape, block), memory_order_relaxed) - 1u;
}

static_assert(EC_TAG_NONE == 0 - 1u, "the mark of a free block is 0");

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

void ec_pool_age_all(struct ec_memory_sink *sink)
{
    pthread_mutex_lock(&sink->lock);
    for (struct ec_pool *pool = sink->pools; pool != NULL; pool = pool->next) {
        struct ec_pool_heap *heap = atomic_load_explicit(&pool->heaps, memory_order_acquire);

        for (; heap != NULL; heap = heap->next)
            ec_pool_heap_age(heap);
    }
    pthread_mutex_unlock(&sink->lock);
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
    if (ec_pool_heap_count(heap) != 0 || ec_pool_heap_refill(heap))
        block = ec_pool_heap_pop(heap);
    if (common)
        pthread_mutex_unlock(&pool->common_lock);
    if (block == NULL) {
        ec_count(&pool->row->failed, 1, true);
        atomic_store_explicit(&pool->row->largest_free_bytes, 0, memory_order_relaxed);
    }
    return block;
}

static __attribute__((noinline)) void free_slowly(struct ec_pool *pool, void *block)
{
    struct ec_pool_heap *heap = ec_pool_threads_heap(pool);
    const bool common = heap == NULL;

    if (common) {
        pthread_mutex_lock(&pool->common_lock);
        heap = ec_pool_threads_common(pool);
    }
    if (ec_pool_heap_count(heap) == heap->capacity)
        ec_pool_heap_make_room(heap);
    ec_pool_heap_push(heap, block); /* there is room now */
    if (common)
        pthread_mutex_unlock(&pool->common_lock);
    atomic_store_explicit(&pool->row->largest_free_bytes, pool->shape.block_bytes,
                          memory_order_relaxed);
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
    ec_pool_known_destroy(pool->own_known);
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
    if (pool->tag == EC_TAG_NONE) {
        end_tagged_counts(pool);
        if (pool->row != &pool->row_private)
            ec_memory_sink_row_leave(pool->sink, pool->row);
        return;
    }
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

/* Blocks of a tagged pool that are still out end with it. */
static void end_tagged_counts(struct ec_pool *pool)
{
    const struct ec_pool_heap *heap = atomic_load_explicit(&pool->heaps, memory_order_acquire);

    for (; heap != NULL; heap = heap->next)
        for (uint32_t place = 0; place < heap->places; place++) {
            struct ec_pool_group *group = heap->groups[place];

            for (uint32_t i = 0; group != NULL && i < group->blocks; i++) {
                const uint8_t mark = atomic_load_explicit(
                    ec_pool_group_live(&pool->shape, group) + i, memory_order_relaxed);

                if (mark != 0)
                    count_tagged_out(pool, ec_pool_thread_heap(pool), mark - 1u);
            }
        }
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
