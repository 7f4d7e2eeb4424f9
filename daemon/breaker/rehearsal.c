/* rehearsal.c - run a trace through the level machine. */
#include "breaker/rehearsal.h"

#include <inttypes.h>

#include "breaker/history.h"

#define NS_PER_MS INT64_C(1000000)
#define ELEMENTS_MAX 5
#define AT_MS_MAX (INT64_C(1) << 40)

struct rehearsal {
    const struct breaker_policy *policy;
    struct ec_json_writer *writer;
    struct level_marks marks;
    struct level_machine machine;
    struct growth growth;
    unsigned count;
    uint32_t highest;
};

static void begin(struct rehearsal *rehearsal, const struct breaker_policy *policy,
                  struct ec_json_writer *writer);
static void take(struct rehearsal *rehearsal, int64_t at_ns, const struct level_reading *reading);
static void end(struct rehearsal *rehearsal);
static int read_element(struct ec_json_span element, unsigned index, int64_t after_ms,
                        int64_t *at_ms, struct level_reading *reading, struct ec_error *why);
static void write_transition(const struct rehearsal *rehearsal, int64_t at_ns, uint32_t from,
                             const struct level_reading *reading);

int rehearsal_run(const struct breaker_policy *policy, struct ec_json_span trace,
                  struct ec_json_writer *writer, struct ec_error *why)
{
    struct ec_json_iterator elements = ec_json_iterate(trace);
    struct rehearsal rehearsal;
    struct ec_json_span element;
    int64_t at_ms = -1;

    begin(&rehearsal, policy, writer);
    while (ec_json_next_element(&elements, &element)) {
        struct level_reading reading = { 0 };
        int rc = read_element(element, rehearsal.count, at_ms, &at_ms, &reading, why);

        if (rc < 0)
            return rc;
        take(&rehearsal, at_ms * NS_PER_MS, &reading);
    }
    end(&rehearsal);
    return EC_OK;
}

void rehearsal_run_recorded(const struct breaker_policy *policy, const struct trace *trace,
                            struct ec_json_writer *writer)
{
    struct rehearsal rehearsal;
    struct trace_reading row;
    int64_t begin_ns = 0;

    begin(&rehearsal, policy, writer);
    for (uint32_t place = 0; trace_at(trace, place, &row); place++) {
        const struct level_reading reading = {
            .total_bytes = row.total_bytes,
            .available_bytes = row.available_bytes,
            .some_permille = row.some_permille,
            .full_permille = row.full_permille,
        };

        if (place == 0)
            begin_ns = row.at_ns;
        take(&rehearsal, row.at_ns - begin_ns, &reading);
    }
    end(&rehearsal);
}

void rehearsal_write_actions(const struct breaker_policy *policy, uint32_t level,
                             struct ec_json_writer *writer)
{
    ec_json_array_begin(writer);
    for (unsigned i = 0; i < ACTION_COUNT; i++)
        if (policy_does(policy, level, (enum breaker_action)i))
            ec_json_string(writer, policy_action_name((enum breaker_action)i));
    ec_json_array_end(writer);
}

static void begin(struct rehearsal *rehearsal, const struct breaker_policy *policy,
                  struct ec_json_writer *writer)
{
    *rehearsal = (struct rehearsal) {
        .policy = policy,
        .writer = writer,
        .marks = policy_marks(policy),
    };
    ec_json_member_array(writer, "transitions");
}

static void take(struct rehearsal *rehearsal, int64_t at_ns, const struct level_reading *reading)
{
    const uint32_t from = rehearsal->machine.level;

    rehearsal->count++;
    growth_add(&rehearsal->growth, at_ns, reading->available_bytes);
    if (level_machine_look(&rehearsal->machine, &rehearsal->marks, reading, at_ns))
        write_transition(rehearsal, at_ns, from, reading);
    if (rehearsal->machine.level > rehearsal->highest)
        rehearsal->highest = rehearsal->machine.level;
}

static void end(struct rehearsal *rehearsal)
{
    struct ec_json_writer *writer = rehearsal->writer;

    ec_json_array_end(writer);
    ec_json_member_u64(writer, "readings", rehearsal->count);
    ec_json_member_u64(writer, "level", rehearsal->machine.level);
    ec_json_member_u64(writer, "highest", rehearsal->highest);
}

/* How many numbers an array has; 0: more than there can be, or one of them is none, or negative. */
static unsigned read_numbers(struct ec_json_span array, int64_t values[ELEMENTS_MAX])
{
    struct ec_json_iterator numbers = ec_json_iterate(array);
    struct ec_json_span number;
    unsigned count = 0;

    if (ec_json_type_of(array) != EC_JSON_ARRAY)
        return 0;
    while (ec_json_next_element(&numbers, &number)) {
        if (count == ELEMENTS_MAX || ec_json_get_i64(number, &values[count]) != EC_OK ||
            values[count] < 0)
            return 0;
        count++;
    }
    return count;
}

static int read_element(struct ec_json_span element, unsigned index, int64_t after_ms,
                        int64_t *at_ms, struct level_reading *reading, struct ec_error *why)
{
    int64_t values[ELEMENTS_MAX] = { 0 };

    if (read_numbers(element, values) < 3 || values[1] == 0)
        return ec_fail(why, EC_ERR_PARAM,
                       "trace: element %u is not [at_ms, total_bytes, available_bytes, "
                       "some_permille, full_permille], the last two optional",
                       index);
    if (values[0] > AT_MS_MAX)
        return ec_fail(why, EC_ERR_PARAM,
                       "trace: element %u is at %" PRId64 " ms, allowed is 0 to %" PRId64, index,
                       values[0], AT_MS_MAX);
    if (values[0] < after_ms)
        return ec_fail(why, EC_ERR_PARAM,
                       "trace: element %u is at %" PRId64 " ms, the one before it at %" PRId64,
                       index, values[0], after_ms);
    *at_ms = values[0];
    reading->total_bytes = (uint64_t)values[1];
    reading->available_bytes = (uint64_t)(values[2] < values[1] ? values[2] : values[1]);
    reading->some_permille = (uint32_t)(values[3] < 1000 ? values[3] : 1000);
    reading->full_permille = (uint32_t)(values[4] < 1000 ? values[4] : 1000);
    return EC_OK;
}

static void write_transition(const struct rehearsal *rehearsal, int64_t at_ns, uint32_t from,
                             const struct level_reading *reading)
{
    const uint32_t level = rehearsal->machine.level;
    const uint64_t growth = growth_bytes_per_s(&rehearsal->growth);
    struct ec_json_writer *writer = rehearsal->writer;

    ec_json_object_begin(writer);
    ec_json_member_i64(writer, "at_ms", at_ns / NS_PER_MS);
    ec_json_member_u64(writer, "from", from);
    ec_json_member_u64(writer, "to", level);
    ec_json_member_string(writer, "cause", history_cause_name(rehearsal->machine.cause));
    ec_json_member_u64(writer, "available_bytes", reading->available_bytes);
    ec_json_member_u64(writer, "growth_bytes_s", growth);
    ec_json_member_u64(writer, "wanted_bytes",
                       level >= LEVEL_EVICTION && level > from
                           ? policy_wanted_bytes(rehearsal->policy, reading, growth)
                           : 0);
    ec_json_key(writer, "actions");
    rehearsal_write_actions(rehearsal->policy, level, writer);
    ec_json_object_end(writer);
}
