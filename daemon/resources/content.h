/* content.h - decoded bytes in the asset heap, each content once.
 *
 * Two names whose decoded bytes are equal share one range. A content is known by a hash of 128 bits
 * (XXH3) under a secret that is made anew at each start, so that nobody can prepare two files that are
 * taken for one another.
 *
 *     content_digest_range(secret, heap, offset, bytes, &digest, why); // worker, behind the decoder
 *     content = content_take(contents, &digest, &decoded, offset); // loop; frees a range that is spare
 *     …
 *     content_release(contents, content);                     // the last one frees the range
 *
 * Thread: loop, but for the digests (any). */
#ifndef RESOURCES_CONTENT_H
#define RESOURCES_CONTENT_H

#include <stdint.h>
#include <uthash.h>

#include "decoders/decoder.h"
#include "foundation/error.h"
#include "resources/asset_heap.h"

#define CONTENT_SECRET_BYTES 192

struct content_secret {
    unsigned char bytes[CONTENT_SECRET_BYTES];
};

struct content_digest {
    uint64_t low, high;
};

struct content {
    struct content_digest digest;
    struct decoded decoded;
    uint64_t offset; /* in the heap */
    uint32_t users;  /* lives of resources, old ones included */
    bool listed;     /* in the table */
    UT_hash_handle hh;
};

struct contents {
    struct content_secret secret;
    struct asset_heap *heap;
    struct content *table;
};

/* Returns EC_OK or EC_ERR_SYSTEM (no random numbers). */
int contents_init(struct contents *contents, struct asset_heap *heap, struct ec_error *why);
void contents_finish(struct contents *contents); /* forgets what is left; the heap goes anyway */

void content_digest(const struct content_secret *secret, const void *bytes, uint64_t count,
                    struct content_digest *digest);

/* The same of a range of the heap. Returns EC_OK or EC_ERR_SYSTEM (it cannot be mapped). */
int content_digest_range(const struct content_secret *secret, const struct asset_heap *heap,
                         uint64_t offset, uint64_t bytes, struct content_digest *digest,
                         struct ec_error *why);

/* What was decoded into the range at offset. If the same content is there already, the range is freed.
 * NULL: no memory; then the range is freed, too. */
struct content *content_take(struct contents *contents, const struct content_digest *digest,
                             const struct decoded *decoded, uint64_t offset);
/* What an earlier run of the daemon decoded into a range that is taken already. It is shared with nothing
 * that is decoded later: its digest is not known. NULL: no memory. */
struct content *content_adopt(const struct decoded *decoded, uint64_t offset);
void content_release(struct contents *contents, struct content *content);

uint64_t content_bytes(const struct content *content); /* in memory, in whole pages */

#endif
