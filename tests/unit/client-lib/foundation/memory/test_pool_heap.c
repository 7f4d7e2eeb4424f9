/* Threads that allocate and free across each other, and end in between, neither lose a block nor get
 * one twice, and the numbers come out even. */
#include "foundation/memory/pool_heap.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "foundation/memory/pool.h"
#include "support/memory_rows.h"

#define ROUNDS 10
#define THREADS 8
#ifdef EC_TSAN
#define OPERATIONS 400000 /* of all threads in all rounds; make soak has its own number */
#else
#define OPERATIONS 4000000
#endif
#define PLACES 2048
#define WORDS 8 /* of a block, all with the same content while it is out */

static struct memory_rows *rows;
static struct ec_pool *pool;

/* Blocks on their way from any thread to any other. */
static _Atomic(uint64_t *) places[PLACES];

struct worker {
    uint64_t random_state;
    uint64_t allocs, failed;
    bool broken; /* a block had another content than it was given */
};

static int operations_of_one; /* thread in one round */

static void setup(void)
{
    const char *word = getenv("EC_POOL_OPERATIONS");
    const long all = word != NULL ? strtol(word, NULL, 10) : OPERATIONS;

    operations_of_one = (int)(all / (ROUNDS * THREADS));
    rows = memory_rows_create();
}

static void teardown(void)
{
    memory_rows_destroy(rows);
}

static void make_pool(struct ec_memory_sink *sink, const struct ec_pool_desc *desc)
{
    struct ec_error why = { 0 };

    ck_assert_msg(ec_pool_create_in(sink, desc, &pool, &why) == EC_OK, "%s", why.text);
    memset(places, 0, sizeof places);
}

static struct ec_memory_stats stats_now(void)
{
    struct ec_memory_stats stats;

    ec_pool_stats(pool, &stats);
    return stats;
}

static uint64_t random_below(struct worker *worker, uint64_t limit)
{
    worker->random_state ^= worker->random_state << 13;
    worker->random_state ^= worker->random_state >> 7;
    worker->random_state ^= worker->random_state << 17;
    return worker->random_state % limit;
}

static void give_back(struct worker *worker, uint64_t *block)
{
    for (int i = 1; i < WORDS; i++)
        if (block[i] != block[0])
            worker->broken = true;
    if (ec_pool_free(pool, block) != EC_OK)
        worker->broken = true;
}

static void *exchange_blocks(void *context)
{
    struct worker *worker = context;

    for (int i = 0; i < operations_of_one; i++) {
        const uint64_t place = random_below(worker, PLACES);
        uint64_t *block = random_below(worker, 8) == 0 ? NULL : ec_pool_alloc(pool);

        if (block != NULL) {
            const uint64_t content = random_below(worker, UINT64_MAX);

            for (int w = 0; w < WORDS; w++)
                block[w] = content;
            worker->allocs++;
        } else {
            worker->failed++;
        }
        block = atomic_exchange(&places[place], block);
        if (block != NULL)
            give_back(worker, block);
    }
    return NULL;
}

/* Rounds of threads that come and go while the places keep what earlier ones left. Returns how many
 * blocks were allocated. */
static uint64_t run_rounds(void)
{
    uint64_t allocs = 0;

    for (unsigned round = 0; round < ROUNDS; round++) {
        struct worker workers[THREADS] = { 0 };
        pthread_t threads[THREADS];

        for (unsigned t = 0; t < THREADS; t++) {
            workers[t].random_state = 0x9E3779B97F4A7C15ull * (round * THREADS + t + 1);
            ck_assert_int_eq(pthread_create(&threads[t], NULL, exchange_blocks, &workers[t]), 0);
        }
        for (unsigned t = 0; t < THREADS; t++) {
            ck_assert_int_eq(pthread_join(threads[t], NULL), 0);
            ck_assert(!workers[t].broken);
            allocs += workers[t].allocs;
        }
    }
    return allocs;
}

static void free_the_rest(uint64_t allocs)
{
    struct worker worker = { .random_state = 1 };
    uint64_t out = 0;

    for (int i = 0; i < PLACES; i++)
        out += atomic_load(&places[i]) != NULL;
    ck_assert_uint_eq(stats_now().count, out);
    for (int i = 0; i < PLACES; i++) {
        uint64_t *block = atomic_load(&places[i]);

        if (block != NULL)
            give_back(&worker, block);
    }
    ck_assert(!worker.broken);
    ck_assert_uint_eq(stats_now().count, 0);
    ck_assert_uint_eq(stats_now().total, allocs);
    ec_pool_trim(pool);
    ec_pool_trim(pool); /* what the first one passed on to its owner */
    ck_assert_uint_eq(stats_now().capacity_bytes, 0);
}

static const struct ec_pool_desc descs[] = {
    { .name = "small", .block_bytes = 64 },
    { .name = "tight", .block_bytes = 64, .magazine_blocks = 16 },
    { .name = "large", .block_bytes = 1500, .align = 512 },
    { .name = "limited", .block_bytes = 64, .blocks_max = 1500, .magazine_blocks = 16 },
};

START_TEST(blocks_survive_the_way_between_threads_and_the_end_of_threads)
{
    uint64_t allocs;

    make_pool(&rows->sink, &descs[_i]);
    allocs = run_rounds();
    ck_assert_uint_le(stats_now().capacity_bytes, 8u << 20); /* no thread hoards */
    free_the_rest(allocs);
    ck_assert_uint_eq(memory_rows_allocator(rows, descs[_i].name).count, 0);
    ck_assert_uint_eq(memory_rows_allocator(rows, descs[_i].name).total, allocs);
    ck_assert_uint_eq(memory_rows_tag(rows, EC_TAG_GENERAL).bytes, 0);
    ec_pool_destroy(pool);
}
END_TEST

