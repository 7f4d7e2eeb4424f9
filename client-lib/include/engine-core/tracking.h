/* engine-core/tracking.h - note who asks for memory: call stacks, and places in source files.
 *
 *     struct npc *npc = EC_SITE(ec_pool_alloc(npcs));
 *
 * A library of the tier `debug` does it for each block and one of the tier `development` for one in 512 KiB, from
 * the moment that the client is made. One of the tier `release` begins when it is asked to:
 *
 *     ec_tracking_start(client, 0, &why);       in the program
 *     ENGINE_CORE_SAMPLE=524288                 in the environment; 0 keeps any tier from it
 *     engine-ctl mem-observe 7 --sample 512KiB  by an operator, while the program runs
 *
 * From then on blocks of all allocators that were made with the client are looked at: pools, slabs,
 * heaps and aligned blocks each, of arenas and stacks the chunks that they take. Each block that is
 * chosen counts for its call site, which `engine-ctl mem-report`, `mem-leaks` and memory.sites show, also
 * after this process was killed. Functions are named there, not here.
 *
 * Which blocks are chosen is a matter of chance, the same for each byte; one block in so many bytes
 * stands for all of them. What a site holds is then an estimate. A mean distance of 1 chooses each block.
 *
 * Thread:    any.
 * Cost:      per block some nanoseconds; per chosen block about a microsecond. A table of 4,096 sites in
 *            the client segment, of which those are touched that are used. Before it begins nothing. */
#ifndef ENGINE_CORE_TRACKING_H
#define ENGINE_CORE_TRACKING_H

#include <stdint.h>

#include <engine-core/error.h>
#include <engine-core/export.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ec_client;

/* Choose a block in so many bytes, on average: 1..2^40. 0 is the default of the tier that the library was
 * built for: debug each block, development and release one in 512 KiB. May be called again to change it.
 *
 * Returns EC_OK, EC_ERR_PARAM (no client, sample_bytes) or EC_ERR_MEMORY. */
EC_API int ec_tracking_start(struct ec_client *client, uint64_t sample_bytes, struct ec_error *why);

/* Choose no more. Blocks that were chosen still leave their sites when they are freed. */
EC_API void ec_tracking_stop(struct ec_client *client);

/* Say where the next allocation of this thread stands; file is a literal, or NULL: nothing is said. */
EC_API void ec_tracking_here(const char *file, uint32_t line);

/* An allocation that is shown by file and line, and no later one, should nobody look at this one. The
 * allocation is evaluated once; inside of functions only. */
#define EC_SITE(allocation)                                                                        \
    __extension__({                                                                                \
        __typeof__(allocation) ec_site_made_ =                                                     \
            (ec_tracking_here(__FILE__, __LINE__), (allocation));                                  \
        ec_tracking_here(0, 0);                                                                    \
        ec_site_made_;                                                                             \
    })

/* What is chosen and still held, by site, as lines of text on a descriptor: those that hold most first, at
 * most 64. filter: only sites with this in the name of their source file or of a module on their stack;
 * NULL: all. For the end of a program. Addresses are given as offsets in files, for
 * `engine-ctl symbolize`.
 *
 * Returns how many sites hold something, or EC_ERR_PARAM (no client). */
EC_API int ec_tracking_leaks(struct ec_client *client, const char *filter, int fd);

#ifdef __cplusplus
}
#endif
#endif
