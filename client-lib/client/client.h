/* client.h - what the parts of the library share: the connection and the mapped segments.
 *
 * Everything here is set when ec_client_create returns and stays until ec_client_destroy, except what
 * another daemon may change; that is atomic. */
#ifndef EC_CLIENT_CLIENT_H
#define EC_CLIENT_CLIENT_H

#include <pthread.h>

#include <engine-core/client.h>
#include <engine-core/time_source.h>

#include "client/breaker.h"
#include "client/connection.h"
#include "foundation/doorbell.h"
#include "foundation/real_time.h"
#include "proto/client_segment.h"
#include "proto/clock_page.h"
#include "proto/cursor_segment.h"
#include "proto/directory.h"
#include "segment/segment.h"
#include "segment/thread_rows.h"

struct ec_old_heap;
struct ec_kept_calls;  /* client/kept_calls.c: what the next daemon is asked again */
struct ec_event_peers; /* client/event_peers.c: ports and readers of this client */
struct ec_tracker;     /* client/tracking.c: which sites allocate */
struct ec_memory_sink; /* client/memory.c: where this client's allocators count */

#define EC_CLIENT_NO_SERIAL UINT64_MAX

struct ec_client {
    /* serial while reference_order is EC_REFERENCE_MEMBARRIER, else EC_CLIENT_NO_SERIAL. It stands
     * first for resource_inline.h, which programs have compiled in. */
    _Atomic uint64_t fenced_serial;
    _Atomic uint32_t id;       /* another one when the daemon could not know who it was */
    _Atomic uint64_t instance; /* of the daemon */
    char name[48];
    uint64_t serial; /* of this client in this process, from 1; never used again */
    struct ec_connection *connection;

    struct ec_segment own;     /* the client segment */
    bool own_is_lent;          /* it was there before the client and stays after it */
    struct ec_segment cursors; /* the cursor segment */
    struct ec_doorbell doorbell;
    bool foreign_daemon; /* it runs under another user */

    struct ec_segment_map clock;
    const struct ec_time_source *time; /* NULL: real time */
    /* client/clock.c: a step of the page's first clock that a thread was told of before its
     * announcement; 0: none. */
    _Atomic uint64_t first_taken;
    struct ec_segment_map directory;
    struct ec_segment_map heap; /* through ec_client_heap(): another daemon may bring another one */
    uint64_t heap_segment;      /* its inode */
    struct ec_old_heap *old_heaps;    /* attach.c's own: whose bytes somebody may still hold */
    _Atomic uint32_t reference_order; /* client/resource.c: enum ec_reference_order; 0 at first */

    struct ec_client_breaker breaker;
    struct ec_client_gpu *gpu; /* client/gpu.c: what the daemon asks to give back */
    struct ec_event_peers *event_peers;
    struct ec_kept_calls *kept;
    struct ec_soft_references *soft;
    struct ec_memory_sink *memory;
    pthread_mutex_t observing_lock;       /* around what says how closely it looks at its memory */
    _Atomic(struct ec_tracker *) tracker; /* NULL until tracking was started; then whole */
    int64_t pools_aged_ns;             /* client/memory.c: when empty groups were looked for last */
    struct ec_client_private *private; /* client.c's own */
    struct ec_client *next_live;       /* live_clients.c's own */

    int64_t fps_since_ns; /* client/frame.c: the second in which frames are counted */
    uint64_t fps_since_frame;
};

/* ec_client_create with a client segment that is there already, counts included, and that stays the
 * caller's. Such a client makes no allocators. own NULL: as ec_client_create. */
int ec_client_create_lent(const struct ec_client_desc *desc, const struct ec_segment *own,
                          struct ec_client **client, struct ec_error *why);

static inline struct ec_client_segment *ec_client_own(struct ec_client *client)
{
    return client->own.base;
}

static inline struct ec_cursor_segment *ec_client_cursors(struct ec_client *client)
{
    return client->cursors.base;
}

static inline const struct ec_clock_page *ec_client_clock(const struct ec_client *client)
{
    return client->clock.base;
}

static inline const struct ec_directory *ec_client_directory(const struct ec_client *client)
{
    return client->directory.base;
}

/* Base and size of the heap. They belong to the directory only while the generation of what was looked
 * up in it is the same before and after: see ec_client_attach. */
static inline const unsigned char *ec_client_heap(const struct ec_client *client, uint64_t *bytes)
{
    /* acquire: partner is the release in attach.c. */
    const unsigned char *base = __atomic_load_n(&client->heap.base, __ATOMIC_ACQUIRE);

    *bytes = __atomic_load_n(&client->heap.bytes, __ATOMIC_RELAXED);
    return base;
}

/* What time it is for this client: its time source's, or real time. */
static inline int64_t ec_client_now_ns(const struct ec_client *client)
{
    if (__builtin_expect(client->time != NULL, false))
        return client->time->now_ns(client->time->context);
    return ec_real_ns();
}

/* client/event_peers.c: called by ec_client_create before the connection starts, and by destroy. It
 * registers the notification handlers event.port.added|removed and event.reader.added|removed. */
int ec_event_peers_create(struct ec_client *client, struct ec_error *why);
void ec_event_peers_destroy(struct ec_client *client);

/* client/gpu.c: called by ec_client_create before the connection starts, and by destroy behind its end. */
int ec_client_gpu_create(struct ec_client *client, struct ec_error *why);
void ec_client_gpu_destroy(struct ec_client *client); /* accepts one without */

/* client/memory.c: called by ec_client_create once the client segment is made and before it is handed
 * up, so that the daemon finds the names of the tags, and by destroy before the segment goes. */
int ec_client_memory_create(struct ec_client *client, struct ec_error *why);
void ec_client_memory_destroy(struct ec_client *client); /* accepts one without */

/* client/tracking.c: called by ec_client_create, at frame marks, and before the memory goes. What begins is what
 * the environment says, else what the tier does by itself. */
void ec_client_tracking_begin(struct ec_client *client);
void ec_client_tracking_look(struct ec_client *client);
void ec_client_tracking_finish(struct ec_client *client);

/* client/observation.c: called by ec_client_create once there is memory, before the connection starts. */
int ec_client_observation_create(struct ec_client *client, struct ec_error *why);

/* client/memory.c: called by the thread itself before its slot may go to another one. */
void ec_client_memory_thread_ends(struct ec_client *client);

/* client/memory.c: called by the frame marks. */
void ec_client_memory_frame_begins(struct ec_client *client);
void ec_client_memory_frame_ends(struct ec_client *client);

/* The thread slot of the calling thread in the client segment, claimed at first use and left at the
 * thread's end, counts included, to the next one. What lies in slots [0, EC_THREAD_SLOT_SHARED) has
 * this thread as its only writer. EC_THREAD_SLOT_SHARED belongs to all threads that found no free
 * slot: add to its counts atomically.
 *
 * Cost: a compare once the thread has its slot. */
uint32_t ec_client_thread_slot(struct ec_client *client);

/* The same, and from now on what is plain takes the short way on this thread (resource_inline.h), if this
 * is the first client that it came to know and the slot is its own. The client is attached. */
uint32_t ec_client_thread_slot_plain(struct ec_client *client);

#endif
