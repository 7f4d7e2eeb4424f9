/* levels.h - from how much memory is left to a level, as a function of plain numbers and time.
 *
 *   1000 ────────────── normal ────────────── warning ──── eviction ──── emergency ──── 0 permille left
 *                                       150           100            50
 *
 * A level rises at once, also by several. It falls by one when for hold_ns without a break
 * hysteresis_permille more than its mark was left. Pressure (programs that wait for memory) raises it
 * by one, and only below a ceiling of what is left: alone it is wrong as often as it is right.
 *
 * Thread: any; no clock is read, so that hours pass in a test in a moment. */
#ifndef ENGINE_CORED_BREAKER_LEVELS_H
#define ENGINE_CORED_BREAKER_LEVELS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/breaker_board.h"

#define LEVEL_NORMAL 0u
#define LEVEL_WARNING 1u
#define LEVEL_EVICTION 2u
#define LEVEL_EMERGENCY 3u
#define LEVELS EC_BREAKER_LEVELS

/* Marks of level 0 mean nothing. Whichever of share and bytes is reached first counts. */
struct level_marks {
    uint32_t permille[LEVELS];
    uint64_t bytes[LEVELS]; /* 0: off */
    uint32_t hysteresis_permille;
    int64_t hold_ns;
    uint32_t some_permille;    /* of the time, in which some program waits: raises 0 to 1; 0: off */
    uint32_t full_permille;    /* in which all wait: raises 1 to 2 and 2 to 3; 0: off */
    uint32_t ceiling_permille; /* pressure counts only while less than this is left */
};

struct level_reading {
    uint64_t total_bytes;
    uint64_t available_bytes;
    uint32_t some_permille, full_permille; /* of the last two seconds */
};

struct level_machine {
    uint32_t level;
    enum ec_breaker_cause cause; /* of the level; NONE at level 0 */
    int64_t since_ns;            /* when it was entered */
    bool calm;                   /* the readings allow a lower level, since: */
    int64_t calm_since_ns;
};

/* The available bytes at which a level begins. */
uint64_t level_mark_bytes(const struct level_marks *marks, uint32_t level, uint64_t total_bytes);
uint32_t level_permille(uint64_t part, uint64_t whole); /* 1000 at most; 1000 of nothing */

/* The level that a reading alone calls for. */
uint32_t level_wanted(const struct level_marks *marks, const struct level_reading *reading,
                      enum ec_breaker_cause *cause);

/* Take a reading at now_ns. Returns whether the level changed. */
bool level_machine_look(struct level_machine *machine, const struct level_marks *marks,
                        const struct level_reading *reading, int64_t now_ns);

/* How fast available memory shrinks. A ring of readings about the last tenth of a second; one longer
 * ago is used when there is none. */
#define GROWTH_READINGS 16

struct growth {
    struct {
        int64_t at_ns;
        uint64_t available_bytes;
    } readings[GROWTH_READINGS];
    uint32_t count; /* ever */
};

void growth_add(struct growth *growth, int64_t at_ns, uint64_t available_bytes);
uint64_t growth_bytes_per_s(const struct growth *growth); /* 0 while it does not shrink */

/* Time until the next higher level begins at this rate; -1: there is none, or nothing grows. */
int64_t level_next_ns(const struct level_marks *marks, const struct level_reading *reading,
                      uint64_t bytes_per_s);

/* When to look again: tick_ns while calm, fast_ns below fast_permille, and at half of the time to the
 * next level when that is less; never below a millisecond. */
struct level_tick {
    int64_t tick_ns, fast_ns;
    uint32_t fast_permille;
};
int64_t level_look_ns(const struct level_tick *tick, const struct level_marks *marks,
                      const struct level_reading *reading, uint64_t bytes_per_s);

#endif
