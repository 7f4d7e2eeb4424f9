/* decode_stb.c - BMP and TGA by stb_image, all other formats of it compiled out.
 *
 * stb_image trusts its input too much for our purpose: it reads zeros behind the end of a file, leaves
 * rows of a truncated TGA unwritten, and looks up palette entries that were never read. So the
 * structure of the file is checked here first: everything that stb_image will read is there.
 *
 * It also allocates the picture itself. Its allocation functions are replaced: the request for just
 * the bytes of the picture gets the range in the heap, and others are bounded. stb_image passes no
 * context to them, so the state is thread-local, set for the time of one call. */
#include <assert.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "decoders/decoder.h"

/* Besides the picture only a TGA palette is allocated: at most 65,535 entries of 4 bytes. */
#define SIDE_BYTES_MAX (65536u * 4)

struct picture_memory {
    unsigned char *to;
    size_t bytes;
    bool taken;
};

static _Thread_local struct picture_memory picture;

static void *picture_malloc(size_t bytes)
{
    if (picture.to != NULL && !picture.taken && bytes == picture.bytes) {
        picture.taken = true;
        return picture.to;
    }
    return bytes <= SIDE_BYTES_MAX ? malloc(bytes) : NULL;
}

static void picture_free(void *memory)
{
    if (memory != NULL && memory == picture.to)
        picture.taken = false;
    else
        free(memory);
}

#pragma GCC diagnostic ignored "-Wunused-function" /* gcc looks at the end of the file */

/* No loader that is compiled in reallocates. */
static void *picture_realloc(void *memory, size_t bytes)
{
    (void)memory;
    (void)bytes;
    return NULL;
}

#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#define STBI_ONLY_BMP
#define STBI_ONLY_TGA
#define STBI_NO_STDIO
#define STBI_NO_LINEAR
#define STBI_NO_HDR
#define STBI_ASSERT(condition) ((void)0) /* a file must not be able to end the daemon */
#define STBI_MALLOC(bytes) picture_malloc(bytes)
#define STBI_REALLOC(memory, bytes) picture_realloc(memory, bytes)
#define STBI_FREE(memory) picture_free(memory)
#include <stb/stb_image.h>

static uint32_t le16(const unsigned char *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8;
}

static uint32_t le32(const unsigned char *at)
{
    return le16(at) | le16(at + 2) << 16;
}

/* Let stb_image decode and see that it found what was measured. */
static int decode(struct decode_source *source, const struct decoded *decoded, unsigned char *to,
                  struct ec_error *why)
{
    int width = 0, height = 0, channels = 0;
    unsigned char *result;
    int rc = EC_OK;

    picture = (struct picture_memory) { .to = to, .bytes = decoded->bytes };
    result =
        stbi_load_from_memory(source->bytes, (int)source->count, &width, &height, &channels, 0);
    if (result == NULL)
        rc = ec_fail(why, EC_ERR_PARAM, "%s", stbi_failure_reason());
    else if ((uint32_t)width != decoded->width || (uint32_t)height != decoded->height ||
             (uint32_t)channels != decoded->channels)
        rc = ec_fail(why, EC_ERR_PARAM, "the header changed between two looks");
    else if (result != to) /* a palette of just the picture's size was first */
        memcpy(to, result, decoded->bytes);
    picture_free(result);
    picture = (struct picture_memory) { 0 };
    return rc;
}

/* ---- BMP ---- */

#define BMP_FILE_HEADER_BYTES 14

struct bmp {
    uint32_t offset, header_bytes;
    int64_t width, height;
    uint32_t bits, compression;
    const unsigned char *bytes;
    size_t count;
};

static int bmp_read(struct bmp *bmp, const struct decode_source *source, struct ec_error *why);
static int bmp_check_palette(const struct bmp *bmp, uint64_t row_bytes, struct ec_error *why);

static bool bmp_recognises(const unsigned char *bytes, size_t count)
{
    return count >= 2 && bytes[0] == 'B' && bytes[1] == 'M';
}

static int bmp_measure(struct decode_source *source, const struct decode_limits *limits,
                       struct decoded *decoded, struct ec_error *why)
{
    int width, height, channels;
    uint64_t row_bytes;
    struct bmp bmp;
    int rc = bmp_read(&bmp, source, why);

    if (rc < 0)
        return rc;
    rc = decoded_image(decoded, limits, (uint64_t)bmp.width, (uint64_t)bmp.height, 1, why);
    if (rc < 0)
        return rc;
    row_bytes = ((uint64_t)bmp.width * bmp.bits + 31) / 32 * 4;
    if (bmp.offset > bmp.count || row_bytes * (uint64_t)bmp.height > bmp.count - bmp.offset)
        return ec_fail(why, EC_ERR_SIZE,
                       "BMP: the file is truncated: %zu bytes, %" PRIu64 " are needed", bmp.count,
                       bmp.offset + row_bytes * (uint64_t)bmp.height);
    if (bmp.bits < 16) {
        rc = bmp_check_palette(&bmp, row_bytes, why);
        if (rc < 0)
            return rc;
    }
    if (!stbi_info_from_memory(source->bytes, (int)source->count, &width, &height, &channels))
        return ec_fail(why, EC_ERR_PARAM, "BMP: %s", stbi_failure_reason());
    return decoded_image(decoded, limits, (uint64_t)bmp.width, (uint64_t)bmp.height,
                         channels == 4 ? 4 : 3, why);
}

