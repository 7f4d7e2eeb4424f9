/* soft_references.c - see soft_references.h.
 *
 *   row    name, count, index in the directory or none      ec_resource_soft.place is row + 1
 *   place  of an index its row + 1                          found without a search
 *
 * All counts lie in the first thread's row of the client segment, whichever thread calls: they are changed with
 * the mutex held, and by nobody else. */
#include "client/soft_references.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <engine-core/resource.h>

#include "foundation/real_time.h"
#include "segment/directory.h"

#define ROW 0
#define LOOK_NS INT64_C(100000000) /* between two looks for names that are not defined */

struct soft_row {
    char name[EC_RESOURCE_NAME_BYTES];
    uint32_t index; /* EC_RESOURCE_NONE: no group defines it */
    uint32_t count; /* 0: free */
};

struct ec_soft_references {
    pthread_mutex_t mutex;
    struct soft_row *rows;
    uint32_t count, capacity;
    uint32_t free;              /* rows[0, count) that are */
    _Atomic uint32_t undefined; /* rows in use without an index */
    int64_t looked_ns;
    uint32_t place[EC_RESOURCES_MAX]; /* 0: none */
};

int ec_client_soft_create(struct ec_client *client, struct ec_error *why)
{
    client->soft = calloc(1, sizeof *client->soft);
    if (client->soft == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory for soft references");
    pthread_mutex_init(&client->soft->mutex, NULL);
    return EC_OK;
}

void ec_client_soft_destroy(struct ec_client *client)
{
    if (client->soft == NULL)
        return;
    pthread_mutex_destroy(&client->soft->mutex);
    free(client->soft->rows);
    free(client->soft);
    client->soft = NULL;
}

static void add(struct ec_client *client, uint32_t index, uint32_t delta)
{
    struct ec_client_segment *own = ec_client_own(client);

    atomic_fetch_add_explicit(&own->soft.count[ROW][index], (int32_t)delta, memory_order_relaxed);
    /* Release: who sees the change sees the count. Pairs with the acquire of the daemon's tick. */
    atomic_fetch_add_explicit(&own->soft_changes, 1, memory_order_release);
}

static void bind_row(struct ec_client *client, struct soft_row *row, uint32_t index)
{
    struct ec_soft_references *soft = client->soft;

    row->index = index;
    if (index == EC_RESOURCE_NONE) {
        atomic_fetch_add_explicit(&soft->undefined, 1, memory_order_relaxed);
        return;
    }
    soft->place[index] = (uint32_t)(row - soft->rows) + 1;
    add(client, index, row->count);
}

/* A row for a name that has none; NULL: no memory. */
static struct soft_row *make_row(struct ec_soft_references *soft)
{
    if (soft->free == 0 && soft->count == soft->capacity) {
        const uint32_t capacity = soft->capacity == 0 ? 64 : soft->capacity * 2;
        struct soft_row *grown = realloc(soft->rows, capacity * sizeof *grown);

        if (grown == NULL)
            return NULL;
        soft->rows = grown;
        soft->capacity = capacity;
    }
    if (soft->free == 0)
        return &soft->rows[soft->count++];
    for (uint32_t i = 0; i < soft->count; i++)
        if (soft->rows[i].count == 0) {
            soft->free--;
            return &soft->rows[i];
        }
    return NULL; /* cannot be: one is free */
}

int ec_resource_soft_acquire(struct ec_client *client, const char *name,
                             ec_resource_soft *reference)
{
    struct ec_soft_references *soft = client->soft;
    struct soft_row *row;
    uint32_t index;
    int rc = EC_OK;

    reference->place = 0;
    ec_client_thread_slot(client);    /* somebody has the first one then, so that it is looked at */
    pthread_mutex_lock(&soft->mutex); /* the directory stays what it is */
    index = ec_directory_find(ec_client_directory(client), name);
    if (index == EC_RESOURCE_NONE) {
        rc = EC_ERR_NOT_FOUND;
    } else if (soft->place[index] != 0 &&
               strcmp(soft->rows[soft->place[index] - 1].name, name) == 0) {
        row = &soft->rows[soft->place[index] - 1];
        row->count++;
        add(client, index, 1);
        reference->place = soft->place[index];
    } else if ((row = make_row(soft)) != NULL) {
        *row = (struct soft_row) { .count = 1 };
        strncpy(row->name, name, sizeof row->name - 1);
        bind_row(client, row, index);
        reference->place = (uint32_t)(row - soft->rows) + 1;
    } else {
        rc = EC_ERR_MEMORY;
    }
    pthread_mutex_unlock(&soft->mutex);
    return rc;
}

void ec_resource_soft_release(struct ec_client *client, ec_resource_soft reference)
{
    struct ec_soft_references *soft = client->soft;
    struct soft_row *row;

    pthread_mutex_lock(&soft->mutex);
    row = reference.place > 0 && reference.place <= soft->count ? &soft->rows[reference.place - 1]
                                                                : NULL;
    if (row != NULL && row->count > 0) { /* else it was none, or given back before */
        row->count--;
        soft->free += row->count == 0;
        if (row->index != EC_RESOURCE_NONE)
            add(client, row->index, (uint32_t)-1);
        if (row->count == 0 && row->index == EC_RESOURCE_NONE)
            atomic_fetch_sub_explicit(&soft->undefined, 1, memory_order_relaxed);
        if (row->count == 0 && row->index != EC_RESOURCE_NONE &&
            soft->place[row->index] == reference.place)
            soft->place[row->index] = 0;
    }
    pthread_mutex_unlock(&soft->mutex);
}

void ec_client_soft_lift(struct ec_client *client)
{
    struct ec_soft_references *soft = client->soft;

    if (soft == NULL)
        return;
    pthread_mutex_lock(&soft->mutex);
    for (uint32_t i = 0; i < soft->count; i++)
        if (soft->rows[i].count > 0 && soft->rows[i].index != EC_RESOURCE_NONE) {
            add(client, soft->rows[i].index, -soft->rows[i].count);
            soft->place[soft->rows[i].index] = 0;
        }
}

void ec_client_soft_put_down(struct ec_client *client)
{
    struct ec_soft_references *soft = client->soft;

    if (soft == NULL)
        return;
    atomic_store_explicit(&soft->undefined, 0, memory_order_relaxed);
    for (uint32_t i = 0; i < soft->count; i++)
        if (soft->rows[i].count > 0)
            bind_row(client, &soft->rows[i],
                     ec_directory_find(ec_client_directory(client), soft->rows[i].name));
    pthread_mutex_unlock(&soft->mutex);
}

void ec_client_soft_look(struct ec_client *client)
{
    struct ec_soft_references *soft = client->soft;
    int64_t now_ns;

    if (soft == NULL || atomic_load_explicit(&soft->undefined, memory_order_relaxed) == 0)
        return; /* a client of a test may be half built */
    now_ns = ec_real_ns();
    pthread_mutex_lock(&soft->mutex);
    for (uint32_t i = 0; i < soft->count && now_ns - soft->looked_ns >= LOOK_NS; i++) {
        struct soft_row *row = &soft->rows[i];
        uint32_t index;

        if (row->count == 0 || row->index != EC_RESOURCE_NONE)
            continue;
        index = ec_directory_find(ec_client_directory(client), row->name);
        if (index == EC_RESOURCE_NONE)
            continue;
        atomic_fetch_sub_explicit(&soft->undefined, 1, memory_order_relaxed);
        bind_row(client, row, index);
    }
    if (now_ns - soft->looked_ns >= LOOK_NS)
        soft->looked_ns = now_ns;
    pthread_mutex_unlock(&soft->mutex);
}
