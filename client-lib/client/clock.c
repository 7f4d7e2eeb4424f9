/* clock.c - time as a game sees it, from the clock page.
 *
 * Waiting for a step:
 *
 *     word changed ---- new step? ------------------------------> answer
 *     |
 *     sleep on the word until the time-out, or until the next step is due
 *     |
 *     just now, and the one before was announced ---------------> answer
 *     |
 *     sleep on the word until the time-out, or for the grace
 *     |
 *     that step was not announced ------------------------------> answer by own arithmetic, `stale`
 *
 * The daemon and its clients compute steps from the same snapshot, so it does not matter who says
 * that a step is there: a sleeper is woken by its own timer, which is one wake-up, and does not wait
 * for the scheduler to be woken by its own and to wake it. It is one step ahead of the announcements
 * at most, and only by OWN_LATE_NS; what is later is for the daemon to tell, which may leave steps out
 * or stretch time. tests/models/step_ahead.pml is the model.
 *
 * Once the daemon was found missing, steps are answered at their due time, without the grace, until
 * it announces one again. Where members of a group may hold steps back, nobody is ahead, and a late
 * step says nothing: the daemon is missing when its heartbeat is.
 *
 * A member with a phase does not want to be woken by the step: it sleeps until its own moment, and is
 * woken before that only by changes of another kind. */
#include <engine-core/clock.h>

#include <string.h>

#include "client/client.h"
#include "client/step_member.h"
#include "foundation/futex.h"
#include "foundation/real_time.h"
#include "segment/clock_arithmetic.h"
#include "segment/clock_page.h"

/* How late the daemon may be before a client helps itself. A host under full load delays a thread of
 * the default class by some ten milliseconds; helping too early would only raise `stale`. Without
 * a connection it is hardly alive. */
#define GRACE_NS INT64_C(100000000)
#define GRACE_DISCONNECTED_NS INT64_C(5000000)
#define OWN_LATE_NS INT64_C(1000000) /* changes are announced at least 2 ms before their effect */
#define FIND_TRIES 64 /* a slow clock of many steps changes the page at each of them */
#define HEARTBEAT_LOST_NS INT64_C(600000000) /* it comes each 250 ms, whatever is due */

int64_t ec_time_real(void)
{
    return ec_real_ns();
}

int64_t ec_time_wall(void)
{
    return ec_wall_ns();
}

int64_t ec_time_game(const struct ec_client *client)
{
    int64_t now_ns = ec_client_now_ns(client); /* first: a call between would spill the snapshot */
    struct ec_game_snapshot game;

    if (ec_clock_read_game(ec_client_clock(client), now_ns, &game) != EC_OK || game.scale_den == 0)
        return EC_TIME_NONE;
    return ec_game_at(&game, now_ns);
}

uint64_t ec_time_epoch(const struct ec_client *client)
{
    struct ec_game_snapshot game;

    return ec_clock_read_game(ec_client_clock(client), ec_client_now_ns(client), &game) == EC_OK
               ? game.epoch
               : 0;
}

int ec_time_read(const struct ec_client *client, struct ec_time *now)
{
    int64_t now_ns = ec_client_now_ns(client);
    struct ec_game_snapshot game;

    if (ec_clock_read_game(ec_client_clock(client), now_ns, &game) != EC_OK || game.scale_den == 0)
        return EC_AGAIN;
    *now = (struct ec_time) {
        .real_ns = now_ns,
        .game_ns = ec_game_at(&game, now_ns),
        .epoch = game.epoch,
        .scale = (double)game.scale_num / (double)game.scale_den,
    };
    return EC_OK;
}

void ec_client_use_time(struct ec_client *client, const struct ec_time_source *source)
{
    client->time = source;
}

/* A clock as it is now: by the page, and by what the daemon announced. */
struct view {
    struct ec_clock_view page;
    struct ec_step_news news;
    bool in_change; /* news belongs to another epoch than page: the daemon is changing both */
    int64_t now_ns; /* real time */
};

static const struct ec_step_word *word_of(const struct ec_step_clock *clock)
{
    return &ec_client_clock(clock->client)->step[clock->index];
}