static int bmp_decode(struct decode_source *source, const struct decoded *decoded,
                      unsigned char *to, struct ec_error *why)
{
    int rc = decode(source, decoded, to, why);

    return rc < 0 ? ec_error_prefix(why, rc, "BMP") : rc;
}

static int bmp_read(struct bmp *bmp, const struct decode_source *source, struct ec_error *why)
{
    const unsigned char *bytes = source->bytes;
    uint32_t needed;

    *bmp = (struct bmp) { .bytes = bytes, .count = source->count };
    if (source->count < BMP_FILE_HEADER_BYTES + 12 || source->count > INT_MAX)
        return ec_fail(why, EC_ERR_SIZE, "BMP: %zu bytes are too few or too many", source->count);
    bmp->offset = le32(bytes + 10);
    bmp->header_bytes = le32(bytes + 14);
    needed = BMP_FILE_HEADER_BYTES + bmp->header_bytes;
    if (bmp->header_bytes > 124 || source->count < needed || bmp->offset < needed)
        return ec_fail(why, EC_ERR_SIZE, "BMP: the header is truncated");
    if (bmp->header_bytes == 12) {
        bmp->width = le16(bytes + 18);
        bmp->height = le16(bytes + 20);
        bmp->bits = le16(bytes + 24);
        if (bmp->bits < 24)
            return ec_fail(why, EC_ERR_PARAM, "BMP: palettes of OS/2 are not supported");
        return EC_OK;
    }
    if (bmp->header_bytes < 40)
        return ec_fail(why, EC_ERR_PARAM, "BMP: header of %u bytes is not supported",
                       bmp->header_bytes);
    bmp->width = (int32_t)le32(bytes + 18);
    bmp->height = (int32_t)le32(bytes + 22);
    bmp->bits = le16(bytes + 28);
    bmp->compression = le32(bytes + 30);
    if (bmp->width <= 0)
        return ec_fail(why, EC_ERR_SIZE, "BMP: width is %" PRId64, bmp->width);
    if (bmp->compression != 0 && bmp->compression != 3)
        return ec_fail(why, EC_ERR_PARAM, "BMP: compression %u is not supported", bmp->compression);
    if (bmp->compression == 3 && bmp->header_bytes > 40 && bmp->header_bytes < 108)
        return ec_fail(why, EC_ERR_PARAM, "BMP: masks in a header of %u bytes are not supported",
                       bmp->header_bytes); /* stb_image looks for them behind it */
    if (bmp->compression == 3 && bmp->header_bytes < 108 && bmp->offset < needed + 12)
        return ec_fail(why, EC_ERR_SIZE, "BMP: the colour masks are missing");
    if (bmp->height < 0) /* from the top */
        bmp->height = -bmp->height;
    return EC_OK;
}

/* Each index in the rows must have an entry: stb_image does not look. */
static int bmp_check_palette(const struct bmp *bmp, uint64_t row_bytes, struct ec_error *why)
{
    uint32_t entries = (bmp->offset - BMP_FILE_HEADER_BYTES - bmp->header_bytes) / 4;

    if (bmp->bits != 1 && bmp->bits != 4 && bmp->bits != 8)
        return ec_fail(why, EC_ERR_PARAM, "BMP: %u bits a pixel are not supported", bmp->bits);
    if (entries == 0 || entries > 256)
        return ec_fail(why, EC_ERR_PARAM, "BMP: a palette of %u entries", entries);
    for (int64_t y = 0; y < bmp->height; y++) {
        const unsigned char *row = bmp->bytes + bmp->offset + (uint64_t)y * row_bytes;

        for (int64_t x = 0; x < bmp->width; x++) {
            uint64_t bit = (uint64_t)x * bmp->bits;
            uint32_t index = (uint32_t)row[bit / 8] >> (8 - bmp->bits - bit % 8);

            index &= (1u << bmp->bits) - 1;
            if (index >= entries)
                return ec_fail(why, EC_ERR_PARAM, "BMP: colour %u of a palette of %u", index,
                               entries);
        }
    }
    return EC_OK;
}

/* ---- TGA ---- */

#define TGA_HEADER_BYTES 18

struct tga {
    bool indexed, packed; /* packed: run-length encoded */
    bool from_right;      /* rows begin with their last pixel */
    uint32_t width, height, channels;
    uint64_t pixels_offset;
    uint32_t pixel_bytes; /* in the file */
};

