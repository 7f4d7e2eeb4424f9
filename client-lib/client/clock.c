/* clock.c - time as a game sees it, from the clock page.
 *
 * Waiting for a step:
 *
 *     word changed ---- new step? ------------------------------> answer
 *     |
 *     sleep on the word until the time-out, or until the next step is due + grace
 *     |
 *     that step was not announced ------------------------------> answer by own arithmetic, `stale`
 *
 * The daemon and its clients compute steps from the same snapshot, so it does not matter who says
 * that a step is there. Once the daemon was found missing, steps are answered at their due time,
 * without the grace, until it announces one again. */
#include <engine-core/clock.h>

#include <string.h>

#include "client/client.h"
#include "foundation/futex.h"
#include "foundation/real_time.h"
#include "segment/clock_arithmetic.h"
#include "segment/clock_page.h"

/* How late the daemon may be before a client helps itself. A host under full load delays a thread of
 * the default class by some ten milliseconds; helping too early would only raise `stale`. Without
 * a connection it is hardly alive. */
#define GRACE_NS INT64_C(100000000)
#define GRACE_DISCONNECTED_NS INT64_C(5000000)

int64_t ec_time_real(void)
{
    return ec_real_ns();
}

int64_t ec_time_game(const struct ec_client *client)
{
    int64_t now_ns = ec_real_ns(); /* first: a call between would spill the snapshot */
    struct ec_game_snapshot game;

    if (ec_clock_read_game(ec_client_clock(client), &game) != EC_OK || game.scale_den == 0)
        return EC_TIME_NONE;
    return ec_game_at(&game, now_ns);
}

uint64_t ec_time_epoch(const struct ec_client *client)
{
    struct ec_game_snapshot game;

    return ec_clock_read_game(ec_client_clock(client), &game) == EC_OK ? game.epoch : 0;
}

/* A clock and its source as they are now. */
struct view {
    struct ec_game_snapshot game;
    struct ec_step_snapshot step;
    int64_t now_ns; /* real time */
};

static int view_read(const struct ec_client *client, uint32_t index, struct view *view)
{
    if (ec_clock_read_step(ec_client_clock(client), index, &view->game, &view->step) != EC_OK)
        return EC_AGAIN;
    if (!ec_game_valid(&view->game) || !ec_step_valid(&view->step))
        return EC_AGAIN; /* not written yet */
    view->now_ns = ec_real_ns();
    return EC_OK;
}

static int64_t view_source_ns(const struct view *view)
{
    return view->step.source == EC_STEP_GAME ? ec_game_at(&view->game, view->now_ns) : view->now_ns;
}

/* The real time at which a step is due; INT64_MAX while its source stands. */
static int64_t view_real_due_ns(const struct view *view, uint64_t step)
{
    int64_t due_ns = ec_step_due_ns(&view->step, step);

    return view->step.source == EC_STEP_GAME ? ec_game_real_ns(&view->game, due_ns) : due_ns;
}

int ec_step_find(struct ec_client *client, const char *name, struct ec_step_clock *clock)
{
    const struct ec_clock_page *page = ec_client_clock(client);
    struct ec_game_snapshot game;
    struct ec_step_snapshot step;

    for (uint32_t i = 0; i < EC_STEP_CLOCKS_MAX; i++) {
        if (ec_clock_read_step(page, i, &game, &step) != EC_OK)
            return EC_AGAIN;
        if (strnlen(name, sizeof step.name) == sizeof step.name ||
            strncmp(step.name, name, sizeof step.name) != 0 || name[0] == '\0')
            continue;
        *clock = (struct ec_step_clock) {
            .client = client,
            .newest = (const uint64_t *)&page->step[i].step,
            .seen = atomic_load_explicit(&page->step[i].step, memory_order_relaxed),
            .index = i,
            .breaker_level = atomic_load_explicit(&page->breaker_level, memory_order_relaxed),
        };
        return EC_OK;
    }
    return EC_ERR_NOT_FOUND;
}

/* Tell the daemon how far this client is. */
static void publish_pulse(const struct ec_client *client, uint64_t step, int64_t now_ns)
{
    struct ec_client_segment *own = client->own.base;

    atomic_store_explicit(&own->pulse.step, step, memory_order_relaxed);
    atomic_store_explicit(&own->pulse.step_ns, now_ns, memory_order_relaxed);
}

static int64_t grace_ns(const struct ec_step_clock *clock)
{
    return ec_client_state(clock->client) == EC_CONNECTED ? GRACE_NS : GRACE_DISCONNECTED_NS;
}

