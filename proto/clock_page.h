/* proto/clock_page.h - the clock page: all of time, readable in a few nanoseconds.
 *
 * Writer: the scheduler thread of engine-cored; the breaker word is written by its main loop.
 * Readers: every client, mapped read-only; no system call.
 *
 *   header | latch { sequence, copy[2] } | breaker | heartbeat | step[16] { change, step, due }
 *
 * The latch is two copies and a counter: readers use copy[sequence & 1] while the writer changes the
 * other one, so that a writer killed between any two stores never stops a reader. Its two sides
 * stand in segment/clock_page.h. Snapshots change only when a rate, scale or pause changes. */
#ifndef EC_PROTO_CLOCK_PAGE_H
#define EC_PROTO_CLOCK_PAGE_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>

#include "proto/segment_header.h"

#define EC_STEP_CLOCKS_MAX 16
#define EC_STEP_NAME_BYTES 24

enum ec_step_source { EC_STEP_REAL = 0, EC_STEP_GAME = 1 };

/* Game time is game0 + floor(((real - real0) * scale_num + remainder) / scale_den) ns. */
struct ec_game_snapshot {
    int64_t real0_ns;
    int64_t game0_ns;
    uint64_t remainder; /* in 1/scale_den ns, below scale_den */
    uint32_t scale_num; /* 0 while paused */
    uint32_t scale_den;
    uint32_t paused; /* 0 or 1; scale_num comes back from the daemon on resume */
    uint32_t reserved;
    uint64_t epoch; /* raised by roll-back and by a discontinuity of time */
};

/* Step n is due at base + ceil((fraction + (n - n0) * period_num) / period_den) ns of its source. */
struct ec_step_snapshot {
    char name[EC_STEP_NAME_BYTES]; /* NUL-terminated; empty: no such clock */
    uint32_t source;               /* enum ec_step_source */
    uint32_t reserved;
    int64_t base_ns;
    uint64_t fraction; /* in 1/period_den ns, below period_den */
    uint64_t n0;
    uint64_t period_num; /* period in ns as a reduced fraction */
    uint64_t period_den;
};

struct ec_clock_snapshot {
    struct ec_game_snapshot game;
    struct ec_step_snapshot step[EC_STEP_CLOCKS_MAX];
};

/* What changes with each step. Sleepers wait on change (futex, compare for inequality only) and take
 * the step from the 64-bit word. Written in the order step, due, change (release). */
struct ec_step_word {
    alignas(
        EC_HOT_BYTES) _Atomic uint32_t change; /* futex: each step, rate, epoch or breaker change */
    _Atomic uint64_t step;                     /* the newest step that was reached */
    _Atomic int64_t due_ns;                    /* when that step was due, in time of its source */
    _Atomic int64_t next_due_ns;               /* when the next one is due */
};

struct ec_clock_page {
    struct ec_segment_header header;
    alignas(EC_SEGMENT_HEADER_BYTES) _Atomic uint32_t latch; /* readers use copy[latch & 1] */
    alignas(EC_HOT_BYTES) struct ec_clock_snapshot copy[2];
    alignas(EC_HOT_BYTES) _Atomic uint32_t breaker_level; /* 0..3; outside the latch: one load */
    alignas(EC_HOT_BYTES) _Atomic int64_t heartbeat_ns; /* real time of the scheduler's last turn */
    alignas(EC_HOT_BYTES) struct ec_step_word step[EC_STEP_CLOCKS_MAX];
};

#endif
