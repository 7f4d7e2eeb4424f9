/* Thread slots: which rows of the client segment the calling thread may write.
 *
 * How a slot is claimed stands in segment/thread_rows.h. A thread remembers its slots by the serial
 * of the client, never by its address, which the next client may get. At the thread's end a key's
 * destructor gives them back, if their clients still live. */
#include "client/live_clients.h"

#include <pthread.h>

_Thread_local struct ec_held_slot ec_held_slots[EC_HELD_SLOTS];

static pthread_key_t end_key;
static int end_key_rc;

static uint32_t find_or_claim(struct ec_client *client);
static struct ec_held_slot *free_place(void);
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
        return ec_thread_rows_claim_shared(ec_client_own(client));
    *place = (struct ec_held_slot) { .serial = client->serial,
                                     .slot = ec_thread_rows_claim(ec_client_own(client)) };
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
            ec_client_memory_thread_ends(client);
            ec_thread_rows_leave(ec_client_own(client), ec_held_slots[i].slot);
            ec_live_clients_unlock();
        }
        ec_held_slots[i] = (struct ec_held_slot) { 0 };
    }
}
