/* Tags, arenas and pools of a client: they count in its segment, where the daemon reads them. */
#include <engine-core/memory.h>

#include <stdlib.h>

#include "client/client.h"
#include "foundation/memory/aligned.h"
#include "foundation/memory/arena.h"
#include "foundation/memory/debug.h"
#include "foundation/memory/frame_arena.h"
#include "foundation/memory/frame_list.h"
#include "foundation/memory/heap.h"
#include "foundation/memory/object_pool.h"
#include "foundation/memory/pool.h"
#include "foundation/memory/pool_threads.h"
#include "foundation/memory/sink.h"
#include "foundation/memory/slab.h"
#include "foundation/memory/stack.h"
#include "proto/memory_rows.h"

#define POOLS_AGE_NS 100000000 /* how often a frame mark looks for empty groups */

static struct ec_memory_sink *sink_of(const struct ec_client *client)
{
    return client != NULL ? client->memory : NULL;
}

static uint32_t thread_slot(void *client)
{
    return ec_client_thread_slot(client);
}

static int make_space(struct ec_client *client, struct ec_error *why);

int ec_client_memory_create(struct ec_client *client, struct ec_error *why)
{
    struct ec_client_segment *own = ec_client_own(client);
    struct ec_memory_sink *sink = calloc(1, sizeof *sink);
    int rc;

    if (sink == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "memory counters: no memory");
    sink->tags = own->tags;
    sink->allocators = own->allocators;
    sink->threads = own->threads;
    sink->threads_high = &own->threads_high;
    sink->requested = own->requested;
    sink->thread_slot = thread_slot;
    sink->context = client;
    rc = ec_memory_sink_init(sink, why);
    if (rc < 0) {
        free(sink);
        return ec_error_prefix(why, rc, "memory counters");
    }
    client->memory = sink;
    ec_client_tracking_begin(client);
    return make_space(client, why);
}

/* What lies behind the struct in the client segment is for blocks. */
static int make_space(struct ec_client *client, struct ec_error *why)
{
    const size_t own_bytes = sizeof(struct ec_client_segment);
    struct ec_space *space;
    int rc;

    if (client->own.bytes < own_bytes + EC_SPACE_UNIT_BYTES)
        return EC_OK;
    space = calloc(1, sizeof *space);
    if (space == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "room for blocks: no memory");
    rc = ec_space_init(space, (char *)client->own.base + own_bytes, client->own.bytes - own_bytes,
                       why);
    if (rc < 0) {
        free(space);
        return ec_error_prefix(why, rc, "room for blocks");
    }
    client->memory->space = space;
    return EC_OK;
}

void ec_client_memory_destroy(struct ec_client *client)
{
    if (client->memory == NULL)
        return;
    ec_client_tracking_finish(client);
    if (client->memory->space != NULL)
        ec_space_finish(client->memory->space);
    free(client->memory->space);
    ec_memory_sink_finish(client->memory);
    free(client->memory);
    client->memory = NULL;
}

void ec_client_memory_thread_ends(struct ec_client *client)
{
    if (client->memory != NULL)
        ec_pool_threads_leave(client->memory);
}

void ec_client_memory_frame_begins(struct ec_client *client)
{
    const int64_t now_ns = ec_real_ns();

    if (client->memory == NULL)
        return;
    ec_client_tracking_look(client);
    ec_frame_list_begin(client->memory);
    if (now_ns - client->pools_aged_ns < POOLS_AGE_NS)
        return;
    client->pools_aged_ns = now_ns;
    ec_pool_age_all(client->memory);
}

void ec_client_memory_frame_ends(struct ec_client *client)
{
    if (client->memory != NULL)
        ec_frame_list_end(client->memory);
}

int ec_tag_register(struct ec_client *client, const char *name, uint64_t budget_bytes,
                    uint32_t *tag, struct ec_error *why)
{
    if (client == NULL)
        return ec_fail(why, EC_ERR_PARAM, "register a tag: client is NULL");
    return ec_memory_sink_tag(client->memory, name, budget_bytes, tag, why);
}

int ec_tag_stats(struct ec_client *client, uint32_t tag, struct ec_tag_stats *stats)
{
    const struct ec_client_segment *own;
    struct ec_tag_sums sums;

    *stats = (struct ec_tag_stats) { 0 };
    if (client == NULL || tag >= EC_TAGS_MAX)
        return EC_ERR_PARAM;
    own = ec_client_own(client);
    if (own->tags[tag].name[0] == '\0')
        return EC_ERR_PARAM;
    sums = ec_tag_sum(own->tags, own->allocators, own->threads,
                      atomic_load_explicit(&own->threads_high, memory_order_relaxed), tag);
    *stats = (struct ec_tag_stats) {
        .current_bytes = sums.bytes,
        .peak_bytes = sums.peak_bytes,
        .budget_bytes = sums.budget_bytes,
        .count = sums.count,
        .total = sums.total,
    };
    return EC_OK;
}

int ec_arena_create(const struct ec_arena_desc *desc, struct ec_arena **arena, struct ec_error *why)
{
    return ec_arena_create_in(sink_of(desc->client), desc, arena, why);
}

int ec_pool_create(const struct ec_pool_desc *desc, struct ec_pool **pool, struct ec_error *why)
{
    return ec_pool_create_in(sink_of(desc->client), desc, pool, why);
}

int ec_stack_create(const struct ec_stack_desc *desc, struct ec_stack **stack, struct ec_error *why)
{
    return ec_stack_create_in(sink_of(desc->client), desc, stack, why);
}

int ec_aligned_create(const struct ec_aligned_desc *desc, struct ec_aligned **aligned,
                      struct ec_error *why)
{
    return ec_aligned_create_in(sink_of(desc->client), desc, aligned, why);
}

int ec_slab_create(const struct ec_slab_desc *desc, struct ec_slab **slab, struct ec_error *why)
{
    return ec_slab_create_in(sink_of(desc->client), desc, slab, why);
}

int ec_heap_create(const struct ec_heap_desc *desc, struct ec_heap **heap, struct ec_error *why)
{
    return ec_heap_create_in(sink_of(desc->client), desc, heap, why);
}

int ec_frame_arena_create(const struct ec_frame_arena_desc *desc, struct ec_frame_arena **frame,
                          struct ec_error *why)
{
    return ec_frame_arena_create_in(sink_of(desc->client), desc, frame, why);
}

int ec_object_pool_create(const struct ec_object_pool_desc *desc, struct ec_object_pool **pool,
                          struct ec_error *why)
{
    return ec_object_pool_create_in(sink_of(desc->client), desc, pool, why);
}

int ec_debug_create(const struct ec_debug_desc *desc, struct ec_debug **debug, struct ec_error *why)
{
    return ec_debug_create_in(sink_of(desc->client), desc, debug, why);
}
