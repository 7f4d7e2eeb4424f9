/* Each decoder on images that share no code with it, and on what is left of them when they are damaged. */
#include "decoders/decoder.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "support/sample_images.h"

static const struct decode_limits generous = { .bytes_max = 1 << 24, .pixels_max = 1 << 22 };

static struct ec_error why;
static struct decoded decoded;
static unsigned char *result; /* of the last decode that succeeded */

static struct decode_options options; /* of the next decode() */

static void tear_down(void)
{
    free(result);
    result = NULL;
    options = (struct decode_options) { 0 };
}

static int decode(const unsigned char *bytes, size_t count, enum ec_resource_kind kind,
                  const struct decode_limits *limits)
{
    /* A copy of just the bytes, so that a sanitizer sees each read beyond them. */
    unsigned char *copy = malloc(count > 0 ? count : 1);
    struct decode_source source = { .bytes = copy, .count = count };
    const struct decode_request request = { .kind = kind, .options = options, .limits = *limits };
    const struct decoder *decoder;
    int rc;

    ck_assert_ptr_nonnull(copy);
    memcpy(copy, bytes, count);
    why = (struct ec_error) { 0 };
    rc = decoder_choose(&request, &source, &decoder, &why);
    if (rc == EC_OK)
        rc = decoder_measure(decoder, &request, &source, &decoded, &why);
    if (rc == EC_OK) {
        ck_assert(decoded_is_possible(&decoded, &request));
        free(result);
        result = malloc(decoded.bytes > 0 ? decoded.bytes : 1);
        ck_assert_ptr_nonnull(result);
        memset(result, 0xa5, decoded.bytes);
        rc = decoder_decode(decoder, &source, &decoded, result, &why);
    }
    ck_assert(rc == EC_OK || (rc < 0 && why.text[0] != '\0'));
    free(copy);
    return rc;
}

static int decode_image(const struct sample *sample)
{
    return decode(sample->bytes, sample->count, EC_KIND_IMAGE, &generous);
}

typedef void sample_fn(struct sample *sample, const struct sample_shape *shape);

static const struct image_case {
    const char *what;
    sample_fn *make;
    struct sample_shape shape;
} image_cases[] = {
    { "PNG grey", sample_png, { .width = 33, .height = 17, .channels = 1 } },
    { "PNG grey and alpha", sample_png, { .width = 33, .height = 17, .channels = 2 } },
    { "PNG RGB", sample_png, { .width = 33, .height = 17, .channels = 3 } },
    { "PNG RGBA", sample_png, { .width = 33, .height = 17, .channels = 4 } },
    { "PNG 16 bits", sample_png, { .width = 33, .height = 17, .channels = 4, .bits = 16 } },
    { "PNG 16 bits grey", sample_png, { .width = 5, .height = 3, .channels = 1, .bits = 16 } },
    { "PNG palette", sample_png, { .width = 33, .height = 17, .channels = 3, .palette = 1 } },
    { "PNG over one block", sample_png, { .width = 300, .height = 200, .channels = 4 } },
    { "BMP RGB", sample_bmp, { .width = 33, .height = 17, .channels = 3 } },
    { "BMP from the top", sample_bmp, { .width = 33, .height = 17, .channels = 3, .top_down = 1 } },
    { "BMP RGBA", sample_bmp, { .width = 33, .height = 17, .channels = 4 } },
    { "BMP palette", sample_bmp, { .width = 33, .height = 17, .channels = 3, .palette = 1 } },
    { "TGA RGB", sample_tga, { .width = 33, .height = 17, .channels = 3 } },
    { "TGA from the top", sample_tga, { .width = 33, .height = 17, .channels = 3, .top_down = 1 } },
    { "TGA from the right",
      sample_tga,
      { .width = 33, .height = 17, .channels = 3, .from_right = 1 } },
    { "TGA from the top right with runs",
      sample_tga,
      { .width = 32, .height = 9, .channels = 4, .packed = 1, .top_down = 1, .from_right = 1 } },
    { "TGA grey from the right",
      sample_tga,
      { .width = 1, .height = 5, .channels = 1, .from_right = 1 } },
    { "TGA RGBA", sample_tga, { .width = 33, .height = 17, .channels = 4 } },
    { "TGA grey", sample_tga, { .width = 33, .height = 17, .channels = 1 } },
    { "TGA runs", sample_tga, { .width = 33, .height = 17, .channels = 3, .packed = 1 } },
    { "TGA palette", sample_tga, { .width = 33, .height = 17, .channels = 3, .palette = 1 } },
    { "TGA palette runs",
      sample_tga,
      { .width = 33, .height = 17, .channels = 3, .palette = 1, .packed = 1 } },
};
#define IMAGE_CASES (sizeof image_cases / sizeof image_cases[0])

