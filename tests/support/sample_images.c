/* The encoders. Each is the least that the format allows: PNG in stored deflate blocks, JPEG with one
 * coefficient a block, zip without compression. */
#include "support/sample_images.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put(struct sample *sample, const void *bytes, size_t count)
{
    if (sample->count + count > sample->capacity) {
        sample->capacity = (sample->count + count) * 2 + 64;
        sample->bytes = realloc(sample->bytes, sample->capacity);
        if (sample->bytes == NULL)
            abort();
    }
    if (count > 0)
        memcpy(sample->bytes + sample->count, bytes, count);
    sample->count += count;
}

static void put8(struct sample *sample, uint32_t value)
{
    unsigned char byte = (unsigned char)value;

    put(sample, &byte, 1);
}

static void put16le(struct sample *sample, uint32_t value)
{
    put8(sample, value & 0xff);
    put8(sample, value >> 8 & 0xff);
}

static void put32le(struct sample *sample, uint32_t value)
{
    put16le(sample, value & 0xffff);
    put16le(sample, value >> 16);
}

static void put16be(struct sample *sample, uint32_t value)
{
    put8(sample, value >> 8 & 0xff);
    put8(sample, value & 0xff);
}

static void put32be(struct sample *sample, uint32_t value)
{
    put16be(sample, value >> 16);
    put16be(sample, value & 0xffff);
}

