/* breaker.c - the level, what happens when it changes, and the timer that ends it. */
#include "breaker/breaker.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "daemon/log.h"
#include "daemon/segments.h"
#include "daemon/services.h"
#include "events/events.h"
#include "foundation/real_time.h"
#include "resources/resources.h"
#include "scheduler/scheduler.h"

#define LEVEL_EVICTION 2

struct breaker {
    struct services *services;
    struct ec_clock_page *page;
    uint32_t level;
    int64_t since_ns;
    char reason[BREAKER_REASON_BYTES];
    uv_timer_t timer; /* runs while a level is held for a time */
};

static void breaker_enter(struct breaker *breaker, uint32_t level, const char *reason);
static void tell(struct breaker *breaker, uint32_t from);
static void on_hold_over(uv_timer_t *timer);
static void on_timer_closed(uv_handle_t *handle);

int breaker_init(struct services *services, struct ec_error *why)
{
    struct breaker *breaker = calloc(1, sizeof *breaker);
    int rc;

    if (breaker == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "breaker: %s", strerror(errno));
    rc = uv_timer_init(services->loop, &breaker->timer);
    if (rc < 0) {
        free(breaker);
        return ec_fail(why, EC_ERR_SYSTEM, "timer of the breaker: %s", uv_strerror(rc));
    }
    breaker->timer.data = breaker;
    breaker->services = services;
    breaker->page = segments_clock(services->segments);
    breaker->since_ns = ec_real_ns();
    services->breaker = breaker;
    return EC_OK;
}

/* The timer lies inside: the loop says when it has let go. */
void breaker_shutdown(struct services *services)
{
    struct breaker *breaker = services->breaker;

    if (breaker == NULL)
        return;
    services->breaker = NULL;
    uv_close((uv_handle_t *)&breaker->timer, on_timer_closed);
}

uint32_t breaker_level(const struct breaker *breaker)
{
    return breaker->level;
}

uint64_t breaker_trip(struct breaker *breaker, const struct breaker_trip *trip,
                      struct ec_json_writer *groups)
{
    uint64_t freed_bytes = 0;

    assert(trip->level <= BREAKER_LEVEL_MAX);
    uv_timer_stop(&breaker->timer);
    if (trip->level > 0 && trip->hold_s > 0)
        uv_timer_start(&breaker->timer, on_hold_over, trip->hold_s * UINT64_C(1000), 0);
    breaker_enter(breaker, trip->level, trip->reason);
    if (trip->level >= LEVEL_EVICTION) {
        freed_bytes = resources_evict(breaker->services->resources, UINT64_MAX, groups);
        log_info("breaker", "eviction gave back %" PRIu64 " bytes", freed_bytes);
    }
    return freed_bytes;
}

void breaker_reset(struct breaker *breaker, const char *reason)
{
    uv_timer_stop(&breaker->timer);
    if (breaker->level != 0)
        breaker_enter(breaker, 0, reason);
}

void breaker_state(const struct breaker *breaker, struct breaker_state *state)
{
    const uv_timer_t *timer = &breaker->timer;
    uint64_t left_ms = uv_is_active((const uv_handle_t *)timer) ? uv_timer_get_due_in(timer) : 0;

    *state = (struct breaker_state) {
        .level = breaker->level,
        .since_ns = breaker->since_ns,
        .hold_s = (uint32_t)((left_ms + 999) / 1000),
        .reason = breaker->reason,
    };
}

/* Games see the level first: what follows may take its time. */
static void breaker_enter(struct breaker *breaker, uint32_t level, const char *reason)
{
    const uint32_t from = breaker->level;

    breaker->level = level;
    breaker->since_ns = ec_real_ns();
    memset(breaker->reason, 0, sizeof breaker->reason);
    strncpy(breaker->reason, reason, sizeof breaker->reason - 1);
    /* Release: pairs with the acquire load of ec_breaker_level(). */
    atomic_store_explicit(&breaker->page->breaker_level, level, memory_order_release);
    if (level != from)
        tell(breaker, from);
}

static void tell(struct breaker *breaker, uint32_t from)
{
    struct event_breaker_level event = { .from = { from }, .to = { breaker->level } };

    scheduler_kick(breaker->services->scheduler);
    memcpy(event.reason, breaker->reason, sizeof event.reason);
    events_publish_system(breaker->services->events, EC_SYSTEM_breaker_level, &event);
    if (breaker->level > from)
        log_warning("breaker", "level %u -> %u: %s", from, breaker->level, breaker->reason);
    else
        log_info("breaker", "level %u -> %u: %s", from, breaker->level, breaker->reason);
}

static void on_hold_over(uv_timer_t *timer)
{
    breaker_reset(timer->data, "the time of the manual level is over");
}

static void on_timer_closed(uv_handle_t *handle)
{
    free(handle->data);
}
