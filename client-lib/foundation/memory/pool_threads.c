/* Threads and their tables of heaps. */
#include "foundation/memory/pool_threads.h"

#include <stdlib.h>
#include <string.h>

#define FAR_FIRST 16

_Thread_local struct ec_pool_thread ec_pool_this_thread;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* all tables, indices, heap->thread */
static uint64_t indices_taken[EC_POOLS_MAX / 64];
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t at_end;
static bool at_end_exists;
static uint32_t forks; /* how many forks lie between the first process and this one */

static void make_key(void);
static void in_child(void);
static void thread_ends(void *thread);
static bool know_thread(struct ec_pool_thread *thread);
static bool have_place(struct ec_pool_thread *thread, uint32_t index);
static struct ec_pool_heap **place_of(struct ec_pool_thread *thread, uint32_t index);

bool ec_pool_threads_add(struct ec_pool *pool)
{
    bool found = false;

    pthread_mutex_lock(&lock);
    for (uint32_t word = 0; !found && word < EC_POOLS_MAX / 64; word++) {
        if (~indices_taken[word] == 0)
            continue;
        pool->index = word * 64 + (uint32_t)__builtin_ctzll(~indices_taken[word]);
        indices_taken[word] |= 1ull << (pool->index & 63);
        found = true;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

/* The threads read their own tables without the lock. That is no race: a thread looks at this place
 * only for this pool, which nobody uses any more, or for a later pool with the same index, which it
 * heard of after this. */
void ec_pool_threads_remove(struct ec_pool *pool)
{
    struct ec_pool_heap *heap = atomic_load_explicit(&pool->heaps, memory_order_acquire);

    pthread_mutex_lock(&lock);
    for (; heap != NULL; heap = heap->next)
        if (heap->thread != NULL)
            *place_of(heap->thread, pool->index) = NULL;
    indices_taken[pool->index / 64] &= ~(1ull << (pool->index & 63));
    pthread_mutex_unlock(&lock);
}

void ec_pool_threads_leave(const struct ec_memory_sink *sink)
{
    struct ec_pool_thread *thread = &ec_pool_this_thread;

    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < EC_POOLS_NEAR + thread->far_count; i++) {
        struct ec_pool_heap **place = place_of(thread, i);

        if (*place == NULL || (sink != NULL && (*place)->pool->sink != sink))
            continue;
        ec_pool_heap_leave(*place);
        *place = NULL;
    }
    pthread_mutex_unlock(&lock);
}

/* Of an account: any, where blocks have tags of their own and only its slot is looked at. */
static uint32_t tag_of(const struct ec_pool *pool)
{
    return pool->tag != EC_TAG_NONE ? pool->tag : EC_TAG_GENERAL;
}

struct ec_pool_heap *ec_pool_threads_heap(struct ec_pool *pool)
{
    struct ec_pool_thread *thread = &ec_pool_this_thread;
    struct ec_pool_heap *heap = ec_pool_thread_heap(pool);
    struct ec_memory_account account;

    if (heap != NULL)
        return heap;
    if (thread->gone)
        return NULL;
    if (pool->sink != NULL) { /* outside the lock: foreign code */
        account = ec_memory_sink_account(pool->sink, tag_of(pool));
        if (account.shared) /* a magazine leans on counters that have one writer */
            return NULL;
    }
    pthread_mutex_lock(&lock);
    if (know_thread(thread) && have_place(thread, pool->index))
        heap = ec_pool_heap_create(pool, thread, true);
    if (heap != NULL) {
        ec_pool_heap_bind(heap, pool->sink != NULL ? &account : NULL);
        *place_of(thread, pool->index) = heap;
    }
    pthread_mutex_unlock(&lock);
    return heap;
}

/* Bound only here: as long as no thread needs it, readers need not look at the shared row. */
struct ec_pool_heap *ec_pool_threads_common(struct ec_pool *pool)
{
    struct ec_pool_heap *common = pool->common;
    struct ec_memory_account account;

    pthread_once(&once, make_key);
    if (common->own != NULL && (pool->sink == NULL || common->forks == forks))
        return common;
    if (pool->sink != NULL)
        account = ec_memory_sink_account_shared(pool->sink, tag_of(pool));
    ec_pool_heap_bind(common, pool->sink != NULL ? &account : NULL);
    common->forks = forks;
    return common;
}

static void make_key(void)
{
    at_end_exists =
        pthread_key_create(&at_end, thread_ends) == 0 && pthread_atfork(NULL, NULL, in_child) == 0;
}

/* The lock is made anew instead of held across the fork: it would come first or last among other
 * fork handlers' locks by chance. What another thread may have left half done is not looked at. */
static void in_child(void)
{
    struct ec_pool_thread *thread = &ec_pool_this_thread;

    pthread_mutex_init(&lock, NULL);
    forks++;
    for (uint32_t i = 0; i < EC_POOLS_NEAR + thread->far_count; i++) {
        struct ec_pool_heap **place = place_of(thread, i);

        if (*place != NULL && (*place)->pool->sink != NULL)
            *place = NULL;
    }
}

static void thread_ends(void *context)
{
    struct ec_pool_thread *thread = context;

    ec_pool_threads_leave(NULL);
    free(thread->far);
    *thread = (struct ec_pool_thread) { .gone = true };
}

/* Without notice of its end a thread gets no heap: nobody would ever take it back. */
static bool know_thread(struct ec_pool_thread *thread)
{
    if (!thread->known) {
        pthread_once(&once, make_key);
        thread->known = at_end_exists && pthread_setspecific(at_end, thread) == 0;
    }
    return thread->known;
}

static bool have_place(struct ec_pool_thread *thread, uint32_t index)
{
    uint32_t count = thread->far_count == 0 ? FAR_FIRST : thread->far_count;
    struct ec_pool_heap **far;

    if (index < EC_POOLS_NEAR || index - EC_POOLS_NEAR < thread->far_count)
        return true;
    while (count <= index - EC_POOLS_NEAR)
        count *= 2;
    far = realloc(thread->far, count * sizeof(struct ec_pool_heap *));
    if (far == NULL)
        return false;
    memset(far + thread->far_count, 0, (count - thread->far_count) * sizeof(struct ec_pool_heap *));
    thread->far = far;
    thread->far_count = count;
    return true;
}

static struct ec_pool_heap **place_of(struct ec_pool_thread *thread, uint32_t index)
{
    return index < EC_POOLS_NEAR ? &thread->near[index] : &thread->far[index - EC_POOLS_NEAR];
}
