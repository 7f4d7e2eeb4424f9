/* Arena: a chain of chunks and a position.
 *
 *   chunks --> [ used | used ] --> [ used | free     ] --> [ free ]
 *                                         ^ position       (kept by an earlier reset)
 *                                            ^ step_end
 *
 * The fast path is in the public header and has one bound, step_end: the end of the chunk, or the
 * place where the next step of EC_TAG_PEAK_STEP bytes ends. Whoever hits it goes the slow way, which
 * pushes the tag's balance.
 *
 * The row has current_bytes and count exactly after each allocation, and needs no more than these two
 * stores: an arena has one user at a time, so no other counter is touched. Its peak_bytes is brought
 * up when the arena is about to give something back; until then the reader takes what is current. Its
 * largest_free_bytes is brought up at each step. */
#include "foundation/memory/arena.h"

#include <assert.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "foundation/memory/watch.h"

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

#ifdef ARENA_ASAN
#define IN_LINE 0 /* each block has to be told to the sanitizer */
#else
#define IN_LINE 1
#endif

#define BYTES_MIN 64
#define GIVEN_BACK                                                                                 \
    0xDD /* fill of the debug tier: an odd number, no valid pointer, a NaN-free float */

/* In front of a block that came from the general heap. */
struct ec_arena_fallback {
    struct ec_arena_fallback *next;
    void *base; /* for free() */
};

static_assert(offsetof(struct ec_arena, front) == 0,
              "ec_arena_alloc takes the arena for its front");
static_assert(offsetof(struct ec_allocator_row, count) -
                      offsetof(struct ec_allocator_row, current_bytes) ==
                  EC_ARENA_ROW_COUNT * sizeof(uint64_t),
              "ec_arena_alloc counts in the row");

/* The functions that the header defines in line, for those who call them by name. */
extern inline void *ec_arena_alloc(struct ec_arena *arena, size_t bytes, size_t align);
extern inline void *ec_arena_alloc_array(struct ec_arena *arena, size_t count, size_t bytes,
                                         size_t align);

static int check_desc(const struct ec_arena_desc *desc, const char *kind, struct ec_error *why);
static void free_parts(struct ec_arena *arena);
static void *take(struct ec_arena *arena, size_t padding, size_t bytes);
static void *take_fallback(struct ec_arena *arena, size_t bytes, size_t align, const void *site);
static void warn_once(struct ec_arena *arena, size_t bytes, const void *site);
static bool is_listed(const struct ec_arena *arena);
static void tell_tag(struct ec_arena *arena);
static bool next_chunk(struct ec_arena *arena, size_t bytes, size_t align);
static struct ec_arena_chunk *add_chunk(struct ec_arena *arena, size_t bytes);
static void free_chunk(struct ec_arena *arena, struct ec_arena_chunk *chunk);
static void enter_chunk(struct ec_arena *arena, struct ec_arena_chunk *chunk, char *position,
                        uint64_t bytes);
static void begin_step(struct ec_arena *arena);
static void push_balance(struct ec_arena *arena);
static void count_back(struct ec_arena *arena, uint64_t bytes, uint64_t count);
static void give_back(struct ec_arena *arena, const struct ec_arena_place *to);
static void free_fallbacks(struct ec_arena_fallback **fallbacks,
                           const struct ec_arena_fallback *until);
static void forget(struct ec_arena_chunk *from, char *position, const struct ec_arena_chunk *last,
                   char *end);
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
    return ec_arena_create_kind(sink, desc, &(struct ec_arena_kind) { .kind = EC_ALLOCATOR_ARENA },
                                arena, why);
}

int ec_arena_create_kind(struct ec_memory_sink *sink, const struct ec_arena_desc *desc,
                         const struct ec_arena_kind *kind, struct ec_arena **arena,
                         struct ec_error *why)
{
    const char *const word = ec_allocator_kind_name(kind->kind);
    struct ec_arena *made;
    int rc = check_desc(desc, word, why);

