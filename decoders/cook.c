/* cook.c - read, decode, pack, write beside and rename. */
#include "decoders/cook.h"

#include <errno.h>
#include <fcntl.h>
#include <lz4hc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "decoders/cooked.h"
#include "decoders/decoder.h"

#define BLOCK_BYTES (1u << 20) /* fits the cache of a processor, and packs as well as larger ones */
#define BYTES_MAX (4ull << 30)

static int read_file(const char *path, unsigned char **bytes, size_t *count, struct ec_error *why);
static int decode(const struct cook_desc *desc, struct decode_source *source,
                  struct decoded *decoded, unsigned char **pixels, struct ec_error *why);
static int pack(const unsigned char *pixels, const struct decoded *decoded, unsigned char **file,
                size_t *count, struct ec_error *why);
static int write_file(const char *path, const unsigned char *bytes, size_t count,
                      struct ec_error *why);

int cook_image(const struct cook_desc *desc, struct cook_result *result, struct ec_error *why)
{
    unsigned char *input = NULL, *pixels = NULL, *file = NULL;
    struct decode_source source = { 0 };
    struct decoded decoded;
    size_t input_bytes = 0, file_bytes = 0;
    int rc = read_file(desc->input, &input, &input_bytes, why);

    source.bytes = input;
    source.count = input_bytes;
    if (rc == EC_OK)
        rc = decode(desc, &source, &decoded, &pixels, why);
    if (rc == EC_OK)
        rc = pack(pixels, &decoded, &file, &file_bytes, why);
    if (rc == EC_OK)
        rc = write_file(desc->output, file, file_bytes, why);
    if (rc == EC_OK)
        *result = (struct cook_result) { .width = decoded.width,
                                         .height = decoded.height,
                                         .channels = decoded.channels,
                                         .levels = decoded.levels,
                                         .decoded_bytes = decoded.bytes,
                                         .input_bytes = input_bytes,
                                         .output_bytes = file_bytes };
    free(file);
    free(pixels);
    free(input);
    return rc;
}

static int fail_system(struct ec_error *why, const char *what, const char *path)
{
    return ec_fail(why, EC_ERR_SYSTEM, "%s %s: %s", what, path, strerror(errno));
}

static int read_all(int fd, unsigned char *to, size_t count)
{
    for (size_t done = 0; done < count;) {
        ssize_t got = read(fd, to + done, count - done);

        if (got == 0)
            errno = EIO; /* it became shorter */
        if (got == 0 || (got < 0 && errno != EINTR))
            return -1;
        done += got > 0 ? (size_t)got : 0;
    }
    return 0;
}

static int read_file(const char *path, unsigned char **bytes, size_t *count, struct ec_error *why)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    int rc = EC_OK;

    if (fd < 0)
        return fail_system(why, "open", path);
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return ec_fail(why, EC_ERR_PATH, "%s is not a regular file", path);
    }
    *count = (size_t)st.st_size;
    *bytes = malloc(*count > 0 ? *count : 1);
    if (*bytes == NULL)
        rc = ec_fail(why, EC_ERR_MEMORY, "no memory to read %zu bytes of %s", *count, path);
    else if (read_all(fd, *bytes, *count) < 0)
        rc = fail_system(why, "read", path);
    close(fd);
    return rc;
}

static int decode(const struct cook_desc *desc, struct decode_source *source,
                  struct decoded *decoded, unsigned char **pixels, struct ec_error *why)
{
    const struct decode_request request = {
        .kind = EC_KIND_IMAGE,
        .options = { .channels = desc->channels, .levels = desc->levels },
        .limits = { .bytes_max = BYTES_MAX, .pixels_max = BYTES_MAX },
    };
    const struct decoder *decoder;
    int rc = decoder_choose(&request, source, &decoder, why);

