/* breaker_commands.c - breaker.get, breaker.trip and breaker.reset. */
#include "breaker/breaker.h"
#include "clients/clients.h"
#include "daemon/request.h"
#include "foundation/real_time.h"
#include "segment/telemetry.h"

static void write_state(struct request *request);
static void write_answer(struct ec_json_writer *writer, const struct client *client,
                         int64_t since_ns);

int cmd_breaker_get(struct request *request)
{
    ec_json_object_begin(request->result);
    write_state(request);
    ec_json_object_end(request->result);
    return EC_OK;
}

int cmd_breaker_trip(struct request *request)
{
    const struct params_breaker_trip *params = request->params;
    struct ec_json_writer *writer = request->result;
    uint64_t freed_bytes;

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
    breaker_reset(request->services->breaker, "reset by hand");
    ec_json_object_begin(request->result);
    write_state(request);
    ec_json_object_end(request->result);
    return EC_OK;
}

static void write_state(struct request *request)
{
    struct clients *clients = request->services->clients;
    struct ec_json_writer *writer = request->result;
    struct breaker_state state;

    breaker_state(request->services->breaker, &state);
    ec_json_member_u64(writer, "level", state.level);
    ec_json_member_i64(writer, "since_ns", state.since_ns);
    ec_json_member_string(writer, "cause", state.level == 0 ? "none" : "manual");
    ec_json_member_string(writer, "reason", state.reason);
    ec_json_member_u64(writer, "hold_s", state.hold_s);
    ec_json_member_array(writer, "clients");
    for (struct client *client = clients_next(clients, NULL); client != NULL;
         client = clients_next(clients, client))
        if (client->attached)
            write_answer(writer, client, state.since_ns);
    ec_json_array_end(writer);
}

/* Only an answer that was given since the level was entered counts. A client writes when that was, so
 * a time that has not come yet is none. */
static void write_answer(struct ec_json_writer *writer, const struct client *client,
                         int64_t since_ns)
{
    struct ec_ack_seen ack;
    int64_t at_ns;
    bool answered = ec_telemetry_ack(client_segment(client), &ack) && ack.sequence != 0 &&
                    !__builtin_add_overflow(ack.at_ns, client->clock_offset_ns, &at_ns) &&
                    at_ns >= since_ns && at_ns <= ec_real_ns();

    ec_json_object_begin(writer);
    ec_json_member_u64(writer, "client_id", client->id);
    ec_json_member_string(writer, "name", client->name);
    ec_json_member_u64(writer, "acked_level", answered ? ack.level : 0);
    if (answered)
        ec_json_member_i64(writer, "ack_latency_ns", at_ns - since_ns);
    else
        ec_json_member_null(writer, "ack_latency_ns");
    ec_json_member_u64(writer, "freed_bytes", answered ? ack.freed_bytes : 0);
    ec_json_object_end(writer);
}
