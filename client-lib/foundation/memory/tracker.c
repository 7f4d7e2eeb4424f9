#include "foundation/memory/tracker.h"

#include <engine-core/tracking.h>

#include "foundation/memory/sampler.h"
#include "foundation/memory/stack_trace.h"

#define BLOCKS_APART 16 /* at least, and blocks begin at multiples of it */

/* A thread's place on the line of bytes, and where it says that it is. */
struct place {
    uint64_t tracker; /* serial; another one: begin anew */
    uint64_t mean;
    struct ec_sampler sampler;
    const char *file; /* of the next allocation; NULL: not said */
    uint32_t line;
    bool inside; /* what the unwinder allocates is not looked at */
};

static _Thread_local struct place place;
static _Atomic uint64_t last_serial;

static void on_allocated(void *context, const void *block, size_t bytes, uint32_t tag);
static void on_freed(void *context, const void *block, size_t bytes, uint32_t tag);
static void on_ended(void *context, const void *base, size_t bytes);
static uint64_t choose(const struct ec_tracker *tracker, size_t bytes);
static uint32_t find_site(struct ec_tracker *tracker, uint32_t tag);
static void remember(struct ec_tracker *tracker, const void *block, size_t bytes, uint64_t weight,
                     uint32_t site);
static void forget(struct ec_tracker *tracker, const void *block);
static _Atomic uint8_t *filter_of(struct ec_tracker *tracker, const void *block);

void ec_tracking_here(const char *file, uint32_t line)
{
    place.file = file;
    place.line = line;
}

void ec_tracker_start(struct ec_tracker *tracker, struct ec_memory_sink *sink,
                      struct ec_tracking *tracking, uint64_t sample_bytes)
{
    ec_stack_trace_prepare();
    tracker->sink = sink;
    tracker->tracking = tracking;
    tracker->serial = atomic_fetch_add_explicit(&last_serial, 1, memory_order_relaxed) + 1;
    tracker->sites.tracking = tracking;
    tracker->sites.is_news = &tracker->has_news;
    tracker->modules.tracking = tracking;
    pthread_mutex_init(&tracker->modules_lock, NULL);
    ec_block_table_init(&tracker->blocks);
    ec_tracker_update_modules(tracker);
    ec_tracker_set(tracker, sample_bytes);
    tracker->watch = (struct ec_memory_watch) { on_allocated, on_freed, on_ended, tracker };
    ec_memory_watch_set(sink, &tracker->watch);
}

void ec_tracker_set(struct ec_tracker *tracker, uint64_t sample_bytes)
{
    atomic_store_explicit(&tracker->sample_bytes, sample_bytes, memory_order_relaxed);
    atomic_store_explicit(&tracker->tracking->sample_bytes, sample_bytes, memory_order_relaxed);
}

void ec_tracker_update_modules(struct ec_tracker *tracker)
{
    pthread_mutex_lock(&tracker->modules_lock);
    atomic_store_explicit(&tracker->has_news, false, memory_order_relaxed);
    ec_module_list_update(&tracker->modules);
    pthread_mutex_unlock(&tracker->modules_lock);
}

void ec_tracker_finish(struct ec_tracker *tracker)
{
    if (tracker == NULL)
        return;
    ec_memory_watch_set(tracker->sink, NULL);
    ec_block_table_finish(&tracker->blocks);
    pthread_mutex_destroy(&tracker->modules_lock);
}

static void on_allocated(void *context, const void *block, size_t bytes, uint32_t tag)
{
    struct ec_tracker *tracker = context;
    const uint64_t weight = place.inside ? 0 : choose(tracker, bytes);

    if (weight != 0)
        remember(tracker, block, bytes, weight, find_site(tracker, tag));
    place.file = NULL;
}

static void on_freed(void *context, const void *block, size_t bytes, uint32_t tag)
{
    (void)bytes;
    (void)tag;
    forget(context, block);
}

static void on_ended(void *context, const void *base, size_t bytes)
{
    for (size_t offset = 0; offset < bytes; offset += BLOCKS_APART)
        forget(context, (const char *)base + offset);
}

static uint64_t choose(const struct ec_tracker *tracker, size_t bytes)
{
    const uint64_t mean = atomic_load_explicit(&tracker->sample_bytes, memory_order_relaxed);

    if (mean <= 1)
        return mean == 1 ? bytes : 0;
    if (__builtin_expect(place.tracker != tracker->serial || place.mean != mean, 0)) {
        place.tracker = tracker->serial;
        place.mean = mean;
        place.sampler.random = (uint64_t)(uintptr_t)&place ^ tracker->serial << 40 ^ 0x5DEECE66Dull;
        place.sampler.until = ec_sampler_distance(&place.sampler, mean);
    }
    place.sampler.until -= (int64_t)bytes;
    return place.sampler.until > 0 ? 0 : ec_sampler_weight(&place.sampler, mean, bytes);
}

/* The frames of this library are left out by those who show it: they know the modules. */
static uint32_t find_site(struct ec_tracker *tracker, uint32_t tag)
{
    uint64_t frames[EC_SITE_FRAMES];
    struct ec_site_key key = {
        .frames = frames, .tag = tag, .file = place.file, .line = place.line
    };
    uint32_t site;

    place.inside = true;
    key.depth = ec_stack_unwind(frames, EC_SITE_FRAMES, __builtin_return_address(0));
    site = ec_sites_find(&tracker->sites, &key);
    place.inside = false;
    return site;
}

/* room_bytes holds the weight, and kind the site. */
static void remember(struct ec_tracker *tracker, const void *block, size_t bytes, uint64_t weight,
                     uint32_t site)
{
    _Atomic uint8_t *filter = filter_of(tracker, block);
    const struct ec_block entry = {
        .address = (void *)(uintptr_t)block, .bytes = bytes, .room_bytes = weight, .kind = site
    };
    uint8_t count = atomic_load_explicit(filter, memory_order_relaxed);

    if (site == EC_SITE_NONE || !ec_block_table_add(&tracker->blocks, &entry))
        return;
    while (count != UINT8_MAX &&
           !atomic_compare_exchange_weak_explicit(filter, &count, (uint8_t)(count + 1),
                                                  memory_order_release, memory_order_relaxed))
        ;
    ec_sites_add(&tracker->sites, site, weight, weight > bytes ? weight / bytes : 1);
}

static void forget(struct ec_tracker *tracker, const void *block)
{
    _Atomic uint8_t *filter = filter_of(tracker, block);
    struct ec_block found;
    uint8_t count;

    /* Acquire: pairs with the release in remember(). Who frees the block got it from its allocator's
     * caller after that. */
    if (atomic_load_explicit(filter, memory_order_acquire) == 0 ||
        !ec_block_table_take(&tracker->blocks, block, &found))
        return;
    count = atomic_load_explicit(filter, memory_order_relaxed);
    while (count != UINT8_MAX &&
           !atomic_compare_exchange_weak_explicit(filter, &count, (uint8_t)(count - 1),
                                                  memory_order_relaxed, memory_order_relaxed))
        ;
    ec_sites_remove(
        &tracker->sites, found.kind, found.room_bytes,
        found.room_bytes > found.bytes && found.bytes > 0 ? found.room_bytes / found.bytes : 1);
}

static _Atomic uint8_t *filter_of(struct ec_tracker *tracker, const void *block)
{
    return &tracker->filter[((uintptr_t)block >> 4) * 0x9E3779B97F4A7C15ull >> 48];
}
