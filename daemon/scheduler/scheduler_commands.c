/* scheduler_commands.c - clock.get and the commands that change clocks. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "foundation/real_time.h"
#include "scheduler/desk.h"
#include "scheduler/rational.h"
#include "segment/clock_arithmetic.h"
#include "segment/clock_page.h"
#include "segment/histogram.h"

#define SCALE_DEN_MAX (1ull << 31)
#define SCALE_RANGE "0 to 100"
#define RATE_RANGE "1/3600 to 10000 Hz"
#define SPIN_PERIOD_NS_MIN (1000000000 / 120)

/* ---- clock.get ------------------------------------------------------------------------------- */

static void write_jitter(const char *name, const struct ec_histogram_sum *sum,
                         struct ec_json_writer *writer)
{
    struct ec_percentiles percentiles;

    ec_histogram_percentiles(sum, &percentiles);
    ec_json_member_object(writer, name);
    ec_json_member_u64(writer, "p50", percentiles.p50_ns);
    ec_json_member_u64(writer, "p99", percentiles.p99_ns);
    ec_json_member_u64(writer, "p999", percentiles.p999_ns);
    ec_json_member_u64(writer, "max", percentiles.max_ns);
    ec_json_member_u64(writer, "count", percentiles.count);
    ec_json_object_end(writer);
}

static void write_late(const struct order_clock *desc, struct ec_json_writer *writer)
{
    if (desc->late != LATE_BURST) {
        ec_json_member_string(writer, "late", desc->late == LATE_SLOW ? "slow" : "skip");
        return;
    }
    ec_json_member_object(writer, "late");
    ec_json_member_u64(writer, "burst", desc->burst);
    ec_json_object_end(writer);
}

static unsigned count_members(const struct desk *desk, uint32_t clock)
{
    unsigned count = 0;

    for (uint32_t i = 0; i < SCHEDULER_MEMBERS; i++)
        count +=
            desk->members[i].used && !desk->members[i].leaving && desk->members[i].clock == clock;
    return count;
}

static void write_step(const struct desk *desk, uint32_t i, const struct ec_clock_view *view,
                       struct ec_json_writer *writer)
{
    const struct scheduler *scheduler = desk->scheduler;
    const struct scheduler_clock *clock = &scheduler->state.clock[i];
    const struct ec_step_word *word = &scheduler->page->step[i];
    const struct ec_step_snapshot *step = &view->step;
    struct ec_histogram_sum all = { 0 }, recent = { 0 };
    uint64_t num, den;
    char rate[48];

    ec_rate_of_period(step->period_num, step->period_den, &num, &den);
    snprintf(rate, sizeof rate, "%" PRIu64 "/%" PRIu64, num, den);
    ec_histogram_sum_add(&all, &clock->jitter);
    recent_jitter_sum(&clock->recent, ec_real_ns(), &recent);
    ec_json_object_begin(writer);
    ec_json_member_string(writer, "name", desk->clocks[i].name);
    ec_json_member_string(writer, "rate", rate);
    ec_json_member_real(writer, "hz", (double)num / (double)den);
    ec_json_member_string(writer, "source", step->source == EC_STEP_GAME ? "game" : "real");
    ec_json_member_u64(writer, "step", atomic_load_explicit(&word->step, memory_order_relaxed));
    ec_json_member_u64(writer, "missed",
                       atomic_load_explicit(&clock->missed, memory_order_relaxed));
    write_late(&desk->clocks[i], writer);
    ec_json_member_boolean(writer, "breaker", desk->clocks[i].halvable);
    ec_json_member_i64(writer, "spin_us", desk->clocks[i].spin_ns / 1000);
    ec_json_member_u64(writer, "members", count_members(desk, i));
    ec_json_member_i64(writer, "base_ns", step->base_ns);
    write_jitter("jitter_ns", &all, writer);
    write_jitter("jitter_last_minute_ns", &recent, writer);
    ec_json_object_end(writer);
}

static void write_checkpoints(const struct desk *desk, struct ec_json_writer *writer)
{
    ec_json_member_array(writer, "checkpoints");
    for (unsigned i = 0; i < SCHEDULER_CHECKPOINTS; i++) {
        const struct desk_checkpoint *checkpoint = &desk->checkpoints[i];

        if (checkpoint->id == 0)
            continue;
        ec_json_object_begin(writer);
        ec_json_member_u64(writer, "checkpoint_id", checkpoint->id);
        ec_json_member_string(writer, "name", checkpoint->name);
        ec_json_member_i64(writer, "game_ns", checkpoint->game_ns);
        ec_json_object_end(writer);
    }
    ec_json_array_end(writer);
}

