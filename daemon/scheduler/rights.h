/* rights.h - what the scheduler's thread asks of the kernel, and what it was given.
 *
 * Thread: step (it asks for itself), once at its start; the result is read-only afterwards. */
#ifndef ENGINE_CORED_SCHEDULER_RIGHTS_H
#define ENGINE_CORED_SCHEDULER_RIGHTS_H

#include <stdbool.h>
#include <stddef.h>

#include "foundation/json/json_writer.h"

#define RIGHTS_TEXT_BYTES 128
#define RIGHTS_STACK_BYTES ((size_t)32 * 1024) /* of the thread's stack, far more than it uses */

struct rights {
    int priority; /* of SCHED_FIFO; 0: the default class */
    bool memory_locked;
    bool exact_timers; /* timer slack is 1 ns; SCHED_FIFO has none anyway */
    /* Why not, each empty when nothing was refused. */
    char refused_priority[RIGHTS_TEXT_BYTES];
    char refused_memory[RIGHTS_TEXT_BYTES];
    char refused_timers[RIGHTS_TEXT_BYTES];
};

/* Memory that the thread uses besides its stack. */
struct rights_range {
    const void *base;
    size_t bytes;
};

/* Ask for SCHED_FIFO at priority (0: do not ask) that no child inherits, exact timers, and resident
 * memory: the ranges and the stack below the caller. A refusal is noted, never fatal. */
void rights_acquire(struct rights *rights, int priority, const struct rights_range *ranges,
                    unsigned range_count);

/* {class, priority, memory_locked, exact_timers, refused?:[…]}, one JSON object. */
void rights_describe(const struct rights *rights, struct ec_json_writer *writer);

#endif
