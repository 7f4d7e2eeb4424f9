/* bench_loading.c - decoding into the asset heap against the bare decoder.
 *
 *     bench_loading [ROW ...]
 *
 *   resources.load_{raw,bmp,tga,cooked,png,jpeg}
 *         50 pictures of 10 MB out of one zip into the heap of a real daemon with 2 workers: in processes
 *         under seccomp  against  the same decoders in 2 threads of one process that has the archive
 *         open, each into fresh memory of its own; all 50 stay until the last is there
 *   resources.load_small
 *         2,000 resources of 64 bytes  against  the same two threads: what the processes and their
 *         messages cost
 *
 * The zip's entries are stored, as in the archives of games. It is in the page cache for both sides,
 * which is why the daemon is told not to drop it. */
#include <engine-core/client.h>
#include <png.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <turbojpeg.h>
#include <unistd.h>

#include "bench/harness.h"
#include "decoders/cook.h"
#include "decoders/decoder.h"
#include "resources/search_path.h"
#include "support/daemon.h"
#include "support/sample_images.h"

#define SIDE 1824 /* x 1824 x 3 channels: 10 MB */
#define PICTURE_BYTES ((size_t)SIDE * SIDE * 3)
#define PICTURES 50
#define SMALL 2000

struct load_case {
    const char *format;
    unsigned count;
    enum ec_resource_kind kind;
};

static struct daemon_process daemon_;
static char archive[128];

/* ---- content ---------------------------------------------------------------------------------- */

/* Smooth with a little noise, like a photograph: the encoders have something to do, and no luck. */
static void picture_draw(unsigned char *pixels, unsigned seed)
{
    uint32_t state = seed * 2654435761u + 1;

    for (unsigned y = 0; y < SIDE; y++)
        for (unsigned x = 0; x < SIDE; x++)
            for (unsigned c = 0; c < 3; c++) {
                state = state * 1664525u + 1013904223u;
                *pixels++ =
                    (unsigned char)((x * (c + 1) + y * (3 - c) + seed * 16) / 16 + (state >> 30));
            }
}

static void put(struct sample *sample, const void *bytes, size_t count)
{
    sample->bytes = realloc(sample->bytes, sample->count + count);
    if (sample->bytes == NULL)
        bench_fail("no memory");
    memcpy(sample->bytes + sample->count, bytes, count);
    sample->count += count;
}

static void encode_png(struct sample *sample, const unsigned char *pixels)
{
    png_image image = { .version = PNG_IMAGE_VERSION,
                        .width = SIDE,
                        .height = SIDE,
                        .format = PNG_FORMAT_RGB,
                        .flags = PNG_IMAGE_FLAG_FAST };
    png_alloc_size_t bytes = PNG_IMAGE_PNG_SIZE_MAX(image);

    sample->bytes = malloc(bytes);
    if (sample->bytes == NULL ||
        !png_image_write_to_memory(&image, sample->bytes, &bytes, 0, pixels, 0, NULL))
        bench_fail("PNG: %s", image.message);
    sample->count = bytes;
}

static void encode_jpeg(struct sample *sample, const unsigned char *pixels)
{
    tjhandle handle = tjInitCompress();
    unsigned char *bytes = NULL;
    unsigned long count = 0;

    if (handle == NULL || tjCompress2(handle, pixels, SIDE, 0, SIDE, TJPF_RGB, &bytes, &count,
                                      TJSAMP_420, 90, TJFLAG_FASTDCT) != 0)
        bench_fail("JPEG: %s", tjGetErrorStr2(handle));
    put(sample, bytes, count);
    tjFree(bytes);
    tjDestroy(handle);
}

static void encode_tga(struct sample *sample, const unsigned char *pixels)
{
    const unsigned char header[18] = {
        [2] = 2,          [12] = SIDE & 255, [13] = SIDE >> 8, [14] = SIDE & 255,
        [15] = SIDE >> 8, [16] = 24,         [17] = 32, /* from the top */
    };

    put(sample, header, sizeof header);
    put(sample, pixels, PICTURE_BYTES); /* red and blue are changed about, which does not matter */
}

/* Rows of 1824 * 3 bytes need no filling. */
static void encode_bmp(struct sample *sample, const unsigned char *pixels)
{
    const uint32_t bytes = 54 + (uint32_t)PICTURE_BYTES;
    unsigned char header[54] = { 'B', 'M' };
    const uint32_t fields[][2] = { { 2, bytes }, { 10, 54 },   { 14, 40 },
                                   { 18, SIDE }, { 22, SIDE }, { 26, 1 | 24u << 16 } };

    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        for (unsigned b = 0; b < 4; b++)
            header[fields[i][0] + b] = (unsigned char)(fields[i][1] >> 8 * b);
    put(sample, header, sizeof header);
    put(sample, pixels, PICTURE_BYTES);
}

