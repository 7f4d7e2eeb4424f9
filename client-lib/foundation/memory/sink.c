/* Rows and names of a sink, and the peaks. */
#include "foundation/memory/sink.h"

#include <string.h>

#include "foundation/memory/pool.h"
#include "foundation/memory/pool_heap.h"
#include "foundation/memory/watch.h"
#include "proto/memory_rows.h"

static const char *const fixed_tags[EC_TAG_USER_FIRST] = {
    [EC_TAG_GENERAL] = "general", [EC_TAG_RENDERING] = "rendering", [EC_TAG_PHYSICS] = "physics",
    [EC_TAG_AUDIO] = "audio",     [EC_TAG_ANIMATION] = "animation", [EC_TAG_AI] = "ai",
    [EC_TAG_NETWORK] = "network", [EC_TAG_ASSETS] = "assets",       [EC_TAG_SCRIPTS] = "scripts",
    [EC_TAG_UI] = "ui",           [EC_TAG_TEMPORARY] = "temporary",
};

static int check_text(const char *name, size_t room, struct ec_error *why);
static void tell_pools(struct ec_memory_sink *sink);
static int find_tag(struct ec_memory_sink *sink, const char *name);
static void clear_thread_counts(struct ec_memory_sink *sink, uint32_t index);

int ec_memory_sink_init(struct ec_memory_sink *sink, struct ec_error *why)
{
    int rc = pthread_mutex_init(&sink->lock, NULL);

    if (rc != 0)
        return ec_fail(why, EC_ERR_SYSTEM, "make a lock: %s", strerror(rc));
    rc = pthread_mutex_init(&sink->frame_lock, NULL);
    if (rc != 0) {
        pthread_mutex_destroy(&sink->lock);
        return ec_fail(why, EC_ERR_SYSTEM, "make a lock: %s", strerror(rc));
    }
    for (uint32_t tag = 0; tag < EC_TAG_USER_FIRST; tag++)
        if (fixed_tags[tag] != NULL)
            strcpy(sink->tags[tag].name, fixed_tags[tag]);
    return EC_OK;
}

/* Release: pairs with the acquire of who finds a watch. A pool that does not see its flag at once tells of its
 * next blocks a little later. */
void ec_memory_watch_set(struct ec_memory_sink *sink, const struct ec_memory_watch *watch)
{
    pthread_mutex_lock(&sink->lock);
    atomic_store_explicit(&sink->watch, watch, memory_order_release);
    tell_pools(sink);
    pthread_mutex_unlock(&sink->lock);
}

int ec_memory_checks_set(struct ec_memory_sink *sink, bool on)
{
    int rc = EC_OK;

    pthread_mutex_lock(&sink->lock);
    if (on && sink->checks == 0 && sink->checks_last == UINT8_MAX) {
        rc = EC_ERR_LIMIT;
    } else if (on != (sink->checks != 0)) {
        sink->checks = on ? ++sink->checks_last : 0;
        tell_pools(sink);
    }
    pthread_mutex_unlock(&sink->lock);
    return rc;
}

static void tell_pools(struct ec_memory_sink *sink)
{
    for (struct ec_pool *pool = sink->pools; pool != NULL; pool = pool->next)
        ec_pool_follow_sink(pool);
}

void ec_memory_sink_finish(struct ec_memory_sink *sink)
{
    pthread_mutex_destroy(&sink->frame_lock);
    pthread_mutex_destroy(&sink->lock);
}

