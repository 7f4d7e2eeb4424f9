/* Thread slots: which rows of the client segment the calling thread may write.
 *
 * How a slot is claimed stands in segment/thread_rows.h. A thread remembers its slots by the serial
 * of the client, never by its address, which the next client may get. At the thread's end a key's
 * destructor gives them back, if their clients still live. */
#include "client/live_clients.h"

#include <engine-core/resource_inline.h>
#include <pthread.h>

/* Clients that one thread has slots in; in further ones it uses the shared slot. */
#define HELD_SLOTS 4

struct held_slot {
    uint64_t serial; /* of the client; 0: free */
    uint32_t slot;
};

/* initial-exec: one load to find it, also inside the shared library. */
static _Thread_local struct held_slot held_slots[HELD_SLOTS]
    __attribute__((tls_model("initial-exec")));
__thread struct ec_resource_thread ec_resource_thread;

static pthread_key_t end_key;
static int end_key_rc;

static uint32_t find_or_claim(struct ec_client *client);
static struct held_slot *free_place(void);
static void make_end_key(void);
static void thread_ends(void *value);

uint32_t ec_client_thread_slot(struct ec_client *client)
{
    if (held_slots[0].serial == client->serial)
        return held_slots[0].slot;
    return find_or_claim(client);
}

uint32_t ec_client_thread_slot_plain(struct ec_client *client)
{
    uint32_t slot = ec_client_thread_slot(client);
    struct ec_client_segment *own = ec_client_own(client);

    if (held_slots[0].serial == client->serial && slot != EC_THREAD_SLOT_SHARED)
        ec_resource_thread = (struct ec_resource_thread) {
            .serial = client->serial,
            .hard = (int32_t *)own->hard.count[slot],
            .directory = client->directory.base,
            .uses = (unsigned char *)&own->uses[slot],
        };
    return slot;
}

static uint32_t find_or_claim(struct ec_client *client)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct held_slot *place;

    for (unsigned i = 1; i < HELD_SLOTS; i++)
        if (held_slots[i].serial == client->serial)
            return held_slots[i].slot;

    /* Without a free place or the key the slot could never be given back. */
    pthread_once(&once, make_end_key);
    place = free_place();
    if (place == NULL || end_key_rc != 0 || pthread_setspecific(end_key, held_slots) != 0)
        return ec_thread_rows_claim_shared(ec_client_own(client));
    *place = (struct held_slot) { .serial = client->serial,
                                  .slot = ec_thread_rows_claim(ec_client_own(client)) };
    return place->slot;
}

/* A place of this thread; those of clients that are gone are free again. */
static struct held_slot *free_place(void)
{
    for (unsigned i = 0; i < HELD_SLOTS; i++) {
        if (held_slots[i].serial == 0)
            return &held_slots[i];
        if (ec_live_clients_lock(held_slots[i].serial) == NULL)
            return &held_slots[i];
        ec_live_clients_unlock();
    }
    return NULL;
}

static void make_end_key(void)
{
    end_key_rc = pthread_key_create(&end_key, thread_ends);
}

/* Other destructors of this thread may still count afterwards: then it claims again, and this runs
 * again. */
static void thread_ends(void *value)
{
    (void)value; /* held_slots, which is not passed to anybody else */
    for (unsigned i = 0; i < HELD_SLOTS; i++) {
        struct ec_client *client;

        if (held_slots[i].serial == 0)
            continue;
        client = ec_live_clients_lock(held_slots[i].serial);
        if (client != NULL) {
            ec_client_memory_thread_ends(client);
            ec_thread_rows_leave(ec_client_own(client), held_slots[i].slot);
            ec_live_clients_unlock();
        }
        held_slots[i] = (struct held_slot) { 0 };
    }
    ec_resource_thread = (struct ec_resource_thread) { 0 };
}
