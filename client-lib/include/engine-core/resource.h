/* engine-core/resource.h - use assets that the daemon decoded once for all games.
 *
 * A resource is found by name and held by a hard reference while its bytes are in use. The bytes lie
 * in the asset heap, which every game maps read-only; nothing is copied.
 *
 *     ec_resource tiles;
 *     struct ec_resource_view view;
 *
 *     if (ec_resource_find(client, "tiles.png", &tiles) == EC_OK &&
 *         ec_resource_acquire(client, tiles, &view) == EC_OK) {
 *         upload(view.data, view.width, view.height, view.channels, view.stride);
 *         ec_resource_release(client, tiles);
 *     }
 *
 * Groups are defined, loaded and unloaded through the control protocol (resource.define,
 * resource.load; ec_client_call). What is held is neither evicted nor unloaded. A handle is good for
 * one life of a resource: after an eviction acquire says EC_ERR_EVICTED, and ec_resource_request asks to
 * have it back; after a reload of a file that changed it is stale, and ec_resource_find gives the new one.
 * Who holds the old life reads its bytes until the release.
 *
 * A soft reference asks that a resource be loaded ahead and kept while there is room. It blocks nothing:
 *
 *     ec_resource_soft next_level;
 *
 *     ec_resource_soft_acquire(client, "level2/ground", &next_level);
 *     ...
 *     ec_resource_soft_release(client, next_level);
 *
 * References end with the process, however it ends. Those of a program that lives and lost the daemon
 * stay: hard ones keep their bytes, soft ones are asked for again by name, at the next frame mark after
 * their group is defined.
 *
 * Thread:    any. A reference may be released on another thread than it was acquired on.
 * Ownership: the bytes are valid from acquire to release. Reading them later never crashes, but shows
 *            other bytes.
 * Cost:      acquire and release are a few plain loads and stores: no system call, no lock, no message.
 *            resource_inline.h has them without a call.
 *            find hashes the name and looks it up in shared memory. Soft references cost a
 *            lock that nobody else holds for long, and a look-up to begin. */
#ifndef ENGINE_CORE_RESOURCE_H
#define ENGINE_CORE_RESOURCE_H

#include <stddef.h>
#include <stdint.h>

#include <engine-core/client.h>

