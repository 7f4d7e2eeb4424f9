/* Tags, arenas and pools of a client: they count in its segment, where the daemon reads them. */
#include <engine-core/arena.h>
#include <engine-core/memory.h>
#include <engine-core/pool.h>

#include <stdlib.h>

#include "client/client.h"
#include "foundation/memory/arena.h"
#include "foundation/memory/pool.h"
#include "foundation/memory/pool_threads.h"
#include "foundation/memory/sink.h"
#include "proto/memory_rows.h"

static uint32_t thread_slot(void *client)
{
    return ec_client_thread_slot(client);
}

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
    sink->thread_slot = thread_slot;
    sink->context = client;
    rc = ec_memory_sink_init(sink, why);
    if (rc < 0) {
        free(sink);
        return ec_error_prefix(why, rc, "memory counters");
    }
    client->memory = sink;
    return EC_OK;
}

void ec_client_memory_destroy(struct ec_client *client)
{
    if (client->memory == NULL)
        return;
    ec_memory_sink_finish(client->memory);
    free(client->memory);
    client->memory = NULL;
}

void ec_client_memory_thread_ends(struct ec_client *client)
{
    if (client->memory != NULL)
        ec_pool_threads_leave(client->memory);
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
    return ec_arena_create_in(desc->client != NULL ? desc->client->memory : NULL, desc, arena, why);
}

int ec_pool_create(const struct ec_pool_desc *desc, struct ec_pool **pool, struct ec_error *why)
{
    return ec_pool_create_in(desc->client != NULL ? desc->client->memory : NULL, desc, pool, why);
}