    *arena = NULL;
    if (rc < 0)
        return rc;
    made = calloc(1, kind->struct_bytes != 0 ? kind->struct_bytes : sizeof *made);
    if (made == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "%s \"%s\": no memory", word, desc->name);
    made->sink = sink;
    made->tag = desc->tag;
    made->growth_bytes = desc->growth_bytes;
    made->limit_bytes = desc->limit_bytes != 0 ? desc->limit_bytes : SIZE_MAX;
    made->heap_fallback = desc->heap_fallback;
    made->whole_pages = kind->whole_pages || desc->in_segment;
    made->on_warning = desc->on_warning;
    made->context = desc->context;
    rc = ec_memory_sink_space(sink, desc->in_segment, &made->space, why);
    if (rc < 0) {
        free(made);
        return ec_error_prefix(why, rc, "%s \"%s\"", word, desc->name);
    }
    made->row = &made->row_private;
    made->chunks = add_chunk(made, desc->bytes);
    if (made->chunks == NULL) {
        free(made);
        return ec_fail(why, EC_ERR_MEMORY, "%s \"%s\": no memory for %zu bytes", word, desc->name,
                       desc->bytes);
    }
    if (sink != NULL)
        made->row = ec_memory_sink_row_take(sink, desc->name, kind->kind, desc->tag, 0);
    if (made->row == NULL)
        made->row = &made->row_private;
    if (made->row == &made->row_private)
        ec_memory_row_init(made->row, desc->name, kind->kind, desc->tag, 0);
    made->front.row = (uint64_t *)(void *)&made->row->current_bytes;
    set(&made->row->capacity_bytes, made->capacity_bytes);
    made->begin = (struct ec_arena_place) { .chunk = made->chunks, .position = made->chunks->data };
    enter_chunk(made, made->chunks, made->chunks->data, 0);
    *arena = made;
    return EC_OK;
}

void ec_arena_destroy(struct ec_arena *arena)
{
    if (arena == NULL)
        return;
    arena->begin.bytes = arena->begin.count = 0; /* what other chains hold goes, too */
    ec_arena_reset(arena);
    if (arena->sink != NULL)
        tell_tag(arena); /* what the row had counted, from now on the tag itself has */
    if (is_listed(arena))
        ec_memory_sink_row_leave(arena->sink, arena->row);
    free_parts(arena);
}

static void free_parts(struct ec_arena *arena)
{
    ec_arena_free_chain(arena, arena->chunks);
    free(arena);
}

/* Find out what stopped the fast path. */
void *ec_arena_alloc_slowly(struct ec_arena *arena, size_t bytes, size_t align)
{
    size_t padding, left;
    void *block;

    if (bytes == 0 || bytes > EC_ARENA_BYTES_MAX || (align & (align - 1)) != 0 ||
        align > EC_ARENA_ALIGN_MAX) {
        ec_count(&arena->row->failed, 1, false);
        return NULL;
    }
    padding = padding_for((uintptr_t)arena->front.position, align);
    left = (size_t)(arena->chunk->end - arena->front.position);
    if (padding > left || bytes > left - padding) {
        if (!next_chunk(arena, bytes, align))
            return take_fallback(arena, bytes, align, __builtin_return_address(0));
        padding = padding_for((uintptr_t)arena->front.position, align);
    }
    block = take(arena, padding, bytes);
    begin_step(arena);
    return block;
}

struct ec_arena_chunk *ec_arena_add_chain(struct ec_arena *arena, size_t bytes)
{
    struct ec_arena_chunk *chunk = add_chunk(arena, bytes);

    set(&arena->row->capacity_bytes, arena->capacity_bytes);
    return chunk;
}

void ec_arena_free_chain(struct ec_arena *arena, struct ec_arena_chunk *chain)
{
    while (chain != NULL) {
        struct ec_arena_chunk *next = chain->next;

        free_chunk(arena, chain);
        chain = next;
    }
}

void ec_arena_change_chain(struct ec_arena *arena, const struct ec_arena_place *held,
                           struct ec_arena_chunk *chain)
{
    struct ec_arena_fallback *fallbacks = held->fallbacks;

    push_balance(arena); /* before the fall, or the tag's peak is lost */
    count_back(arena, held->bytes, held->count);
    free_fallbacks(&fallbacks, NULL);
    if (held->chunk != NULL)
        forget(chain, chain->data, held->chunk, held->position);
    arena->chunks = chain;
    arena->fallbacks = NULL;
    arena->depth = 0;
    arena->begin = (struct ec_arena_place) { .chunk = chain,
                                             .position = chain->data,
                                             .bytes = get(&arena->row->current_bytes),
                                             .count = get(&arena->row->count) };
    enter_chunk(arena, chain, chain->data, arena->begin.bytes);
}

