/* decode_jpeg.c - JPEG by libjpeg-turbo: grey or RGB, straight into the heap; CMYK becomes RGB by way of a
 * buffer.
 *
 * The library goes on after damage and warns; here every warning is an error, since a picture that is
 * half grey helps nobody. Progressive files may hold any number of scans that each cost as much as the
 * whole picture: LIMITSCANS ends that. */
#include <stdlib.h>
#include <turbojpeg.h>

#include "decoders/decoder.h"

#define FLAGS (TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS)

static bool recognises(const unsigned char *bytes, size_t count)
{
    return count >= 3 && bytes[0] == 0xff && bytes[1] == 0xd8 && bytes[2] == 0xff;
}

static int fail(tjhandle handle, int code, struct ec_error *why)
{
    code = ec_fail(why, code, "JPEG: %s", tjGetErrorStr2(handle));
    tjDestroy(handle);
    return code;
}

static int measure(struct decode_source *source, const struct decode_limits *limits,
                   struct decoded *decoded, struct ec_error *why)
{
    int width, height, subsampling, colours;
    tjhandle handle = tjInitDecompress();

    if (handle == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "JPEG: %s", tjGetErrorStr2(NULL));
    if (tjDecompressHeader3(handle, source->bytes, source->count, &width, &height, &subsampling,
                            &colours) != 0)
        return fail(handle, EC_ERR_PARAM, why);
    tjDestroy(handle);
    if (width < 0 || height < 0)
        return ec_fail(why, EC_ERR_PARAM, "JPEG: %d x %d pixels is no image", width, height);
    return decoded_image(decoded, limits, (uint64_t)width, (uint64_t)height,
                         colours == TJCS_GRAY ? 1 : 3, why);
}

/* The inks stand there as in all files that Adobe's programs and their like write: 255 is none. */
static void ink_to_light(unsigned char *to, const unsigned char *inks, size_t pixels)
{
    for (; pixels > 0; pixels--, inks += 4, to += 3)
        for (unsigned i = 0; i < 3; i++)
            to[i] = (unsigned char)((inks[i] * inks[3] + 127) / 255);
}

/* Four inks need a picture of their own. */
static int decode_inks(tjhandle handle, const struct decode_source *source,
                       const struct decoded *decoded, unsigned char *to, struct ec_error *why)
{
    const size_t pixels = (size_t)decoded->width * decoded->height;
    unsigned char *inks = malloc(pixels * 4);

    if (inks == NULL) {
        tjDestroy(handle);
        return ec_fail(why, EC_ERR_MEMORY, "JPEG: no memory for four inks");
    }
    if (tjDecompress2(handle, source->bytes, source->count, inks, (int)decoded->width, 0,
                      (int)decoded->height, TJPF_CMYK, FLAGS) != 0) {
        free(inks);
        return fail(handle, EC_ERR_PARAM, why);
    }
    ink_to_light(to, inks, pixels);
    free(inks);
    tjDestroy(handle);
    return EC_OK;
}

static int decode(struct decode_source *source, const struct decoded *decoded, unsigned char *to,
                  struct ec_error *why)
{
    int width, height, subsampling, colours;
    tjhandle handle = tjInitDecompress();

    if (handle == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "JPEG: %s", tjGetErrorStr2(NULL));
    if (tjDecompressHeader3(handle, source->bytes, source->count, &width, &height, &subsampling,
                            &colours) != 0)
        return fail(handle, EC_ERR_PARAM, why);
    if (colours == TJCS_CMYK || colours == TJCS_YCCK)
        return decode_inks(handle, source, decoded, to, why);
    if (tjDecompress2(handle, source->bytes, source->count, to, (int)decoded->width,
                      (int)decoded->stride, (int)decoded->height,
                      decoded->channels == 1 ? TJPF_GRAY : TJPF_RGB, FLAGS) != 0)
        return fail(handle, EC_ERR_PARAM, why);
    tjDestroy(handle);
    return EC_OK;
}

const struct decoder decoder_jpeg = { "jpeg", EC_KIND_IMAGE, recognises, measure, decode };
