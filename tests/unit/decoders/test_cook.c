/* What is cooked decodes to the same pixels and levels; whatever is changed in it is noticed. Covers
 * decode_cooked.c and the levels of decoder.c, too. */
#include "decoders/cook.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "decoders/cooked.h"
#include "decoders/decoder.h"
#include "proto/image_levels.h"
#include "support/sample_images.h"

static char directory[] = "/tmp/cook-XXXXXX";
static char input[64], output[64];
static struct ec_error why;
static struct decoded decoded;
static unsigned char *pixels;

static void write_file(const char *path, const void *bytes, size_t count)
{
    FILE *file = fopen(path, "wb");

    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, count, file), count);
    ck_assert_int_eq(fclose(file), 0);
}

static unsigned char *read_file(const char *path, size_t *count)
{
    FILE *file = fopen(path, "rb");
    unsigned char *bytes = malloc(1 << 20);

    ck_assert_ptr_nonnull(file);
    ck_assert_ptr_nonnull(bytes);
    *count = fread(bytes, 1, 1 << 20, file);
    fclose(file);
    return bytes;
}

static void set_up(void)
{
    static const struct sample_shape shape = { .width = 300, .height = 200, .channels = 3 };
    struct sample sample;

    strcpy(directory + strlen(directory) - 6, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
    snprintf(input, sizeof input, "%s/in.png", directory);
    snprintf(output, sizeof output, "%s/out", directory);
    sample_png(&sample, &shape);
    write_file(input, sample.bytes, sample.count);
    sample_free(&sample);
}

static void tear_down(void)
{
    unlink(input);
    unlink(output);
    ck_assert_int_eq(rmdir(directory), 0); /* nothing else was left */
    free(pixels);
    pixels = NULL;
}

static int decode(const unsigned char *bytes, size_t count, struct decode_options options)
{
    const struct decode_request request = { .kind = EC_KIND_IMAGE,
                                            .options = options,
                                            .limits = { 1 << 22, 1 << 20 } };
    unsigned char *copy = malloc(count > 0 ? count : 1); /* just as long, for the sanitizer */
    struct decode_source source = { .bytes = copy, .count = count };
    const struct decoder *decoder;
    int rc;

    ck_assert_ptr_nonnull(copy);
    memcpy(copy, bytes, count);
    rc = decoder_choose(&request, &source, &decoder, &why);
    if (rc == EC_OK)
        rc = decoder_measure(decoder, &request, &source, &decoded, &why);
    if (rc == EC_OK) {
        ck_assert(decoded_is_possible(&decoded, &request));
        free(pixels);
        pixels = calloc(1, decoded.bytes);
        rc = decoder_decode(decoder, &source, &decoded, pixels, &why);
    }
    free(copy);
    return rc;
}

static unsigned char *cook(uint32_t channels, uint32_t levels, size_t *count)
{
    const struct cook_desc desc = {
        .input = input, .output = output, .channels = channels, .levels = levels
    };
    struct cook_result result;

    ck_assert_msg(cook_image(&desc, &result, &why) == EC_OK, "%s", why.text);
    ck_assert_uint_eq(result.width, 300);
    ck_assert_uint_eq(result.height, 200);
    ck_assert_uint_eq(result.levels, levels > 9 ? 9 : levels > 0 ? levels : 1);
    return read_file(output, count);
}

/* _i is channels * 3 + {1, 4, all} levels. */
START_TEST(cooked_and_original_decode_to_the_same)
{
    static const uint32_t levels[] = { 0, 4, 32 };
    const struct decode_options options = { (uint32_t)_i / 3, levels[_i % 3] };
    struct decoded first;
    unsigned char *kept, *file, *original;
    size_t count, original_count;

    file = cook(options.channels, options.levels, &count);
    original = read_file(input, &original_count);
    ck_assert_int_eq(decode(original, original_count, options), EC_OK);
    first = decoded;
    kept = pixels;
    pixels = NULL;
    ck_assert_msg(decode(file, count, (struct decode_options) { 0 }) == EC_OK, "%s", why.text);
    ck_assert_uint_eq(decoded.bytes, first.bytes);
    ck_assert_uint_eq(decoded.levels, first.levels);
    ck_assert_uint_eq(decoded.channels, first.channels);
    ck_assert_mem_eq(pixels, kept, first.bytes);
    free(original);
    free(kept);
    free(file);
}
END_TEST

START_TEST(levels_lie_where_the_header_says)
{
    size_t count;
    unsigned char *file = cook(3, 32, &count);
    uint64_t end = 0;

    ck_assert_int_eq(decode(file, count, (struct decode_options) { 0 }), EC_OK);
    ck_assert_uint_eq(decoded.levels, 9);
    for (uint32_t level = 0; level < 9; level++) {
        const uint64_t offset = ec_image_level_offset(300, 200, 3, level);

        ck_assert_uint_eq(offset % EC_IMAGE_LEVEL_ALIGN, 0);
        ck_assert_uint_ge(offset, end);
        ck_assert_uint_lt(offset - end, EC_IMAGE_LEVEL_ALIGN);
        end = offset +
              (uint64_t)ec_image_level_side(300, level) * ec_image_level_side(200, level) * 3;
    }
    ck_assert_uint_eq(end, decoded.bytes);
    ck_assert_uint_eq(ec_image_level_side(300, 8), 1);
    for (uint32_t c = 0; c < 3; c++) { /* one pixel of level 1, by hand */
        const unsigned sum = (unsigned)sample_pixel(10, 8, c) + sample_pixel(11, 8, c) +
                             sample_pixel(10, 9, c) + sample_pixel(11, 9, c);

        ck_assert_uint_eq(pixels[ec_image_level_offset(300, 200, 3, 1) + (4 * 150 + 5) * 3 + c],
                          (sum + 2) / 4);
    }
    free(file);
}
END_TEST

START_TEST(cooked_images_change_their_channels_too)
{
    size_t count;
    unsigned char *file = cook(3, 32, &count);

    ck_assert_msg(decode(file, count, (struct decode_options) { .channels = 4 }) == EC_OK, "%s",
                  why.text);
    ck_assert_uint_eq(decoded.channels, 4);
    ck_assert_uint_eq(decoded.levels, 9);
    ck_assert_uint_eq(pixels[3], 255);
    ck_assert_uint_eq(pixels[decoded.bytes - 1], 255);
    ck_assert_int_eq(decode(file, count, (struct decode_options) { .channels = 1 }), EC_OK);
    ck_assert_uint_eq(decoded.bytes, ec_image_levels_bytes(300, 200, 1, 9));
    free(file);
}
END_TEST

/* Every byte of the header and some of the blocks: each bit counts, but for the size of a block when there
 * is but one, which is shorter. */
START_TEST(each_changed_bit_is_noticed)
{
    size_t count;
    unsigned char *file = cook(0, 4, &count);

    for (size_t at = 0; at < count; at += at < 80 ? 1 : 97)
        for (unsigned bit = 0; bit < 8 && at / 4 != COOKED_AT_BLOCK_BYTES / 4; bit++) {
            file[at] ^= (unsigned char)(1u << bit);
            ck_assert_msg(decode(file, count, (struct decode_options) { 0 }) < 0, "byte %zu bit %u",
                          at, bit);
            file[at] ^= (unsigned char)(1u << bit);
        }
    ck_assert_int_eq(decode(file, count, (struct decode_options) { 0 }), EC_OK);
    free(file);
}
END_TEST

START_TEST(each_other_length_is_noticed)
{
    size_t count;
    unsigned char *file = cook(0, 0, &count);

    for (size_t bytes = 0; bytes < count; bytes += bytes < 80 ? 1 : 61)
        ck_assert_int_lt(decode(file, bytes, (struct decode_options) { 0 }), 0);
    file[count] = 0;
    ck_assert_int_eq(decode(file, count + 1, (struct decode_options) { 0 }), EC_ERR_SIZE);
    file[COOKED_AT_VERSION] = 2;
    ck_assert_int_eq(decode(file, count, (struct decode_options) { 0 }), EC_ERR_VERSION);
    ck_assert_ptr_nonnull(strstr(why.text, "version 2, expected 1"));
    free(file);
}
END_TEST

START_TEST(what_cannot_be_cooked_leaves_no_file)
{
    struct cook_desc desc = { .input = input, .output = output };
    struct cook_result result;
    struct stat st;

    write_file(input, "no picture", 10);
    ck_assert_int_eq(cook_image(&desc, &result, &why), EC_ERR_PARAM);
    ck_assert_ptr_nonnull(strstr(why.text, input));
    desc.input = directory;
    ck_assert_int_eq(cook_image(&desc, &result, &why), EC_ERR_PATH);
    desc.input = "/nowhere";
    ck_assert_int_eq(cook_image(&desc, &result, &why), EC_ERR_SYSTEM);
    ck_assert_int_lt(stat(output, &st), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cook");
    TCase *tcase = tcase_create("cook");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, cooked_and_original_decode_to_the_same, 0, 15);
    tcase_add_test(tcase, levels_lie_where_the_header_says);
    tcase_add_test(tcase, cooked_images_change_their_channels_too);
    tcase_add_test(tcase, each_changed_bit_is_noticed);
    tcase_add_test(tcase, each_other_length_is_noticed);
    tcase_add_test(tcase, what_cannot_be_cooked_leaves_no_file);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
