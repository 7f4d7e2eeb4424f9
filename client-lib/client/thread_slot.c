/* Thread slots: which rows of the client segment the calling thread may write.
 *
 * The claim is a compare-and-swap on `used`, whose only writer is this process. A thread remembers
 * its slots by the serial of the client, never by its address, which the next client may get. At the
 * thread's end a key's destructor gives them back, if their clients still live. */
#include "client/live_clients.h"

#include <pthread.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* Clients that one thread has slots in; in further ones it uses the shared slot. */
#define HELD_MAX 4

struct held_slot {
    uint64_t serial; /* of the client; 0: free */
    uint32_t slot;
};

/* initial-exec: one load to find it, also inside the shared library. */
static _Thread_local struct held_slot held[HELD_MAX] __attribute__((tls_model("initial-exec")));

static pthread_key_t end_key;
static int end_key_rc;

static uint32_t find_or_claim(struct ec_client *client);
static struct held_slot *free_place(void);
static uint32_t claim(struct ec_client_segment *segment);
static uint32_t claim_shared(struct ec_client_segment *segment);
static bool take(struct ec_client_segment *segment, uint32_t slot);
static void raise_high(struct ec_client_segment *segment, uint32_t slot);
static void make_end_key(void);
static void thread_ends(void *value);

uint32_t ec_client_thread_slot(struct ec_client *client)
{
    if (held[0].serial == client->serial)
        return held[0].slot;
    return find_or_claim(client);
}

static uint32_t find_or_claim(struct ec_client *client)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct held_slot *place;

    for (unsigned i = 1; i < HELD_MAX; i++)
        if (held[i].serial == client->serial)
            return held[i].slot;

    /* Without a free place or the key the slot could never be given back. */
    pthread_once(&once, make_end_key);
    place = free_place();
    if (place == NULL || end_key_rc != 0 || pthread_setspecific(end_key, held) != 0)
        return claim_shared(ec_client_own(client));
    *place = (struct held_slot) { .serial = client->serial, .slot = claim(ec_client_own(client)) };
    return place->slot;
}

/* A place of this thread; those of clients that are gone are free again. */
static struct held_slot *free_place(void)
{
    for (unsigned i = 0; i < HELD_MAX; i++) {
        if (held[i].serial == 0)
            return &held[i];
        if (ec_live_clients_lock(held[i].serial) == NULL)
            return &held[i];
        ec_live_clients_unlock();
    }
    return NULL;
}

static uint32_t claim(struct ec_client_segment *segment)
{
    for (uint32_t slot = 0; slot < EC_THREAD_SLOT_SHARED; slot++) {
        struct ec_thread_row *row = &segment->threads[slot];

        if (!take(segment, slot))
            continue;
        /* for people: a reader may see the name half written, bounded by the array all the same */
        if (prctl(PR_GET_NAME, row->name) < 0)
            row->name[0] = '\0';
        atomic_store_explicit(&row->tid, (uint32_t)gettid(), memory_order_relaxed);
        return slot;
    }
    return claim_shared(segment);
}

static uint32_t claim_shared(struct ec_client_segment *segment)
{
    static const char name[EC_THREAD_NAME_BYTES] = "shared";

    if (take(segment, EC_THREAD_SLOT_SHARED))
        memcpy(segment->threads[EC_THREAD_SLOT_SHARED].name, name, sizeof name);
    else
        raise_high(segment, EC_THREAD_SLOT_SHARED); /* who took it may not have come to that yet */
    return EC_THREAD_SLOT_SHARED;
}

static bool take(struct ec_client_segment *segment, uint32_t slot)
{
    _Atomic uint32_t *used = &segment->threads[slot].used;
    uint32_t expected = 0;

    if (atomic_load_explicit(used, memory_order_relaxed) != 0)
        return false;
    /* acquire pairs with the release in thread_ends: the counts that the last owner left are added
     * to by plain loads and stores */
    if (!atomic_compare_exchange_strong_explicit(used, &expected, 1, memory_order_acquire,
                                                 memory_order_relaxed))
        return false;
    raise_high(segment, slot);
    return true;
}

/* Raised before the first count in the slot, so that who sees the count also looks there: the evict
 * scan runs behind a membarrier, which orders both stores. */
static void raise_high(struct ec_client_segment *segment, uint32_t slot)
{
    uint32_t high = atomic_load_explicit(&segment->threads_high, memory_order_relaxed);

    while (high < slot + 1 &&
           !atomic_compare_exchange_weak_explicit(&segment->threads_high, &high, slot + 1,
                                                  memory_order_release, memory_order_relaxed))
        ;
}

static void make_end_key(void)
{
    end_key_rc = pthread_key_create(&end_key, thread_ends);
}

/* Other destructors of this thread may still count afterwards: then it claims again, and this runs
 * again. */
static void thread_ends(void *value)
{
    (void)value; /* held, which is not passed to anybody else */
    for (unsigned i = 0; i < HELD_MAX; i++) {
        struct ec_client *client;

        if (held[i].serial == 0)
            continue;
        client = ec_live_clients_lock(held[i].serial);
        if (client != NULL) {
            struct ec_thread_row *row = &ec_client_own(client)->threads[held[i].slot];

            ec_client_memory_thread_ends(client);
            if (held[i].slot != EC_THREAD_SLOT_SHARED)
                atomic_store_explicit(&row->used, 0, memory_order_release);
            ec_live_clients_unlock();
        }
        held[i] = (struct held_slot) { 0 };
    }
}
