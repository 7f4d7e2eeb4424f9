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
 * one life of a resource: after an eviction it is stale, and ec_resource_find gives the new one.
 *
 * References end with the process, however it ends. Those of a program that lives and lost the daemon
 * stay.
 *
 * Thread:    any. A reference may be released on another thread than it was acquired on.
 * Ownership: the bytes are valid from acquire to release. Reading them later never crashes, but shows
 *            other bytes.
 * Cost:      acquire and release are a few plain loads and stores: no system call, no lock, no message.
 *            find hashes the name and looks it up in shared memory. */
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
 * Returns EC_OK, EC_AGAIN (it is being loaded or evicted), EC_ERR_STATE (not loaded; no handle) or
 *         EC_ERR_NOT_FOUND (no group defines it). */
EC_API int ec_resource_find(struct ec_client *client, const char *name, ec_resource *resource);

/* Hold a resource. view may be NULL when an earlier view of this handle is at hand.
 *
 * Returns EC_OK (release it once), EC_AGAIN (it is being evicted, which may be undone: try in the next
 *         frame, or do without), EC_ERR_STALE (this life has ended: find it again, or load its group)
 *         or EC_ERR_LAYOUT (the directory points outside the heap; nothing is held). */
EC_API int ec_resource_acquire(struct ec_client *client, ec_resource resource,
                               struct ec_resource_view *view);

/* index is below view->levels; beyond it all members are zero. Touches no memory. */
EC_API struct ec_resource_level ec_resource_level(const struct ec_resource_view *view,
                                                  uint32_t index);

/* Give one reference back. The handle must be held: a release too much lets the daemon free what
 * another thread of this program still uses. */
EC_API void ec_resource_release(struct ec_client *client, ec_resource resource);

#ifdef __cplusplus
}
#endif
#endif
