/* resources.h - groups of assets, decoded once into the asset heap and mapped by every game.
 *
 * Thread: loop; decoding runs on workers. */
#ifndef ENGINE_CORED_RESOURCES_H
#define ENGINE_CORED_RESOURCES_H

#include <stdint.h>

#include "foundation/error.h"
#include "foundation/json/json_writer.h"

struct resources;
struct services;

int resources_init(struct services *services, struct ec_error *why);      /* module phase */
int resources_post_init(struct services *services, struct ec_error *why); /* starts the workers */
void resources_shutdown(struct services *services);

struct resources_totals {
    uint64_t bytes;              /* decoded, page-rounded */
    uint32_t resources;          /* ready */
    uint32_t groups;             /* defined */
    uint64_t heap_virtual_bytes; /* size of the heap segment */
};
void resources_totals(const struct resources *resources, struct resources_totals *totals);

/* What keeps a decoder in its place, in words. */
const char *resources_guard_text(const struct resources *resources);

/* Evict what is evictable and not held, least recently loaded first, until bytes are free
 * (UINT64_MAX: all). The names of the groups that lost something go into groups as JSON strings when
 * it is not NULL (an open array). Returns the bytes given back. */
uint64_t resources_evict(struct resources *resources, uint64_t bytes,
                         struct ec_json_writer *groups);

#endif
