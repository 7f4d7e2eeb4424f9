/* timer_commands.c - timer.arm, timer.cancel, timer.list, and what happens when timers are due. */
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "clients/clients.h"
#include "daemon/config.h"
#include "daemon/log.h"
#include "events/registry.h"
#include "foundation/real_time.h"
#include "scheduler/desk.h"
#include "segment/clock_arithmetic.h"
#include "segment/clock_page.h"

#define BATCH 1024 /* firings before readers of the daemon's port may catch up */

/* What the clocks show now. */
struct times {
    int64_t now[ALARM_CLOCKS];
};

static bool read_times(const struct desk *desk, struct times *times)
{
    const struct ec_clock_page *page = desk->scheduler->page;
    struct ec_game_snapshot game;

    times->now[ALARM_REAL] = ec_real_ns();
    if (ec_clock_read_game(page, times->now[ALARM_REAL], &game) != EC_OK)
        return false;
    times->now[ALARM_GAME] = ec_game_at(&game, times->now[ALARM_REAL]);
    for (uint32_t i = 0; i < EC_STEP_CLOCKS_MAX; i++)
        times->now[ALARM_STEP + i] =
            (int64_t)atomic_load_explicit(&page->step[i].step, memory_order_relaxed);
    return true;
}

void desk_set_alarms(struct desk *desk)
{
    struct alarms *alarms = &desk->scheduler->alarms;
    bool changed = false;

    for (unsigned i = 0; i < ALARM_CLOCKS; i++) {
        int64_t first = timers_first(desk->timers, i);

        if (atomic_load_explicit(&alarms->due[i], memory_order_relaxed) == first)
            continue;
        alarms_set(alarms, i, first);
        changed = true;
    }
    if (changed)
        scheduler_kick(desk->scheduler);
}

static const char *clock_name(const struct desk *desk, unsigned clock)
{
    return clock == ALARM_REAL   ? "real"
           : clock == ALARM_GAME ? "game"
                                 : desk->clocks[clock - ALARM_STEP].name;
}

/* A timer of an earlier run may name a type that nobody has registered in this one, or with less room. */
static void publish_payload(struct desk *desk, const struct timer_firing *firing)
{
    struct events *events = desk->services->events;
    const struct event_type *type = event_types_find(&events->types, firing->desc.event);
    uint64_t kept_back;
    void *room;

    if (type == NULL || firing->desc.payload_bytes > type->size ||
        events_claim(events, firing->desc.payload_bytes, &room) != EC_OK) {
        if (log_limit_allows(&desk->unpublished, ec_real_ns(), &kept_back))
            log_warning("scheduler",
                        "timer %" PRIu64 " of client %u: its event was not published: %s "
                        "(%" PRIu64 " more were not logged)",
                        firing->id, firing->desc.owner,
                        type == NULL ? "nobody has registered its type since the daemon started"
                                     : "it does not fit its type",
                        kept_back);
        return;
    }
    if (firing->desc.payload_bytes > 0)
        memcpy(room, firing->desc.payload, firing->desc.payload_bytes);
    events_commit(events, type, firing->desc.payload_bytes, firing->desc.owner);
}

static void publish(struct desk *desk, const struct timer_firing *firing)
{
    struct events *events = desk->services->events;
    struct event_timer_fired event = {
        .timer_id = { firing->id },
        .client_id = { firing->desc.owner },
        .passed = { firing->passed < UINT32_MAX ? (uint32_t)firing->passed : UINT32_MAX },
        .due = { firing->desc.due },
        .count = { firing->count },
    };

    strncpy(event.clock, clock_name(desk, firing->desc.clock), sizeof event.clock - 1);
    events_publish_system(events, EC_SYSTEM_timer_fired, &event);
    if (firing->desc.event != 0)
        publish_payload(desk, firing);
}

/* No roll-back goes behind the history, or the oldest checkpoint. */
static int64_t oldest_game_ns(const struct desk *desk, int64_t game_ns)
{
    int64_t oldest_ns = game_ns - desk->scheduler->state.history_ns;

    for (unsigned i = 0; i < SCHEDULER_CHECKPOINTS; i++)
        if (desk->checkpoints[i].id != 0 && desk->checkpoints[i].game_ns < oldest_ns)
            oldest_ns = desk->checkpoints[i].game_ns;
    return oldest_ns;
}

