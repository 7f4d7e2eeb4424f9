/* Arena: a chain of chunks and a position.
 *
 *   chunks --> [ used | used ] --> [ used | free     ] --> [ free ]
 *                                         ^ position       (kept by an earlier reset)
 *                                            ^ step_end
 *
 * The fast path has one bound, step_end: the end of the chunk, or the place where the next step of
 * EC_TAG_PEAK_STEP bytes ends. Whoever hits it goes the slow way, which pushes the tag's balance.
 *
 * The row has current_bytes and count exactly after each allocation, and needs no more than these two
 * stores: an arena has one user at a time, so no other counter is touched. Its peak_bytes is brought
 * up when the arena is about to give something back; until then the reader takes what is current. Its
 * largest_free_bytes is brought up at each step. */
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
    uintptr_t zero;               /* current bytes are position - zero, in whichever chunk */
    struct ec_allocator_row *row; /* in the sink, or row_private */

    struct chunk *chunk; /* position lies in it */
    struct chunk *chunks;
    struct fallback *fallbacks; /* newest first */
    size_t capacity_bytes;
    size_t growth_bytes;
    size_t limit_bytes;
    bool heap_fallback;
    uint32_t tag;
    struct ec_memory_sink *sink;
    uint64_t pushed_bytes;       /* as far as the tag's peak knows */
    struct ec_tag_counters told; /* as far as the tag's counters know */
    struct ec_allocator_row row_private;

    uint64_t marker_serial; /* of the last marker */
    uint32_t depth;         /* open markers */
    struct scope scopes[SCOPES_MAX];
};

static int check_desc(const struct ec_arena_desc *desc, struct ec_error *why);
static void *alloc_slowly(struct ec_arena *arena, size_t bytes, size_t align);
static void *take(struct ec_arena *arena, size_t padding, size_t bytes);
static uint64_t current_bytes(const struct ec_arena *arena);
static void *take_fallback(struct ec_arena *arena, size_t bytes, size_t align);
static bool is_listed(const struct ec_arena *arena);
static void tell_tag(struct ec_arena *arena);
static bool next_chunk(struct ec_arena *arena, size_t bytes, size_t align);
static struct chunk *add_chunk(struct ec_arena *arena, size_t bytes);
static void enter_chunk(struct ec_arena *arena, struct chunk *chunk, char *position,
                        uint64_t bytes);
static void begin_step(struct ec_arena *arena);
static void push_balance(struct ec_arena *arena);
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
    made->tag = desc->tag;
    made->growth_bytes = desc->growth_bytes;
    made->limit_bytes = desc->limit_bytes != 0 ? desc->limit_bytes : SIZE_MAX;
    made->heap_fallback = desc->heap_fallback;
    made->row = &made->row_private;
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
    enter_chunk(made, made->chunks, made->chunks->data, 0);
    *arena = made;
    return EC_OK;
}

void ec_arena_destroy(struct ec_arena *arena)
{
    struct chunk *chunk, *next;

    if (arena == NULL)
        return;
    ec_arena_reset(arena);
    if (arena->sink != NULL)
        tell_tag(arena); /* what the row had counted, from now on the tag itself has */
    if (is_listed(arena))
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

    if (__builtin_expect(padding > left ||
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
        .bytes = current_bytes(arena),
        .count = get(&arena->row->count),
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
        .total = get(&row->returned) + get(&row->count),
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
    struct ec_allocator_row *row = arena->row;
    char *const start = arena->position + padding;

    arena->position = start + bytes;
    set(&row->current_bytes, current_bytes(arena));
    ec_count(&row->count, 1, false);
    ASAN_UNPOISON_MEMORY_REGION(start, bytes);
    return start;
}

static inline uint64_t current_bytes(const struct ec_arena *arena)
{
    return (uintptr_t)arena->position - arena->zero;
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
    arena->zero -= bytes;
    set(&arena->row->current_bytes, current_bytes(arena));
    ec_count(&arena->row->count, 1, false);
    ec_count(&arena->row->fallbacks, 1, false);
    return block;
}

static bool is_listed(const struct ec_arena *arena)
{
    return arena->row != &arena->row_private;
}

/* Count for the tag, on the calling thread, what was not yet counted for it there. */
static void tell_tag(struct ec_arena *arena)
{
    const struct ec_memory_account account = ec_memory_sink_account(arena->sink, arena->tag);
    const uint64_t frees = get(&arena->row->returned);
    const uint64_t bytes_out = get(&arena->row->returned_bytes);
    const struct {
        _Atomic uint64_t *tag, *told;
        uint64_t now;
    } counters[] = {
        { &account.tag->allocs, &arena->told.allocs, frees + get(&arena->row->count) },
        { &account.tag->frees, &arena->told.frees, frees },
        { &account.tag->bytes_in, &arena->told.bytes_in, bytes_out + current_bytes(arena) },
        { &account.tag->bytes_out, &arena->told.bytes_out, bytes_out },
    };

    for (size_t i = 0; i < sizeof counters / sizeof counters[0]; i++) {
        ec_count(counters[i].tag, counters[i].now - get(counters[i].told), account.shared);
        set(counters[i].told, counters[i].now);
    }
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
    enter_chunk(arena, chunk, chunk->data, current_bytes(arena));
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

/* Go on at this position, with so many bytes in use. */
static void enter_chunk(struct ec_arena *arena, struct chunk *chunk, char *position, uint64_t bytes)
{
    arena->chunk = chunk;
    arena->position = position;
    arena->zero = (uintptr_t)position - bytes;
    begin_step(arena);
}

static void begin_step(struct ec_arena *arena)
{
    const size_t left = (size_t)(arena->chunk->end - arena->position);

    arena->step_end = arena->position + (left < EC_TAG_PEAK_STEP ? left : EC_TAG_PEAK_STEP);
    set(&arena->row->largest_free_bytes, largest_free(arena));
    push_balance(arena);
}

static void push_balance(struct ec_arena *arena)
{
    const uint64_t bytes = current_bytes(arena);

    if (arena->sink == NULL)
        return;
    ec_memory_sink_push_bytes(arena->sink, arena->tag, (int64_t)(bytes - arena->pushed_bytes));
    arena->pushed_bytes = bytes;
    if (!is_listed(arena))
        tell_tag(arena);
}

/* Go back to an earlier place. */
static void give_back(struct ec_arena *arena, const struct scope *to)
{
    struct ec_allocator_row *row = arena->row;
    const uint64_t bytes = current_bytes(arena);

    if (get(&row->peak_bytes) < bytes)
        set(&row->peak_bytes, bytes);
    push_balance(arena); /* before the fall, or the tag's peak is lost */
    ec_count(&row->returned, get(&row->count) - to->count, false);
    ec_count(&row->returned_bytes, bytes - to->bytes, false);
    set(&row->count, to->count);
    set(&row->current_bytes, to->bytes);
    free_fallbacks(arena, to->fallbacks);
    forget(arena, to);
    enter_chunk(arena, to->chunk, to->position, to->bytes);
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
