/* breaker_commands.c - breaker.get, trip, reset, policy, rehearse, history, samples and declare. */
#include "breaker/breaker.h"

#include <string.h>

#include "breaker/rehearsal.h"
#include "breaker/state.h"
#include "clients/clients.h"
#include "daemon/request.h"
#include "foundation/real_time.h"

#define FRESH_NS INT64_C(1000000)

static void write_state(struct request *request);
static void write_status(struct request *request);
static void write_thresholds(const struct breaker *breaker, struct ec_json_writer *writer);
static void write_actions(const struct breaker *breaker, struct ec_json_writer *writer);
static void write_sources(struct breaker *breaker, struct ec_json_writer *writer);
static void write_absent(const struct breaker *breaker, struct ec_json_writer *writer);
static void write_reservations(const struct breaker *breaker, struct ec_json_writer *writer);
static void write_members(const struct breaker *breaker, struct ec_json_writer *writer);
static void write_member(const struct member *member, struct ec_json_writer *writer);
static void write_present(struct breaker *breaker, const struct breaker_policy *policy,
                          struct ec_json_writer *writer);
static double ratio(uint64_t part, uint64_t whole);
static void member_ns(struct ec_json_writer *writer, const char *name, bool known, int64_t ns);

/* What is shown is so now, or was so a moment ago: who asks in a storm does not make files be read at
 * every question. Answers of clients lie in memory and are always taken. */
int cmd_breaker_get(struct request *request)
{
    const struct params_breaker_get *params = request->params;
    struct breaker *breaker = request->services->breaker;
    const int64_t now_ns = ec_real_ns();

    if (now_ns - breaker->looked_ns >= FRESH_NS)
        breaker_look(breaker, now_ns);
    orders_look(breaker, now_ns);
    orders_publish(breaker, false);
    ec_json_object_begin(request->result);
    if (params->brief.boolean)
        write_status(request);
    else
        write_state(request);
    ec_json_object_end(request->result);
    return EC_OK;
}

int cmd_breaker_trip(struct request *request)
{
    const struct params_breaker_trip *params = request->params;
    struct ec_json_writer *writer = request->result;
    uint64_t freed_bytes;

    if (request_would_begin(request, "raise the breaker to level %d", (int)params->level.integer)) {
        ec_json_key(writer, "actions");
        rehearsal_write_actions(&request->services->breaker->policy,
                                (uint32_t)params->level.integer, writer);
        ec_json_object_end(writer);
        return EC_OK;
    }
    ec_json_object_begin(writer);
    ec_json_member_array(writer, "evicted");
    freed_bytes = breaker_trip(request->services->breaker,
                               &(struct breaker_trip) {
                                   .level = (uint32_t)params->level.integer,
                                   .hold_s = (uint32_t)params->hold_s.integer,
                                   .reason = params->reason.string,
                               },
                               writer);
    ec_json_array_end(writer);
    ec_json_member_u64(writer, "freed_bytes", freed_bytes);
    write_state(request);
    ec_json_object_end(writer);
    return EC_OK;
}

int cmd_breaker_reset(struct request *request)
{
    if (request_would(request, "end the manual level %u", request->services->breaker->manual.level))
        return EC_OK;
    breaker_reset(request->services->breaker, "reset by hand");
    ec_json_object_begin(request->result);
    write_state(request);
    ec_json_object_end(request->result);
    return EC_OK;
}

/* What is set lasts until it is set again, or the configuration changes one of these keys. */
int cmd_breaker_policy(struct request *request)
{
    const struct params_breaker_policy *params = request->params;
    struct breaker *breaker = request->services->breaker;
    struct breaker_policy policy = breaker->policy;
    int rc;

    if (params->set.present) {
        if (request->client->role < EC_ROLE_OPERATOR)
            return ec_fail(request->why, EC_ERR_PERMISSION,
                           "breaker.policy: only an operator may set it");
        rc = policy_set(&policy, params->set.span, request->why);
        if (rc < 0)
            return rc;
        if (request_would_begin(request, "use this policy")) {
            policy_write(&policy, request->result);
            ec_json_object_end(request->result);
            return EC_OK;
        }
        breaker_use_policy(breaker, &policy);
    }
    if (request_would(request, "change nothing, since set is missing"))
        return EC_OK;
    ec_json_object_begin(request->result);
    ec_json_member_u64(request->result, "version", breaker->policy_version);
    policy_write(&breaker->policy, request->result);
    ec_json_object_end(request->result);
    return EC_OK;
}

