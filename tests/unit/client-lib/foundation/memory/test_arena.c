/* The arena promises: blocks are aligned and do not overlap, what is given back is counted back, and
 * an arena that is full says so in the way that was asked for. */
#include "foundation/memory/arena.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "support/memory_rows.h"
#include "support/often.h"

static struct memory_rows *rows;

static void setup(void)
{
    rows = memory_rows_create();
}

static void teardown(void)
{
    memory_rows_destroy(rows);
}

static struct ec_arena *make(struct ec_memory_sink *sink, struct ec_arena_desc desc)
{
    struct ec_error why = { 0 };
    struct ec_arena *arena;

    if (desc.name == NULL)
        desc.name = "arena";
    ck_assert_msg(ec_arena_create_in(sink, &desc, &arena, &why) == EC_OK, "%s", why.text);
    return arena;
}

static struct ec_memory_stats stats_of(const struct ec_arena *arena)
{
    struct ec_memory_stats stats;

    ec_arena_stats(arena, &stats);
    return stats;
}

static const struct {
    struct ec_arena_desc desc;
    int rc;
    const char *text;
} bad_descs[] = {
    { { .bytes = 4096 }, EC_ERR_PARAM, "arena: name has 0 bytes, expected 1..31 bytes" },
    { { .name = "a", .bytes = 4096, .tag = 64 }, EC_ERR_PARAM, "arena: tag is 64, expected 0..63" },
    { { .name = "a" }, EC_ERR_SIZE, "arena \"a\": bytes is 0, expected 64..1099511627776" },
    { { .name = "a", .bytes = SIZE_MAX },
      EC_ERR_SIZE,
      "arena \"a\": bytes is 18446744073709551615, expected 64..1099511627776" },
    { { .name = "a", .bytes = 4096, .limit_bytes = 4095 },
      EC_ERR_SIZE,
      "arena \"a\": limit_bytes is 4095, less than bytes (4096)" },
};

START_TEST(a_bad_description_is_refused_with_its_value_and_limit)
{
    struct ec_arena *arena = (struct ec_arena *)rows;
    struct ec_error why = { 0 };

    ck_assert_int_eq(ec_arena_create_in(&rows->sink, &bad_descs[_i].desc, &arena, &why),
                     bad_descs[_i].rc);
    ck_assert_str_eq(why.text, bad_descs[_i].text);
    ck_assert_ptr_null(arena);
    ck_assert_uint_eq(memory_rows_listed(rows), 0);
}
END_TEST

START_TEST(sizes_that_no_block_can_have_are_refused_and_counted)
{
    struct ec_arena *arena =
        make(&rows->sink, (struct ec_arena_desc) { .bytes = 4096, .heap_fallback = true });
    volatile size_t huge = SIZE_MAX; /* so that the compiler does not know it */

    ck_assert_ptr_null(ec_arena_alloc(arena, huge + 1, 16));
    ck_assert_ptr_null(ec_arena_alloc(arena, huge, 16));
    ck_assert_ptr_null(ec_arena_alloc(arena, huge / 2, 16));
    ck_assert_ptr_null(ec_arena_alloc_array(arena, huge / 8 + 1, 8, 0));
    ck_assert_ptr_null(ec_arena_alloc_array(arena, huge + 1, 8, 0));
    ck_assert_uint_eq(stats_of(arena).failed, 5);
    ck_assert_uint_eq(stats_of(arena).count, 0);
    ck_assert_uint_eq(stats_of(arena).current_bytes, 0);
    ec_arena_destroy(arena);
}
END_TEST

static const size_t bad_aligns[] = { 3, 24, SIZE_MAX, (size_t)4 << 20, (size_t)1 << 63 };

START_TEST(what_is_no_alignment_is_refused_and_counted)
{
    struct ec_arena *arena = make(&rows->sink, (struct ec_arena_desc) { .bytes = 4096 });

    ck_assert_ptr_null(ec_arena_alloc(arena, 16, bad_aligns[_i]));
    ck_assert_ptr_nonnull(ec_arena_alloc(arena, 16, 16));
    ck_assert_ptr_null(ec_arena_alloc(arena, 16, bad_aligns[_i]));
    ck_assert_uint_eq(stats_of(arena).failed, 2);
    ck_assert_uint_eq(stats_of(arena).count, 1);
    ec_arena_destroy(arena);
}
END_TEST

