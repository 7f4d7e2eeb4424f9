/* scheduler.h - the thread that keeps the step clocks, and the writer of the clock page.
 *
 * Thread: loop, unless a function says otherwise. */
#ifndef ENGINE_CORED_SCHEDULER_H
#define ENGINE_CORED_SCHEDULER_H

#include <stdint.h>

#include "foundation/error.h"
#include "foundation/json/json_writer.h"

struct scheduler;
struct services;

int scheduler_init(struct services *services, struct ec_error *why);      /* module phase */
int scheduler_post_init(struct services *services, struct ec_error *why); /* starts the thread */
void scheduler_shutdown(struct services *services);

/* What the thread was granted: {class, priority, memory_locked, refused?}, one JSON object. */
void scheduler_describe(const struct scheduler *scheduler, struct ec_json_writer *writer);

#endif
