/* desk_rehearsal.c - what an order would do, by what the desk knows of the clocks. The thread itself
 * is not asked: it has orders of games to carry out. */
#include <inttypes.h>
#include <string.h>

#include "foundation/real_time.h"
#include "scheduler/desk.h"
#include "segment/clock_arithmetic.h"
#include "segment/clock_page.h"

static int rehearse_rollback(struct request *request, const struct order *order);
static int rehearse_create(struct request *request, const struct order *order);
static int rehearse_advance(struct request *request, const struct order *order);

int desk_rehearse(struct request *request, const struct order *order, const char *name)
{
    const struct desk *desk = request->services->scheduler->desk;
    bool done = false;

    switch (order->kind) {
    case ORDER_PAUSE:
        done = request_would(request, desk->paused ? "leave game time paused" : "pause game time");
        break;
    case ORDER_RESUME:
        done = request_would(request, desk->paused ? "resume game time" : "let game time run on");
        break;
    case ORDER_SCALE:
        done = request_would(
            request, "change the scale from %" PRIu64 "/%" PRIu64 " to %" PRIu64 "/%" PRIu64,
            desk->scale.num, desk->scale.den, order->u.ratio.num, order->u.ratio.den);
        break;
    case ORDER_RATE:
        done =
            request_would(request, "give %s a step each %" PRIu64 "/%" PRIu64 " ns",
                          desk->clocks[order->clock].name, order->u.ratio.num, order->u.ratio.den);
        break;
    case ORDER_CHECKPOINT:
        done = request_would(request, "remember game time as a checkpoint%s%s",
                             name[0] != '\0' ? " named " : "", name);
        break;
    case ORDER_ROLLBACK:
        return rehearse_rollback(request, order);
    case ORDER_CREATE:
        return rehearse_create(request, order);
    case ORDER_ADVANCE:
        return rehearse_advance(request, order);
    case ORDER_JOIN:
    case ORDER_LEAVE:
        break; /* are no requests of their own */
    }
    return done ? EC_OK
                : ec_fail(request->why, EC_ERR_INTERNAL, "an order of kind %d", order->kind);
}

static int rehearse_rollback(struct request *request, const struct order *order)
{
    const struct desk *desk = request->services->scheduler->desk;
    int64_t real_ns = ec_real_ns(), now_ns, low_ns;
    struct ec_game_snapshot game;

    for (unsigned i = 0; i < SCHEDULER_CHECKPOINTS; i++)
        if (desk->checkpoints[i].id != 0 && desk->checkpoints[i].id == order->u.back.checkpoint) {
            request_would(request, "set game time back to %" PRId64 " ns, checkpoint %" PRIu64,
                          desk->checkpoints[i].game_ns, desk->checkpoints[i].id);
            return EC_OK;
        }
    if (order->u.back.checkpoint != 0)
        return desk_fail_param(request, EC_ERR_NOT_FOUND, "checkpoint_id",
                               "no checkpoint %" PRIu64 ", expected one of the last %d",
                               order->u.back.checkpoint, SCHEDULER_CHECKPOINTS);
    if (ec_clock_read_game(desk->scheduler->page, real_ns, &game) != EC_OK)
        return ec_fail(request->why, EC_ERR_BUSY, "the clock page changes too fast to be read");
    now_ns = ec_game_at(&game, real_ns);
    low_ns = now_ns - desk->scheduler->state.history_ns;
    low_ns = low_ns < 0 ? 0 : low_ns;
    if (order->u.back.game_ns < low_ns || order->u.back.game_ns > now_ns)
        return desk_fail_param(request, EC_ERR_NOT_FOUND, "game_ns",
                               "is %" PRId64 ", expected %" PRId64 " to %" PRId64,
                               order->u.back.game_ns, low_ns, now_ns);
    request_would(request, "set game time back by %" PRId64 " ns", now_ns - order->u.back.game_ns);
    return EC_OK;
}

static int rehearse_create(struct request *request, const struct order *order)
{
    const struct desk *desk = request->services->scheduler->desk;
    const char *name = order->u.create.clock.name;

    for (uint32_t i = 0; i < desk->clock_count; i++)
        if (strcmp(desk->clocks[i].name, name) == 0)
            return desk_fail_param(request, EC_ERR_STATE, "name",
                                   "there is a step clock %s already", name);
    if (desk->clock_count == EC_STEP_CLOCKS_MAX)
        return ec_fail(request->why, EC_ERR_LIMIT, "there are %d step clocks already",
                       EC_STEP_CLOCKS_MAX);
    request_would(request, "make the step clock %s with a step each %" PRIu64 "/%" PRIu64 " ns",
                  name, order->u.create.period_num, order->u.create.period_den);
    return EC_OK;
}

static int rehearse_advance(struct request *request, const struct order *order)
{
    const struct desk *desk = request->services->scheduler->desk;
    const struct order_clock *clock = &desk->clocks[order->clock];

    if (!desk->paused || clock->source != EC_STEP_GAME)
        return desk_fail_param(request, EC_ERR_STATE, "name",
                               "step clock %s cannot be advanced: game time must stand "
                               "(clock.pause) and the clock follow it",
                               clock->name);
    request_would(request, "make %" PRIu64 " steps of %s", order->u.steps, clock->name);
    return EC_OK;
}