/* First, last and fallback block, and the first of a further chunk. */
START_TEST(every_block_is_aligned_wherever_it_comes_from)
{
    const size_t align = (size_t)1 << _i;
    struct ec_arena *fixed =
        make(NULL, (struct ec_arena_desc) { .bytes = 3 * align + 64, .heap_fallback = true });
    struct ec_arena *growing =
        make(NULL, (struct ec_arena_desc) { .bytes = 64, .growth_bytes = 64 });

    for (int i = 0; i < 8 || stats_of(fixed).fallbacks < 2; i++) {
        char *of_fixed = ec_arena_alloc(fixed, align / 2 + 1, align);
        char *of_growing = ec_arena_alloc(growing, align / 2 + 1, align);

        ck_assert_ptr_nonnull(of_fixed);
        ck_assert_ptr_nonnull(of_growing);
        ck_assert_uint_eq((uintptr_t)of_fixed & (align - 1), 0);
        ck_assert_uint_eq((uintptr_t)of_growing & (align - 1), 0);
        memset(of_fixed, i, align / 2 + 1);
        memset(of_growing, i, align / 2 + 1);
    }
    ck_assert_uint_eq(stats_of(growing).fallbacks, 0);
    ec_arena_destroy(fixed);
    ec_arena_destroy(growing);
}
END_TEST

START_TEST(no_alignment_means_16)
{
    struct ec_arena *arena = make(NULL, (struct ec_arena_desc) { .bytes = 4096 });
    char *first = ec_arena_alloc(arena, 1, 0);

    ck_assert_ptr_eq(ec_arena_alloc(arena, 1, 0), first + 16);
    ck_assert_ptr_eq(ec_arena_alloc(arena, 1, 1), first + 17);
    ec_arena_destroy(arena);
}
END_TEST

START_TEST(a_fixed_arena_is_full_to_the_last_byte)
{
    struct ec_arena *arena = make(&rows->sink, (struct ec_arena_desc) { .bytes = 1024 });

    for (int i = 0; i < 64; i++)
        ck_assert_ptr_nonnull(ec_arena_alloc(arena, 16, 16));
    ck_assert_ptr_null(ec_arena_alloc(arena, 1, 1));
    ck_assert_uint_eq(stats_of(arena).current_bytes, 1024);
    ck_assert_uint_eq(stats_of(arena).capacity_bytes, 1024);
    ck_assert_uint_eq(stats_of(arena).failed, 1);
    ec_arena_reset(arena);
    ck_assert_uint_eq(stats_of(arena).largest_free_bytes, 1024);
    ck_assert_ptr_nonnull(ec_arena_alloc(arena, 1024, 16));
    ec_arena_destroy(arena);
}
END_TEST

START_TEST(growth_ends_at_the_limit)
{
    struct ec_arena *arena =
        make(&rows->sink,
             (struct ec_arena_desc) { .bytes = 1024, .growth_bytes = 1024, .limit_bytes = 3000 });

    for (int i = 0; i < 2; i++)
        ck_assert_ptr_nonnull(ec_arena_alloc(arena, 1024, 1));
    ck_assert_ptr_null(ec_arena_alloc(arena, 1024, 1));
    ck_assert_uint_eq(stats_of(arena).capacity_bytes, 2048);
    ck_assert_uint_eq(stats_of(arena).failed, 1);
    ec_arena_destroy(arena);
}
END_TEST

START_TEST(chunks_are_kept_and_used_again)
{
    struct ec_arena *arena =
        make(NULL, (struct ec_arena_desc) { .bytes = 1024, .growth_bytes = 1024 });
    uint64_t capacity_bytes = 0;

    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < 20; i++)
            ck_assert_ptr_nonnull(ec_arena_alloc(arena, 500 + (size_t)(i % 3) * 400, 16));
        if (round == 0)
            capacity_bytes = stats_of(arena).capacity_bytes;
        ck_assert_uint_eq(stats_of(arena).capacity_bytes, capacity_bytes);
        ec_arena_reset(arena);
        ck_assert_uint_eq(stats_of(arena).current_bytes, 0);
    }
    ec_arena_destroy(arena);
}
END_TEST

