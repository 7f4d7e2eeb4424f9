/* Decode any bytes as an image, within small limits. What is decoded must be all written: the memory is
 * exactly as large as was measured, and is read afterwards, for the sanitizers. */
#include <stdint.h>
#include <stdlib.h>

#include "resources/decoder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct decode_limits limits = { .bytes_max = 1 << 22, .pixels_max = 1 << 20 };
    struct decode_source source = { .bytes = data, .count = size };
    const struct decoder *decoder;
    struct ec_error why = { 0 };
    struct decoded decoded;
    unsigned char *to;
    volatile unsigned sum = 0;

    if (decoder_choose(EC_KIND_IMAGE, &source, &limits, &decoder, &why) != EC_OK ||
        decoder->measure(&source, &limits, &decoded, &why) != EC_OK)
        return 0;
    if (decoded.bytes > limits.bytes_max ||
        decoded.bytes != (uint64_t)decoded.stride * decoded.height ||
        decoded.stride != decoded.width * decoded.channels)
        abort();
    to = malloc(decoded.bytes);
    if (to == NULL)
        return 0;
    if (decoder->decode(&source, &decoded, to, &why) == EC_OK)
        for (uint64_t i = 0; i < decoded.bytes; i++)
            sum += to[i];
    (void)sum; /* the reads are what matters */
    free(to);
    return 0;
}
