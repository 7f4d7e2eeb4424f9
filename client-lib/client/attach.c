/* attach.c - say who this is, exchange segments with the daemon; see attach.h. */
#include "client/attach.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/known_links.h"
#include "client/soft_references.h"
#include "foundation/futex.h"
#include "foundation/json/json_writer.h"
#include "foundation/real_time.h"
#include "segment/references.h"

#define PARAMS_BYTES 640 /* hello and attach, with a name that is escaped throughout */

enum { CLOCK, DIRECTORY, HEAP, KNOWN_SEGMENTS };

static int map_segments(struct ec_client *client, struct ec_call *call, struct ec_error *why);
static int check_clock_offset(struct ec_json_span value, struct ec_error *why);
static int end_params(struct ec_json_writer *params, char *text, struct ec_error *why);

int ec_client_hello(struct ec_client *client, bool *resume, struct ec_error *why)
{
    enum { PROTOCOL, INSTANCE, CLIENT_ID, RESUMED, USER, MEMBERS };
    static const char *const names[MEMBERS] = { "protocol", "instance", "client_id", "resumed",
                                                "uid" };
    struct ec_json_span values[MEMBERS];
    struct ec_json_fields fields = { .names = names, .values = values, .count = MEMBERS };
    struct ec_json_writer params;
    char text[PARAMS_BYTES];
    struct ec_call call = { .method = "core.hello", .params = text };
    int64_t protocol = 0;
    uint64_t id = 0, instance = 0, user = 0;
    int rc;

    ec_json_writer_init(&params, text, sizeof text - 1);
    ec_json_object_begin(&params);
    ec_json_member_string(&params, "name", client->name);
    ec_json_member_i64(&params, "protocol", EC_PROTOCOL);
    ec_json_member_i64(&params, "pid", getpid());
    if (resume != NULL) {
        ec_json_member_object(&params, "resume");
        ec_json_member_hex64(&params, "instance", client->instance);
        ec_json_member_u64(&params, "client_id", client->id);
        ec_json_object_end(&params);
    }
    ec_json_object_end(&params);
    rc = end_params(&params, text, why);
    if (rc == EC_OK)
        rc = ec_connection_call(client->connection, &call, why);
    if (rc < 0)
        goto out;
    if (ec_json_bind(call.result, &fields) < 0 ||
        ec_json_get_i64(values[PROTOCOL], &protocol) < 0 ||
        ec_json_get_hex64(values[INSTANCE], &instance) < 0 ||
        ec_json_get_u64(values[CLIENT_ID], &id) < 0 || id == 0 || id > UINT32_MAX)
        rc = ec_fail(why, EC_ERR_VERSION, "core.hello: the answer is not that of a daemon");
    else if (protocol != EC_PROTOCOL)
        rc = ec_fail(why, EC_ERR_VERSION,
                     "core.hello: the daemon speaks protocol %lld, this library %d",
                     (long long)protocol, EC_PROTOCOL);
    if (rc == EC_OK) {
        client->id = (uint32_t)id;
        client->instance = instance;
        /* The kernel would tell who made the socket, which may have been the service manager. One of
         * another user takes a doorbell of sockets; that is right for all. */
        client->foreign_daemon = ec_json_get_u64(values[USER], &user) < 0 || user != geteuid();
        if (resume != NULL && ec_json_get_boolean(values[RESUMED], resume) < 0)
            *resume = false;
    }

out:
    ec_call_finish(&call);
    return rc;
}

int ec_client_attach(struct ec_client *client, struct ec_error *why)
{
    const int fds[] = { client->own.fd, client->cursors.fd, client->doorbell.ring_fd };
    struct ec_json_writer params;
    char text[PARAMS_BYTES];
    struct ec_call call = { .method = "client.attach", .params = text, .fds = fds, .fd_count = 3 };
    int rc;

    ec_json_writer_init(&params, text, sizeof text - 1);
    ec_json_object_begin(&params);
    ec_json_member_i64(&params, "real_ns", ec_real_ns());
    ec_json_member_array(&params, "fds");
    ec_json_string(&params, "client");
    ec_json_string(&params, "cursor");
    ec_json_string(&params, "doorbell");
    ec_json_array_end(&params);
    ec_json_object_end(&params);
    rc = end_params(&params, text, why);
    if (rc == EC_OK)
        rc = ec_connection_call(client->connection, &call, why);
    if (rc == EC_OK) {
        rc = map_segments(client, &call, why);
        if (rc < 0)
            ec_error_prefix(why, rc, "client.attach");
    }
    ec_call_finish(&call);
    return rc;
}

/* What a daemon hands out. A name that this library does not know is passed over: a newer daemon may
 * have more. */
struct known_segment {
    const char *name;
    struct ec_segment_map *map;
    uint32_t kind;
    uint64_t bytes_min, bytes_max;
    int fd; /* the reply's; -1: it did not come */
};

static int note_segment(struct known_segment known[KNOWN_SEGMENTS], struct ec_json_span row, int fd,
                        struct ec_error *why)
{
    static const char *const names[] = { "name" };
    struct ec_json_span name;
    struct ec_json_fields fields = { .names = names, .values = &name, .count = 1 };