static int view_read(const struct ec_step_clock *clock, struct view *view)
{
    int rc;

    /* First: a change is announced before its effect, so the page that follows tells of all that has one
     * at this moment. */
    view->now_ns = ec_client_now_ns(clock->client);
    rc = ec_step_word_read(word_of(clock), &view->news);
    if (ec_clock_read_view(ec_client_clock(clock->client), clock->index, &view->page) != EC_OK ||
        !ec_clock_view_valid(&view->page)) /* changed too fast, or not written yet */
        return EC_AGAIN;
    view->in_change = rc != EC_OK || view->news.epoch != view->page.game.epoch;
    return EC_OK;
}

static int find_once(struct ec_client *client, const char *name, struct ec_step_clock *clock)
{
    const struct ec_clock_page *page = ec_client_clock(client);
    struct ec_clock_view view;
    struct ec_step_news news;

    for (uint32_t i = 0; i < EC_STEP_CLOCKS_MAX; i++) {
        const char *found = view.step.name;

        if (ec_clock_read_view(page, i, &view) != EC_OK)
            return EC_AGAIN;
        if (strnlen(name, sizeof view.step.name) == sizeof view.step.name ||
            strncmp(found, name, sizeof view.step.name) != 0 || name[0] == '\0')
            continue;
        if (ec_step_word_read(&page->step[i], &news) != EC_OK)
            return EC_AGAIN;
        *clock = (struct ec_step_clock) {
            .client = client,
            .newest = (const uint64_t *)&page->step[i].step,
            .seen = news.step,
            .epoch = news.epoch,
            .skipped = news.skipped,
            .index = i,
            .breaker_level = ec_breaker_level(client),
            .bell_fd = -1,
        };
        return EC_OK;
    }
    return EC_ERR_NOT_FOUND;
}

int ec_step_find(struct ec_client *client, const char *name, struct ec_step_clock *clock)
{
    int rc = EC_AGAIN;

    for (unsigned i = 0; i < FIND_TRIES && rc == EC_AGAIN; i++)
        rc = find_once(client, name, clock);
    return rc;
}

/* Tell the daemon how far this client is. */
static void publish_pulse(const struct ec_client *client, uint64_t step, int64_t now_ns)
{
    struct ec_client_segment *own = client->own.base;

    atomic_store_explicit(&own->pulse.step, step, memory_order_relaxed);
    atomic_store_explicit(&own->pulse.step_ns, now_ns, memory_order_relaxed);
}

/* What events are stamped with, should their publisher be ahead of the page. A step that another thread was
 * told of before its announcement stays until it is announced, whatever this one was told; after a change of
 * the epoch it means nothing any more.
 *
 * Release: pairs with the acquire. Who sees the other thread's step sees the page that it was the next one
 * of, or a later one. */
static void note_taken(const struct ec_step_clock *clock, bool epoch_changed)
{
    _Atomic uint64_t *first = &clock->client->first_taken;
    uint64_t noted;

    if (clock->index != 0)
        return;
    noted = atomic_load_explicit(first, memory_order_acquire);
    while ((epoch_changed ||
            noted != atomic_load_explicit(&word_of(clock)->step, memory_order_relaxed) + 1) &&
           !atomic_compare_exchange_weak_explicit(first, &noted, clock->taken, memory_order_release,
                                                  memory_order_acquire))
        continue;
}

static int64_t grace_ns(const struct ec_step_clock *clock)
{
    return ec_client_state(clock->client) == EC_CONNECTED ? GRACE_NS : GRACE_DISCONNECTED_NS;
}

/* Whether a step that has been due for so long proves that the daemon is gone. */
static bool is_proof(const struct ec_step_clock *clock, const struct view *view, int64_t late_ns)
{
    const struct ec_clock_page *page = ec_client_clock(clock->client);
    int64_t heartbeat_ns = atomic_load_explicit(&page->heartbeat_ns, memory_order_relaxed);

    if (late_ns <= grace_ns(clock))
        return false;
    if (atomic_load_explicit(&word_of(clock)->required, memory_order_relaxed) == 0 ||
        ec_client_state(clock->client) != EC_CONNECTED)
        return true;
    return view->now_ns - heartbeat_ns > HEARTBEAT_LOST_NS;
}