static int tga_read(struct tga *tga, const struct decode_source *source, struct ec_error *why);
static int tga_check_pixels(const struct tga *tga, const struct decode_source *source,
                            struct ec_error *why);
static void tga_mirror(unsigned char *pixels, const struct decoded *decoded);

/* There is no magic; a header in which all fields make sense is taken for one. */
static bool tga_recognises(const unsigned char *bytes, size_t count)
{
    int width, height, channels;

    return count >= TGA_HEADER_BYTES && count <= INT_MAX &&
           stbi_info_from_memory(bytes, (int)count, &width, &height, &channels) != 0;
}

static int tga_measure(struct decode_source *source, const struct decode_limits *limits,
                       struct decoded *decoded, struct ec_error *why)
{
    struct tga tga;
    int rc = tga_read(&tga, source, why);

    if (rc == EC_OK)
        rc = decoded_image(decoded, limits, tga.width, tga.height, tga.channels, why);
    if (rc == EC_OK)
        rc = tga_check_pixels(&tga, source, why);
    return rc;
}

static int tga_decode(struct decode_source *source, const struct decoded *decoded,
                      unsigned char *to, struct ec_error *why)
{
    struct tga tga;
    int rc = tga_read(&tga, source, why);

    if (rc < 0)
        return rc;
    rc = decode(source, decoded, to, why);
    if (rc < 0)
        return ec_error_prefix(why, rc, "TGA");
    if (tga.from_right)
        tga_mirror(to, decoded);
    return EC_OK;
}

/* stb_image knows rows from the bottom, but none from the right. */
static void tga_mirror(unsigned char *pixels, const struct decoded *decoded)
{
    const size_t channels = decoded->channels, row_bytes = decoded->width * channels;

    for (uint32_t y = 0; y < decoded->height; y++, pixels += row_bytes) {
        unsigned char *left = pixels, *right = pixels + row_bytes - channels;

        for (; left < right; left += channels, right -= channels)
            for (size_t c = 0; c < channels; c++) {
                unsigned char byte = left[c];

                left[c] = right[c];
                right[c] = byte;
            }
    }
}

/* Bytes of a pixel in the file and channels after decoding; 15 and 16 bits become RGB. */
static void tga_pixel(uint32_t bits, bool grey, uint32_t *bytes, uint32_t *channels)
{
    *bytes = (bits + 7) / 8;
    *channels = *bytes;
    if (bits == 15 || (bits == 16 && !grey))
        *channels = 3;
}

static int tga_read(struct tga *tga, const struct decode_source *source, struct ec_error *why)
{
    const unsigned char *bytes = source->bytes;
    uint32_t type = bytes[2], palette_start = le16(bytes + 3), palette_count = le16(bytes + 5);
    uint32_t entry_bytes;

    *tga = (struct tga) {
        .indexed = bytes[1] == 1,
        .packed = type >= 8,
        .from_right = (bytes[17] & 16) != 0,
        .width = le16(bytes + 12),
        .height = le16(bytes + 14),
        .pixels_offset = TGA_HEADER_BYTES + bytes[0],
    };
    if (!tga->indexed) {
        tga_pixel(bytes[16], (type & 7) == 3, &tga->pixel_bytes, &tga->channels);
        return EC_OK;
    }
    if (palette_count == 0)
        return ec_fail(why, EC_ERR_PARAM, "TGA: the palette is empty");
    if (palette_start != 0)
        return ec_fail(why, EC_ERR_PARAM, "TGA: a palette that begins at entry %u is not supported",
                       palette_start);
    tga_pixel(bytes[7], false, &entry_bytes, &tga->channels);
    tga->pixels_offset += (uint64_t)palette_count * entry_bytes;
    tga->pixel_bytes = bytes[16] / 8;
    return EC_OK;
}

/* Is there a byte in the file for each pixel? Runs are walked over as stb_image will. */
static int tga_check_pixels(const struct tga *tga, const struct decode_source *source,
                            struct ec_error *why)
{
    uint64_t pixels = (uint64_t)tga->width * tga->height, at = tga->pixels_offset;

    if (!tga->packed)
        at += pixels * tga->pixel_bytes;
    while (tga->packed && pixels > 0 && at < source->count) {
        uint32_t run = (source->bytes[at] & 127u) + 1;

        if (run > pixels)
            run = (uint32_t)pixels; /* the last run may be longer than the picture */
        at += 1 + (uint64_t)tga->pixel_bytes * (source->bytes[at] & 128 ? 1 : run);
        pixels -= run;
    }
    if (at > source->count || (tga->packed && pixels > 0))
        return ec_fail(why, EC_ERR_SIZE, "TGA: the file is truncated at %zu bytes", source->count);
    return EC_OK;
}

const struct decoder decoder_bmp = { "bmp", EC_KIND_IMAGE, bmp_recognises, bmp_measure,
                                     bmp_decode };
const struct decoder decoder_tga = { "tga", EC_KIND_IMAGE, tga_recognises, tga_measure,
                                     tga_decode };
