/* checked_payload.c - publisher, number, then words of a multiplicative hash of the two. */
#include "support/checked_payload.h"

static uint64_t mix(uint64_t publisher, uint64_t number)
{
    uint64_t word = (publisher << 56 ^ number) + 0x9e3779b97f4a7c15ull;

    word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9ull;
    return word ^ word >> 27;
}

void checked_fill(void *payload, size_t bytes, uint64_t publisher, uint64_t number)
{
    uint64_t *words = payload, seed = mix(publisher, number);

    words[0] = publisher;
    words[1] = number;
    for (size_t i = 2; i < bytes / 8; i++)
        words[i] = seed + i * 0x100000001b3ull;
}

bool checked_read(const void *payload, size_t bytes, uint64_t *publisher, uint64_t *number)
{
    const uint64_t *words = payload;

    if (bytes < CHECKED_BYTES_MIN || bytes % 8 != 0)
        return false;
    *publisher = words[0];
    *number = words[1];
    return checked_is_whole(payload, bytes, *publisher, *number);
}

bool checked_is_whole(const void *payload, size_t bytes, uint64_t publisher, uint64_t number)
{
    const uint64_t *words = payload;
    uint64_t seed = mix(publisher, number), wrong;

    if (bytes < CHECKED_BYTES_MIN || bytes % 8 != 0)
        return false;
    wrong = (words[0] ^ publisher) | (words[1] ^ number);
    for (size_t i = 2; i < bytes / 8; i++)
        wrong |= words[i] ^ (seed + i * 0x100000001b3ull);
    return wrong == 0;
}

size_t checked_bytes(uint64_t number, size_t max)
{
    return CHECKED_BYTES_MIN + mix(1, number) % ((max - CHECKED_BYTES_MIN) / 8 + 1) * 8;
}
