/* foundation/memory/stack.h - make a stack that counts into a sink.
 *
 * The rest is <engine-core/stack.h>. */
#ifndef EC_FOUNDATION_MEMORY_STACK_H
#define EC_FOUNDATION_MEMORY_STACK_H

#include <engine-core/stack.h>

#include "foundation/memory/sink.h"

/* As ec_stack_create; desc->client is not looked at. sink may be NULL and outlives the stack. */
int ec_stack_create_in(struct ec_memory_sink *sink, const struct ec_stack_desc *desc,
                       struct ec_stack **stack, struct ec_error *why);

#endif
