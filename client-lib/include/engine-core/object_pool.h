/* engine-core/object_pool.h - objects that are made and unmade by functions, and named by handles.
 *
 *     static const struct ec_object_type types[] = {
 *         { .name = "door", .bytes = sizeof(struct door), .construct = door_open, .destruct = door_close },
 *         { .name = "lamp", .bytes = sizeof(struct lamp) },
 *     };
 *
 *     ec_object_pool_create(&(struct ec_object_pool_desc){ .client = client, .name = "things",
 *                                                          .types = types, .type_count = 2 },
 *                           &things, &why);
 *     ec_object_create(things, 0, &where, &handle);
 *     struct door *door = ec_object_get(things, handle); // NULL once it is gone
 *     ec_object_destroy_later(things, handle);           // at the end of the frame
 *
 * A handle is an index and a generation; 0 is none. Each life of a place has its own generation, and a place
 * whose generations are used up is never used again, so a stale handle is found out for ever.
 *
 * Owner: an object belongs to the thread that made it, and only that thread may destroy it at once. It can be
 * handed off: afterwards it is nobody's, until a thread takes it. What a thread still owns at its end is
 * nobody's, too. (Beyond 1,023 threads at a time a thread owns nothing; it can put off.) Put off until the end of
 * the frame it may be by any thread.
 *
 * Frame end: ec_frame_end of the client, or ec_object_pool_flush, runs the destructors of what was put off, in
 * the order in which it was, on that thread. Destructors may put off further objects, which are destroyed in
 * the same go, up to 16 times over; the rest waits for the next. They must not make or destroy object
 * pools and frame arenas of the client.
 *
 * When it is full: EC_ERR_LIMIT at objects_max, EC_ERR_MEMORY when the system has none; each counted in
 * `failed`.
 *
 * Alignment: each type's own, up to 64 KiB; default 16.
 * Thread:    any; create and destroy of the pool while nobody else uses it. Whether a pointer from
 *            ec_object_get is still good while another thread destroys the object is the program's affair.
 * Ownership: destroy of the pool destroys all objects, destructors included, in no order; for the destructors
 *            of the others an object that has ended is stale.
 * Cost:      making one is a block of a pool (<engine-core/pool.h>, with its magazine per thread) and a
 *            compare-and-swap for the place; getting one is two loads and a compare. */
#ifndef ENGINE_CORE_OBJECT_POOL_H
#define ENGINE_CORE_OBJECT_POOL_H

#include <engine-core/memory.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ec_object_pool; /* opaque */

typedef struct ec_object_handle {
    uint32_t index;
    uint32_t generation; /* 0: no object */
} ec_object_handle;

struct ec_object_type {
    const char *name; /* shown to operators, 1..31 bytes */
    size_t bytes;     /* 1..65,536 */
    size_t align;     /* power of two, 16..65,536; 0: 16 */

    /* Make the object in memory that is not cleared; NULL: it is zeroed. A negative answer means that there is
     * no object, and is handed on. */
    int (*construct)(void *object, const void *arguments, void *context);
    void (*destruct)(void *object, void *context); /* NULL: nothing to do */
    void *context;
};

/* Zero means the default; name and types are required. */
struct ec_object_pool_desc {
    struct ec_client
        *client;      /* whose frames it follows, and where it is published; NULL: nowhere */
    const char *name; /* shown to operators with the type, as "name/type", cut at 31 bytes */
    uint32_t tag;     /* what the memory is for; default EC_TAG_GENERAL */
    const struct ec_object_type *types; /* copied; names too */
    uint32_t type_count;                /* 1..64 */
    uint32_t objects_max;               /* of all types, 1..16,777,216; default 65,536 */
    bool in_segment; /* objects lie in the client segment, see ec_client_desc.segment_bytes */
};

/* Returns EC_OK, EC_ERR_PARAM (name, tag, types, align), EC_ERR_SIZE (bytes), EC_ERR_LIMIT (objects_max, or
 *         4,096 pools in the process), EC_ERR_STATE (in_segment without room), EC_ERR_MEMORY. */
EC_API int ec_object_pool_create(const struct ec_object_pool_desc *desc,
                                 struct ec_object_pool **pool, struct ec_error *why);
EC_API void ec_object_pool_destroy(struct ec_object_pool *pool); /* accepts NULL */

/* type is an index of the table. The calling thread owns the object.
 *
 * Returns EC_OK, EC_ERR_PARAM (no such type), EC_ERR_LIMIT, EC_ERR_MEMORY, or what construct answered; then
 *         *handle is { 0, 0 }. */
EC_API int ec_object_create(struct ec_object_pool *pool, uint32_t type, const void *arguments,
                            ec_object_handle *handle);

/* NULL: there is no such object any more. */
EC_API void *ec_object_get(const struct ec_object_pool *pool, ec_object_handle handle);

/* Its type, or EC_ERR_STALE. */
EC_API int ec_object_type_of(const struct ec_object_pool *pool, ec_object_handle handle);

/* Run the destructor and free the object, now.
 *
 * Returns EC_OK, EC_ERR_STALE, EC_ERR_PERMISSION (it is not this thread's), EC_ERR_STATE (it was put off until
 *         the end of the frame). */
EC_API int ec_object_destroy(struct ec_object_pool *pool, ec_object_handle handle);

/* The same at the end of the frame; until then the object is there. Any thread may do it, and again.
 *
 * Returns EC_OK or EC_ERR_STALE. */
EC_API int ec_object_destroy_later(struct ec_object_pool *pool, ec_object_handle handle);

/* Give the object to whoever takes it. Returns EC_OK, EC_ERR_STALE, EC_ERR_PERMISSION (it is not this
 * thread's). */
EC_API int ec_object_hand_off(struct ec_object_pool *pool, ec_object_handle handle);

/* Become the owner of an object that is nobody's. Of several threads one gets it. Release and acquire: what its
 * last owner wrote before handing it off is seen.
 *
 * Returns EC_OK (also when it is this thread's already), EC_ERR_STALE, EC_ERR_PERMISSION (another's). */
EC_API int ec_object_take(struct ec_object_pool *pool, ec_object_handle handle);

/* Destroy what was put off; returns how many objects. One thread at a time. */
EC_API uint64_t ec_object_pool_flush(struct ec_object_pool *pool);

/* Call visit for each object of a type, or of all types with UINT32_MAX, in no order, until it answers
 * otherwise than 0; returns that answer. Nobody else may destroy objects meanwhile; visit may put off. */
EC_API int ec_object_pool_visit(struct ec_object_pool *pool, uint32_t type,
                                int (*visit)(void *context, ec_object_handle handle, void *object),
                                void *context);

struct ec_object_counts {
    uint64_t live;    /* put off ones included */
    uint64_t put_off; /* until the end of the frame */
    uint64_t retired; /* places whose generations are used up */
    uint64_t places;  /* that were ever used */
};
EC_API void ec_object_pool_counts(const struct ec_object_pool *pool,
                                  struct ec_object_counts *counts);

/* The memory of all types. */
EC_API void ec_object_pool_stats(const struct ec_object_pool *pool, struct ec_memory_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
