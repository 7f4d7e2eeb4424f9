/* The pool promises: blocks are aligned and disjoint, its numbers are right after every call, and it
 * refuses what is no block of its own. */
#include "foundation/memory/pool.h"

#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "foundation/memory/pool_threads.h"
#include "foundation/memory/watch.h"
#include "support/memory_rows.h"
#include "support/often.h"
#include "support/segv.h"

static struct memory_rows *rows;

static void setup(void)
{
    rows = memory_rows_create();
}

static void teardown(void)
{
    memory_rows_destroy(rows);
}

static struct ec_pool *make(struct ec_memory_sink *sink, struct ec_pool_desc desc)
{
    struct ec_error why = { 0 };
    struct ec_pool *pool;

    if (desc.name == NULL)
        desc.name = "pool";
    ck_assert_msg(ec_pool_create_in(sink, &desc, &pool, &why) == EC_OK, "%s", why.text);
    return pool;
}

static struct ec_memory_stats stats_of(const struct ec_pool *pool)
{
    struct ec_memory_stats stats;

    ec_pool_stats(pool, &stats);
    return stats;
}

static const struct {
    struct ec_pool_desc desc;
    int rc;
    const char *text;
} bad_descs[] = {
    { { .block_bytes = 64 }, EC_ERR_PARAM, "pool: name has 0 bytes, expected 1..31 bytes" },
    { { .name = "p", .block_bytes = 64, .tag = 1000 },
      EC_ERR_PARAM,
      "pool: tag is 1000, expected 0..63" },
    { { .name = "p" }, EC_ERR_SIZE, "pool \"p\": block_bytes is 0, expected 1..65536" },
    { { .name = "p", .block_bytes = 65537 },
      EC_ERR_SIZE,
      "pool \"p\": block_bytes is 65537, expected 1..65536" },
    { { .name = "p", .block_bytes = SIZE_MAX },
      EC_ERR_SIZE,
      "pool \"p\": block_bytes is 18446744073709551615, expected 1..65536" },
    { { .name = "p", .block_bytes = 64, .align = 48 },
      EC_ERR_PARAM,
      "pool \"p\": align is 48, expected a power of two, 16..65536" },
    { { .name = "p", .block_bytes = 64, .align = 8 },
      EC_ERR_PARAM,
      "pool \"p\": align is 8, expected a power of two, 16..65536" },
    { { .name = "p", .block_bytes = 64, .align = 131072 },
      EC_ERR_PARAM,
      "pool \"p\": align is 131072, expected a power of two, 16..65536" },
    { { .name = "p", .block_bytes = 64, .magazine_blocks = 15 },
      EC_ERR_PARAM,
      "pool \"p\": magazine_blocks is 15, expected 16..256" },
    { { .name = "p", .block_bytes = 64, .magazine_blocks = 257 },
      EC_ERR_PARAM,
      "pool \"p\": magazine_blocks is 257, expected 16..256" },
};

START_TEST(a_bad_description_is_refused_with_its_value_and_limit)
{
    struct ec_pool *pool = (struct ec_pool *)rows;
    struct ec_error why = { 0 };

    ck_assert_int_eq(ec_pool_create_in(&rows->sink, &bad_descs[_i].desc, &pool, &why),
                     bad_descs[_i].rc);
    ck_assert_str_eq(why.text, bad_descs[_i].text);
    ck_assert_ptr_null(pool);
    ck_assert_uint_eq(memory_rows_listed(rows), 0);
}
END_TEST

/* Three sizes per alignment, into the third group and back. */
START_TEST(every_block_is_aligned)
{
    const size_t align = (size_t)16 << _i;
    const size_t sizes[] = { align / 2 + 1, align, 3 * align };

    for (size_t s = 0; s < 3 && sizes[s] <= 65536; s++) {
        struct ec_pool *pool =
            make(NULL, (struct ec_pool_desc) { .block_bytes = sizes[s], .align = align });
        void *blocks[10000];
        size_t count = 0;

        do {
            blocks[count] = ec_pool_alloc(pool);
            ASSERT_OFTEN(blocks[count] != NULL);
            ASSERT_OFTEN((uintptr_t)blocks[count] % align == 0);
            memset(blocks[count], 1, sizes[s]);
            count++;
        } while (stats_of(pool).capacity_bytes < 500000 && count < 10000);
        while (count > 0)
            ASSERT_OFTEN(ec_pool_free(pool, blocks[--count]) == EC_OK);
        ec_pool_destroy(pool);
    }
}
END_TEST