void desk_fire_timers(struct desk *desk)
{
    const uint64_t one = 1;
    struct timer_firing firing;
    struct times times;
    unsigned left = BATCH;
    ssize_t bytes = 0;

    if (timers_armed(desk->timers) == 0)
        return;
    if (!read_times(desk, &times))
        left = 0;
    for (unsigned i = 0; i < ALARM_CLOCKS; i++)
        while (left > 0 && timers_fire(desk->timers, i, times.now[i], &firing)) {
            publish(desk, &firing);
            timers_settle(desk->timers);
            left--;
        }
    if (left == 0) /* come back once the others had their turn */
        bytes = write(desk->scheduler->news_fd, &one, sizeof one);
    else
        timers_forget(desk->timers, ALARM_GAME, oldest_game_ns(desk, times.now[ALARM_GAME]));
    (void)bytes;
    desk_set_alarms(desk);
}

void desk_timers_set_back(struct desk *desk, const struct report *report)
{
    struct event_clock_rollback event = { .game_ns = { report->game_ns } };
    struct ec_game_snapshot game;

    timers_set_back(desk->timers, ALARM_GAME, report->game_ns);
    for (uint32_t i = 0; i < desk->clock_count; i++)
        if (desk->clocks[i].source == EC_STEP_GAME)
            timers_set_back(desk->timers, ALARM_STEP + i, (int64_t)report->step[i]);
    desk_set_alarms(desk);
    if (ec_clock_read_game(desk->scheduler->page, ec_real_ns(), &game) == EC_OK)
        event.epoch[0] = game.epoch;
    events_publish_system(desk->services->events, EC_SYSTEM_clock_rollback, &event);
}

void desk_timers_left(struct desk *desk, const struct client *client)
{
    if (client->id == 0)
        return;
    if (client_may_return(client))
        timers_hold(desk->timers, client->id);
    else
        timers_cancel_owner(desk->timers, client->id);
    desk_set_alarms(desk);
}

void desk_timers_ended(struct desk *desk, const struct client *client)
{
    if (client->id != 0 && client->successor == NULL)
        timers_cancel_owner(desk->timers, client->id);
    desk_set_alarms(desk);
}

void desk_timers_resumed(struct desk *desk, const struct client *client)
{
    const uint32_t lost = timers_release(desk->timers, client->id);

    if (lost > 0)
        log_error("scheduler", "no memory for %u timers of client %u", lost, client->id);
    desk_set_alarms(desk);
    desk_fire_timers(desk); /* those that were due meanwhile */
}

/* ---- commands -------------------------------------------------------------------------------- */

/* Which clock, and by what parameters its due time is given. */
static int parse_due(struct request *request, const struct params_timer_arm *params,
                     struct timer_desc *desc)
{
    struct desk *desk = request->services->scheduler->desk;
    const char *clock = params->clock.string;
    const struct param *at = &params->at_ns, *in = &params->in_ns, *every = &params->every_ns;
    const struct param *others[] = { &params->at_step, &params->in_steps, &params->every_steps };
    const char *unit = "ns";
    struct times times;
    int rc;

    if (strcmp(clock, "real") == 0 || strcmp(clock, "game") == 0) {
        desc->clock = clock[0] == 'r' ? ALARM_REAL : ALARM_GAME;
    } else {
        uint32_t index;

        rc = desk_find_clock(request, "clock", clock, &index);
        if (rc < 0)
            return rc;
        desc->clock = ALARM_STEP + index;
        others[0] = at, others[1] = in, others[2] = every;
        at = &params->at_step, in = &params->in_steps, every = &params->every_steps;
        unit = "steps";
    }
    for (int i = 0; i < 3; i++)
        if (others[i]->present)
            return desk_fail_param(request, EC_ERR_PARAM, "clock", "clock %s counts %s", clock,
                                   unit);
    if (at->present == in->present)
        return desk_fail_param(request, EC_ERR_PARAM, "clock",
                               "expected at_%s or in_%s, one of them", unit, unit);
    if (!read_times(desk, &times))
        return ec_fail(request->why, EC_ERR_BUSY, "the clock page changes too fast to be read");
    desc->every = every->integer;
    desc->due = at->integer;
    if (in->present && __builtin_add_overflow(times.now[desc->clock], in->integer, &desc->due))
        return desk_fail_param(request, EC_ERR_PARAM, "in_ns", "that is beyond the end of time");
    return EC_OK;
}

/* The event to publish besides, encoded now, so that a mistake is told to who made it. */
static int parse_event(struct request *request, const struct params_timer_arm *params,
                       struct timer_desc *desc)
{
    struct events *events = request->services->events;
    const struct event_type *type;
    void *payload;
    int rc;