START_TEST(each_pixel_of_each_format_is_right)
{
    const struct sample_shape *shape = &image_cases[_i].shape;
    struct sample sample;

    image_cases[_i].make(&sample, shape);
    ck_assert_msg(decode_image(&sample) == EC_OK, "%s: %s", image_cases[_i].what, why.text);
    ck_assert_uint_eq(decoded.kind, EC_KIND_IMAGE);
    ck_assert_uint_eq(decoded.width, shape->width);
    ck_assert_uint_eq(decoded.height, shape->height);
    ck_assert_uint_eq(decoded.channels, shape->channels);
    ck_assert_uint_eq(decoded.stride, shape->width * shape->channels);
    ck_assert_uint_eq(decoded.bytes, (uint64_t)decoded.stride * decoded.height);
    for (uint32_t y = 0; y < shape->height; y++)
        for (uint32_t x = 0; x < shape->width; x++)
            for (uint32_t c = 0; c < shape->channels; c++) {
                unsigned char is = result[y * decoded.stride + x * shape->channels + c];

                ck_assert_msg(is == sample_pixel(x, y, c), "%s: pixel %u, %u channel %u is %u",
                              image_cases[_i].what, x, y, c, is);
            }
    sample_free(&sample);
}
END_TEST

START_TEST(each_pixel_of_a_jpeg_is_right)
{
    struct sample_shape shape = { .width = 48, .height = 40, .channels = _i == 0 ? 1 : 3 };
    struct sample sample;

    sample_jpeg(&sample, &shape);
    ck_assert_msg(decode_image(&sample) == EC_OK, "%s", why.text);
    ck_assert_uint_eq(decoded.width, 48);
    ck_assert_uint_eq(decoded.height, 40);
    ck_assert_uint_eq(decoded.channels, shape.channels);
    for (uint32_t y = 0; y < 40; y++)
        for (uint32_t x = 0; x < 48; x++)
            for (uint32_t c = 0; c < shape.channels; c++)
                ck_assert_int_le(abs(result[y * decoded.stride + x * shape.channels + c] -
                                     sample_jpeg_grey(x, y)),
                                 1);
    sample_free(&sample);
}
END_TEST

START_TEST(raw_bytes_stay_as_they_are)
{
    static const unsigned char bytes[] = "\x89PNG\r\n\x1a\n is not looked at";

    ck_assert_int_eq(decode(bytes, sizeof bytes, EC_KIND_RAW, &generous), EC_OK);
    ck_assert_uint_eq(decoded.bytes, sizeof bytes);
    ck_assert_uint_eq(decoded.kind, EC_KIND_RAW);
    ck_assert_uint_eq(decoded.width, 0);
    ck_assert_mem_eq(result, bytes, sizeof bytes);
    ck_assert_int_eq(decode(bytes, 0, EC_KIND_RAW, &generous), EC_OK);
    ck_assert_uint_eq(decoded.bytes, 0);
}
END_TEST

