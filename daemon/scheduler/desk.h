/* desk.h - the main loop's side of the scheduler: requests, members of groups, timers.
 *
 * A request becomes an order; its reply waits in a place of the desk until the report comes. What the
 * thread counts (steps left out, gaps, members released) becomes events here.
 *
 * Thread: loop. */
#ifndef ENGINE_CORED_SCHEDULER_DESK_H
#define ENGINE_CORED_SCHEDULER_DESK_H

#include <uv.h>

#include "clients/clients.h"
#include "daemon/heritage.h"
#include "daemon/log_limit.h"
#include "daemon/request.h"
#include "scheduler/scheduler_private.h"
#include "scheduler/timers.h"

struct timer_ledger;

#define DESK_REQUESTS 64 /* at once; members that leave need places, too */
#define CHECKPOINT_NAME_BYTES HERITAGE_CHECKPOINT_NAME_BYTES

/* An order on its way. */
struct desk_order {
    bool used;
    bool is_request;
    struct reply *reply; /* NULL: the asker is gone, or there never was one */
    struct order order;
    char name[CHECKPOINT_NAME_BYTES];
};

struct desk_member {
    bool used;
    bool leaving; /* the thread may still look at the record */
    uint32_t client_id;
    uint32_t clock;
    bool required;
    int64_t budget_ns, phase_ns;
    void *map; /* the pages of the record, mapped for this member alone */
    size_t map_bytes;
    const struct ec_step_member *record;
    uint64_t releases_told;
};

struct desk_checkpoint {
    uint64_t id; /* 0: none */
    int64_t game_ns;
    char name[CHECKPOINT_NAME_BYTES];
};

struct desk {
    struct services *services;
    struct scheduler *scheduler;
    uv_poll_t *news;

    struct desk_order orders[MAILBOX_PLACES];
    unsigned requests; /* of them */

    struct order_clock clocks[EC_STEP_CLOCKS_MAX]; /* as they were made */
    uint32_t clock_count;
    struct desk_ratio {
        uint64_t num, den;
    } scale,                         /* in force when game time goes */
        periods[EC_STEP_CLOCKS_MAX]; /* as ordered, ns */
    bool paused;
    struct desk_checkpoint checkpoints[SCHEDULER_CHECKPOINTS];

    struct desk_member members[SCHEDULER_MEMBERS];
    struct timers *timers;
    struct timer_ledger *ledger; /* NULL: timers end with this run */
    struct log_limit unpublished;

    uint64_t last_checkpoint; /* id */
    uv_timer_t *heritage_timer;
    uint32_t heritage_latch; /* of the page when the heritage was last written */

    uint64_t missed_told[EC_STEP_CLOCKS_MAX];
    uint64_t discontinuities_told;
};

/* heritage: NULL when the clocks began anew. */
int desk_open(struct services *services, const struct clock_heritage *heritage,
              struct ec_error *why);
void desk_close(struct desk *desk); /* after the thread has ended; accepts NULL */

/* Post an order for a request: the reply comes with the report. name is that of a checkpoint, or NULL.
 *
 * Returns EC_AGAIN, for the handler to return; EC_ERR_BUSY or EC_ERR_MEMORY. */
int desk_request(struct request *request, const struct order *order, const char *name);
/* Answer what it would do, as far as the desk knows the clocks; nothing is posted. */
int desk_rehearse(struct request *request, const struct order *order, const char *name);
/* Post one that nobody waits for. There is always room for a member that leaves. */
void desk_post(struct desk *desk, const struct order *order);

/* Set the thread's alarms after timers came or went. */
void desk_set_alarms(struct desk *desk);

/* The index of a clock by its name, which the parameter param has.
 *
 * Returns EC_OK or EC_ERR_NOT_FOUND, which names those that there are. */
int desk_find_clock(struct request *request, const char *param, const char *name, uint32_t *clock);

/* Fail with data {param, reason}. Returns rc. */
int desk_fail_param(struct request *request, int rc, const char *param, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* All clocks, as clock.get answers them, into an open object. EC_OK or EC_ERR_BUSY. */
int desk_write_clocks(struct desk *desk, struct ec_json_writer *writer, struct ec_error *why);

/* ---- desk_heritage.c: what a later run of the daemon goes on from ---- */
int desk_heritage_open(struct desk *desk, const struct clock_heritage *heritage,
                       struct ec_error *why);
void desk_heritage_close(struct desk *desk);
/* After a change: before anybody is told that it has happened. */
void desk_heritage_write(struct desk *desk);
/* A checkpoint was made. */
void desk_heritage_checkpoint(struct desk *desk, const struct checkpoint *checkpoint,
                              const char *name);
/* Timers of the last run whose owners may come back; those of now are written from here on. */
void desk_inherit_timers(struct desk *desk);
void desk_ledger_close(struct desk *desk);

/* ---- desk_members.c ---- */
void desk_member_left(struct desk *desk, uint32_t slot); /* the thread does not look any more */
void desk_client_left(struct desk *desk, struct client *client);
void desk_tell_releases(struct desk *desk);
/* "frame":{…} and "step_groups":[…] of client.get. */
void desk_describe_client(const struct desk *desk, const struct client *client,
                          struct ec_json_writer *writer);

/* ---- timer_commands.c ---- */
void desk_fire_timers(struct desk *desk);
/* As the hooks of clients.h: who may come back finds its timers held. */
void desk_timers_left(struct desk *desk, const struct client *client);
void desk_timers_ended(struct desk *desk, const struct client *client);
void desk_timers_resumed(struct desk *desk, const struct client *client);
void desk_timers_set_back(struct desk *desk, const struct report *report);

#endif
