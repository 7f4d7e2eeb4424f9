/* decoder.c - the table of decoders, and what they share. */
#include "decoders/decoder.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "decoders/pixels.h"
#include "foundation/huge_map.h"
#include "proto/image_levels.h"

/* In the order of asking. TGA has no magic, so it comes last. */
static const struct decoder *const decoders[] = {
    &decoder_raw, &decoder_cooked, &decoder_png, &decoder_jpeg, &decoder_bmp, &decoder_tga,
};

static const char *const kind_names[] = { [EC_KIND_RAW] = "raw", [EC_KIND_IMAGE] = "image" };

static int decode_image(const struct decoder *decoder, struct decode_source *source,
                        const struct decoded *decoded, unsigned char *to, struct ec_error *why);
static void make_levels(const struct decoded *decoded, unsigned char *to);

int decoder_choose(const struct decode_request *request, struct decode_source *source,
                   const struct decoder **decoder, struct ec_error *why)
{
    for (size_t i = 0; i < sizeof decoders / sizeof decoders[0]; i++) {
        if (decoders[i]->kind != request->kind)
            continue;
        if (decoders[i]->recognises != NULL) {
            int rc = decode_source_load(source, &request->limits, why);

            if (rc < 0)
                return rc;
            if (!decoders[i]->recognises(source->bytes, source->count))
                continue;
        }
        *decoder = decoders[i];
        return EC_OK;
    }
    return ec_fail(why, EC_ERR_PARAM, "the content is no %s that is understood",
                   decoder_kind_name(request->kind));
}

int decoder_measure(const struct decoder *decoder, const struct decode_request *request,
                    struct decode_source *source, struct decoded *decoded, struct ec_error *why)
{
    const struct decode_options *options = &request->options;
    uint32_t levels = options->levels > 0 ? options->levels : 1, whole;
    int rc = decoder->measure(source, &request->limits, decoded, why);

    if (rc < 0 || decoded->kind != EC_KIND_IMAGE)
        return rc;
    if (options->channels > 0)
        decoded->channels = options->channels;
    decoded->stride = decoded->width * decoded->channels;
    whole = ec_image_level_count(decoded->width, decoded->height);
    decoded->levels = levels < whole ? levels : whole;
    if (decoded->levels < decoded->file_levels)
        decoded->levels = decoded->file_levels; /* they are there, and were asked for when cooked */
    decoded->bytes =
        ec_image_levels_bytes(decoded->width, decoded->height, decoded->channels, decoded->levels);
    if (decoded->bytes > request->limits.bytes_max)
        return ec_fail(why, EC_ERR_SIZE,
                       "%" PRIu64 " decoded bytes, at most %" PRIu64 " are allowed", decoded->bytes,
                       request->limits.bytes_max);
    return EC_OK;
}

int decoder_decode(const struct decoder *decoder, struct decode_source *source,
                   const struct decoded *decoded, unsigned char *to, struct ec_error *why)
{
    if (decoded->kind != EC_KIND_IMAGE)
        return decoder->decode(source, decoded, to, why);
    return decode_image(decoder, source, decoded, to, why);
}

/* For a whole file or picture: in huge pages if it is large, since the first touch of small ones would cost
 * as much as decoding. NULL: no memory. */
static unsigned char *buffer_alloc(uint64_t bytes)
{
    return bytes >= EC_HUGE_BYTES ? ec_huge_alloc(bytes) : malloc(bytes > 0 ? bytes : 1);
}

static void buffer_free(unsigned char *buffer, uint64_t bytes)
{
    if (bytes >= EC_HUGE_BYTES)
        ec_huge_free(buffer, bytes);
    else
        free(buffer);
}

/* What the decoder itself writes: the file's channels and levels. */
static struct decoded as_in_file(const struct decoded *decoded)
{
    struct decoded file = *decoded;

    file.channels = decoded->file_channels;
    file.levels = decoded->file_levels;
    file.stride = file.width * file.channels;
    file.bytes = ec_image_levels_bytes(file.width, file.height, file.channels, file.levels);
    return file;
}

/* With more channels than the file has, level 0 is decoded to where the converted one will end, so that
 * it can grow in place; with fewer there is no room for it. Levels of a file are not converted but made
 * anew: they would be the same. */
static int decode_image(const struct decoder *decoder, struct decode_source *source,
                        const struct decoded *decoded, unsigned char *to, struct ec_error *why)
{
    const size_t pixels = (size_t)decoded->width * decoded->height;
    const struct decoded file = as_in_file(decoded);
    bool grows = file.channels < decoded->channels && file.levels == 1;
    unsigned char *buffer = NULL, *at = to;
    int rc;

    if (file.channels != decoded->channels) {
        if (!grows && (buffer = buffer_alloc(file.bytes)) == NULL)
            return ec_fail(why, EC_ERR_MEMORY, "no memory to convert %" PRIu64 " bytes",
                           file.bytes);
        at = grows ? to + pixels * (decoded->channels - file.channels) : buffer;
    }
    rc = decoder->decode(source, &file, at, why);
    if (rc == EC_OK && at != to)
        pixels_convert(to, decoded->channels, at, file.channels, pixels);
    if (rc == EC_OK && (at != to || decoded->levels > file.levels))
        make_levels(decoded, to);
    buffer_free(buffer, file.bytes);
    return rc;
}

