/* reservations.h - memory that was promised to a client beforehand.
 *
 * What is reserved is deducted from what is available, until it is released, its time is over, or its
 * client has gone. What the client has taken of it meanwhile is not deducted a second time: it is used
 * already. As taken counts what its anonymous memory has grown by since it was granted, by several
 * reservations in their order. Thread: loop. */
#ifndef ENGINE_CORED_BREAKER_RESERVATIONS_H
#define ENGINE_CORED_BREAKER_RESERVATIONS_H

#include <stdbool.h>
#include <stdint.h>

#define RESERVATIONS_MAX 128

struct reservation {
    uint32_t id; /* 0: free */
    uint32_t client_id;
    uint64_t bytes;
    int64_t end_ns;
    uint64_t
        held_bytes; /* anonymous memory of the client when it was granted; UINT64_MAX: unknown */
    uint64_t taken_bytes; /* of bytes: used by now */
};

struct reservations {
    uint32_t last_id;
    unsigned count; /* rows in use: a look that finds none walks none */
    struct reservation rows[RESERVATIONS_MAX];
};

/* id and taken_bytes are filled in. Returns the id; 0: there is no room for one more. */
uint32_t reservations_add(struct reservations *reservations, const struct reservation *wanted);

/* Of this client only. Release returns EC_OK or EC_ERR_NOT_FOUND. */
bool reservations_has(struct reservations *reservations, uint32_t client_id, uint32_t id);
int reservations_release(struct reservations *reservations, uint32_t client_id, uint32_t id);

/* A client holds so much anonymous memory now. Returns whether taken_bytes of a row changed. */
bool reservations_take(struct reservations *reservations, uint32_t client_id, uint64_t held_bytes);

/* Whether a client has any. */
bool reservations_any(const struct reservations *reservations, uint32_t client_id);

/* How many ended: those of a client, or those whose time is over. */
unsigned reservations_end_client(struct reservations *reservations, uint32_t client_id);
unsigned reservations_expire(struct reservations *reservations, int64_t now_ns);

#endif