START_TEST(a_limited_pool_has_exactly_its_blocks)
{
    struct ec_pool *pool =
        make(&rows->sink, (struct ec_pool_desc) { .block_bytes = 64, .blocks_max = (uint64_t)_i });
    void *blocks[3000];

    for (int i = 0; i < _i; i++) {
        blocks[i] = ec_pool_alloc(pool);
        ck_assert_ptr_nonnull(blocks[i]);
    }
    ck_assert_ptr_null(ec_pool_alloc(pool));
    ck_assert_ptr_null(ec_pool_alloc(pool));
    ck_assert_uint_eq(stats_of(pool).failed, 2);
    ck_assert_uint_eq(stats_of(pool).count, (unsigned)_i);
    ck_assert_uint_eq(stats_of(pool).capacity_bytes, 64u * (unsigned)_i);
    ck_assert_uint_eq(stats_of(pool).largest_free_bytes, 0);
    ck_assert_uint_eq(memory_rows_allocator(rows, "pool").failed, 2);
    ck_assert_int_eq(ec_pool_free(pool, blocks[0]), EC_OK);
    blocks[0] = ec_pool_alloc(pool);
    ck_assert_ptr_nonnull(blocks[0]);
    for (int i = 0; i < _i; i++)
        ck_assert_int_eq(ec_pool_free(pool, blocks[i]), EC_OK);
    ck_assert_uint_gt(ec_pool_trim(pool), 0);
    ck_assert_uint_eq(stats_of(pool).capacity_bytes, 0);
    for (int i = 0; i < _i; i++)
        ck_assert_ptr_nonnull(ec_pool_alloc(pool));
    ck_assert_ptr_null(ec_pool_alloc(pool));
    ec_pool_destroy(pool);
}
END_TEST

START_TEST(a_reader_sees_each_call_at_once)
{
    struct ec_pool *pool =
        make(&rows->sink,
             (struct ec_pool_desc) { .name = "sparks", .tag = EC_TAG_PHYSICS, .block_bytes = 100 });
    void *blocks[300];

    for (uint64_t i = 0; i < 300; i++) {
        blocks[i] = ec_pool_alloc(pool);
        ck_assert_uint_eq(memory_rows_tag(rows, EC_TAG_PHYSICS).bytes, 112 * (i + 1));
        ck_assert_uint_eq(memory_rows_tag(rows, EC_TAG_PHYSICS).count, i + 1);
        ck_assert_uint_eq(memory_rows_allocator(rows, "sparks").count, i + 1);
        ck_assert_uint_eq(memory_rows_allocator(rows, "sparks").current_bytes, 112 * (i + 1));
        ck_assert_uint_eq(memory_rows_allocator(rows, "sparks").total, i + 1);
    }
    for (uint64_t i = 300; i > 0; i--) {
        ck_assert_int_eq(ec_pool_free(pool, blocks[i - 1]), EC_OK);
        ck_assert_uint_eq(memory_rows_tag(rows, EC_TAG_PHYSICS).count, i - 1);
        ck_assert_uint_eq(memory_rows_allocator(rows, "sparks").count, i - 1);
    }
    ck_assert_uint_ge(stats_of(pool).peak_bytes, 112 * (300 - 128));
    ck_assert_uint_le(stats_of(pool).peak_bytes, 112 * 300);
    ck_assert_uint_eq(memory_rows_tag(rows, EC_TAG_PHYSICS).peak_bytes, stats_of(pool).peak_bytes);
    ec_pool_destroy(pool);
    ck_assert_uint_eq(memory_rows_tag(rows, EC_TAG_PHYSICS).total, 300);
    ck_assert_uint_eq(memory_rows_listed(rows), 0);
}
END_TEST

START_TEST(blocks_that_are_still_out_end_with_the_pool)
{
    struct ec_pool *pool =
        make(&rows->sink, (struct ec_pool_desc) { .block_bytes = 64, .tag = EC_TAG_AI });

    for (int i = 0; i < 1000; i++)
        ck_assert_ptr_nonnull(ec_pool_alloc(pool));
    ck_assert_uint_eq(memory_rows_tag(rows, EC_TAG_AI).bytes, 64000);
    ec_pool_destroy(pool);
    ck_assert_uint_eq(memory_rows_tag(rows, EC_TAG_AI).bytes, 0);
    ck_assert_uint_eq(memory_rows_tag(rows, EC_TAG_AI).count, 0);
    ck_assert_uint_eq(memory_rows_tag(rows, EC_TAG_AI).total, 1000);
    ck_assert_int_eq(atomic_load(&rows->sink.live_bytes[EC_TAG_AI]), 0);
}
END_TEST