/* Whether the step after the announced one has been due for longer than the grace. */
static bool daemon_is_missing(struct ec_step_clock *clock, const struct view *view,
                              uint64_t announced)
{
    int64_t due_ns = view_real_due_ns(view, announced + 1);

    if (clock->stale && announced == clock->announced)
        return true; /* still */
    clock->announced = announced;
    clock->stale = view->now_ns > due_ns && view->now_ns - due_ns > grace_ns(clock);
    return clock->stale;
}

/* The newest step: what the daemon announced, or what it would have if it is missing. */
static uint64_t newest_step(struct ec_step_clock *clock, const struct view *view)
{
    uint64_t announced = ec_step_index(clock);

    if (!daemon_is_missing(clock, view, announced))
        return announced;
    return ec_step_at(&view->step, view_source_ns(view));
}

/* Fill in what the caller is told. Whether there is anything new. */
static bool take_step(struct ec_step_clock *clock, const struct view *view, struct ec_step *step)
{
    const struct ec_clock_page *page = ec_client_clock(clock->client);
    uint64_t newest = newest_step(clock, view);
    uint32_t level = atomic_load_explicit(&page->breaker_level, memory_order_relaxed);

    if (newest < clock->seen) /* the daemon catches up with what was computed here */
        newest = clock->seen;
    *step = (struct ec_step) {
        .step = newest,
        .steps_passed = newest - clock->seen,
        .due_ns = ec_step_due_ns(&view->step, newest),
        .epoch = view->game.epoch,
        .breaker_level = level,
        .breaker_changed = level != clock->breaker_level,
        .stale = clock->stale,
    };
    clock->seen = newest;
    clock->breaker_level = level;
    return step->steps_passed > 0 || step->breaker_changed;
}

/* Until when to sleep for an announcement of the step after the last one told. */
static int64_t sleep_until_ns(const struct ec_step_clock *clock, const struct view *view,
                              int64_t deadline_ns)
{
    int64_t due_ns = view_real_due_ns(view, clock->seen + 1);

    if (!clock->stale)
        due_ns = due_ns < INT64_MAX - GRACE_NS ? due_ns + grace_ns(clock) + 1 : INT64_MAX;
    return due_ns < deadline_ns ? due_ns : deadline_ns;
}

int ec_step_wait(struct ec_step_clock *clock, int64_t timeout_ns, struct ec_step *step)
{
    const struct ec_step_word *word = &ec_client_clock(clock->client)->step[clock->index];
    int64_t now_ns = ec_real_ns();
    int64_t deadline_ns =
        timeout_ns < 0 || timeout_ns > INT64_MAX - now_ns ? EC_FUTEX_FOREVER : now_ns + timeout_ns;

    *step = (struct ec_step) { .step = clock->seen };
    for (;;) {
        uint32_t change = ec_step_word_change(word);
        int64_t sleep_ns = deadline_ns;
        struct view view;

        if (view_read(clock->client, clock->index, &view) == EC_OK) {
            if (take_step(clock, &view, step)) {
                publish_pulse(clock->client, step->step, view.now_ns);
                return EC_OK;
            }
            sleep_ns = sleep_until_ns(clock, &view, deadline_ns);
        }
        if (ec_real_ns() >= deadline_ns)
            return EC_ERR_TIMEOUT;
        ec_futex_wait(&word->change, change, sleep_ns);
    }
}

double ec_step_alpha(const struct ec_step_clock *clock)
{
    uint64_t newest = ec_step_index(clock);
    struct view view;

    if (newest < clock->seen) /* computed here, while the daemon is missing */
        newest = clock->seen;
    if (view_read(clock->client, clock->index, &view) != EC_OK)
        return 0.0;
    return ec_step_fraction(&view.step, newest, view_source_ns(&view));
}

void ec_frame_begin(struct ec_client *client, struct ec_frame *frame)
{
    struct ec_pulse *pulse = &ec_client_own(client)->pulse;
    uint64_t before = atomic_load_explicit(&pulse->frame, memory_order_relaxed);
    int64_t before_ns = atomic_load_explicit(&pulse->frame_ns, memory_order_relaxed);
    int64_t now_ns = ec_real_ns();

    *frame = (struct ec_frame) {
        .index = before + 1,
        .begin_ns = now_ns,
        .period_ns = before > 0 ? now_ns - before_ns : 0,
    };
    atomic_store_explicit(&pulse->frame_ns, now_ns, memory_order_relaxed);
    atomic_store_explicit(&pulse->frame, frame->index, memory_order_relaxed);
}

void ec_frame_end(struct ec_frame *frame)
{
    frame->work_ns = ec_real_ns() - frame->begin_ns;
}
