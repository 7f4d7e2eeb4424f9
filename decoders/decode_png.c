/* decode_png.c - PNG by libpng: 1..4 channels of 8 bits, rows straight into the heap.
 *
 * Palettes become RGB, greys below 8 bits become 8, transparency becomes an alpha channel and 16 bits
 * are scaled to 8. Palettes are looked up here, because libpng does not tell of an index without a colour
 * when it does that. libpng reports errors by longjmp, so what is used after it is volatile or lies in
 * struct reader, and no function between setjmp and longjmp owns anything. */
#include <png.h>
#include <setjmp.h>
#include <string.h>

#include "decoders/decoder.h"

/* What ancillary chunks may make libpng keep; pictures that we read need none of it. */
#define CHUNK_BYTES_MAX (1u << 20)
#define CHUNKS_MAX 64

struct reader {
    const unsigned char *at;
    const unsigned char *end;
    png_structp png;
    png_infop info;
    jmp_buf failed;
    char reason[96];
};

static int reader_open(struct reader *reader, const struct decode_source *source,
                       struct ec_error *why);
static void reader_close(struct reader *reader);
static void read_header(struct reader *reader);
static uint32_t channels_of(const struct reader *reader);
static void read_rows(struct reader *reader, const struct decoded *decoded, unsigned char *to,
                      size_t stride);
static void look_up(struct reader *reader, const struct decoded *decoded, unsigned char *to,
                    const unsigned char *indices);

static bool recognises(const unsigned char *bytes, size_t count)
{
    return count >= 8 && png_sig_cmp(bytes, 0, 8) == 0;
}

static int measure(struct decode_source *source, const struct decode_limits *limits,
                   struct decoded *decoded, struct ec_error *why)
{
    struct reader reader;
    int rc = reader_open(&reader, source, why);

    if (rc < 0)
        return rc;
    if (setjmp(reader.failed) != 0) {
        rc = ec_fail(why, EC_ERR_PARAM, "PNG: %s", reader.reason);
        reader_close(&reader);
        return rc;
    }
    read_header(&reader);
    rc = decoded_image(decoded, limits, png_get_image_width(reader.png, reader.info),
                       png_get_image_height(reader.png, reader.info), channels_of(&reader), why);
    reader_close(&reader);
    return rc;
}

static int decode(struct decode_source *source, const struct decoded *decoded, unsigned char *to,
                  struct ec_error *why)
{
    struct reader reader;
    int rc = reader_open(&reader, source, why);

    if (rc < 0)
        return rc;
    if (setjmp(reader.failed) != 0) {
        rc = ec_fail(why, EC_ERR_PARAM, "PNG: %s", reader.reason);
        reader_close(&reader);
        return rc;
    }
    read_header(&reader);
    if (png_get_image_height(reader.png, reader.info) != decoded->height ||
        png_get_image_width(reader.png, reader.info) != decoded->width ||
        channels_of(&reader) != decoded->channels)
        png_error(reader.png, "the header changed between two looks");
    if (png_get_color_type(reader.png, reader.info) == PNG_COLOR_TYPE_PALETTE) {
        /* To where the last colour will end, so that they are looked up in place. */
        unsigned char *indices =
            to + (size_t)decoded->width * decoded->height * (decoded->channels - 1);

        read_rows(&reader, decoded, indices, decoded->width);
        look_up(&reader, decoded, to, indices);
    } else {
        read_rows(&reader, decoded, to, decoded->stride);
    }
    png_read_end(reader.png, NULL); /* a file that ends before its end is damaged */
    reader_close(&reader);
    return EC_OK;
}

static void on_error(png_structp png, png_const_charp text)
{
    struct reader *reader = png_get_error_ptr(png);
    size_t bytes = strnlen(text, sizeof reader->reason - 1);

    memcpy(reader->reason, text, bytes);
    reader->reason[bytes] = '\0';
    longjmp(reader->failed, 1);
}

static void on_warning(png_structp png, png_const_charp text)
{
    (void)png; /* about ancillary chunks, which nobody looks at */
    (void)text;
}

