/* sites.c - find or take the row of a site.
 *
 *   hash --> index --> row        A row is filled in before the index points to it. When two threads
 *                                 bring the same new site, the second one's row stays unused. */
#include "foundation/memory/sites.h"

#include <string.h>

#define PROBES 32 /* longer chains come only with a table that is full anyway */

static uint64_t hash_of(const struct ec_site_key *key);
static uint32_t take(struct ec_sites *sites, const struct ec_site_key *key, uint64_t hash);
static void copy_file(struct ec_site_row *row, const char *file);

uint32_t ec_sites_find(struct ec_sites *sites, const struct ec_site_key *key)
{
    const uint64_t hash = hash_of(key);
    uint32_t made = EC_SITE_NONE;

    atomic_fetch_add_explicit(&sites->tracking->samples, 1, memory_order_relaxed);
    for (uint32_t probe = 0; probe < PROBES; probe++) {
        _Atomic uint32_t *place = &sites->index[(hash + probe) % EC_SITES_INDEX];
        /* Acquire: pairs with the exchange below, after the row and its hash. */
        uint32_t found = atomic_load_explicit(place, memory_order_acquire);

        if (found == 0) {
            if (made == EC_SITE_NONE)
                made = take(sites, key, hash);
            if (made == EC_SITE_NONE)
                break;
            if (atomic_compare_exchange_strong_explicit(
                    place, &found, made + 1, memory_order_acq_rel, memory_order_acquire)) {
                atomic_store_explicit(&sites->tracking->sites[made].ready, 1, memory_order_release);
                if (sites->is_news != NULL)
                    atomic_store_explicit(sites->is_news, true, memory_order_relaxed);
                return made;
            }
        }
        /* Relaxed: who has a block of a library that was loaded since has it from its loader. */
        if (sites->hash[found - 1] == hash &&
            atomic_load_explicit(&sites->tracking->sites[found - 1].modules_until,
                                 memory_order_relaxed) == 0)
            return found - 1;
    }
    atomic_fetch_add_explicit(&sites->tracking->lost, 1, memory_order_relaxed);
    return EC_SITE_NONE;
}

void ec_sites_add(struct ec_sites *sites, uint32_t row, uint64_t bytes, uint64_t count)
{
    if (row >= EC_SITES_MAX)
        return;
    atomic_fetch_add_explicit(&sites->tracking->sites[row].allocs, count, memory_order_relaxed);
    atomic_fetch_add_explicit(&sites->tracking->sites[row].bytes_in, bytes, memory_order_relaxed);
}

void ec_sites_remove(struct ec_sites *sites, uint32_t row, uint64_t bytes, uint64_t count)
{
    if (row >= EC_SITES_MAX)
        return;
    atomic_fetch_add_explicit(&sites->tracking->sites[row].frees, count, memory_order_relaxed);
    atomic_fetch_add_explicit(&sites->tracking->sites[row].bytes_out, bytes, memory_order_relaxed);
}

/* Of no file there is no line. */
static uint32_t line_of(const struct ec_site_key *key)
{
    return key->file != NULL ? key->line : 0;
}

static uint32_t depth_of(const struct ec_site_key *key)
{
    return key->depth < EC_SITE_FRAMES ? key->depth : EC_SITE_FRAMES;
}

/* A multiplication for each frame, and the upper half folded in at the end: the index takes the lower
 * bits. file is hashed by its text, since one literal may have several addresses. */
static uint64_t hash_of(const struct ec_site_key *key)
{
    uint64_t hash = 0x9E3779B97F4A7C15ull ^ ((uint64_t)key->tag << 32 | line_of(key));

    for (uint32_t i = 0; i < depth_of(key); i++)
        hash = (hash ^ key->frames[i]) * 0xFF51AFD7ED558CCDull;
    for (const char *c = key->file; c != NULL && *c != '\0'; c++)
        hash = (hash ^ (unsigned char)*c) * 0x100000001B3ull;
    return hash ^ hash >> 32;
}

static uint32_t take(struct ec_sites *sites, const struct ec_site_key *key, uint64_t hash)
{
    _Atomic uint32_t *count = &sites->tracking->site_count;
    uint32_t made = atomic_load_explicit(count, memory_order_relaxed);
    struct ec_site_row *row;

    do
        if (made >= EC_SITES_MAX)
            return EC_SITE_NONE;
    while (!atomic_compare_exchange_weak_explicit(count, &made, made + 1, memory_order_relaxed,
                                                  memory_order_relaxed));
    row = &sites->tracking->sites[made];
    row->tag = key->tag;
    row->line = line_of(key);
    row->depth = depth_of(key);
    if (row->depth > 0)
        memcpy(row->frames, key->frames, row->depth * sizeof row->frames[0]);
    if (key->file != NULL)
        copy_file(row, key->file);
    sites->hash[made] = hash;
    return made;
}

static void copy_file(struct ec_site_row *row, const char *file)
{
    const size_t bytes = strlen(file);
    const size_t room = sizeof row->file - 1;

    memcpy(row->file, file + (bytes > room ? bytes - room : 0), bytes > room ? room : bytes);
}
