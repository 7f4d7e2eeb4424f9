/* The list and the fork handlers. The list's mutex is held across a fork, so that the child finds it
 * whole. */
#include "client/live_clients.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct ec_client *first;
static uint64_t last_serial;
static int fork_handlers_rc; /* of pthread_atfork */

static void register_fork_handlers(void);
static void before_fork(void);
static void after_fork_in_parent(void);
static void after_fork_in_child(void);
static void abandon(struct ec_client *client);
static void abandon_segment(struct ec_segment *segment);

int ec_live_clients_add(struct ec_client *client, struct ec_error *why)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, register_fork_handlers);
    if (fork_handlers_rc != 0)
        return ec_fail(why, EC_ERR_MEMORY, "no memory for a fork handler");
    pthread_mutex_lock(&mutex);
    client->serial = ++last_serial;
    atomic_store_explicit(&client->fenced_serial, EC_CLIENT_NO_SERIAL, memory_order_relaxed);
    client->next_live = first;
    first = client;
    pthread_mutex_unlock(&mutex);
    return EC_OK;
}

void ec_live_clients_remove(struct ec_client *client)
{
    pthread_mutex_lock(&mutex);
    for (struct ec_client **link = &first; *link != NULL; link = &(*link)->next_live) {
        if (*link == client) {
            *link = client->next_live;
            break;
        }
    }
    pthread_mutex_unlock(&mutex);
}

struct ec_client *ec_live_clients_lock(uint64_t serial)
{
    struct ec_client *client;

    pthread_mutex_lock(&mutex);
    for (client = first; client != NULL && client->serial != serial; client = client->next_live)
        ;
    if (client == NULL)
        pthread_mutex_unlock(&mutex);
    return client;
}

void ec_live_clients_unlock(void)
{
    pthread_mutex_unlock(&mutex);
}

static void register_fork_handlers(void)
{
    fork_handlers_rc = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

static void before_fork(void)
{
    pthread_mutex_lock(&mutex);
}

static void after_fork_in_parent(void)
{
    pthread_mutex_unlock(&mutex);
}

static void after_fork_in_child(void)
{
    for (struct ec_client *client = first; client != NULL; client = client->next_live)
        abandon(client);
    pthread_mutex_unlock(&mutex);
}

/* Only what is allowed between fork and exec: no lock, no allocation. */
static void abandon(struct ec_client *client)
{
    if (client->connection != NULL && !ec_connection_has_descriptors(client->connection)) {
        client->doorbell = (struct ec_doorbell) { -1, -1 };
        client->cursors.fd = -1;
        if (!client->own_is_lent)
            client->own.fd = -1;
    }
    if (client->connection != NULL)
        ec_connection_abandon(client->connection);
    ec_doorbell_finish(&client->doorbell);
    if (!client->own_is_lent) /* whoever lends it has its own way with it */
        abandon_segment(&client->own);
    abandon_segment(&client->cursors);
}

static void abandon_segment(struct ec_segment *segment)
{
    if (segment->base == NULL)
        return;
    close(segment->fd);
    segment->fd = -1;
    /* When this fails the pages stay absent: then counting in the child is a fault, as in any memory
     * that was left out by fork, and nothing of the parent's is touched. */
    (void)mmap(segment->base, segment->mapped_bytes, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
}