START_TEST(the_129th_allocator_works_unlisted)
{
    struct ec_pool *pools[EC_ALLOCATORS_MAX + 1];
    struct ec_pool *last;
    void *blocks[1000];

    for (int i = 0; i <= EC_ALLOCATORS_MAX; i++)
        pools[i] = make(&rows->sink, (struct ec_pool_desc) { .block_bytes = 64, .tag = EC_TAG_UI });
    last = pools[EC_ALLOCATORS_MAX];
    for (int i = 0; i < 1000; i++)
        blocks[i] = ec_pool_alloc(last);
    ck_assert_uint_eq(stats_of(last).count, 1000);
    /* exact to a magazine */
    ck_assert_uint_ge(memory_rows_tag(rows, EC_TAG_UI).count, 1000 - 128);
    ck_assert_uint_le(memory_rows_tag(rows, EC_TAG_UI).count, 1000);
    for (int i = 0; i < 900; i++)
        ck_assert_int_eq(ec_pool_free(last, blocks[i]), EC_OK);
    for (int i = 0; i <= EC_ALLOCATORS_MAX; i++)
        ec_pool_destroy(pools[i]);
    ck_assert_uint_eq(memory_rows_tag(rows, EC_TAG_UI).count, 0);
    ck_assert_uint_eq(memory_rows_tag(rows, EC_TAG_UI).bytes, 0);
    ck_assert_uint_eq(memory_rows_tag(rows, EC_TAG_UI).total, 1000);
}
END_TEST

START_TEST(nothing_may_be_freed)
{
    struct ec_pool *pool = make(NULL, (struct ec_pool_desc) { .block_bytes = 64 });

    ck_assert_int_eq(ec_pool_free(pool, NULL), EC_OK);
    ck_assert_uint_eq(stats_of(pool).failed, 0);
    ec_pool_destroy(pool);
    ec_pool_destroy(NULL);
}
END_TEST

#if defined(EC_TIER_DEBUG) || defined(EC_TIER_DEVELOPMENT)
START_TEST(a_double_free_is_refused_and_counted)
{
    struct ec_pool *pool = make(&rows->sink, (struct ec_pool_desc) { .block_bytes = 64 });
    void *block = ec_pool_alloc(pool);
    void *again;

    ck_assert_int_eq(ec_pool_free(pool, block), EC_OK);
    ck_assert_int_eq(ec_pool_free(pool, block), EC_ERR_STATE);
    ck_assert_uint_eq(stats_of(pool).failed, 1);
    ck_assert_uint_eq(stats_of(pool).count, 0);
    again = ec_pool_alloc(pool);
    ck_assert_ptr_eq(again, block);
    ck_assert_ptr_ne(ec_pool_alloc(pool), block);
    ec_pool_destroy(pool);
}
END_TEST

START_TEST(pointers_that_are_no_block_of_the_pool_are_refused_and_counted)
{
    struct ec_pool *pool = make(NULL, (struct ec_pool_desc) { .block_bytes = 64 });
    struct ec_pool *other = make(NULL, (struct ec_pool_desc) { .block_bytes = 64 });
    char *block = ec_pool_alloc(pool);
    char *of_other = ec_pool_alloc(other);
    char *of_heap = malloc(64);
    char on_stack[64];
    void *const foreign[] = {
        block + 1,
        block + 32,
        (char *)((uintptr_t)block & ~(uintptr_t)65535),
        (char *)((uintptr_t)block | 65535),
        of_other,
        of_heap,
        on_stack,
        (void *)16,
        (void *)UINTPTR_MAX,
    };

    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++)
        ck_assert_int_eq(ec_pool_free(pool, foreign[i]), EC_ERR_PARAM);
    ck_assert_uint_eq(stats_of(pool).failed, sizeof foreign / sizeof foreign[0]);
    ck_assert_uint_eq(stats_of(pool).count, 1);
    ck_assert_int_eq(ec_pool_free(pool, block), EC_OK);
    ck_assert_int_eq(ec_pool_free(other, of_other), EC_OK);
    free(of_heap);
    ec_pool_destroy(pool);
    ec_pool_destroy(other);
}
END_TEST

START_TEST(blocks_beyond_the_limit_are_foreign)
{
    struct ec_pool *pool = make(NULL, (struct ec_pool_desc) { .block_bytes = 64, .blocks_max = 1 });
    char *block = ec_pool_alloc(pool);

    ck_assert_int_eq(ec_pool_free(pool, block + 64), EC_ERR_PARAM);
    ck_assert_int_eq(ec_pool_free(pool, block), EC_OK);
    ec_pool_destroy(pool);
}
END_TEST
#endif

