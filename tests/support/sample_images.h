/* support/sample_images.h - small images in each format, byte by byte, and archives that hold them.
 *
 * The encoders here share no code with the decoders under test. All pictures are made from the same
 * pixels (sample_pixel), so a test compares what was decoded with them.
 *
 *     struct sample image;
 *
 *     sample_png(&image, &(struct sample_shape){ .width = 20, .height = 10, .channels = 4 });
 *     …
 *     sample_free(&image);
 *
 * No memory ends the test. Thread: any. */
#ifndef EC_SUPPORT_SAMPLE_IMAGES_H
#define EC_SUPPORT_SAMPLE_IMAGES_H

#include <stddef.h>
#include <stdint.h>

struct sample {
    unsigned char *bytes;
    size_t count, capacity;
};

struct sample_shape {
    uint32_t width, height;
    uint32_t channels; /* 1 grey, 2 grey and alpha, 3 RGB, 4 RGBA; see each format */
    uint32_t bits;     /* PNG: 8 or 16; 0 means 8 */
    int palette;       /* PNG: RGB by a palette of 256; TGA: the same; BMP: the same */
    int packed;        /* TGA: run-length encoded */
    int top_down;      /* BMP and TGA */
    int from_right;    /* TGA */
};

/* What channel c of pixel x, y is. */
unsigned char sample_pixel(uint32_t x, uint32_t y, uint32_t channel);

void sample_png(struct sample *sample, const struct sample_shape *shape);
/* 3 or 4 channels. */
void sample_bmp(struct sample *sample, const struct sample_shape *shape);
/* 1, 3 or 4 channels. */
void sample_tga(struct sample *sample, const struct sample_shape *shape);
/* 1 or 3 channels, baseline, blocks of 8 x 8 of one grey each (sample_jpeg_grey); width and height are
 * multiples of 8. */
void sample_jpeg(struct sample *sample, const struct sample_shape *shape);
unsigned char sample_jpeg_grey(uint32_t x, uint32_t y);

void sample_free(struct sample *sample);

/* A zip archive of stored entries; begin with a zeroed sample, add entries, end once. */
struct sample_zip {
    struct sample file;
    struct sample directory;
    uint32_t entries;
};
void sample_zip_add(struct sample_zip *zip, const char *name, const void *bytes, size_t count);
void sample_zip_write(struct sample_zip *zip, const char *path); /* ends and frees it */

#endif