    (void)ec_json_bind(row, &fields);
    for (size_t i = 0; i < KNOWN_SEGMENTS; i++) {
        if (!ec_json_string_equals(name, known[i].name))
            continue;
        if (known[i].fd >= 0)
            return ec_fail(why, EC_ERR_LAYOUT, "segment %s came twice", known[i].name);
        known[i].fd = fd;
    }
    return EC_OK;
}

static int check_instance(const struct ec_client *client, const struct ec_segment_map *map,
                          struct ec_error *why)
{
    const uint64_t instance = client->instance;

    return map->header.instance == instance
               ? EC_OK
               : ec_fail(why, EC_ERR_LAYOUT, "instance is 0x%llx, expected 0x%llx",
                         (unsigned long long)map->header.instance, (unsigned long long)instance);
}

/* The first time: wherever there is room. */
static int map_first(struct ec_client *client, const struct known_segment *known,
                     struct ec_error *why)
{
    int rc = ec_segment_map_init(known->map, known->fd, known->kind, known->bytes_min,
                                 known->bytes_max, why);

    if (rc == EC_OK)
        rc = check_instance(client, known->map, why);
    return rc == EC_OK ? EC_OK : ec_error_prefix(why, rc, "segment %s", known->name);
}

/* ---- the segments of another daemon ---- */

/* The clock page takes the place of the one before. Who sleeps on a word of that one is woken: a second
 * mapping still reaches it after the first has gone. */
static int replace_clock(struct ec_client *client, const struct known_segment *known,
                         struct ec_error *why)
{
    const size_t bytes = client->clock.bytes;
    void *before = mremap((void *)(uintptr_t)client->clock.base, 0, bytes, MREMAP_MAYMOVE);
    int rc = ec_segment_map_replace(known->map, known->fd, known->kind, known->bytes_max, why);

    if (before == MAP_FAILED)
        return rc; /* they look at the page again by themselves when a step is overdue */
    for (unsigned i = 0; i < EC_STEP_CLOCKS_MAX; i++)
        ec_futex_wake_all(&((struct ec_clock_page *)before)->step[i].change);
    munmap(before, bytes);
    return rc;
}

struct ec_old_heap {
    struct ec_old_heap *next;
    struct ec_segment_map map;
};

/* Does any thread of this process hold a resource, of whichever heap? */
static bool holds_anything(struct ec_client *client)
{
    const struct ec_reference_rows *rows = &ec_client_own(client)->hard;
    const uint32_t threads =
        atomic_load_explicit(&ec_client_own(client)->threads_high, memory_order_acquire);

    for (uint32_t i = 0; i < EC_RESOURCES_MAX; i++) {
        int64_t sum = 0;

        for (uint32_t thread = 0; thread < EC_THREADS_MAX; thread++)
            if (thread < threads || thread == EC_THREADS_MAX - 1)
                sum += atomic_load_explicit(&rows->count[thread][i], memory_order_acquire);
        if (sum != 0)
            return true;
    }
    return false;
}

static void free_old_heaps(struct ec_client *client)
{
    while (client->old_heaps != NULL) {
        struct ec_old_heap *next = client->old_heaps->next;

        ec_segment_map_finish(&client->old_heaps->map);
        free(client->old_heaps);
        client->old_heaps = next;
    }
}

/* Another directory and another heap. What is held keeps its bytes, so the heap before stays mapped
 * for as long as anything is held. Threads may acquire at this moment:
 *
 *   1  an empty page takes the place of the directory: nothing can be acquired any more
 *   2  the new heap
 *   3  the new directory
 *
 * Who found a generation in the old directory both before and after it read the heap's base has not
 * seen 1, so it has not seen 2 either. Who finds one in the new directory has seen 3, and so 2. The
 * system calls between order the mappings for all processors. */