int ec_memory_sink_tag(struct ec_memory_sink *sink, const char *name, uint64_t budget_bytes,
                       uint32_t *tag, struct ec_error *why)
{
    int rc = check_text(name, EC_TAG_NAME_BYTES, why);
    int found;

    if (rc < 0)
        return rc;
    pthread_mutex_lock(&sink->lock);
    found = find_tag(sink, name);
    if (found >= 0) {
        struct ec_tag_row *row = &sink->tags[found];

        if (row->name[0] == '\0') {
            memcpy(row->name + 1, name + 1,
                   strlen(name)); /* a reader sees no name or a whole one */
            atomic_thread_fence(memory_order_release);
            row->name[0] = name[0];
        }
        if (budget_bytes != 0)
            atomic_store_explicit(&row->budget_bytes, budget_bytes, memory_order_relaxed);
        *tag = (uint32_t)found;
    } else {
        rc = ec_fail(why, EC_ERR_LIMIT, "tag \"%s\": %d names are registered already", name,
                     EC_TAGS_MAX - EC_TAG_USER_FIRST);
    }
    pthread_mutex_unlock(&sink->lock);
    return rc;
}

int ec_memory_check_name(const char *name, uint32_t tag, struct ec_error *why)
{
    if (tag >= EC_TAGS_MAX)
        return ec_fail(why, EC_ERR_PARAM, "tag is %u, expected 0..%d", tag, EC_TAGS_MAX - 1);
    return check_text(name, EC_ALLOCATOR_NAME_BYTES, why);
}

struct ec_allocator_row *ec_memory_sink_row_take(struct ec_memory_sink *sink, const char *name,
                                                 enum ec_allocator_kind kind, uint32_t tag,
                                                 uint64_t block_bytes)
{
    struct ec_allocator_row *row = NULL;

    pthread_mutex_lock(&sink->lock);
    for (uint32_t word = 0; row == NULL && word < EC_ALLOCATORS_MAX / 64; word++) {
        uint32_t index;

        if (~sink->rows_taken[word] == 0)
            continue;
        index = word * 64 + (uint32_t)__builtin_ctzll(~sink->rows_taken[word]);
        sink->rows_taken[word] |= 1ull << (index & 63);
        clear_thread_counts(sink, index);
        row = &sink->allocators[index];
        ec_memory_row_init(row, name, kind, tag, block_bytes);
    }
    pthread_mutex_unlock(&sink->lock);
    return row;
}

void ec_memory_sink_row_leave(struct ec_memory_sink *sink, struct ec_allocator_row *row)
{
    const uint32_t index = (uint32_t)(row - sink->allocators);

    pthread_mutex_lock(&sink->lock);
    atomic_store_explicit(&row->kind, EC_ALLOCATOR_NONE, memory_order_release);
    sink->rows_taken[index / 64] &= ~(1ull << (index & 63));
    pthread_mutex_unlock(&sink->lock);
}

bool ec_memory_row_is_listed(const struct ec_memory_sink *sink, const struct ec_allocator_row *row)
{
    return sink != NULL && row >= sink->allocators && row < sink->allocators + EC_ALLOCATORS_MAX;
}

int ec_memory_sink_space(struct ec_memory_sink *sink, bool in_segment, struct ec_space **space,
                         struct ec_error *why)
{
    *space = NULL;
    if (!in_segment)
        return EC_OK;
    if (sink == NULL || sink->space == NULL)
        return ec_fail(why, EC_ERR_STATE, "in_segment, but %s",
                       sink == NULL ? "there is no client"
                                    : "the client was made without segment_bytes");
    *space = sink->space;
    return EC_OK;
}

void ec_memory_row_stats(const struct ec_allocator_row *row, struct ec_memory_stats *stats)
{
    *stats = (struct ec_memory_stats) {
        .current_bytes = ec_row_load(&row->current_bytes),
        .peak_bytes = ec_row_load(&row->peak_bytes),
        .capacity_bytes = ec_row_load(&row->capacity_bytes),
        .count = ec_row_load(&row->count),
        .total = ec_row_load(&row->returned) + ec_row_load(&row->count),
        .failed = ec_row_load(&row->failed),
        .fallbacks = ec_row_load(&row->fallbacks),
        .largest_free_bytes = ec_row_load(&row->largest_free_bytes),
    };
    if (stats->peak_bytes < stats->current_bytes)
        stats->peak_bytes = stats->current_bytes;
}

