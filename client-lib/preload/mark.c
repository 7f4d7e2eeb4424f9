#include "preload/mark.h"

#include <sys/auxv.h>

#include <string.h>

#define WEIGHT_BITS 48

static uint64_t secret;

static uint64_t check_of(const void *block, uint64_t word)
{
    uint64_t mixed = (uint64_t)(uintptr_t)block ^ secret;

    mixed = (mixed ^ mixed >> 29) * 0xBF58476D1CE4E5B9ull + word;
    mixed = (mixed ^ mixed >> 32) * 0x94D049BB133111EBull;
    return mixed ^ mixed >> 31;
}

static unsigned char *place_of(const void *block, size_t usable)
{
    return (unsigned char *)(uintptr_t)block + usable - MARK_BYTES;
}

/* The kernel gives each process 16 random bytes, without a system call. */
void mark_init(void)
{
    const void *random = (const void *)getauxval(AT_RANDOM);

    if (random != NULL)
        memcpy(&secret, random, sizeof secret);
    secret ^= (uint64_t)(uintptr_t)&secret;
}

bool mark_read(const void *block, size_t usable, struct mark *mark)
{
    uint64_t words[2];

    if (usable < MARK_BYTES)
        return false;
    memcpy(words, place_of(block, usable), sizeof words);
    if (words[1] != check_of(block, words[0]))
        return false;
    mark->site = (uint32_t)(words[0] >> WEIGHT_BITS);
    mark->bytes = words[0] & ((1ull << WEIGHT_BITS) - 1);
    return true;
}

void mark_write(void *block, size_t usable, const struct mark *mark)
{
    uint64_t words[2];

    words[0] = (uint64_t)mark->site << WEIGHT_BITS | (mark->bytes & ((1ull << WEIGHT_BITS) - 1));
    words[1] = check_of(block, words[0]);
    memcpy(place_of(block, usable), words, sizeof words);
}

void mark_wipe(void *block, size_t usable)
{
    memset(place_of(block, usable), 0, MARK_BYTES);
}