int cmd_breaker_rehearse(struct request *request)
{
    const struct params_breaker_rehearse *params = request->params;
    struct breaker *breaker = request->services->breaker;
    struct breaker_policy policy = breaker->policy;
    int rc = EC_OK;

    if (params->set.present)
        rc = policy_set(&policy, params->set.span, request->why);
    if (rc < 0)
        return rc;
    ec_json_object_begin(request->result);
    if (params->trace.present)
        rc = rehearsal_run(&policy, params->trace.span, request->result, request->why);
    else if (params->recorded.boolean)
        rehearsal_run_recorded(&policy, breaker->trace, request->result);
    else
        write_present(breaker, &policy, request->result);
    if (rc < 0)
        return rc; /* what was begun is not sent */
    ec_json_object_end(request->result);
    return EC_OK;
}

int cmd_breaker_trace(struct request *request)
{
    const struct params_breaker_trace *params = request->params;

    ec_json_object_begin(request->result);
    ec_json_member_array(request->result, "trace");
    trace_write(request->services->breaker->trace, (uint32_t)params->limit.integer,
                request->result);
    ec_json_array_end(request->result);
    ec_json_object_end(request->result);
    return EC_OK;
}

int cmd_breaker_history(struct request *request)
{
    const struct params_breaker_history *params = request->params;

    ec_json_object_begin(request->result);
    ec_json_member_array(request->result, "items");
    history_write(&request->services->breaker->history, (unsigned)params->limit.integer,
                  request->result);
    ec_json_array_end(request->result);
    ec_json_object_end(request->result);
    return EC_OK;
}

int cmd_breaker_samples(struct request *request)
{
    const struct params_breaker_samples *params = request->params;
    const struct samples_query query = {
        .client_id = (uint32_t)params->client_id.integer,
        .since_ns = params->since_ns.integer,
        .limit = (unsigned)params->limit.integer,
    };

    ec_json_object_begin(request->result);
    ec_json_member_array(request->result, "items");
    samples_write(request->services->breaker->samples, &query, request->result);
    ec_json_array_end(request->result);
    ec_json_object_end(request->result);
    return EC_OK;
}

int cmd_breaker_declare(struct request *request)
{
    const struct params_breaker_declare *params = request->params;
    struct member *member = breaker_member(request->services->breaker, request->client->id);
    struct ec_json_writer *writer = request->result;

    if (member == NULL)
        return ec_fail(request->why, EC_ERR_STATE,
                       "client %u is not attached: it can be asked for nothing",
                       request->client->id);
    if (request_would(request, "change what client %u has declared", request->client->id))
        return EC_OK;
    if (params->priority.present)
        member->traits.priority = (uint32_t)params->priority.integer;
    if (params->busy.present)
        member->traits.busy = params->busy.boolean;
    if (params->required.present)
        member->traits.required = params->required.boolean;
    if (params->can_save.present)
        member->traits.can_save = params->can_save.boolean;
    if (params->saving.present)
        member->traits.saving = params->saving.boolean;
    ec_json_object_begin(writer);
    ec_json_member_u64(writer, "priority", member->traits.priority);
    ec_json_member_boolean(writer, "busy", member->traits.busy);
    ec_json_member_boolean(writer, "required", member->traits.required);
    ec_json_member_boolean(writer, "can_save", member->traits.can_save);
    ec_json_member_boolean(writer, "saving", member->traits.saving);
    ec_json_object_end(writer);
    return EC_OK;
}

/* All of it. */
static void write_state(struct request *request)
{
    struct breaker *breaker = request->services->breaker;
    struct ec_json_writer *writer = request->result;

    write_status(request);
    write_thresholds(breaker, writer);
    write_actions(breaker, writer);
    write_sources(breaker, writer);
    write_absent(breaker, writer);
    write_reservations(breaker, writer);
    write_members(breaker, writer);
    ec_json_member_u64(writer, "looks", breaker->looks);
    ec_json_member_i64(writer, "look_ns",
                       breaker->looks == 0 ? 0 : breaker->look_cost_ns / (int64_t)breaker->looks);
    ec_json_member_u64(writer, "kernel_events",
                       breaker->wakeups == NULL ? 0 : wakeups_count(breaker->wakeups));
    ec_json_member_boolean(writer, "memory_locked", breaker->is_locked);
}

