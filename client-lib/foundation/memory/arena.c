/* Arena: a chain of chunks and a position.
 *
 *   chunks --> [ used | used ] --> [ used | free     ] --> [ free ]
 *                                         ^ position       (kept by an earlier reset)
 *                                            ^ step_end
 *
 * The fast path has one bound, step_end: the end of the chunk, or the place where the next step of
 * EC_TAG_PEAK_STEP bytes ends. Whoever hits it goes the slow way, which pushes the tag's balance.
 *
 * The row's current_bytes, count and total are exact after each allocation. Its peak_bytes is
 * brought up when the arena is about to give something back; until then the reader takes what is
 * current. Its largest_free_bytes is brought up at each step. */
#include "foundation/memory/arena.h"

#include <stdlib.h>
#include <string.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_ASAN 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define ARENA_ASAN 1
#endif
#ifdef ARENA_ASAN
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(base, bytes) ((void)(base), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(base, bytes) ((void)(base), (void)(bytes))
#endif

#define ALIGN_DEFAULT 16
#define ALIGN_MAX ((size_t)2 << 20)
#define BYTES_MIN 64
#define BYTES_MAX ((size_t)1 << 40)
#define SCOPES_MAX 64
#define NOBODY UINT64_MAX /* a thread_serial that no thread has */
#define GIVEN_BACK                                                                                 \
    0xDD /* fill of the debug tier: an odd number, no valid pointer, a NaN-free float */

struct chunk {
    struct chunk *next;
    char *end;
    char data[]; /* aligned to 16, as malloc does */
};

/* In front of a block that came from the general heap. */
struct fallback {
    struct fallback *next;
    void *base; /* for free() */
};

/* An open marker: what a rewind restores. */
struct scope {
    uint64_t serial;
    struct chunk *chunk;
    char *position;
    uint64_t bytes;
    uint64_t count;
    struct fallback *fallbacks;
};

struct ec_arena {
    char *position;
    char *step_end;
    uint64_t thread_serial; /* who allocated last; its account is below */
    struct ec_memory_account account;
    struct ec_allocator_row *row; /* in the sink, or row_private */
    uint64_t bytes;               /* current */
    uint64_t count;
    uint64_t total;

    struct chunk *chunk; /* position lies in it */
    struct chunk *chunks;
    struct fallback *fallbacks; /* newest first */
    size_t capacity_bytes;
    size_t growth_bytes;
    size_t limit_bytes;
    bool heap_fallback;
    uint32_t tag;
    struct ec_memory_sink *sink;
    struct ec_tag_counters counters_private;
    struct ec_allocator_row row_private;

    uint64_t marker_serial; /* of the last marker */
    uint32_t depth;         /* open markers */
    struct scope scopes[SCOPES_MAX];
};

/* Which thread this is, never used again for another one. 0: not asked yet. Initial-exec, because a
 * call to find the variable would cost more than the allocation. */
static _Thread_local uint64_t this_thread __attribute__((tls_model("initial-exec")));
static _Atomic uint64_t threads_seen;

static int check_desc(const struct ec_arena_desc *desc, struct ec_error *why);
static void *alloc_slowly(struct ec_arena *arena, size_t bytes, size_t align);
static void *take(struct ec_arena *arena, size_t padding, size_t bytes);
static void count_in(struct ec_arena *arena, uint64_t bytes);
static void *take_fallback(struct ec_arena *arena, size_t bytes, size_t align);
static void bind_thread(struct ec_arena *arena);
static bool next_chunk(struct ec_arena *arena, size_t bytes, size_t align);
static struct chunk *add_chunk(struct ec_arena *arena, size_t bytes);
static void enter_chunk(struct ec_arena *arena, struct chunk *chunk, char *position);
static void begin_step(struct ec_arena *arena);
static void give_back(struct ec_arena *arena, const struct scope *to);
static void free_fallbacks(struct ec_arena *arena, const struct fallback *until);
static void forget(struct ec_arena *arena, const struct scope *to);
static size_t largest_free(const struct ec_arena *arena);

static inline void set(_Atomic uint64_t *value, uint64_t to)
{
    atomic_store_explicit(value, to, memory_order_relaxed); /* a count; orders nothing */
}

static inline uint64_t get(const _Atomic uint64_t *value)
{
    return atomic_load_explicit(value, memory_order_relaxed);
}

/* Bytes from the address to the next multiple of align, a power of two. */
static inline size_t padding_for(uintptr_t address, size_t align)
{
    return (size_t)(-address & (align - 1));
}

int ec_arena_create_in(struct ec_memory_sink *sink, const struct ec_arena_desc *desc,
                       struct ec_arena **arena, struct ec_error *why)
{
    struct ec_arena *made;
    int rc = check_desc(desc, why);

    *arena = NULL;
    if (rc < 0)
        return rc;
    made = calloc(1, sizeof *made);
    if (made == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "arena \"%s\": no memory", desc->name);
    made->sink = sink;
    made->thread_serial = NOBODY;
    made->tag = desc->tag;
    made->growth_bytes = desc->growth_bytes;
    made->limit_bytes = desc->limit_bytes != 0 ? desc->limit_bytes : SIZE_MAX;
    made->heap_fallback = desc->heap_fallback;
    made->row = &made->row_private;
    made->account.tag = &made->counters_private;
    made->chunks = add_chunk(made, desc->bytes);
    if (made->chunks == NULL) {
        free(made);
        return ec_fail(why, EC_ERR_MEMORY, "arena \"%s\": no memory for %zu bytes", desc->name,
                       desc->bytes);
    }
    if (sink != NULL)
        made->row = ec_memory_sink_row_take(sink, desc->name, EC_ALLOCATOR_ARENA, desc->tag, 0);
    if (made->row == NULL)
        made->row = &made->row_private;
    if (made->row == &made->row_private)
        ec_memory_row_init(made->row, desc->name, EC_ALLOCATOR_ARENA, desc->tag, 0);
    set(&made->row->capacity_bytes, made->capacity_bytes);
    enter_chunk(made, made->chunks, made->chunks->data);
    *arena = made;
    return EC_OK;
}

void ec_arena_destroy(struct ec_arena *arena)
{
    struct chunk *chunk, *next;

    if (arena == NULL)
        return;
    ec_arena_reset(arena);
    if (arena->row != &arena->row_private)
        ec_memory_sink_row_leave(arena->sink, arena->row);
    for (chunk = arena->chunks; chunk != NULL; chunk = next) {
        next = chunk->next;
        ASAN_UNPOISON_MEMORY_REGION(chunk->data, (size_t)(chunk->end - chunk->data));
        free(chunk);
    }
    free(arena);
}

/* One test for all that is unusual; what it was, the slow way finds out. */
void *ec_arena_alloc(struct ec_arena *arena, size_t bytes, size_t align)
{
    const size_t alignment = align != 0 ? align : ALIGN_DEFAULT;
    const size_t padding = padding_for((uintptr_t)arena->position, alignment);
    const size_t left = (size_t)(arena->step_end - arena->position);

    if (__builtin_expect(arena->thread_serial != this_thread || padding > left ||
                             bytes - 1 >= left - padding || /* 0 wraps to the largest */
                             (alignment & (alignment - 1)) != 0 || alignment > ALIGN_MAX,
                         0))
        return alloc_slowly(arena, bytes, alignment);
    return take(arena, padding, bytes);
}

void *ec_arena_alloc_array(struct ec_arena *arena, size_t count, size_t bytes, size_t align)
{
    size_t product;

    if (__builtin_mul_overflow(count, bytes, &product))
        product = 0; /* refused and counted like it */
    return ec_arena_alloc(arena, product, align);
}

int ec_arena_mark(struct ec_arena *arena, struct ec_arena_marker *marker)
{
    *marker = (struct ec_arena_marker) { 0 };
    if (arena->depth == SCOPES_MAX)
        return EC_ERR_LIMIT;
    arena->scopes[arena->depth] = (struct scope) {
        .serial = ++arena->marker_serial,
        .chunk = arena->chunk,
        .position = arena->position,
        .bytes = arena->bytes,
        .count = arena->count,
        .fallbacks = arena->fallbacks,
    };
    *marker = (struct ec_arena_marker) { .serial = arena->marker_serial, .depth = arena->depth++ };
    return EC_OK;
}

int ec_arena_rewind(struct ec_arena *arena, const struct ec_arena_marker *marker)
{
    if (marker->depth >= arena->depth || arena->scopes[marker->depth].serial != marker->serial) {
        ec_count(&arena->row->failed, 1, false);
        return EC_ERR_STALE;
    }
    give_back(arena, &arena->scopes[marker->depth]);
    arena->depth = marker->depth;
    return EC_OK;
}

void ec_arena_reset(struct ec_arena *arena)
{
    give_back(arena, &(struct scope) { .chunk = arena->chunks, .position = arena->chunks->data });
    arena->depth = 0;
}

void ec_arena_stats(const struct ec_arena *arena, struct ec_memory_stats *stats)
{
    const struct ec_allocator_row *row = arena->row;

    *stats = (struct ec_memory_stats) {
        .current_bytes = get(&row->current_bytes),
        .peak_bytes = get(&row->peak_bytes),
        .capacity_bytes = get(&row->capacity_bytes),
        .count = get(&row->count),
        .total = get(&row->total),
        .failed = get(&row->failed),
        .fallbacks = get(&row->fallbacks),
        .largest_free_bytes = get(&row->largest_free_bytes),
    };
    if (stats->peak_bytes < stats->current_bytes)
        stats->peak_bytes = stats->current_bytes;
}

static int check_desc(const struct ec_arena_desc *desc, struct ec_error *why)
{
    const int rc = ec_memory_check_name(desc->name, desc->tag, why);

    if (rc < 0)
        return ec_error_prefix(why, rc, "arena");
    if (desc->bytes < BYTES_MIN || desc->bytes > BYTES_MAX)
        return ec_fail(why, EC_ERR_SIZE, "arena \"%s\": bytes is %zu, expected %d..%zu", desc->name,
                       desc->bytes, BYTES_MIN, BYTES_MAX);
    if (desc->growth_bytes > BYTES_MAX)
        return ec_fail(why, EC_ERR_SIZE, "arena \"%s\": growth_bytes is %zu, expected at most %zu",
                       desc->name, desc->growth_bytes, BYTES_MAX);
    if (desc->limit_bytes != 0 && desc->limit_bytes < desc->bytes)
        return ec_fail(why, EC_ERR_SIZE, "arena \"%s\": limit_bytes is %zu, less than bytes (%zu)",
                       desc->name, desc->limit_bytes, desc->bytes);
    return EC_OK;
}

/* Find out what stopped the fast path. noinline keeps the fast path free of saved registers. */
static __attribute__((noinline)) void *alloc_slowly(struct ec_arena *arena, size_t bytes,
                                                    size_t align)
{
    size_t padding, left;
    void *block;

    if (arena->thread_serial != this_thread)
        bind_thread(arena);
    if (bytes == 0 || bytes > BYTES_MAX || (align & (align - 1)) != 0 || align > ALIGN_MAX) {
        ec_count(&arena->row->failed, 1, false);
        return NULL;
    }
    padding = padding_for((uintptr_t)arena->position, align);
    left = (size_t)(arena->chunk->end - arena->position);
    if (padding > left || bytes > left - padding) {
        if (!next_chunk(arena, bytes, align))
            return take_fallback(arena, bytes, align);
        padding = padding_for((uintptr_t)arena->position, align);
    }
    block = take(arena, padding, bytes);
    begin_step(arena);
    return block;
}

/* padding + bytes fit into the chunk. */
static inline __attribute__((always_inline)) void *take(struct ec_arena *arena, size_t padding,
                                                        size_t bytes)
{
    char *const start = arena->position + padding;
    const uint64_t taken = padding + bytes;

    arena->position = start + bytes;
    ASAN_UNPOISON_MEMORY_REGION(start, bytes);
    count_in(arena, taken);
    return start;
}

static inline void count_in(struct ec_arena *arena, uint64_t bytes)
{
    set(&arena->row->current_bytes, arena->bytes += bytes);
    set(&arena->row->count, ++arena->count);
    set(&arena->row->total, ++arena->total);
    ec_count(&arena->account.tag->allocs, 1, arena->account.shared);
    ec_count(&arena->account.tag->bytes_in, bytes, arena->account.shared);
}

static void *take_fallback(struct ec_arena *arena, size_t bytes, size_t align)
{
    struct fallback *fallback;
    size_t room;
    char *base, *block;

    /* The bookkeeping lies in front of the block, within the room that alignment needs. */
    if (!arena->heap_fallback ||
        __builtin_add_overflow(bytes, sizeof *fallback + align - 1, &room) ||
        (base = malloc(room)) == NULL) {
        ec_count(&arena->row->failed, 1, false);
        return NULL;
    }
    block = base + sizeof *fallback;
    block += padding_for((uintptr_t)block, align);
    fallback = (struct fallback *)(void *)(block - sizeof *fallback);
    *fallback = (struct fallback) { .next = arena->fallbacks, .base = base };
    arena->fallbacks = fallback;
    ec_count(&arena->row->fallbacks, 1, false);
    count_in(arena, bytes);
    return block;
}

/* Count where the calling thread counts. */
static void bind_thread(struct ec_arena *arena)
{
    if (this_thread == 0)
        this_thread = atomic_fetch_add_explicit(&threads_seen, 1, memory_order_relaxed) + 1;
    if (arena->sink != NULL)
        arena->account = ec_memory_sink_account(arena->sink, arena->tag);
    arena->thread_serial = this_thread;
}

/* Enter a chunk that has room: the first kept one that is large enough, else a new one. Kept ones in
 * between are moved behind it, so that none is lost to later allocations. */
static bool next_chunk(struct ec_arena *arena, size_t bytes, size_t align)
{
    const size_t room = bytes + align - 1;
    struct chunk *const here = arena->chunk;
    struct chunk *before = here, *chunk = here->next;

    while (chunk != NULL && (size_t)(chunk->end - chunk->data) < room) {
        before = chunk;
        chunk = chunk->next;
    }
    if (chunk != NULL) {
        before->next = chunk->next;
    } else {
        if (arena->growth_bytes == 0)
            return false;
        chunk = add_chunk(arena, room > arena->growth_bytes ? room : arena->growth_bytes);
        if (chunk == NULL)
            return false;
        set(&arena->row->capacity_bytes, arena->capacity_bytes);
    }
    chunk->next = here->next;
    here->next = chunk;
    enter_chunk(arena, chunk, chunk->data);
    return true;
}

/* A new chunk, which is on no list yet; NULL when the limit or the system refuses. */
static struct chunk *add_chunk(struct ec_arena *arena, size_t bytes)
{
    struct chunk *chunk;

    if (bytes > arena->limit_bytes - arena->capacity_bytes)
        return NULL;
    chunk = malloc(sizeof *chunk + bytes);
    if (chunk == NULL)
        return NULL;
    chunk->next = NULL;
    chunk->end = chunk->data + bytes;
    arena->capacity_bytes += bytes;
    ASAN_POISON_MEMORY_REGION(chunk->data, bytes);
    return chunk;
}

static void enter_chunk(struct ec_arena *arena, struct chunk *chunk, char *position)
{
    arena->chunk = chunk;
    arena->position = position;
    begin_step(arena);
}

static void begin_step(struct ec_arena *arena)
{
    const size_t left = (size_t)(arena->chunk->end - arena->position);

    arena->step_end = arena->position + (left < EC_TAG_PEAK_STEP ? left : EC_TAG_PEAK_STEP);
    if (arena->sink != NULL && arena->thread_serial != NOBODY)
        ec_memory_sink_push(arena->sink, &arena->account, arena->tag);
    set(&arena->row->largest_free_bytes, largest_free(arena));
}

/* Go back to an earlier place. It may be another thread than the one that allocated: what is given
 * back is counted for the one that does it. */
static void give_back(struct ec_arena *arena, const struct scope *to)
{
    if (arena->thread_serial != this_thread)
        bind_thread(arena);
    if (get(&arena->row->peak_bytes) < arena->bytes)
        set(&arena->row->peak_bytes, arena->bytes);
    if (arena->sink != NULL) /* before the fall, or the peak is lost */
        ec_memory_sink_push(arena->sink, &arena->account, arena->tag);
    ec_count(&arena->account.tag->frees, arena->count - to->count, arena->account.shared);
    ec_count(&arena->account.tag->bytes_out, arena->bytes - to->bytes, arena->account.shared);
    set(&arena->row->count, arena->count = to->count);
    set(&arena->row->current_bytes, arena->bytes = to->bytes);
    free_fallbacks(arena, to->fallbacks);
    forget(arena, to);
    enter_chunk(arena, to->chunk, to->position);
}

static void free_fallbacks(struct ec_arena *arena, const struct fallback *until)
{
    while (arena->fallbacks != until) {
        struct fallback *fallback = arena->fallbacks;

        arena->fallbacks = fallback->next;
        free(fallback->base);
    }
}

/* Make the use of what was given back visible, where the tier or the sanitizer pays for it. */
static void forget(struct ec_arena *arena, const struct scope *to)
{
#if defined(EC_TIER_DEBUG) || defined(ARENA_ASAN)
    char *from = to->position;

    for (struct chunk *chunk = to->chunk;; chunk = chunk->next, from = chunk->data) {
        char *const end = chunk == arena->chunk ? arena->position : chunk->end;

        ASAN_UNPOISON_MEMORY_REGION(from, (size_t)(end - from));
        memset(from, GIVEN_BACK, (size_t)(end - from));
        ASAN_POISON_MEMORY_REGION(from, (size_t)(chunk->end - from));
        if (chunk == arena->chunk)
            break;
    }
#else
    (void)arena;
    (void)to;
#endif
}

/* In this chunk or the next. Further ones are no larger, as a rule, and would have to be walked. */
static size_t largest_free(const struct ec_arena *arena)
{
    const struct chunk *next = arena->chunk->next;
    const size_t left = (size_t)(arena->chunk->end - arena->position);
    const size_t kept = next != NULL ? (size_t)(next->end - next->data) : 0;

    return left > kept ? left : kept;
}