static void encode_raw(struct sample *sample, const unsigned char *pixels)
{
    put(sample, pixels, PICTURE_BYTES);
}

static void encode_cooked(struct sample *sample, const unsigned char *pixels)
{
    char from[160], to[160];
    const struct cook_desc desc = { .input = from, .output = to };
    struct cook_result result;
    struct ec_error why = { 0 };
    FILE *file;

    snprintf(from, sizeof from, "%s.bmp", archive);
    snprintf(to, sizeof to, "%s.cooked", archive);
    encode_bmp(sample, pixels);
    file = fopen(from, "wb");
    if (file == NULL || fwrite(sample->bytes, 1, sample->count, file) != sample->count ||
        fclose(file) != 0 || cook_image(&desc, &result, &why) != EC_OK)
        bench_fail("cook: %s", why.text);
    sample->count = 0;
    sample->bytes = realloc(sample->bytes, result.output_bytes);
    file = fopen(to, "rb");
    if (sample->bytes == NULL || file == NULL ||
        fread(sample->bytes, 1, result.output_bytes, file) != result.output_bytes)
        bench_fail("cannot read %s", to);
    fclose(file);
    sample->count = result.output_bytes;
    unlink(from);
    unlink(to);
}

static void encode_small(struct sample *sample, const unsigned char *pixels)
{
    put(sample, pixels, 64);
}

static const struct {
    const char *name;
    void (*encode)(struct sample *sample, const unsigned char *pixels);
} encoders[] = {
    { "raw", encode_raw },     { "bmp", encode_bmp },   { "tga", encode_tga },
    { "png", encode_png },     { "jpeg", encode_jpeg }, { "cooked", encode_cooked },
    { "small", encode_small },
};

static void encode(struct sample *sample, const char *format, const unsigned char *pixels)
{
    for (size_t i = 0; i < sizeof encoders / sizeof encoders[0]; i++)
        if (strcmp(encoders[i].name, format) == 0)
            encoders[i].encode(sample, pixels);
}

/* Five pictures, each ten times: making fifty takes longer than measuring. */
static void archive_make(const struct load_case *of)
{
    unsigned char *pixels = malloc(PICTURE_BYTES);
    struct sample_zip zip = { 0 };
    char name[32];

    if (pixels == NULL)
        bench_fail("no memory");
    for (unsigned seed = 0; seed < 5; seed++) {
        struct sample sample = { 0 };

        picture_draw(pixels, seed);
        encode(&sample, of->format, pixels);
        for (unsigned i = seed; i < of->count; i += 5) {
            snprintf(name, sizeof name, "%u", i);
            sample_zip_add(&zip, name, sample.bytes, sample.count);
        }
        sample_free(&sample);
    }
    sample_zip_write(&zip, archive);
    free(pixels);
}

/* ---- ours ------------------------------------------------------------------------------------- */

static void say(struct ec_client *client, const char *method, const char *params)
{
    struct ec_error why = { 0 };
    char *result = NULL;

    if (ec_client_call(client, method, params, &result, &why) != EC_OK)
        bench_fail("%s: %s", method, why.text);
    free(result);
}

static void define(struct ec_client *client, const struct load_case *of)
{
    char *params = malloc(128 + (size_t)of->count * 64);
    size_t at;

    if (params == NULL)
        bench_fail("no memory");
    at = (size_t)sprintf(params, "{\"group\":\"%s\",\"resources\":[", of->format);
    for (unsigned i = 0; i < of->count; i++)
        at += (size_t)sprintf(params + at, "%s{\"name\":\"%s %u\",\"path\":\"%u\",\"kind\":\"%s\"}",
                              i > 0 ? "," : "", of->format, i, i, decoder_kind_name(of->kind));
    strcpy(params + at, "]}");
    say(client, "resource.define", params);
    free(params);
}

static void load_group(const void *context)
{
    const struct load_case *of = context;
    const struct ec_client_desc desc = { .name = "bench",
                                         .socket_path = daemon_.socket_path,
                                         .timeout_ms = 120000 };
    struct ec_client *client;
    struct ec_error why = { 0 };
    char params[256];

    if (ec_client_create(&desc, &client, &why) != EC_OK)
        bench_fail("%s", why.text);
    snprintf(params, sizeof params, "{\"path\":\"%s\"}", archive);
    say(client, "resource.mount", params);
    define(client, of);
    snprintf(params, sizeof params, "{\"group\":\"%s\"}", of->format);
    bench_ready();
    while (bench_next()) {
        int64_t begin = bench_ns();

        say(client, "resource.load", params);
        bench_answer((double)(bench_ns() - begin) / 1e6, 0);
        say(client, "resource.unload", params);
        say(client, "resource.evict", "{\"bytes\":1}"); /* answers when all memory is back */
    }
    ec_client_destroy(client);
}

/* ---- the bare decoder ------------------------------------------------------------------------- */

