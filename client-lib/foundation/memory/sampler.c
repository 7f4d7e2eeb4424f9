#include "foundation/memory/sampler.h"

/* Natural logarithm of 1..2^32 to about five digits: the exponent, and the series of the inverse
 * hyperbolic tangent for what is left in [1, 2). The library has no libm. */
static double logarithm(uint64_t value)
{
    const int exponent = 63 - __builtin_clzll(value);
    const double rest = (double)value / (double)(1ull << exponent);
    const double z = (rest - 1) / (rest + 1);
    const double square = z * z;

    return exponent * 0.69314718055994530942 +
           2 * z * (1 + square * (1.0 / 3 + square * (1.0 / 5 + square * (1.0 / 7 + square / 9))));
}

/* xorshift64* by Sebastiano Vigna: three shifts and a multiplication. */
static uint64_t draw(struct ec_sampler *sampler)
{
    sampler->random ^= sampler->random >> 12;
    sampler->random ^= sampler->random << 25;
    sampler->random ^= sampler->random >> 27;
    return sampler->random * 0x2545F4914F6CDD1Dull;
}

int64_t ec_sampler_distance(struct ec_sampler *sampler, uint64_t mean)
{
    const uint64_t uniform = (draw(sampler) >> 32) + 1; /* of 2^32 */

    return 1 + (int64_t)((32 * 0.69314718055994530942 - logarithm(uniform)) * (double)mean);
}

uint64_t ec_sampler_weight(struct ec_sampler *sampler, uint64_t mean, uint64_t bytes)
{
    uint64_t points = 0;

    if (bytes / EC_SAMPLER_POINTS_MAX >= mean) {
        sampler->until = ec_sampler_distance(sampler, mean);
        return bytes;
    }
    while (sampler->until <= 0) {
        sampler->until += ec_sampler_distance(sampler, mean);
        points++;
    }
    return points * mean;
}
