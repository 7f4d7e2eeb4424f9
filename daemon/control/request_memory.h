/* request_memory.h - memory that lives as long as one request: unescaped parameters, JSON trees.
 *
 * An arena, so that a request costs no malloc and everything is given
 * back at once. cJSON allocates here, too: its hooks are global, so this is the one file that sets
 * them; they hand out this memory while a tree is built and never free any.
 *
 * Thread: loop. */
#ifndef ENGINE_CORED_CONTROL_REQUEST_MEMORY_H
#define ENGINE_CORED_CONTROL_REQUEST_MEMORY_H

#include <stddef.h>

#include "foundation/error.h"
#include "foundation/json/json_span.h"
#include "foundation/memory/arena.h"

#define REQUEST_MEMORY_BYTES (4 * 1024 * 1024)

struct cJSON;

struct request_memory {
    struct ec_arena *arena;
    unsigned char *base; /* of its only chunk */
    size_t used;
};

/* sink and tag: where it is counted; NULL: nowhere. */
int request_memory_init(struct request_memory *memory, struct ec_memory_sink *sink, uint32_t tag,
                        struct ec_error *why);
void request_memory_finish(struct request_memory *memory); /* accepts a zeroed one */

/* Aligned for anything. NULL when the 4 MiB are used up. */
void *request_memory_alloc(struct request_memory *memory, size_t bytes);

/* The request is over: nothing of it may be used any more. */
void request_memory_reset(struct request_memory *memory);

/* Build the tree of a checked value. NULL: EC_ERR_MEMORY (does not fit), or EC_ERR_PARAM (a string
 * holds \u0000, where cJSON would cut it). */
struct cJSON *request_memory_tree(struct request_memory *memory, struct ec_json_span span,
                                  struct ec_error *why);

#endif