/* Whether the step after the announced one has been due for longer than the grace. */
static bool daemon_is_missing(struct ec_step_clock *clock, const struct view *view)
{
    uint64_t announced = view->news.step;
    int64_t due_ns = ec_clock_view_due_ns(&view->page, announced + 1);

    if (clock->stale && announced == clock->announced)
        return true; /* still */
    clock->announced = announced;
    clock->stale = view->now_ns > due_ns && is_proof(clock, view, view->now_ns - due_ns);
    return clock->stale;
}

/* Whether nobody may hold the next step back. */
static bool comes_by_itself(const struct ec_step_clock *clock)
{
    return atomic_load_explicit(&word_of(clock)->required, memory_order_relaxed) == 0;
}

/* Whether just the step after the announced one was reached, a moment ago. */
static bool is_next_there(const struct ec_step_clock *clock, const struct view *view)
{
    const uint64_t next = view->news.step + 1;
    const int64_t late_ns = view->now_ns - ec_clock_view_due_ns(&view->page, next);

    return late_ns >= 0 && late_ns <= OWN_LATE_NS && comes_by_itself(clock) &&
           ec_step_at(&view->page.step, ec_clock_view_source_ns(&view->page, view->now_ns)) == next;
}

/* The announced step, or the one after it if that was taken before its announcement. */
static uint64_t step_with_taken(struct ec_step_clock *clock, const struct view *view)
{
    if (clock->taken != view->news.step + 1) /* it was announced meanwhile */
        clock->taken = 0;
    if (is_next_there(clock, view))
        clock->taken = view->news.step + 1;
    return clock->taken != 0 ? clock->taken : view->news.step;
}

/* The newest step: what the daemon announced or is about to, or what it would have if it is missing;
 * for a member with a phase, what it would have announced that much earlier. */
static uint64_t newest_step(struct ec_step_clock *clock, const struct view *view)
{
    bool missing = daemon_is_missing(clock, view);
    uint64_t reached;

    if (!missing && clock->phase_ns == 0)
        return step_with_taken(clock, view);
    clock->taken = 0;
    reached = ec_step_at(&view->page.step,
                         ec_clock_view_source_ns(&view->page, view->now_ns - clock->phase_ns));
    return missing || reached < view->news.step ? reached : view->news.step;
}

/* Time went back or stood still: what was before has no difference to what is now. */
static bool take_epoch(struct ec_step_clock *clock, const struct view *view)
{
    if (view->news.epoch == clock->epoch)
        return false;
    clock->epoch = view->news.epoch;
    if (view->page.step.source == EC_STEP_GAME || clock->taken != view->news.step + 1)
        clock->taken = 0; /* steps of real time do not go back with game time: it stays told */
    clock->seen = clock->taken != 0 ? clock->taken : view->news.step;
    clock->skipped = view->news.skipped;
    clock->stale = false;
    clock->announced = view->news.step;
    return true;
}

/* Fill in what the caller is told. Whether there is anything new. */
static bool take_step(struct ec_step_clock *clock, const struct view *view, struct ec_step *step)
{
    bool epoch_changed = take_epoch(clock, view);
    uint64_t newest = epoch_changed ? clock->seen : newest_step(clock, view);
    uint32_t level = ec_breaker_level(clock->client);
    /* A daemon that began anew may know of fewer than were told. */
    uint64_t skipped =
        view->news.skipped > clock->skipped ? view->news.skipped - clock->skipped : 0;

    if (newest < clock->seen || newest < clock->start_at)
        newest = clock->seen; /* the daemon catches up with what was computed here, or not yet */
    if (newest == clock->seen)
        skipped = 0;
    else if (skipped >
             newest - clock->seen - 1) /* of those, one was taken before it was left out */
        skipped = newest - clock->seen - 1;
    *step = (struct ec_step) {
        .step = newest,
        .steps_passed = newest - clock->seen,
        .steps_skipped = skipped,
        .due_ns = ec_step_due_ns(&view->page.step, newest),
        .epoch = clock->epoch,
        .breaker_level = level,
        .breaker_changed = level != clock->breaker_level,
        .epoch_changed = epoch_changed,
        .stale = clock->stale,
    };
    if (newest != clock->seen)
        clock->skipped = view->news.skipped;
    clock->seen = newest;
    clock->breaker_level = level;
    if (clock->joined && (epoch_changed || step->steps_passed > 0))
        ec_step_member_woken(clock, newest,
                             ec_clock_view_due_ns(&view->page, newest) + clock->phase_ns,
                             view->now_ns);
    return step->steps_passed > 0 || step->breaker_changed || epoch_changed;
}

