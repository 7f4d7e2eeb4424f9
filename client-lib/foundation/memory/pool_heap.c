/* Heaps: refill, flush, blocks on their way between threads, and groups that change hands. */
#include "foundation/memory/pool_heap.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "foundation/memory/pool_known.h"
#include "foundation/memory/watch.h"

#define REFILL_AT_LEAST 16 /* a thin word is followed by another, up to half of the magazine */
#define REMOTE_BATCH 32    /* blocks per compare-and-swap */
#define AGE_NS                                                                                     \
    400000000 /* empty groups that were not needed for so long go back: 24 frames at 60 Hz */

/* Blocks for one owner, linked through their first word. */
struct batch {
    struct ec_pool_heap *owner;
    void *newest;
    void *oldest;
    uint32_t count;
};

/* Bits of one word, to be put back with one store. */
struct run {
    struct ec_pool_group *group;
    uint32_t word;
    uint64_t bits;
};

static struct ec_pool_heap *adopt_orphan(struct ec_pool *pool);
static struct ec_pool_group *group_with_free(struct ec_pool_heap *heap);
static struct ec_pool_group *group_from_others(struct ec_pool_heap *heap, bool also_partly_used);
static struct ec_pool_group *group_from_system(struct ec_pool_heap *heap);
static uint32_t reserve_blocks(struct ec_pool *pool);
static bool find_place(struct ec_pool_heap *heap);
static void add_group(struct ec_pool_heap *heap, struct ec_pool_group *group);
static void remove_group(struct ec_pool_heap *heap, struct ec_pool_group *group);
static void mark_nonfull(struct ec_pool_heap *heap, uint32_t place);
static void mark_full(struct ec_pool_heap *heap, uint32_t place);
static void gain_empty(struct ec_pool_heap *heap, const struct ec_pool_group *group);
static void lose_empty(struct ec_pool_heap *heap, const struct ec_pool_group *group);
static bool grow_table(struct ec_pool_heap *heap);
static void put_run(struct ec_pool_heap *heap, struct run run);
static void put_back(struct ec_pool_heap *heap, void *const *blocks, uint32_t count);
static void batch_add(struct batch *batch, struct ec_pool_heap *owner, void *block);
static void batch_send(struct batch *batch);
static void drain(struct ec_pool_heap *heap);
static void age(struct ec_pool_heap *heap);
static uint64_t unmap_empty(struct ec_pool_heap *heap, uint32_t count);
static void push_balance(struct ec_pool_heap *heap);
static void count_for_tag(struct ec_pool_heap *heap, uint64_t allocs, uint64_t frees);
static bool is_listed(const struct ec_pool *pool);
static void set_count(struct ec_pool_heap *heap, uint64_t count);

struct ec_pool_heap *ec_pool_heap_create(struct ec_pool *pool, struct ec_pool_thread *thread,
                                         bool adopt)
{
    const size_t bytes = sizeof(struct ec_pool_heap) + pool->magazine_blocks_max * sizeof(void *);
    struct ec_pool_heap *heap = adopt ? adopt_orphan(pool) : NULL;

    if (heap != NULL) {
        heap->thread = thread;
        return heap;
    }
    heap = aligned_alloc(EC_HOT_BYTES, (bytes + EC_HOT_BYTES - 1) & ~(size_t)(EC_HOT_BYTES - 1));
    if (heap == NULL)
        return NULL;
    memset(heap, 0, bytes);
    pthread_mutex_init(&heap->lock, NULL);
    heap->capacity = pool->magazine_blocks;
    heap->pool = pool;
    heap->thread = thread;
    heap->next = atomic_load_explicit(&pool->heaps, memory_order_relaxed);
    /* Pairs with the acquire of those who walk the list. */
    atomic_store_explicit(&pool->heaps, heap, memory_order_release);
    return heap;
}

void ec_pool_heap_destroy(struct ec_pool_heap *heap)
{
    const struct ec_pool *pool = heap->pool;

    for (uint32_t place = 0; place < heap->places; place++) {
        if (heap->groups[place] == NULL)
            continue;
        ec_watch_ended(pool->sink, heap->groups[place], pool->shape.group_bytes);
        ec_pool_group_destroy(&pool->shape, heap->groups[place]);
    }
    pthread_mutex_destroy(&heap->lock);
    free(heap->groups);
    free(heap->nonfull);
    free(heap);
}