static int replace_assets(struct ec_client *client, const struct known_segment *directory,
                          const struct known_segment *heap, struct ec_error *why)
{
    struct ec_old_heap *old = calloc(1, sizeof *old);
    struct ec_segment_map fresh = { 0 };
    int rc;

    if (old == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory for a mapping");
    rc = ec_segment_map_init(&fresh, heap->fd, heap->kind, heap->bytes_min, heap->bytes_max, why);
    if (rc < 0) {
        free(old);
        return ec_error_prefix(why, rc, "segment heap");
    }
    rc = ec_segment_map_over(client->directory.base, client->directory.bytes, -1);
    if (rc != 0) {
        ec_segment_map_finish(&fresh);
        free(old);
        return ec_fail(why, EC_ERR_SYSTEM, "empty the directory: %s", strerror(rc));
    }
    old->map = client->heap;
    old->next = client->old_heaps;
    client->old_heaps = old;
    client->heap.header = fresh.header;
    client->heap.mapped_bytes = fresh.mapped_bytes;
    __atomic_store_n(&client->heap.bytes, fresh.bytes, __ATOMIC_RELAXED);
    /* release: partner is the acquire in ec_client_heap. */
    __atomic_store_n(&client->heap.base, fresh.base, __ATOMIC_RELEASE);
    client->heap_segment = ec_known_link_segment(heap->fd);
    /* Decided again: this daemon may order references otherwise. */
    atomic_store_explicit(&client->reference_order, EC_REFERENCE_UNDECIDED, memory_order_relaxed);
    atomic_store_explicit(&client->fenced_serial, EC_CLIENT_NO_SERIAL, memory_order_relaxed);
    rc = ec_segment_map_replace(directory->map, directory->fd, directory->kind,
                                directory->bytes_max, why);
    if (!holds_anything(client))
        free_old_heaps(client);
    return rc < 0 ? ec_error_prefix(why, rc, "segment directory") : EC_OK;
}

/* A daemon that kept its segments hands out the same files: then mapping them in their own place
 * changes nothing for anybody, and the heap stays as it is. */
static int replace_all(struct ec_client *client, struct known_segment known[KNOWN_SEGMENTS],
                       struct ec_error *why)
{
    const struct known_segment *directory = &known[DIRECTORY], *heap = &known[HEAP];
    int rc = replace_clock(client, &known[CLOCK], why);

    if (rc == EC_OK && ec_known_link_segment(heap->fd) == client->heap_segment)
        rc = ec_segment_map_replace(directory->map, directory->fd, directory->kind,
                                    directory->bytes_max, why);
    else if (rc == EC_OK) {
        ec_client_soft_lift(client);
        rc = replace_assets(client, directory, heap, why);
        ec_client_soft_put_down(client);
    }
    if (rc == EC_OK)
        rc = check_instance(client, directory->map, why);
    return rc == EC_OK ? check_instance(client, &client->clock, why) : rc;
}

void ec_client_heaps_finish(struct ec_client *client)
{
    free_old_heaps(client);
    ec_segment_map_finish(&client->heap);
}

/* A shifted clock would make every step late or early by the same amount, without a word. */
static int check_clock_offset(struct ec_json_span value, struct ec_error *why)
{
    int64_t offset_ns = 0;

    if (ec_json_get_i64(value, &offset_ns) == EC_OK && offset_ns == 0)
        return EC_OK;
    return ec_fail(
        why, EC_ERR_STATE,
        "the clock of this process differs by %lld ns from the daemon's (time namespace)",
        (long long)offset_ns);
}

static int map_segments(struct ec_client *client, struct ec_call *call, struct ec_error *why)
{
    enum { SEGMENTS, CLOCK_OFFSET, MEMBERS };
    static const char *const names[MEMBERS] = { "segments", "clock_offset_ns" };
    struct known_segment known[KNOWN_SEGMENTS] = {
        [CLOCK] = { "clock", &client->clock, EC_SEGMENT_CLOCK, sizeof(struct ec_clock_page),
                    1 << 20, -1 },
        [DIRECTORY] = { "directory", &client->directory, EC_SEGMENT_DIRECTORY,
                        sizeof(struct ec_directory), 1 << 30, -1 },
        /* mapped whole, but only address space: pages come with the assets */
        [HEAP] = { "heap", &client->heap, EC_SEGMENT_HEAP, EC_SEGMENT_HEADER_BYTES,
                   EC_SEGMENT_BYTES_MAX, -1 },
    };
    struct ec_json_span values[MEMBERS], row;
    struct ec_json_fields fields = { .names = names, .values = values, .count = MEMBERS };
    struct ec_json_iterator rows;
    unsigned count = 0;
    int rc = EC_OK;

    (void)ec_json_bind(call->result, &fields); /* else there are no rows, which is noticed below */
    rows = ec_json_iterate(values[SEGMENTS]);
    while (rc == EC_OK && ec_json_next_element(&rows, &row)) {
        if (count == call->reply_fd_count)
            return ec_fail(why, EC_ERR_LAYOUT, "%u descriptors for more segments", count);
        rc = note_segment(known, row, call->reply_fds[count++], why);
    }
    if (rc == EC_OK && count != call->reply_fd_count)
        rc = ec_fail(why, EC_ERR_LAYOUT, "%u descriptors for %u segments", call->reply_fd_count,
                     count);
    for (unsigned i = 0; i < KNOWN_SEGMENTS && rc == EC_OK; i++)
        if (known[i].fd < 0)
            rc = ec_fail(why, EC_ERR_LAYOUT, "the daemon sent no segment %s", known[i].name);
    if (rc == EC_OK)
        rc = check_clock_offset(values[CLOCK_OFFSET], why);
    if (rc == EC_OK && client->clock.base != NULL)
        return replace_all(client, known, why);
    for (unsigned i = 0; i < KNOWN_SEGMENTS && rc == EC_OK; i++)
        rc = map_first(client, &known[i], why);
    client->heap_segment = ec_known_link_segment(known[HEAP].fd);
    return rc;
}

static int end_params(struct ec_json_writer *params, char *text, struct ec_error *why)
{
    int rc = ec_json_writer_status(params);

    if (rc < 0)
        return ec_fail(why, rc, "params: %s", ec_error_text(rc));
    text[params->bytes] = '\0';
    return EC_OK;
}