START_TEST(the_same_holds_for_private_counters)
{
    make_pool(NULL, &descs[_i]);
    free_the_rest(run_rounds());
    ec_pool_destroy(pool);
}
END_TEST

#define CROWD 80 /* more than there are rows */

static pthread_barrier_t crowd_is_here;

static void *allocate_in_a_crowd(void *context)
{
    uint64_t **blocks = context;

    pthread_barrier_wait(&crowd_is_here);
    for (int i = 0; i < 100; i++)
        blocks[i] = ec_pool_alloc(pool);
    pthread_barrier_wait(&crowd_is_here);
    for (int i = 0; i < 50; i++)
        ec_pool_free(pool, blocks[i]);
    return NULL;
}

START_TEST(more_threads_than_rows_are_counted_all_the_same)
{
    static uint64_t *blocks[CROWD][100];
    pthread_t threads[CROWD];

    make_pool(&rows->sink, &descs[0]);
    ck_assert_int_eq(pthread_barrier_init(&crowd_is_here, NULL, CROWD + 1), 0);
    for (int t = 0; t < CROWD; t++)
        ck_assert_int_eq(pthread_create(&threads[t], NULL, allocate_in_a_crowd, blocks[t]), 0);
    pthread_barrier_wait(&crowd_is_here);
    pthread_barrier_wait(&crowd_is_here);
    for (int t = 0; t < CROWD; t++)
        ck_assert_int_eq(pthread_join(threads[t], NULL), 0);
    ck_assert_uint_eq(stats_now().total, CROWD * 100);
    ck_assert_uint_eq(stats_now().count, CROWD * 50);
    ck_assert_uint_eq(memory_rows_tag(rows, EC_TAG_GENERAL).bytes, CROWD * 50 * 64);
    for (int t = 0; t < CROWD; t++)
        for (int i = 50; i < 100; i++)
            ck_assert_int_eq(ec_pool_free(pool, blocks[t][i]), EC_OK);
    ck_assert_uint_eq(stats_now().count, 0);
    ck_assert_int_eq(pthread_barrier_destroy(&crowd_is_here), 0);
    ec_pool_destroy(pool);
}
END_TEST

/* What one thread allocated another frees, and the first one uses it again. */

#define HANDED 10000

static uint64_t *handed[HANDED];

static void *allocate_handed(void *context)
{
    (void)context;
    for (int i = 0; i < HANDED; i++)
        handed[i] = ec_pool_alloc(pool);
    return NULL;
}

static void *free_handed(void *context)
{
    (void)context;
    for (int i = 0; i < HANDED; i++)
        ec_pool_free(pool, handed[i]);
    return NULL;
}

static void run(void *(*function)(void *))
{
    pthread_t thread;

    ck_assert_int_eq(pthread_create(&thread, NULL, function, NULL), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

/* At most one word of blocks more per magazine than are out. */
#define ROOM_BYTES (HANDED * 64 + 3 * 65536)

START_TEST(a_thread_that_only_frees_gives_blocks_back_to_their_owner)
{
    make_pool(&rows->sink, &descs[0]);
    for (int i = 0; i < 10; i++) {
        allocate_handed(NULL);
        run(free_handed);
        ck_assert_uint_le(stats_now().capacity_bytes, ROOM_BYTES);
    }
    ck_assert_uint_eq(stats_now().count, 0);
    ec_pool_destroy(pool);
}
END_TEST

START_TEST(a_thread_that_ended_leaves_its_groups_to_the_others)
{
    make_pool(&rows->sink, &descs[0]);
    for (int i = 0; i < 10; i++) {
        run(allocate_handed);
        free_handed(NULL);
        allocate_handed(NULL);
        run(free_handed);
        ck_assert_uint_le(stats_now().capacity_bytes, ROOM_BYTES);
    }
    ec_pool_destroy(pool);
}
END_TEST

START_TEST(a_limit_is_reached_though_a_dead_thread_had_the_blocks)
{
    make_pool(&rows->sink,
              &(struct ec_pool_desc) { .name = "p", .block_bytes = 64, .blocks_max = HANDED });
    run(allocate_handed);
    ck_assert_ptr_null(ec_pool_alloc(pool));
    free_handed(NULL);
    allocate_handed(NULL);
    for (int i = 0; i < HANDED; i++)
        ck_assert_ptr_nonnull(handed[i]);
    ck_assert_uint_eq(stats_now().failed, 1);
    ec_pool_destroy(pool);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pool_heap");
    TCase *tcase = tcase_create("pool_heap");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, blocks_survive_the_way_between_threads_and_the_end_of_threads, 0,
                        sizeof descs / sizeof descs[0]);
    tcase_add_loop_test(tcase, the_same_holds_for_private_counters, 0,
                        sizeof descs / sizeof descs[0]);
    tcase_add_test(tcase, more_threads_than_rows_are_counted_all_the_same);
    tcase_add_test(tcase, a_thread_that_only_frees_gives_blocks_back_to_their_owner);
    tcase_add_test(tcase, a_thread_that_ended_leaves_its_groups_to_the_others);
    tcase_add_test(tcase, a_limit_is_reached_though_a_dead_thread_had_the_blocks);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
