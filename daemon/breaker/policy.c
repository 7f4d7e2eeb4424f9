/* policy.c - the rows of a policy, and what must be true of it as a whole. */
#include "breaker/policy.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "daemon/config.h"
#include "proto/tables/nearest.h"

#define NS_PER_MS INT64_C(1000000)
#define NEAR_PERMILLE 30 /* beyond the way back from level 1 */

/* Integers and booleans. */
static const struct value_row {
    enum ec_config_id id;
    size_t offset;
} value_rows[] = {
#define ROW(name)                                                                                  \
    {                                                                                              \
        EC_CONFIG_breaker_##name, offsetof(struct breaker_policy, name)                            \
    }
    ROW(warning_permille),
    ROW(eviction_permille),
    ROW(emergency_permille),
    ROW(warning_bytes),
    ROW(eviction_bytes),
    ROW(emergency_bytes),
    ROW(hysteresis_permille),
    ROW(hold_ms),
    ROW(psi_some_permille),
    ROW(psi_full_permille),
    ROW(psi_ceiling_permille),
    ROW(tick_ms),
    ROW(fast_tick_ms),
    ROW(fast_permille),
    ROW(order_extra_permille),
    ROW(order_growth_ms),
    ROW(order_deadline_ms),
    ROW(grace_ms),
    ROW(save_deadline_ms),
    ROW(sigterm),
    ROW(particle_rate_permille),
    ROW(lod_bias_permille),
    ROW(budget_eviction_permille),
    ROW(on_level_s),
#undef ROW
};

static const struct list_row {
    enum ec_config_id id;
    uint32_t level;
} list_rows[] = {
    { EC_CONFIG_breaker_warning_actions, LEVEL_WARNING },
    { EC_CONFIG_breaker_eviction_actions, LEVEL_EVICTION },
    { EC_CONFIG_breaker_emergency_actions, LEVEL_EMERGENCY },
};

static const char *const action_names[ACTION_COUNT] = {
    [ACTION_SAMPLING] = "sampling",
    [ACTION_PREFETCH] = "prefetch",
    [ACTION_SOFT] = "soft",
    [ACTION_EVICT] = "evict",
    [ACTION_ORDERS] = "orders",
    [ACTION_TRIM] = "trim",
    [ACTION_PARTICLES] = "particles",
    [ACTION_AUDIO] = "audio",
    [ACTION_QUALITY] = "quality",
    [ACTION_SHADOWS] = "shadows",
    [ACTION_LOD] = "lod",
    [ACTION_POST_EFFECTS] = "post_effects",
    [ACTION_STEP_RATE] = "step_rate",
    [ACTION_EXIT] = "exit",
};

#define COUNT(rows) (sizeof(rows) / sizeof(rows)[0])
#define KEY_PREFIX_BYTES 8 /* "breaker." */

static const char *name_of(enum ec_config_id id);
static int fail_name(struct ec_json_span name, struct ec_error *why);
static int64_t *value_at(struct breaker_policy *policy, const struct value_row *row);
static int set_member(struct breaker_policy *policy, struct ec_json_span name,
                      struct ec_json_span value, struct ec_error *why);
static int set_value(struct breaker_policy *policy, const struct value_row *row,
                     struct ec_json_span value, struct ec_error *why);
static int set_command(struct breaker_policy *policy, const char *command, struct ec_error *why);
static int parse_actions(const char *key, const char *list, uint32_t *actions,
                         struct ec_error *why);
static int check(const struct breaker_policy *policy, struct ec_error *why);
static int check_below(const char *lower_key, int64_t lower, const char *upper_key, int64_t upper,
                       struct ec_error *why);
static void write_actions(uint32_t actions, struct ec_json_writer *writer);

int policy_load(const struct config *config, struct breaker_policy *policy, struct ec_error *why)
{
    struct breaker_policy fresh = { 0 };
    int rc = EC_OK;

    for (size_t i = 0; i < COUNT(value_rows); i++)
        *value_at(&fresh, &value_rows[i]) = config_integer(config, value_rows[i].id);
    for (size_t i = 0; i < COUNT(list_rows) && rc == EC_OK; i++)
        rc = parse_actions(ec_configs[list_rows[i].id].key, config_string(config, list_rows[i].id),
                           &fresh.actions[list_rows[i].level], why);
    if (rc == EC_OK)
        rc = set_command(&fresh, config_string(config, EC_CONFIG_breaker_on_level), why);
    if (rc == EC_OK)
        rc = check(&fresh, why);
    if (rc == EC_OK)
        *policy = fresh;
    return rc;
}

