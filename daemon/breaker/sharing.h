/* sharing.h - how an amount of memory is shared out among those who could give it back.
 *
 * Each gets a part by what it could give and by what it is worth: of two that could give the same,
 * the one of priority 0 is asked for more than the one of priority 100. Nobody is asked for more than
 * it has; what is left over goes to the others.
 *
 * Thread: any. Cost: a few passes over the rows; allocates nothing. */
#ifndef ENGINE_CORED_BREAKER_SHARING_H
#define ENGINE_CORED_BREAKER_SHARING_H

#include <stdbool.h>
#include <stdint.h>

#define SHARING_PRIORITY_MAX 100

struct sharing_row {
    uint64_t evictable_bytes; /* what it could give */
    uint32_t priority;        /* 0..SHARING_PRIORITY_MAX; high: worth more, asked for less */
    bool idle;                /* nobody plays there: asked for twice as much */
    bool late;                /* it did not answer the last time: the others are asked for more */
    bool spared;              /* ask it for nothing now */
    uint64_t bytes;           /* out: to give back */
};

/* Returns the bytes that nobody has. */
uint64_t sharing_compute(struct sharing_row *rows, unsigned count, uint64_t bytes);

#endif