START_TEST(content_that_is_no_image_is_refused)
{
    static const unsigned char text[] = "once upon a time there was a file without any picture";

    ck_assert_int_eq(decode(text, sizeof text, EC_KIND_IMAGE, &generous), EC_ERR_PARAM);
    ck_assert_int_eq(decode(text, 0, EC_KIND_IMAGE, &generous), EC_ERR_PARAM);
}
END_TEST

/* JPEG is made by another shape; index IMAGE_CASES stands for it. */
static void make_case(struct sample *sample, size_t index)
{
    static const struct sample_shape jpeg = { .width = 48, .height = 40, .channels = 3 };

    if (index == IMAGE_CASES)
        sample_jpeg(sample, &jpeg);
    else
        image_cases[index].make(sample, &image_cases[index].shape);
}

START_TEST(every_truncation_is_an_error)
{
    struct sample sample;

    make_case(&sample, (size_t)_i);
    for (size_t count = 0; count<sample.count; count += sample.count> 4000 ? 997 : 1)
        ck_assert_msg(decode(sample.bytes, count, EC_KIND_IMAGE, &generous) < 0,
                      "%zu of %zu bytes were accepted", count, sample.count);
    sample_free(&sample);
}
END_TEST

START_TEST(random_damage_is_an_error_or_an_image_within_the_limits)
{
    struct sample sample;

    make_case(&sample, (size_t)_i);
    srandom((unsigned)_i + 1);
    for (unsigned round = 0; round < 300; round++) {
        struct sample copy = { malloc(sample.count), sample.count, sample.count };

        ck_assert_ptr_nonnull(copy.bytes);
        memcpy(copy.bytes, sample.bytes, sample.count);
        for (unsigned flips = 1 + (unsigned)random() % 8; flips > 0; flips--) {
            size_t head = sample.count < 64 || random() % 2 == 0 ? sample.count : 64;

            copy.bytes[(size_t)random() % head] ^= (unsigned char)(1u << random() % 8);
        }
        if (decode_image(&copy) == EC_OK)
            ck_assert_uint_le(decoded.bytes, generous.bytes_max);
        sample_free(&copy);
    }
    sample_free(&sample);
}
END_TEST

/* An image of 4 x 4 whose header says another size. */
static void patch32(struct sample *sample, size_t at, uint32_t value, bool big)
{
    for (unsigned i = 0; i < 4; i++)
        sample->bytes[at + i] = (unsigned char)(value >> 8 * (big ? 3 - i : i));
}

static const uint32_t huge_sizes[] = {
    0, 1u << 16, 1u << 24, 0x7fffffff, 0x80000000u, 0xffff0000u
};

START_TEST(impossible_dimensions_are_refused_before_memory_is_taken)
{
    const struct sample_shape shape = { .width = 4, .height = 4, .channels = 3 };
    struct sample sample;

    for (unsigned side = 0; side < 2; side++) {
        sample_png(&sample, &shape);
        patch32(&sample, 16 + side * 4, huge_sizes[_i], true);
        ck_assert_int_lt(decode_image(&sample), 0); /* the checksum is wrong as well */
        sample_free(&sample);
        sample_bmp(&sample, &shape);
        patch32(&sample, 18 + side * 4, huge_sizes[_i], false);
        ck_assert_int_lt(decode_image(&sample), 0);
        sample_free(&sample);
        sample_tga(&sample, &shape);
        sample.bytes[12 + side * 2] = sample.bytes[13 + side * 2] = 0xff;
        ck_assert_int_lt(decode_image(&sample), 0);
        sample_free(&sample);
    }
}
END_TEST

