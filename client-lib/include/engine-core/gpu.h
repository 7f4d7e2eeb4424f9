/* engine-core/gpu.h - let the daemon say which GPU resources a game should give back.
 *
 * The GPU belongs to the game; the daemon only keeps the books. The game declares what it has there,
 * which work used it last (a fence value that grows), up to which fence the GPU has come, and its
 * budget. When there is more than the budget, the daemon asks for what was used longest ago, and never
 * for what unfinished work still uses. The game gives it back when it likes, and says so.
 *
 *     ec_gpu_budget(client, 512u << 20);
 *     ec_gpu_declare(client, "terrain", bytes, &terrain);
 *     each frame:
 *         ec_gpu_use(client, terrain, fence);       // this frame's work uses it
 *         ec_gpu_completed(client, gpu_fence());
 *         while (ec_gpu_next_request(client, &which) == EC_OK) {
 *             destroy_texture(which);
 *             ec_gpu_evicted(client, which);        // or ec_gpu_forget: it will not come back
 *         }
 *     before it is used again: make it, ec_gpu_restored(client, terrain).
 *
 * `engine-ctl resources list --gpu` shows the books of all games.
 *
 * Thread:    use, completed and budget: any. The others: one thread at a time.
 * Ownership: a name is copied. What was declared ends with the client.
 * Cost:      use and completed are a load and a store or two in the own segment; next_request is one load
 *            while nobody asked, else a look at each that was declared. No system call anywhere. */
#ifndef ENGINE_CORE_GPU_H
#define ENGINE_CORE_GPU_H

#include <stdint.h>

#include <engine-core/client.h>

#ifdef __cplusplus
extern "C" {
#endif

#define EC_GPU_MAX 4096 /* declared at once by one client */

/* {index, generation}; 0 is never valid. */
typedef struct {
    uint64_t value;
} ec_gpu;

/* Something is on the GPU now. name has 1..63 bytes and is for people.
 *
 * Returns EC_OK, EC_ERR_PARAM (name or bytes) or EC_ERR_LIMIT (EC_GPU_MAX are declared). */
EC_API int ec_gpu_declare(struct ec_client *client, const char *name, uint64_t bytes, ec_gpu *gpu);
/* It is gone for good; its handle is stale from now on. A stale one is ignored, here and below. */
EC_API void ec_gpu_forget(struct ec_client *client, ec_gpu gpu);

/* Work that ends with this fence uses it. Smaller fences than before change nothing. */
EC_API void ec_gpu_use(struct ec_client *client, ec_gpu gpu, uint64_t fence);
/* All work up to this fence is done. */
EC_API void ec_gpu_completed(struct ec_client *client, uint64_t fence);
/* How much may stay; 0 for no bound. */
EC_API void ec_gpu_budget(struct ec_client *client, uint64_t bytes);

/* What the daemon asks for, one at a time, longest unused first. What was used since is passed over.
 *
 * Returns EC_OK or EC_AGAIN (nothing). */
EC_API int ec_gpu_next_request(struct ec_client *client, ec_gpu *gpu);
/* It was given back, as asked or unasked. Returns EC_OK or EC_ERR_STALE. */
EC_API int ec_gpu_evicted(struct ec_client *client, ec_gpu gpu);
/* It is on the GPU again. Returns EC_OK or EC_ERR_STALE. */
EC_API int ec_gpu_restored(struct ec_client *client, ec_gpu gpu);

#ifdef __cplusplus
}
#endif
#endif