#ifdef __cplusplus
extern "C" {
#endif

/* {index, generation}, as in the "0x…" strings of the control protocol; 0 is never valid. */
typedef struct {
    uint64_t value;
} ec_resource;

enum ec_resource_content {
    EC_RESOURCE_RAW = 0,   /* the file's bytes */
    EC_RESOURCE_IMAGE = 1, /* rows of pixels from the top, 8 bits a channel, rows tight */
};

/* A copy of what the directory says about a held resource. The same for all of the handle's life. */
struct ec_resource_view {
    const void *data; /* page-aligned, read-only */
    size_t bytes;
    enum ec_resource_content content;
    uint32_t width, height; /* of images, pixels; else 0 */
    uint32_t channels;      /* 1 grey, 2 grey and alpha, 3 RGB, 4 RGBA */
    uint32_t stride;        /* bytes from row to row */
    uint32_t levels;        /* of images, mip levels: 1 is the picture alone; else 0 */
};

/* One mip level of an image: half as wide and high as the one before, rounded down and at least 1.
 *
 *     for (uint32_t i = 0; i < view.levels; i++) {
 *         struct ec_resource_level level = ec_resource_level(&view, i);
 *
 *         upload_level(i, level.data, level.width, level.height);
 *     }
 *
 * Each pixel is the mean of 2 x 2 of the level before (an odd last column or row is left out). Rows are
 * tight: stride is width * channels. The levels lie behind one another in the resource's bytes, each
 * at a multiple of 16 bytes from its beginning, so that one upload of all of them works as well. */
struct ec_resource_level {
    const void *data;
    size_t bytes;
    size_t offset; /* of data in the resource */
    uint32_t width, height, stride;
};

/* Look a name up. Handles also come from resource.load.
 *
 * Returns EC_OK, EC_AGAIN (it is being loaded or evicted), EC_ERR_EVICTED (ask for it with
 *         ec_resource_request), EC_ERR_STATE (not loaded; no handle) or EC_ERR_NOT_FOUND (no group
 *         defines it). */
EC_API int ec_resource_find(struct ec_client *client, const char *name, ec_resource *resource);

/* The same by the hash of the name, which can be computed once, or by a compiler that sees a literal:
 * FNV-1a of its bytes, 64 bits. */
EC_API int ec_resource_find_hash(struct ec_client *client, uint64_t hash, ec_resource *resource);

static inline uint64_t ec_resource_hash(const char *name)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (; *name != '\0'; name++)
        hash = (hash ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    return hash != 0 ? hash : 1;
}

/* Hold a resource. view may be NULL when an earlier view of this handle is at hand.
 *
 * Returns EC_OK (release it once), EC_AGAIN (it is being evicted, which may be undone: try in the next
 *         frame, or do without), EC_ERR_EVICTED (it was evicted: ask for it with ec_resource_request),
 *         EC_ERR_STALE (this life has ended: find it again, or load its group) or EC_ERR_LAYOUT (the
 *         directory points outside the heap; nothing is held). */
EC_API int ec_resource_acquire(struct ec_client *client, ec_resource resource,
                               struct ec_resource_view *view);

/* index is below view->levels; beyond it all members are zero. Touches no memory. */
EC_API struct ec_resource_level ec_resource_level(const struct ec_resource_view *view,
                                                  uint32_t index);

/* A look at a resource that this program holds anyway: its view, without another reference. The handle
 * must be held until the view is not used any more; what is held can be looked at whatever the daemon
 * does with it. Errors as ec_resource_acquire. */
EC_API int ec_resource_access(struct ec_client *client, ec_resource resource,
                              struct ec_resource_view *view);

/* Give one reference back. The handle must be held: a release too much lets the daemon free what
 * another thread of this program still uses. */
EC_API void ec_resource_release(struct ec_client *client, ec_resource resource);

/* Ask the daemon for a resource that was evicted from a loaded group, or that a soft reference asks for.
 * Nobody waits: the system event resource.ready (struct ec_resource_ready) tells when it is there, and
 * ec_resource_find gives its handle from then on. One message.
 *
 * Returns EC_OK (asked; also when it is ready), EC_ERR_NOT_FOUND (no group defines the name) or what sending
 *         returns: EC_ERR_DISCONNECTED, EC_ERR_TIMEOUT. */
EC_API int ec_resource_request(struct ec_client *client, const char *name);

/* Payloads of the system events resource.ready and resource.changed. */
struct ec_resource_ready {
    char name[128]; /* NUL-padded */
    ec_resource resource;
};
struct ec_resource_changed {
    char name[128];
    char state[16]; /* changed; failed: the old life goes on */
    ec_resource resource, old_resource;
};

/* A soft reference. All zero is none. */
typedef struct {
    uint32_t place;
} ec_resource_soft;

/* Ask that a resource be loaded ahead and kept. The daemon does it in the background, within its byte
 * budget, in the order of asking; when memory is short it stops doing so, and goes on when it is not.
 * When it is there the event resource.ready comes. Several references on one resource count.
 *
 * Returns EC_OK, EC_ERR_NOT_FOUND (no group defines the name; soft is none) or EC_ERR_MEMORY. */
EC_API int ec_resource_soft_acquire(struct ec_client *client, const char *name,
                                    ec_resource_soft *soft);
/* Give it back, once; none is fine. Any thread. */
EC_API void ec_resource_soft_release(struct ec_client *client, ec_resource_soft soft);

#ifdef __cplusplus
}
#endif
#endif