void ec_pool_heap_bind(struct ec_pool_heap *heap, const struct ec_memory_account *account)
{
    struct ec_pool *pool = heap->pool;

    heap->own = &heap->own_private;
    heap->requested = &heap->requested_private;
    heap->account = account != NULL ? *account : (struct ec_memory_account) { 0 };
    heap->tags = account != NULL ? pool->sink->threads[account->slot].tags : NULL;
    if (is_listed(pool)) {
        const size_t row = (size_t)(pool->row - pool->sink->allocators);

        heap->own = &pool->sink->threads[heap->account.slot].allocators[row];
        if (pool->sink->requested != NULL)
            heap->requested = &pool->sink->requested[heap->account.slot].bytes[row];
    }
    set_count(heap, 0);
}

bool ec_pool_heap_refill(struct ec_pool_heap *heap)
{
    const uint32_t room = (uint32_t)heap->capacity / 2;
    uint32_t left = room;

    assert(ec_pool_heap_count(heap) == 0);
    heap->refilled = true;
    push_balance(heap); /* an empty magazine: as many are out as will be before the next refill */
    pthread_mutex_lock(&heap->lock);
    if (atomic_load_explicit(&heap->remote, memory_order_relaxed) != NULL)
        drain(heap);
    while (left > 0 && room - left < REFILL_AT_LEAST) {
        struct ec_pool_group *group = group_with_free(heap);

        if (group == NULL)
            break;
        if (ec_pool_group_is_empty(group))
            lose_empty(heap, group);
        left -= ec_pool_group_take(&heap->pool->shape, group, heap->blocks + left, left);
        if (group->summary == 0)
            mark_full(heap, group->place);
    }
    pthread_mutex_unlock(&heap->lock);
    if (left >
        0) /* blocks were written downwards from the middle, so that the lowest comes first */
        memmove(heap->blocks, heap->blocks + left, (room - left) * sizeof heap->blocks[0]);
    set_count(heap, room - left);
    return left < room;
}

void ec_pool_heap_flush(struct ec_pool_heap *heap, uint64_t blocks)
{
    const uint64_t left = ec_pool_heap_count(heap) - blocks;

    assert(blocks <= ec_pool_heap_count(heap));
    pthread_mutex_lock(&heap->lock);
    put_back(heap, heap->blocks, (uint32_t)blocks);
    pthread_mutex_unlock(&heap->lock);
    memmove(heap->blocks, heap->blocks + blocks, left * sizeof heap->blocks[0]);
    set_count(heap, left);
    push_balance(heap);
}

void ec_pool_heap_make_room(struct ec_pool_heap *heap)
{
    const uint64_t largest = heap->pool->magazine_blocks_max;

    if (heap->refilled && heap->capacity < largest)
        heap->capacity = heap->capacity * 2 < largest ? heap->capacity * 2 : largest;
    else
        ec_pool_heap_flush(heap, heap->capacity / 2);
    heap->refilled = false;
}

void ec_pool_heap_leave(struct ec_pool_heap *heap)
{
    ec_pool_heap_flush(heap, ec_pool_heap_count(heap));
    pthread_mutex_lock(&heap->lock);
    drain(heap);
    heap->orphan = true;
    pthread_mutex_unlock(&heap->lock);
    heap->capacity = heap->pool->magazine_blocks;
    heap->thread = NULL;
}

uint64_t ec_pool_heap_trim(struct ec_pool_heap *heap)
{
    uint64_t bytes;

    pthread_mutex_lock(&heap->lock);
    drain(heap);
    bytes = unmap_empty(heap, heap->empty_count);
    heap->empty_low = heap->empty_count;
    pthread_mutex_unlock(&heap->lock);
    return bytes;
}

void ec_pool_heap_age(struct ec_pool_heap *heap)
{
    if (pthread_mutex_trylock(&heap->lock) != 0)
        return; /* it is in use, and ages by itself */
    drain(heap);
    age(heap);
    pthread_mutex_unlock(&heap->lock);
}

static struct ec_pool_heap *adopt_orphan(struct ec_pool *pool)
{
    struct ec_pool_heap *heap = atomic_load_explicit(&pool->heaps, memory_order_acquire);
    bool found;

    for (; heap != NULL; heap = heap->next) {
        if (pthread_mutex_trylock(&heap->lock) != 0)
            continue; /* somebody takes groups from it */
        found = heap->orphan;
        heap->orphan = false;
        pthread_mutex_unlock(&heap->lock);
        if (found)
            return heap;
    }
    return NULL;
}

/* The lowest group that has a free block, or one from elsewhere. */
static struct ec_pool_group *group_with_free(struct ec_pool_heap *heap)
{
    struct ec_pool_group *group;

