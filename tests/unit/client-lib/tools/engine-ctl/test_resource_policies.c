/* Each policy against a second one, written the other way: queues that are lists, as the papers draw them,
 * where resource_policies.c has a clock and looks for the oldest. Both play the same random traces and
 * must agree in every figure. */
#include "engine-ctl/resource_trace.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define RESOURCES 60
#define USES 1500

static struct traced_resource resources[RESOURCES];
static struct traced_use uses[USES];

static uint64_t random_state;

static uint32_t random_below(uint32_t end)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)((random_state >> 33) % end);
}

/* Favourites, and now and then a walk over all of them. */
static struct resource_trace trace_make(uint64_t seed)
{
    struct resource_trace trace = {
        .resources = resources, .resource_count = RESOURCES, .uses = uses, .use_count = USES
    };
    uint32_t walk = RESOURCES;

    random_state = seed * 2654435761u + 88172645463325252ull;
    for (uint32_t i = 0; i < RESOURCES; i++) {
        uint64_t bytes = seed % 2 == 0 ? 1000 : 1 + random_below(5000);

        resources[i] = (struct traced_resource) { bytes, 1000 * (int64_t)random_below(2000), true };
        trace.bytes += bytes;
    }
    for (uint32_t i = 0; i < USES; i++) {
        if (walk == RESOURCES && random_below(300) == 0)
            walk = 0;
        if (walk < RESOURCES)
            uses[i] = (struct traced_use) { walk++, false };
        else
            uses[i] =
                (struct traced_use) { random_below(RESOURCES) * random_below(RESOURCES) / RESOURCES,
                                      false };
    }
    return trace;
}

/* ---- a queue: the head is where one enters ---- */

struct queue {
    uint32_t items[4 * USES];
    uint32_t head, tail; /* [tail, head) */
};

static void enter(struct queue *queue, uint32_t item)
{
    ck_assert_uint_lt(queue->head, 4 * USES);
    queue->items[queue->head++] = item;
}

static uint32_t leave(struct queue *queue)
{
    ck_assert_uint_lt(queue->tail, queue->head);
    return queue->items[queue->tail++];
}

static void take_out(struct queue *queue, uint32_t at)
{
    memmove(&queue->items[at], &queue->items[at + 1],
            (queue->head - at - 1) * sizeof queue->items[0]);
    queue->head--;
}

static uint32_t place_of(const struct queue *queue, uint32_t item)
{
    uint32_t at = queue->tail;

    while (at < queue->head && queue->items[at] != item)
        at++;
    ck_assert_uint_lt(at, queue->head);
    return at;
}

/* ---- the second policies ---- */

struct cache {
    bool there[RESOURCES];
    uint64_t bytes, room;
    void (*hit)(struct cache *cache, uint32_t item);
    void (*enter)(struct cache *cache, uint32_t item);
    void (*make_room)(struct cache *cache); /* take one away */

    struct queue queue; /* LRU, SIEVE; S3-FIFO: the small one */
    bool visited[RESOURCES];
    uint32_t hand; /* SIEVE: a place in the queue; below tail: none */

    struct queue main;
    uint64_t small_bytes;
    uint32_t count[RESOURCES];
    struct queue ghosts; /* who left the small queue, RESOURCES: came back since */

    uint32_t history[RESOURCES][USES]; /* LRU-2: all uses */
    uint32_t used[RESOURCES];
    uint32_t now;
};

static void gone(struct cache *cache, uint32_t item)
{
    ck_assert(cache->there[item]);
    cache->there[item] = false;
    cache->bytes -= resources[item].bytes;
}

static void queue_enter(struct cache *cache, uint32_t item)
{
    enter(&cache->queue, item);
}

static void lru_hit(struct cache *cache, uint32_t item)
{
    take_out(&cache->queue, place_of(&cache->queue, item));
    enter(&cache->queue, item);
}

static void lru_make_room(struct cache *cache)
{
    gone(cache, leave(&cache->queue));
}

/* Zhang et al., algorithm 1: o is the hand, or the tail; while it was visited, go on to the head, and from
 * the head to the tail. */
static void sieve_hit(struct cache *cache, uint32_t item)
{
    cache->visited[item] = true;
}

static void sieve_enter(struct cache *cache, uint32_t item)
{
    cache->visited[item] = false;
    enter(&cache->queue, item);
}

static void sieve_make_room(struct cache *cache)
{
    struct queue *queue = &cache->queue;
    uint32_t at = cache->hand == UINT32_MAX ? queue->tail : cache->hand;

    while (cache->visited[queue->items[at]]) {
        cache->visited[queue->items[at]] = false;
        at = at + 1 < queue->head ? at + 1 : queue->tail;
    }
    gone(cache, queue->items[at]);
    take_out(queue, at); /* the next one towards the head is now here */
    cache->hand = at < queue->head ? at : UINT32_MAX;
}

/* Yang et al., algorithm 1. The ghosts are those who left the small queue last, as many bytes as the cache
 * has. */
static void s3_hit(struct cache *cache, uint32_t item)
{
    if (cache->count[item] < 3)
        cache->count[item]++;
}

