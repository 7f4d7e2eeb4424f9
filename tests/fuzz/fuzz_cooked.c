/* Decode any bytes as a cooked image. The first bytes are made to look like one, so that the fuzzer gets to
 * the sizes and the blocks at once; and once more with the hash that its blocks would have. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "decoders/cooked.h"
#include "decoders/decoder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void put64(unsigned char *at, uint64_t value)
{
    for (int i = 0; i < 8; i++)
        at[i] = (unsigned char)(value >> 8 * i);
}

/* Returns whether it was an image. */
static bool decode(const unsigned char *bytes, size_t count, uint64_t *hash)
{
    const struct decode_request request = {
        .kind = EC_KIND_IMAGE,
        .limits = { .bytes_max = 1 << 22, .pixels_max = 1 << 20 },
    };
    struct decode_source source = { .bytes = bytes, .count = count };
    struct ec_error why = { 0 };
    struct decoded decoded;
    unsigned char *to;
    int rc;

    if (decoder_measure(&decoder_cooked, &request, &source, &decoded, &why) != EC_OK)
        return false;
    if (!decoded_is_possible(&decoded, &request))
        abort();
    to = calloc(1, decoded.bytes);
    if (to == NULL)
        return false;
    rc = decoder_decode(&decoder_cooked, &source, &decoded, to, &why);
    *hash = XXH3_64bits(to, decoded.bytes);
    free(to);
    return rc == EC_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned char *bytes;
    uint64_t hash = 0;

    if (size < COOKED_HEADER_BYTES)
        return 0;
    bytes = malloc(size);
    if (bytes == NULL)
        return 0;
    memcpy(bytes, data, size);
    memcpy(bytes, COOKED_MAGIC, COOKED_MAGIC_BYTES);
    bytes[COOKED_AT_VERSION] = COOKED_VERSION;
    memset(bytes + COOKED_AT_VERSION + 1, 0, 3);
    put64(bytes + COOKED_AT_PACKED_BYTES, size - COOKED_HEADER_BYTES);
    if (!decode(bytes, size, &hash) && hash != 0) {
        put64(bytes + COOKED_AT_HASH, hash);
        decode(bytes, size, &hash);
    }
    free(bytes);
    return 0;
}
