#include "preload/account.h"

#include <dlfcn.h>
#include <errno.h>
#include <gnu/libc-version.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "preload/mark.h"
#include "segment/thread_rows.h"

#define UNTIL_NEVER INT64_MAX

struct preload preload = { .mark_mask = UINTPTR_MAX };
_Thread_local struct preload_thread preload_thread;

static pthread_key_t end_key;
static bool has_end_key;

static void open_all(void);
static bool has_glibc_words(void);
static bool make_segment(void);
static void point_at_segment(void);
static uint32_t slot_of_thread(void *context);
static void thread_ends(void *value);
static void bind(struct preload_thread *thread, uint32_t slot);
static void set_until(struct preload_thread *thread);
static void copy_counts(struct ec_client_segment *to, const struct ec_client_segment *from);

bool account_open(struct preload_thread *thread)
{
    const int code = errno;
    uint32_t phase = PRELOAD_NEW;

    if (thread->entering)
        return false;
    thread->entering = true;
    /* Acquire: pairs with the release below, after everything in `preload`. */
    if (atomic_compare_exchange_strong_explicit(&preload.phase, &phase, PRELOAD_OPENING,
                                                memory_order_acquire, memory_order_acquire)) {
        open_all();
        phase = PRELOAD_OPEN;
        atomic_store_explicit(&preload.phase, PRELOAD_OPEN, memory_order_release);
    }
    if (phase == PRELOAD_OPEN) {
        const uint32_t slot = ec_thread_rows_claim(preload.own);
        const bool will_leave = has_end_key && slot != EC_THREAD_SLOT_SHARED &&
                                pthread_setspecific(end_key, (void *)(uintptr_t)(slot + 1)) == 0;

        if (!will_leave && slot != EC_THREAD_SLOT_SHARED) /* it could never be given back */
            ec_thread_rows_leave(preload.own, slot);
        bind(thread, will_leave ? slot : EC_THREAD_SLOT_SHARED);
    }
    thread->entering = false;
    errno = code;
    return phase == PRELOAD_OPEN;
}

void account_find_next(void)
{
    const struct {
        const char *name;
        void *function; /* a pointer to the pointer */
    } functions[] = {
        { "free", &preload.next.free },
        { "calloc", &preload.next.calloc },
        { "realloc", &preload.next.realloc },
        { "memalign", &preload.next.memalign },
        { "posix_memalign", &preload.next.posix_memalign },
        { "aligned_alloc", &preload.next.aligned_alloc },
        { "valloc", &preload.next.valloc },
        { "pvalloc", &preload.next.pvalloc },
        { "malloc_usable_size", &preload.next.usable_size },
        { "malloc_trim", &preload.next.trim },
        { "malloc", &preload.next.malloc }, /* last: that it is there means that all are */
    };

    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        void *found = dlsym(RTLD_NEXT, functions[i].name);

        memcpy(functions[i].function, &found, sizeof found);
    }
    preload.next.is_glibc = has_glibc_words();
}

void account_configure(const char *tag, uint64_t sample_bytes)
{
    struct ec_error why;
    uint32_t number;

    (void)ec_memory_sink_tag(&preload.sink, tag, 0, &number, &why); /* the first: PRELOAD_TAG */
    (void)ec_memory_sink_tag(&preload.sink, PRELOAD_TAG_OWN_NAME, 0, &number, &why);
    preload.sample_bytes = sample_bytes;
    preload.mark_mask = sample_bytes == 0 ? UINTPTR_MAX : sample_bytes == 1 ? 0 : MARK_MASK;
    atomic_store_explicit(&preload.own->tracking.sample_bytes, sample_bytes, memory_order_relaxed);
    if (preload_thread.counters != NULL)
        bind(&preload_thread, preload_thread.slot);
}

void account_become_own(void)
{
    struct preload_thread *thread = &preload_thread;

    thread->tag = PRELOAD_TAG_OWN;
    thread->busy = true;
    if (thread->counters != NULL)
        bind(thread, thread->slot);
}

uint64_t account_slow(struct preload_thread *thread, uint64_t bytes)
{
    const int64_t passed = thread->passed - thread->until; /* with the block */
    uint64_t weight = 0;

    thread->push_in -= passed;
    if (thread->push_in <= 0) {
        const struct ec_memory_account account = { .tag = thread->counters,
                                                   .slot = thread->slot,
                                                   .shared = thread->shared };

        ec_memory_sink_push(&preload.sink, &account, thread->tag);
        thread->push_in = PUSH_BYTES;
    }
    if (preload.sample_bytes == 1 && !thread->busy) {
        weight = bytes;
    } else if (preload.sample_bytes > 1) {
        thread->sampler.until -= passed;
        if (thread->sampler.until <= 0)
            weight = ec_sampler_weight(&thread->sampler, preload.sample_bytes, bytes);
        if (thread->busy)
            weight = 0;
    }
    set_until(thread);
    return weight;
}

bool account_renew_segment(bool forked)
{
    const size_t bytes = sizeof(struct ec_client_segment);
    struct ec_client_segment *base = preload.own;
    void *fresh;

    if (make_segment())
        fresh = preload.segment.base;
    else
        fresh = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (fresh == MAP_FAILED)
        return false; /* counts go where they went, which is better than nowhere */
    copy_counts(fresh, base);
    if (forked)
        for (uint32_t slot = 0; slot < EC_THREAD_SLOT_SHARED; slot++)
            if (slot != preload_thread.slot || preload_thread.shared)
                atomic_store_explicit(&((struct ec_client_segment *)fresh)->threads[slot].used, 0,
                                      memory_order_relaxed);
    if (mremap(fresh, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, base) == MAP_FAILED)
        return false;
    if (preload.segment.base != NULL)
        preload.segment.base = base;
    return preload.segment.base != NULL;
}

