/* levels.c - marks, hysteresis, hold times, growth: arithmetic only. */
#include "breaker/levels.h"

#define LOOK_NS_MIN INT64_C(1000000)
#define GROWTH_SPACE_NS INT64_C(7000000) /* readings closer together replace the newest */
#define GROWTH_WINDOW_NS INT64_C(100000000)
#define NS_PER_S 1000000000.0
#define RATE_MAX                                                                                   \
    (UINT64_C(1) << 52) /* no machine is that fast; a number of any size fits a double */

static uint64_t share_bytes(uint64_t total_bytes, uint32_t permille);
static bool is_calm(const struct level_machine *machine, const struct level_marks *marks,
                    const struct level_reading *reading, uint32_t wanted);

uint64_t level_mark_bytes(const struct level_marks *marks, uint32_t level, uint64_t total_bytes)
{
    const uint64_t share = share_bytes(total_bytes, marks->permille[level]);

    return marks->bytes[level] > share ? marks->bytes[level] : share;
}

uint32_t level_permille(uint64_t part, uint64_t whole)
{
    if (part >= whole)
        return 1000;
    return (uint32_t)((double)part / (double)whole * 1000.0);
}

uint32_t level_wanted(const struct level_marks *marks, const struct level_reading *reading,
                      enum ec_breaker_cause *cause)
{
    const uint64_t ceiling = share_bytes(reading->total_bytes, marks->ceiling_permille);
    uint32_t level = LEVEL_EMERGENCY, limit, waits;

    while (level > LEVEL_NORMAL &&
           reading->available_bytes >= level_mark_bytes(marks, level, reading->total_bytes))
        level--;
    *cause = level > LEVEL_NORMAL ? EC_BREAKER_CAUSE_MEMORY : EC_BREAKER_CAUSE_NONE;
    if (level == LEVEL_EMERGENCY || reading->available_bytes >= ceiling)
        return level;
    limit = level == LEVEL_NORMAL ? marks->some_permille : marks->full_permille;
    waits = level == LEVEL_NORMAL ? reading->some_permille : reading->full_permille;
    if (limit == 0 || waits < limit)
        return level;
    *cause = EC_BREAKER_CAUSE_PRESSURE;
    return level + 1;
}

bool level_machine_look(struct level_machine *machine, const struct level_marks *marks,
                        const struct level_reading *reading, int64_t now_ns)
{
    enum ec_breaker_cause cause;
    const uint32_t wanted = level_wanted(marks, reading, &cause);

    if (wanted >= machine->level && wanted > LEVEL_NORMAL)
        machine->cause = cause;
    if (wanted > machine->level) {
        machine->level = wanted;
        machine->since_ns = now_ns;
        machine->calm = false;
        return true;
    }
    if (!is_calm(machine, marks, reading, wanted)) {
        machine->calm = false;
        return false;
    }
    if (!machine->calm) {
        machine->calm = true;
        machine->calm_since_ns = now_ns;
    }
    if (now_ns - machine->calm_since_ns < marks->hold_ns)
        return false;
    machine->level--;
    machine->since_ns = now_ns;
    machine->calm_since_ns = now_ns; /* the next step down has to be earned anew */
    if (machine->level == LEVEL_NORMAL)
        machine->cause = EC_BREAKER_CAUSE_NONE;
    return true;
}

/* Whether a reading allows to fall by one. */
static bool is_calm(const struct level_machine *machine, const struct level_marks *marks,
                    const struct level_reading *reading, uint32_t wanted)
{
    uint64_t enough;

    if (machine->level == LEVEL_NORMAL || wanted >= machine->level)
        return false;
    enough = level_mark_bytes(marks, machine->level, reading->total_bytes) +
             share_bytes(reading->total_bytes, marks->hysteresis_permille);
    /* Marks and hysteresis may add up to more than there is. */
    return reading->available_bytes >=
           (enough < reading->total_bytes ? enough : reading->total_bytes);
}

void growth_add(struct growth *growth, int64_t at_ns, uint64_t available_bytes)
{
    const uint32_t newest = (growth->count - 1) % GROWTH_READINGS,
                   before = (growth->count - 2) % GROWTH_READINGS;

    /* The newest one moves on until it is far enough from the one before it. */
    if (growth->count >= 2 &&
        growth->readings[newest].at_ns - growth->readings[before].at_ns < GROWTH_SPACE_NS)
        growth->count--;
    growth->readings[growth->count % GROWTH_READINGS].at_ns = at_ns;
    growth->readings[growth->count++ % GROWTH_READINGS].available_bytes = available_bytes;
    if (growth->count >= UINT32_MAX - 1) /* keep the place in the ring */
        growth->count = GROWTH_READINGS + growth->count % GROWTH_READINGS;
}

uint64_t growth_bytes_per_s(const struct growth *growth)
{
    const uint32_t held = growth->count < GROWTH_READINGS ? growth->count : GROWTH_READINGS;
    uint32_t newest, oldest;
    int64_t passed_ns;
    double rate;

    if (held < 2)
        return 0;
    newest = (growth->count - 1) % GROWTH_READINGS;
    oldest = (growth->count - 2) % GROWTH_READINGS;
    for (uint32_t back = 3; back <= held; back++) {
        const uint32_t at = (growth->count - back) % GROWTH_READINGS;

        if (growth->readings[newest].at_ns - growth->readings[at].at_ns > GROWTH_WINDOW_NS)
            break;
        oldest = at;
    }
    passed_ns = growth->readings[newest].at_ns - growth->readings[oldest].at_ns;
    if (passed_ns <= 0 ||
        growth->readings[newest].available_bytes >= growth->readings[oldest].available_bytes)
        return 0;
    rate = (double)(growth->readings[oldest].available_bytes -
                    growth->readings[newest].available_bytes) *
           NS_PER_S / (double)passed_ns;
    return rate < RATE_MAX ? (uint64_t)rate : RATE_MAX;
}

int64_t level_next_ns(const struct level_marks *marks, const struct level_reading *reading,
                      uint64_t bytes_per_s)
{
    if (bytes_per_s == 0)
        return -1;
    for (uint32_t level = LEVEL_WARNING; level < LEVELS; level++) {
        const uint64_t mark = level_mark_bytes(marks, level, reading->total_bytes);

        if (reading->available_bytes >= mark)
            return (int64_t)((double)(reading->available_bytes - mark) * NS_PER_S /
                             (double)bytes_per_s);
    }
    return -1;
}

int64_t level_look_ns(const struct level_tick *tick, const struct level_marks *marks,
                      const struct level_reading *reading, uint64_t bytes_per_s)
{
    const uint64_t fast_bytes = share_bytes(reading->total_bytes, tick->fast_permille);
    const int64_t next_ns = level_next_ns(marks, reading, bytes_per_s);
    int64_t look_ns = reading->available_bytes < fast_bytes ? tick->fast_ns : tick->tick_ns;

    if (next_ns >= 0 && next_ns / 2 < look_ns)
        look_ns = next_ns / 2;
    return look_ns > LOOK_NS_MIN ? look_ns : LOOK_NS_MIN;
}

/* Without overflow, and exact enough: a mark is not a balance. */
static uint64_t share_bytes(uint64_t total_bytes, uint32_t permille)
{
    return total_bytes / 1000 * permille + total_bytes % 1000 * permille / 1000;
}
