/* content.c - a hash table of what lies in the heap. */
#define HASH_NONFATAL_OOM 1
#include "resources/content.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <xxhash.h>

#include "foundation/huge_map.h"

static bool decoded_same(const struct decoded *left, const struct decoded *right);

int contents_init(struct contents *contents, struct asset_heap *heap, struct ec_error *why)
{
    *contents = (struct contents) { .heap = heap };
    if (getrandom(contents->secret.bytes, sizeof contents->secret.bytes, 0) !=
        (ssize_t)sizeof contents->secret.bytes)
        return ec_fail(why, EC_ERR_SYSTEM, "getrandom: no %zu bytes",
                       sizeof contents->secret.bytes);
    return EC_OK;
}

void contents_finish(struct contents *contents)
{
    struct content *content, *next;

    HASH_ITER(hh, contents->table, content, next)
    {
        HASH_DEL(contents->table, content);
        free(content);
    }
}

void content_digest(const struct content_secret *secret, const void *bytes, uint64_t count,
                    struct content_digest *digest)
{
    XXH128_hash_t hash =
        XXH3_128bits_withSecret(bytes, (size_t)count, secret->bytes, sizeof secret->bytes);

    *digest = (struct content_digest) { .low = hash.low64, .high = hash.high64 };
}

int content_digest_range(const struct content_secret *secret, const struct asset_heap *heap,
                         uint64_t offset, uint64_t bytes, struct content_digest *digest,
                         struct ec_error *why)
{
    void *base = ec_huge_map(heap->fd, offset, heap_ranges_round(bytes), PROT_READ, MAP_POPULATE);

    if (base == MAP_FAILED)
        return ec_fail(why, EC_ERR_SYSTEM, "map %" PRIu64 " bytes of the asset heap: %s", bytes,
                       strerror(errno));
    content_digest(secret, base, bytes, digest);
    munmap(base, heap_ranges_round(bytes));
    return EC_OK;
}

struct content *content_take(struct contents *contents, const struct content_digest *digest,
                             const struct decoded *decoded, uint64_t offset)
{
    struct content *content = NULL;

    HASH_FIND(hh, contents->table, digest, sizeof *digest, content);
    if (content != NULL && decoded_same(&content->decoded, decoded)) {
        asset_heap_free_soon(contents->heap, offset, decoded->bytes);
        content->users++;
        return content;
    }
    content = calloc(1, sizeof *content);
    if (content == NULL) {
        asset_heap_free_soon(contents->heap, offset, decoded->bytes);
        return NULL;
    }
    *content = (struct content) {
        .digest = *digest, .decoded = *decoded, .offset = offset, .users = 1, .listed = true
    };
    HASH_ADD(hh, contents->table, digest, sizeof content->digest, content);
    content->listed = content->hh.tbl != NULL; /* without memory it is just not shared */
    return content;
}

struct content *content_adopt(const struct decoded *decoded, uint64_t offset)
{
    struct content *content = calloc(1, sizeof *content);

    if (content != NULL)
        *content = (struct content) { .decoded = *decoded, .offset = offset, .users = 1 };
    return content;
}

void content_release(struct contents *contents, struct content *content)
{
    assert(content->users > 0);
    if (--content->users > 0)
        return;
    if (content->listed)
        HASH_DEL(contents->table, content);
    asset_heap_free_soon(contents->heap, content->offset, content->decoded.bytes);
    free(content);
}

uint64_t content_bytes(const struct content *content)
{
    return heap_ranges_round(content->decoded.bytes);
}

/* The same bytes may be rows of other widths. */
static bool decoded_same(const struct decoded *left, const struct decoded *right)
{
    return left->bytes == right->bytes && left->kind == right->kind &&
           left->width == right->width && left->height == right->height &&
           left->channels == right->channels && left->stride == right->stride &&
           left->levels == right->levels;
}
