/* orders.c - from a source that runs short to what each client is asked for.
 *
 * A round: the need of a source is shared out among its members, each gets its order with a deadline.
 * The next round comes when all have answered or the deadline is over, and a fresh reading still is
 * below the mark. Who was late is told again, and the others are asked for more meanwhile. */
#include <inttypes.h>
#include <signal.h>
#include <string.h>

#include "breaker/state.h"
#include "clients/clients.h"
#include "daemon/log.h"
#include "daemon/services.h"
#include "resources/resources.h"
#include "segment/telemetry.h"

#include "foundation/real_time.h"

#define NS_PER_MS INT64_C(1000000)
#define ROUND_NS (50 * NS_PER_MS) /* freed memory shows in the next readings, not at once */
#define BARREN_NS (1000 * NS_PER_MS)

static void take_answers(struct breaker *breaker, int64_t now_ns);
static void take_answer(struct breaker *breaker, struct member *member,
                        const struct ec_ack_seen *ack, int64_t at_ns);
static void note_answer(struct member *member, const struct ec_ack_seen *ack, int64_t at_ns,
                        int64_t since_ns);
static void miss_deadline(struct breaker *breaker, struct member *member);
static void look_at_source(struct breaker *breaker, uint32_t index, int64_t now_ns);
static bool wants_round(const struct breaker *breaker, uint32_t index, int64_t now_ns);
static bool is_awaited(const struct breaker *breaker, uint32_t index);
static void evict_assets(struct breaker *breaker, struct source *source, uint64_t *need_bytes);
static void ask(struct breaker *breaker, struct member *member, uint64_t bytes,
                enum ec_breaker_cause cause, uint32_t level, uint64_t history, int64_t now_ns);
static void withdraw(struct breaker *breaker, struct member *member);
static void look_at_exits(struct breaker *breaker, uint32_t index, int64_t now_ns);
static struct member *exit_candidate(struct breaker *breaker, uint32_t index);
static bool goes_before(const struct member *a, const struct member *b);
static void terminate_late(struct breaker *breaker, struct member *member, int64_t now_ns);
static bool concerns(const struct breaker *breaker, const struct member *member, uint32_t source);

void orders_look(struct breaker *breaker, int64_t now_ns)
{
    take_answers(breaker, now_ns);
    for (uint32_t i = 0; i < breaker->sources.high; i++)
        if (breaker->sources.source[i].kind != SOURCE_FREE)
            look_at_source(breaker, i, now_ns);
    for (struct member *member = members_next(breaker, NULL); member != NULL;
         member = members_next(breaker, member)) {
        withdraw(breaker, member);
        terminate_late(breaker, member, now_ns);
    }
}

void orders_by_hand(struct breaker *breaker, int64_t now_ns)
{
    const uint32_t level = breaker->manual.level;

    if (level < LEVEL_EVICTION || !policy_does(&breaker->policy, level, ACTION_ORDERS))
        return;
    for (struct member *member = members_next(breaker, NULL); member != NULL;
         member = members_next(breaker, member)) {
        const uint64_t bytes = member_evictable(member);

        if (!member->traits.saving)
            ask(breaker, member, level == LEVEL_EMERGENCY ? bytes : bytes / 2,
                EC_BREAKER_CAUSE_MANUAL, level, breaker->manual.history, now_ns);
    }
}

void orders_for_reservation(struct breaker *breaker, uint32_t client_id, uint64_t bytes,
                            int64_t now_ns)
{
    struct sharing_row rows[MEMBERS_MAX];

    orders_share(breaker, SOURCES_HOST, bytes, client_id, rows);
    for (uint32_t i = 0; i < breaker->member_high; i++)
        if (rows[i].bytes > 0)
            ask(breaker, &breaker->members[i], rows[i].bytes, EC_BREAKER_CAUSE_RESERVE,
                LEVEL_EVICTION, HISTORY_NONE, now_ns);
}

