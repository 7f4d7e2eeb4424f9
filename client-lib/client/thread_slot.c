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

_Thread_local struct ec_held_slot ec_held_slots[EC_HELD_SLOTS];

static pthread_key_t end_key;
static int end_key_rc;

static uint32_t find_or_claim(struct ec_client *client);
static struct ec_held_slot *free_place(void);
static uint32_t claim(struct ec_client_segment *segment);
static uint32_t claim_shared(struct ec_client_segment *segment);
static bool take(struct ec_client_segment *segment, uint32_t slot);
static void raise_high(struct ec_client_segment *segment, uint32_t slot);
static void make_end_key(void);
static void thread_ends(void *value);

uint32_t ec_client_thread_slot(struct ec_client *client)
{
    if (ec_held_slots[0].serial == client->serial)
        return ec_held_slots[0].slot;
    return find_or_claim(client);
}

static uint32_t find_or_claim(struct ec_client *client)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct ec_held_slot *place;

    for (unsigned i = 1; i < EC_HELD_SLOTS; i++)
        if (ec_held_slots[i].serial == client->serial)
            return ec_held_slots[i].slot;

    /* Without a free place or the key the slot could never be given back. */
    pthread_once(&once, make_end_key);
    place = free_place();
    if (place == NULL || end_key_rc != 0 || pthread_setspecific(end_key, ec_held_slots) != 0)
        return claim_shared(ec_client_own(client));
    *place =
        (struct ec_held_slot) { .serial = client->serial, .slot = claim(ec_client_own(client)) };
    return place->slot;
}

/* A place of this thread; those of clients that are gone are free again. */
static struct ec_held_slot *free_place(void)
{
    for (unsigned i = 0; i < EC_HELD_SLOTS; i++) {
        if (ec_held_slots[i].serial == 0)
            return &ec_held_slots[i];
        if (ec_live_clients_lock(ec_held_slots[i].serial) == NULL)
            return &ec_held_slots[i];
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
    (void)value; /* ec_held_slots, which is not passed to anybody else */
    for (unsigned i = 0; i < EC_HELD_SLOTS; i++) {
        struct ec_client *client;

        if (ec_held_slots[i].serial == 0)
            continue;
        client = ec_live_clients_lock(ec_held_slots[i].serial);
        if (client != NULL) {
            struct ec_thread_row *row = &ec_client_own(client)->threads[ec_held_slots[i].slot];

            ec_client_memory_thread_ends(client);
            if (ec_held_slots[i].slot != EC_THREAD_SLOT_SHARED)
                atomic_store_explicit(&row->used, 0, memory_order_release);
            ec_live_clients_unlock();
        }
        ec_held_slots[i] = (struct ec_held_slot) { 0 };
    }
}