struct ec_arena_place ec_arena_place_now(const struct ec_arena *arena)
{
    return (struct ec_arena_place) {
        .chunk = arena->chunk,
        .position = arena->front.position,
        .bytes = ec_arena_current_bytes(arena),
        .count = get(&arena->row->count),
        .fallbacks = arena->fallbacks,
    };
}

void ec_arena_pop(struct ec_arena *arena, char *position, uint64_t count)
{
    char *const end = arena->front.position;

    assert(position <= end && position >= arena->chunk->data);
    count_back(arena, (uint64_t)(end - position), count);
    forget(arena->chunk, position, arena->chunk, end);
    arena->front.position = position;
    if (!IN_LINE)
        arena->front.step_end = position;
}

bool ec_arena_resize_newest(struct ec_arena *arena, void *block, size_t old_bytes, size_t bytes)
{
    char *const start = block;

    if (start < arena->chunk->data || start + old_bytes != arena->front.position)
        return false;
    if (arena->depth > 0 && start + bytes < arena->scopes[arena->depth - 1].place.position &&
        arena->scopes[arena->depth - 1].place.chunk == arena->chunk)
        return bytes == old_bytes; /* an open marker lies behind it */
    if (bytes <= old_bytes) {
        ec_arena_pop(arena, start + bytes, bytes == 0);
        return true;
    }
    if (bytes > (size_t)(arena->chunk->end - start))
        return false;
    ASAN_UNPOISON_MEMORY_REGION(start, bytes);
    arena->front.position = start + bytes;
    set(&arena->row->current_bytes, ec_arena_current_bytes(arena));
    begin_step(arena);
    return true;
}

void ec_arena_free_fallbacks(struct ec_arena_place *place)
{
    free_fallbacks(&place->fallbacks, NULL);
}

bool ec_arena_chain_holds(const struct ec_arena_chunk *chain, const struct ec_arena_place *place,
                          const void *address)
{
    const uintptr_t wanted = (uintptr_t)address;

    for (; chain != NULL; chain = chain->next) {
        const char *const end = chain == place->chunk ? place->position : chain->end;

        if (wanted >= (uintptr_t)chain->data && wanted < (uintptr_t)end)
            return true;
        if (chain == place->chunk)
            break;
    }
    return false;
}

int ec_arena_mark(struct ec_arena *arena, struct ec_arena_marker *marker)
{
    *marker = (struct ec_arena_marker) { 0 };
    if (arena->depth == EC_ARENA_SCOPES_MAX)
        return EC_ERR_LIMIT;
    arena->scopes[arena->depth] = (struct ec_arena_scope) { .serial = ++arena->marker_serial,
                                                            .place = ec_arena_place_now(arena) };
    *marker = (struct ec_arena_marker) { .serial = arena->marker_serial, .depth = arena->depth++ };
    return EC_OK;
}

int ec_arena_rewind(struct ec_arena *arena, const struct ec_arena_marker *marker)
{
    if (marker->depth >= arena->depth || arena->scopes[marker->depth].serial != marker->serial) {
        ec_count(&arena->row->failed, 1, false);
        return EC_ERR_STALE;
    }
    give_back(arena, &arena->scopes[marker->depth].place);
    arena->depth = marker->depth;
    return EC_OK;
}

void ec_arena_reset(struct ec_arena *arena)
{
    give_back(arena, &arena->begin);
    arena->depth = 0;
}

void ec_arena_stats(const struct ec_arena *arena, struct ec_memory_stats *stats)
{
    ec_memory_row_stats(arena->row, stats);
}

static int check_desc(const struct ec_arena_desc *desc, const char *kind, struct ec_error *why)
{
    const int rc = ec_memory_check_name(desc->name, desc->tag, why);

    if (rc < 0)
        return ec_error_prefix(why, rc, "%s", kind);
    if (desc->bytes < BYTES_MIN || desc->bytes > EC_ARENA_BYTES_MAX)
        return ec_fail(why, EC_ERR_SIZE, "%s \"%s\": bytes is %zu, expected %d..%zu", kind,
                       desc->name, desc->bytes, BYTES_MIN, EC_ARENA_BYTES_MAX);
    if (desc->growth_bytes > EC_ARENA_BYTES_MAX)
        return ec_fail(why, EC_ERR_SIZE, "%s \"%s\": growth_bytes is %zu, expected at most %zu",
                       kind, desc->name, desc->growth_bytes, EC_ARENA_BYTES_MAX);
    if (desc->limit_bytes != 0 && desc->limit_bytes < desc->bytes)
        return ec_fail(why, EC_ERR_SIZE, "%s \"%s\": limit_bytes is %zu, less than bytes (%zu)",
                       kind, desc->name, desc->limit_bytes, desc->bytes);
    return EC_OK;
}