static uint32_t crc32_of(const unsigned char *bytes, size_t count)
{
    uint32_t crc = 0xffffffffu;

    for (size_t i = 0; i < count; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

static uint32_t adler32_of(const unsigned char *bytes, size_t count)
{
    uint32_t a = 1, b = 0;

    for (size_t i = 0; i < count; i++) {
        a = (a + bytes[i]) % 65521;
        b = (b + a) % 65521;
    }
    return b << 16 | a;
}

unsigned char sample_pixel(uint32_t x, uint32_t y, uint32_t channel)
{
    return (unsigned char)(x * 7 + y * 13 + channel * 61 + 5);
}

void sample_free(struct sample *sample)
{
    free(sample->bytes);
    *sample = (struct sample) { 0 };
}

/* A palette entry has these colours; pixel x, y uses the entry sample_pixel(x, y, 0). */
static void put_palette_entry(struct sample *sample, uint32_t entry, const unsigned order[3])
{
    for (unsigned i = 0; i < 3; i++)
        put8(sample, entry + order[i] * 61);
}

/* ---- PNG ---- */

static void png_chunk(struct sample *sample, const char *type, const struct sample *data)
{
    size_t start;

    put32be(sample, (uint32_t)data->count);
    start = sample->count;
    put(sample, type, 4);
    put(sample, data->bytes, data->count);
    put32be(sample, crc32_of(sample->bytes + start, sample->count - start));
}

static void png_rows(struct sample *rows, const struct sample_shape *shape)
{
    uint32_t channels = shape->palette ? 1 : shape->channels;

    for (uint32_t y = 0; y < shape->height; y++) {
        put8(rows, 0); /* no filter */
        for (uint32_t x = 0; x < shape->width; x++)
            for (uint32_t c = 0; c < channels; c++) {
                put8(rows, sample_pixel(x, y, c));
                if (shape->bits == 16)
                    put8(rows, sample_pixel(x, y, c)); /* v * 257, so that it scales to v */
            }
    }
}

static void png_deflate(struct sample *stream, const struct sample *rows)
{
    put16be(stream, 0x7801);
    for (size_t at = 0; at < rows->count;) {
        size_t part = rows->count - at < 65535 ? rows->count - at : 65535;

        put8(stream, at + part == rows->count); /* the last block */
        put16le(stream, (uint32_t)part);
        put16le(stream, ~(uint32_t)part & 0xffff);
        put(stream, rows->bytes + at, part);
        at += part;
    }
    put32be(stream, adler32_of(rows->bytes, rows->count));
}

void sample_png(struct sample *sample, const struct sample_shape *shape)
{
    static const unsigned char colour_types[] = { 0, 0, 4, 2, 6 };
    static const unsigned rgb[3] = { 0, 1, 2 };
    struct sample header = { 0 }, rows = { 0 }, stream = { 0 }, palette = { 0 }, nothing = { 0 };

    *sample = (struct sample) { 0 };
    put(sample, "\x89PNG\r\n\x1a\n", 8);
    put32be(&header, shape->width);
    put32be(&header, shape->height);
    put8(&header, shape->bits == 16 ? 16 : 8);
    put8(&header, shape->palette ? 3 : colour_types[shape->channels]);
    put(&header, "\0\0\0", 3);
    png_chunk(sample, "IHDR", &header);
    if (shape->palette) {
        for (uint32_t i = 0; i < 256; i++)
            put_palette_entry(&palette, i, rgb);
        png_chunk(sample, "PLTE", &palette);
    }
    png_rows(&rows, shape);
    png_deflate(&stream, &rows);
    png_chunk(sample, "IDAT", &stream);
    png_chunk(sample, "IEND", &nothing);
    sample_free(&header);
    sample_free(&rows);
    sample_free(&stream);
    sample_free(&palette);
}

/* ---- BMP ---- */

static const unsigned bgr[3] = { 2, 1, 0 };

/* The pixel in the order of BMP and TGA: blue, green, red, alpha. */
static void put_bgr(struct sample *sample, uint32_t x, uint32_t y, uint32_t channels)
{
    for (unsigned i = 0; i < 3; i++)
        put8(sample, sample_pixel(x, y, bgr[i]));
    if (channels == 4)
        put8(sample, sample_pixel(x, y, 3));
}

void sample_bmp(struct sample *sample, const struct sample_shape *shape)
{
    uint32_t bits = shape->palette ? 8 : shape->channels * 8;
    uint32_t header = shape->channels == 4 ? 108 : 40; /* alpha needs the masks of V4 */
    uint32_t offset = 14 + header + (shape->palette ? 1024 : 0);

    *sample = (struct sample) { 0 };
    put(sample, "BM", 2);
    put32le(sample, 0);
    put32le(sample, 0);
    put32le(sample, offset);
    put32le(sample, header);
    put32le(sample, shape->width);
    put32le(sample, shape->top_down ? -shape->height : shape->height);
    put16le(sample, 1);
    put16le(sample, bits);
    put32le(sample, shape->channels == 4 ? 3 : 0);
    for (unsigned i = 0; i < 5; i++)
        put32le(sample, 0);
    if (header == 108) {
        put32le(sample, 0x00ff0000u);
        put32le(sample, 0x0000ff00u);
        put32le(sample, 0x000000ffu);
        put32le(sample, 0xff000000u);
        for (unsigned i = 0; i < 13; i++)
            put32le(sample, 0);
    }
    for (uint32_t i = 0; shape->palette && i < 256; i++) {
        put_palette_entry(sample, i, bgr);
        put8(sample, 0);
    }
    for (uint32_t row = 0; row < shape->height; row++) {
        uint32_t y = shape->top_down ? row : shape->height - 1 - row;

        for (uint32_t x = 0; x < shape->width; x++)
            if (shape->palette)
                put8(sample, sample_pixel(x, y, 0));
            else
                put_bgr(sample, x, y, shape->channels);
        while ((sample->count - offset) % 4 != 0)
            put8(sample, 0);
    }
}

/* ---- TGA ---- */

static void tga_pixel(struct sample *sample, const struct sample_shape *shape, uint32_t x,
                      uint32_t y)
{
    if (shape->palette || shape->channels == 1)
        put8(sample, sample_pixel(x, y, 0));
    else
        put_bgr(sample, x, y, shape->channels);
}

void sample_tga(struct sample *sample, const struct sample_shape *shape)
{
    uint32_t type = shape->palette ? 1 : shape->channels == 1 ? 3 : 2;

    *sample = (struct sample) { 0 };
    put8(sample, 0);
    put8(sample, shape->palette ? 1 : 0);
    put8(sample, type + (shape->packed ? 8 : 0));
    put16le(sample, 0);
    put16le(sample, shape->palette ? 256 : 0);
    put8(sample, shape->palette ? 24 : 0);
    put32le(sample, 0);
    put16le(sample, shape->width);
    put16le(sample, shape->height);
    put8(sample, shape->palette ? 8 : shape->channels * 8);
    put8(sample, (shape->channels == 4 ? 8u : 0u) | (shape->from_right ? 16u : 0u) |
                     (shape->top_down ? 32u : 0u));
    for (uint32_t i = 0; shape->palette && i < 256; i++)
        put_palette_entry(sample, i, bgr);
    for (uint32_t row = 0; row < shape->height; row++) {
        uint32_t y = shape->top_down ? row : shape->height - 1 - row;

        for (uint32_t x = 0; x < shape->width; x++) {
            /* runs of eight plain pixels */
            if (shape->packed && x % 8 == 0)
                put8(sample, (shape->width - x < 8 ? shape->width - x : 8) - 1);
            tga_pixel(sample, shape, shape->from_right ? shape->width - 1 - x : x, y);
        }
    }
}

/* ---- JPEG ---- */

unsigned char sample_jpeg_grey(uint32_t x, uint32_t y)
{
    return (unsigned char)(40 + (x / 8 * 23 + y / 8 * 41) % 180);
}

struct jpeg_bits {
    struct sample *sample;
    uint32_t held, count;
};

static void jpeg_put_bits(struct jpeg_bits *bits, uint32_t value, uint32_t count)
{
    while (count-- > 0) {
        bits->held = bits->held << 1 | (value >> count & 1);
        if (++bits->count < 8)
            continue;
        put8(bits->sample, bits->held & 0xff);
        if ((bits->held & 0xff) == 0xff)
            put8(bits->sample, 0);
        bits->count = 0;
    }
}

/* A block with this difference to the last one and nothing else. Categories 0..9 have codes of four bits
 * (0000..1001), the end of the block is the bit 0. */
static void jpeg_block(struct jpeg_bits *bits, int difference)
{
    uint32_t magnitude = (uint32_t)abs(difference), category = 0;

    while (magnitude >> category != 0)
        category++;
    jpeg_put_bits(bits, category, 4);
    if (category > 0)
        jpeg_put_bits(bits, (uint32_t)(difference > 0 ? difference : difference - 1), category);
    jpeg_put_bits(bits, 0, 1);
}

static void jpeg_segment(struct sample *sample, unsigned marker, const struct sample *data)
{
    put8(sample, 0xff);
    put8(sample, marker);
    put16be(sample, (uint32_t)data->count + 2);
    put(sample, data->bytes, data->count);
}

static void jpeg_tables(struct sample *sample)
{
    struct sample data = { 0 };

    put8(&data, 0);
    for (unsigned i = 0; i < 64; i++)
        put8(&data, 8); /* a coefficient of 1 is one step of grey */
    jpeg_segment(sample, 0xdb, &data);
    data.count = 0;
    put8(&data, 0x00); /* DC: ten codes of four bits */
    for (unsigned i = 1; i <= 16; i++)
        put8(&data, i == 4 ? 10 : 0);
    for (unsigned i = 0; i < 10; i++)
        put8(&data, i);
    put8(&data, 0x10); /* AC: one code of one bit */
    for (unsigned i = 1; i <= 16; i++)
        put8(&data, i == 1 ? 1 : 0);
    put8(&data, 0);
    jpeg_segment(sample, 0xc4, &data);
    sample_free(&data);
}

static void jpeg_headers(struct sample *sample, const struct sample_shape *shape)
{
    struct sample data = { 0 };

    put8(&data, 8);
    put16be(&data, shape->height);
    put16be(&data, shape->width);
    put8(&data, shape->channels);
    for (unsigned c = 1; c <= shape->channels; c++) {
        put8(&data, c);
        put8(&data, 0x11);
        put8(&data, 0);
    }
    jpeg_segment(sample, 0xc0, &data);
    data.count = 0;
    put8(&data, shape->channels);
    for (unsigned c = 1; c <= shape->channels; c++) {
        put8(&data, c);
        put8(&data, 0);
    }
    put(&data, "\x00\x3f\x00", 3);
    jpeg_segment(sample, 0xda, &data);
    sample_free(&data);
}

void sample_jpeg(struct sample *sample, const struct sample_shape *shape)
{
    struct jpeg_bits bits = { .sample = sample };
    int last = 128;

    *sample = (struct sample) { 0 };
    put(sample, "\xff\xd8", 2);
    jpeg_tables(sample);
    jpeg_headers(sample, shape);
    for (uint32_t y = 0; y < shape->height; y += 8)
        for (uint32_t x = 0; x < shape->width; x += 8) {
            int grey = sample_jpeg_grey(x, y);

            jpeg_block(&bits, grey - last);
            last = grey;
            for (uint32_t c = 1; c < shape->channels; c++)
                jpeg_block(&bits, 0); /* no colour */
        }
    while (bits.count != 0)
        jpeg_put_bits(&bits, 1, 1);
    put(sample, "\xff\xd9", 2);
}

/* ---- zip ---- */

static void zip_fields(struct sample *sample, const void *bytes, size_t count, const char *name)
{
    put16le(sample, 0); /* flags */
    put16le(sample, 0); /* stored */
    put16le(sample, 0);
    put16le(sample, 0x21); /* 1980-01-01 */
    put32le(sample, crc32_of(bytes, count));
    put32le(sample, (uint32_t)count);
    put32le(sample, (uint32_t)count);
    put16le(sample, (uint32_t)strlen(name));
    put16le(sample, 0);
}

void sample_zip_add(struct sample_zip *zip, const char *name, const void *bytes, size_t count)
{
    uint32_t offset = (uint32_t)zip->file.count;

    put32le(&zip->file, 0x04034b50);
    put16le(&zip->file, 10);
    zip_fields(&zip->file, bytes, count, name);
    put(&zip->file, name, strlen(name));
    put(&zip->file, bytes, count);

    put32le(&zip->directory, 0x02014b50);
    put16le(&zip->directory, 10);
    put16le(&zip->directory, 10);
    zip_fields(&zip->directory, bytes, count, name);
    for (unsigned i = 0; i < 3; i++)
        put16le(&zip->directory, 0);
    put32le(&zip->directory, 0);
    put32le(&zip->directory, offset);
    put(&zip->directory, name, strlen(name));
    zip->entries++;
}

void sample_zip_write(struct sample_zip *zip, const char *path)
{
    uint32_t offset = (uint32_t)zip->file.count;
    FILE *file = fopen(path, "wb");

    put(&zip->file, zip->directory.bytes, zip->directory.count);
    put32le(&zip->file, 0x06054b50);
    put32le(&zip->file, 0);
    put16le(&zip->file, zip->entries);
    put16le(&zip->file, zip->entries);
    put32le(&zip->file, (uint32_t)zip->directory.count);
    put32le(&zip->file, offset);
    put16le(&zip->file, 0);
    if (file == NULL || fwrite(zip->file.bytes, 1, zip->file.count, file) != zip->file.count ||
        fclose(file) != 0)
        abort();
    sample_free(&zip->file);
    sample_free(&zip->directory);
    *zip = (struct sample_zip) { 0 };
}
