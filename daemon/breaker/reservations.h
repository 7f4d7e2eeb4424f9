/* reservations.h - memory that was promised to a client beforehand.
 *
 * What is reserved is deducted from what is available, until it is released, its time is over, or its
 * client has gone. Thread: loop. */
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
};

struct reservations {
    struct reservation rows[RESERVATIONS_MAX];
    uint32_t last_id;
};

/* The id; 0: there is no room for one more. */
uint32_t reservations_add(struct reservations *reservations, uint32_t client_id, uint64_t bytes,
                          int64_t end_ns);
/* Of this client only. Returns EC_OK or EC_ERR_NOT_FOUND. */
bool reservations_has(struct reservations *reservations, uint32_t client_id, uint32_t id);
int reservations_release(struct reservations *reservations, uint32_t client_id, uint32_t id);

/* How many ended: those of a client, or those whose time is over. */
unsigned reservations_end_client(struct reservations *reservations, uint32_t client_id);
unsigned reservations_expire(struct reservations *reservations, int64_t now_ns);

#endif
