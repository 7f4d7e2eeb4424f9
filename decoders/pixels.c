/* pixels.c - loops over pixels. */
#include "decoders/pixels.h"

#include <string.h>

/* Weights in 1/256, as in ITU-R BT.601; their sum is 256. */
static unsigned char grey_of(const unsigned char *rgb)
{
    return (unsigned char)((77u * rgb[0] + 150u * rgb[1] + 29u * rgb[2] + 128u) >> 8);
}

void pixels_convert(unsigned char *to, uint32_t to_channels, const unsigned char *from,
                    uint32_t from_channels, size_t pixels)
{
    for (size_t i = 0; i < pixels; i++, to += to_channels, from += from_channels) {
        unsigned char rgba[4]; /* read all before anything is written: they may overlap */

        if (from_channels <= 2)
            rgba[0] = rgba[1] = rgba[2] = from[0];
        else
            memcpy(rgba, from, 3);
        rgba[3] = from_channels == 2 ? from[1] : from_channels == 4 ? from[3] : 255;
        if (to_channels <= 2) {
            to[0] = from_channels <= 2 ? rgba[0] : grey_of(rgba);
            if (to_channels == 2)
                to[1] = rgba[3];
        } else {
            memcpy(to, rgba, to_channels);
        }
    }
}

void pixels_halve(unsigned char *to, const unsigned char *from, uint32_t width, uint32_t height,
                  uint32_t channels)
{
    const size_t row = (size_t)width * channels;
    const size_t right = width > 1 ? channels : 0, below = height > 1 ? row : 0;
    const uint32_t to_width = width > 1 ? width / 2 : 1, to_height = height > 1 ? height / 2 : 1;

    for (uint32_t y = 0; y < to_height; y++) {
        const unsigned char *at = from + 2 * y * row;

        for (uint32_t x = 0; x < to_width; x++, at += 2 * (size_t)channels)
            for (uint32_t c = 0; c < channels; c++)
                *to++ = (unsigned char)((at[c] + at[c + right] + at[c + below] +
                                         at[c + right + below] + 2) >>
                                        2);
    }
}