static void make_levels(const struct decoded *decoded, unsigned char *to)
{
    for (uint32_t level = 1; level < decoded->levels; level++) {
        const uint64_t last =
            ec_image_level_offset(decoded->width, decoded->height, decoded->channels, level - 1);
        const uint64_t next =
            ec_image_level_offset(decoded->width, decoded->height, decoded->channels, level);

        pixels_halve(to + next, to + last, ec_image_level_side(decoded->width, level - 1),
                     ec_image_level_side(decoded->height, level - 1), decoded->channels);
    }
}

bool decoded_is_possible(const struct decoded *decoded, const struct decode_request *request)
{
    if (decoded->kind != request->kind || decoded->bytes > request->limits.bytes_max)
        return false;
    if (decoded->kind != EC_KIND_IMAGE)
        return decoded->width == 0 && decoded->height == 0 && decoded->channels == 0 &&
               decoded->stride == 0 && decoded->levels == 0;
    return decoded->width > 0 && decoded->width <= EC_IMAGE_SIDE_MAX && decoded->height > 0 &&
           decoded->height <= EC_IMAGE_SIDE_MAX &&
           (uint64_t)decoded->width * decoded->height <= request->limits.pixels_max &&
           decoded->channels >= 1 && decoded->channels <= 4 &&
           (request->options.channels == 0 || decoded->channels == request->options.channels) &&
           decoded->levels >= 1 &&
           decoded->levels <= ec_image_level_count(decoded->width, decoded->height) &&
           decoded->stride == decoded->width * decoded->channels &&
           decoded->bytes == ec_image_levels_bytes(decoded->width, decoded->height,
                                                   decoded->channels, decoded->levels);
}

const char *decoder_kind_name(unsigned kind)
{
    return kind < sizeof kind_names / sizeof kind_names[0] ? kind_names[kind] : NULL;
}

bool decoder_kind(const char *name, enum ec_resource_kind *kind)
{
    for (unsigned i = 0; decoder_kind_name(i) != NULL; i++)
        if (strcmp(name, decoder_kind_name(i)) == 0) {
            *kind = (enum ec_resource_kind)i;
            return true;
        }
    return false;
}

int decoded_image(struct decoded *decoded, const struct decode_limits *limits, uint64_t width,
                  uint64_t height, uint32_t channels, struct ec_error *why)
{
    const uint64_t side_max = EC_IMAGE_SIDE_MAX; /* so that no product below overflows */

    if (width == 0 || height == 0)
        return ec_fail(why, EC_ERR_SIZE, "%" PRIu64 " x %" PRIu64 " pixels is no image", width,
                       height);
    if (width > side_max || height > side_max || width * height > limits->pixels_max)
        return ec_fail(why, EC_ERR_SIZE,
                       "%" PRIu64 " x %" PRIu64 " pixels, at most %" PRIu64 " are allowed", width,
                       height, limits->pixels_max);
    if (width * height * channels > limits->bytes_max)
        return ec_fail(why, EC_ERR_SIZE,
                       "%" PRIu64 " decoded bytes, at most %" PRIu64 " are allowed",
                       width * height * channels, limits->bytes_max);
    *decoded = (struct decoded) {
        .bytes = width * height * channels,
        .kind = EC_KIND_IMAGE,
        .width = (uint32_t)width,
        .height = (uint32_t)height,
        .channels = channels,
        .stride = (uint32_t)width * channels,
        .levels = 1,
        .file_channels = channels,
        .file_levels = 1,
    };
    return EC_OK;
}

uint64_t decode_source_length(const struct decode_source *source)
{
    return source->read != NULL ? source->length : source->count;
}

int decode_source_load(struct decode_source *source, const struct decode_limits *limits,
                       struct ec_error *why)
{
    uint64_t length = decode_source_length(source);
    int rc;

    if (length > limits->bytes_max)
        return ec_fail(why, EC_ERR_SIZE,
                       "the file has %" PRIu64 " bytes, at most %" PRIu64 " are allowed", length,
                       limits->bytes_max);
    if (source->read == NULL || source->bytes != NULL)
        return EC_OK;
    source->owned = buffer_alloc(length);
    if (source->owned == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory to read %" PRIu64 " bytes", length);
    rc = decode_source_copy(source, source->owned, length, why);
    if (rc < 0)
        return rc;
    source->bytes = source->owned;
    source->count = length;
    return EC_OK;
}

/* Real bytes are counted: an archive whose directory announces another length is damaged. */
int decode_source_copy(struct decode_source *source, unsigned char *to, uint64_t bytes,
                       struct ec_error *why)
{
    int rc;

    if (source->bytes != NULL) {
        memcpy(to, source->bytes, bytes < source->count ? bytes : source->count);
        return EC_OK;
    }
    rc = source->read(source->stream, to, bytes, why);
    if (rc == EC_OK && !source->at_end(source->stream))
        rc = ec_fail(why, EC_ERR_SIZE, "has more than the %" PRIu64 " bytes that were announced",
                     bytes);
    return rc;
}

void decode_source_finish(struct decode_source *source)
{
    buffer_free(source->owned, source->length);
    *source = (struct decode_source) { 0 };
}
