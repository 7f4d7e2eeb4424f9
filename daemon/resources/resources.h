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

/* Evict what is evictable and not held, best victims first (LRU-2), until bytes are free
 * (UINT64_MAX: all). The names of the groups that lost something go into groups as JSON strings when
 * it is not NULL (an open array). Returns the bytes given back. */
uint64_t resources_evict(struct resources *resources, uint64_t bytes,
                         struct ec_json_writer *groups);

/* What becomes of soft references, by which games ask that resources be loaded ahead and kept. */
enum resources_soft {
    RESOURCES_SOFT_HONOURED, /* the default */
    RESOURCES_SOFT_PAUSED,   /* loads ahead are cancelled, and none is begun */
    RESOURCES_SOFT_CLEARED,  /* and what only soft references keep is let go */
};

/* Change it, as memory becomes short: setting what is set changes nothing. The references stay in the
 * games' own tables, and count again when they are honoured again: what was cancelled or let go is
 * loaded anew then, within resource.soft_bytes. Never waits; what a game holds stays until it is
 * released. Returns the bytes given back at once. */
uint64_t resources_set_soft(struct resources *resources, enum resources_soft soft);

#endif
