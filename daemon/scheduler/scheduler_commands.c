/* scheduler_commands.c - clock.get. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "daemon/request.h"
#include "foundation/real_time.h"
#include "scheduler/scheduler_private.h"
#include "segment/clock_arithmetic.h"
#include "segment/clock_page.h"
#include "segment/histogram.h"

static void write_jitter(const struct scheduler_clock *clock, struct ec_json_writer *writer)
{
    struct ec_histogram_sum sum = { 0 };
    struct ec_percentiles percentiles;

    ec_histogram_sum_add(&sum, &clock->jitter);
    ec_histogram_percentiles(&sum, &percentiles);
    ec_json_member_object(writer, "jitter_ns");
    ec_json_member_u64(writer, "p50", percentiles.p50_ns);
    ec_json_member_u64(writer, "p99", percentiles.p99_ns);
    ec_json_member_u64(writer, "p999", percentiles.p999_ns);
    ec_json_member_u64(writer, "max", percentiles.max_ns);
    ec_json_member_u64(writer, "count", percentiles.count);
    ec_json_object_end(writer);
}

static void write_step(const struct scheduler *scheduler, uint32_t i,
                       const struct ec_step_snapshot *step, struct ec_json_writer *writer)
{
    const struct scheduler_clock *clock = &scheduler->state.clock[i];
    uint64_t num, den;
    char rate[48];

    ec_rate_of_period(step->period_num, step->period_den, &num, &den);
    snprintf(rate, sizeof rate, "%" PRIu64 "/%" PRIu64, num, den);
    ec_json_object_begin(writer);
    ec_json_member_string_n(writer, "name", step->name, strnlen(step->name, sizeof step->name));
    ec_json_member_string(writer, "rate", rate);
    ec_json_member_real(writer, "hz", (double)num / (double)den);
    ec_json_member_string(writer, "source", step->source == EC_STEP_GAME ? "game" : "real");
    ec_json_member_u64(writer, "step",
                       atomic_load_explicit(&scheduler->page->step[i].step, memory_order_relaxed));
    ec_json_member_u64(writer, "missed",
                       atomic_load_explicit(&clock->missed, memory_order_relaxed));
    ec_json_member_i64(writer, "base_ns", step->base_ns);
    write_jitter(clock, writer);
    ec_json_object_end(writer);
}

int scheduler_write_clocks(const struct scheduler *scheduler, struct ec_json_writer *writer,
                           struct ec_error *why)
{
    struct ec_game_snapshot game;
    struct ec_step_snapshot step;
    int64_t real_ns;

    if (ec_clock_read_game(scheduler->page, &game) != EC_OK)
        return ec_fail(why, EC_ERR_BUSY, "the clock page changes too fast to be read");
    real_ns = ec_real_ns();
    ec_json_object_begin(writer);
    ec_json_member_i64(writer, "real_ns", real_ns);
    ec_json_member_i64(writer, "game_ns", ec_game_at(&game, real_ns));
    ec_json_member_real(writer, "scale", (double)game.scale_num / (double)game.scale_den);
    ec_json_member_boolean(writer, "paused", game.paused != 0);
    ec_json_member_u64(writer, "rollback_epoch", game.epoch);
    ec_json_member_u64(
        writer, "discontinuities",
        atomic_load_explicit(&scheduler->state.discontinuities, memory_order_relaxed));
    ec_json_member_array(writer, "steps");
    for (uint32_t i = 0; i < scheduler->state.clock_count; i++) {
        if (ec_clock_read_step(scheduler->page, i, &game, &step) != EC_OK)
            return ec_fail(why, EC_ERR_BUSY, "the clock page changes too fast to be read");
        write_step(scheduler, i, &step, writer);
    }
    ec_json_array_end(writer);
    ec_json_object_end(writer);
    return EC_OK;
}

int cmd_clock_get(struct request *request)
{
    return scheduler_write_clocks(request->services->scheduler, request->result, request->why);
}
