/* engine-core/resource_inline.h - acquire and release without a call.
 *
 * The same as ec_resource_acquire(client, resource, NULL) and ec_resource_release(), compiled into the
 * program. Two calls of functions that do nothing cost more than what these do, so a game that walks
 * over its assets in every frame saves half of it:
 *
 *     struct ec_resource_view ground; // from the first acquire, good for the life of the handle
 *
 *     if (ec_resource_acquire_inline(client, resource) == EC_OK) {
 *         draw(ground.data);
 *         ec_resource_release_inline(client, resource);
 *     }
 *
 * Both kinds may be mixed. What is not plain (the first acquire of a thread, a second client in it, a
 * daemon without membarrier, a resource that is not there) is done by the function of the library.
 *
 * The price: where counts and lives lie is compiled in. It stays so within one major version of the
 * library, which its file name carries; the library does not compile when it is changed by mistake.
 *
 * Thread, ownership, errors: as resource.h says of those two.
 * Cost: eight loads and one store to acquire, two loads and one store to release. */
#ifndef ENGINE_CORE_RESOURCE_INLINE_H
#define ENGINE_CORE_RESOURCE_INLINE_H

#include <engine-core/resource.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The layout, in bytes: of the directory of resources, whose entries begin with their life, and where a
 * ring of uses has its newest, epoch << 32 | index. */
#define EC_INLINE_RESOURCES 16384u
#define EC_INLINE_EPOCH_AT 0x1014u
#define EC_INLINE_ENTRIES_AT 0x21080u
#define EC_INLINE_ENTRY_BYTES 256u
#define EC_INLINE_READY 2u
#define EC_INLINE_NEWEST_AT 8u

/* Where the calling thread counts. The library's; not written by the program. */
struct ec_resource_thread {
    uint64_t serial; /* of the client that this is for; 0: none */
    int32_t *hard;   /* this thread's references, by index; it alone writes them */
    const unsigned char *directory;
    unsigned char *uses; /* the ring of what it acquires */
};
extern EC_API __thread struct ec_resource_thread ec_resource_thread
    __attribute__((tls_model("initial-exec")));

/* Note a use that is not the newest one. EC_OK. For the functions below. */
EC_API int ec_resource_note_use(struct ec_client *client, ec_resource resource);

/* Does here belong to the client, and may it count plainly? A client begins with its serial while the
 * daemon fences, else with a number that no serial is. */
static inline bool ec_resource_inline_may(const struct ec_client *client,
                                          const struct ec_resource_thread *here, uint64_t index)
{
    return __builtin_expect(
        __atomic_load_n((const uint64_t *)(const void *)client, __ATOMIC_RELAXED) == here->serial &&
            index < EC_INLINE_RESOURCES,
        1);
}

static inline void ec_resource_inline_add(const struct ec_resource_thread *here, uint64_t index,
                                          int32_t delta, int order)
{
    int32_t *count = here->hard + index;

    __atomic_store_n(count, __atomic_load_n(count, __ATOMIC_RELAXED) + delta, order);
}

/* Raise the count, then see what life is. Between the two the processor may do as it likes: the daemon
 * makes it pass a fence (membarrier). Acquire: pairs with the store of READY. */
static inline uint64_t ec_resource_inline_raise(const struct ec_resource_thread *here,
                                                uint64_t index)
{
    const unsigned char *entry =
        here->directory + EC_INLINE_ENTRIES_AT + index * EC_INLINE_ENTRY_BYTES;

    ec_resource_inline_add(here, index, 1, __ATOMIC_RELAXED);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    return __atomic_load_n((const uint64_t *)(const void *)entry, __ATOMIC_ACQUIRE);
}

/* Is it the newest that this thread used, and not read by the daemon yet? */
static inline bool ec_resource_inline_is_newest(const struct ec_resource_thread *here,
                                                uint64_t index)
{
    const unsigned char *epoch = here->directory + EC_INLINE_EPOCH_AT;
    const unsigned char *newest = here->uses + EC_INLINE_NEWEST_AT;
    uint64_t use =
        (uint64_t)__atomic_load_n((const uint32_t *)(const void *)epoch, __ATOMIC_RELAXED) << 32 |
        index;

    return __builtin_expect(
        __atomic_load_n((const uint64_t *)(const void *)newest, __ATOMIC_RELAXED) == use, 1);
}

/* ec_resource_acquire without a view. A life of generation 0 is never READY, so a zeroed handle needs no
 * question of its own. */
static inline int ec_resource_acquire_inline(struct ec_client *client, ec_resource resource)
{
    const struct ec_resource_thread *here = &ec_resource_thread;
    uint64_t index = (uint32_t)resource.value;

    if (!ec_resource_inline_may(client, here, index))
        return ec_resource_acquire(client, resource, NULL);
    if (__builtin_expect(
            ec_resource_inline_raise(here, index) != resource.value - index + EC_INLINE_READY, 0)) {
        ec_resource_inline_add(here, index, -1, __ATOMIC_RELAXED); /* nothing was read */
        return ec_resource_acquire(client, resource, NULL); /* says why, or holds it after all */
    }
    if (!ec_resource_inline_is_newest(here, index))
        return ec_resource_note_use(client, resource);
    return EC_OK;
}

static inline void ec_resource_release_inline(struct ec_client *client, ec_resource resource)
{
    const struct ec_resource_thread *here = &ec_resource_thread;
    uint64_t index = (uint32_t)resource.value;

    if (ec_resource_inline_may(client, here, index))
        ec_resource_inline_add(here, index, -1, __ATOMIC_RELEASE); /* pairs with the daemon's sum */
    else
        ec_resource_release(client, resource);
}

#ifdef __cplusplus
}
#endif
#endif
