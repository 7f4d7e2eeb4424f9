/* Frame arena: one arena that goes from chain of chunks to chain of chunks.
 *
 *   chains: [ frame before | this frame ]                        usually
 *           [ guarded | guarded | frame before | this frame ]    with old frames guarded
 *
 * The arena's row counts the blocks of all chains; each chain that is not in use keeps what it holds of
 * that, so that it can be counted back when its turn comes. */
#include "foundation/memory/frame_arena.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "foundation/memory/arena.h"
#include "foundation/memory/checks.h"
#include "foundation/memory/frame_list.h"

#define CHAINS_MAX 4

struct ec_frame_arena {
    struct ec_arena arena; /* first: the public header casts */
    struct ec_arena_chunk *chains[CHAINS_MAX];
    struct ec_arena_place places[CHAINS_MAX]; /* bytes and count are the chain's own */
    unsigned chain_count;
    unsigned at;
    bool guarded;
    uint64_t number;
    struct ec_frame_link link;
};

static void next_frame(void *frame);
static struct ec_arena_place own_place(const struct ec_frame_arena *frame);
static void protect(const struct ec_frame_arena *frame, unsigned chain, int protection);

int ec_frame_arena_create_in(struct ec_memory_sink *sink, const struct ec_frame_arena_desc *desc,
                             struct ec_frame_arena **frame, struct ec_error *why)
{
    const struct ec_arena_desc arena = { .name = desc->name,
                                         .tag = desc->tag,
                                         .bytes = desc->bytes,
                                         .growth_bytes = desc->growth_bytes,
                                         .limit_bytes = desc->limit_bytes,
                                         .heap_fallback = desc->heap_fallback,
                                         .in_segment = desc->in_segment,
                                         .on_warning = desc->on_warning,
                                         .context = desc->context };
    const bool guarded = desc->guard_old_frames || ec_memory_guards_are_on();
    const struct ec_arena_kind kind = { .kind = EC_ALLOCATOR_FRAME_ARENA,
                                        .struct_bytes = sizeof(struct ec_frame_arena),
                                        .whole_pages = guarded };
    struct ec_frame_arena *made;
    struct ec_arena *base;
    int rc = ec_arena_create_kind(sink, &arena, &kind, &base, why);

    *frame = NULL;
    if (rc < 0)
        return rc;
    made = (struct ec_frame_arena *)(void *)base;
    made->guarded = guarded;
    made->chains[0] = base->chunks;
    for (made->chain_count = 1; made->chain_count < (guarded ? CHAINS_MAX : 2);
         made->chain_count++) {
        made->chains[made->chain_count] = ec_arena_add_chain(base, desc->bytes);
        if (made->chains[made->chain_count] == NULL) {
            ec_frame_arena_destroy(made);
            return ec_fail(why, EC_ERR_MEMORY,
                           "frame_arena \"%s\": no memory, or over limit_bytes (%zu), for %u x %zu "
                           "bytes",
                           desc->name, desc->limit_bytes, guarded ? CHAINS_MAX : 2, desc->bytes);
        }
    }
    made->link = (struct ec_frame_link) { .begins = next_frame, .context = made };
    ec_frame_list_add(sink, &made->link);
    *frame = made;
    return EC_OK;
}

void ec_frame_arena_destroy(struct ec_frame_arena *frame)
{
    if (frame == NULL)
        return;
    if (frame->link.begins != NULL)
        ec_frame_list_remove(frame->arena.sink, &frame->link);
    for (unsigned i = 0; i < frame->chain_count; i++) {
        struct ec_arena_place *place = &frame->places[i];

        protect(frame, i, PROT_READ | PROT_WRITE);
        if (i == frame->at)
            continue;
        ec_arena_free_fallbacks(place);
        ec_arena_free_chain(&frame->arena, frame->chains[i]);
    }
    ec_arena_destroy(&frame->arena);
}

/* The frame before the present one becomes too old and is counted back. Its chain is the next one to be
 * used, or is guarded first, and others come before it. */
void ec_frame_arena_next(struct ec_frame_arena *frame)
{
    const unsigned count = frame->chain_count;
    const unsigned next = (frame->at + 1) % count, old = (frame->at + count - 1) % count;
    struct ec_arena_place held = frame->places[old];

    frame->places[frame->at] = own_place(frame);
    frame->places[old] = (struct ec_arena_place) { 0 };
    if (old != next)
        held.chunk = NULL; /* nothing to overwrite */
    protect(frame, next, PROT_READ | PROT_WRITE);
    ec_arena_change_chain(&frame->arena, &held, frame->chains[next]);
    if (old != next)
        protect(frame, old, PROT_NONE);
    frame->at = next;
    frame->number++;
}

uint64_t ec_frame_arena_number(const struct ec_frame_arena *frame)
{
    return frame->number;
}

int ec_frame_arena_check(const struct ec_frame_arena *frame, const void *address)
{
    const uintptr_t wanted = (uintptr_t)address;
    const unsigned before = (frame->at + frame->chain_count - 1) % frame->chain_count;
    const struct ec_arena_place now = ec_arena_place_now(&frame->arena);

    if (ec_arena_chain_holds(frame->chains[frame->at], &now, address) ||
        (frame->number > 0 &&
         ec_arena_chain_holds(frame->chains[before], &frame->places[before], address)))
        return EC_OK;
    for (unsigned i = 0; i < frame->chain_count; i++)
        for (const struct ec_arena_chunk *chunk = frame->chains[i]; chunk != NULL;
             chunk = chunk->next)
            if (wanted >= (uintptr_t)chunk->data && wanted < (uintptr_t)chunk->end)
                return EC_ERR_STALE;
    return EC_ERR_PARAM;
}

void ec_frame_arena_stats(const struct ec_frame_arena *frame, struct ec_memory_stats *stats)
{
    ec_arena_stats(&frame->arena, stats);
}

static void next_frame(void *frame)
{
    ec_frame_arena_next(frame);
}

/* Where the chain in use is, with what it holds itself. */
static struct ec_arena_place own_place(const struct ec_frame_arena *frame)
{
    struct ec_arena_place place = ec_arena_place_now(&frame->arena);

    place.bytes -= frame->arena.begin.bytes;
    place.count -= frame->arena.begin.count;
    return place;
}

static void protect(const struct ec_frame_arena *frame, unsigned chain, int protection)
{
    if (!frame->guarded)
        return;
    for (const struct ec_arena_chunk *chunk = frame->chains[chain]; chunk != NULL;
         chunk = chunk->next)
        mprotect(chunk->data, (size_t)(chunk->end - chunk->data), protection);
}
