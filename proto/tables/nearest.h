/* proto/tables/nearest.h - which known name did somebody mean? For messages about unknown ones.
 *
 *     struct ec_nearest nearest;
 *
 *     ec_nearest_init(&nearest, name, bytes);
 *     for (...)
 *         ec_nearest_offer(&nearest, known);
 *     if (nearest.best != NULL)
 *         ... ", did you mean %s?", nearest.best
 *
 * Thread: any. Cost: length times length for each name offered; nothing is allocated. */
#ifndef EC_PROTO_TABLES_NEAREST_H
#define EC_PROTO_TABLES_NEAREST_H

#include <stddef.h>

#define EC_NEAREST_BYTES_MAX 64 /* of a longer name nobody is near */

struct ec_nearest {
    const char *name;
    size_t bytes;
    const char *best; /* of those offered; NULL: none is near enough to be meant */
    size_t distance;  /* of the best */
};

void ec_nearest_init(struct ec_nearest *nearest, const char *name, size_t bytes);
void ec_nearest_offer(struct ec_nearest *nearest, const char *known);

#endif
