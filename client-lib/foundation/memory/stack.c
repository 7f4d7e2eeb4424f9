/* Stack: an arena of one chunk whose blocks know what was before them.
 *
 *   | header | block | padding | header | block |  free …
 *      ^--------- below ----------'        ^ newest
 *
 * The header lies right in front of its block, so it is found from the block, and the padding that
 * alignment needs is in front of the header. */
#include "foundation/memory/stack.h"

#include <stdlib.h>

#include "foundation/memory/arena.h"

struct header {
    struct header *below; /* of the block that was the newest before */
    char *position;       /* of the arena, before this block */
    uint64_t serial;
    uint64_t unused; /* keeps blocks at 16 */
};

struct ec_stack {
    struct ec_arena *arena;
    struct header *newest;
    uint64_t serial; /* of the last block; never used again */
};

static bool is_live(const struct ec_stack *stack, const struct ec_stack_marker *marker);
static void pop(struct ec_stack *stack);

static void *block_of(struct header *header)
{
    return header + 1;
}

static void count_failed(struct ec_stack *stack)
{
    ec_count(&stack->arena->row->failed, 1, false);
}

int ec_stack_create_in(struct ec_memory_sink *sink, const struct ec_stack_desc *desc,
                       struct ec_stack **stack, struct ec_error *why)
{
    const struct ec_arena_desc arena = {
        .name = desc->name, .tag = desc->tag, .bytes = desc->bytes, .in_segment = desc->in_segment
    };
    struct ec_stack *made = calloc(1, sizeof *made);
    int rc;

    *stack = NULL;
    if (made == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "stack: no memory");
    rc = ec_arena_create_kind(sink, &arena, &(struct ec_arena_kind) { .kind = EC_ALLOCATOR_STACK },
                              &made->arena, why);
    if (rc < 0) {
        free(made);
        return rc;
    }
    *stack = made;
    return EC_OK;
}

void ec_stack_destroy(struct ec_stack *stack)
{
    if (stack == NULL)
        return;
    ec_arena_destroy(stack->arena);
    free(stack);
}

void *ec_stack_alloc(struct ec_stack *stack, size_t bytes, size_t align)
{
    const size_t alignment = align != 0 ? align : EC_ARENA_ALIGN_DEFAULT;
    char *const before = stack->arena->front.position;
    struct header *header;
    uintptr_t block;
    char *start;

    if (bytes == 0 || bytes > EC_ARENA_BYTES_MAX || (alignment & (alignment - 1)) != 0 ||
        alignment > EC_ARENA_ALIGN_MAX) {
        count_failed(stack);
        return NULL;
    }
    block = ((uintptr_t)before + sizeof *header + alignment - 1) & ~(alignment - 1);
    block = (block + EC_ARENA_ALIGN_DEFAULT - 1) & ~(uintptr_t)(EC_ARENA_ALIGN_DEFAULT - 1);
    start = ec_arena_alloc(stack->arena, block - (uintptr_t)before + bytes, 1);
    if (start == NULL)
        return NULL; /* counted by the arena */
    header = (struct header *)(void *)(start + (block - (uintptr_t)before) - sizeof *header);
    *header =
        (struct header) { .below = stack->newest, .position = before, .serial = ++stack->serial };
    stack->newest = header;
    return block_of(header);
}

int ec_stack_free(struct ec_stack *stack, void *block)
{
    if (block == NULL)
        return EC_OK;
    if (stack->newest == NULL || block != block_of(stack->newest)) {
        count_failed(stack);
        ec_memory_sink_fault(stack->arena->sink);
        return EC_ERR_STATE;
    }
    pop(stack);
    return EC_OK;
}

struct ec_stack_marker ec_stack_mark(const struct ec_stack *stack)
{
    if (stack->newest == NULL)
        return (struct ec_stack_marker) { 0 };
    return (struct ec_stack_marker) { .block = block_of(stack->newest),
                                      .serial = stack->newest->serial };
}

int ec_stack_rewind(struct ec_stack *stack, const struct ec_stack_marker *marker)
{
    if (!is_live(stack, marker)) {
        count_failed(stack);
        return EC_ERR_STALE;
    }
    while (stack->newest != NULL && block_of(stack->newest) != marker->block)
        pop(stack);
    return EC_OK;
}

void ec_stack_stats(const struct ec_stack *stack, struct ec_memory_stats *stats)
{
    ec_arena_stats(stack->arena, stats);
}

/* Serials grow upwards, so the search ends early. A block that is gone is not looked at. */
static bool is_live(const struct ec_stack *stack, const struct ec_stack_marker *marker)
{
    struct header *header = stack->newest;

    while (header != NULL && header->serial > marker->serial)
        header = header->below;
    if (header == NULL)
        return marker->block == NULL;
    return marker->block == block_of(header) && header->serial == marker->serial;
}

static void pop(struct ec_stack *stack)
{
    const struct header header = *stack->newest;

    ec_arena_pop(stack->arena, header.position, 1);
    stack->newest = header.below;
}