void ec_memory_stats_add(struct ec_memory_stats *sum, const struct ec_memory_stats *one)
{
    sum->current_bytes += one->current_bytes;
    sum->peak_bytes += one->peak_bytes;
    sum->capacity_bytes += one->capacity_bytes;
    sum->count += one->count;
    sum->total += one->total;
    sum->failed += one->failed;
    sum->fallbacks += one->fallbacks;
    if (sum->largest_free_bytes < one->largest_free_bytes)
        sum->largest_free_bytes = one->largest_free_bytes;
}

const char *ec_allocator_kind_name(uint32_t kind)
{
    static const char *const words[] = {
        [EC_ALLOCATOR_NONE] = "none",
        [EC_ALLOCATOR_ARENA] = "arena",
        [EC_ALLOCATOR_STACK] = "stack",
        [EC_ALLOCATOR_POOL] = "pool",
        [EC_ALLOCATOR_SLAB] = "slab",
        [EC_ALLOCATOR_ALIGNED] = "aligned",
        [EC_ALLOCATOR_OBJECT_POOL] = "object_pool",
        [EC_ALLOCATOR_DEBUG] = "debug",
        [EC_ALLOCATOR_FRAME_ARENA] = "frame_arena",
        [EC_ALLOCATOR_HEAP] = "heap",
    };

    return kind < sizeof words / sizeof words[0] ? words[kind] : "unknown";
}

void ec_memory_row_init(struct ec_allocator_row *row, const char *name, enum ec_allocator_kind kind,
                        uint32_t tag, uint64_t block_bytes)
{
    _Atomic uint64_t *const counts[] = {
        &row->current_bytes,      &row->peak_bytes,     &row->capacity_bytes, &row->count,
        &row->returned,           &row->returned_bytes, &row->failed,         &row->fallbacks,
        &row->largest_free_bytes, &row->reusable_bytes,
    };

    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        atomic_store_explicit(counts[i], 0, memory_order_relaxed);
    atomic_store_explicit(&row->block_bytes, block_bytes, memory_order_relaxed);
    row->tag = tag;
    memset(row->name, 0, sizeof row->name);
    memcpy(row->name, name, strnlen(name, sizeof row->name - 1));
    /* The daemon loads kind with acquire and then finds the rest. */
    atomic_store_explicit(&row->kind, kind, memory_order_release);
}

struct ec_memory_account ec_memory_sink_account(struct ec_memory_sink *sink, uint32_t tag)
{
    const uint32_t slot = sink->thread_slot(sink->context);

    if (slot >= EC_THREADS_MAX - 1)
        return ec_memory_sink_account_shared(sink, tag);
    return (struct ec_memory_account) { .tag = &sink->threads[slot].tags[tag], .slot = slot };
}

struct ec_memory_account ec_memory_sink_account_shared(struct ec_memory_sink *sink, uint32_t tag)
{
    const uint32_t slot = EC_THREADS_MAX - 1;

    /* Nobody may own this row, so nobody may have told the reader to look at it. */
    atomic_store_explicit(sink->threads_high, EC_THREADS_MAX, memory_order_relaxed);
    return (struct ec_memory_account) {
        .tag = &sink->threads[slot].tags[tag],
        .slot = slot,
        .shared = true,
    };
}

void ec_memory_sink_count(struct ec_memory_sink *sink, uint32_t tag, uint64_t allocs,
                          uint64_t bytes_in, uint64_t frees, uint64_t bytes_out)
{
    const struct ec_memory_account account = ec_memory_sink_account(sink, tag);

    ec_count(&account.tag->allocs, allocs, account.shared);
    ec_count(&account.tag->bytes_in, bytes_in, account.shared);
    ec_count(&account.tag->frees, frees, account.shared);
    ec_count(&account.tag->bytes_out, bytes_out, account.shared);
    ec_memory_sink_push(sink, &account, tag);
}