int policy_set(struct breaker_policy *policy, struct ec_json_span members, struct ec_error *why)
{
    struct ec_json_iterator iterator = ec_json_iterate(members);
    struct breaker_policy fresh = *policy;
    struct ec_json_span name, value;
    int rc = EC_OK;

    while (rc == EC_OK && ec_json_next_member(&iterator, &name, &value))
        rc = set_member(&fresh, name, value, why);
    if (rc == EC_OK)
        rc = check(&fresh, why);
    if (rc == EC_OK)
        *policy = fresh;
    return rc;
}

void policy_write(const struct breaker_policy *policy, struct ec_json_writer *writer)
{
    for (size_t i = 0; i < COUNT(value_rows); i++) {
        const int64_t value = *(const int64_t *)((const char *)policy + value_rows[i].offset);

        ec_json_key(writer, name_of(value_rows[i].id));
        if (ec_configs[value_rows[i].id].type == EC_CONFIG_BOOLEAN)
            ec_json_boolean(writer, value != 0);
        else
            ec_json_i64(writer, value);
    }
    for (size_t i = 0; i < COUNT(list_rows); i++) {
        ec_json_key(writer, name_of(list_rows[i].id));
        write_actions(policy->actions[list_rows[i].level], writer);
    }
    ec_json_member_string(writer, "on_level", policy->on_level);
}

struct level_marks policy_marks(const struct breaker_policy *policy)
{
    return (struct level_marks) {
        .permille = { 0, (uint32_t)policy->warning_permille, (uint32_t)policy->eviction_permille,
                      (uint32_t)policy->emergency_permille },
        .bytes = { 0, (uint64_t)policy->warning_bytes, (uint64_t)policy->eviction_bytes,
                   (uint64_t)policy->emergency_bytes },
        .hysteresis_permille = (uint32_t)policy->hysteresis_permille,
        .hold_ns = policy->hold_ms * NS_PER_MS,
        .some_permille = (uint32_t)policy->psi_some_permille,
        .full_permille = (uint32_t)policy->psi_full_permille,
        .ceiling_permille = (uint32_t)policy->psi_ceiling_permille,
    };
}

uint32_t policy_near_permille(const struct breaker_policy *policy)
{
    const int64_t near = policy->warning_permille + policy->hysteresis_permille + NEAR_PERMILLE;

    /* Marks in bytes are another share of each source. */
    if (policy->warning_bytes > 0 || policy->eviction_bytes > 0 || policy->emergency_bytes > 0)
        return 1000;
    return near < 1000 ? (uint32_t)near : 1000;
}

struct level_tick policy_tick(const struct breaker_policy *policy)
{
    return (struct level_tick) {
        .tick_ns = policy->tick_ms * NS_PER_MS,
        .fast_ns = policy->fast_tick_ms * NS_PER_MS,
        .fast_permille = (uint32_t)policy->fast_permille,
    };
}

bool policy_does(const struct breaker_policy *policy, uint32_t level, enum breaker_action action)
{
    uint32_t actions = 0;

    for (uint32_t l = LEVEL_WARNING; l <= level && l < LEVELS; l++)
        actions |= policy->actions[l];
    return (actions & 1u << action) != 0;
}

uint64_t policy_wanted_bytes(const struct breaker_policy *policy,
                             const struct level_reading *reading, uint64_t growth_bytes_per_s)
{
    const struct level_marks marks = policy_marks(policy);
    const double growth = (double)growth_bytes_per_s * (double)policy->order_growth_ms / 1000.0;
    const uint64_t wanted_bytes =
        level_mark_bytes(&marks, LEVEL_WARNING, reading->total_bytes) +
        reading->total_bytes / 1000 * (uint64_t)policy->order_extra_permille + (uint64_t)growth;

    return wanted_bytes > reading->available_bytes ? wanted_bytes - reading->available_bytes : 0;
}

const char *policy_action_name(enum breaker_action action)
{
    return action_names[action];
}