START_TEST(limits_are_named_with_both_values)
{
    const struct sample_shape shape = { .width = 64, .height = 64, .channels = 4 };
    const struct decode_limits few_pixels = { .bytes_max = 1 << 24, .pixels_max = 4095 };
    const struct decode_limits exact = { .bytes_max = 64 * 64 * 4 + 4096, .pixels_max = 4096 };
    const struct decode_limits few_bytes = { .bytes_max = 64 * 64 * 4 - 1, .pixels_max = 4096 };
    struct sample sample;

    sample_png(&sample, &shape);
    ck_assert_int_eq(decode(sample.bytes, sample.count, EC_KIND_IMAGE, &exact), EC_OK);
    ck_assert_int_eq(decode(sample.bytes, sample.count, EC_KIND_IMAGE, &few_pixels), EC_ERR_SIZE);
    ck_assert_ptr_nonnull(strstr(why.text, "64 x 64"));
    ck_assert_ptr_nonnull(strstr(why.text, "4095"));
    ck_assert_int_eq(decode(sample.bytes, sample.count, EC_KIND_IMAGE, &few_bytes), EC_ERR_SIZE);
    ck_assert_ptr_nonnull(strstr(why.text, "16383"));
    ck_assert_int_eq(decode(sample.bytes, sample.count, EC_KIND_RAW, &few_bytes), EC_ERR_SIZE);
    sample_free(&sample);
}
END_TEST

START_TEST(a_colour_outside_the_palette_is_refused)
{
    const struct sample_shape shape = { .width = 8, .height = 2, .channels = 3, .palette = 1 };
    struct sample sample;

    sample_bmp(&sample, &shape);
    /* Move the pixels forward over the last entries: the palette has 200 colours now. */
    memmove(sample.bytes + 14 + 40 + 800, sample.bytes + 14 + 40 + 1024, 16);
    patch32(&sample, 10, 14 + 40 + 800, false);
    sample.bytes[14 + 40 + 800] = 199;
    for (unsigned i = 1; i < 16; i++)
        sample.bytes[14 + 40 + 800 + i] = 0;
    ck_assert_msg(decode_image(&sample) == EC_OK, "%s", why.text);
    sample.bytes[14 + 40 + 800] = 200;
    ck_assert_int_eq(decode_image(&sample), EC_ERR_PARAM);
    ck_assert_ptr_nonnull(strstr(why.text, "palette"));
    sample_free(&sample);
}
END_TEST

/* With room behind the header that would be taken for them. */
START_TEST(masks_inside_of_a_short_header_are_refused)
{
    unsigned char bytes[14 + 56 + 12 + 4] = {
        'B',       'M',      [10] = 14 + 56 + 12, [14] = 56,   [18] = 1,    [22] = 1, [26] = 1,
        [28] = 32, [30] = 3, [56] = 0xff,         [59] = 0xff, [62] = 0xff, [72] = 1, [75] = 1,
        [78] = 1
    };

    ck_assert_int_eq(decode(bytes, sizeof bytes, EC_KIND_IMAGE, &generous), EC_ERR_PARAM);
    ck_assert_ptr_nonnull(strstr(why.text, "56 bytes"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("decoder");
    TCase *tcase = tcase_create("decoder");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, NULL, tear_down);
    tcase_add_loop_test(tcase, each_pixel_of_each_format_is_right, 0, IMAGE_CASES);
    tcase_add_loop_test(tcase, each_pixel_of_a_jpeg_is_right, 0, 2);
    tcase_add_test(tcase, raw_bytes_stay_as_they_are);
    tcase_add_test(tcase, content_that_is_no_image_is_refused);
    tcase_add_loop_test(tcase, every_truncation_is_an_error, 0, IMAGE_CASES + 1);
    tcase_add_loop_test(tcase, random_damage_is_an_error_or_an_image_within_the_limits, 0,
                        IMAGE_CASES + 1);
    tcase_add_loop_test(tcase, impossible_dimensions_are_refused_before_memory_is_taken, 0,
                        sizeof huge_sizes / sizeof huge_sizes[0]);
    tcase_add_test(tcase, limits_are_named_with_both_values);
    tcase_add_test(tcase, masks_inside_of_a_short_header_are_refused);
    tcase_add_test(tcase, a_colour_outside_the_palette_is_refused);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
