/* heritage.h - what one run of the daemon leaves to the next.
 *
 * A file beside the socket (PATH.state) that is replaced as a whole when something in it changes:
 *
 *   clock      the closed form of game time and of the step clocks, so that they go on; checkpoints
 *   breaker    the level that was raised by hand, and what is reserved for whom
 *   ids        up to which numbers of clients, ports, readers were given out: none is given twice
 *   leases     which processes are attached: who may come back as the client that it was
 *
 * It holds for one boot of the host: monotonic time and process numbers mean nothing after it. A file
 * that makes no sense is left aside with a warning. One that cannot be written (disk full) is tried
 * again; the daemon goes on without.
 *
 *     if (heritage_clock(heritage, &clock))
 *         … go on from there …
 *     heritage_lease_add(heritage, &lease);
 *
 * The file goes when the daemon ends in good order and nobody is attached. While somebody is, it stays,
 * because games outlive the daemon. Where descriptors are kept it stays, too, but counts only together
 * with them: then it was a restart, and not a stop.
 *
 * Where there is no heritage (NULL, in tests of single modules) nothing was left and nothing is kept.
 *
 * Thread: loop. Cost: a change writes the file, some microseconds on /run; leases and the breaker's part are
 * written before the next answer goes out (daemon/before_answers.h), once for all that changed by then. */
#ifndef ENGINE_CORED_HERITAGE_H
#define ENGINE_CORED_HERITAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "foundation/error.h"
#include "proto/clock_page.h"

struct heritage;
struct services;

int heritage_init(struct services *services, struct ec_error *why);      /* module phase: reads */
int heritage_post_init(struct services *services, struct ec_error *why); /* writes from now on */
void heritage_shutdown(struct services *services);

/* Whether an earlier run of this boot left something. */
bool heritage_exists(const struct heritage *heritage);
/* And it holds: that run did not end in good order with nobody attached, or its segments are kept. */
bool heritage_counts(const struct heritage *heritage, bool kept);
/* Whether this run has begun to write: a start that failed before leaves all files as they were. */
bool heritage_is_ours(const struct heritage *heritage);
/* How many runs of this boot there were before, as far as is known. */
uint32_t heritage_runs(const struct heritage *heritage);
/* The instance of the run before; 0: none. */
uint64_t heritage_instance(const struct heritage *heritage);

/* ---- the clock ---- */

struct clock_heritage {
    uint64_t scale_num, scale_den; /* as ordered */
    bool paused;
    uint64_t last_checkpoint; /* id */
    uint32_t clock_count;
    struct ec_clock_snapshot snapshot;
    struct {
        uint32_t late; /* enum late_policy */
        uint32_t burst;
        bool halvable;
        int64_t spin_ns;
        uint64_t step;                   /* that was reached when it was written */
        uint64_t missed;                 /* steps that were left out until then */
        uint64_t period_num, period_den; /* as ordered */
    } clock[EC_STEP_CLOCKS_MAX];
};

/* What the run before left. Every value was checked: arithmetic can be done with it. kept: its segments
 * are there, too. */
bool heritage_clock(const struct heritage *heritage, bool kept, struct clock_heritage *clock);
void heritage_set_clock(struct heritage *heritage, const struct clock_heritage *clock);

/* A checkpoint: how the clocks on game time counted at a moment. */
#define HERITAGE_CHECKPOINTS 32
#define HERITAGE_CHECKPOINT_NAME_BYTES 32

struct checkpoint_heritage {
    uint64_t id; /* not 0 */
    char name[HERITAGE_CHECKPOINT_NAME_BYTES];
    int64_t game_ns;
    uint64_t remainder, remainder_den; /* of game_ns */
    uint32_t clock_count;
    struct {
        struct ec_step_snapshot step;
        uint64_t period_num, period_den; /* as ordered */
        bool halved;
    } clock[EC_STEP_CLOCKS_MAX];
};

/* Those of the run before, until they are removed, and those that were added, in no order; NULL after
 * the last. Every value was checked. The file has them from the next heritage_set_clock on. */
const struct checkpoint_heritage *heritage_checkpoint(const struct heritage *heritage,
                                                      unsigned index);
/* One whose id has the same place modulo HERITAGE_CHECKPOINTS goes. */
void heritage_checkpoint_add(struct heritage *heritage,
                             const struct checkpoint_heritage *checkpoint);
void heritage_checkpoint_remove(struct heritage *heritage, uint64_t id);

/* ---- the breaker ---- */

#define HERITAGE_RESERVATIONS 128
#define HERITAGE_REASON_BYTES 256

struct breaker_heritage {
    uint32_t manual_level; /* 0: none */
    int64_t manual_end_ns; /* 0: until it is reset */
    char manual_reason[HERITAGE_REASON_BYTES];
    uint32_t last_reservation_id;
    uint32_t reservation_count;
    struct {
        uint32_t id, client_id;
        uint64_t bytes;
        int64_t end_ns;
        uint64_t held_bytes;
    } reservations[HERITAGE_RESERVATIONS];
};

/* As heritage_clock. */
bool heritage_breaker(const struct heritage *heritage, bool kept, struct breaker_heritage *breaker);
void heritage_set_breaker(struct heritage *heritage, const struct breaker_heritage *breaker);

/* ---- ids ---- */

enum heritage_id { HERITAGE_CLIENT, HERITAGE_PORT, HERITAGE_READER, HERITAGE_IDS };

/* The highest id that an earlier run may have given out; new ones come after it. */
uint32_t heritage_last_id(const struct heritage *heritage, enum heritage_id kind);
/* id was given out. */
void heritage_note_id(struct heritage *heritage, enum heritage_id kind, uint32_t id);

/* ---- leases ---- */

#define HERITAGE_NAME_BYTES 48
#define HERITAGE_LEASES_MAX 4096

struct lease {
    uint32_t client_id;
    pid_t pid;
    uid_t uid;
    uint64_t process_start; /* in clock ticks since boot: with pid it names one process */
    char name[HERITAGE_NAME_BYTES];
};

/* Those of the run before, in no order; NULL after the last. They stay until they are removed. */
const struct lease *heritage_lease(const struct heritage *heritage, unsigned index);
/* A second lease of an id replaces the first. */
void heritage_lease_add(struct heritage *heritage, const struct lease *lease);
void heritage_lease_remove(struct heritage *heritage, uint32_t client_id);

#endif