void policy_write_knobs(const struct breaker_policy *policy, uint32_t level,
                        struct ec_breaker_knobs *knobs)
{
    const struct {
        enum breaker_action action;
        _Atomic uint32_t *knob;
        uint32_t normal, turned;
    } rows[] = {
        { ACTION_PARTICLES, &knobs->particle_rate_permille, 1000,
          (uint32_t)policy->particle_rate_permille },
        { ACTION_AUDIO, &knobs->audio_noncritical, 1, 0 },
        { ACTION_QUALITY, &knobs->quality_permille, 1000, 0 },
        { ACTION_SHADOWS, &knobs->shadows, 1, 0 },
        { ACTION_LOD, &knobs->lod_bias_permille, 0, (uint32_t)policy->lod_bias_permille },
        { ACTION_POST_EFFECTS, &knobs->post_effects, 1, 0 },
    };

    /* Relaxed: games read the knobs of a level after its word, which is stored later (release). */
    for (size_t i = 0; i < COUNT(rows); i++)
        atomic_store_explicit(rows[i].knob,
                              policy_does(policy, level, rows[i].action) ? rows[i].turned
                                                                         : rows[i].normal,
                              memory_order_relaxed);
}

static const char *name_of(enum ec_config_id id)
{
    return ec_configs[id].key + KEY_PREFIX_BYTES;
}

static int64_t *value_at(struct breaker_policy *policy, const struct value_row *row)
{
    return (int64_t *)((char *)policy + row->offset);
}

static int set_member(struct breaker_policy *policy, struct ec_json_span name,
                      struct ec_json_span value, struct ec_error *why)
{
    char text[POLICY_COMMAND_BYTES];

    for (size_t i = 0; i < COUNT(value_rows); i++)
        if (ec_json_string_equals(name, name_of(value_rows[i].id)))
            return set_value(policy, &value_rows[i], value, why);
    for (size_t i = 0; i < COUNT(list_rows); i++) {
        const char *key = name_of(list_rows[i].id);

        if (!ec_json_string_equals(name, key))
            continue;
        if (ec_json_get_text(value, text, sizeof text) < 0)
            return ec_fail(why, EC_ERR_POLICY, "%s is names of actions with commas between, not %s",
                           key, ec_json_type_text(ec_json_type_of(value)));
        return parse_actions(key, text, &policy->actions[list_rows[i].level], why);
    }
    /* on_level runs a program: whoever may write the configuration decides on that, nobody else. */
    return fail_name(name, why);
}

/* The name as it came, quotes included, and the nearest that there is. */
static int fail_name(struct ec_json_span name, struct ec_error *why)
{
    struct ec_nearest nearest;

    ec_nearest_init(&nearest, name.text + 1, name.bytes - 2);
    for (size_t i = 0; i < COUNT(value_rows); i++)
        ec_nearest_offer(&nearest, name_of(value_rows[i].id));
    for (size_t i = 0; i < COUNT(list_rows); i++)
        ec_nearest_offer(&nearest, name_of(list_rows[i].id));
    return ec_fail(why, EC_ERR_POLICY, "%.*s is no value of a policy that can be set%s%s%s",
                   (int)(name.bytes < 100 ? name.bytes : 100), name.text,
                   nearest.best != NULL ? ", did you mean " : "",
                   nearest.best != NULL ? nearest.best : "", nearest.best != NULL ? "?" : "");
}

static int set_value(struct breaker_policy *policy, const struct value_row *row,
                     struct ec_json_span value, struct ec_error *why)
{
    const struct ec_config_row *limits = &ec_configs[row->id];
    int64_t integer;
    bool boolean;

    if (limits->type == EC_CONFIG_BOOLEAN) {
        if (ec_json_get_boolean(value, &boolean) < 0)
            return ec_fail(why, EC_ERR_POLICY, "%s is true or false, not %s", name_of(row->id),
                           ec_json_type_text(ec_json_type_of(value)));
        *value_at(policy, row) = boolean;
        return EC_OK;
    }
    if (ec_json_get_i64(value, &integer) < 0 || integer < limits->min || integer > limits->max)
        return ec_fail(why, EC_ERR_POLICY,
                       "%s is an integer from %" PRId64 " to %" PRId64 ", not %.*s",
                       name_of(row->id), limits->min, limits->max,
                       (int)(value.bytes < 32 ? value.bytes : 32), value.text);
    *value_at(policy, row) = integer;
    return EC_OK;
}