    for (; heap->nonfull_from < heap->places / 64; heap->nonfull_from++) {
        const uint64_t word = heap->nonfull[heap->nonfull_from];

        if (word != 0)
            return heap->groups[heap->nonfull_from * 64 + (uint32_t)__builtin_ctzll(word)];
    }
    if (!find_place(heap))
        return NULL;
    group = group_from_others(heap, false);
    if (group == NULL)
        group = group_from_system(heap);
    if (group == NULL)
        group = group_from_others(heap, true);
    return group;
}

/* Take a group over from another heap: any with a free block from one whose thread ended, else an
 * empty one, or when it is the last resort a partly used one. Trying the lock, never waiting for it,
 * while the own one is held, excludes a deadlock. */
static struct ec_pool_group *group_from_others(struct ec_pool_heap *heap, bool also_partly_used)
{
    struct ec_pool_heap *other = atomic_load_explicit(&heap->pool->heaps, memory_order_acquire);
    struct ec_pool_group *found = NULL;

    for (; found == NULL && other != NULL; other = other->next) {
        if (other == heap || pthread_mutex_trylock(&other->lock) != 0)
            continue;
        drain(other);
        for (uint32_t place = 0; found == NULL && place < other->places; place++) {
            struct ec_pool_group *group = other->groups[place];

            if (group == NULL || group->summary == 0)
                continue;
            if (!other->orphan && !also_partly_used && !ec_pool_group_is_empty(group))
                continue;
            remove_group(other, group);
            add_group(heap, group);
            found = group;
        }
        pthread_mutex_unlock(&other->lock);
    }
    return found;
}

static struct ec_pool_group *group_from_system(struct ec_pool_heap *heap)
{
    struct ec_pool *pool = heap->pool;
    const uint32_t blocks = reserve_blocks(pool);
    struct ec_pool_group *group = blocks != 0 ? ec_pool_group_create(&pool->shape, blocks) : NULL;

    if (group != NULL &&
        !ec_pool_known_add(pool->known, group, pool->shape.group_bytes, pool->number)) {
        ec_pool_group_destroy(&pool->shape, group);
        group = NULL;
    }
    if (group == NULL) {
        atomic_fetch_add_explicit(&pool->blocks_left, blocks, memory_order_relaxed);
        return NULL;
    }
    atomic_fetch_add_explicit(&pool->row->capacity_bytes,
                              (uint64_t)blocks * pool->shape.block_bytes, memory_order_relaxed);
    add_group(heap, group);
    return group;
}

/* Blocks for one more group, within blocks_max. */
static uint32_t reserve_blocks(struct ec_pool *pool)
{
    uint64_t left = atomic_load_explicit(&pool->blocks_left, memory_order_relaxed);
    uint32_t blocks;

    do {
        blocks = left < pool->shape.blocks ? (uint32_t)left : pool->shape.blocks;
    } while (!atomic_compare_exchange_weak_explicit(&pool->blocks_left, &left, left - blocks,
                                                    memory_order_relaxed, memory_order_relaxed));
    return blocks;
}

/* Make place_from a free place; false: no memory for the table. */
static bool find_place(struct ec_pool_heap *heap)
{
    while (heap->place_from < heap->places && heap->groups[heap->place_from] != NULL)
        heap->place_from++;
    return heap->place_from < heap->places || grow_table(heap);
}

/* Put the group into the place that find_place has found. */
static void add_group(struct ec_pool_heap *heap, struct ec_pool_group *group)
{
    const uint32_t place = heap->place_from++;

    assert(heap->groups[place] == NULL && group->summary != 0);
    heap->groups[place] = group;
    group->place = place;
    mark_nonfull(heap, place);
    if (ec_pool_group_is_empty(group))
        gain_empty(heap, group);
    /* Who holds a block of the group may read this without a lock, and either owner will do. */
    atomic_store_explicit(&group->owner, heap, memory_order_relaxed);
}

static void mark_nonfull(struct ec_pool_heap *heap, uint32_t place)
{
    heap->nonfull[place / 64] |= 1ull << (place & 63);
    if (place / 64 < heap->nonfull_from)
        heap->nonfull_from = place / 64;
}

static void mark_full(struct ec_pool_heap *heap, uint32_t place)
{
    heap->nonfull[place / 64] &= ~(1ull << (place & 63));
}

static uint64_t group_blocks_bytes(const struct ec_pool_heap *heap,
                                   const struct ec_pool_group *group)
{
    return (uint64_t)group->blocks * heap->pool->shape.block_bytes;
}