static bool is_ghost(const struct cache *cache, uint32_t item)
{
    uint64_t bytes = 0;

    for (uint32_t at = cache->ghosts.head; at > 0; at--) {
        uint32_t ghost = cache->ghosts.items[at - 1];

        if (bytes >= cache->room)
            return false;
        if (ghost == item)
            return true;
        bytes += resources[ghost % RESOURCES].bytes;
    }
    return false;
}

static void s3_enter(struct cache *cache, uint32_t item)
{
    cache->count[item] = 0;
    if (is_ghost(cache, item)) {
        enter(&cache->main, item);
        for (uint32_t at = 0; at < cache->ghosts.head; at++)
            if (cache->ghosts.items[at] == item)
                cache->ghosts.items[at] += RESOURCES; /* counts, but is not found */
    } else {
        enter(&cache->queue, item);
        cache->small_bytes += resources[item].bytes;
    }
}

static bool s3_small_goes(struct cache *cache)
{
    uint32_t item = leave(&cache->queue);

    cache->small_bytes -= resources[item].bytes;
    if (cache->count[item] > 1) {
        cache->count[item] = 0;
        enter(&cache->main, item);
        return false;
    }
    enter(&cache->ghosts, item);
    gone(cache, item);
    return true;
}

static bool s3_main_goes(struct cache *cache)
{
    uint32_t item = leave(&cache->main);

    if (cache->count[item] > 0) {
        cache->count[item]--;
        enter(&cache->main, item);
        return false;
    }
    gone(cache, item);
    return true;
}

static void s3_make_room(struct cache *cache)
{
    bool done;

    do {
        bool main_is_empty = cache->main.head == cache->main.tail;

        done = cache->small_bytes > cache->room / 10 || main_is_empty ? s3_small_goes(cache)
                                                                      : s3_main_goes(cache);
    } while (!done);
}

/* What a byte costs, as a power of 16. */
static int cost_of(uint32_t item)
{
    uint64_t ns = (uint64_t)resources[item].load_ns * 1024 / (resources[item].bytes + (1u << 20));
    int cost = 0;

    for (uint64_t step = 16; step <= ns; step *= 16)
        cost++;
    return cost;
}

/* How long ago by the use before the last; for ever for who was used once. */
static uint32_t distance(const struct cache *cache, uint32_t item)
{
    uint32_t used = cache->used[item];

    return used < 2 ? UINT32_MAX : cache->now - cache->history[item][used - 2];
}

static uint32_t age(const struct cache *cache, uint32_t item)
{
    return cache->now - cache->history[item][cache->used[item] - 1];
}

static bool goes_before(const struct cache *cache, uint32_t a, uint32_t b)
{
    if (distance(cache, a) != distance(cache, b))
        return distance(cache, a) > distance(cache, b);
    if (cost_of(a) != cost_of(b))
        return cost_of(a) < cost_of(b);
    return age(cache, a) > age(cache, b);
}

static void nothing(struct cache *cache, uint32_t item)
{
    (void)cache;
    (void)item;
}

static void lru2_make_room(struct cache *cache)
{
    uint32_t worst = RESOURCES;

    for (uint32_t i = 0; i < RESOURCES; i++)
        if (cache->there[i] && (worst == RESOURCES || goes_before(cache, i, worst)))
            worst = i;
    gone(cache, worst);
}

static const struct {
    void (*hit)(struct cache *cache, uint32_t item);
    void (*enter)(struct cache *cache, uint32_t item);
    void (*make_room)(struct cache *cache);
} seconds[] = {
    [POLICY_LRU2] = { nothing, nothing, lru2_make_room },
    [POLICY_LRU] = { lru_hit, queue_enter, lru_make_room },
    [POLICY_SIEVE] = { sieve_hit, sieve_enter, sieve_make_room },
    [POLICY_S3_FIFO] = { s3_hit, s3_enter, s3_make_room },
};

static struct policy_result second_run(unsigned policy, uint64_t room)
{
    struct cache *cache = calloc(1, sizeof *cache);
    bool was_there[RESOURCES] = { false };
    struct policy_result result = { .uses = USES };

    ck_assert_ptr_nonnull(cache);
    cache->room = room;
    cache->hand = UINT32_MAX;
    for (uint32_t i = 0; i < USES; i++) {
        uint32_t item = uses[i].resource;
        uint64_t bytes = resources[item].bytes;

        cache->history[item][cache->used[item]++] = ++cache->now;
        if (cache->there[item]) {
            result.hits++;
            seconds[policy].hit(cache, item);
            continue;
        }
        result.waited_bytes += bytes;
        result.reloaded_bytes += was_there[item] ? bytes : 0;
        was_there[item] = true;
        if (bytes > room)
            continue;
        while (cache->bytes + bytes > room)
            seconds[policy].make_room(cache);
        cache->there[item] = true;
        cache->bytes += bytes;
        seconds[policy].enter(cache, item);
    }
    free(cache);
    return result;
}

