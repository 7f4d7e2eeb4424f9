/* decoder.c - the table of decoders, and what they share. */
#include "resources/decoder.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* In the order of asking. TGA has no magic, so it comes last. */
static const struct decoder *const decoders[] = {
    &decoder_raw, &decoder_png, &decoder_jpeg, &decoder_bmp, &decoder_tga,
};

static const char *const kind_names[] = { [EC_KIND_RAW] = "raw", [EC_KIND_IMAGE] = "image" };

int decoder_choose(enum ec_resource_kind kind, struct decode_source *source,
                   const struct decode_limits *limits, const struct decoder **decoder,
                   struct ec_error *why)
{
    for (size_t i = 0; i < sizeof decoders / sizeof decoders[0]; i++) {
        if (decoders[i]->kind != kind)
            continue;
        if (decoders[i]->recognises != NULL) {
            int rc = decode_source_load(source, limits, why);

            if (rc < 0)
                return rc;
            if (!decoders[i]->recognises(source->bytes, source->count))
                continue;
        }
        *decoder = decoders[i];
        return EC_OK;
    }
    return ec_fail(why, EC_ERR_PARAM, "the content is no %s that is understood",
                   decoder_kind_name(kind));
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
    const uint64_t side_max = 1u << 24; /* so that no product below overflows */

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
    };
    return EC_OK;
}

uint64_t decode_source_length(const struct decode_source *source)
{
    return source->entry != NULL ? source->entry->bytes : source->count;
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
    if (source->entry == NULL || source->bytes != NULL)
        return EC_OK;
    source->owned = malloc(length > 0 ? length : 1);
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
    rc = search_entry_read(source->entry, to, bytes, why);
    if (rc == EC_OK && !search_entry_at_end(source->entry))
        rc = ec_fail(why, EC_ERR_SIZE, "has more than the %" PRIu64 " bytes that were announced",
                     bytes);
    return rc;
}

void decode_source_finish(struct decode_source *source)
{
    free(source->owned);
    *source = (struct decode_source) { 0 };
}