/* What is worth polling. */
static void write_status(struct request *request)
{
    struct breaker *breaker = request->services->breaker;
    const struct source *tightest = breaker_tightest(breaker);
    const int64_t next_ns =
        level_next_ns(&breaker->marks, &tightest->reading, growth_bytes_per_s(&tightest->growth));
    struct ec_json_writer *writer = request->result;
    struct breaker_state state;

    breaker_state(breaker, &state);
    ec_json_member_u64(writer, "level", state.level);
    ec_json_member_i64(writer, "since_ns", state.since_ns);
    ec_json_member_string(
        writer, "cause",
        history_cause_name(state.level == 0 ? EC_BREAKER_CAUSE_NONE : breaker->cause));
    ec_json_member_string(writer, "reason", state.reason);
    ec_json_member_u64(writer, "hold_s", state.hold_s);
    ec_json_member_u64(writer, "manual_level", breaker->manual.level);
    ec_json_member_string(writer, "source", tightest->name);
    ec_json_member_u64(writer, "total_bytes", tightest->reading.total_bytes);
    ec_json_member_u64(writer, "available_bytes", tightest->reading.available_bytes);
    ec_json_member_real(writer, "available_ratio",
                        ratio(tightest->reading.available_bytes, tightest->reading.total_bytes));
    ec_json_member_u64(writer, "growth_bytes_s", growth_bytes_per_s(&tightest->growth));
    member_ns(writer, "next_level_ns", next_ns >= 0, next_ns);
}

static void write_thresholds(const struct breaker *breaker, struct ec_json_writer *writer)
{
    ec_json_member_array(writer, "thresholds");
    for (uint32_t level = LEVEL_WARNING; level < LEVELS; level++)
        ec_json_real(writer, breaker->marks.permille[level] / 1000.0);
    ec_json_array_end(writer);
    ec_json_member_real(writer, "hysteresis", breaker->marks.hysteresis_permille / 1000.0);
    ec_json_member_i64(writer, "hold_ns", breaker->marks.hold_ns);
}

static void write_actions(const struct breaker *breaker, struct ec_json_writer *writer)
{
    static const char *const names[LEVELS] = { "normal", "warning", "eviction", "emergency" };

    ec_json_member_object(writer, "actions");
    for (uint32_t level = LEVEL_WARNING; level < LEVELS; level++) {
        ec_json_key(writer, names[level]);
        rehearsal_write_actions(&breaker->policy, level, writer);
    }
    ec_json_object_end(writer);
}

static void write_sources(struct breaker *breaker, struct ec_json_writer *writer)
{
    ec_json_member_array(writer, "sources");
    for (uint32_t i = 0; i < breaker->sources.high; i++) {
        const struct source *source = &breaker->sources.source[i];
        const struct level_reading *reading = &source->reading;

        if (source->kind == SOURCE_FREE)
            continue;
        ec_json_object_begin(writer);
        ec_json_member_string(writer, "name", source->name);
        ec_json_member_string(writer, "kind",
                              source->kind == SOURCE_HOST       ? "host"
                              : source->kind == SOURCE_GROUP_V2 ? "group v2"
                                                                : "group v1");
        ec_json_member_string(writer, "scope", source->own ? "all" : "clients");
        ec_json_member_boolean(writer, "readable", source->readable);
        ec_json_member_u64(writer, "level", source->machine.level);
        ec_json_member_u64(writer, "total_bytes", reading->total_bytes);
        ec_json_member_u64(writer, "available_bytes", reading->available_bytes);
        ec_json_member_real(writer, "available_ratio",
                            ratio(reading->available_bytes, reading->total_bytes));
        if (source->kind == SOURCE_HOST)
            ec_json_member_u64(writer, "kernel_available_bytes", source->kernel_bytes);
        ec_json_member_u64(writer, "reserved_bytes", source->reserved_bytes);
        ec_json_member_u64(writer, "lowest_bytes", source->lowest_bytes);
        ec_json_member_u64(writer, "growth_bytes_s", growth_bytes_per_s(&source->growth));
        ec_json_member_u64(writer, "some_permille", reading->some_permille);
        ec_json_member_u64(writer, "full_permille", reading->full_permille);
        ec_json_member_boolean(writer, "kernel_events",
                               breaker->wakeups != NULL && wakeups_is_armed(breaker->wakeups, i));
        ec_json_object_end(writer);
    }
    ec_json_array_end(writer);
}

static void write_absent(const struct breaker *breaker, struct ec_json_writer *writer)
{
    ec_json_member_array(writer, "absent");
    for (unsigned i = 0; i < breaker->sources.absent_count; i++) {
        ec_json_object_begin(writer);
        ec_json_member_string(writer, "source", breaker->sources.absent[i].name);
        ec_json_member_string(writer, "reason", breaker->sources.absent[i].reason);
        ec_json_object_end(writer);
    }
    ec_json_array_end(writer);
}