void ec_memory_sink_push(struct ec_memory_sink *sink, const struct ec_memory_account *account,
                         uint32_t tag)
{
    const uint64_t in = atomic_load_explicit(&account->tag->bytes_in, memory_order_relaxed);
    const uint64_t out = atomic_load_explicit(&account->tag->bytes_out, memory_order_relaxed);

    ec_memory_sink_push_bytes(sink, tag,
                              ec_memory_push(&sink->pushed_bytes[account->slot][tag], in, out));
}

void ec_memory_sink_push_bytes(struct ec_memory_sink *sink, uint32_t tag, int64_t bytes)
{
    ec_memory_raise(&sink->live_bytes[tag], &sink->tags[tag].peak_bytes, bytes, 1);
}

/* The exchange makes it right also when several threads push the balance of the shared row. */
int64_t ec_memory_push(_Atomic int64_t *pushed, uint64_t in, uint64_t out)
{
    const int64_t balance = (int64_t)(in - out); /* negative where others' blocks are freed */

    return balance - atomic_exchange_explicit(pushed, balance, memory_order_relaxed);
}

void ec_memory_raise(_Atomic int64_t *live, _Atomic uint64_t *peak, int64_t difference,
                     uint64_t unit)
{
    const int64_t sum =
        atomic_fetch_add_explicit(live, difference, memory_order_relaxed) + difference;
    const uint64_t value = sum > 0 ? (uint64_t)sum * unit : 0;
    uint64_t highest = atomic_load_explicit(peak, memory_order_relaxed);

    while (value > highest &&
           !atomic_compare_exchange_weak_explicit(peak, &highest, value, memory_order_relaxed,
                                                  memory_order_relaxed))
        ;
}

/* 1..room-1 bytes, none of them a control character: it is shown on terminals. */
static int check_text(const char *name, size_t room, struct ec_error *why)
{
    const size_t bytes = name == NULL ? 0 : strnlen(name, room);

    if (bytes == 0 || bytes == room)
        return ec_fail(why, EC_ERR_PARAM, "name has %s, expected 1..%zu bytes",
                       bytes == 0 ? "0 bytes" : "too many bytes", room - 1);
    for (size_t i = 0; i < bytes; i++)
        if ((unsigned char)name[i] < 0x20 || name[i] == 0x7F)
            return ec_fail(why, EC_ERR_PARAM, "name has the control character 0x%02x at byte %zu",
                           (unsigned char)name[i], i);
    return EC_OK;
}

/* The tag with this name, else the first unused user tag, else -1. */
static int find_tag(struct ec_memory_sink *sink, const char *name)
{
    int unused = -1;

    for (int tag = 0; tag < EC_TAGS_MAX; tag++) {
        if (strcmp(sink->tags[tag].name, name) == 0)
            return tag;
        if (unused < 0 && tag >= EC_TAG_USER_FIRST && sink->tags[tag].name[0] == '\0')
            unused = tag;
    }
    return unused;
}

/* Nobody counts there: the last user of the row is gone, the next has not got it. Rows that no thread
 * ever had are zero and are left alone, so that their pages do not come into being. */
static void clear_thread_counts(struct ec_memory_sink *sink, uint32_t index)
{
    const uint32_t high = atomic_load_explicit(sink->threads_high, memory_order_relaxed);

    for (uint32_t slot = 0; slot < high; slot++) {
        struct ec_allocator_counters *counters = &sink->threads[slot].allocators[index];

        atomic_store_explicit(&counters->allocs, 0, memory_order_relaxed);
        atomic_store_explicit(&counters->frees, 0, memory_order_relaxed);
        if (sink->requested != NULL)
            atomic_store_explicit(&sink->requested[slot].bytes[index], 0, memory_order_relaxed);
    }
}
