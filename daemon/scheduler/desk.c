/* desk.c - see desk.h. */
#include "scheduler/desk.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/config.h"
#include "daemon/log.h"
#include "events/events.h"
#include "foundation/real_time.h"
#include "segment/clock_page.h"

/* ---- errors ---------------------------------------------------------------------------------- */

int desk_fail_param(struct request *request, int rc, const char *param, const char *format, ...)
{
    char text[256];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    ec_json_object_begin(request->data);
    ec_json_member_string(request->data, "param", param);
    ec_json_member_string(request->data, "reason", text);
    ec_json_object_end(request->data);
    return ec_fail(request->why, rc, "parameter %s: %s", param, text);
}

int desk_find_clock(struct request *request, const char *param, const char *name, uint32_t *clock)
{
    const struct desk *desk = request->services->scheduler->desk;
    char names[EC_STEP_CLOCKS_MAX * (EC_STEP_NAME_BYTES + 2)] = "";

    for (uint32_t i = 0; i < desk->clock_count; i++) {
        if (strcmp(desk->clocks[i].name, name) == 0) {
            *clock = i;
            return EC_OK;
        }
        strcat(names, i == 0 ? "" : ", ");
        strcat(names, desk->clocks[i].name);
    }
    return desk_fail_param(request, EC_ERR_NOT_FOUND, param, "no step clock %s; there are %s", name,
                           names);
}

/* What the thread found wrong, in words. */
static int explain(const struct desk *desk, const struct desk_order *place,
                   const struct report *report, struct ec_error *why)
{
    const struct order *order = &place->order;

    switch (order->kind) {
    case ORDER_ROLLBACK:
        if (order->u.back.checkpoint != 0)
            return ec_fail(why, report->rc,
                           "parameter checkpoint_id: no checkpoint %" PRIu64
                           ", expected one of the last %d",
                           order->u.back.checkpoint, SCHEDULER_CHECKPOINTS);
        return ec_fail(why, report->rc,
                       "parameter game_ns: is %" PRId64 ", expected %" PRId64 " to %" PRId64,
                       order->u.back.game_ns, report->low_ns, report->high_ns);
    case ORDER_CREATE:
        if (report->rc == EC_ERR_LIMIT)
            return ec_fail(why, report->rc, "there are %d step clocks already", EC_STEP_CLOCKS_MAX);
        return ec_fail(why, report->rc, "parameter name: there is a step clock %s already",
                       order->u.create.clock.name);
    case ORDER_ADVANCE:
        return ec_fail(why, report->rc,
                       "step clock %s cannot be advanced: game time must stand (clock.pause), the "
                       "clock follow it, and no other advance be on its way",
                       desk->clocks[order->clock].name);
    default:
        return ec_fail(why, report->rc, "the scheduler refused");
    }
}

static void write_error_data(const struct desk_order *place, const struct report *report,
                             const char *reason, struct ec_json_writer *data)
{
    bool to_time = place->order.kind == ORDER_ROLLBACK && place->order.u.back.checkpoint == 0;

    ec_json_object_begin(data);
    ec_json_member_string(data, "param",
                          to_time                               ? "game_ns"
                          : place->order.kind == ORDER_ROLLBACK ? "checkpoint_id"
                                                                : "name");
    ec_json_member_string(data, "reason", reason);
    if (to_time) {
        ec_json_member_i64(data, "min", report->low_ns);
        ec_json_member_i64(data, "max", report->high_ns);
    }
    ec_json_object_end(data);
}

/* ---- orders and reports ---------------------------------------------------------------------- */

static void on_asker_gone(void *context)
{
    struct desk_order *place = context;

    place->reply = NULL;
}

static struct desk_order *take_place(struct desk *desk, const struct order *order)
{
    for (uint32_t i = 0; i < MAILBOX_PLACES && mailbox_room(&desk->scheduler->mailbox); i++) {
        struct desk_order *place = &desk->orders[i];

        if (place->used)
            continue;
        *place = (struct desk_order) { .used = true, .order = *order };
        place->order.token = i;
        return place;
    }
    return NULL;
}

