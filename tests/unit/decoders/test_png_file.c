/* What is written as PNG is read back pixel by pixel, by libpng's own reader. */
#include "decoders/png_file.h"

#include <check.h>
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const uint32_t formats[] = { 0, PNG_FORMAT_GRAY, PNG_FORMAT_GA, PNG_FORMAT_RGB,
                                    PNG_FORMAT_RGBA };

START_TEST(pixels_come_back_whatever_the_channels)
{
    char path[] = "/tmp/png-file-XXXXXX";
    unsigned char pixels[5 * 80], back[5 * 80];
    const struct png_file_image image = {
        .pixels = pixels, .width = 13, .height = 5, .channels = (uint32_t)_i, .stride = 80
    };
    png_image reader = { .version = PNG_IMAGE_VERSION };
    struct ec_error why = { 0 };
    FILE *file = fdopen(mkstemp(path), "wb");

    ck_assert_ptr_nonnull(file);
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (unsigned char)(i * 7);
    ck_assert_msg(png_file_write(file, &image, &why) == EC_OK, "%s", why.text);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_int_ne(png_image_begin_read_from_file(&reader, path), 0);
    ck_assert_uint_eq(reader.width, 13);
    ck_assert_uint_eq(reader.height, 5);
    ck_assert_uint_eq(reader.format, formats[_i]);
    ck_assert_int_ne(png_image_finish_read(&reader, NULL, back, 80, NULL), 0);
    for (size_t y = 0; y < 5; y++)
        ck_assert_mem_eq(back + y * 80, pixels + y * 80, (size_t)13 * (size_t)_i);
    unlink(path);
}
END_TEST

START_TEST(what_is_no_image_is_refused)
{
    unsigned char pixel[4] = { 0 };
    struct ec_error why = { 0 };

    FILE *file = fopen("/dev/full", "wb");

    ck_assert_ptr_nonnull(file);
    setvbuf(file, NULL, _IONBF, 0);
    ck_assert_int_eq(png_file_write(file, &(struct png_file_image) { .pixels = pixel }, &why),
                     EC_ERR_PARAM);
    ck_assert_int_eq(
        png_file_write(file,
                       &(struct png_file_image) {
                           .pixels = pixel, .width = 1, .height = 1, .channels = 4, .stride = 4 },
                       &why),
        EC_ERR_SYSTEM);
    fclose(file);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("png file");
    TCase *tcase = tcase_create("png file");
    SRunner *runner;
    int failed;

    tcase_add_loop_test(tcase, pixels_come_back_whatever_the_channels, 1, 5);
    tcase_add_test(tcase, what_is_no_image_is_refused);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