static void gain_empty(struct ec_pool_heap *heap, const struct ec_pool_group *group)
{
    heap->empty_count++;
    atomic_fetch_add_explicit(&heap->pool->row->reusable_bytes, group_blocks_bytes(heap, group),
                              memory_order_relaxed);
}

/* An empty group is taken into use, or taken away. */
static void lose_empty(struct ec_pool_heap *heap, const struct ec_pool_group *group)
{
    atomic_fetch_sub_explicit(&heap->pool->row->reusable_bytes, group_blocks_bytes(heap, group),
                              memory_order_relaxed);
    if (--heap->empty_count < heap->empty_low)
        heap->empty_low = heap->empty_count;
}

static void remove_group(struct ec_pool_heap *heap, struct ec_pool_group *group)
{
    heap->groups[group->place] = NULL;
    if (group->place < heap->place_from)
        heap->place_from = group->place;
    mark_full(heap, group->place);
    if (ec_pool_group_is_empty(group))
        lose_empty(heap, group);
}

static bool grow_table(struct ec_pool_heap *heap)
{
    const uint32_t places = heap->places == 0 ? 64 : heap->places * 2;
    struct ec_pool_group **groups = realloc(heap->groups, places * sizeof *groups);
    uint64_t *nonfull;

    if (groups == NULL)
        return false;
    heap->groups = groups;
    nonfull = realloc(heap->nonfull, places / 64 * sizeof *nonfull);
    if (nonfull == NULL)
        return false;
    heap->nonfull = nonfull;
    memset(groups + heap->places, 0, (places - heap->places) * sizeof *groups);
    memset(nonfull + heap->places / 64, 0, (places - heap->places) / 64 * sizeof *nonfull);
    heap->places = places;
    return true;
}

/* Own blocks into their words, others' to their owners. Under the heap's lock, so that a group whose owner was asked
 * once keeps it for the blocks that follow.
 *
 * Blocks that were freed in the order of their addresses, or against it, are neighbours here: then the next bit is
 * the last one's neighbour, and nothing has to be divided. No block of another group is so near, since a group begins
 * with its header. */
static void put_back(struct ec_pool_heap *heap, void *const *blocks, uint32_t count)
{
    const struct ec_pool_shape *shape = &heap->pool->shape;
    const uintptr_t stride = shape->stride_bytes;
    struct batch batch = { 0 };
    struct run run = { 0 };
    uintptr_t last = 0;
    uint64_t bit = 0;

    for (uint32_t i = 0; i < count; i++) {
        const uintptr_t address = (uintptr_t)blocks[i];
        struct ec_pool_group *group;
        uint32_t index;

        if (address == last + stride && bit << 1 != 0) {
            bit <<= 1;
        } else if (address == last - stride && bit >> 1 != 0) {
            bit >>= 1;
        } else {
            group = ec_pool_group_of(shape, blocks[i]);
            if (group != run.group) {
                struct ec_pool_heap *owner =
                    atomic_load_explicit(&group->owner, memory_order_relaxed);

                if (owner != heap) { /* an owner that changes meanwhile passes it on */
                    batch_add(&batch, owner, blocks[i]);
                    continue;
                }
            }
            index = ec_pool_group_index(shape, blocks[i]);
            if (group != run.group || index / 64 != run.word) {
                put_run(heap, run);
                run = (struct run) { .group = group, .word = index / 64 };
            }
            bit = 1ull << (index & 63);
        }
        last = address;
        run.bits |= bit;
    }
    put_run(heap, run);
    batch_send(&batch);
}

static void put_run(struct ec_pool_heap *heap, struct run run)
{
    if (run.group == NULL)
        return;
    ec_pool_group_put(run.group, run.word, run.bits);
    mark_nonfull(heap, run.group->place);
    if (ec_pool_group_is_empty(run.group)) {
        gain_empty(heap, run.group);
        age(heap); /* may unmap the group */
    }
}

static void batch_add(struct batch *batch, struct ec_pool_heap *owner, void *block)
{
    if (batch->owner != owner || batch->count == REMOTE_BATCH)
        batch_send(batch);
    if (batch->count == 0)
        *batch = (struct batch) { .owner = owner, .oldest = block };
    *(void **)block = batch->newest;
    batch->newest = block;
    batch->count++;
}

/* Order: release, so that who drains sees the links, and the freed blocks as their last user left
 * them. Pairs with the acquire in drain(). The list is only ever taken as a whole: no ABA. */