static void free_place(struct desk_order *place)
{
    if (place->order.kind == ORDER_CHECKPOINT)
        free(place->order.u.copy);
    place->used = false;
}

static void post(struct desk *desk, struct desk_order *place)
{
    mailbox_post(&desk->scheduler->mailbox, &place->order);
    scheduler_kick(desk->scheduler);
}

int desk_request(struct request *request, const struct order *order, const char *name)
{
    struct desk *desk = request->services->scheduler->desk;
    struct desk_order *place;
    int rc;

    if (request->dry_run)
        return desk_rehearse(request, order, name);
    place = desk->requests < DESK_REQUESTS ? take_place(desk, order) : NULL;
    if (place == NULL)
        return ec_fail(request->why, EC_ERR_BUSY, "%d changes of the clocks are on their way",
                       DESK_REQUESTS);
    if (name != NULL)
        snprintf(place->name, sizeof place->name, "%s", name);
    if (order->kind == ORDER_CHECKPOINT) {
        place->order.u.copy = calloc(1, sizeof(struct checkpoint));
        if (place->order.u.copy == NULL) {
            place->used = false;
            return ec_fail(request->why, EC_ERR_MEMORY, "no memory for a checkpoint");
        }
    }
    rc = request_defer(request, on_asker_gone, place, &place->reply);
    if (rc < 0) {
        free_place(place);
        return rc;
    }
    place->is_request = true;
    desk->requests++;
    post(desk, place);
    return rc;
}

void desk_post(struct desk *desk, const struct order *order)
{
    struct desk_order *place = take_place(desk, order);

    if (place == NULL)
        abort(); /* members and requests together are fewer than places */
    post(desk, place);
}

/* What the desk knows of the clocks follows what the thread has done. */
static void note(struct desk *desk, const struct desk_order *place, const struct report *report)
{
    const struct order *order = &place->order;
    struct desk_checkpoint *checkpoint;

    switch (order->kind) {
    case ORDER_PAUSE:
    case ORDER_RESUME:
        desk->paused = order->kind == ORDER_PAUSE;
        break;
    case ORDER_SCALE:
        desk->scale = (struct desk_ratio) { order->u.ratio.num, order->u.ratio.den };
        break;
    case ORDER_CREATE:
        desk->clocks[report->clock] = order->u.create.clock;
        desk->clock_count = report->clock + 1;
        desk->periods[report->clock] =
            (struct desk_ratio) { order->u.create.period_num, order->u.create.period_den };
        break;
    case ORDER_CHECKPOINT:
        checkpoint = &desk->checkpoints[report->checkpoint % SCHEDULER_CHECKPOINTS];
        *checkpoint =
            (struct desk_checkpoint) { .id = report->checkpoint, .game_ns = report->game_ns };
        memcpy(checkpoint->name, place->name, sizeof checkpoint->name);
        if (order->u.copy != NULL)
            desk_heritage_checkpoint(desk, order->u.copy, place->name);
        desk->last_checkpoint = report->checkpoint;
        break;
    case ORDER_ROLLBACK:
        for (unsigned i = 0; i < SCHEDULER_CHECKPOINTS; i++)
            if (desk->checkpoints[i].id != 0 && desk->checkpoints[i].game_ns > report->game_ns) {
                heritage_checkpoint_remove(desk->services->heritage, desk->checkpoints[i].id);
                desk->checkpoints[i].id = 0;
            }
        desk_timers_set_back(desk, report);
        break;
    case ORDER_LEAVE:
        desk_member_left(desk, order->clock);
        break;
    case ORDER_RATE:
        desk->periods[order->clock] =
            (struct desk_ratio) { order->u.ratio.num, order->u.ratio.den };
        break;
    case ORDER_ADVANCE:
    case ORDER_JOIN:
        break;
    }
    if (order->kind != ORDER_JOIN && order->kind != ORDER_LEAVE)
        desk_heritage_write(desk);
}

