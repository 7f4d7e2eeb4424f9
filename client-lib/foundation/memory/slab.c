/* Slab: a table from size to class, a pool for each class that was used, and one table of all groups.
 *
 *   bytes --classes--> number --pools--> pool          address --known--> number --pools--> pool
 */
#include "foundation/memory/slab.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "foundation/memory/pool.h"
#include "foundation/memory/pool_heap.h"
#include "foundation/memory/pool_known.h"

static const uint16_t class_bytes[EC_SLAB_CLASSES] = {
    16,  32,  48,  64,  80,  96,  112, 128,  160,  192,  224,  256,
    320, 384, 448, 512, 640, 768, 896, 1024, 1280, 1536, 1792, 2048,
};

static int create(struct ec_memory_sink *sink, const struct ec_slab_desc *desc, bool tagged,
                  struct ec_slab **slab, struct ec_error *why);
static struct ec_pool *make_pool(struct ec_slab *slab, unsigned class, struct ec_error *why);

int ec_slab_create_in(struct ec_memory_sink *sink, const struct ec_slab_desc *desc,
                      struct ec_slab **slab, struct ec_error *why)
{
    return create(sink, desc, false, slab, why);
}

int ec_slab_create_tagged(struct ec_memory_sink *sink, const struct ec_slab_desc *desc,
                          struct ec_slab **slab, struct ec_error *why)
{
    return create(sink, desc, true, slab, why);
}

/* The first class gets its pool at once: what is wrong with the description comes out here, and what no
 * pool was asked is counted there. */
static int create(struct ec_memory_sink *sink, const struct ec_slab_desc *desc, bool tagged,
                  struct ec_slab **slab, struct ec_error *why)
{
    struct ec_slab *made;
    int rc = ec_memory_check_name(desc->name, desc->tag, why);

    *slab = NULL;
    if (rc < 0)
        return ec_error_prefix(why, rc, "slab");
    if (strlen(desc->name) > EC_SLAB_NAME_BYTES)
        return ec_fail(why, EC_ERR_PARAM, "slab: name has %zu bytes, expected 1..%d",
                       strlen(desc->name), EC_SLAB_NAME_BYTES);
    made = calloc(1, sizeof *made);
    if (made == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "slab \"%s\": no memory", desc->name);
    made->sink = sink;
    made->desc = *desc;
    made->tagged = tagged;
    strcpy(made->name, desc->name);
    pthread_mutex_init(&made->lock, NULL);
    made->known = ec_pool_known_create();
    rc = made->known != NULL ? EC_OK : ec_fail(why, EC_ERR_MEMORY, "no memory");
    if (rc == EC_OK && make_pool(made, 0, why) == NULL)
        rc = why != NULL ? why->code : EC_ERR_MEMORY;
    if (rc < 0) {
        ec_slab_destroy(made);
        return ec_error_prefix(why, rc, "slab \"%s\"", desc->name);
    }
    *slab = made;
    return EC_OK;
}

void ec_slab_destroy(struct ec_slab *slab)
{
    if (slab == NULL)
        return;
    for (unsigned i = 0; i < EC_SLAB_CLASSES; i++)
        ec_pool_destroy(atomic_load_explicit(&slab->pools[i], memory_order_relaxed));
    ec_pool_known_destroy(slab->known);
    pthread_mutex_destroy(&slab->lock);
    free(slab);
}

void *ec_slab_alloc(struct ec_slab *slab, size_t bytes)
{
    struct ec_pool *pool;

    if (__builtin_expect(bytes - 1 >= EC_SLAB_BYTES_MAX, 0)) {
        ec_slab_failed(slab);
        return NULL;
    }
    pool = ec_slab_pool_for(slab, bytes);
    return pool != NULL ? ec_pool_alloc_requested(pool, bytes) : NULL;
}

int ec_slab_free(struct ec_slab *slab, void *block)
{
    struct ec_pool *pool;

    if (block == NULL)
        return EC_OK;
    pool = ec_slab_pool_of(slab, block);
    if (__builtin_expect(pool == NULL, 0)) {
        ec_slab_failed(slab);
        ec_memory_sink_fault(slab->sink);
        return EC_ERR_PARAM;
    }
    return ec_pool_free(pool, block);
}

size_t ec_slab_block_bytes(const struct ec_slab *slab, const void *block)
{
    const struct ec_pool *pool = ec_slab_pool_of(slab, block);

    return pool != NULL ? pool->shape.block_bytes : 0;
}

uint64_t ec_slab_trim(struct ec_slab *slab)
{
    uint64_t bytes = 0;

    for (unsigned i = 0; i < EC_SLAB_CLASSES; i++) {
        struct ec_pool *pool = atomic_load_explicit(&slab->pools[i], memory_order_acquire);

        if (pool != NULL)
            bytes += ec_pool_trim(pool);
    }
    return bytes;
}

void ec_slab_stats(const struct ec_slab *slab, struct ec_memory_stats *stats)
{
    *stats = (struct ec_memory_stats) { 0 };
    for (unsigned i = 0; i < EC_SLAB_CLASSES; i++) {
        const struct ec_pool *pool = atomic_load_explicit(&slab->pools[i], memory_order_acquire);
        struct ec_memory_stats one;

        if (pool == NULL)
            continue;
        ec_pool_stats(pool, &one);
        ec_memory_stats_add(stats, &one);
    }
}

struct ec_pool *ec_slab_make_pool(struct ec_slab *slab, unsigned class)
{
    return make_pool(slab, class, NULL);
}

void ec_slab_failed(struct ec_slab *slab)
{
    struct ec_pool *first = atomic_load_explicit(&slab->pools[0], memory_order_acquire);

    ec_count(&first->row->failed, 1, true);
}

size_t ec_slab_class_bytes(size_t bytes)
{
    return class_bytes[ec_slab_class_of(bytes)];
}

static __attribute__((noinline)) struct ec_pool *make_pool(struct ec_slab *slab, unsigned class,
                                                           struct ec_error *why)
{
    const struct ec_pool_kind kind = { .kind = EC_ALLOCATOR_SLAB,
                                       .tagged = slab->tagged,
                                       .known = slab->known,
                                       .number = (uint8_t)(class + 1) };
    char name[EC_SLAB_NAME_BYTES + 8];
    const struct ec_pool_desc desc = { .name = name,
                                       .tag = slab->desc.tag,
                                       .block_bytes = class_bytes[class],
                                       .checked = slab->desc.checked,
                                       .guard_bytes = slab->desc.guard_bytes,
                                       .in_segment = slab->desc.in_segment };
    struct ec_pool *pool;

    snprintf(name, sizeof name, "%s/%d", slab->name, class_bytes[class]);
    pthread_mutex_lock(&slab->lock);
    pool = atomic_load_explicit(&slab->pools[class], memory_order_relaxed);
    if (pool == NULL && ec_pool_create_kind(slab->sink, &desc, &kind, &pool, why) == EC_OK)
        atomic_store_explicit(&slab->pools[class], pool, memory_order_release);
    pthread_mutex_unlock(&slab->lock);
    if (pool == NULL && class != 0)
        ec_slab_failed(slab);
    return pool;
}
