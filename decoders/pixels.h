/* pixels.h - change the number of channels, halve an image.
 *
 * Thread: any. Cost: one pass over the pixels; allocates nothing. */
#ifndef DECODERS_PIXELS_H
#define DECODERS_PIXELS_H

#include <stddef.h>
#include <stdint.h>

/* From 1..4 channels to 1..4. Grey is 0.299 R + 0.587 G + 0.114 B; a new alpha is opaque.
 *
 * The two may overlap when to comes before from and no pixel is written before it was read: with more
 * channels, when from ends where to ends. */
void pixels_convert(unsigned char *to, uint32_t to_channels, const unsigned char *from,
                    uint32_t from_channels, size_t pixels);

/* The next mip level, tight rows: each pixel is the mean of 2 x 2 (2 x 1 or 1 x 2 of an image that is
 * one pixel wide or high), rounded half up. An odd last column or row is left out. */
void pixels_halve(unsigned char *to, const unsigned char *from, uint32_t width, uint32_t height,
                  uint32_t channels);

#endif