START_TEST(a_kept_chunk_that_is_too_small_is_passed_over_and_not_lost)
{
    struct ec_arena *arena = make(NULL, (struct ec_arena_desc) { .bytes = 64, .growth_bytes = 64 });

    ck_assert_ptr_nonnull(ec_arena_alloc(arena, 64, 1));
    ck_assert_ptr_nonnull(ec_arena_alloc(arena, 100, 1));  /* chunk of 100 */
    ck_assert_ptr_nonnull(ec_arena_alloc(arena, 1000, 1)); /* chunk of 1000 */
    ec_arena_reset(arena);
    ck_assert_ptr_nonnull(ec_arena_alloc(arena, 1000, 1));
    ck_assert_ptr_nonnull(ec_arena_alloc(arena, 100, 1));
    ck_assert_uint_eq(stats_of(arena).capacity_bytes, 64 + 100 + 1000);
    ec_arena_destroy(arena);
}
END_TEST

START_TEST(fallback_blocks_are_counted_and_end_with_the_reset)
{
    struct ec_arena *arena =
        make(&rows->sink, (struct ec_arena_desc) { .bytes = 64, .heap_fallback = true });
    char *block;

    ck_assert_ptr_nonnull(ec_arena_alloc(arena, 64, 16));
    block = ec_arena_alloc(arena, 5000, 16);
    ck_assert_ptr_nonnull(block);
    memset(block, 1, 5000);
    ck_assert_uint_eq(stats_of(arena).fallbacks, 1);
    ck_assert_uint_eq(stats_of(arena).failed, 0);
    ck_assert_uint_eq(stats_of(arena).current_bytes, 5064);
    ck_assert_uint_eq(memory_rows_allocator(rows, "arena").fallbacks, 1);
    ec_arena_reset(arena);
    ck_assert_uint_eq(memory_rows_tag(rows, EC_TAG_GENERAL).bytes, 0);
    ec_arena_destroy(arena);
}
END_TEST

START_TEST(rewinding_gives_back_what_came_after_the_marker)
{
    struct ec_arena *arena =
        make(&rows->sink, (struct ec_arena_desc) { .bytes = 256, .growth_bytes = 256 });
    struct ec_arena_marker outer, inner;
    char *first;

    ck_assert_ptr_nonnull(ec_arena_alloc(arena, 32, 16));
    ck_assert_int_eq(ec_arena_mark(arena, &outer), EC_OK);
    first = ec_arena_alloc(arena, 64, 16);
    ck_assert_int_eq(ec_arena_mark(arena, &inner), EC_OK);
    for (int i = 0; i < 10; i++)
        ck_assert_ptr_nonnull(ec_arena_alloc(arena, 200, 16)); /* into further chunks */
    ck_assert_int_eq(ec_arena_rewind(arena, &inner), EC_OK);
    ck_assert_uint_eq(stats_of(arena).current_bytes, 96);
    ck_assert_int_eq(ec_arena_rewind(arena, &outer), EC_OK);
    ck_assert_uint_eq(stats_of(arena).current_bytes, 32);
    ck_assert_uint_eq(stats_of(arena).count, 1);
    ck_assert_uint_eq(memory_rows_tag(rows, EC_TAG_GENERAL).bytes, 32);
    ck_assert_ptr_eq(ec_arena_alloc(arena, 64, 16), first);
    ec_arena_destroy(arena);
}
END_TEST

START_TEST(a_stale_marker_is_refused_and_changes_nothing)
{
    struct ec_arena *arena = make(&rows->sink, (struct ec_arena_desc) { .bytes = 4096 });
    struct ec_arena_marker used, under, never = { 0 };

    ck_assert_int_eq(ec_arena_mark(arena, &used), EC_OK);
    ck_assert_int_eq(ec_arena_mark(arena, &under), EC_OK);
    ck_assert_int_eq(ec_arena_rewind(arena, &used), EC_OK);
    ck_assert_ptr_nonnull(ec_arena_alloc(arena, 64, 16));
    ck_assert_int_eq(ec_arena_rewind(arena, &used), EC_ERR_STALE);  /* was used */
    ck_assert_int_eq(ec_arena_rewind(arena, &under), EC_ERR_STALE); /* an earlier one was */
    ck_assert_int_eq(ec_arena_rewind(arena, &never), EC_ERR_STALE);
    ck_assert_int_eq(ec_arena_mark(arena, &under), EC_OK);
    ck_assert_int_eq(ec_arena_rewind(arena, &used), EC_ERR_STALE); /* same depth, other marker */
    ec_arena_reset(arena);
    ck_assert_ptr_nonnull(ec_arena_alloc(arena, 64, 16));
    ck_assert_int_eq(ec_arena_rewind(arena, &under), EC_ERR_STALE); /* the arena was reset */
    ck_assert_uint_eq(stats_of(arena).failed, 5);
    ck_assert_uint_eq(stats_of(arena).current_bytes, 64);
    ec_arena_destroy(arena);
}
END_TEST