START_TEST(a_frame_load_keeps_its_groups_until_it_is_trimmed)
{
    struct ec_pool *pool = make(&rows->sink, (struct ec_pool_desc) { .block_bytes = 128 });
    static void *blocks[10000];
    uint64_t capacity_bytes = 0;

    for (int frame = 0; frame < 20; frame++) {
        for (int i = 0; i < 10000; i++)
            blocks[i] = ec_pool_alloc(pool);
        if (frame == 0)
            capacity_bytes = stats_of(pool).capacity_bytes;
        ck_assert_uint_eq(stats_of(pool).capacity_bytes, capacity_bytes);
        for (int i = 0; i < 10000; i++)
            ASSERT_OFTEN(ec_pool_free(pool, blocks[i]) == EC_OK);
    }
    ck_assert_uint_le(capacity_bytes, 128 * 10000 + 65536);
    ck_assert_uint_ge(ec_pool_trim(pool), capacity_bytes);
    ck_assert_uint_eq(stats_of(pool).capacity_bytes, 0);
    ck_assert_uint_eq(ec_pool_trim(pool), 0);
    ec_pool_destroy(pool);
}
END_TEST

START_TEST(freed_blocks_are_used_before_new_groups)
{
    struct ec_pool *pool = make(NULL, (struct ec_pool_desc) { .block_bytes = 256 });
    static void *blocks[10000];
    uint64_t capacity_bytes;

    for (int i = 0; i < 10000; i++)
        blocks[i] = ec_pool_alloc(pool);
    capacity_bytes = stats_of(pool).capacity_bytes;
    for (int i = 0; i < 10000; i += 2)
        ASSERT_OFTEN(ec_pool_free(pool, blocks[i]) == EC_OK);
    for (int i = 0; i < 10000; i += 2)
        blocks[i] = ec_pool_alloc(pool);
    ck_assert_uint_eq(stats_of(pool).capacity_bytes, capacity_bytes);
    ec_pool_destroy(pool);
}
END_TEST

/* More pools than a thread has near places for; indices come back. */
START_TEST(forty_pools_do_not_mix_their_blocks)
{
    struct ec_pool *pools[40];
    void *blocks[40][200];

    for (int round = 0; round < 3; round++) {
        for (int p = 0; p < 40; p++)
            pools[p] = make(NULL, (struct ec_pool_desc) { .block_bytes = 16 + (size_t)p * 16 });
        for (int i = 0; i < 200; i++)
            for (int p = 0; p < 40; p++) {
                blocks[p][i] = ec_pool_alloc(pools[p]);
                ASSERT_OFTEN(blocks[p][i] != NULL);
                memset(blocks[p][i], p, 16 + (size_t)p * 16);
            }
        for (int p = 0; p < 40; p++)
            for (int i = 0; i < 200; i++) {
                ASSERT_OFTEN(((char *)blocks[p][i])[15 + p * 16] == p);
                ASSERT_OFTEN(ec_pool_free(pools[p], blocks[p][i]) == EC_OK);
            }
        for (int p = 0; p < 40; p++) {
            ck_assert_uint_eq(stats_of(pools[p]).total, 200);
            ck_assert_uint_eq(stats_of(pools[p]).count, 0);
            ec_pool_destroy(pools[p]);
        }
    }
}
END_TEST

/* Random operations against a list of what ought to be out. */

static const struct ec_pool_desc model_descs[] = {
    { .block_bytes = 1 },
    { .block_bytes = 24, .magazine_blocks = 16 },
    { .block_bytes = 64, .align = 64, .magazine_blocks = 256 },
    { .block_bytes = 200, .blocks_max = 700 },
    { .block_bytes = 1000, .blocks_max = 1500, .magazine_blocks = 17 },
    { .block_bytes = 1024 },
    { .block_bytes = 3000, .align = 4096 },
    { .block_bytes = 65536, .align = 65536, .blocks_max = 100 },
};

static uint64_t random_state;

static uint64_t random_below(uint64_t limit)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % limit;
}

struct model_block {
    unsigned char *at;
    unsigned char fill;
};

static struct {
    struct model_block blocks[2000];
    size_t count, highest;
    uint64_t total, failed;
} model;

static void model_alloc(struct ec_pool *pool, const struct ec_pool_desc *desc)
{
    unsigned char *at = ec_pool_alloc(pool);
    const bool full = desc->blocks_max != 0 && model.count == desc->blocks_max;

    ASSERT_OFTEN((at == NULL) == full);
    if (at == NULL) {
        model.failed++;
        return;
    }
    model.blocks[model.count] = (struct model_block) { at, (unsigned char)random_below(256) };
    memset(at, model.blocks[model.count++].fill, desc->block_bytes);
    if (model.count > model.highest)
        model.highest = model.count;
    model.total++;
}

static bool is_filled(const struct model_block *block, size_t bytes)
{
    return block->at[0] == block->fill && memcmp(block->at, block->at + 1, bytes - 1) == 0;
}

static void model_free(struct ec_pool *pool, const struct ec_pool_desc *desc)
{
    const size_t i = random_below(4) == 0 ? model.count - 1 : random_below(model.count);
    const struct model_block block = model.blocks[i];

    ASSERT_OFTEN(is_filled(&block, desc->block_bytes));
    ASSERT_OFTEN(ec_pool_free(pool, block.at) == EC_OK);
    model.blocks[i] = model.blocks[--model.count];
}