struct member *members_next(struct breaker *breaker, struct member *member)
{
    member = member == NULL ? breaker->members : member + 1;
    while (member < breaker->members + breaker->member_high && member->client == NULL)
        member++;
    return member < breaker->members + breaker->member_high ? member : NULL;
}

uint64_t orders_share(const struct breaker *breaker, uint32_t source, uint64_t bytes,
                      uint32_t but_client_id, struct sharing_row rows[MEMBERS_MAX])
{
    const uint64_t total_bytes = breaker->sources.source[source].reading.total_bytes;
    unsigned silent = 0, count = 0;

    for (uint32_t i = 0; i < breaker->member_high; i++) {
        const struct member *member = &breaker->members[i];

        rows[i] = (struct sharing_row) { .spared = true };
        if (member->client == NULL || !concerns(breaker, member, source) ||
            member->client->id == but_client_id)
            continue;
        rows[i] = (struct sharing_row) {
            .evictable_bytes = member_evictable(member),
            .priority = member->traits.priority,
            .idle = !member->traits.busy,
            .late = member->late,
            .spared = member->traits.saving,
        };
        /* A client wrote that number: more than there is in all is nonsense. */
        if (rows[i].evictable_bytes > total_bytes)
            rows[i].evictable_bytes = total_bytes;
        silent += rows[i].evictable_bytes == 0;
        count++;
    }
    /* Who tells nothing of its memory is asked for an even part. */
    for (uint32_t i = 0; i < breaker->member_high && silent > 0; i++)
        if (!rows[i].spared && rows[i].evictable_bytes == 0)
            rows[i].evictable_bytes = bytes / count + 1;
    return sharing_compute(rows, breaker->member_high, bytes);
}

void orders_write(struct breaker *breaker)
{
    for (struct member *member = members_next(breaker, NULL); member != NULL;
         member = members_next(breaker, member)) {
        bool is_asked;

        if (!member->is_changed)
            continue;
        member->is_changed = false;
        member->is_untold = true;
        is_asked = member->asked_sequence == UINT64_MAX;
        member->order.sequence = ec_breaker_order_write(
            &breaker->board->orders[member - breaker->members], &member->order);
        /* Who answers a later number has seen this one, too. */
        if (is_asked)
            member->asked_sequence = member->order.sequence;
    }
}

void orders_tell(struct breaker *breaker, bool tell_all)
{
    static const char line[] = "{\"jsonrpc\":\"2.0\",\"method\":\"breaker.changed\",\"params\":{}}";

    if (breaker->own_level_changed)
        breaker_tell_scheduler(breaker);
    breaker->own_level_changed = false;
    for (struct member *member = members_next(breaker, NULL); member != NULL;
         member = members_next(breaker, member)) {
        if ((tell_all || member->is_untold) && member->client->output != NULL)
            (void)member->client->output->notify(member->client->connection, line, sizeof line - 1,
                                                 NULL, 0); /* a full socket is counted there */
        member->is_untold = false;
    }
}

/* The words of games first, all of them; then the sockets, for those who sleep. */
void orders_publish(struct breaker *breaker, bool tell_all)
{
    orders_write(breaker);
    orders_tell(breaker, tell_all);
}

/* Only answers that were given since the last look. */
static void take_answers(struct breaker *breaker, int64_t now_ns)
{
    const uint64_t total_bytes = breaker->sources.source[SOURCES_HOST].reading.total_bytes;

    for (struct member *member = members_next(breaker, NULL); member != NULL;
         member = members_next(breaker, member)) {
        struct ec_ack_seen ack;
        int64_t at_ns;

        if (client_segment(member->client) != NULL &&
            ec_telemetry_ack(client_segment(member->client), &ack) &&
            ack.sequence != member->seen_ack) {
            member->seen_ack = ack.sequence;
            /* A client writes these: a time that no clock shows is now, and nobody gives back more
             * than there is. */
            if (__builtin_add_overflow(ack.at_ns, member->client->clock_offset_ns, &at_ns) ||
                at_ns < 0 || at_ns > now_ns)
                at_ns = now_ns;
            if (ack.freed_bytes > total_bytes)
                ack.freed_bytes = total_bytes;
            take_answer(breaker, member, &ack, at_ns);
        }
        if (member->asked_sequence != 0 && now_ns >= member->order.deadline_ns)
            miss_deadline(breaker, member);
    }
}