START_TEST(the_65th_open_marker_is_refused)
{
    struct ec_arena *arena = make(NULL, (struct ec_arena_desc) { .bytes = 4096 });
    struct ec_arena_marker marker;

    for (int i = 0; i < 64; i++)
        ck_assert_int_eq(ec_arena_mark(arena, &marker), EC_OK);
    ck_assert_int_eq(ec_arena_rewind(arena, &marker), EC_OK);
    ck_assert_int_eq(ec_arena_mark(arena, &marker), EC_OK);
    ck_assert_int_eq(ec_arena_mark(arena, &marker), EC_ERR_LIMIT);
    ck_assert_int_eq(ec_arena_rewind(arena, &marker), EC_ERR_STALE);
    ec_arena_destroy(arena);
}
END_TEST

START_TEST(a_reader_sees_each_allocation_at_once)
{
    struct ec_arena *arena = make(
        &rows->sink, (struct ec_arena_desc) { .name = "frame", .tag = EC_TAG_UI, .bytes = 4096 });

    for (uint64_t i = 1; i <= 100; i++) {
        ck_assert_ptr_nonnull(ec_arena_alloc(arena, 32, 16));
        ck_assert_uint_eq(memory_rows_allocator(rows, "frame").current_bytes, 32 * i);
        ck_assert_uint_eq(memory_rows_allocator(rows, "frame").count, i);
        ck_assert_uint_eq(memory_rows_tag(rows, EC_TAG_UI).bytes, 32 * i);
        ck_assert_uint_eq(memory_rows_tag(rows, EC_TAG_UI).count, i);
    }
    ec_arena_reset(arena);
    ck_assert_uint_eq(memory_rows_tag(rows, EC_TAG_UI).bytes, 0);
    ck_assert_uint_eq(memory_rows_tag(rows, EC_TAG_UI).total, 100);
    ck_assert_uint_eq(memory_rows_allocator(rows, "frame").peak_bytes, 3200);
    ck_assert_uint_eq(memory_rows_tag(rows, EC_TAG_UI).peak_bytes, 3200);
    ec_arena_destroy(arena);
    ck_assert_uint_eq(memory_rows_listed(rows), 0);
}
END_TEST

static void *use_and_reset(void *context)
{
    struct ec_arena *arena = context;
    char *block = ec_arena_alloc(arena, 64, 16);

    if (block != NULL)
        memset(block, 1, 64);
    ec_arena_reset(arena);
    return block;
}

START_TEST(an_arena_may_change_its_thread)
{
    struct ec_arena *arena = make(&rows->sink, (struct ec_arena_desc) { .bytes = 4096 });
    pthread_t thread;
    void *block = NULL;

    ck_assert_ptr_nonnull(ec_arena_alloc(arena, 128, 16));
    ck_assert_int_eq(pthread_create(&thread, NULL, use_and_reset, arena), 0);
    ck_assert_int_eq(pthread_join(thread, &block), 0);
    ck_assert_ptr_nonnull(block);
    ck_assert_uint_eq(memory_rows_tag(rows, EC_TAG_GENERAL).bytes, 0);
    ck_assert_uint_eq(memory_rows_tag(rows, EC_TAG_GENERAL).total, 2);
    ck_assert_ptr_nonnull(ec_arena_alloc(arena, 128, 16));
    ck_assert_uint_eq(memory_rows_tag(rows, EC_TAG_GENERAL).bytes, 128);
    ec_arena_destroy(arena);
}
END_TEST

