/* resource_policies.c - what would have stayed in memory under which rule.
 *
 * Each policy is a function that names the next victim; loading and counting are the same for all.
 *
 *   LRU-2    the daemon's rule (proto/residency_rule.h); histories are kept
 *   LRU      who was used last the longest ago
 *   SIEVE    a queue by age and a hand that goes from old to young and passes over who was used since it
 *            came by last (Zhang et al., NSDI 2024)
 *   S3-FIFO  a small queue of a tenth for newcomers, a main queue for who was used in it, and a memory of
 *            who left the small one lately (Yang et al., SOSP 2023) */
#include "engine-ctl/resource_trace.h"

#include <stdlib.h>

#include "proto/residency_rule.h"

#define NONE UINT32_MAX
#define S3_COUNT_MAX 3

struct item {
    bool there, was_there, wished, visited;
    bool in_main;     /* S3-FIFO */
    uint64_t ghost;   /* S3-FIFO: when it left the small queue; 0: not lately */
    uint32_t count;   /* S3-FIFO */
    uint64_t entered; /* by the clock; the order of queues */
    uint64_t last, previous;
};

struct play {
    const struct resource_trace *trace;
    struct item *items;
    uint64_t clock;
    uint64_t used_bytes, capacity_bytes;
    uint64_t small_bytes; /* S3-FIFO */
    uint64_t left_bytes;  /* S3-FIFO: that ever left the small queue */
    uint64_t hand;        /* SIEVE: entered of the one to look at next; 0: the oldest */
};

typedef uint32_t victim_fn(struct play *play);

static uint32_t victim_lru2(struct play *play);
static uint32_t victim_lru(struct play *play);
static uint32_t victim_sieve(struct play *play);
static uint32_t victim_s3(struct play *play);
static bool load(struct play *play, victim_fn *victim, uint32_t index);

static const struct {
    const char *name;
    victim_fn *victim;
    bool ahead;
} policies[POLICIES] = {
    [POLICY_LRU2] = { "LRU-2", victim_lru2, false },
    [POLICY_LRU] = { "LRU", victim_lru, false },
    [POLICY_SIEVE] = { "SIEVE", victim_sieve, false },
    [POLICY_S3_FIFO] = { "S3-FIFO", victim_s3, false },
    [POLICY_LRU2_AHEAD] = { "LRU-2 + soft", victim_lru2, true },
};

const char *policy_name(unsigned policy)
{
    return policies[policy].name;
}

static void use(struct play *play, struct policy_result *result, unsigned policy, uint32_t index)
{
    struct item *item = &play->items[index];
    uint64_t bytes = play->trace->resources[index].bytes;

    play->clock++;
    item->previous = item->last;
    item->last = play->clock;
    item->wished = false;
    result->uses++;
    if (item->there) {
        result->hits++;
        item->visited = true;
        if (item->count < S3_COUNT_MAX)
            item->count++;
        return;
    }
    result->waited_bytes += bytes;
    if (item->was_there)
        result->reloaded_bytes += bytes;
    item->was_there = true;
    load(play, policies[policy].victim, index);
}

int policy_run(const struct resource_trace *trace, unsigned policy, uint64_t capacity_bytes,
               struct policy_result *result)
{
    struct play play = { .trace = trace, .capacity_bytes = capacity_bytes };

    *result = (struct policy_result) { 0 };
    play.items = calloc((size_t)trace->resource_count + 1, sizeof *play.items);
    if (play.items == NULL)
        return EC_ERR_MEMORY;
    for (size_t i = 0; i < trace->use_count; i++) {
        uint32_t index = trace->uses[i].resource;

        if (!trace->uses[i].ahead) {
            use(&play, result, policy, index);
        } else if (policies[policy].ahead) {
            play.items[index].wished = true;
            if (!play.items[index].there && load(&play, policies[policy].victim, index)) {
                play.items[index].was_there = true;
                result->ahead_bytes += trace->resources[index].bytes;
            }
        }
    }
    free(play.items);
    return EC_OK;
}