static void take_answer(struct breaker *breaker, struct member *member,
                        const struct ec_ack_seen *ack, int64_t at_ns)
{
    struct history_item *item = history_find(&breaker->history, member->asked_history);
    struct history_answer *answer;
    struct ec_memory_sum now_held;
    uint64_t trimmed_bytes;

    if (member->asked_sequence == 0) { /* it did something for the level, without being asked */
        note_answer(member, ack, at_ns, breaker->since_ns);
        return;
    }
    /* An answer to an order before this one tells nothing of it. */
    if (ack->order < member->asked_sequence)
        return;
    if (at_ns < member->asked_ns)
        at_ns = member->asked_ns;
    member->late = false;
    ec_telemetry_memory(client_segment(member->client), &now_held);
    member->shrunk_bytes =
        member->memory_bytes > now_held.bytes ? member->memory_bytes - now_held.bytes : 0;
    trimmed_bytes = ack->trimmed_bytes < ack->freed_bytes ? ack->trimmed_bytes : ack->freed_bytes;
    history_add_effect(item, ACTION_ORDERS, ack->freed_bytes - trimmed_bytes,
                       at_ns - member->asked_ns);
    if ((member->order.flags & EC_BREAKER_ORDER_TRIM) != 0)
        history_add_effect(item, ACTION_TRIM, trimmed_bytes, at_ns - member->asked_ns);
    answer = history_answer(item, member->client->id);
    if (answer != NULL) {
        answer->freed_bytes += ack->freed_bytes;
        if (answer->latency_ns < 0)
            answer->latency_ns = at_ns - member->asked_ns;
    }
    note_answer(member, ack, at_ns, member->asked_ns);
    member->asked_sequence = 0;
    member->order.bytes = 0; /* else a later change of the slot would ask for it again */
    member->order.flags = 0;
}

/* What breaker.get shows. An answer from before the level was entered is none. */
static void note_answer(struct member *member, const struct ec_ack_seen *ack, int64_t at_ns,
                        int64_t since_ns)
{
    if (at_ns < since_ns)
        return;
    member->answered = true;
    member->acked_level = ack->level;
    member->ack_latency_ns = at_ns - since_ns;
    member->freed_bytes = ack->freed_bytes;
}

static void miss_deadline(struct breaker *breaker, struct member *member)
{
    struct history_answer *answer =
        history_answer(history_find(&breaker->history, member->asked_history), member->client->id);

    if (!member->late)
        log_warning("breaker", "client %u (%s) did not answer within %" PRId64 " ms",
                    member->client->id, member->client->name,
                    (member->order.deadline_ns - member->asked_ns) / NS_PER_MS);
    member->late = true;
    member->late_count++;
    member->asked_sequence = 0;
    if (answer != NULL)
        answer->late++;
}

static void look_at_source(struct breaker *breaker, uint32_t index, int64_t now_ns)
{
    struct source *source = &breaker->sources.source[index];
    struct sharing_row rows[MEMBERS_MAX];
    uint64_t need_bytes;

    if (source->machine.level < LEVEL_EVICTION) {
        source->ordered_ns = 0;
        source->ordered_level = LEVEL_NORMAL;
        source->exit_ns = 0;
        return;
    }
    if (wants_round(breaker, index, now_ns)) {
        need_bytes = policy_wanted_bytes(&breaker->policy, &source->reading,
                                         growth_bytes_per_s(&source->growth));
        need_bytes -=
            breaker->soft_freed_bytes < need_bytes ? breaker->soft_freed_bytes : need_bytes;
        if (source->machine.level > source->ordered_level)
            breaker->barren_ns = 0;
        source->ordered_ns = now_ns;
        source->ordered_level = source->machine.level;
        if (source->own && policy_does(&breaker->policy, source->machine.level, ACTION_EVICT))
            evict_assets(breaker, source, &need_bytes);
        if (policy_does(&breaker->policy, source->machine.level, ACTION_ORDERS)) {
            orders_share(breaker, index, need_bytes, 0, rows);
            for (uint32_t i = 0; i < breaker->member_high; i++)
                if (rows[i].bytes > breaker->members[i].order.bytes ||
                    (rows[i].bytes > 0 && breaker->members[i].asked_sequence == 0))
                    ask(breaker, &breaker->members[i], rows[i].bytes, source->machine.cause,
                        source->machine.level, source->history, now_ns);
        }
    }
    look_at_exits(breaker, index, now_ns);
}

