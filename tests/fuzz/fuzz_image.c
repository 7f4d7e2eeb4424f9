/* Decode any bytes as an image, within small limits; cooked ones are images, too. The memory is exactly as
 * large as was measured, and is read afterwards, for the sanitizers. */
#include <stdint.h>
#include <stdlib.h>

#include "decoders/decoder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct decode_request request = {
        .kind = EC_KIND_IMAGE,
        /* Some of the choices, by the length: none is a property of the bytes. */
        .options = { .channels = size % 5, .levels = size % 3 == 0 ? 32 : 0 },
        .limits = { .bytes_max = 1 << 22, .pixels_max = 1 << 20 },
    };
    struct decode_source source = { .bytes = data, .count = size };
    const struct decoder *decoder;
    struct ec_error why = { 0 };
    struct decoded decoded;
    unsigned char *to;
    volatile unsigned sum = 0;

    if (decoder_choose(&request, &source, &decoder, &why) != EC_OK ||
        decoder_measure(decoder, &request, &source, &decoded, &why) != EC_OK)
        return 0;
    if (!decoded_is_possible(&decoded, &request))
        abort();
    to = calloc(1, decoded.bytes); /* the heap is zero, and gaps between levels stay so */
    if (to == NULL)
        return 0;
    if (decoder_decode(decoder, &source, &decoded, to, &why) == EC_OK)
        for (uint64_t i = 0; i < decoded.bytes; i++)
            sum += to[i];
    (void)sum; /* the reads are what matters */
    free(to);
    return 0;
}
