/* entry.c - the functions that the program calls instead of its C library's.
 *
 *   malloc --+-- fast: next.malloc, then three plain stores                      (nearly always)
 *            +-- until < 0: push the balance, or the block is a sample           (account.c, sample.c)
 *            +-- no counters: the thread's first call, or a call of our own      (account_open)
 *
 * Before the next allocator is known, blocks come from a small array, are never given back, and are
 * moved by realloc. dlsym itself allocates then. */
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "preload/account.h"
#include "preload/sample.h"

#define EXPORT __attribute__((visibility("default")))
#define UNLIKELY(condition) __builtin_expect((condition), 0)

/* Of the function that the program called: always inline there. */
#define CALLER                                                                                     \
    &(const struct caller)                                                                         \
    {                                                                                              \
        __builtin_return_address(0), __builtin_frame_address(0)                                    \
    }

#define BOOT_BYTES (64u * 1024)
#define BOOT_ALIGN 16u

static _Alignas(BOOT_ALIGN) unsigned char boot[BOOT_BYTES];
static _Atomic size_t boot_used;

static bool is_boot(const void *block);
static void *boot_alloc(size_t bytes);
static size_t boot_usable(const void *block);
static void *boot_move(void *block, size_t bytes);

/* The thread counts, or is made to. */
static inline bool counts(struct preload_thread *thread)
{
    return !UNLIKELY(thread->counters == NULL) || account_open(thread);
}

/* Past the counting, with the next allocator or without. */
static bool has_next(void)
{
    return preload.next.malloc != NULL;
}

/* A block was allocated: returns it. */
static inline void *count_in(struct preload_thread *thread, void *block)
{
    if (UNLIKELY(block == NULL))
        return NULL;
    ec_count(&thread->counters->allocs, 1, thread->shared);
    ec_count(&thread->counters->bytes_in, account_usable(block), thread->shared);
    return block;
}

/* A block is about to be freed. */
static inline void count_out(struct preload_thread *thread, size_t usable)
{
    ec_count(&thread->counters->frees, 1, thread->shared);
    ec_count(&thread->counters->bytes_out, usable, thread->shared);
}

/* So many bytes are asked for: how many the block stands for if it is a sample, else 0. What nobody
 * can have is not passed on to the arithmetic of samples. */
static inline uint64_t chosen(struct preload_thread *thread, size_t bytes)
{
    if (UNLIKELY(bytes > PTRDIFF_MAX / 2))
        return 0;
    thread->until -= (int64_t)bytes;
    return UNLIKELY(thread->until <= 0) ? account_slow(thread, bytes) : 0;
}

static inline __attribute__((always_inline)) void *allocate(size_t bytes,
                                                            const struct caller *caller)
{
    struct preload_thread *thread = &preload_thread;
    uint64_t weight;

    if (!counts(thread))
        return has_next() ? preload.next.malloc(bytes) : boot_alloc(bytes);
    weight = chosen(thread, bytes);
    if (UNLIKELY(weight != 0))
        return count_in(thread, sample_alloc(thread, 1, bytes, false, weight, caller));
    return count_in(thread, preload.next.malloc(bytes));
}

EXPORT void *malloc(size_t bytes)
{
    return allocate(bytes, CALLER);
}

EXPORT void free(void *block)
{
    struct preload_thread *thread = &preload_thread;
    size_t usable;

    if (UNLIKELY(block == NULL || is_boot(block)))
        return;
    if (!counts(thread)) {
        preload.next.free(block);
        return;
    }
    usable = account_usable(block);
    if (UNLIKELY(((uintptr_t)block & preload.mark_mask) == 0) && !sample_free(block, usable) &&
        preload.sample_bytes == 1)
        atomic_fetch_add_explicit(&preload.own->tracking.unknown_frees, 1, memory_order_relaxed);
    count_out(thread, usable);
    preload.next.free(block);
}

EXPORT void *calloc(size_t count, size_t size)
{
    struct preload_thread *thread = &preload_thread;
    uint64_t weight;
    size_t bytes;

    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    if (!counts(thread))
        return has_next() ? preload.next.calloc(count, size) : boot_alloc(bytes); /* it is zero */
    weight = chosen(thread, bytes);
    if (UNLIKELY(weight != 0))
        return count_in(thread, sample_alloc(thread, 1, bytes, true, weight, CALLER));
    return count_in(thread, preload.next.calloc(count, size));
}

static inline __attribute__((always_inline)) void *reallocate(void *block, size_t bytes,
                                                              const struct caller *caller)
{
    struct preload_thread *thread = &preload_thread;
    size_t usable;
    uint64_t weight;
    void *moved;

    if (UNLIKELY(is_boot(block)))
        return boot_move(block, bytes);
    if (!counts(thread))
        return preload.next.realloc(block, bytes);
    usable = account_usable(block);
    weight = chosen(thread, bytes > usable ? bytes - usable
                                           : (preload.sample_bytes == 1 && bytes != 0 ? 1 : 0));
    if (UNLIKELY(weight != 0 || ((uintptr_t)block & preload.mark_mask) == 0))
        moved = sample_realloc(thread, block, usable, bytes, weight, caller);
    else
        moved = preload.next.realloc(block, bytes);
    if (moved == NULL && bytes != 0)
        return NULL; /* the old block stands */
    count_out(thread, usable);
    return count_in(thread, moved);
}