static void batch_send(struct batch *batch)
{
    void *head;

    if (batch->count == 0)
        return;
    head = atomic_load_explicit(&batch->owner->remote, memory_order_relaxed);
    do {
        *(void **)batch->oldest = head;
    } while (!atomic_compare_exchange_weak_explicit(&batch->owner->remote, &head, batch->newest,
                                                    memory_order_release, memory_order_relaxed));
    *batch = (struct batch) { 0 };
}

/* Take back what others freed. Blocks of groups that have gone to another heap follow them there.
 * Under the heap's lock. */
static void drain(struct ec_pool_heap *heap)
{
    void *block = atomic_exchange_explicit(&heap->remote, NULL, memory_order_acquire);
    void *some[REMOTE_BATCH];
    uint32_t count = 0;

    while (block != NULL) {
        some[count++] = block;
        block = *(void **)block;
        if (count == REMOTE_BATCH || block == NULL) {
            put_back(heap, some, count);
            count = 0;
        }
    }
}

/* Once in a while, give up the groups that were never needed meanwhile. A load that empties and
 * fills the same groups each frame keeps them: mapping and faulting them anew would cost far more
 * than all the rest. */
static void age(struct ec_pool_heap *heap)
{
    struct timespec now;
    int64_t now_ns;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    now_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    if (now_ns - heap->aged_ns < AGE_NS)
        return;
    unmap_empty(heap, heap->empty_low);
    heap->empty_low = heap->empty_count;
    heap->aged_ns = now_ns;
}

/* Unmap so many empty groups, the highest places first; returns their bytes. */
static uint64_t unmap_empty(struct ec_pool_heap *heap, uint32_t count)
{
    struct ec_pool *pool = heap->pool;
    uint64_t bytes = 0;

    for (uint32_t place = heap->places; place > 0 && count > 0; place--) {
        struct ec_pool_group *group = heap->groups[place - 1];
        uint32_t blocks;

        if (group == NULL || !ec_pool_group_is_empty(group))
            continue;
        blocks = group->blocks;
        remove_group(heap, group);
        ec_pool_known_remove(pool->known, group, pool->shape.group_bytes);
        ec_pool_group_destroy(&pool->shape, group);
        atomic_fetch_sub_explicit(&pool->row->capacity_bytes,
                                  (uint64_t)blocks * pool->shape.block_bytes, memory_order_relaxed);
        atomic_fetch_add_explicit(&pool->blocks_left, blocks, memory_order_relaxed);
        bytes += pool->shape.group_bytes;
        count--;
    }
    return bytes;
}

/* Tell pool and tag what has become of the balance since the last time. */
static void push_balance(struct ec_pool_heap *heap)
{
    struct ec_pool *pool = heap->pool;
    const uint64_t allocs = atomic_load_explicit(&heap->own->allocs, memory_order_relaxed);
    const uint64_t frees = atomic_load_explicit(&heap->own->frees, memory_order_relaxed);
    const uint32_t block_bytes = pool->shape.block_bytes;
    const int64_t difference = ec_memory_push(
        is_listed(pool) ? &pool->pushed[heap->account.slot] : &heap->pushed_private, allocs, frees);

    ec_memory_raise(&pool->live, &pool->row->peak_bytes, difference, block_bytes);
    if (pool->sink == NULL || pool->tag == EC_TAG_NONE)
        return;
    ec_memory_sink_push_bytes(pool->sink, pool->tag, difference * (int64_t)block_bytes);
    if (!is_listed(pool))
        count_for_tag(heap, allocs, frees);
}

/* A pool without a row in the sink counts for its tag itself, though only now and then. */
static void count_for_tag(struct ec_pool_heap *heap, uint64_t allocs, uint64_t frees)
{
    const struct ec_memory_account *account = &heap->account;
    const uint64_t in = allocs - heap->told_allocs, out = frees - heap->told_frees;
    const uint64_t block_bytes = heap->pool->shape.block_bytes;

    ec_count(&account->tag->allocs, in, account->shared);
    ec_count(&account->tag->bytes_in, in * block_bytes, account->shared);
    ec_count(&account->tag->frees, out, account->shared);
    ec_count(&account->tag->bytes_out, out * block_bytes, account->shared);
    heap->told_allocs = allocs;
    heap->told_frees = frees;
}

static bool is_listed(const struct ec_pool *pool)
{
    return pool->row != &pool->row_private;
}

static void set_count(struct ec_pool_heap *heap, uint64_t count)
{
    heap->level = 0;
    heap->level = count - ec_pool_heap_count(heap);
}