static void model_compare(const struct ec_pool *pool)
{
    const struct ec_memory_stats stats = stats_of(pool);
    const struct ec_tag_sums tag = memory_rows_tag(rows, EC_TAG_PHYSICS);
    const struct ec_allocator_sums row = memory_rows_allocator(rows, "pool");
    const uint64_t block_bytes = atomic_load(&rows->allocators[0].block_bytes);

    ck_assert_uint_eq(stats.count, model.count);
    ck_assert_uint_eq(stats.total, model.total);
    ck_assert_uint_eq(stats.failed, model.failed);
    ck_assert_uint_eq(stats.current_bytes, model.count * block_bytes);
    ck_assert_uint_le(stats.peak_bytes, model.highest * block_bytes);
    ck_assert_uint_ge(stats.peak_bytes + 256 * block_bytes, model.highest * block_bytes);
    ck_assert_uint_ge(stats.capacity_bytes, stats.current_bytes);
    ck_assert_uint_eq(row.count, model.count);
    ck_assert_uint_eq(row.total, model.total);
    ck_assert_uint_eq(row.failed, model.failed);
    ck_assert_uint_eq(row.current_bytes, stats.current_bytes);
    ck_assert_uint_eq(row.capacity_bytes, stats.capacity_bytes);
    ck_assert_uint_eq(tag.count, model.count);
    ck_assert_uint_eq(tag.bytes, stats.current_bytes);
    ck_assert_uint_eq(tag.total, model.total);
}

START_TEST(a_pool_behaves_like_its_model)
{
    struct ec_pool_desc desc = model_descs[_i];
    struct ec_pool *pool;
    const int rounds = desc.block_bytes < 4096 ? 60000 : 10000; /* of large ones each costs more */
    uint64_t bias = 500;

    desc.tag = EC_TAG_PHYSICS;
    pool = make(&rows->sink, desc);
    random_state = 0x9E3779B97F4A7C15ull + (unsigned)_i;
    for (int i = 0; i < rounds; i++) {
        if (i % 2000 == 0)
            bias = 200 + random_below(600); /* let it swell and shrink */
        if (random_below(1000) < bias ? model.count < 2000 : model.count == 0)
            model_alloc(pool, &desc);
        else if (model.count > 0)
            model_free(pool, &desc);
        if (random_below(5000) == 0)
            ec_pool_trim(pool);
        if (i % 250 == 0)
            model_compare(pool);
    }
    while (model.count > 0)
        model_free(pool, &desc);
    model_compare(pool);
    ec_pool_trim(pool);
    ck_assert_uint_eq(stats_of(pool).capacity_bytes, 0);
    ec_pool_destroy(pool);
}
END_TEST

static const size_t guarded_sizes[] = { 1, 16, 24, 1000, 65536 };

/* Asked for, so that it is the same in every tier. */
START_TEST(a_write_behind_a_block_is_found_when_it_is_freed)
{
    const size_t bytes = guarded_sizes[_i];
    struct ec_pool *pool =
        make(NULL, (struct ec_pool_desc) { .block_bytes = bytes, .guard_bytes = true });
    unsigned char *block = ec_pool_alloc(pool);
    const unsigned char guard = block[bytes];

    memset(block, 0, bytes);
    block[bytes] = 0;
    ck_assert_int_eq(ec_pool_free(pool, block), EC_ERR_SIZE);
    ck_assert_uint_eq(stats_of(pool).failed, 1);
    ck_assert_uint_eq(stats_of(pool).count, 1); /* nothing changed */
    block[bytes] = guard;
    ck_assert_int_eq(ec_pool_free(pool, block), EC_OK);
    ck_assert_int_eq(ec_pool_free(pool, block), EC_ERR_STATE);
    ec_pool_destroy(pool);
}
END_TEST

START_TEST(guarded_blocks_are_aligned_and_counted_like_others)
{
    const size_t align = (size_t)16 << _i;
    struct ec_pool *pool =
        make(&rows->sink,
             (struct ec_pool_desc) { .block_bytes = align, .align = align, .guard_bytes = true });
    char *blocks[300];

    for (int i = 0; i < 300; i++) {
        blocks[i] = ec_pool_alloc(pool);
        ASSERT_OFTEN(blocks[i] != NULL && (uintptr_t)blocks[i] % align == 0);
        memset(blocks[i], i, align);
    }
    ck_assert_uint_eq(stats_of(pool).current_bytes, 300 * align);
    for (int i = 0; i < 300; i++)
        ASSERT_OFTEN(ec_pool_free(pool, blocks[i]) == EC_OK);
    ck_assert_uint_eq(stats_of(pool).current_bytes, 0);
    ec_pool_destroy(pool);
}
END_TEST