static void write_checkpoint(const struct desk *desk, const struct report *report,
                             struct ec_json_writer *writer)
{
    ec_json_object_begin(writer);
    ec_json_member_u64(writer, "checkpoint_id", report->checkpoint);
    ec_json_member_i64(writer, "game_ns", report->game_ns);
    ec_json_member_object(writer, "steps");
    for (uint32_t i = 0; i < desk->clock_count; i++) {
        ec_json_key_n(writer, desk->clocks[i].name, strlen(desk->clocks[i].name));
        ec_json_u64(writer, report->step[i]);
    }
    ec_json_object_end(writer);
    ec_json_object_end(writer);
}

static int write_change(struct desk *desk, const struct report *report,
                        struct ec_json_writer *writer, struct ec_error *why)
{
    int rc;

    ec_json_object_begin(writer);
    if (report->effective_ns == EC_CLOCK_NEVER)
        ec_json_member_null(writer, "effective_real_ns");
    else
        ec_json_member_i64(writer, "effective_real_ns", report->effective_ns);
    if (report->kind == ORDER_ADVANCE)
        ec_json_member_u64(writer, "advanced", report->steps);
    rc = desk_write_clocks(desk, writer, why);
    if (rc == EC_OK)
        ec_json_object_end(writer);
    return rc;
}

static void answer(struct desk *desk, struct desk_order *place, const struct report *report)
{
    struct reply *reply = place->reply;
    struct ec_error why = { 0 };
    int rc = EC_OK;

    if (report->rc < 0) {
        explain(desk, place, report, &why);
        write_error_data(place, report, why.text, reply_data(reply));
        reply_fail(reply, &why);
        return;
    }
    if (report->kind == ORDER_CHECKPOINT)
        write_checkpoint(desk, report, reply_result(reply));
    else
        rc = write_change(desk, report, reply_result(reply), &why);
    if (rc < 0)
        reply_fail(reply, &why);
    else
        reply_finish(reply);
}

static void collect(struct desk *desk)
{
    struct report report;

    while (mailbox_collect(&desk->scheduler->mailbox, &report)) {
        struct desk_order *place = &desk->orders[report.token];

        if (report.rc == EC_OK)
            note(desk, place, &report);
        if (place->reply != NULL)
            answer(desk, place, &report);
        desk->requests -= place->is_request;
        free_place(place);
    }
}

/* ---- what the thread counts becomes events --------------------------------------------------- */

static void tell_skipped(struct desk *desk)
{
    const struct scheduler *scheduler = desk->scheduler;

    for (uint32_t i = 0; i < desk->clock_count; i++) {
        uint64_t total =
            atomic_load_explicit(&scheduler->state.clock[i].missed, memory_order_relaxed);
        struct event_clock_skipped event = {
            .step = { atomic_load_explicit(&scheduler->page->step[i].step, memory_order_relaxed) },
            .skipped = { total - desk->missed_told[i] },
            .total = { total },
        };

        if (total == desk->missed_told[i])
            continue;
        desk->missed_told[i] = total;
        memcpy(event.clock, desk->clocks[i].name, sizeof event.clock);
        events_publish_system(desk->services->events, EC_SYSTEM_clock_skipped, &event);
    }
}

static void tell_gaps(struct desk *desk)
{
    const struct scheduler_state *state = &desk->scheduler->state;
    uint64_t count = atomic_load_explicit(&state->discontinuities, memory_order_relaxed);
    struct event_clock_discontinuity event = {
        .gap_ns = { atomic_load_explicit(&state->gap_ns, memory_order_relaxed) },
    };
    struct ec_game_snapshot game;

    if (count == desk->discontinuities_told)
        return;
    desk->discontinuities_told = count;
    if (ec_clock_read_game(desk->scheduler->page, ec_real_ns(), &game) == EC_OK)
        event.epoch[0] = game.epoch;
    log_warning("scheduler", "time stood still for %" PRId64 " ms; late steps were left out",
                event.gap_ns[0] / 1000000);
    events_publish_system(desk->services->events, EC_SYSTEM_clock_discontinuity, &event);
}

static void on_news(uv_poll_t *poll, int status, int events)
{
    struct desk *desk = poll->data;
    uint64_t count;
    ssize_t bytes = read(desk->scheduler->news_fd, &count, sizeof count);

    (void)bytes;
    (void)status;
    (void)events;
    collect(desk);
    tell_skipped(desk);
    tell_gaps(desk);
    desk_tell_releases(desk);
    desk_fire_timers(desk);
}