/* What to sleep for. */
struct nap {
    int64_t until_ns;
    uint32_t bits;
};

static struct nap nap_of(const struct ec_step_clock *clock, const struct view *view)
{
    struct nap nap = { .bits = EC_STEP_WAKE_STEP | EC_STEP_WAKE_CHANGE };
    uint64_t next = clock->seen + 1 > clock->start_at ? clock->seen + 1 : clock->start_at;
    int64_t due_ns = ec_clock_view_due_ns(&view->page, next);

    if (due_ns > INT64_MAX - GRACE_NS - clock->phase_ns) {
        nap.until_ns = INT64_MAX;
        return nap;
    }
    nap.until_ns = due_ns + clock->phase_ns;
    if (view->now_ns < nap.until_ns && (clock->phase_ns > 0 || comes_by_itself(clock))) {
        if (clock->phase_ns > 0)
            nap.bits = EC_STEP_WAKE_CHANGE;
        return nap;
    }
    if (!clock->stale)
        nap.until_ns += grace_ns(clock) + 1;
    /* A step that is held back is waited for; only the heartbeat has to be looked at. */
    if (!clock->stale && nap.until_ns <= view->now_ns)
        nap.until_ns = view->now_ns + GRACE_NS;
    return nap;
}

static void sleep_on(const struct ec_step_clock *clock, uint32_t change, uint32_t bits,
                     int64_t until_ns)
{
    const struct ec_time_source *time = clock->client->time;

    if (time != NULL)
        time->sleep_until(time->context, until_ns);
    else
        ec_futex_wait_for(&word_of(clock)->change, change, bits, until_ns);
}

/* A daemon that ended between a new epoch and its steps leaves the rest to the arithmetic. */
static void settle(const struct ec_step_clock *clock, struct view *view)
{
    const struct ec_clock_page *page = ec_client_clock(clock->client);
    int64_t heartbeat_ns = atomic_load_explicit(&page->heartbeat_ns, memory_order_relaxed);

    if (ec_client_state(clock->client) == EC_CONNECTED &&
        view->now_ns - heartbeat_ns <= HEARTBEAT_LOST_NS)
        return;
    view->news.epoch = view->page.game.epoch;
    view->news.step =
        ec_step_at(&view->page.step, ec_clock_view_source_ns(&view->page, view->now_ns));
    view->in_change = false;
}

int ec_step_wait_until(struct ec_step_clock *clock, int64_t deadline_ns, struct ec_step *step)
{
    ec_step_done(clock);
    *step = (struct ec_step) { .step = clock->seen, .epoch = clock->epoch };
    for (;;) {
        uint32_t change = ec_step_word_change(word_of(clock));
        struct nap nap = { deadline_ns, EC_STEP_WAKE_STEP | EC_STEP_WAKE_CHANGE };
        struct view view;

        if (view_read(clock, &view) == EC_OK) {
            if (view.in_change)
                settle(clock, &view);
            if (!view.in_change && take_step(clock, &view, step)) {
                note_taken(clock, step->epoch_changed);
                publish_pulse(clock->client, step->step, view.now_ns);
                return EC_OK;
            }
            nap = nap_of(clock, &view);
        }
        if (ec_client_now_ns(clock->client) >= deadline_ns)
            return EC_ERR_TIMEOUT;
        sleep_on(clock, change, nap.bits, nap.until_ns < deadline_ns ? nap.until_ns : deadline_ns);
    }
}

int ec_step_wait(struct ec_step_clock *clock, int64_t timeout_ns, struct ec_step *step)
{
    return ec_step_wait_until(clock, ec_deadline_ns(ec_client_now_ns(clock->client), timeout_ns),
                              step);
}

double ec_step_alpha(const struct ec_step_clock *clock)
{
    struct view view;
    uint64_t newest;

    if (view_read(clock, &view) != EC_OK)
        return 0.0;
    newest = view.news.step;
    if (newest < clock->seen || clock->phase_ns > 0) /* computed here, or told later */
        newest = clock->seen;
    return ec_step_fraction(&view.page.step, newest,
                            ec_clock_view_source_ns(&view.page, view.now_ns - clock->phase_ns));
}