START_TEST(two_ways_to_write_a_policy_agree_on_random_traces)
{
    unsigned policy = (unsigned)_i;
    uint64_t told_apart = 0;

    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct resource_trace trace = trace_make(seed);

        for (unsigned percent = 1; percent <= 100; percent += 9) {
            struct policy_result first, other, second;
            uint64_t room = trace.bytes * percent / 100;

            ck_assert_int_eq(policy_run(&trace, policy, room, &first), EC_OK);
            second = second_run(policy, room);
            ck_assert_msg(
                first.hits == second.hits && first.reloaded_bytes == second.reloaded_bytes &&
                    first.waited_bytes == second.waited_bytes && first.uses == second.uses,
                "%s, seed %u, %u %%: %u hits, %u by the second", policy_name(policy),
                (unsigned)seed, percent, (unsigned)first.hits, (unsigned)second.hits);
            ck_assert_int_eq(policy_run(&trace, (policy + 1) % 4, room, &other), EC_OK);
            told_apart += other.hits != first.hits;
        }
    }
    ck_assert_uint_gt(told_apart, 50); /* these traces tell policies apart */
}
END_TEST

/* Small enough to be followed by hand: room for three. */
static void play(const char *order, unsigned policy, const char *expected)
{
    struct resource_trace trace = {
        .resources = resources, .resource_count = 26, .uses = uses, .use_count = 0
    };
    uint64_t hits = 0;

    for (uint32_t i = 0; i < 26; i++)
        resources[i] = (struct traced_resource) { 10, 1000, true };
    for (size_t i = 0; order[i] != '\0'; i++) {
        struct policy_result result;

        uses[i] = (struct traced_use) { (uint32_t)(order[i] - 'a'), false };
        trace.use_count++;
        ck_assert_int_eq(policy_run(&trace, policy, 30, &result), EC_OK);
        ck_assert_msg(result.hits - hits == (expected[i] == '+'), "%s: use %zu of %s",
                      policy_name(policy), i, order);
        hits = result.hits;
    }
}

START_TEST(small_cases_go_as_they_do_by_hand)
{
    play("abcadbc", POLICY_LRU, "---+---");
    play("abcadbac", POLICY_SIEVE, "---+--+-"); /* the hand passes a, takes b, then c */
    /* The hand passes a and b and takes c, the youngest; for e it begins with a, not with d. */
    play("abcabded", POLICY_SIEVE, "---++--+");
    play("aabbcdeab", POLICY_LRU2, "-+-+---++"); /* c, d and e were used once */
    play("abcdaa", POLICY_S3_FIFO, "-----+");
}
END_TEST

/* What is loaded ahead is not waited for, and goes last. */
START_TEST(soft_references_load_ahead)
{
    struct resource_trace trace = {
        .resources = resources, .resource_count = 4, .uses = uses, .use_count = 7, .ahead_count = 1
    };
    struct policy_result result;

    for (uint32_t i = 0; i < 4; i++)
        resources[i] = (struct traced_resource) { 10, 1000, true };
    for (uint32_t i = 0; i < 7; i++)
        uses[i] = (struct traced_use) { (uint32_t[]) { 0, 0, 1, 3, 2, 0, 3 }[i], i == 3 };
    ck_assert_int_eq(policy_run(&trace, POLICY_LRU2_AHEAD, 20, &result), EC_OK);
    ck_assert_uint_eq(result.uses, 6);
    ck_assert_uint_eq(result.hits, 2); /* the second of 0, and 3 */
    ck_assert_uint_eq(result.ahead_bytes, 10);
    ck_assert_uint_eq(result.waited_bytes, 40);
    ck_assert_uint_eq(result.reloaded_bytes, 10); /* 0 had to go for 2 */
    ck_assert_int_eq(policy_run(&trace, POLICY_LRU2, 20, &result), EC_OK);
    ck_assert_uint_eq(result.hits, 2);
    ck_assert_uint_eq(result.ahead_bytes, 0);
}
END_TEST

START_TEST(what_is_larger_than_all_memory_passes_through)
{
    struct resource_trace trace = {
        .resources = resources, .resource_count = 2, .uses = uses, .use_count = 4
    };

    resources[0] = (struct traced_resource) { 100, 1000, true };
    resources[1] = (struct traced_resource) { 10, 1000, true };
    for (uint32_t i = 0; i < 4; i++)
        uses[i] = (struct traced_use) { i % 2, false };
    for (unsigned policy = 0; policy < POLICIES; policy++) {
        struct policy_result result;

        ck_assert_int_eq(policy_run(&trace, policy, 50, &result), EC_OK);
        ck_assert_uint_eq(result.hits, 1);
        ck_assert_uint_eq(result.reloaded_bytes, 100);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("resource policies");
    TCase *tcase = tcase_create("policies");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_loop_test(tcase, two_ways_to_write_a_policy_agree_on_random_traces, 0, 4);
    tcase_add_test(tcase, small_cases_go_as_they_do_by_hand);
    tcase_add_test(tcase, soft_references_load_ahead);
    tcase_add_test(tcase, what_is_larger_than_all_memory_passes_through);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
