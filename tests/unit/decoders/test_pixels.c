/* Channels are added and taken away, also in place; halving is the mean of four. */
#include "decoders/pixels.h"

#include <check.h>
#include <string.h>

static const unsigned char rgba[] = { 255, 0, 0, 10, 0, 255, 0, 20, 0, 0, 255, 30, 9, 9, 9, 40 };

START_TEST(each_pair_of_channels_is_converted)
{
    static const unsigned char expected[4][16] = {
        { 77, 149, 29, 9 },
        { 77, 10, 149, 20, 29, 30, 9, 40 },
        { 255, 0, 0, 0, 255, 0, 0, 0, 255, 9, 9, 9 },
        { 255, 0, 0, 10, 0, 255, 0, 20, 0, 0, 255, 30, 9, 9, 9, 40 },
    };
    unsigned char to[16];

    for (uint32_t channels = 1; channels <= 4; channels++) {
        pixels_convert(to, channels, rgba, 4, 4);
        ck_assert_mem_eq(to, expected[channels - 1], channels * 4);
    }
    pixels_convert(to, 4, (const unsigned char[]) { 7, 8 }, 1, 2);
    ck_assert_mem_eq(to, ((unsigned char[]) { 7, 7, 7, 255, 8, 8, 8, 255 }), 8);
    pixels_convert(to, 4, (const unsigned char[]) { 7, 1, 8, 2 }, 2, 2);
    ck_assert_mem_eq(to, ((unsigned char[]) { 7, 7, 7, 1, 8, 8, 8, 2 }), 8);
}
END_TEST

/* _i is to_channels * 4 + from_channels, both less 1. */
START_TEST(growing_in_place_gives_the_same)
{
    const uint32_t from = (uint32_t)_i % 4 + 1, to = (uint32_t)_i / 4 + 1;
    unsigned char source[4 * 100], apart[4 * 100], place[4 * 100];

    if (to < from)
        return;
    for (unsigned i = 0; i < sizeof source; i++)
        source[i] = (unsigned char)(i * 37);
    pixels_convert(apart, to, source, from, 100);
    memcpy(place + 100 * (to - from), source, (size_t)100 * from);
    pixels_convert(place, to, place + 100 * (to - from), from, 100);
    ck_assert_mem_eq(place, apart, 100 * to);
}
END_TEST

START_TEST(halving_takes_the_mean_and_leaves_odd_edges_out)
{
    static const unsigned char image[] = {
        0,  10, 99, /* 3 x 3, of which 2 x 2 count */
        20, 31, 99, 99, 99, 99,
    };
    unsigned char to[4] = { 0 };

    pixels_halve(to, image, 3, 3, 1);
    ck_assert_uint_eq(to[0], 15); /* 61 / 4, rounded half up */
    pixels_halve(to, image, 3, 1, 1);
    ck_assert_uint_eq(to[0], 5);
    pixels_halve(to, image, 1, 3, 1);
    ck_assert_uint_eq(to[0], 5);
    pixels_halve(to, (const unsigned char[]) { 1, 2, 3, 5, 6, 7 }, 2, 1, 3);
    ck_assert_mem_eq(to, ((unsigned char[]) { 3, 4, 5 }), 3);
    pixels_halve(to, image + 1, 1, 1, 1);
    ck_assert_uint_eq(to[0], 10);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pixels");
    TCase *tcase = tcase_create("pixels");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, each_pair_of_channels_is_converted);
    tcase_add_loop_test(tcase, growing_in_place_gives_the_same, 0, 16);
    tcase_add_test(tcase, halving_takes_the_mean_and_leaves_odd_edges_out);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
