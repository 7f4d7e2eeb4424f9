/* state.h - what the files of this folder share: the state of the breaker.
 *
 *   breaker.c          life, the tick, levels, what is told to whom
 *   orders.c           who is asked for how much, who answered, who is asked to leave
 *   effects.c          what was seen of knobs, clocks and of each client's memory
 *   reserving.c        room that a client asks for beforehand
 *   breaker_commands.c the JSON edge
 *
 * The state is locked in memory, and a trip allocates nothing before games can see it. */
#ifndef ENGINE_CORED_BREAKER_STATE_H
#define ENGINE_CORED_BREAKER_STATE_H

#include <uv.h>

#include "breaker/alarm_hook.h"
#include "breaker/breaker.h"
#include "breaker/history.h"
#include "breaker/members.h"
#include "breaker/policy.h"
#include "breaker/reservations.h"
#include "breaker/samples.h"
#include "breaker/sources.h"
#include "breaker/trace.h"
#include "breaker/wakeups.h"
#include "resources/resources.h"

struct ec_clock_page;
struct reply;

#define WAITING_MAX 32

/* A reservation that waits for room; its answer is deferred. */
struct waiting {
    struct reply *reply; /* NULL: a free place */
    struct breaker *breaker;
    uint32_t client_id;
    uint64_t bytes, freed_bytes;
    int64_t hold_ns;
    int64_t deadline_ns;
    bool asked; /* the others were asked for it */
};

struct breaker {
    struct services *services;
    struct ec_clock_page *page;
    struct ec_breaker_board *board;

    struct breaker_policy policy;
    struct level_marks marks; /* of the policy */
    struct level_tick tick;
    uint64_t policy_version; /* raised with each change */

    struct sources sources;
    struct wakeups *wakeups; /* NULL: not wanted */
    struct member members[MEMBERS_MAX];
    uint32_t member_high; /* [0, member_high) may be in use */
    uint64_t unlisted;    /* clients that found no slot */
    struct reservations reservations;
    struct waiting waiting[WAITING_MAX];
    struct history history;
    struct samples *samples;
    struct trace *trace;
    int64_t sampled_ns;
    enum resources_soft soft;  /* what becomes of soft references now */
    uint64_t soft_freed_bytes; /* by that in this look: it shows in the next reading */
    bool own_level_changed;    /* of some client, and its slot is not written yet */
    uint32_t halved;           /* clocks that were seen at half their rate */
    struct alarm_hook alarm;

    uint32_t level; /* of all */
    enum ec_breaker_cause cause;
    int64_t since_ns;       /* when it was entered or tripped again */
    uint64_t level_history; /* the transition that brought it */
    char reason[BREAKER_REASON_BYTES];
    int64_t manual_ns; /* of the last trip or reset by hand */
    struct {
        uint32_t level;
        int64_t end_ns; /* 0: until reset */
        uint64_t history;
        char reason[BREAKER_REASON_BYTES];
    } manual;

    uv_timer_t timer;  /* the next look */
    int64_t looked_ns; /* all of it */
    int64_t look_ns;   /* until the next look, as that one found */
    bool is_calm; /* it found nothing to do: while its sources are quiet there is nothing new */
    uint64_t looks;
    int64_t look_cost_ns; /* of all looks */
    int64_t chains_ns, own_chain_ns, budgets_ns;
    int64_t
        barren_ns;  /* when an eviction last found nothing to free; 0: not since the level rose */
    bool is_locked; /* in memory */
    bool kernel_events;
    unsigned open_handles;
};

/* ---- orders.c -------------------------------------------------------------------------------- */

/* The attached clients: NULL begins and ends. */
struct member *members_next(struct breaker *breaker, struct member *member);

/* Answers of clients, late ones, orders of this look, requests to leave. Marks what changed. */
void orders_look(struct breaker *breaker, int64_t now_ns);

/* A level that was raised by hand: half of what each client could give at 2, all at 3. */
void orders_by_hand(struct breaker *breaker, int64_t now_ns);

/* Ask all but one client for room that was to be reserved. */
void orders_for_reservation(struct breaker *breaker, uint32_t client_id, uint64_t bytes,
                            int64_t now_ns);

/* How bytes would be shared out now among the members of a source; all when it counts for all.
 * rows[i] is members[i]. Returns the bytes that nobody has. */
uint64_t orders_share(const struct breaker *breaker, uint32_t source, uint64_t bytes,
                      uint32_t but_client_id, struct sharing_row rows[MEMBERS_MAX]);

/* Write the slots that changed; then tell their clients, or all of them when the level of all changed.
 * What a game is to find when it sees a new level is written before the level, and told after it. */
void orders_write(struct breaker *breaker);
void orders_tell(struct breaker *breaker, bool tell_all);
void orders_publish(struct breaker *breaker, bool tell_all); /* both */

/* ---- effects.c ------------------------------------------------------------------------------- */

/* Take over what was seen of actions since the last look. Returns whether clients are sampled now. */
bool effects_look(struct breaker *breaker, int64_t now_ns);

/* ---- keeping.c ------------------------------------------------------------------------------- */

/* What was reserved and raised by hand has changed: a later run goes on from it. */
void breaker_keep(const struct breaker *breaker);
/* Of the last run: reservations of clients that may come back, and the level by hand. */
void breaker_inherit(struct breaker *breaker);
/* breaker.c: that level holds from the next look on; the orders that went with it were given. */
void breaker_raise_again(struct breaker *breaker, uint32_t level, int64_t end_ns,
                         const char *reason);

/* ---- reserving.c ------------------------------------------------------------------------------ */

/* Grant what there is room for, or refuse what waited for too long. */
void waiting_serve(struct breaker *breaker, struct waiting *waiting, int64_t now_ns);

/* ---- breaker.c ------------------------------------------------------------------------------- */

/* Who sleeps on a step clock is woken for levels that changed in shared memory. */
void breaker_tell_scheduler(struct breaker *breaker);

struct member *breaker_member(struct breaker *breaker, uint32_t client_id); /* NULL */

/* The source of those that count for all that runs short first. */
const struct source *breaker_tightest(const struct breaker *breaker);

/* Take over a policy that was checked. */
void breaker_use_policy(struct breaker *breaker, const struct breaker_policy *policy);

/* Reservations changed: what is deducted where. */
void breaker_deduct(struct breaker *breaker);

/* Is there room for so many bytes more, for this client? *missing gets what is not there. */
bool breaker_has_room(struct breaker *breaker, uint32_t client_id, uint64_t bytes,
                      uint64_t *missing_bytes);

#endif