/* At once when the level rose; else when those that were asked have answered or are late, and it was not
 * enough. */
static bool wants_round(const struct breaker *breaker, uint32_t index, int64_t now_ns)
{
    const struct source *source = &breaker->sources.source[index];
    enum ec_breaker_cause cause;

    if (source->machine.level > source->ordered_level)
        return true;
    return now_ns - source->ordered_ns >= ROUND_NS && !is_awaited(breaker, index) &&
           level_wanted(&breaker->marks, &source->reading, &cause) >= LEVEL_EVICTION;
}

static bool is_awaited(const struct breaker *breaker, uint32_t index)
{
    for (uint32_t i = 0; i < breaker->member_high; i++)
        if (breaker->members[i].client != NULL && breaker->members[i].asked_sequence != 0 &&
            concerns(breaker, &breaker->members[i], index))
            return true;
    return false;
}

/* Assets that nobody holds cost no game anything: they go first, and the games are asked for the rest.
 * At level 3 all of them go. Games have seen the level by now. */
static void evict_assets(struct breaker *breaker, struct source *source, uint64_t *need_bytes)
{
    const int64_t before_ns = ec_real_ns();
    const uint64_t wanted_bytes =
        source->machine.level == LEVEL_EMERGENCY ? UINT64_MAX : *need_bytes;
    uint64_t freed_bytes;

    /* What is held now is looked for again after a while: clients were asked to let go. */
    if (wanted_bytes == 0 ||
        (breaker->barren_ns != 0 && before_ns - breaker->barren_ns < BARREN_NS))
        return;
    freed_bytes = resources_evict(breaker->services->resources, wanted_bytes, NULL);
    breaker->barren_ns = freed_bytes == 0 ? before_ns : 0;
    history_add_effect(history_find(&breaker->history, source->history), ACTION_EVICT, freed_bytes,
                       ec_real_ns() - before_ns);
    *need_bytes -= freed_bytes < *need_bytes ? freed_bytes : *need_bytes;
}

static void ask(struct breaker *breaker, struct member *member, uint64_t bytes,
                enum ec_breaker_cause cause, uint32_t level, uint64_t history, int64_t now_ns)
{
    struct history_answer *answer =
        history_answer(history_find(&breaker->history, history), member->client->id);
    struct ec_memory_sum held = { 0 };

    if (client_segment(member->client) != NULL)
        ec_telemetry_memory(client_segment(member->client), &held);
    member->memory_bytes = held.bytes;
    member->order.bytes = bytes;
    member->order.deadline_ns = now_ns + breaker->policy.order_deadline_ms * NS_PER_MS;
    member->order.cause = cause;
    member->order.flags =
        policy_does(&breaker->policy, level, ACTION_TRIM) ? EC_BREAKER_ORDER_TRIM : 0;
    member->is_changed = true;
    member->asked_sequence = UINT64_MAX; /* numbered when it is written */
    member->asked_ns = now_ns;
    member->asked_history = history;
    if (answer != NULL) {
        answer->rounds++;
        answer->asked_bytes += bytes;
    }
}

