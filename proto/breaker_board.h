/* proto/breaker_board.h - what the memory circuit breaker asks of each client.
 *
 * The board lies at the end of the directory. Writer: engine-cored's main loop. Readers: all,
 * read-only. The level of all clients is a word of the clock page; here are the rest:
 *
 *   knobs[level]  what a game sets itself to at each level; changed only with the policy
 *   forecast      how much memory is left, and when the next level comes at this rate
 *   orders[slot]  one for each client: its own level, and what it is asked for
 *
 * A client finds its slot by its id. The sequence of an order is odd while it is changed; an even one
 * also names the order, and a client that has done it says this number back. Both sides of that
 * protocol stand in segment/breaker_board.h. */
#ifndef EC_PROTO_BREAKER_BOARD_H
#define EC_PROTO_BREAKER_BOARD_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>

#include "proto/segment_header.h"

#define EC_BREAKER_LEVELS 4 /* 0 normal, 1 warning, 2 eviction, 3 emergency */
#define EC_BREAKER_SLOTS 256

/* Why a client is asked for something. */
enum ec_breaker_cause {
    EC_BREAKER_CAUSE_NONE = 0,
    EC_BREAKER_CAUSE_MEMORY = 1,   /* the host or a control group runs short */
    EC_BREAKER_CAUSE_PRESSURE = 2, /* programs wait for memory although there is some */
    EC_BREAKER_CAUSE_BUDGET = 3,   /* a tag of this client is over its budget */
    EC_BREAKER_CAUSE_MANUAL = 4,   /* an operator */
    EC_BREAKER_CAUSE_RESERVE = 5,  /* another client asked for room */
};

#define EC_BREAKER_KNOBS 6 /* particles, audio, quality, shadows, lod, post effects */

/* Each word stands for itself; they are changed together only when the policy is. */
struct ec_breaker_knobs {
    _Atomic uint32_t particle_rate_permille; /* 1000: all */
    _Atomic uint32_t audio_noncritical;      /* 0: pause it */
    _Atomic uint32_t quality_permille;       /* 1000: as chosen; 0: the lowest preset */
    _Atomic uint32_t shadows;                /* 0: off */
    _Atomic uint32_t lod_bias_permille;      /* add it to the level of detail; 1000 is one level */
    _Atomic uint32_t post_effects;           /* 0: off */
    uint32_t reserved[2];
};

struct ec_breaker_forecast {
    alignas(EC_HOT_BYTES) _Atomic uint64_t total_bytes;
    _Atomic uint64_t available_bytes; /* of the place that runs short first */
    _Atomic int64_t next_level_ns; /* from when it was written; -1: no level comes at this rate */
    _Atomic int64_t at_ns;         /* real time of the look */
};

#define EC_BREAKER_ORDER_TRIM 1u /* allocators are to give back what they keep for later */

struct ec_breaker_order {
    alignas(EC_HOT_BYTES) _Atomic uint32_t client_id; /* 0: free; stored last (release) */
    _Atomic uint32_t level;                           /* this client's own level */
    _Atomic uint64_t sequence;                        /* odd while the rest is changed */
    _Atomic uint64_t bytes;                           /* to give back; 0: nothing */
    _Atomic int64_t deadline_ns;                      /* real time; 0: none */
    _Atomic int64_t exit_deadline_ns;                 /* save and leave until then; 0: stay */
    _Atomic uint32_t cause;                           /* enum ec_breaker_cause */
    _Atomic uint32_t flags;                           /* EC_BREAKER_ORDER_… */
};

struct ec_breaker_board {
    alignas(EC_HOT_BYTES) struct ec_breaker_knobs knobs[EC_BREAKER_LEVELS];
    struct ec_breaker_forecast forecast;
    struct ec_breaker_order orders[EC_BREAKER_SLOTS];
};

#endif
