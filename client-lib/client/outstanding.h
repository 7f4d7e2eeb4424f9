/* outstanding.h - requests that wait for their reply, in the order of their deadlines.
 *
 * A fixed table of slots and a binary heap of their numbers: finding one by its correlation is O(1), the
 * next deadline is the heap's first, adding and removing are O(log n). A correlation is the slot with
 * its generation, so that a reply to a request that has ended finds nothing.
 *
 * Thread: one. Cost: memory at init only. */
#ifndef EC_CLIENT_OUTSTANDING_H
#define EC_CLIENT_OUTSTANDING_H

#include <engine-core/request.h>

struct ec_outstanding_slot {
    int64_t deadline_ns;
    ec_reply_fn *fn;
    void *context;
    uint32_t generation; /* of this life; odd while it waits */
    uint32_t place;      /* in the heap; of a free slot: the next free one */
};

struct ec_outstanding {
    struct ec_outstanding_slot *slots;
    uint32_t *heap;
    uint32_t count, capacity;
    uint32_t first_free; /* capacity: none */
};

/* Returns EC_OK or EC_ERR_MEMORY. */
int ec_outstanding_init(struct ec_outstanding *outstanding, uint32_t capacity);
void ec_outstanding_finish(struct ec_outstanding *outstanding); /* accepts a zeroed one */

/* The correlation of the new request. There must be room: count < capacity. */
uint64_t ec_outstanding_add(struct ec_outstanding *outstanding, int64_t deadline_ns,
                            ec_reply_fn *fn, void *context);

/* Take a request out. false: it has ended, or never was. */
bool ec_outstanding_remove(struct ec_outstanding *outstanding, uint64_t correlation,
                           struct ec_outstanding_slot *removed);

/* The request with the earliest deadline. false: there is none. */
bool ec_outstanding_first(const struct ec_outstanding *outstanding, uint64_t *correlation,
                          int64_t *deadline_ns);

#endif