    if (!params->event.present)
        return params->payload.present ? desk_fail_param(request, EC_ERR_PARAM, "payload",
                                                         "there is no event to go with it")
                                       : EC_OK;
    type = event_types_find_name(&events->types, params->event.string);
    if (type == NULL)
        return desk_fail_param(request, EC_ERR_TYPE, "event", "event type %s is not registered",
                               params->event.string);
    if (type->is_system)
        return desk_fail_param(request, EC_ERR_PERMISSION, "event",
                               "%s is published by engine-cored only", type->name);
    payload = request_alloc(request, type->size > 0 ? type->size : 1);
    if (payload == NULL)
        return desk_fail_param(request, EC_ERR_SIZE, "event", "payloads of %s have up to %u bytes",
                               type->name, type->size);
    desc->event = type->id;
    desc->payload = payload;
    rc = event_payload_encode(type, params->payload.span, payload, &desc->payload_bytes,
                              request->why);
    return rc < 0 ? ec_error_prefix(request->why, rc, "payload") : EC_OK;
}

int cmd_timer_arm(struct request *request)
{
    const struct params_timer_arm *params = request->params;
    struct desk *desk = request->services->scheduler->desk;
    struct timer_desc desc = { .owner = request->client->id };
    uint64_t id;
    int rc;

    if (desc.owner == 0)
        return ec_fail(request->why, EC_ERR_STATE, "say core.hello first: a timer has an owner");
    rc = parse_due(request, params, &desc);
    if (rc == EC_OK)
        rc = parse_event(request, params, &desc);
    if (rc == EC_OK && request_would(request, "arm a timer of %s, due at %" PRId64,
                                     params->clock.string, desc.due))
        return EC_OK;
    if (rc == EC_OK)
        rc = timers_arm(desk->timers, &desc, &id, request->why);
    if (rc < 0)
        return rc;
    desk_set_alarms(desk);
    ec_json_object_begin(request->result);
    ec_json_member_u64(request->result, "timer_id", id);
    ec_json_member_i64(request->result, "due", desc.due);
    ec_json_object_end(request->result);
    return EC_OK;
}

int cmd_timer_cancel(struct request *request)
{
    const struct params_timer_cancel *params = request->params;
    struct desk *desk = request->services->scheduler->desk;
    uint64_t id = (uint64_t)params->timer_id.integer;
    const uint32_t owner = request->client->role == EC_ROLE_OPERATOR
                               ? timers_owner(desk->timers, id)
                               : request->client->id;

    if (request->dry_run && timers_is_armed(desk->timers, id, owner)) {
        request_would(request, "cancel timer %" PRIu64, id);
        return EC_OK;
    }
    if (request->dry_run || !timers_cancel(desk->timers, id, owner))
        return desk_fail_param(request, EC_ERR_NOT_FOUND, "timer_id",
                               "client %u has no armed timer %" PRIu64, request->client->id, id);
    desk_set_alarms(desk);
    ec_json_object_begin(request->result);
    ec_json_member_u64(request->result, "timer_id", id);
    ec_json_object_end(request->result);
    return EC_OK;
}

int cmd_timer_list(struct request *request)
{
    const struct params_timer_list *params = request->params;
    struct services *services = request->services;
    struct desk *desk = services->scheduler->desk;
    struct ec_json_writer *writer = request->result;
    int64_t left = params->limit.integer;
    struct timer_firing timer;
    uint32_t at = 0;

    ec_json_object_begin(writer);
    ec_json_member_array(writer, "items");
    while (left-- > 0 && timers_next(desk->timers, &at, &timer)) {
        const struct event_type *type =
            timer.desc.event != 0 ? event_types_find(&services->events->types, timer.desc.event)
                                  : NULL;

        ec_json_object_begin(writer);
        ec_json_member_u64(writer, "timer_id", timer.id);
        ec_json_member_u64(writer, "client_id", timer.desc.owner);
        ec_json_member_string(writer, "clock", clock_name(desk, timer.desc.clock));
        ec_json_member_i64(writer, "due", timer.desc.due);
        ec_json_member_i64(writer, "every", timer.desc.every);
        ec_json_member_string(writer, "event", type != NULL ? type->name : "");
        ec_json_member_u64(writer, "count", timer.count);
        ec_json_object_end(writer);
    }
    ec_json_array_end(writer);
    ec_json_member_u64(writer, "armed", timers_armed(desk->timers) + timers_held(desk->timers));
    ec_json_object_end(writer);
    return EC_OK;
}