START_TEST(a_byte_behind_a_guarded_group_ends_the_program)
{
    struct ec_pool *pool =
        make(NULL, (struct ec_pool_desc) { .block_bytes = 1024, .guard_pages = true });
    char *block = ec_pool_alloc(pool);

    ((volatile char *)((uintptr_t)block & ~(uintptr_t)0x3FFFF))[0x40000] = 1;
}
END_TEST

START_TEST(groups_can_lie_in_a_range_and_are_used_again)
{
    const size_t bytes = 10 * EC_SPACE_UNIT_BYTES;
    char *range = aligned_alloc(65536, bytes);
    struct ec_space space;
    struct ec_pool *pool;
    void *blocks[8000];
    int count = 0;

    memset(range, 0xFF, bytes); /* what an earlier user left */
    ck_assert_int_eq(ec_space_init(&space, range, bytes, NULL), EC_OK);
    rows->sink.space = &space;
    for (int round = 0; round < 3; round++) {
        pool = make(&rows->sink, (struct ec_pool_desc) { .block_bytes = 128, .in_segment = true });
        for (count = 0; (blocks[count] = ec_pool_alloc(pool)) != NULL; count++)
            ASSERT_OFTEN((char *)blocks[count] >= range && (char *)blocks[count] < range + bytes);
        ck_assert_int_gt(count, 10 * 400);
        ck_assert_uint_eq(stats_of(pool).failed, 1);
        while (count > 0)
            ASSERT_OFTEN(ec_pool_free(pool, blocks[--count]) == EC_OK);
        ck_assert_uint_eq(ec_pool_trim(pool), bytes);
        ec_pool_destroy(pool);
    }
    rows->sink.space = NULL;
    ec_space_finish(&space);
    free(range);
}
END_TEST

/* Free memory in groups without a live block is fit for others; all of it elsewhere is not. */
START_TEST(free_memory_is_unusable_for_others_while_its_group_is_in_use)
{
    struct ec_pool *pool = make(&rows->sink, (struct ec_pool_desc) { .block_bytes = 64 });
    struct ec_allocator_sums sums;
    void *blocks[5000];

    for (int i = 0; i < 5000; i++)
        blocks[i] = ec_pool_alloc(pool);
    for (int i = 0; i < 5000; i += 2)
        ec_pool_free(pool, blocks[i]);
    sums = memory_rows_allocator(rows, "pool");
    ck_assert_uint_eq(sums.unusable_bytes, sums.capacity_bytes - sums.current_bytes);
    for (int i = 1; i < 5000; i += 2)
        ec_pool_free(pool, blocks[i]);
    sums = memory_rows_allocator(rows, "pool");
    ck_assert_uint_lt(sums.unusable_bytes, sums.capacity_bytes / 2); /* what magazines hold */
    ec_pool_trim(pool);
    sums = memory_rows_allocator(rows, "pool");
    ck_assert_uint_eq(sums.unusable_bytes, 0);
    ck_assert_uint_eq(sums.capacity_bytes, 0);
    ec_pool_destroy(pool);
}
END_TEST

static void watched_allocated(void *context, const void *block, size_t bytes, uint32_t tag)
{
    ck_assert_ptr_nonnull(block);
    ((uint64_t *)context)[0] += bytes;
    ((uint64_t *)context)[2] += tag;
}

static void watched_freed(void *context, const void *block, size_t bytes, uint32_t tag)
{
    ck_assert_ptr_nonnull(block);
    ((uint64_t *)context)[1] += bytes;
    ((uint64_t *)context)[2] -= tag;
}

static void watched_ended(void *context, const void *base, size_t bytes)
{
    ck_assert_ptr_nonnull(base);
    ((uint64_t *)context)[3] += bytes;
}

START_TEST(who_watches_the_sink_hears_of_each_block)
{
    uint64_t seen[4] = { 0 };
    const struct ec_memory_watch watch = { watched_allocated, watched_freed, watched_ended, seen };
    struct ec_pool *pool =
        make(&rows->sink, (struct ec_pool_desc) { .block_bytes = 48, .tag = EC_TAG_UI });
    void *block;

    ec_memory_watch_set(&rows->sink, &watch);
    block = ec_pool_alloc(pool);
    ck_assert_uint_eq(seen[0], 48);
    ck_assert_uint_eq(seen[2], EC_TAG_UI);
    ck_assert_int_eq(ec_pool_free(pool, block), EC_OK);
    ck_assert_uint_eq(seen[1], 48);
    ck_assert_uint_eq(seen[2], 0);
    ec_memory_watch_set(&rows->sink, NULL);
    block = ec_pool_alloc(pool);
    ck_assert_uint_eq(seen[0], 48);
    ck_assert_uint_eq(seen[3], 0);
    ec_memory_watch_set(&rows->sink, &watch);
    ec_pool_destroy(pool);
    ck_assert_uint_eq(seen[3], 65536); /* its one group */
}
END_TEST

