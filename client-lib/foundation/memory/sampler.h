/* foundation/memory/sampler.h - choose allocations to look at, so that each byte has the same chance.
 *
 * Points lie on the line of all bytes that a thread allocates, at distances that are exponentially
 * distributed around a mean. An allocation is looked at when a point falls into it, and stands for
 * points x mean bytes: the expected sum over the samples of a site is what the site allocated, however
 * regular its pattern is.
 *
 * Thread: each has its own. Cost: a subtraction and a compare per allocation; a logarithm per point. */
#ifndef EC_FOUNDATION_MEMORY_SAMPLER_H
#define EC_FOUNDATION_MEMORY_SAMPLER_H

#include <stdint.h>

/* More points than this in one block are not drawn: the block stands for itself alone. */
#define EC_SAMPLER_POINTS_MAX 32

struct ec_sampler {
    uint64_t random; /* any start but 0 */
    int64_t until;   /* bytes to the next point */
};

/* The next distance, 1 or more; mean 1..2^40. */
int64_t ec_sampler_distance(struct ec_sampler *sampler, uint64_t mean);

/* `bytes` were passed, and until is 0 or less: how many bytes the block stands for (0: no point fell
 * into it after all). Sets until anew. */
uint64_t ec_sampler_weight(struct ec_sampler *sampler, uint64_t mean, uint64_t bytes);

#endif
