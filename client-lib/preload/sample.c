#include "preload/sample.h"

#include <errno.h>
#include <string.h>

#include "foundation/memory/stack_trace.h"
#include "preload/mark.h"

/* A block that does not lie where a mark is looked for is moved, if it is not larger than this: larger
 * ones of glibc are mappings of their own, which do lie there. */
#define MAPPED_BYTES (128u * 1024)

/* Following frame pointers is tried only where each allocation is looked at. Whether it can be trusted
 * depends on who calls: a return address is on trial for its first calls, in which the unwinder is
 * asked, too, and one difference is enough. */
#define TRIALS 8
#define COMPARED 4
#define VERDICTS 1024

/* The return address in the upper bits; then how many trials there were, and whether one failed. Two
 * addresses that share a place take turns, which costs trials only. */
static _Atomic uint64_t verdicts[VERDICTS];

#define VERDICT_ADDRESS_SHIFT 16
#define VERDICT_BAD 0x100u
#define VERDICT_TRIALS 0xFFu

static uint32_t find_site(struct preload_thread *thread, const struct caller *caller);
static unsigned trace(uint64_t *frames, const struct caller *caller);
static bool frames_are_good(uint64_t *frames, unsigned *depth, const struct caller *caller);
static uint64_t count_of(uint64_t weight, size_t usable);
static void *alloc_marked(size_t align, size_t bytes, bool zero);
static bool may_be_marked(const void *block);

void *sample_alloc(struct preload_thread *thread, size_t align, size_t bytes, bool zero,
                   uint64_t weight, const struct caller *caller)
{
    struct mark mark = { .site = EC_SITE_NONE };
    size_t usable;
    void *block;

    if (bytes > PTRDIFF_MAX - MARK_ALIGN) {
        errno = ENOMEM;
        return NULL;
    }
    block = alloc_marked(align, bytes + MARK_BYTES, zero);
    if (block == NULL)
        return NULL;
    usable = account_usable(block);
    mark.site = find_site(thread, caller);
    mark.bytes = weight;
    if (mark.site == EC_SITE_NONE)
        return block;
    ec_sites_add(&preload.sites, mark.site, mark.bytes, count_of(mark.bytes, usable));
    mark_write(block, usable, &mark);
    return block;
}

bool sample_free(void *block, size_t usable)
{
    struct mark mark;

    if (!mark_read(block, usable, &mark))
        return false;
    mark_wipe(block, usable);
    ec_sites_remove(&preload.sites, mark.site, mark.bytes, count_of(mark.bytes, usable));
    return true;
}

/* A marked block keeps its site while it grows, until its growth is chosen itself; then it belongs to
 * where it was made larger. */
void *sample_realloc(struct preload_thread *thread, void *block, size_t usable, size_t bytes,
                     uint64_t weight, const struct caller *caller)
{
    struct mark old = { .site = EC_SITE_NONE }, mark;
    const bool was_marked = may_be_marked(block) && mark_read(block, usable, &old);
    size_t now_usable;
    void *moved;

    if (bytes == 0 && was_marked) /* a free, which a mark must not turn into a block */
        sample_free(block, usable);
    if (bytes == 0 || (!was_marked && weight == 0))
        return preload.next.realloc(block, bytes);
    if (bytes > PTRDIFF_MAX - MARK_ALIGN) {
        errno = ENOMEM;
        return NULL;
    }
    if (was_marked)
        mark_wipe(block, usable);
    moved = preload.next.realloc(block, bytes + MARK_BYTES);
    if (moved != NULL && !may_be_marked(moved)) {
        void *again = alloc_marked(1, bytes + MARK_BYTES, false);

        if (again != NULL) {
            memcpy(again, moved, bytes);
            preload.next.free(moved);
        }
        moved = again != NULL ? again : moved; /* without a mark it is only not seen */
    }
    if (moved == NULL) {
        if (was_marked)
            mark_write(block, usable, &old);
        return NULL;
    }
    now_usable = account_usable(moved);
    mark = old;
    if (preload.sample_bytes == 1)
        mark.bytes = bytes;
    else if (now_usable < old.bytes && old.bytes > preload.sample_bytes * EC_SAMPLER_POINTS_MAX)
        mark.bytes = now_usable; /* it stood for itself alone */
    else
        mark.bytes = old.bytes + weight;
    if (weight != 0)
        mark.site = find_site(thread, caller);
    if (was_marked)
        ec_sites_remove(&preload.sites, old.site, old.bytes, count_of(old.bytes, usable));
    if (mark.site != EC_SITE_NONE && may_be_marked(moved)) {
        ec_sites_add(&preload.sites, mark.site, mark.bytes, count_of(mark.bytes, now_usable));
        mark_write(moved, now_usable, &mark);
    }
    return moved;
}