int desk_write_clocks(struct desk *desk, struct ec_json_writer *writer, struct ec_error *why)
{
    const struct scheduler *scheduler = desk->scheduler;
    const struct scheduler_state *state = &scheduler->state;
    int64_t real_ns = ec_real_ns();
    struct ec_game_snapshot game;
    struct ec_clock_view view;

    if (ec_clock_read_game(scheduler->page, real_ns, &game) != EC_OK)
        return ec_fail(why, EC_ERR_BUSY, "the clock page changes too fast to be read");
    ec_json_member_i64(writer, "real_ns", real_ns);
    ec_json_member_i64(writer, "game_ns", ec_game_at(&game, real_ns));
    ec_json_member_real(writer, "scale", (double)desk->scale.num / (double)desk->scale.den);
    ec_json_member_boolean(writer, "paused", desk->paused);
    ec_json_member_u64(writer, "rollback_epoch", game.epoch);
    ec_json_member_u64(writer, "discontinuities",
                       atomic_load_explicit(&state->discontinuities, memory_order_relaxed));
    ec_json_member_u64(writer, "stretched_ns",
                       atomic_load_explicit(&state->stretched_ns, memory_order_relaxed));
    write_checkpoints(desk, writer);
    ec_json_member_u64(writer, "timers", timers_armed(desk->timers));
    ec_json_member_array(writer, "steps");
    for (uint32_t i = 0; i < desk->clock_count; i++) {
        if (ec_clock_read_view(scheduler->page, i, &view) != EC_OK)
            return ec_fail(why, EC_ERR_BUSY, "the clock page changes too fast to be read");
        write_step(desk, i, &view, writer);
    }
    ec_json_array_end(writer);
    return EC_OK;
}

int cmd_clock_get(struct request *request)
{
    int rc;

    ec_json_object_begin(request->result);
    rc = desk_write_clocks(request->services->scheduler->desk, request->result, request->why);
    if (rc == EC_OK)
        ec_json_object_end(request->result);
    return rc;
}

/* ---- parameters ------------------------------------------------------------------------------ */

/* A parameter as a fraction; an error names it and its range. */
static int parse_fraction(struct request *request, const struct param *param, const char *name,
                          const char *range, struct rational *fraction)
{
    struct ec_error why = { 0 };

    if (rational_parse(param->span, range, fraction, &why) == EC_OK)
        return EC_OK;
    return desk_fail_param(request, EC_ERR_PARAM, name, "%s", why.text);
}

/* rate or hz, exactly one of them, as a period. */
static int parse_rate(struct request *request, const struct param *rate, const struct param *hz,
                      uint64_t *period_num, uint64_t *period_den)
{
    const struct param *given = rate->present ? rate : hz;
    const char *name = rate->present ? "rate" : "hz";
    struct rational fraction;
    int rc;

    if (rate->present == hz->present)
        return desk_fail_param(request, EC_ERR_PARAM, "rate", "expected rate or hz, one of them");
    rc = parse_fraction(request, given, name, RATE_RANGE, &fraction);
    if (rc < 0)
        return rc;
    if (ec_period_of_rate(fraction.num, fraction.den, period_num, period_den) < 0)
        return desk_fail_param(request, EC_ERR_PARAM, name,
                               "is %" PRIu64 "/%" PRIu64 " Hz, expected " RATE_RANGE, fraction.num,
                               fraction.den);
    return EC_OK;
}

static int parse_late(struct request *request, const struct param *param, struct order_clock *clock)
{
    struct ec_json_iterator members = ec_json_iterate(param->span);
    struct ec_json_span name, value;
    int64_t burst = -1;
    bool only = true;

    clock->late = LATE_SKIP;
    if (!param->present || ec_json_string_equals(param->span, "skip"))
        return EC_OK;
    if (ec_json_string_equals(param->span, "slow")) {
        clock->late = LATE_SLOW;
        if (clock->source == EC_STEP_GAME)
            return EC_OK;
        return desk_fail_param(request, EC_ERR_PARAM, "late",
                               "real time cannot be slowed; slow needs the source game");
    }
    while (ec_json_type_of(param->span) == EC_JSON_OBJECT &&
           ec_json_next_member(&members, &name, &value))
        if (!ec_json_string_equals(name, "burst") || ec_json_get_i64(value, &burst) < 0)
            only = false;
    if (!only || burst < 0 || burst > 10000)
        return desk_fail_param(request, EC_ERR_PARAM, "late",
                               "expected \"skip\", \"slow\" or {\"burst\": 0 to 10000}");
    clock->late = LATE_BURST;
    clock->burst = (uint32_t)burst;
    return EC_OK;
}

static int check_spin(struct request *request, const char *param, int64_t spin_ns,
                      uint64_t period_num, uint64_t period_den)
{
    if (spin_ns == 0)
        return EC_OK;
    if (request->services->scheduler->rights.priority == 0)
        return desk_fail_param(request, EC_ERR_PERMISSION, param,
                               "only a thread with SCHED_FIFO may stay awake; see core.info");
    if (period_num / period_den < SPIN_PERIOD_NS_MIN)
        return desk_fail_param(request, EC_ERR_PARAM, param,
                               "a clock that stays awake before its steps has at most 120 Hz");
    return EC_OK;
}

static int parse_source(struct request *request, const char *text, uint32_t *source)
{
    *source = strcmp(text, "real") == 0 ? EC_STEP_REAL : EC_STEP_GAME;
    if (*source == EC_STEP_REAL || strcmp(text, "game") == 0)
        return EC_OK;
    return desk_fail_param(request, EC_ERR_PARAM, "source", "is %s, expected real or game", text);
}

