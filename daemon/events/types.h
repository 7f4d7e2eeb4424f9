/* types.h - the registered event types: names, layouts, and what is known of each.
 *
 * A layout is laid out by the rules of C for the fields in their order: each field aligned to its
 * scalar, the whole padded to its widest one.
 *
 * Thread: loop. */
#ifndef ENGINE_CORED_EVENT_TYPES_H
#define ENGINE_CORED_EVENT_TYPES_H

#include <stdbool.h>
#include <stdint.h>
#include <uthash.h>

#include "foundation/error.h"
#include "foundation/json/json_scan.h"
#include "foundation/json/json_writer.h"
#include "proto/event_port.h"
#include "proto/tables.h"
#include "segment/histogram.h"

#define EVENT_TYPES_MAX 1024
#define EVENT_FIELDS_MAX 64
#define EVENT_NAME_BYTES 128
#define EVENT_FIELD_NAME_BYTES 64
#define EVENT_PAYLOAD_MAX (EC_PORT_RING_BYTES_MAX / 4 - 64) /* a quarter of the largest ring */

enum scalar {
    SCALAR_U8,
    SCALAR_I8,
    SCALAR_U16,
    SCALAR_I16,
    SCALAR_U32,
    SCALAR_I32,
    SCALAR_U64,
    SCALAR_I64,
    SCALAR_F32,
    SCALAR_F64,
    SCALAR_BOOL,
    SCALAR_CHAR,
    SCALARS
};

struct scalar_row {
    const char *name;
    uint32_t bytes;
    int64_t min; /* of an integer */
    uint64_t max;
};

extern const struct scalar_row scalars[SCALARS];

struct event_field {
    char name[EVENT_FIELD_NAME_BYTES];
    enum scalar scalar;
    uint32_t count; /* 1 or more */
    uint32_t offset;
};

struct event_type {
    uint64_t id;
    char name[EVENT_NAME_BYTES];
    char registered_by[64]; /* "client 3 (my game)" or "engine-cored" */
    uint32_t version;
    uint32_t size;  /* payload: exact when there are fields, else the most */
    bool lossy;     /* no reader may be reliable */
    bool is_system; /* of events.def */
    uint32_t field_count;
    struct event_field *fields;

    /* What came from ports and readers that are gone. */
    uint64_t published, bytes, refused, delivered;
    struct ec_histogram_sum latency;
    uint64_t json_lost; /* dropped from queues of JSON subscribers */

    /* Sampled once a second. */
    uint64_t sampled;
    double rate_hz;

    UT_hash_handle hh;
};

struct event_types {
    struct event_type *by_id;
};

struct event_type_desc {
    const char *name;
    const char *registered_by;
    uint32_t version;
    uint32_t max_size; /* without fields */
    bool lossy;
    struct event_field *fields; /* name, scalar and count; the offsets are filled in */
    uint32_t field_count;
};

/* Register, or find the same one again. data (may be NULL) gets {registered_by, field, expected, got}
 * for a conflict. With type and created NULL it is only looked whether it could be done.
 *
 * Returns EC_OK, EC_ERR_PARAM, EC_ERR_SIZE, EC_ERR_LIMIT, EC_ERR_MEMORY, or EC_ERR_TYPE_CONFLICT. */
int event_types_register(struct event_types *types, const struct event_type_desc *desc,
                         struct event_type **type, bool *created, struct ec_json_writer *data,
                         struct ec_error *why);
void event_types_finish(struct event_types *types);

struct event_type *event_types_find(const struct event_types *types, uint64_t id);
struct event_type *event_types_find_name(const struct event_types *types, const char *name);

bool event_scalar_parse(const char *name, enum scalar *scalar);

/* ---- payloads (payload.c) -------------------------------------------------------------------- */

/* Encode a JSON object by the layout into type->size bytes; what is left out is zero. Returns EC_OK
 * or EC_ERR_PARAM, naming the field and its range. Types without fields take {"hex": "0a0b…"} and set
 * *bytes. */
int event_payload_encode(const struct event_type *type, struct ec_json_span object, void *payload,
                         uint32_t *bytes, struct ec_error *why);

/* Decode a payload of bytes into one JSON object. The bytes are a stranger's. */
void event_payload_decode(const struct event_type *type, const void *payload, uint32_t bytes,
                          struct ec_json_writer *writer);

/* The fields with their offsets, as the member "fields" of an open object. */
void event_fields_write(const struct event_type *type, struct ec_json_writer *writer);

#endif
