/* foundation/memory/sites.h - the writer's side of the table of call sites.
 *
 * A site is found by a hash over what names it. The index from hash to row is private to the process;
 * the rows are taken one after the other, so that a reader looks only at those in use. Nothing waits:
 * it may be called inside of malloc and in a signal handler.
 *
 *     row = ec_sites_find(&sites, &key);
 *     ec_sites_add(&sites, row, bytes, 1);
 *     …
 *     ec_sites_remove(&sites, row, bytes, 1);
 *
 * Thread: signal. Cost: a look into the index and two atomic additions; a new site copies its stack.
 * Model: none; each step is one compare-and-swap or one addition. */
#ifndef EC_FOUNDATION_MEMORY_SITES_H
#define EC_FOUNDATION_MEMORY_SITES_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/memory_sites.h"

#define EC_SITE_NONE UINT32_MAX
#define EC_SITES_INDEX (2 * EC_SITES_MAX) /* half empty, so that a probe is short */

struct ec_sites {
    struct ec_tracking *tracking;
    _Atomic bool *is_news;                  /* set when a new site came; NULL: nobody asks */
    _Atomic uint32_t index[EC_SITES_INDEX]; /* row + 1; 0: free */
    uint64_t hash[EC_SITES_MAX];            /* by row; written before the row is in the index */
};

/* What names a site: a stack, or a place in a file, or both. */
struct ec_site_key {
    const uint64_t *frames;
    uint32_t depth; /* at most EC_SITE_FRAMES count */
    uint32_t tag;
    const char *file; /* NULL: none */
    uint32_t line;
};

/* The row of the site, taken if it is new. EC_SITE_NONE: the table is full, which is counted. */
uint32_t ec_sites_find(struct ec_sites *sites, const struct ec_site_key *key);

/* So many blocks with so many bytes together came or went. row EC_SITE_NONE does nothing. */
void ec_sites_add(struct ec_sites *sites, uint32_t row, uint64_t bytes, uint64_t count);
void ec_sites_remove(struct ec_sites *sites, uint32_t row, uint64_t bytes, uint64_t count);

#endif