/* ---- commands -------------------------------------------------------------------------------- */

int cmd_clock_pause(struct request *request)
{
    return desk_request(request, &(struct order) { .kind = ORDER_PAUSE }, NULL);
}

int cmd_clock_resume(struct request *request)
{
    return desk_request(request, &(struct order) { .kind = ORDER_RESUME }, NULL);
}

int cmd_clock_scale(struct request *request)
{
    const struct params_clock_scale *params = request->params;
    struct order order = { .kind = ORDER_SCALE };
    struct rational scale;
    int rc = parse_fraction(request, &params->scale, "scale", SCALE_RANGE, &scale);

    if (rc < 0)
        return rc;
    if (scale.den > SCALE_DEN_MAX || scale.num > EC_SCALE_MAX * scale.den)
        return desk_fail_param(request, EC_ERR_PARAM, "scale",
                               "is %.*s, expected " SCALE_RANGE " with a denominator up to 2^31",
                               (int)(params->scale.span.bytes < 64 ? params->scale.span.bytes : 64),
                               params->scale.span.text);
    if (scale.num == 0)
        return cmd_clock_pause(request);
    order.u.ratio.num = scale.num;
    order.u.ratio.den = scale.den;
    return desk_request(request, &order, NULL);
}

int cmd_clock_checkpoint(struct request *request)
{
    const struct params_clock_checkpoint *params = request->params;

    return desk_request(request, &(struct order) { .kind = ORDER_CHECKPOINT },
                        params->name.present ? params->name.string : "");
}

int cmd_clock_rollback(struct request *request)
{
    const struct params_clock_rollback *params = request->params;
    struct order order = { .kind = ORDER_ROLLBACK };

    if (params->checkpoint_id.present == params->game_ns.present)
        return desk_fail_param(request, EC_ERR_PARAM, "game_ns",
                               "expected checkpoint_id or game_ns, one of them");
    order.u.back.checkpoint = (uint64_t)params->checkpoint_id.integer;
    order.u.back.game_ns = params->game_ns.integer;
    return desk_request(request, &order, NULL);
}

/* A name stands in messages, metrics and on command lines: printable, no spaces. */
static int check_clock_name(struct request *request, const char *name)
{
    for (const char *at = name; *at != '\0'; at++)
        if ((unsigned char)*at <= ' ' || *at == 0x7f)
            return desk_fail_param(request, EC_ERR_PARAM, "name",
                                   "has a space or control character at byte %td", at - name);
    return EC_OK;
}

int cmd_clock_step_create(struct request *request)
{
    const struct params_clock_step_create *params = request->params;
    struct order order = { .kind = ORDER_CREATE };
    struct order_clock *clock = &order.u.create.clock;
    int rc = parse_rate(request, &params->rate, &params->hz, &order.u.create.period_num,
                        &order.u.create.period_den);

    if (rc == EC_OK)
        rc = parse_source(request, params->source.string, &clock->source);
    if (rc == EC_OK)
        rc = parse_late(request, &params->late, clock);
    clock->spin_ns = params->spin_us.integer * 1000;
    if (rc == EC_OK)
        rc = check_spin(request, "spin_us", clock->spin_ns, order.u.create.period_num,
                        order.u.create.period_den);
    if (rc == EC_OK &&
        (strcmp(params->name.string, "real") == 0 || strcmp(params->name.string, "game") == 0))
        rc = desk_fail_param(request, EC_ERR_PARAM, "name", "real and game are no step clocks");
    if (rc == EC_OK)
        rc = check_clock_name(request, params->name.string);
    if (rc < 0)
        return rc;
    memcpy(clock->name, params->name.string,
           strlen(params->name.string) + 1); /* its row bounds it */
    clock->halvable = params->breaker.boolean;
    return desk_request(request, &order, NULL);
}

int cmd_clock_step_rate(struct request *request)
{
    const struct params_clock_step_rate *params = request->params;
    const struct desk *desk = request->services->scheduler->desk;
    struct order order = { .kind = ORDER_RATE };
    int rc = desk_find_clock(request, "name", params->name.string, &order.clock);

    if (rc == EC_OK)
        rc =
            parse_rate(request, &params->rate, &params->hz, &order.u.ratio.num, &order.u.ratio.den);
    if (rc == EC_OK)
        rc = check_spin(request, params->rate.present ? "rate" : "hz",
                        desk->clocks[order.clock].spin_ns, order.u.ratio.num, order.u.ratio.den);
    return rc < 0 ? rc : desk_request(request, &order, NULL);
}

int cmd_clock_step_advance(struct request *request)
{
    const struct params_clock_step_advance *params = request->params;
    struct order order = { .kind = ORDER_ADVANCE, .u.steps = (uint64_t)params->steps.integer };
    int rc = desk_find_clock(request, "name", params->name.string, &order.clock);

    return rc < 0 ? rc : desk_request(request, &order, NULL);
}