/* padding + bytes fit into the chunk. */
static void *take(struct ec_arena *arena, size_t padding, size_t bytes)
{
    struct ec_allocator_row *row = arena->row;
    char *const start = arena->front.position + padding;

    arena->front.position = start + bytes;
    set(&row->current_bytes, ec_arena_current_bytes(arena));
    ec_count(&row->count, 1, false);
    ASAN_UNPOISON_MEMORY_REGION(start, bytes);
    return start;
}

static void *take_fallback(struct ec_arena *arena, size_t bytes, size_t align, const void *site)
{
    struct ec_arena_fallback *fallback;
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
    fallback = (struct ec_arena_fallback *)(void *)(block - sizeof *fallback);
    *fallback = (struct ec_arena_fallback) { .next = arena->fallbacks, .base = base };
    arena->fallbacks = fallback;
    arena->front.zero -= bytes;
    set(&arena->row->current_bytes, ec_arena_current_bytes(arena));
    ec_count(&arena->row->count, 1, false);
    ec_count(&arena->row->fallbacks, 1, false);
    warn_once(arena, bytes, site);
    return block;
}

/* The site is told as module and offset, which addr2line understands. */
static void warn_once(struct ec_arena *arena, size_t bytes, const void *site)
{
    char text[256];
    Dl_info module = { 0 };

    for (uint32_t i = 0; i < arena->site_count; i++)
        if (arena->sites[i] == site)
            return;
    if (arena->site_count == EC_ARENA_SITES_MAX)
        return;
    arena->sites[arena->site_count++] = site;
    if (dladdr(site, &module) == 0 || module.dli_fname == NULL)
        module = (Dl_info) { .dli_fname = "?" };
    snprintf(text, sizeof text,
             "%s \"%s\" is full (%zu bytes): %zu bytes for %s+%#tx came from the heap",
             ec_allocator_kind_name(arena->row->kind), arena->row->name, arena->capacity_bytes,
             bytes, module.dli_fname, (const char *)site - (const char *)module.dli_fbase);
    if (arena->on_warning != NULL)
        arena->on_warning(arena->context, text);
    else
        fprintf(stderr, "engine-core: %s\n", text);
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
        { &account.tag->bytes_in, &arena->told.bytes_in,
          bytes_out + ec_arena_current_bytes(arena) },
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
    struct ec_arena_chunk *const here = arena->chunk;
    struct ec_arena_chunk *before = here, *chunk = here->next;

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
    enter_chunk(arena, chunk, chunk->data, ec_arena_current_bytes(arena));
    return true;
}

/* A new chunk, which is on no list yet; NULL when the limit or the system refuses. In whole pages the
 * first one is the chunk's own, so that all others may be protected. */
static struct ec_arena_chunk *add_chunk(struct ec_arena *arena, size_t bytes)
{
    const size_t page = ec_space_page_bytes();
    struct ec_arena_chunk *chunk;

    if (bytes > arena->limit_bytes - arena->capacity_bytes)
        return NULL;
    if (arena->whole_pages)
        chunk = ec_space_map(arena->space, page + bytes, page);
    else
        chunk = malloc(sizeof *chunk + bytes);
    if (chunk == NULL)
        return NULL;
    *chunk = (struct ec_arena_chunk) { .data = (char *)(chunk + 1) };
    if (arena->whole_pages) {
        chunk->data = (char *)chunk + page;
        chunk->mapped_bytes = page + bytes;
    }
    chunk->end = chunk->data + bytes;
    arena->capacity_bytes += bytes;
    ec_watch_allocated(arena->sink, chunk->data, bytes, arena->tag);
    ASAN_POISON_MEMORY_REGION(chunk->data, bytes);
    return chunk;
}

