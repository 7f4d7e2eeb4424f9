/* decode_messages.h - what the daemon and its decoding processes say to each other.
 *
 *   daemon's thread      server                        child
 *        |-- order LOAD --->|                            |       2 descriptors: job, status
 *        |-- more entries ------------------------------>|       on job, if there are
 *        |<-- status STARTED|--------- fork -----------> |       on status, with a pidfd
 *        |<------------------------------- GUARDED ------|       on job, with a listener
 *        |<------------------------------ MEASURED ------|
 *        |-- range, with the heap ---------------------->|
 *        |<---------------------------------- DONE ------|       or FAILED, at any time
 *        |-- turn (which entry is next) ---------------->|       then MEASURED again, and so on
 *        |<-- status ENDED -|<-------- exit -------------|
 *
 * A child opens all of its entries before it looks into the first. One has its turn at once, the
 * others when they are told; between two turns the child has nothing of the heap mapped.
 *
 * What a child says is hostile from its first look at the file on: the daemon compares every number
 * with its limits, and only the server says how the child ended. */
#ifndef RESOURCES_DECODE_MESSAGES_H
#define RESOURCES_DECODE_MESSAGES_H

#include <stdint.h>

#include "decoders/decoder.h"
#include "resources/sandbox.h"
#include "resources/search_path.h"

#define DECODE_MOUNT_AT_BYTES 256

enum decode_order_kind { DECODE_SERVE, DECODE_MOUNT, DECODE_LOAD };

struct decode_mount {
    char path[4096]; /* "": only make an empty search path */
    char at[DECODE_MOUNT_AT_BYTES];
    uint32_t seconds; /* then the server ends */
};

/* Most of one child: their descriptors are open at once, and a sane socket takes them in one packet. */
#define DECODE_ENTRIES_MAX 32

struct decode_entry {
    char path[SEARCH_PATH_BYTES];
    enum ec_resource_kind kind;
    struct decode_options options;
    struct decode_limits limits;
};

struct decode_load {
    struct decode_entry first;
    uint32_t count;        /* of entries, 1..DECODE_ENTRIES_MAX; the others come in one packet */
    uint32_t turn;         /* the place of the one that has the first turn */
    uint32_t seconds;      /* on a processor, for all of them */
    uint64_t memory_bytes; /* of the child */
    uint32_t guarded;      /* 0: without the filter */
    uint32_t drop_cache;
};

/* SERVE takes one descriptor, the end of the new server. */
struct decode_order {
    enum decode_order_kind kind;
    union {
        struct decode_mount mount;
        struct decode_load load;
    };
};

/* The answer to MOUNT, on the socket of the orders. */
struct decode_mounted {
    int32_t rc;
    enum sandbox_guard guard; /* what its children can be kept in */
    char text[EC_ERROR_TEXT_BYTES];
};

enum decode_status_kind { DECODE_STARTED, DECODE_ENDED };

struct decode_status {
    enum decode_status_kind kind;
    int32_t value; /* STARTED: 0 or errno of fork; ENDED: the wait status */
};

enum decode_child_kind { DECODE_GUARDED, DECODE_MEASURED, DECODE_DONE, DECODE_FAILED };

struct decode_child_message {
    enum decode_child_kind kind;
    union {
        enum sandbox_guard guard;
        struct {
            struct decoded decoded;
            uint32_t mount; /* place in the search path */
        } measured;
        struct ec_error why;
    };
};

/* With the descriptor of the heap. */
struct decode_range {
    uint64_t offset;
    uint64_t bytes; /* whole pages */
};

struct decode_turn {
    uint32_t entry; /* the place of one that had no turn yet */
};

#endif
