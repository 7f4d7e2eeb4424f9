/* The table promises: it knows exactly what was added and not taken, whatever the order. */
#include "foundation/memory/block_table.h"

#include <check.h>
#include <stdlib.h>

#define ADDRESSES 3000

static struct ec_block_table table;

static void *address_of(unsigned i)
{
    return (void *)((uintptr_t)0x7f0000001000u + (uintptr_t)i * 16);
}

static void sum_bytes(void *context, const struct ec_block *block)
{
    *(size_t *)context += block->bytes;
}

START_TEST(it_agrees_with_an_array_of_flags)
{
    static size_t bytes[ADDRESSES];
    size_t count = 0, sum = 0, seen = 0;

    srand(3);
    ec_block_table_init(&table);
    for (int round = 0; round < 300000; round++) {
        /* phases of growth and of shrinking */
        const unsigned i = (unsigned)rand() % ADDRESSES;
        const bool add = rand() % 10 < (round / 50000 % 2 == 0 ? 8 : 2);
        struct ec_block block = { .address = address_of(i), .bytes = (size_t)round + 1 };

        if (bytes[i] == 0 && add) {
            if (!ec_block_table_add(&table, &block))
                ck_abort_msg("no memory");
            bytes[i] = block.bytes;
            count++;
        } else if (!add) {
            if (ec_block_table_take(&table, address_of(i), &block) != (bytes[i] != 0) ||
                (bytes[i] != 0 && block.bytes != bytes[i]))
                ck_abort_msg("round %d: the wrong answer about %u", round, i);
            count -= bytes[i] != 0;
            bytes[i] = 0;
        } else if (!ec_block_table_find(&table, address_of(i), &block) || block.bytes != bytes[i]) {
            ck_abort_msg("round %d: %u is lost", round, i);
        }
    }
    ck_assert_uint_eq(ec_block_table_count(&table), count);
    for (unsigned i = 0; i < ADDRESSES; i++)
        sum += bytes[i];
    ec_block_table_visit(&table, sum_bytes, &seen);
    ck_assert_uint_eq(seen, sum);
    ec_block_table_finish(&table);
}
END_TEST

START_TEST(an_empty_table_knows_nothing)
{
    struct ec_block block;

    ec_block_table_init(&table);
    ck_assert(!ec_block_table_find(&table, address_of(1), &block));
    ck_assert(!ec_block_table_take(&table, address_of(1), &block));
    ck_assert_uint_eq(ec_block_table_count(&table), 0);
    ec_block_table_finish(&table);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("block_table");
    TCase *tcase = tcase_create("block_table");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, it_agrees_with_an_array_of_flags);
    tcase_add_test(tcase, an_empty_table_knows_nothing);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