size_t sample_usable(const void *block, size_t usable)
{
    struct mark mark;

    return mark_read(block, usable, &mark) ? usable - MARK_BYTES : usable;
}

/* How many blocks of this size a weight stands for. It is the same at the end as at the begin. */
static uint64_t count_of(uint64_t weight, size_t usable)
{
    return usable == 0 || weight <= usable ? 1 : weight / usable;
}

static bool may_be_marked(const void *block)
{
    return ((uintptr_t)block & preload.mark_mask) == 0;
}

static void *alloc_marked(size_t align, size_t bytes, bool zero)
{
    void *block = NULL;

    if (align <= MARK_BYTES && (preload.sample_bytes == 1 || bytes >= MAPPED_BYTES)) {
        block = zero ? preload.next.calloc(1, bytes) : preload.next.malloc(bytes);
        if (block == NULL || may_be_marked(block))
            return block;
        preload.next.free(block);
    }
    if (preload.sample_bytes != 1 && align < MARK_ALIGN)
        align = MARK_ALIGN;
    block = preload.next.memalign(align, bytes);
    if (block != NULL && zero)
        memset(block, 0, bytes);
    return block;
}

static uint32_t find_site(struct preload_thread *thread, const struct caller *caller)
{
    uint64_t frames[EC_SITE_FRAMES];
    const int code = errno;
    struct ec_site_key key = { .frames = frames, .tag = PRELOAD_TAG };
    uint32_t site;

    if (thread->busy)
        return EC_SITE_NONE;
    thread->busy = true; /* what the unwinder allocates is no sample */
    key.depth = trace(frames, caller);
    site = ec_sites_find(&preload.sites, &key);
    thread->busy = false;
    errno = code;
    return site;
}

static unsigned trace(uint64_t *frames, const struct caller *caller)
{
    const uint64_t address = (uint64_t)(uintptr_t)caller->address << VERDICT_ADDRESS_SHIFT;
    _Atomic uint64_t *place = &verdicts[(uintptr_t)caller->address * 0x9E3779B97F4A7C15ull >> 54];
    uint64_t verdict;
    unsigned depth;

    if (preload.sample_bytes != 1)
        return ec_stack_unwind(frames, EC_SITE_FRAMES, caller->address);
    verdict = atomic_load_explicit(place, memory_order_relaxed);
    if (verdict >> VERDICT_ADDRESS_SHIFT != address >> VERDICT_ADDRESS_SHIFT)
        verdict = address;
    if ((verdict & VERDICT_BAD) != 0)
        return ec_stack_unwind(frames, EC_SITE_FRAMES, caller->address);
    depth = ec_stack_walk(frames, EC_SITE_FRAMES, caller->address, caller->frame);
    if ((verdict & VERDICT_TRIALS) >= TRIALS)
        return depth;
    verdict++;
    if (!frames_are_good(frames, &depth, caller))
        verdict |= VERDICT_BAD;
    atomic_store_explicit(place, verdict, memory_order_relaxed);
    return depth;
}

/* Compare the first frames with those of the unwinder; deeper ones may be cut off in either way. When
 * they differ, frames become the unwinder's. */
static bool frames_are_good(uint64_t *frames, unsigned *depth, const struct caller *caller)
{
    uint64_t unwound[EC_SITE_FRAMES];
    const unsigned right = ec_stack_unwind(unwound, EC_SITE_FRAMES, caller->address);
    const unsigned compared = right < COMPARED ? right : COMPARED;

    if (*depth >= compared && memcmp(frames, unwound, compared * sizeof frames[0]) == 0)
        return true;
    memcpy(frames, unwound, right * sizeof frames[0]);
    *depth = right;
    return false;
}
