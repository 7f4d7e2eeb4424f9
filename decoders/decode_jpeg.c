/* decode_jpeg.c - JPEG by libjpeg-turbo: grey or RGB, straight into the heap.
 *
 * The library goes on after damage and warns; here every warning is an error, since a picture that is
 * half grey helps nobody. Progressive files may hold any number of scans that each cost as much as the
 * whole picture: LIMITSCANS ends that. */
#include <turbojpeg.h>

#include "decoders/decoder.h"

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
    if (colours == TJCS_CMYK || colours == TJCS_YCCK)
        return ec_fail(why, EC_ERR_PARAM, "JPEG: CMYK is not supported");
    if (width < 0 || height < 0)
        return ec_fail(why, EC_ERR_PARAM, "JPEG: %d x %d pixels is no image", width, height);
    return decoded_image(decoded, limits, (uint64_t)width, (uint64_t)height,
                         colours == TJCS_GRAY ? 1 : 3, why);
}

static int decode(struct decode_source *source, const struct decoded *decoded, unsigned char *to,
                  struct ec_error *why)
{
    tjhandle handle = tjInitDecompress();

    if (handle == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "JPEG: %s", tjGetErrorStr2(NULL));
    if (tjDecompress2(handle, source->bytes, source->count, to, (int)decoded->width,
                      (int)decoded->stride, (int)decoded->height,
                      decoded->channels == 1 ? TJPF_GRAY : TJPF_RGB,
                      TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS) != 0)
        return fail(handle, EC_ERR_PARAM, why);
    tjDestroy(handle);
    return EC_OK;
}

const struct decoder decoder_jpeg = { "jpeg", EC_KIND_IMAGE, recognises, measure, decode };
