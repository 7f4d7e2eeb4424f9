/* png_file.c - libpng does the work. */
#include "decoders/png_file.h"

#include <png.h>
#include <string.h>

#include "foundation/error.h"

static int write_rows(FILE *file, const struct png_file_image *image, int colours,
                      struct ec_error *why);

int png_file_write(FILE *file, const struct png_file_image *image, struct ec_error *why)
{
    static const int colours[] = { 0, PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA,
                                   PNG_COLOR_TYPE_RGB, PNG_COLOR_TYPE_RGBA };

    if (image->channels < 1 || image->channels > 4 || image->width == 0 || image->height == 0 ||
        image->width > PNG_UINT_31_MAX || image->height > PNG_UINT_31_MAX ||
        image->stride / image->channels < image->width)
        return ec_fail(why, EC_ERR_PARAM, "%u x %u pixels of %u channels are no PNG", image->width,
                       image->height, image->channels);
    return write_rows(file, image, colours[image->channels], why);
}

static void on_error(png_structp png, png_const_charp text)
{
    ec_fail(png_get_error_ptr(png), EC_ERR_SYSTEM, "%s", text);
    longjmp(png_jmpbuf(png), 1);
}

static int write_rows(FILE *file, const struct png_file_image *image, int colours,
                      struct ec_error *why)
{
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, why, on_error, NULL);
    png_infop info = png != NULL ? png_create_info_struct(png) : NULL;
    const unsigned char *pixels = image->pixels;

    if (info == NULL) {
        png_destroy_write_struct(&png, NULL);
        return ec_fail(why, EC_ERR_MEMORY, "no memory for a PNG");
    }
    if (setjmp(png_jmpbuf(png)) != 0) {
        png_destroy_write_struct(&png, &info);
        return why->code;
    }
    png_init_io(png, file);
    png_set_IHDR(png, info, image->width, image->height, 8, colours, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png, info);
    for (uint32_t y = 0; y < image->height; y++)
        png_write_row(png, pixels + (size_t)y * image->stride);
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    return EC_OK;
}
