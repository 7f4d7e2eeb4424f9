/* proto/clock_page.h - the clock page: all of time, readable in a few nanoseconds.
 *
 * Writer: the scheduler thread of engine-cored; the breaker word is written by its main loop.
 * Readers: every client, mapped read-only; no system call.
 *
 *   header | latch, game_copy[2] | step_copy[2][16] | breaker | heartbeat | step[16] { change, … } |
 *   game_next[2]
 *
 * The latch is two copies and a counter: readers use the copies [latch & 1] while the writer changes
 * the others, so that a writer killed between any two stores never stops a reader. Its two sides
 * stand in segment/clock_page.h. Snapshots change only when a rate, scale or pause changes. At rest
 * the latch is even, and with game_copy[0] it fills one cache line: all that reading game time
 * touches.
 *
 * Changes are announced before they take effect, so that who reads the clock first and the page
 * afterwards never sees time go back: the snapshot of game time says until when it holds, and
 * game_next holds from then on; a step clock says after which step it has another period. */
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
    uint64_t scale_num; /* 0 while game time stands; at most 100 * scale_den */
    uint64_t scale_den; /* 1..EC_SCALE_DEN_MAX */
    uint64_t epoch;     /* raised by roll-back and by a discontinuity of time */
    int64_t until_ns; /* real time from which game_next holds instead; EC_CLOCK_NEVER: none does */
};

#define EC_CLOCK_NEVER INT64_MAX

/* Wide enough for remainders to be carried exactly between decimal scales; products stay below
 * 2^127 for 292 years. */
#define EC_SCALE_DEN_MAX (1ull << 56)
#define EC_SCALE_MAX 100

/* Step n is due at base + ceil((fraction + (n - n0) * period_num) / period_den) ns of its source. An
 * announced change moves base to until_step, exactly, and goes on with the next period. */
struct ec_step_snapshot {
    char name[EC_STEP_NAME_BYTES]; /* NUL-terminated; empty: no such clock */
    uint32_t source;               /* enum ec_step_source */
    uint32_t reserved;
    int64_t base_ns;
    uint64_t fraction; /* in 1/period_den ns, below period_den */
    uint64_t n0;
    uint64_t period_num; /* period in ns; both below EC_PERIOD_TERM_MAX */
    uint64_t period_den;
    uint64_t until_step; /* steps after this one have the next period; 0: no change is announced */
    uint64_t next_period_num;
    uint64_t next_period_den;
};

#define EC_PERIOD_TERM_MAX (1ull << 62) /* products stay below 2^126 for 292 years */

/* All that the latch guards, as the writer keeps it. */
struct ec_clock_snapshot {
    struct ec_game_snapshot game;
    struct ec_step_snapshot step[EC_STEP_CLOCKS_MAX];
    struct ec_game_snapshot game_next; /* its until_ns is EC_CLOCK_NEVER */
};

/* What changes with each step. Sleepers wait on change (futex, compare for inequality only) and take
 * the step from the 64-bit word. Written in the order step, due times, change (release). */
struct ec_step_word {
    alignas(
        EC_HOT_BYTES) _Atomic uint32_t change; /* futex: each step, rate, epoch or breaker change */
    _Atomic uint64_t step;                     /* the newest step that was reached */
    _Atomic int64_t due_ns;                    /* when that step was due, in time of its source */
    _Atomic int64_t next_due_ns;               /* when the next one is due */
    _Atomic uint64_t skipped;  /* steps so far that came too late and are to be left out */
    _Atomic uint32_t required; /* members that the next step waits for; it may come late then */
    /* The epoch that step belongs to, stored on both sides of it: where they differ it is changing. */
    _Atomic uint64_t epoch_before;
    _Atomic uint64_t epoch_after;
};

/* Sleepers on change say what for, as the bits of FUTEX_WAIT_BITSET: a member with a phase does not
 * want to be woken by the step itself. */
#define EC_STEP_WAKE_STEP 1u   /* a step was reached */
#define EC_STEP_WAKE_CHANGE 2u /* anything else: rate, scale, epoch, breaker */

struct ec_clock_page {
    struct ec_segment_header header;
    alignas(EC_SEGMENT_HEADER_BYTES) _Atomic uint32_t latch; /* readers use copies [latch & 1] */
    uint32_t reserved;
    struct ec_game_snapshot game_copy[2];
    alignas(EC_HOT_BYTES) struct ec_step_snapshot step_copy[2][EC_STEP_CLOCKS_MAX];
    alignas(EC_HOT_BYTES) _Atomic uint32_t breaker_level; /* 0..3; outside the latch: one load */
    alignas(EC_HOT_BYTES) _Atomic int64_t heartbeat_ns; /* real time of the scheduler's last turn */
    alignas(EC_HOT_BYTES) struct ec_step_word step[EC_STEP_CLOCKS_MAX];
    alignas(
        EC_HOT_BYTES) struct ec_game_snapshot game_next[2]; /* behind the latch, like the others */
};

#endif