static void write_reservations(const struct breaker *breaker, struct ec_json_writer *writer)
{
    const int64_t now_ns = ec_real_ns();

    ec_json_member_array(writer, "reservations");
    for (unsigned i = 0; i < RESERVATIONS_MAX; i++) {
        const struct reservation *row = &breaker->reservations.rows[i];

        if (row->id == 0)
            continue;
        ec_json_object_begin(writer);
        ec_json_member_u64(writer, "reservation_id", row->id);
        ec_json_member_u64(writer, "client_id", row->client_id);
        ec_json_member_u64(writer, "bytes", row->bytes);
        ec_json_member_u64(writer, "taken_bytes", row->taken_bytes);
        ec_json_member_i64(writer, "left_ns", row->end_ns > now_ns ? row->end_ns - now_ns : 0);
        ec_json_object_end(writer);
    }
    ec_json_array_end(writer);
}

static void write_members(const struct breaker *breaker, struct ec_json_writer *writer)
{
    ec_json_member_array(writer, "clients");
    for (uint32_t i = 0; i < breaker->member_high; i++)
        if (breaker->members[i].client != NULL)
            write_member(&breaker->members[i], writer);
    ec_json_array_end(writer);
}

static void write_member(const struct member *member, struct ec_json_writer *writer)
{
    ec_json_object_begin(writer);
    ec_json_member_u64(writer, "client_id", member->client->id);
    ec_json_member_string(writer, "name", member->client->name);
    ec_json_member_u64(writer, "own_level", member->level);
    ec_json_member_string(writer, "own_cause", history_cause_name(member->cause));
    ec_json_member_u64(writer, "priority", member->traits.priority);
    ec_json_member_boolean(writer, "busy", member->traits.busy);
    ec_json_member_boolean(writer, "required", member->traits.required);
    ec_json_member_boolean(writer, "can_save", member->traits.can_save);
    ec_json_member_boolean(writer, "saving", member->traits.saving);
    ec_json_member_u64(writer, "evictable_bytes", member_evictable(member));
    ec_json_member_u64(writer, "asked_bytes", member->order.bytes);
    ec_json_member_boolean(writer, "awaited", member->asked_sequence != 0);
    ec_json_member_u64(writer, "late", member->late_count);
    ec_json_member_boolean(writer, "exit_asked", member->exit_ns != 0);
    ec_json_member_boolean(writer, "answered", member->answered);
    ec_json_member_u64(writer, "acked_level", member->answered ? member->acked_level : 0);
    member_ns(writer, "ack_latency_ns", member->answered, member->ack_latency_ns);
    ec_json_member_u64(writer, "freed_bytes", member->answered ? member->freed_bytes : 0);
    ec_json_member_u64(writer, "shrunk_bytes", member->answered ? member->shrunk_bytes : 0);
    ec_json_object_end(writer);
}

/* What this policy would do with what is there now. */
static void write_present(struct breaker *breaker, const struct breaker_policy *policy,
                          struct ec_json_writer *writer)
{
    const struct level_marks marks = policy_marks(policy);
    struct sharing_row rows[MEMBERS_MAX];

    ec_json_member_array(writer, "sources");
    for (uint32_t i = 0; i < breaker->sources.high; i++) {
        struct source *source = &breaker->sources.source[i];
        enum ec_breaker_cause cause;
        uint32_t level;

        if (source->kind == SOURCE_FREE || !source_look_exactly(source, ec_real_ns()))
            continue;
        level = level_wanted(&marks, &source->reading, &cause);
        ec_json_object_begin(writer);
        ec_json_member_string(writer, "name", source->name);
        ec_json_member_u64(writer, "level", level);
        ec_json_member_string(writer, "cause", history_cause_name(cause));
        ec_json_key(writer, "actions");
        rehearsal_write_actions(policy, level, writer);
        ec_json_member_array(writer, "orders");
        if (level >= LEVEL_EVICTION && policy_does(policy, level, ACTION_ORDERS)) {
            orders_share(
                breaker, i,
                policy_wanted_bytes(policy, &source->reading, growth_bytes_per_s(&source->growth)),
                0, rows);
            for (uint32_t m = 0; m < breaker->member_high; m++) {
                if (rows[m].bytes == 0)
                    continue;
                ec_json_object_begin(writer);
                ec_json_member_u64(writer, "client_id", breaker->members[m].client->id);
                ec_json_member_u64(writer, "bytes", rows[m].bytes);
                ec_json_object_end(writer);
            }
        }
        ec_json_array_end(writer);
        ec_json_object_end(writer);
    }
    ec_json_array_end(writer);
}

static double ratio(uint64_t part, uint64_t whole)
{
    return whole == 0 ? 1 : (double)part / (double)whole;
}

static void member_ns(struct ec_json_writer *writer, const char *name, bool known, int64_t ns)
{
    ec_json_key(writer, name);
    if (known)
        ec_json_i64(writer, ns);
    else
        ec_json_null(writer);
}
