/* effects.c - what was seen of the actions that are no orders: who turned the knobs and what that gave
 * back, which clocks went slower, what each client's memory did meanwhile. */
#include "breaker/state.h"
#include "clients/clients.h"
#include "daemon/services.h"
#include "foundation/real_time.h"
#include "scheduler/scheduler.h"
#include "segment/telemetry.h"

static void look_at_knobs(struct breaker *breaker, struct member *member, int64_t now_ns);
static void look_at_clocks(struct breaker *breaker, int64_t now_ns);
static void take_samples(struct breaker *breaker, int64_t now_ns);
static struct history_item *item_of(struct breaker *breaker, const struct member *member);
static uint32_t level_of(const struct breaker *breaker, const struct member *member);

/* In the order of the knobs in a client's segment. */
static const enum breaker_action knob_actions[EC_BREAKER_KNOBS] = {
    ACTION_PARTICLES, ACTION_AUDIO, ACTION_QUALITY, ACTION_SHADOWS, ACTION_LOD, ACTION_POST_EFFECTS,
};

bool effects_look(struct breaker *breaker, int64_t now_ns)
{
    bool samples = false;

    for (struct member *member = members_next(breaker, NULL); member != NULL;
         member = members_next(breaker, member)) {
        look_at_knobs(breaker, member, now_ns);
        samples =
            samples || policy_does(&breaker->policy, level_of(breaker, member), ACTION_SAMPLING);
    }
    look_at_clocks(breaker, now_ns);
    if (samples && now_ns - breaker->sampled_ns >= SAMPLE_NS)
        take_samples(breaker, now_ns);
    return samples;
}

/* Who has read the policy of a level has its knobs; what turning them gave back the client says itself,
 * since nobody else can tell one knob from another. */
static void look_at_knobs(struct breaker *breaker, struct member *member, int64_t now_ns)
{
    const struct ec_client_segment *segment = client_segment(member->client);
    const uint64_t total_bytes = breaker->sources.source[SOURCES_HOST].reading.total_bytes;
    const uint32_t level = level_of(breaker, member);
    struct history_item *item = item_of(breaker, member);
    struct ec_knobs_seen seen;
    bool fresh;

    if (segment == NULL)
        return;
    ec_telemetry_knobs(segment, &seen);
    fresh = seen.taken_ns != member->knobs.taken_ns && seen.level == level;
    for (unsigned i = 0; i < EC_BREAKER_KNOBS; i++) {
        const uint64_t bytes = seen.freed_bytes[i] - member->knobs.freed_bytes[i];
        int64_t latency_ns = 0;

        if (item == NULL || !policy_does(&breaker->policy, level, knob_actions[i]))
            continue;
        if (fresh &&
            !__builtin_add_overflow(seen.taken_ns, member->client->clock_offset_ns, &latency_ns)) {
            /* A client wrote that time. */
            latency_ns = latency_ns < item->at_ns ? 0
                         : latency_ns > now_ns    ? now_ns - item->at_ns
                                                  : latency_ns - item->at_ns;
            history_add_effect(item, knob_actions[i], 0, latency_ns);
        }
        item->effects[knob_actions[i]].bytes += bytes < total_bytes ? bytes : 0;
    }
    member->knobs = seen;
}

/* Clocks that allow it go slower from their next step on, which the scheduler announces first. */
static void look_at_clocks(struct breaker *breaker, int64_t now_ns)
{
    const uint32_t halved = scheduler_halved(breaker->services->scheduler);
    struct history_item *item = history_find(&breaker->history, breaker->level_history);

    if (halved > breaker->halved && item != NULL) {
        item->effects[ACTION_STEP_RATE].runs += halved - breaker->halved;
        item->effects[ACTION_STEP_RATE].ns += now_ns - breaker->since_ns;
    }
    breaker->halved = halved;
}

static void take_samples(struct breaker *breaker, int64_t now_ns)
{
    const uint64_t available_bytes = breaker_tightest(breaker)->reading.available_bytes;
    const int64_t before_ns = ec_real_ns();
    struct history_item *item = history_find(&breaker->history, breaker->level_history);

    breaker->sampled_ns = now_ns;
    for (struct member *member = members_next(breaker, NULL); member != NULL;
         member = members_next(breaker, member)) {
        struct sample sample = {
            .at_ns = now_ns,
            .client_id = member->client->id,
            .level = level_of(breaker, member),
            .available_bytes = available_bytes,
        };
        struct ec_memory_sum held = { 0 };

        if (!policy_does(&breaker->policy, sample.level, ACTION_SAMPLING))
            continue;
        member_memory(member, &sample.resident_bytes, &sample.private_bytes);
        if (client_segment(member->client) != NULL)
            ec_telemetry_memory(client_segment(member->client), &held);
        sample.tagged_bytes = held.bytes;
        samples_add(breaker->samples, &sample);
        if (item_of(breaker, member) != NULL)
            item = item_of(breaker, member);
    }
    history_add_effect(item, ACTION_SAMPLING, 0, ec_real_ns() - before_ns);
}

/* The transition that brought the level that is in force for a client. */
static struct history_item *item_of(struct breaker *breaker, const struct member *member)
{
    return history_find(&breaker->history,
                        member->level > breaker->level ? member->history : breaker->level_history);
}

static uint32_t level_of(const struct breaker *breaker, const struct member *member)
{
    return member->level > breaker->level ? member->level : breaker->level;
}
