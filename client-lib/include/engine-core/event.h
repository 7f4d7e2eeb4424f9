/* engine-core/event.h - event types, and events as a subscriber sees them.
 *
 * A type has a name, a 64-bit id (FNV-1a of the name) and a layout: either its fields or a largest
 * size. Every process that publishes or reads a type registers it; the daemon refuses a second
 * layout under the same name and says which field differs.
 *
 *     #define SHOT(FIELD, ARRAY)   \
 *         FIELD(uint32_t, shooter) \
 *         FIELD(float, x)          \
 *         FIELD(float, y)          \
 *         ARRAY(char, weapon, 16)
 *     EC_EVENT_STRUCT(shot, "game.shot", SHOT);
 *
 *     ec_event_type_register(client, shot_desc(), &type, &why);
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

/* A field of a C struct, single or array: for a struct that was declared elsewhere. */
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

/* ---- the id of a name ------------------------------------------------------------------------- */

#define EC_EVENT_INLINE __attribute__((always_inline)) static inline

/* A loop over a literal is computed by clang but not by gcc; straight steps are computed by both. */
EC_EVENT_INLINE uint64_t ec_event_hash(const char *name, size_t bytes, size_t at, uint64_t hash)
{
    return at < bytes ? (hash ^ (unsigned char)name[at]) * 0x100000001b3ull : hash;
}

EC_EVENT_INLINE uint64_t ec_event_hash_4(const char *name, size_t bytes, size_t at, uint64_t hash)
{
    hash = ec_event_hash(name, bytes, at, hash);
    hash = ec_event_hash(name, bytes, at + 1, hash);
    hash = ec_event_hash(name, bytes, at + 2, hash);
    return ec_event_hash(name, bytes, at + 3, hash);
}

EC_EVENT_INLINE uint64_t ec_event_hash_32(const char *name, size_t bytes, size_t at, uint64_t hash)
{
    hash = ec_event_hash_4(name, bytes, at, hash);
    hash = ec_event_hash_4(name, bytes, at + 4, hash);
    hash = ec_event_hash_4(name, bytes, at + 8, hash);
    hash = ec_event_hash_4(name, bytes, at + 12, hash);
    hash = ec_event_hash_4(name, bytes, at + 16, hash);
    hash = ec_event_hash_4(name, bytes, at + 20, hash);
    hash = ec_event_hash_4(name, bytes, at + 24, hash);
    return ec_event_hash_4(name, bytes, at + 28, hash);
}

/* The id of a type. Of a literal of up to 128 bytes it is a constant in optimised code. */
EC_EVENT_INLINE uint64_t ec_event_type(const char *name)
{
    uint64_t hash = 0xcbf29ce484222325ull;

#ifdef __OPTIMIZE__
    if (__builtin_constant_p(__builtin_strlen(name)) && __builtin_strlen(name) <= 128) {
        hash = ec_event_hash_32(name, __builtin_strlen(name), 0, hash);
        hash = ec_event_hash_32(name, __builtin_strlen(name), 32, hash);
        hash = ec_event_hash_32(name, __builtin_strlen(name), 64, hash);
        return ec_event_hash_32(name, __builtin_strlen(name), 96, hash);
    }
#endif
    for (; *name != '\0'; name++)
        hash = (hash ^ (unsigned char)*name) * 0x100000001b3ull;
    return hash;
}

/* ---- a struct and its layout, declared once ---------------------------------------------------- */

/* EC_EVENT_STRUCT(shot, "game.shot", SHOT) with the list SHOT of above declares
 *
 *     struct shot                      the payload
 *     uint64_t shot_type(void)         its id
 *     const struct ec_event_type_desc *shot_desc(void)
 *                                      its layout, version 1, reliable; copy it to change these
 *
 * The types of the list are written as in C: uint8_t int8_t uint16_t int16_t uint32_t int32_t uint64_t
 * int64_t float double bool char; any other does not compile. In C11 and in C++11. */
#define EC_EVENT_STRUCT(structure, event_name, list)                                               \
    struct structure {                                                                             \
        list(EC_EVENT_MEMBER_, EC_EVENT_MEMBER_ARRAY_)                                             \
    };                                                                                             \
    __attribute__((unused)) EC_EVENT_INLINE uint64_t structure##_type(void)                        \
    {                                                                                              \
        return ec_event_type(event_name);                                                          \
    }                                                                                              \
    __attribute__((unused)) static inline const struct ec_event_type_desc *structure##_desc(void)  \
    {                                                                                              \
        typedef struct structure ec_event_struct_;                                                 \
        static const struct ec_event_field fields[] = { list(EC_EVENT_ROW_,                        \
                                                             EC_EVENT_ROW_ARRAY_) };               \
        static const struct ec_event_type_desc desc = { event_name,                                \
                                                        1,                                         \
                                                        fields,                                    \
                                                        sizeof fields / sizeof fields[0],          \
                                                        sizeof(struct structure),                  \
                                                        0,                                         \
                                                        EC_EVENT_RELIABLE };                       \
        return &desc;                                                                              \
    }                                                                                              \
    struct structure /* so that a semicolon can stand behind it */

#define EC_EVENT_MEMBER_(c_type, member) c_type member;
#define EC_EVENT_MEMBER_ARRAY_(c_type, member, count) c_type member[count];
#define EC_EVENT_ROW_(c_type, member)                                                              \
    EC_EVENT_FIELD(ec_event_struct_, member, EC_EVENT_FIELD_OF_##c_type),
#define EC_EVENT_ROW_ARRAY_(c_type, member, count)                                                 \
    EC_EVENT_FIELD(ec_event_struct_, member, EC_EVENT_FIELD_OF_##c_type),

#define EC_EVENT_FIELD_OF_uint8_t EC_FIELD_U8
#define EC_EVENT_FIELD_OF_int8_t EC_FIELD_I8
#define EC_EVENT_FIELD_OF_uint16_t EC_FIELD_U16
#define EC_EVENT_FIELD_OF_int16_t EC_FIELD_I16
#define EC_EVENT_FIELD_OF_uint32_t EC_FIELD_U32
#define EC_EVENT_FIELD_OF_int32_t EC_FIELD_I32
#define EC_EVENT_FIELD_OF_uint64_t EC_FIELD_U64
#define EC_EVENT_FIELD_OF_int64_t EC_FIELD_I64
#define EC_EVENT_FIELD_OF_float EC_FIELD_F32
#define EC_EVENT_FIELD_OF_double EC_FIELD_F64
#define EC_EVENT_FIELD_OF_bool EC_FIELD_BOOL
#define EC_EVENT_FIELD_OF__Bool EC_FIELD_BOOL
#define EC_EVENT_FIELD_OF_char EC_FIELD_CHAR

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