START_TEST(the_129th_allocator_works_unlisted)
{
    struct ec_arena *arenas[EC_ALLOCATORS_MAX + 1];

    for (int i = 0; i <= EC_ALLOCATORS_MAX; i++)
        arenas[i] = make(&rows->sink, (struct ec_arena_desc) { .bytes = 64 });
    ck_assert_uint_eq(memory_rows_listed(rows), EC_ALLOCATORS_MAX);
    ck_assert_ptr_nonnull(ec_arena_alloc(arenas[0], 64, 16));
    ck_assert_ptr_nonnull(ec_arena_alloc(arenas[EC_ALLOCATORS_MAX], 48, 16));
    ck_assert_uint_eq(stats_of(arenas[EC_ALLOCATORS_MAX]).current_bytes, 48);
    ck_assert_uint_ge(memory_rows_tag(rows, EC_TAG_GENERAL).bytes, 64); /* exact to a step */
    ec_arena_reset(arenas[EC_ALLOCATORS_MAX]);
    ck_assert_uint_eq(memory_rows_tag(rows, EC_TAG_GENERAL).bytes, 64);
    ck_assert_uint_eq(memory_rows_tag(rows, EC_TAG_GENERAL).total, 2);
    for (int i = 0; i <= EC_ALLOCATORS_MAX; i++)
        ec_arena_destroy(arenas[i]);
    ck_assert_uint_eq(memory_rows_tag(rows, EC_TAG_GENERAL).bytes, 0);
    ck_assert_uint_eq(memory_rows_tag(rows, EC_TAG_GENERAL).total, 2);
    ck_assert_uint_eq(memory_rows_listed(rows), 0);
}
END_TEST

#if defined(EC_TIER_DEBUG) && !defined(__SANITIZE_ADDRESS__)
START_TEST(the_debug_tier_overwrites_what_was_given_back)
{
    struct ec_arena *arena = make(NULL, (struct ec_arena_desc) { .bytes = 4096 });
    struct ec_arena_marker marker;
    unsigned char *kept = ec_arena_alloc(arena, 16, 16);
    unsigned char *block;

    memset(kept, 1, 16);
    ck_assert_int_eq(ec_arena_mark(arena, &marker), EC_OK);
    block = ec_arena_alloc(arena, 16, 16);
    memset(block, 1, 16);
    ck_assert_int_eq(ec_arena_rewind(arena, &marker), EC_OK);
    for (int i = 0; i < 16; i++) {
        ck_assert_uint_eq(block[i], 0xDD);
        ck_assert_uint_eq(kept[i], 1);
    }
    ec_arena_destroy(arena);
}
END_TEST
#endif

/* Random operations against a list of what ought to be there. */

#define BLOCKS_MAX 4096

struct model_block {
    unsigned char *at;
    size_t bytes;
    unsigned char fill;
};

struct model_scope {
    struct ec_arena_marker marker;
    size_t count;
};

static struct {
    struct model_block blocks[BLOCKS_MAX];
    size_t count;
    struct model_scope scopes[64];
    size_t depth;
    uint64_t total, failed;
} model;

static uint64_t random_state;

static uint64_t random_below(uint64_t limit)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % limit;
}

static bool is_filled(const struct model_block *block)
{
    return block->at[0] == block->fill && memcmp(block->at, block->at + 1, block->bytes - 1) == 0;
}

static void model_alloc(struct ec_arena *arena)
{
    const size_t bytes = random_below(20) == 0 ? 0 : random_below(600);
    const size_t align = (size_t)1 << random_below(9);
    unsigned char *at = ec_arena_alloc(arena, bytes, align);

    ASSERT_OFTEN(bytes != 0 || at == NULL);
    if (at == NULL) {
        model.failed++;
        return;
    }
    ASSERT_OFTEN(((uintptr_t)at & (align - 1)) == 0);
    model.blocks[model.count] =
        (struct model_block) { at, bytes, (unsigned char)(1 + random_below(200)) };
    memset(at, model.blocks[model.count].fill, bytes);
    model.count++;
    model.total++;
}

static void model_rewind(struct ec_arena *arena)
{
    const size_t depth = random_below(model.depth);

    ASSERT_OFTEN(ec_arena_rewind(arena, &model.scopes[depth].marker) == EC_OK);
    for (size_t i = depth; i < model.depth; i++, model.failed++)
        ASSERT_OFTEN(ec_arena_rewind(arena, &model.scopes[i].marker) == EC_ERR_STALE);
    model.count = model.scopes[depth].count;
    model.depth = depth;
}