/* ---- life ------------------------------------------------------------------------------------ */

static void client_left(void *context, struct client *client)
{
    desk_client_left(context, client);
}

static void client_ended(void *context, struct client *client)
{
    desk_timers_ended(context, client);
}

static void client_resumed(void *context, struct client *client)
{
    desk_timers_resumed(context, client);
}

static void describe_client(void *context, struct client *client, struct ec_json_writer *writer)
{
    desk_describe_client(context, client, writer);
}

static int poll_news(struct desk *desk, struct ec_error *why)
{
    int rc;

    desk->news = calloc(1, sizeof *desk->news);
    if (desk->news == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory for a poll handle");
    rc = uv_poll_init(desk->services->loop, desk->news, desk->scheduler->news_fd);
    if (rc < 0) {
        free(desk->news);
        desk->news = NULL;
        return ec_fail(why, EC_ERR_SYSTEM, "poll the scheduler: %s", uv_strerror(rc));
    }
    desk->news->data = desk;
    uv_poll_start(desk->news, UV_READABLE, on_news);
    uv_unref((uv_handle_t *)desk->news);
    return EC_OK;
}

int desk_open(struct services *services, const struct clock_heritage *heritage,
              struct ec_error *why)
{
    static const struct client_hooks hooks = { .left = client_left,
                                               .ended = client_ended,
                                               .resumed = client_resumed,
                                               .describe = describe_client };
    struct scheduler *scheduler = services->scheduler;
    struct desk *desk = calloc(1, sizeof *desk);
    int rc;

    if (desk == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "scheduler: %zu bytes", sizeof *desk);
    desk->services = services;
    desk->scheduler = scheduler;
    scheduler->desk = desk;
    desk->scale = (struct desk_ratio) { scheduler->state.scale_num, scheduler->state.scale_den };
    desk->paused = scheduler->state.paused;
    desk->clock_count = scheduler->state.clock_count;
    for (uint32_t i = 0; i < desk->clock_count; i++) {
        memcpy(desk->clocks[i].name, scheduler->state.snapshot.step[i].name, EC_STEP_NAME_BYTES);
        desk->clocks[i].source = scheduler->state.snapshot.step[i].source;
        desk->clocks[i].late = scheduler->state.clock[i].late;
        desk->clocks[i].burst = scheduler->state.clock[i].burst;
        desk->clocks[i].halvable = scheduler->state.clock[i].halvable;
        desk->clocks[i].spin_ns = scheduler->state.clock[i].spin_ns;
        desk->periods[i] = (struct desk_ratio) { scheduler->state.clock[i].period_num,
                                                 scheduler->state.clock[i].period_den };
        desk->missed_told[i] =
            atomic_load_explicit(&scheduler->state.clock[i].missed, memory_order_relaxed);
    }
    rc = timers_create((uint32_t)config_integer(services->config, EC_CONFIG_scheduler_timers),
                       &desk->timers, why);
    if (rc == EC_OK)
        rc = clients_add_hooks(services->clients, &hooks, desk);
    if (rc == EC_OK)
        rc = poll_news(desk, why);
    if (rc == EC_OK)
        rc = desk_heritage_open(desk, heritage, why);
    return rc;
}

static void on_closed(uv_handle_t *handle)
{
    free(handle);
}

void desk_close(struct desk *desk)
{
    if (desk == NULL)
        return;
    desk_heritage_close(desk);
    if (desk->news != NULL)
        uv_close((uv_handle_t *)desk->news, on_closed);
    for (uint32_t i = 0; i < SCHEDULER_MEMBERS; i++)
        if (desk->members[i].used)
            munmap(desk->members[i].map, desk->members[i].map_bytes);
    for (uint32_t i = 0; i < MAILBOX_PLACES; i++)
        if (desk->orders[i].used)
            free_place(&desk->orders[i]);
    desk_ledger_close(desk);
    timers_destroy(desk->timers);
    free(desk);
}