EXPORT void *realloc(void *block, size_t bytes)
{
    return block == NULL ? allocate(bytes, CALLER) : reallocate(block, bytes, CALLER);
}

EXPORT void *reallocarray(void *block, size_t count, size_t size)
{
    size_t bytes;

    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return block == NULL ? allocate(bytes, CALLER) : reallocate(block, bytes, CALLER);
}

/* The alignment is checked by the next allocator, also where ours is stricter than what was asked. */
EXPORT void *memalign(size_t align, size_t bytes)
{
    struct preload_thread *thread = &preload_thread;
    uint64_t weight;

    if (!counts(thread))
        return has_next() ? preload.next.memalign(align, bytes) : NULL;
    weight = chosen(thread, bytes);
    if (UNLIKELY(weight != 0))
        return count_in(thread, sample_alloc(thread, align, bytes, false, weight, CALLER));
    return count_in(thread, preload.next.memalign(align, bytes));
}

EXPORT void *aligned_alloc(size_t align, size_t bytes)
{
    struct preload_thread *thread = &preload_thread;
    uint64_t weight;

    if (!counts(thread))
        return has_next() ? preload.next.aligned_alloc(align, bytes) : NULL;
    weight = chosen(thread, bytes);
    if (UNLIKELY(weight != 0))
        return count_in(thread, sample_alloc(thread, align, bytes, false, weight, CALLER));
    return count_in(thread, preload.next.aligned_alloc(align, bytes));
}

EXPORT int posix_memalign(void **block, size_t align, size_t bytes)
{
    struct preload_thread *thread = &preload_thread;
    const bool is_valid = align % sizeof(void *) == 0 && align != 0 && (align & (align - 1)) == 0;
    const int code = errno; /* which it must not change */
    uint64_t weight;
    int rc;

    if (!counts(thread))
        return has_next() ? preload.next.posix_memalign(block, align, bytes) : ENOMEM;
    weight = is_valid ? chosen(thread, bytes) : 0;
    if (UNLIKELY(weight != 0)) {
        void *got = sample_alloc(thread, align, bytes, false, weight, CALLER);

        errno = code;
        if (got == NULL)
            return ENOMEM;
        *block = count_in(thread, got);
        return 0;
    }
    rc = preload.next.posix_memalign(block, align, bytes);
    if (rc == 0)
        count_in(thread, *block);
    return rc;
}

EXPORT void *valloc(size_t bytes)
{
    struct preload_thread *thread = &preload_thread;

    if (!counts(thread))
        return has_next() ? preload.next.valloc(bytes) : NULL;
    return count_in(thread, preload.next.valloc(bytes));
}

EXPORT void *pvalloc(size_t bytes)
{
    struct preload_thread *thread = &preload_thread;

    if (!counts(thread))
        return has_next() ? preload.next.pvalloc(bytes) : NULL;
    return count_in(thread, preload.next.pvalloc(bytes));
}

EXPORT size_t malloc_usable_size(void *block)
{
    size_t usable;

    if (block == NULL)
        return 0;
    if (is_boot(block))
        return boot_usable(block);
    if (!has_next() && !counts(&preload_thread))
        return 0;
    usable = account_usable(block);
    return ((uintptr_t)block & preload.mark_mask) == 0 ? sample_usable(block, usable) : usable;
}

/* ---- before the next allocator is known ------------------------------------------------------- */

static bool is_boot(const void *block)
{
    return (uintptr_t)block - (uintptr_t)boot < BOOT_BYTES;
}

/* The size stands in the word before each block. */
static void *boot_alloc(size_t bytes)
{
    const size_t whole = BOOT_ALIGN + (bytes + BOOT_ALIGN - 1) / BOOT_ALIGN * BOOT_ALIGN;
    size_t at;

    if (bytes > BOOT_BYTES)
        return NULL;
    at = atomic_fetch_add_explicit(&boot_used, whole, memory_order_relaxed);
    if (at + whole > BOOT_BYTES)
        return NULL;
    memcpy(boot + at, &bytes, sizeof bytes);
    return boot + at + BOOT_ALIGN;
}

static size_t boot_usable(const void *block)
{
    size_t bytes;

    memcpy(&bytes, (const unsigned char *)block - BOOT_ALIGN, sizeof bytes);
    return bytes;
}

static void *boot_move(void *block, size_t bytes)
{
    const size_t had = boot_usable(block);
    void *moved = malloc(bytes);

    if (moved != NULL)
        memcpy(moved, block, had < bytes ? had : bytes);
    return moved;
}