static void on_read(png_structp png, png_bytep to, size_t bytes)
{
    struct reader *reader = png_get_io_ptr(png);

    if (bytes > (size_t)(reader->end - reader->at))
        png_error(png, "the file is truncated");
    memcpy(to, reader->at, bytes);
    reader->at += bytes;
}

static int reader_open(struct reader *reader, const struct decode_source *source,
                       struct ec_error *why)
{
    memset(reader, 0, sizeof *reader);
    reader->at = source->bytes;
    reader->end = source->bytes + source->count;
    if (setjmp(reader->failed) == 0) {
        reader->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, reader, on_error, on_warning);
        if (reader->png != NULL)
            reader->info = png_create_info_struct(reader->png);
    }
    if (reader->png == NULL || reader->info == NULL) {
        reader_close(reader);
        return ec_fail(why, EC_ERR_MEMORY, "PNG: no memory for the decoder");
    }
    png_set_read_fn(reader->png, reader, on_read);
    png_set_user_limits(reader->png, 1u << 24, 1u << 24);
    png_set_chunk_cache_max(reader->png, CHUNKS_MAX);
    png_set_chunk_malloc_max(reader->png, CHUNK_BYTES_MAX);
    return EC_OK;
}

static void reader_close(struct reader *reader)
{
    png_destroy_read_struct(&reader->png, &reader->info, NULL);
}

/* Read up to the pixels and ask for 8-bit channels. */
static void read_header(struct reader *reader)
{
    png_read_info(reader->png, reader->info);
    if (png_get_color_type(reader->png, reader->info) == PNG_COLOR_TYPE_PALETTE) {
        png_set_packing(reader->png); /* a byte for each index */
    } else {
        png_set_expand(reader->png);
        png_set_scale_16(reader->png);
    }
    if (png_get_interlace_type(reader->png, reader->info) != PNG_INTERLACE_NONE)
        png_set_interlace_handling(reader->png);
    png_read_update_info(reader->png, reader->info);
}

static uint32_t channels_of(const struct reader *reader)
{
    if (png_get_color_type(reader->png, reader->info) != PNG_COLOR_TYPE_PALETTE)
        return png_get_channels(reader->png, reader->info);
    return png_get_valid(reader->png, reader->info, PNG_INFO_tRNS) != 0 ? 4 : 3;
}

static void read_rows(struct reader *reader, const struct decoded *decoded, unsigned char *to,
                      size_t stride)
{
    if (png_get_rowbytes(reader->png, reader->info) != stride)
        png_error(reader->png, "rows of another size than the picture's");
    for (int pass = png_set_interlace_handling(reader->png); pass > 0; pass--)
        for (uint32_t row = 0; row < decoded->height; row++)
            png_read_row(reader->png, to + row * stride, NULL);
}

/* Colours that have no alpha are opaque. */
static void look_up(struct reader *reader, const struct decoded *decoded, unsigned char *to,
                    const unsigned char *indices)
{
    const size_t pixels = (size_t)decoded->width * decoded->height;
    const uint32_t channels = decoded->channels;
    unsigned char colours[256][4];
    png_bytep alpha = NULL;
    png_colorp palette = NULL;
    int count = 0, alphas = 0;

    png_get_PLTE(reader->png, reader->info, &palette, &count);
    png_get_tRNS(reader->png, reader->info, &alpha, &alphas, NULL);
    for (int i = 0; i < count; i++) {
        colours[i][0] = palette[i].red;
        colours[i][1] = palette[i].green;
        colours[i][2] = palette[i].blue;
        colours[i][3] = alpha != NULL && i < alphas ? alpha[i] : 255;
    }
    for (size_t i = 0; i < pixels; i++, to += channels) {
        const unsigned index = indices[i];

        if (index >= (unsigned)count)
            png_error(reader->png, "a pixel has a colour that the palette has not");
        memcpy(to, colours[index], channels);
    }
}

const struct decoder decoder_png = { "png", EC_KIND_IMAGE, recognises, measure, decode };