static void model_compare(const struct ec_arena *arena)
{
    const struct ec_memory_stats stats = stats_of(arena);
    const struct ec_tag_sums tag = memory_rows_tag(rows, EC_TAG_PHYSICS);
    uint64_t bytes = 0;
    bool intact = true;

    for (size_t i = 0; i < model.count; i++) {
        bytes += model.blocks[i].bytes;
        intact = intact && is_filled(&model.blocks[i]);
    }
    ck_assert(intact);
    ck_assert_uint_eq(stats.count, model.count);
    ck_assert_uint_eq(stats.total, model.total);
    ck_assert_uint_eq(stats.failed, model.failed);
    ck_assert_uint_ge(stats.current_bytes, bytes);
    ck_assert_uint_le(stats.current_bytes, bytes + 256 * model.count);
    ck_assert_uint_ge(stats.peak_bytes, stats.current_bytes);
    ck_assert_uint_eq(tag.bytes, stats.current_bytes);
    ck_assert_uint_eq(tag.count, model.count);
    ck_assert_uint_eq(tag.total, model.total);
}

static const struct ec_arena_desc model_descs[] = {
    { .bytes = 100000 },
    { .bytes = 4096, .heap_fallback = true },
    { .bytes = 4096, .growth_bytes = 4096 },
    { .bytes = 4096, .growth_bytes = 1000, .limit_bytes = 65536 },
    { .bytes = 64, .growth_bytes = 64, .limit_bytes = 20000, .heap_fallback = true },
};

START_TEST(an_arena_behaves_like_its_model)
{
    struct ec_arena_desc desc = model_descs[_i];
    struct ec_arena *arena;

    desc.tag = EC_TAG_PHYSICS;
    arena = make(&rows->sink, desc);
    random_state = 0x9E3779B97F4A7C15ull + (unsigned)_i;
    for (int i = 0; i < 30000; i++) {
        const uint64_t what = random_below(1000);

        if (what < 900 && model.count < BLOCKS_MAX) {
            model_alloc(arena);
        } else if (what < 940 && model.depth < 64) {
            ASSERT_OFTEN(ec_arena_mark(arena, &model.scopes[model.depth].marker) == EC_OK);
            model.scopes[model.depth++].count = model.count;
        } else if (what < 980 && model.depth > 0) {
            model_rewind(arena);
        } else if (what < 990 || model.count == BLOCKS_MAX) {
            ec_arena_reset(arena);
            model.count = model.depth = 0;
        }
        if (i % 500 == 0)
            model_compare(arena);
    }
    model_compare(arena);
    ec_arena_destroy(arena);
    ck_assert_uint_eq(memory_rows_tag(rows, EC_TAG_PHYSICS).bytes, 0);
    ck_assert_uint_eq(memory_rows_tag(rows, EC_TAG_PHYSICS).count, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("arena");
    TCase *tcase = tcase_create("arena");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, a_bad_description_is_refused_with_its_value_and_limit, 0,
                        sizeof bad_descs / sizeof bad_descs[0]);
    tcase_add_test(tcase, sizes_that_no_block_can_have_are_refused_and_counted);
    tcase_add_loop_test(tcase, what_is_no_alignment_is_refused_and_counted, 0,
                        sizeof bad_aligns / sizeof bad_aligns[0]);
    tcase_add_loop_test(tcase, every_block_is_aligned_wherever_it_comes_from, 0, 22);
    tcase_add_test(tcase, no_alignment_means_16);
    tcase_add_test(tcase, a_fixed_arena_is_full_to_the_last_byte);
    tcase_add_test(tcase, growth_ends_at_the_limit);
    tcase_add_test(tcase, chunks_are_kept_and_used_again);
    tcase_add_test(tcase, a_kept_chunk_that_is_too_small_is_passed_over_and_not_lost);
    tcase_add_test(tcase, fallback_blocks_are_counted_and_end_with_the_reset);
    tcase_add_test(tcase, rewinding_gives_back_what_came_after_the_marker);
    tcase_add_test(tcase, a_stale_marker_is_refused_and_changes_nothing);
    tcase_add_test(tcase, the_65th_open_marker_is_refused);
    tcase_add_test(tcase, a_reader_sees_each_allocation_at_once);
    tcase_add_test(tcase, an_arena_may_change_its_thread);
    tcase_add_test(tcase, the_129th_allocator_works_unlisted);
#if defined(EC_TIER_DEBUG) && !defined(__SANITIZE_ADDRESS__)
    tcase_add_test(tcase, the_debug_tier_overwrites_what_was_given_back);
#endif
    tcase_add_loop_test(tcase, an_arena_behaves_like_its_model, 0,
                        sizeof model_descs / sizeof model_descs[0]);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