    if (rc == EC_OK)
        rc = decoder_measure(decoder, &request, source, decoded, why);
    if (rc < 0)
        return ec_error_prefix(why, rc, "%s", desc->input);
    *pixels = calloc(1, decoded->bytes);
    if (*pixels == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory for the picture of %s", desc->input);
    rc = decoder_decode(decoder, source, decoded, *pixels, why);
    return rc < 0 ? ec_error_prefix(why, rc, "%s", desc->input) : EC_OK;
}

static void put32(unsigned char *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (unsigned char)(value >> 8 * i);
}

static void put64(unsigned char *at, uint64_t value)
{
    put32(at, (uint32_t)value);
    put32(at + 4, (uint32_t)(value >> 32));
}

/* What does not get smaller is stored. Returns the bytes written to at, which has 4 + LZ4's bound. */
static size_t pack_block(const unsigned char *from, uint32_t bytes, unsigned char *at)
{
    int packed = LZ4_compress_HC((const char *)from, (char *)at + 4, (int)bytes,
                                 LZ4_compressBound((int)bytes), LZ4HC_CLEVEL_MAX);

    if (packed > 0 && (uint32_t)packed < bytes) {
        put32(at, (uint32_t)packed);
        return 4 + (size_t)packed;
    }
    put32(at, bytes | COOKED_STORED);
    memcpy(at + 4, from, bytes);
    return 4 + (size_t)bytes;
}

static int pack(const unsigned char *pixels, const struct decoded *decoded, unsigned char **file,
                size_t *count, struct ec_error *why)
{
    const uint64_t blocks = (decoded->bytes + BLOCK_BYTES - 1) / BLOCK_BYTES;
    unsigned char *out =
        malloc(COOKED_HEADER_BYTES + blocks * (4 + (size_t)LZ4_compressBound(BLOCK_BYTES)));
    size_t at = COOKED_HEADER_BYTES;

    *file = out;
    if (out == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory to pack %llu bytes",
                       (unsigned long long)decoded->bytes);
    for (uint64_t done = 0; done < decoded->bytes; done += BLOCK_BYTES) {
        const uint64_t rest = decoded->bytes - done;

        at +=
            pack_block(pixels + done, rest < BLOCK_BYTES ? (uint32_t)rest : BLOCK_BYTES, out + at);
    }
    memset(out, 0, COOKED_HEADER_BYTES);
    memcpy(out, COOKED_MAGIC, COOKED_MAGIC_BYTES);
    put32(out + COOKED_AT_VERSION, COOKED_VERSION);
    put32(out + COOKED_AT_HEADER_BYTES, COOKED_HEADER_BYTES);
    put32(out + COOKED_AT_WIDTH, decoded->width);
    put32(out + COOKED_AT_HEIGHT, decoded->height);
    put32(out + COOKED_AT_CHANNELS, decoded->channels);
    put32(out + COOKED_AT_LEVELS, decoded->levels);
    put32(out + COOKED_AT_BLOCK_BYTES, BLOCK_BYTES);
    put64(out + COOKED_AT_BYTES, decoded->bytes);
    put64(out + COOKED_AT_PACKED_BYTES, at - COOKED_HEADER_BYTES);
    put64(out + COOKED_AT_HASH, XXH3_64bits(pixels, decoded->bytes));
    *count = at;
    return EC_OK;
}

static int write_all(int fd, const unsigned char *bytes, size_t count)
{
    for (size_t done = 0; done < count;) {
        ssize_t written = write(fd, bytes + done, count - done);

        if (written < 0 && errno != EINTR)
            return -1;
        done += written > 0 ? (size_t)written : 0;
    }
    return 0;
}

/* A reader sees the old file or the new one, never a half. */
static int write_file(const char *path, const unsigned char *bytes, size_t count,
                      struct ec_error *why)
{
    char beside[4096];
    int fd, rc = EC_OK;

    if (snprintf(beside, sizeof beside, "%s.%ld.new", path, (long)getpid()) >= (int)sizeof beside)
        return ec_fail(why, EC_ERR_PATH, "%s is too long", path);
    fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return fail_system(why, "create", beside);
    if (write_all(fd, bytes, count) < 0)
        rc = fail_system(why, "write", beside);
    if (close(fd) < 0 && rc == EC_OK)
        rc = fail_system(why, "write", beside);
    if (rc == EC_OK && rename(beside, path) < 0)
        rc = fail_system(why, "rename to", path);
    if (rc < 0)
        unlink(beside);
    return rc;
}