/* What is asked of a client ends with the level that it was asked for. */
static void withdraw(struct breaker *breaker, struct member *member)
{
    const uint32_t level = member->level > breaker->level ? member->level : breaker->level;

    if (level < LEVEL_EVICTION && member->order.cause != EC_BREAKER_CAUSE_RESERVE &&
        (member->order.bytes != 0 || member->order.deadline_ns != 0)) {
        member->order.bytes = 0;
        member->order.deadline_ns = 0;
        member->order.flags = 0;
        member->order.cause = EC_BREAKER_CAUSE_NONE;
        member->asked_sequence = 0;
        member->late = false;
        member->is_changed = true;
    }
    if (member->exit_ns != 0 && !member->terminated && level < LEVEL_EMERGENCY) {
        log_info("breaker", "client %u (%s) may stay", member->client->id, member->client->name);
        member->exit_ns = 0;
        member->order.exit_deadline_ns = 0;
        member->is_changed = true;
    }
}

/* One at a time: what the first one gives back has to show before a second one is asked. */
static void look_at_exits(struct breaker *breaker, uint32_t index, int64_t now_ns)
{
    struct source *source = &breaker->sources.source[index];
    const int64_t grace_ns = breaker->policy.grace_ms * NS_PER_MS;
    enum ec_breaker_cause cause;
    struct history_item *item;
    uint64_t private_bytes;
    struct member *member;

    if (source->machine.level < LEVEL_EMERGENCY ||
        !policy_does(&breaker->policy, LEVEL_EMERGENCY, ACTION_EXIT) ||
        level_wanted(&breaker->marks, &source->reading, &cause) < LEVEL_EMERGENCY ||
        now_ns - source->machine.since_ns < grace_ns ||
        (source->exit_ns != 0 && now_ns - source->exit_ns < grace_ns))
        return;
    for (struct member *other = members_next(breaker, NULL); other != NULL;
         other = members_next(breaker, other))
        if (other->exit_ns != 0 && other->exit_source == index &&
            now_ns < other->order.exit_deadline_ns)
            return;
    member = exit_candidate(breaker, index);
    if (member == NULL)
        return;
    source->exit_ns = now_ns;
    member->exit_ns = now_ns;
    member->exit_source = index;
    member_memory(member, &member->resident_bytes, &private_bytes);
    member->order.exit_deadline_ns = now_ns + breaker->policy.save_deadline_ms * NS_PER_MS;
    member->order.cause = cause;
    member->is_changed = true;
    item = history_find(&breaker->history, source->history);
    if (item != NULL)
        item->exits++;
    log_warning("breaker", "client %u (%s) is asked to save and leave, for %s", member->client->id,
                member->client->name, source->name);
}

static struct member *exit_candidate(struct breaker *breaker, uint32_t index)
{
    struct member *first = NULL;

    for (struct member *member = members_next(breaker, NULL); member != NULL;
         member = members_next(breaker, member))
        if (concerns(breaker, member, index) && !member->traits.required &&
            !member->traits.saving && member->exit_ns == 0 &&
            (first == NULL || goes_before(member, first)))
            first = member;
    return first;
}

/* Who is worth least; then where nobody plays; then who loses nothing; then who came last. */
static bool goes_before(const struct member *a, const struct member *b)
{
    if (a->traits.priority != b->traits.priority)
        return a->traits.priority < b->traits.priority;
    if (a->traits.busy != b->traits.busy)
        return !a->traits.busy;
    if (a->traits.can_save != b->traits.can_save)
        return a->traits.can_save;
    return a->client->id > b->client->id;
}

/* SIGTERM, when the policy says so. Never anything that a program cannot answer by saving. */
static void terminate_late(struct breaker *breaker, struct member *member, int64_t now_ns)
{
    if (member->exit_ns == 0 || member->terminated || breaker->policy.sigterm == 0 ||
        member->traits.saving || now_ns < member->order.exit_deadline_ns)
        return;
    member->terminated = true;
    if (client_signal(member->client, SIGTERM) == EC_OK)
        log_warning("breaker", "client %u (%s) did not leave in time: SIGTERM", member->client->id,
                    member->client->name);
}

static bool concerns(const struct breaker *breaker, const struct member *member, uint32_t source)
{
    return breaker->sources.source[source].own || member_is_in(member, source);
}
