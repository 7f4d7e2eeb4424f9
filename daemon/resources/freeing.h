/* freeing.h - answers that go out when the memory that a request freed is back.
 *
 * Thread: loop. */
#ifndef RESOURCES_FREEING_H
#define RESOURCES_FREEING_H

#include "foundation/error.h"

struct asset_heap;
struct ec_json_writer;
struct freeing;
struct request;
struct uv_loop_s;

/* Returns EC_OK, EC_ERR_MEMORY or EC_ERR_SYSTEM. */
int freeing_create(struct uv_loop_s *loop, struct asset_heap *heap, struct freeing **freeing,
                   struct ec_error *why);
/* Before the heap's end. Its memory goes with the next turn of the loop. Accepts NULL. */
void freeing_destroy(struct freeing *freeing);

/* If memory is being freed, let the answer to this request wait for it, and let *result be where to
 * write it. Whatever this returns, write the result, and return it from the handler: EC_AGAIN or
 * EC_OK. */
int freeing_defer(struct freeing *freeing, struct request *request, struct ec_json_writer **result);

#endif