START_TEST(a_magazine_grows_where_it_is_emptied_and_filled_again_and_again)
{
    struct ec_pool *pool = make(NULL, (struct ec_pool_desc) { .block_bytes = 64 });
    struct ec_pool *fixed =
        make(NULL, (struct ec_pool_desc) { .block_bytes = 64, .magazine_blocks = 128 });
    void *blocks[1000];

    for (int round = 0; round < 8; round++)
        for (int p = 0; p < 2; p++) {
            for (int i = 0; i < 1000; i++)
                blocks[i] = ec_pool_alloc(p == 0 ? pool : fixed);
            for (int i = 1000; i > 0; i--)
                ASSERT_OFTEN(ec_pool_free(p == 0 ? pool : fixed, blocks[i - 1]) == EC_OK);
        }
    ck_assert_uint_eq(ec_pool_thread_heap(pool)->capacity, 1024);
    ck_assert_uint_eq(ec_pool_thread_heap(fixed)->capacity, 128);
    ec_pool_destroy(pool);
    ec_pool_destroy(fixed);
}
END_TEST

/* As a release makes it: nothing is marked from the start. */
static struct ec_pool *make_unmarked(void)
{
    struct ec_pool *pool = make(&rows->sink, (struct ec_pool_desc) { .block_bytes = 64 });

    atomic_fetch_and(&pool->unusual, ~EC_POOL_MARKED);
    pool->shape.guard_from = 0;
    return pool;
}

static _Atomic uint64_t faults;

START_TEST(checks_that_begin_later_find_what_is_freed_twice_from_then_on)
{
    struct ec_pool *pool = make_unmarked(), *later;
    char *early = ec_pool_alloc(pool), *other = ec_pool_alloc(pool), *block;

    rows->sink.faults = &faults;
    ck_assert_int_eq(ec_memory_checks_set(&rows->sink, true), EC_OK);
    ck_assert_int_eq(ec_pool_free(pool, early), EC_OK);
    ck_assert_int_eq(ec_pool_free(pool, early), EC_ERR_STATE);
    ck_assert_int_eq(ec_pool_free(pool, other + 1), EC_ERR_PARAM);
    ck_assert_int_eq(ec_pool_free(pool, &faults), EC_ERR_PARAM);
    ck_assert_uint_eq(faults, 3);
    ck_assert_uint_eq(stats_of(pool).failed, 3);
    ck_assert_uint_eq(stats_of(pool).count, 1);
    block = ec_pool_alloc(pool);
    ck_assert_ptr_eq(block, early);
    ck_assert_int_eq(ec_pool_free(pool, block), EC_OK);
    later = make_unmarked(); /* one that is made meanwhile is looked at, too */
    block = ec_pool_alloc(later);
    ck_assert_int_eq(ec_pool_free(later, block), EC_OK);
    ck_assert_int_eq(ec_pool_free(later, block), EC_ERR_STATE);
    /* What was marked before they ended says nothing when they begin again. */
    ck_assert_int_eq(ec_memory_checks_set(&rows->sink, false), EC_OK);
    block = ec_pool_alloc(pool);
    ck_assert_ptr_eq(block, early);
    ck_assert_int_eq(ec_memory_checks_set(&rows->sink, true), EC_OK);
    ck_assert_int_eq(ec_pool_free(pool, block), EC_OK);
    ck_assert_int_eq(ec_pool_free(pool, block), EC_ERR_STATE);
    ck_assert_int_eq(ec_pool_free(pool, other), EC_OK);
    ck_assert_uint_eq(stats_of(pool).count, 0);
    ec_pool_destroy(later);
    ec_pool_destroy(pool);
}
END_TEST

START_TEST(checks_can_begin_255_times)
{
    struct ec_pool *pool = make_unmarked();
    void *block;

    for (int i = 0; i < 255; i++) {
        ck_assert_int_eq(ec_memory_checks_set(&rows->sink, true), EC_OK);
        ck_assert_int_eq(ec_memory_checks_set(&rows->sink, true), EC_OK); /* the same time */
        block = ec_pool_alloc(pool);
        ck_assert_int_eq(ec_pool_free(pool, block), EC_OK);
        ck_assert_int_eq(ec_pool_free(pool, block), EC_ERR_STATE);
        if (i < 254)
            ck_assert_int_eq(ec_memory_checks_set(&rows->sink, false), EC_OK);
    }
    ck_assert_int_eq(ec_memory_checks_set(&rows->sink, true), EC_OK); /* still on */
    ck_assert_int_eq(ec_memory_checks_set(&rows->sink, false), EC_OK);
    ck_assert_int_eq(ec_memory_checks_set(&rows->sink, true), EC_ERR_LIMIT);
    ec_pool_destroy(pool);
}
END_TEST

