/* proto/residency_rule.h - which of two resources leaves memory first: LRU-2 with kept history.
 *
 * The daemon evicts by this rule, and `engine-ctl resources replay` tries it on a recorded trace against
 * other policies, so it stands in one place. Classes and soft references come before it; they are the
 * daemon's.
 *
 * LRU-2 (O'Neil, O'Neil, Weikum 1993): who was used before last the longest ago goes first, and who was
 * used once or never before all others, so that a scan over a level pushes nobody out who is used again
 * and again. Clocks count uses. Ties go by what it costs to load a byte again, then by the last use. */
#ifndef EC_PROTO_RESIDENCY_RULE_H
#define EC_PROTO_RESIDENCY_RULE_H

#include <stdbool.h>
#include <stdint.h>

/* Costs are told apart by factors of 16, since a measured time is never exact: a file that is read as it is
 * costs less than an image that is decoded, and two images of one kind cost the same. Processes and
 * messages are most of what a small resource takes, so bytes count from here on. */
#define EC_RESIDENCY_COST_BYTES (UINT64_C(1) << 20)

struct ec_residency_use {
    uint64_t previous; /* by the clock of uses; 0: it was not used twice */
    int64_t last;      /* of the last use; the unit is the caller's */
    uint64_t bytes;
    int64_t load_ns; /* the shortest time that it took */
};

static inline unsigned ec_residency_cost(const struct ec_residency_use *use)
{
    unsigned cost = 0;

    for (uint64_t ns = (uint64_t)use->load_ns * 1024 / (use->bytes + EC_RESIDENCY_COST_BYTES);
         ns >= 16; ns /= 16)
        cost++;
    return cost;
}

/* Is left a better victim than right? */
static inline bool ec_residency_before(const struct ec_residency_use *left,
                                       const struct ec_residency_use *right)
{
    unsigned left_cost = ec_residency_cost(left), right_cost = ec_residency_cost(right);

    if (left->previous != right->previous)
        return left->previous < right->previous;
    if (left_cost != right_cost)
        return left_cost < right_cost;
    return left->last < right->last;
}

#endif