struct bare {
    const struct load_case *of;
    const struct search_path *search;
    atomic_uint next;
    unsigned char **results;
};

static int entry_read(void *stream, void *to, uint64_t bytes, struct ec_error *why)
{
    return search_entry_read(stream, to, bytes, why);
}

static bool entry_at_end(void *stream)
{
    return search_entry_at_end(stream);
}

static void *decode_some(void *context)
{
    struct bare *bare = context;
    const struct decode_request request = { .kind = bare->of->kind,
                                            .limits = { 1 << 30, 1 << 28 } };
    unsigned i;

    while ((i = atomic_fetch_add(&bare->next, 1)) < bare->of->count) {
        struct search_entry entry;
        struct decode_source source = { .read = entry_read,
                                        .at_end = entry_at_end,
                                        .stream = &entry };
        const struct decoder *decoder;
        struct decoded decoded;
        struct ec_error why = { 0 };
        char name[16];

        snprintf(name, sizeof name, "%u", i);
        if (search_entry_open(bare->search, &entry, name, &why) < 0)
            bench_fail("%s", why.text);
        source.length = entry.bytes;
        if (decoder_choose(&request, &source, &decoder, &why) < 0 ||
            decoder_measure(decoder, &request, &source, &decoded, &why) < 0 ||
            (bare->results[i] = malloc(decoded.bytes)) == NULL ||
            decoder_decode(decoder, &source, &decoded, bare->results[i], &why) < 0)
            bench_fail("%s", why.text);
        decode_source_finish(&source);
        search_entry_close(&entry);
    }
    return NULL;
}

static void decode_bare(const void *context)
{
    struct bare bare = { .of = context };
    struct search_path *search;
    struct ec_error why = { 0 };

    bare.results = calloc(bare.of->count, sizeof *bare.results);
    if (bare.results == NULL || search_path_create(&search, &why) < 0 ||
        search_path_mount(search, archive, "/", true, &why) < 0)
        bench_fail("%s", why.text);
    bare.search = search;
    bench_ready();
    while (bench_next()) {
        pthread_t threads[2];
        int64_t begin = bench_ns();

        atomic_store(&bare.next, 0);
        for (unsigned i = 0; i < 2; i++)
            if (pthread_create(&threads[i], NULL, decode_some, &bare) != 0)
                bench_fail("no thread");
        for (unsigned i = 0; i < 2; i++)
            pthread_join(threads[i], NULL);
        bench_answer((double)(bench_ns() - begin) / 1e6, 0);
        for (unsigned i = 0; i < bare.of->count; i++)
            free(bare.results[i]);
    }
    free(bare.results);
    search_path_destroy(search);
}

/* ---- rows ------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    struct load_case of;
    double goal; /* 0: printed, not judged */
} rows[] = {
    { "resources.load_raw", { "raw", PICTURES, EC_KIND_RAW }, 1.15 },
    { "resources.load_bmp", { "bmp", PICTURES, EC_KIND_IMAGE }, 1.15 },
    { "resources.load_tga", { "tga", PICTURES, EC_KIND_IMAGE }, 1.15 },
    { "resources.load_cooked", { "cooked", PICTURES, EC_KIND_IMAGE }, 1.15 },
    { "resources.load_png", { "png", PICTURES, EC_KIND_IMAGE }, 1.15 },
    { "resources.load_jpeg", { "jpeg", PICTURES, EC_KIND_IMAGE }, 1.15 },
    { "resources.load_small", { "small", SMALL, EC_KIND_RAW }, 0 },
};

/* A daemon for each row: its archive is the whole search path. */
static bool measure(size_t index)
{
    static const char *const arguments[] = { "--set", "resource.drop_cache=false", NULL };
    const struct bench_row row = { .name = rows[index].name,
                                   .unit = "ms",
                                   .op = rows[index].goal > 0 ? "<=" : NULL,
                                   .goal = rows[index].goal,
                                   .pairs = 7,
                                   .shared = true };
    const struct bench_contender ours = { .name = "engine-core",
                                          .run = load_group,
                                          .context = &rows[index].of };
    const struct bench_contender peer = { .name = "bare decoder, 2 threads",
                                          .run = decode_bare,
                                          .context = &rows[index].of };
    bool measured;

    daemon_ = (struct daemon_process) { 0 };
    if (!daemon_prepare(&daemon_) || !daemon_start(&daemon_, arguments)) {
        fprintf(stderr, "bench_loading: %s\n", daemon_.why);
        return false;
    }
    snprintf(archive, sizeof archive, "%s/content.zip", daemon_.directory);
    archive_make(&rows[index].of);
    measured = bench_compare(&row, &ours, &peer);
    unlink(archive);
    return daemon_stop(&daemon_) == 0 && measured;
}

int main(int argc, char **argv)
{
    bool measured = true;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (bench_wanted(argc, argv, rows[i].name))
            measured = measure(i) && measured;
    return measured ? 0 : 1;
}