#define SWAPPERS 3
#define SWAPS 20000
#define PLACES 64

static struct {
    struct ec_pool *pool;
    _Atomic(void *) place[PLACES];
    _Atomic unsigned ended;
} swap;

/* Blocks go from thread to thread, and whoever gets one frees it. */
static void *swap_blocks(void *context)
{
    uint64_t random = (uintptr_t)context;

    for (int i = 0; i < SWAPS; i++) {
        void *block = ec_pool_alloc(swap.pool);

        random = random * 6364136223846793005u + 1442695040888963407u;
        block = atomic_exchange(&swap.place[random >> 58], block);
        if (ec_pool_free(swap.pool, block) != EC_OK)
            abort();
    }
    atomic_fetch_add(&swap.ended, 1);
    return NULL;
}

START_TEST(checks_that_come_and_go_refuse_nothing_that_is_right)
{
    pthread_t threads[SWAPPERS];
    bool on = false;

    rows->sink.faults = &faults;
    swap.pool = make_unmarked();
    for (uintptr_t i = 0; i < SWAPPERS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, swap_blocks, (void *)(i + 1)), 0);
    while (atomic_load(&swap.ended) < SWAPPERS) {
        const int rc = ec_memory_checks_set(&rows->sink, on = !on);

        ASSERT_OFTEN(rc == EC_OK || rc == EC_ERR_LIMIT);
        sched_yield();
    }
    for (int i = 0; i < SWAPPERS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < PLACES; i++)
        ck_assert_int_eq(ec_pool_free(swap.pool, swap.place[i]), EC_OK);
    ck_assert_uint_eq(faults, 0);
    ck_assert_uint_eq(stats_of(swap.pool).failed, 0);
    ck_assert_uint_eq(stats_of(swap.pool).count, 0);
    ec_pool_destroy(swap.pool);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pool");
    TCase *tcase = tcase_create("pool");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, a_bad_description_is_refused_with_its_value_and_limit, 0,
                        sizeof bad_descs / sizeof bad_descs[0]);
    tcase_add_loop_test(tcase, every_block_is_aligned, 0, 13);
    tcase_add_loop_test(tcase, a_limited_pool_has_exactly_its_blocks, 1, 3);
    tcase_add_loop_test(tcase, a_limited_pool_has_exactly_its_blocks, 126, 130);
    tcase_add_loop_test(tcase, a_limited_pool_has_exactly_its_blocks, 2500, 2501);
    tcase_add_test(tcase, a_reader_sees_each_call_at_once);
    tcase_add_test(tcase, blocks_that_are_still_out_end_with_the_pool);
    tcase_add_test(tcase, the_129th_allocator_works_unlisted);
    tcase_add_test(tcase, nothing_may_be_freed);
#if defined(EC_TIER_DEBUG) || defined(EC_TIER_DEVELOPMENT)
    tcase_add_test(tcase, a_double_free_is_refused_and_counted);
    tcase_add_test(tcase, pointers_that_are_no_block_of_the_pool_are_refused_and_counted);
    tcase_add_test(tcase, blocks_beyond_the_limit_are_foreign);
#endif
    tcase_add_test(tcase, a_frame_load_keeps_its_groups_until_it_is_trimmed);
    tcase_add_test(tcase, freed_blocks_are_used_before_new_groups);
    tcase_add_test(tcase, forty_pools_do_not_mix_their_blocks);
    tcase_add_loop_test(tcase, a_pool_behaves_like_its_model, 0,
                        sizeof model_descs / sizeof model_descs[0]);
    tcase_add_loop_test(tcase, a_write_behind_a_block_is_found_when_it_is_freed, 0, 5);
    tcase_add_loop_test(tcase, guarded_blocks_are_aligned_and_counted_like_others, 0, 13);
    tcase_add_segv_test(tcase, a_byte_behind_a_guarded_group_ends_the_program);
    tcase_add_test(tcase, groups_can_lie_in_a_range_and_are_used_again);
    tcase_add_test(tcase, free_memory_is_unusable_for_others_while_its_group_is_in_use);
    tcase_add_test(tcase, who_watches_the_sink_hears_of_each_block);
    tcase_add_test(tcase, a_magazine_grows_where_it_is_emptied_and_filled_again_and_again);
    tcase_add_test(tcase, checks_that_begin_later_find_what_is_freed_twice_from_then_on);
    tcase_add_test(tcase, checks_can_begin_255_times);
    tcase_add_test(tcase, checks_that_come_and_go_refuse_nothing_that_is_right);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
