/* reserving.c - room that a client asks for before it needs it: evict, ask the others, grant or refuse. */
#include <inttypes.h>

#include "breaker/state.h"
#include "clients/clients.h"
#include "daemon/log.h"
#include "daemon/request.h"
#include "foundation/real_time.h"
#include "resources/resources.h"

#define NS_PER_MS INT64_C(1000000)

static uint64_t make_room(struct breaker *breaker, uint32_t client_id, uint64_t bytes);
static int grant(struct breaker *breaker, const struct waiting *wanted, int64_t now_ns,
                 struct ec_json_writer *writer, struct ec_error *why);
static void refuse(struct breaker *breaker, const struct waiting *wanted,
                   struct ec_json_writer *writer);
static void write_answer(struct breaker *breaker, const struct waiting *wanted, uint32_t id,
                         struct ec_json_writer *writer);
static void on_gone(void *context);

int cmd_breaker_reserve(struct request *request)
{
    const struct params_breaker_reserve *params = request->params;
    struct breaker *breaker = request->services->breaker;
    const int64_t now_ns = ec_real_ns();
    struct waiting wanted = {
        .breaker = breaker,
        .client_id = request->client->id,
        .bytes = (uint64_t)params->bytes.integer,
        .hold_ns = params->hold_s.integer * EC_NS_PER_S,
        .deadline_ns = now_ns + params->timeout_ms.integer * NS_PER_MS,
    };
    uint64_t missing_bytes;
    struct waiting *place = NULL;
    int rc;

    if (request->dry_run) {
        const bool has_room =
            breaker_has_room(breaker, wanted.client_id, wanted.bytes, &missing_bytes);

        if (has_room)
            request_would(request, "reserve %" PRIu64 " bytes", wanted.bytes);
        else
            request_would(request, "evict assets, for %" PRIu64 " bytes are missing",
                          missing_bytes);
        return EC_OK;
    }
    wanted.freed_bytes = make_room(breaker, wanted.client_id, wanted.bytes);
    if (breaker_has_room(breaker, wanted.client_id, wanted.bytes, &missing_bytes))
        return grant(breaker, &wanted, now_ns, request->result, request->why);
    for (unsigned i = 0; i < WAITING_MAX && params->timeout_ms.integer > 0; i++)
        if (breaker->waiting[i].reply == NULL)
            place = &breaker->waiting[i];
    if (place == NULL) {
        refuse(breaker, &wanted, request->result);
        return EC_OK;
    }
    *place = wanted;
    breaker->is_calm = false;
    rc = request_defer(request, on_gone, place, &place->reply);
    orders_for_reservation(breaker, wanted.client_id, missing_bytes, now_ns);
    orders_publish(breaker, false);
    return rc;
}

int cmd_breaker_release(struct request *request)
{
    const struct params_breaker_release *params = request->params;
    struct breaker *breaker = request->services->breaker;
    const uint32_t id = (uint32_t)params->reservation_id.integer;

    if (request->dry_run && reservations_has(&breaker->reservations, request->client->id, id)) {
        request_would(request, "release reservation %u", id);
        return EC_OK;
    }
    if (request->dry_run ||
        reservations_release(&breaker->reservations, request->client->id, id) < 0)
        return ec_fail(request->why, EC_ERR_NOT_FOUND,
                       "client %u has no reservation %u: it was released or is over",
                       request->client->id, id);
    breaker_deduct(breaker);
    breaker_keep(breaker);
    ec_json_object_begin(request->result);
    ec_json_member_u64(request->result, "reservation_id", id);
    ec_json_object_end(request->result);
    return EC_OK;
}

void waiting_serve(struct breaker *breaker, struct waiting *waiting, int64_t now_ns)
{
    struct reply *reply = waiting->reply;
    uint64_t missing_bytes;
    struct ec_error why = { 0 };

    if (breaker_has_room(breaker, waiting->client_id, waiting->bytes, &missing_bytes)) {
        waiting->reply = NULL;
        if (grant(breaker, waiting, now_ns, reply_result(reply), &why) < 0)
            reply_fail(reply, &why);
        else
            reply_finish(reply);
    } else if (now_ns >= waiting->deadline_ns) {
        waiting->reply = NULL;
        refuse(breaker, waiting, reply_result(reply));
        reply_finish(reply);
    }
}

/* Assets that nobody holds go first. Returns their bytes. */
static uint64_t make_room(struct breaker *breaker, uint32_t client_id, uint64_t bytes)
{
    uint64_t missing_bytes;

    if (breaker_has_room(breaker, client_id, bytes, &missing_bytes))
        return 0;
    return resources_evict(breaker->services->resources, missing_bytes, NULL);
}

static int grant(struct breaker *breaker, const struct waiting *wanted, int64_t now_ns,
                 struct ec_json_writer *writer, struct ec_error *why)
{
    const struct member *member = breaker_member(breaker, wanted->client_id);
    struct reservation row = {
        .client_id = wanted->client_id,
        .bytes = wanted->bytes,
        .end_ns = now_ns + wanted->hold_ns,
        .held_bytes = UINT64_MAX, /* not known: then nothing of it counts as taken */
    };
    uint64_t resident_bytes = 0, held_bytes = 0;
    uint32_t id;

    if (member != NULL)
        member_memory(member, &resident_bytes, &held_bytes);
    if (resident_bytes != 0)
        row.held_bytes = held_bytes;
    id = reservations_add(&breaker->reservations, &row);
    if (id == 0)
        return ec_fail(why, EC_ERR_LIMIT, "there are %d reservations, and no more can be",
                       RESERVATIONS_MAX);
    breaker_deduct(breaker);
    breaker_keep(breaker);
    log_info("breaker", "client %u has reserved %" PRIu64 " bytes", wanted->client_id,
             wanted->bytes);
    write_answer(breaker, wanted, id, writer);
    return EC_OK;
}

static void refuse(struct breaker *breaker, const struct waiting *wanted,
                   struct ec_json_writer *writer)
{
    write_answer(breaker, wanted, 0, writer);
}

static void write_answer(struct breaker *breaker, const struct waiting *wanted, uint32_t id,
                         struct ec_json_writer *writer)
{
    ec_json_object_begin(writer);
    ec_json_member_boolean(writer, "granted", id != 0);
    ec_json_key(writer, "reservation_id");
    if (id != 0)
        ec_json_u64(writer, id);
    else
        ec_json_null(writer);
    ec_json_member_u64(writer, "freed_bytes", wanted->freed_bytes);
    ec_json_member_u64(writer, "available_bytes",
                       breaker_tightest(breaker)->reading.available_bytes);
    ec_json_object_end(writer);
}

static void on_gone(void *context)
{
    struct waiting *waiting = context;

    waiting->reply = NULL;
}
