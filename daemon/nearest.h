/* nearest.h - which known name did somebody mean? For messages about unknown ones.
 *
 *     struct nearest nearest;
 *
 *     nearest_init(&nearest, name, bytes);
 *     for (...)
 *         nearest_offer(&nearest, known);
 *     if (nearest.best != NULL)
 *         ... ", did you mean %s?", nearest.best
 *
 * Thread: any. Cost: length times length for each name offered; nothing is allocated. */
#ifndef ENGINE_CORED_NEAREST_H
#define ENGINE_CORED_NEAREST_H

#include <stddef.h>

#define NEAREST_BYTES_MAX 64 /* of a longer name nobody is near */

struct nearest {
    const char *name;
    size_t bytes;
    const char *best; /* of those offered; NULL: none is near enough to be meant */
    size_t distance;  /* of the best */
};

void nearest_init(struct nearest *nearest, const char *name, size_t bytes);
void nearest_offer(struct nearest *nearest, const char *known);

#endif