/* ---- the start ---- */

/* Is the next allocator glibc's own, and does the word before a block say what account_usable takes it
 * for? Small, large and mapped blocks are tried. */
static bool has_glibc_words(void)
{
    static const size_t sizes[] = { 0, 1, 24, 25, 1000, 4096, 70000, 1u << 20, 8u << 20 };
    Dl_info libc, next;
    bool same = dladdr((const void *)(uintptr_t)gnu_get_libc_version, &libc) != 0 &&
                dladdr((const void *)(uintptr_t)preload.next.usable_size, &next) != 0 &&
                libc.dli_fbase == next.dli_fbase;

    preload.next.is_glibc = true;
    for (size_t i = 0; same && i < sizeof sizes / sizeof sizes[0]; i++) {
        void *block = preload.next.malloc(sizes[i]);

        same = block == NULL || account_usable(block) == preload.next.usable_size(block);
        preload.next.free(block);
    }
    return same;
}

static void open_all(void)
{
    account_find_next();
    if (!make_segment())
        preload.own = mmap(NULL, sizeof *preload.own, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    else
        preload.own = preload.segment.base;
    point_at_segment();
    has_end_key = pthread_key_create(&end_key, thread_ends) == 0;
}

/* Fork leaves segments out of the child; this one comes along, so that a child made without fork
 * handlers does not fall into a hole, and one made with them can copy it. */
static bool make_segment(void)
{
    const struct ec_segment_desc desc = { .name = "ec-client",
                                          .kind = EC_SEGMENT_CLIENT,
                                          .bytes = sizeof(struct ec_client_segment) };
    struct ec_error why;

    if (ec_segment_init(&preload.segment, &desc, &why) < 0)
        return false;
    (void)madvise(preload.segment.base, preload.segment.mapped_bytes, MADV_DOFORK);
    return true;
}

static void point_at_segment(void)
{
    struct ec_client_segment *own = preload.own;
    struct ec_error why;

    preload.sink.tags = own->tags;
    preload.sink.allocators = own->allocators;
    preload.sink.threads = own->threads;
    preload.sink.threads_high = &own->threads_high;
    preload.sink.thread_slot = slot_of_thread;
    (void)ec_memory_sink_init(&preload.sink, &why); /* a mutex without attributes: cannot fail */
    preload.sites.tracking = &own->tracking;
    preload.modules.tracking = &own->tracking;
}

static uint32_t slot_of_thread(void *context)
{
    (void)context;
    return preload_thread.counters == NULL ? EC_THREAD_SLOT_SHARED : preload_thread.slot;
}

/* What the thread frees after this, and whatever destructors still allocate, goes to the shared row:
 * there is no later moment at which a row could be given back. */
static void thread_ends(void *value)
{
    const uint32_t slot = (uint32_t)(uintptr_t)value - 1;

    bind(&preload_thread, EC_THREAD_SLOT_SHARED);
    ec_thread_rows_leave(preload.own, slot);
}

static void bind(struct preload_thread *thread, uint32_t slot)
{
    if (slot == EC_THREAD_SLOT_SHARED)
        (void)ec_thread_rows_claim_shared(preload.own);
    thread->slot = slot;
    thread->shared = slot == EC_THREAD_SLOT_SHARED;
    thread->push_in = PUSH_BYTES;
    thread->sampler.random =
        (uint64_t)(uintptr_t)thread ^ (uint64_t)getpid() << 48 ^ 0x5DEECE66Dull;
    if (preload.sample_bytes > 1)
        thread->sampler.until = ec_sampler_distance(&thread->sampler, preload.sample_bytes);
    set_until(thread);
    if (thread->tag == 0)
        thread->tag = PRELOAD_TAG;
    thread->counters = &preload.own->threads[slot].tags[thread->tag];
}

static void set_until(struct preload_thread *thread)
{
    thread->until = thread->push_in;
    if (preload.sample_bytes == 1)
        thread->until = 0;
    else if (preload.sample_bytes > 1 && thread->sampler.until < thread->until)
        thread->until = thread->sampler.until;
    thread->passed = thread->until;
}

/* Only what was touched: the rest of the segment is zero and must not come into being. */
static void copy_counts(struct ec_client_segment *to, const struct ec_client_segment *from)
{
    const struct ec_tracking *tracking = &from->tracking;
    const uint32_t sites = atomic_load_explicit(&tracking->site_count, memory_order_relaxed);
    const uint32_t modules = atomic_load_explicit(&tracking->module_count, memory_order_relaxed);
    const uint32_t threads = atomic_load_explicit(&from->threads_high, memory_order_relaxed);

    memcpy(to->tags, from->tags, sizeof to->tags);
    memcpy(to->allocators, from->allocators, sizeof to->allocators);
    memcpy(to->threads, from->threads, threads * sizeof to->threads[0]);
    memcpy(&to->tracking, tracking, offsetof(struct ec_tracking, sites));
    memcpy(to->tracking.sites, tracking->sites, sites * sizeof tracking->sites[0]);
    memcpy(to->tracking.modules, tracking->modules, modules * sizeof tracking->modules[0]);
    atomic_store_explicit(&to->threads_high, threads, memory_order_relaxed);
}
