/* foundation/memory/arena.h - the inside of arenas, for those that are built on one.
 *
 * The rest is <engine-core/arena.h>. A stack (stack.h) takes blocks back one by one, a frame arena
 * (frame_arena.h) changes between several chains of chunks; both count in the arena's row. */
#ifndef EC_FOUNDATION_MEMORY_ARENA_H
#define EC_FOUNDATION_MEMORY_ARENA_H

#include <engine-core/arena.h>

#include "foundation/memory/sink.h"

#define EC_ARENA_SCOPES_MAX 64
#define EC_ARENA_SITES_MAX 64 /* that are warned of */

struct ec_arena_chunk {
    struct ec_arena_chunk *next;
    char *data;
    char *end;
    size_t mapped_bytes; /* of whole pages; 0: it came from malloc */
};

struct ec_arena_fallback;

/* What a rewind or a change of chains goes back to. */
struct ec_arena_place {
    struct ec_arena_chunk *chunk;
    char *position;
    uint64_t bytes; /* current, of the whole arena */
    uint64_t count;
    struct ec_arena_fallback *fallbacks;
};

/* An open marker. */
struct ec_arena_scope {
    uint64_t serial;
    struct ec_arena_place place;
};

struct ec_arena {
    struct ec_arena_front front;
    struct ec_allocator_row *row; /* in the sink, or row_private */

    struct ec_arena_chunk *chunk; /* position lies in it */
    struct ec_arena_chunk *chunks;
    struct ec_arena_fallback *fallbacks; /* newest first */
    struct ec_arena_place begin;         /* where a reset goes back to */
    size_t capacity_bytes;
    size_t growth_bytes;
    size_t limit_bytes;
    bool heap_fallback;
    bool whole_pages; /* chunks are pages of their own */
    struct ec_space *space;
    uint32_t tag;
    struct ec_memory_sink *sink;
    uint64_t pushed_bytes;       /* as far as the tag's peak knows */
    struct ec_tag_counters told; /* as far as the tag's counters know */
    struct ec_allocator_row row_private;

    uint64_t marker_serial; /* of the last marker */
    uint32_t depth;         /* open markers */
    struct ec_arena_scope scopes[EC_ARENA_SCOPES_MAX];

    void (*on_warning)(void *context, const char *text);
    void *context;
    uint32_t site_count;
    const void *sites[EC_ARENA_SITES_MAX]; /* return addresses that fell back */
};

/* As ec_arena_create; desc->client is not looked at. sink may be NULL and outlives the arena. */
int ec_arena_create_in(struct ec_memory_sink *sink, const struct ec_arena_desc *desc,
                       struct ec_arena **arena, struct ec_error *why);

/* For what is built on an arena. */
struct ec_arena_kind {
    enum ec_allocator_kind kind; /* in errors and reports */
    size_t struct_bytes;         /* of the struct that begins with the arena; 0: the arena's own */
    bool whole_pages;            /* chunks are mapped pages, which may be protected */
};

int ec_arena_create_kind(struct ec_memory_sink *sink, const struct ec_arena_desc *desc,
                         const struct ec_arena_kind *kind, struct ec_arena **arena,
                         struct ec_error *why);

/* A further chain of one chunk, which is counted as capacity and not yet used; NULL: no memory, or over
 * the limit. ec_arena_free_chain frees one that the arena does not use. */
struct ec_arena_chunk *ec_arena_add_chain(struct ec_arena *arena, size_t bytes);
void ec_arena_free_chain(struct ec_arena *arena, struct ec_arena_chunk *chain);

/* Leave the chain in use as it is, give back `bytes` and `count` that another one (and its fallbacks) held,
 * and go on at its beginning. All markers become stale. */
void ec_arena_change_chain(struct ec_arena *arena, const struct ec_arena_place *held,
                           struct ec_arena_chunk *chain);

/* Where the arena is now. */
struct ec_arena_place ec_arena_place_now(const struct ec_arena *arena);

/* Give back what lies behind the position, which is in the chunk in use, and one block of the count. */
void ec_arena_pop(struct ec_arena *arena, char *position, uint64_t count);

/* Make the newest block larger or smaller where it is; 0 bytes give it back. false: it is not the newest, or
 * there is no room behind it. */
bool ec_arena_resize_newest(struct ec_arena *arena, void *block, size_t old_bytes, size_t bytes);

void ec_arena_free_fallbacks(struct ec_arena_place *place);

/* Whether the address lies in memory of the chain up to its position (the end of all earlier chunks). */
bool ec_arena_chain_holds(const struct ec_arena_chunk *chain, const struct ec_arena_place *place,
                          const void *address);

static inline uint64_t ec_arena_current_bytes(const struct ec_arena *arena)
{
    return (uint64_t)(arena->front.position - arena->front.zero);
}

#endif
