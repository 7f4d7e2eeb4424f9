/* history.c - a ring of transitions. */
#include "breaker/history.h"

#include <string.h>

static void write_item(const struct history_item *item, struct ec_json_writer *writer);
static void write_effects(const struct history_item *item, struct ec_json_writer *writer);
static void write_answers(const struct history_item *item, struct ec_json_writer *writer);

struct history_item *history_add(struct history *history)
{
    struct history_item *item = &history->items[history->count++ % HISTORY_ITEMS];

    memset(item, 0, sizeof *item);
    item->number = history->count;
    return item;
}

struct history_item *history_find(struct history *history, uint64_t number)
{
    struct history_item *item;

    if (number == HISTORY_NONE)
        return NULL;
    item = &history->items[(number - 1) % HISTORY_ITEMS];
    return item->number == number ? item : NULL;
}

void history_add_effect(struct history_item *item, enum breaker_action action, uint64_t bytes,
                        int64_t ns)
{
    if (item == NULL)
        return;
    item->effects[action].runs++;
    item->effects[action].bytes += bytes;
    item->effects[action].ns += ns;
}

struct history_answer *history_answer(struct history_item *item, uint32_t client_id)
{
    if (item == NULL)
        return NULL;
    for (uint32_t i = 0; i < item->answer_count; i++)
        if (item->answers[i].client_id == client_id)
            return &item->answers[i];
    if (item->answer_count == HISTORY_ANSWERS)
        return NULL;
    item->answers[item->answer_count] =
        (struct history_answer) { .client_id = client_id, .latency_ns = -1 };
    return &item->answers[item->answer_count++];
}

void history_write(const struct history *history, unsigned limit, struct ec_json_writer *writer)
{
    uint64_t held = history->count < HISTORY_ITEMS ? history->count : HISTORY_ITEMS;

    for (uint64_t back = 1; back <= held && back <= limit; back++)
        write_item(&history->items[(history->count - back) % HISTORY_ITEMS], writer);
}

uint64_t history_freed_bytes(const struct history_item *item)
{
    uint64_t bytes = 0;

    for (unsigned i = 0; i < ACTION_COUNT; i++)
        bytes += item->effects[i].bytes;
    return bytes;
}

const char *history_cause_name(enum ec_breaker_cause cause)
{
    static const char *const names[] = {
        [EC_BREAKER_CAUSE_NONE] = "none",     [EC_BREAKER_CAUSE_MEMORY] = "memory",
        [EC_BREAKER_CAUSE_PRESSURE] = "psi",  [EC_BREAKER_CAUSE_BUDGET] = "budget",
        [EC_BREAKER_CAUSE_MANUAL] = "manual", [EC_BREAKER_CAUSE_RESERVE] = "reserve",
    };

    return names[cause];
}

static void write_item(const struct history_item *item, struct ec_json_writer *writer)
{
    ec_json_object_begin(writer);
    ec_json_member_u64(writer, "number", item->number);
    ec_json_member_i64(writer, "at_ns", item->at_ns);
    ec_json_member_u64(writer, "from", item->from);
    ec_json_member_u64(writer, "to", item->to);
    ec_json_member_u64(writer, "level", item->global);
    ec_json_member_string(writer, "cause", history_cause_name(item->cause));
    ec_json_member_string(writer, "source", item->source);
    ec_json_member_string(writer, "scope", item->own ? "all" : "clients");
    ec_json_member_string(writer, "reason", item->reason);
    ec_json_member_u64(writer, "total_bytes", item->total_bytes);
    ec_json_member_u64(writer, "available_bytes", item->available_bytes);
    ec_json_member_real(
        writer, "available_ratio",
        item->total_bytes == 0 ? 1 : (double)item->available_bytes / (double)item->total_bytes);
    ec_json_member_u64(writer, "growth_bytes_s", item->bytes_per_s);
    ec_json_member_u64(writer, "lowest_bytes", item->lowest_bytes);
    ec_json_member_u64(writer, "freed_bytes", history_freed_bytes(item));
    ec_json_member_u64(writer, "exits", item->exits);
    write_effects(item, writer);
    write_answers(item, writer);
    ec_json_object_end(writer);
}

static void write_effects(const struct history_item *item, struct ec_json_writer *writer)
{
    ec_json_member_object(writer, "actions");
    for (unsigned i = 0; i < ACTION_COUNT; i++) {
        if (item->effects[i].runs == 0)
            continue;
        ec_json_member_object(writer, policy_action_name((enum breaker_action)i));
        ec_json_member_u64(writer, "runs", item->effects[i].runs);
        ec_json_member_u64(writer, "freed_bytes", item->effects[i].bytes);
        ec_json_member_i64(writer, "ns", item->effects[i].ns);
        ec_json_object_end(writer);
    }
    ec_json_object_end(writer);
}

static void write_answers(const struct history_item *item, struct ec_json_writer *writer)
{
    ec_json_member_array(writer, "clients");
    for (uint32_t i = 0; i < item->answer_count; i++) {
        const struct history_answer *answer = &item->answers[i];

        ec_json_object_begin(writer);
        ec_json_member_u64(writer, "client_id", answer->client_id);
        ec_json_member_u64(writer, "rounds", answer->rounds);
        ec_json_member_u64(writer, "asked_bytes", answer->asked_bytes);
        ec_json_member_u64(writer, "freed_bytes", answer->freed_bytes);
        ec_json_key(writer, "latency_ns");
        if (answer->latency_ns < 0)
            ec_json_null(writer);
        else
            ec_json_i64(writer, answer->latency_ns);
        ec_json_member_u64(writer, "late", answer->late);
        ec_json_object_end(writer);
    }
    ec_json_array_end(writer);
}