static int set_command(struct breaker_policy *policy, const char *command, struct ec_error *why)
{
    if (strlen(command) >= sizeof policy->on_level)
        return ec_fail(why, EC_ERR_POLICY, "breaker.on_level has %zu bytes, the limit is %zu",
                       strlen(command), sizeof policy->on_level - 1);
    strcpy(policy->on_level, command);
    return EC_OK;
}

/* "evict,orders": names with commas between; spaces do not count; "" is none. */
static int parse_actions(const char *key, const char *list, uint32_t *actions, struct ec_error *why)
{
    uint32_t found = 0;

    while (*list != '\0') {
        const size_t space = strspn(list, " ,"), bytes = strcspn(list + space, " ,");
        unsigned action = 0;

        list += space;
        if (bytes == 0)
            break;
        while (action < ACTION_COUNT && (strlen(action_names[action]) != bytes ||
                                         strncmp(action_names[action], list, bytes) != 0))
            action++;
        if (action == ACTION_COUNT)
            return ec_fail(why, EC_ERR_POLICY, "%s: there is no action \"%.*s\"", key,
                           (int)(bytes < 64 ? bytes : 64), list);
        found |= 1u << action;
        list += bytes;
    }
    *actions = found;
    return EC_OK;
}

/* Marks that are in order, and an hysteresis that leaves room to fall. */
static int check(const struct breaker_policy *policy, struct ec_error *why)
{
    int rc;

    rc = check_below("breaker.eviction_permille", policy->eviction_permille,
                     "breaker.warning_permille", policy->warning_permille, why);
    if (rc == EC_OK)
        rc = check_below("breaker.emergency_permille", policy->emergency_permille,
                         "breaker.eviction_permille", policy->eviction_permille, why);
    if (rc == EC_OK && policy->warning_bytes > 0 && policy->eviction_bytes > 0)
        rc = check_below("breaker.eviction_bytes", policy->eviction_bytes, "breaker.warning_bytes",
                         policy->warning_bytes, why);
    if (rc == EC_OK && policy->eviction_bytes > 0 && policy->emergency_bytes > 0)
        rc = check_below("breaker.emergency_bytes", policy->emergency_bytes,
                         "breaker.eviction_bytes", policy->eviction_bytes, why);
    if (rc == EC_OK && policy->warning_bytes > 0 && policy->eviction_bytes == 0 &&
        policy->emergency_bytes > 0)
        rc = check_below("breaker.emergency_bytes", policy->emergency_bytes,
                         "breaker.warning_bytes", policy->warning_bytes, why);
    if (rc == EC_OK && policy->warning_permille + policy->hysteresis_permille > 1000)
        rc = ec_fail(why, EC_ERR_POLICY,
                     "breaker.hysteresis_permille is %" PRId64
                     ": with breaker.warning_permille, which is %" PRId64
                     ", that is more than there can be",
                     policy->hysteresis_permille, policy->warning_permille);
    if (rc == EC_OK && policy->fast_tick_ms > policy->tick_ms)
        rc = ec_fail(why, EC_ERR_POLICY,
                     "breaker.fast_tick_ms is %" PRId64
                     ", more than breaker.tick_ms, which is %" PRId64,
                     policy->fast_tick_ms, policy->tick_ms);
    return rc;
}

static int check_below(const char *lower_key, int64_t lower, const char *upper_key, int64_t upper,
                       struct ec_error *why)
{
    if (lower < upper)
        return EC_OK;
    return ec_fail(why, EC_ERR_POLICY, "%s is %" PRId64 ", not below %s, which is %" PRId64,
                   lower_key, lower, upper_key, upper);
}

static void write_actions(uint32_t actions, struct ec_json_writer *writer)
{
    char text[ACTION_COUNT * 16] = "";

    for (unsigned i = 0; i < ACTION_COUNT; i++) {
        if ((actions & 1u << i) == 0)
            continue;
        if (text[0] != '\0')
            strcat(text, ",");
        strcat(text, action_names[i]);
    }
    ec_json_string(writer, text);
}