static void free_chunk(struct ec_arena *arena, struct ec_arena_chunk *chunk)
{
    const size_t bytes = (size_t)(chunk->end - chunk->data);

    ec_watch_freed(arena->sink, chunk->data, bytes, arena->tag);
    ASAN_UNPOISON_MEMORY_REGION(chunk->data, bytes);
    if (chunk->mapped_bytes != 0)
        ec_space_unmap(arena->space, chunk, chunk->mapped_bytes);
    else
        free(chunk);
}

/* Go on at this position, with so many bytes in use. */
static void enter_chunk(struct ec_arena *arena, struct ec_arena_chunk *chunk, char *position,
                        uint64_t bytes)
{
    arena->chunk = chunk;
    arena->front.position = position;
    arena->front.zero = position - bytes;
    begin_step(arena);
}

static void begin_step(struct ec_arena *arena)
{
    char *const position = arena->front.position;
    const size_t left = (size_t)(arena->chunk->end - position);

    arena->front.step_end = position + (left < EC_TAG_PEAK_STEP ? left : EC_TAG_PEAK_STEP);
    if (!IN_LINE)
        arena->front.step_end = position;
    set(&arena->row->largest_free_bytes, largest_free(arena));
    push_balance(arena);
}

static void push_balance(struct ec_arena *arena)
{
    const uint64_t bytes = ec_arena_current_bytes(arena);

    if (arena->sink == NULL)
        return;
    ec_memory_sink_push_bytes(arena->sink, arena->tag, (int64_t)(bytes - arena->pushed_bytes));
    arena->pushed_bytes = bytes;
    if (!is_listed(arena))
        tell_tag(arena);
}

/* So much is given back, of all that is current. */
static void count_back(struct ec_arena *arena, uint64_t bytes, uint64_t count)
{
    struct ec_allocator_row *row = arena->row;
    const uint64_t current = ec_arena_current_bytes(arena);

    if (get(&row->peak_bytes) < current)
        set(&row->peak_bytes, current);
    ec_count(&row->returned, count, false);
    ec_count(&row->returned_bytes, bytes, false);
    set(&row->count, get(&row->count) - count);
    set(&row->current_bytes, current - bytes);
}

/* Go back to an earlier place of this chain. */
static void give_back(struct ec_arena *arena, const struct ec_arena_place *to)
{
    push_balance(arena); /* before the fall, or the tag's peak is lost */
    count_back(arena, ec_arena_current_bytes(arena) - to->bytes,
               get(&arena->row->count) - to->count);
    free_fallbacks(&arena->fallbacks, to->fallbacks);
    forget(to->chunk, to->position, arena->chunk, arena->front.position);
    enter_chunk(arena, to->chunk, to->position, to->bytes);
}

static void free_fallbacks(struct ec_arena_fallback **fallbacks,
                           const struct ec_arena_fallback *until)
{
    while (*fallbacks != until) {
        struct ec_arena_fallback *fallback = *fallbacks;

        *fallbacks = fallback->next;
        free(fallback->base);
    }
}

/* Make the use of what was given back visible, from this position to the end in the last chunk, where
 * the tier or the sanitizer pays for it. */
static void forget(struct ec_arena_chunk *from, char *position, const struct ec_arena_chunk *last,
                   char *end)
{
#if defined(EC_TIER_DEBUG) || defined(ARENA_ASAN)
    for (struct ec_arena_chunk *chunk = from;; chunk = chunk->next, position = chunk->data) {
        char *const used_end = chunk == last ? end : chunk->end;

        ASAN_UNPOISON_MEMORY_REGION(position, (size_t)(used_end - position));
        memset(position, GIVEN_BACK, (size_t)(used_end - position));
        ASAN_POISON_MEMORY_REGION(position, (size_t)(chunk->end - position));
        if (chunk == last)
            break;
    }
#else
    (void)from;
    (void)position;
    (void)last;
    (void)end;
#endif
}

/* In this chunk or the next. Further ones are no larger, as a rule, and would have to be walked. */
static size_t largest_free(const struct ec_arena *arena)
{
    const struct ec_arena_chunk *next = arena->chunk->next;
    const size_t left = (size_t)(arena->chunk->end - arena->front.position);
    const size_t kept = next != NULL ? (size_t)(next->end - next->data) : 0;

    return left > kept ? left : kept;
}
