/* engine-core/event.h - event types, and events as a subscriber sees them.
 *
 * A type has a name, a 64-bit id (FNV-1a of the name) and a layout: either its fields or a largest
 * size. Every process that publishes or reads a type registers it; the daemon refuses a second
 * layout under the same name and says which field differs.
 *
 *     struct shot { uint32_t shooter; float x, y; };
 *
 *     static const struct ec_event_field shot_fields[] = {
 *         EC_EVENT_FIELD(struct shot, shooter, EC_FIELD_U32),
 *         EC_EVENT_FIELD(struct shot, x, EC_FIELD_F32),
 *         EC_EVENT_FIELD(struct shot, y, EC_FIELD_F32),
 *     };
 *     ec_event_type_register(client, &(struct ec_event_type_desc){
 *         .name = "game.shot", .fields = shot_fields, .field_count = 3, .bytes = sizeof(struct shot) },
 *         &type, &why);
 *
 * Thread: any. Cost: registering is a round trip to the daemon; an id costs nothing at run time. */
#ifndef ENGINE_CORE_EVENT_H
#define ENGINE_CORE_EVENT_H

#include <stddef.h>
#include <stdint.h>

#include <engine-core/client.h>

#ifdef __cplusplus
extern "C" {
#endif

#define EC_EVENT_FIELDS_MAX 64

enum ec_field_type {
    EC_FIELD_U8 = 1,
    EC_FIELD_I8,
    EC_FIELD_U16,
    EC_FIELD_I16,
    EC_FIELD_U32,
    EC_FIELD_I32,
    EC_FIELD_U64,
    EC_FIELD_I64,
    EC_FIELD_F32,
    EC_FIELD_F64,
    EC_FIELD_BOOL, /* one byte, 0 or 1 */
    EC_FIELD_CHAR, /* with a count: text, padded with NUL */
};

struct ec_event_field {
    const char *name;
    enum ec_field_type type;
    uint32_t count; /* 0 and 1: a single value */
    uint32_t offset;
    uint32_t bytes; /* of the whole member; checked against type and count */
};

/* A field of a C struct, single or array. */
#define EC_EVENT_FIELD(structure, member, field_type)                                              \
    {                                                                                              \
#member, field_type, 0, (uint32_t)offsetof(structure, member),                             \
            (uint32_t)sizeof(((structure *)0)->member)                                             \
    }

enum ec_event_policy {
    EC_EVENT_RELIABLE = 0, /* the publisher waits for its slowest reliable reader */
    EC_EVENT_LOSSY = 1,    /* the publisher never waits; readers are told what they lost */
};

/* Zero means the default; name is required, and fields or max_bytes. */
struct ec_event_type_desc {
    const char *name; /* 1..127 bytes, such as game.shot */
    uint32_t version; /* default 1 */
    const struct ec_event_field *fields;
    uint32_t field_count; /* 0..EC_EVENT_FIELDS_MAX */
    uint32_t bytes;       /* with fields: sizeof the struct; each event has this size */
    uint32_t max_bytes; /* without fields: the largest payload, up to a quarter of a port's ring */
    enum ec_event_policy policy; /* the strongest that a reader may choose */
};

/* Register a type, or check that it is registered with the same layout.
 *
 * Returns EC_OK, EC_ERR_PARAM (names field and limit), EC_ERR_TYPE_CONFLICT (names the other client
 *         and the first field that differs), EC_ERR_LIMIT, EC_ERR_DISCONNECTED, EC_ERR_TIMEOUT. */
EC_API int ec_event_type_register(struct ec_client *client, const struct ec_event_type_desc *desc,
                                  uint64_t *type, struct ec_error *why);

/* The id of a name; the compiler computes it for a literal. */
static inline uint64_t ec_event_type(const char *name)
{
    uint64_t hash = 0xcbf29ce484222325ull;

    for (; *name != '\0'; name++)
        hash = (hash ^ (unsigned char)*name) * 0x100000001b3ull;
    return hash;
}

/* An event in the publisher's ring. The payload lies in foreign memory: it may be read until the
 * call-back returns or the next event is asked for, and it is provisional until the subscriber has
 * validated it (see subscriber.h). */
struct ec_event {
    uint64_t type;
    int64_t time_ns;   /* real time of the stamp */
    uint64_t sequence; /* 0, 1, 2 … within the port */
    uint64_t step;     /* of the publisher's first step clock when stamped */
    uint32_t sender;   /* client id; 0 is the daemon */
    uint32_t port;     /* id of the port */
    uint32_t bytes;
    uint32_t flags;
    const void *payload; /* aligned to 16 bytes */
};

#ifdef __cplusplus
}
#endif
#endif