static void leave(struct play *play, uint32_t index)
{
    struct item *item = &play->items[index];

    item->there = false;
    play->used_bytes -= play->trace->resources[index].bytes;
    if (!item->in_main)
        play->small_bytes -= play->trace->resources[index].bytes;
}

/* What is larger than all memory passes through. */
static bool load(struct play *play, victim_fn *victim, uint32_t index)
{
    struct item *item = &play->items[index];
    uint64_t bytes = play->trace->resources[index].bytes;

    if (bytes > play->capacity_bytes)
        return false;
    while (play->used_bytes + bytes > play->capacity_bytes)
        leave(play, victim(play));
    play->clock++;
    item->in_main = item->ghost != 0 && play->left_bytes - item->ghost < play->capacity_bytes;
    item->ghost = 0;
    item->count = 0;
    item->visited = false;
    item->there = true;
    item->entered = play->clock;
    play->used_bytes += bytes;
    if (!item->in_main)
        play->small_bytes += bytes;
    return true;
}

static struct ec_residency_use use_of(const struct play *play, uint32_t index)
{
    return (struct ec_residency_use) { .previous = play->items[index].previous,
                                       .last = (int64_t)play->items[index].last,
                                       .bytes = play->trace->resources[index].bytes,
                                       .load_ns = play->trace->resources[index].load_ns };
}

/* As in the daemon, what somebody wished for goes last. */
static uint32_t victim_lru2(struct play *play)
{
    struct ec_residency_use best_use = { 0 };
    uint32_t best = NONE;

    for (uint32_t i = 0; i < play->trace->resource_count; i++) {
        struct ec_residency_use use_i;

        if (!play->items[i].there)
            continue;
        use_i = use_of(play, i);
        if (best == NONE || (play->items[best].wished && !play->items[i].wished) ||
            (play->items[best].wished == play->items[i].wished &&
             ec_residency_before(&use_i, &best_use))) {
            best = i;
            best_use = use_i;
        }
    }
    return best;
}

static uint32_t victim_lru(struct play *play)
{
    uint32_t best = NONE;

    for (uint32_t i = 0; i < play->trace->resource_count; i++)
        if (play->items[i].there && (best == NONE || play->items[i].last < play->items[best].last))
            best = i;
    return best;
}

/* The oldest one that entered behind `after`, of one queue or of both; NONE when there is no such. */
static uint32_t oldest(const struct play *play, uint64_t after, bool small, bool main)
{
    uint32_t best = NONE;

    for (uint32_t i = 0; i < play->trace->resource_count; i++) {
        const struct item *item = &play->items[i];

        if (item->there && item->entered > after && (item->in_main ? main : small) &&
            (best == NONE || item->entered < play->items[best].entered))
            best = i;
    }
    return best;
}

/* The hand stands on one that is there, since only it takes anybody away. Behind the youngest it begins
 * again with the oldest, not with whoever comes next. */
static uint32_t victim_sieve(struct play *play)
{
    for (;;) {
        uint32_t at = oldest(play, play->hand > 0 ? play->hand - 1 : 0, true, true);
        uint32_t next = oldest(play, play->items[at].entered, true, true);

        play->hand = next != NONE ? play->items[next].entered : 0;
        if (!play->items[at].visited)
            return at;
        play->items[at].visited = false;
    }
}

static uint32_t victim_s3(struct play *play)
{
    for (;;) {
        uint32_t small = oldest(play, 0, true, false), main = oldest(play, 0, false, true);
        struct item *item;

        if (small != NONE && (play->small_bytes > play->capacity_bytes / 10 || main == NONE)) {
            item = &play->items[small];
            if (item->count <= 1) {
                play->left_bytes += play->trace->resources[small].bytes;
                item->ghost = play->left_bytes;
                return small;
            }
            item->in_main = true; /* it was used in the small queue */
            item->count = 0;
            play->small_bytes -= play->trace->resources[small].bytes;
        } else {
            item = &play->items[main];
            if (item->count == 0)
                return main;
            item->count--;
        }
        item->entered = ++play->clock;
    }
}
