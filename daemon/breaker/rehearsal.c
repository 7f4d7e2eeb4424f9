/* rehearsal.c - run a trace through the level machine. */
#include "breaker/rehearsal.h"

#include <inttypes.h>

#include "breaker/history.h"

#define NS_PER_MS INT64_C(1000000)
#define ELEMENTS_MAX 5
#define AT_MS_MAX (INT64_C(1) << 40)

static int read_element(struct ec_json_span element, unsigned index, int64_t after_ms,
                        int64_t *at_ms, struct level_reading *reading, struct ec_error *why);
static void write_transition(const struct breaker_policy *policy,
                             const struct level_machine *machine,
                             const struct level_reading *reading, const struct growth *growth,
                             int64_t at_ms, uint32_t from, struct ec_json_writer *writer);

int rehearsal_run(const struct breaker_policy *policy, struct ec_json_span trace,
                  struct ec_json_writer *writer, struct ec_error *why)
{
    const struct level_marks marks = policy_marks(policy);
    struct ec_json_iterator elements = ec_json_iterate(trace);
    struct level_machine machine = { 0 };
    struct growth growth = { 0 };
    struct ec_json_span element;
    int64_t at_ms = -1;
    unsigned count = 0;
    uint32_t highest = LEVEL_NORMAL;

    ec_json_member_array(writer, "transitions");
    while (ec_json_next_element(&elements, &element)) {
        struct level_reading reading = { 0 };
        const uint32_t from = machine.level;
        int rc = read_element(element, count, at_ms, &at_ms, &reading, why);

        if (rc < 0)
            return rc;
        count++;
        growth_add(&growth, at_ms * NS_PER_MS, reading.available_bytes);
        if (level_machine_look(&machine, &marks, &reading, at_ms * NS_PER_MS))
            write_transition(policy, &machine, &reading, &growth, at_ms, from, writer);
        highest = machine.level > highest ? machine.level : highest;
    }
    ec_json_array_end(writer);
    ec_json_member_u64(writer, "readings", count);
    ec_json_member_u64(writer, "level", machine.level);
    ec_json_member_u64(writer, "highest", highest);
    return EC_OK;
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

static int read_element(struct ec_json_span element, unsigned index, int64_t after_ms,
                        int64_t *at_ms, struct level_reading *reading, struct ec_error *why)
{
    struct ec_json_iterator numbers = ec_json_iterate(element);
    int64_t values[ELEMENTS_MAX] = { 0 };
    struct ec_json_span number;
    unsigned count = 0;

    if (ec_json_type_of(element) == EC_JSON_ARRAY)
        while (count < ELEMENTS_MAX && ec_json_next_element(&numbers, &number) &&
               ec_json_get_i64(number, &values[count]) == EC_OK && values[count] >= 0)
            count++;
    if (count < 3 || values[1] == 0)
        return ec_fail(why, EC_ERR_PARAM,
                       "trace: element %u is not [at_ms, total_bytes, available_bytes, "
                       "some_permille, full_permille], the last two optional",
                       index);
    if (values[0] < after_ms || values[0] > AT_MS_MAX)
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

static void write_transition(const struct breaker_policy *policy,
                             const struct level_machine *machine,
                             const struct level_reading *reading, const struct growth *growth,
                             int64_t at_ms, uint32_t from, struct ec_json_writer *writer)
{
    ec_json_object_begin(writer);
    ec_json_member_i64(writer, "at_ms", at_ms);
    ec_json_member_u64(writer, "from", from);
    ec_json_member_u64(writer, "to", machine->level);
    ec_json_member_string(writer, "cause", history_cause_name(machine->cause));
    ec_json_member_u64(writer, "available_bytes", reading->available_bytes);
    ec_json_member_u64(writer, "growth_bytes_s", growth_bytes_per_s(growth));
    ec_json_key(writer, "actions");
    rehearsal_write_actions(policy, machine->level, writer);
    ec_json_object_end(writer);
}
