/* events_commands.c - event.* over the control socket: unpack, call, pack. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "clients/clients.h"
#include "daemon/config.h"
#include "daemon/log.h"
#include "daemon/request.h"
#include "events/joining.h"
#include "events/registry.h"
#include "foundation/doorbell.h"

/* ---- types ----------------------------------------------------------------------------------- */

static int parse_policy(const struct param *param, bool *lossy, struct ec_error *why)
{
    *lossy = strcmp(param->string, "lossy") == 0;
    return *lossy || strcmp(param->string, "reliable") == 0
               ? EC_OK
               : ec_fail(why, EC_ERR_PARAM, "policy is %s, expected reliable or lossy",
                         param->string);
}

/* One {name, type, count?} of the parameter fields. */
static int parse_field(struct ec_json_span object, unsigned index, struct event_field *field,
                       struct ec_error *why)
{
    static const char *const names[] = { "name", "type", "count" };
    struct ec_json_span values[3] = { { 0 } };
    struct ec_json_fields members = { .names = names, .values = values, .count = 3 };
    char type[16];
    int64_t count = 1;

    if (ec_json_bind(object, &members) != EC_OK || members.unknown.bytes != 0)
        return ec_fail(why, EC_ERR_PARAM, "fields[%u]: expected an object {name, type, count?}",
                       index);
    if (ec_json_get_text(values[0], field->name, sizeof field->name) != EC_OK)
        return ec_fail(why, EC_ERR_PARAM, "fields[%u].name: expected a string of 1..%d bytes",
                       index, EVENT_FIELD_NAME_BYTES - 1);
    if (ec_json_get_text(values[1], type, sizeof type) != EC_OK ||
        !event_scalar_parse(type, &field->scalar))
        return ec_fail(why, EC_ERR_PARAM,
                       "fields[%u] %s: type is one of u8 i8 u16 i16 u32 i32 u64 i64 f32 f64 bool "
                       "char",
                       index, field->name);
    if (values[2].bytes != 0 &&
        (ec_json_get_i64(values[2], &count) != EC_OK || count < 1 || count > EVENT_PAYLOAD_MAX))
        return ec_fail(why, EC_ERR_PARAM, "fields[%u] %s: count is not 1..%u", index, field->name,
                       EVENT_PAYLOAD_MAX);
    field->count = (uint32_t)count;
    return EC_OK;
}

static int parse_fields(struct request *request, struct ec_json_span array,
                        struct event_type_desc *desc)
{
    struct ec_json_iterator elements = ec_json_iterate(array);
    struct ec_json_span element;

    desc->fields = request_alloc(request, EVENT_FIELDS_MAX * sizeof *desc->fields);
    if (desc->fields == NULL)
        return ec_fail(request->why, EC_ERR_MEMORY, "no memory for %d fields", EVENT_FIELDS_MAX);
    memset(desc->fields, 0, EVENT_FIELDS_MAX * sizeof *desc->fields);
    while (ec_json_next_element(&elements, &element)) {
        int rc;

        if (desc->field_count == EVENT_FIELDS_MAX)
            return ec_fail(request->why, EC_ERR_LIMIT, "more than %d fields", EVENT_FIELDS_MAX);
        rc =
            parse_field(element, desc->field_count, &desc->fields[desc->field_count], request->why);
        if (rc < 0)
            return rc;
        desc->field_count++;
    }
    if (desc->field_count == 0)
        return ec_fail(request->why, EC_ERR_PARAM, "fields is empty: give max_size instead");
    return EC_OK;
}

static void write_type(struct ec_json_writer *w, const struct event_type *type)
{
    ec_json_member_hex64(w, "type_id", type->id);
    ec_json_member_string(w, "name", type->name);
    ec_json_member_u64(w, "version", type->version);
    ec_json_member_u64(w, "size", type->size);
    ec_json_member_string(w, "policy", type->lossy ? "lossy" : "reliable");
}

int cmd_event_register(struct request *request)
{
    const struct params_event_register *params = request->params;
    struct events *events = request->services->events;
    char registered_by[64];
    struct event_type_desc desc = {
        .name = params->name.string,
        .registered_by = registered_by,
        .version = (uint32_t)params->version.integer,
        .max_size = params->max_size.present ? (uint32_t)params->max_size.integer : 0,
    };
    struct event_type *type;
    bool created;
    int rc;

    if (request->client->id != 0)
        snprintf(registered_by, sizeof registered_by, "client %u (%.40s)", request->client->id,
                 request->client->name);
    else
        snprintf(registered_by, sizeof registered_by, "process %d", (int)request->client->pid);
    rc = parse_policy(&params->policy, &desc.lossy, request->why);
    if (rc < 0)
        return rc;
    if (params->fields.present == params->max_size.present)
        return ec_fail(request->why, EC_ERR_PARAM, "give either fields or max_size");
    if (params->fields.present)
        rc = parse_fields(request, params->fields.span, &desc);
    if (rc == EC_OK && request->dry_run) {
        rc = event_types_register(&events->types, &desc, NULL, NULL, request->data, request->why);
        return rc < 0 ? rc
               : request_would(request,
                               event_types_find_name(&events->types, desc.name) == NULL
                                   ? "register the type %s"
                                   : "find %s registered already, with the same layout",
                               desc.name)
                   ? EC_OK
                   : EC_ERR_INTERNAL;
    }
    if (rc == EC_OK)
        rc = event_types_register(&events->types, &desc, &type, &created, request->data,
                                  request->why);
    if (rc < 0)
        return rc;
    if (created)
        log_info("events", "type %s of %u bytes registered by %s", type->name, type->size,
                 registered_by);
    ec_json_object_begin(request->result);
    write_type(request->result, type);
    event_fields_write(type, request->result);
    ec_json_member_boolean(request->result, "created", created);
    ec_json_object_end(request->result);
    return EC_OK;
}

static void write_listed(struct ec_json_writer *w, const struct events *events,
                         const struct event_type *type, bool with_fields)
{
    struct event_counts counts;

    event_counts_sum(events, type, &counts);
    ec_json_object_begin(w);
    write_type(w, type);
    ec_json_member_u64(w, "publishers", counts.publishers);
    ec_json_member_u64(w, "subscribers", counts.subscribers);
    if (with_fields) /* of all types they could be more than a line holds */
        event_fields_write(type, w);
    ec_json_object_end(w);
}

/* The type of this name, or EC_ERR_TYPE. */
static struct event_type *find_type(struct request *request, const char *name)
{
    struct event_type *type = event_types_find_name(&request->services->events->types, name);

    if (type == NULL)
        ec_fail(request->why, EC_ERR_TYPE, "event type %s is not registered", name);
    return type;
}

int cmd_event_list(struct request *request)
{
    const struct params_event_list *params = request->params;
    struct events *events = request->services->events;
    struct ec_json_writer *w = request->result;
    struct event_type *only = NULL, *type, *next;

    if (params->type.present) {
        only = find_type(request, params->type.string);
        if (only == NULL)
            return EC_ERR_TYPE;
    }
    ec_json_object_begin(w);
    ec_json_member_array(w, "items");
    HASH_ITER(hh, events->types.by_id, type, next)
    if (only == NULL || only == type)
        write_listed(w, events, type, only != NULL);
    ec_json_array_end(w);
    ec_json_object_end(w);
    return EC_OK;
}

static void write_statistics(struct ec_json_writer *w, const struct events *events,
                             const struct event_type *type)
{
    struct event_counts counts;
    struct ec_percentiles latency;

    event_counts_sum(events, type, &counts);
    ec_histogram_percentiles(&counts.latency, &latency);
    ec_json_object_begin(w);
    ec_json_member_string(w, "name", type->name);
    ec_json_member_hex64(w, "type_id", type->id);
    ec_json_member_u64(w, "published", counts.published);
    ec_json_member_u64(w, "delivered", counts.delivered);
    ec_json_member_u64(w, "lost", counts.lost);
    ec_json_member_u64(w, "refused", counts.refused);
    ec_json_member_u64(w, "bytes", counts.bytes);
    ec_json_member_real(w, "rate_hz", type->rate_hz);
    ec_json_member_object(w, "latency_ns");
    ec_json_member_u64(w, "p50", latency.p50_ns);
    ec_json_member_u64(w, "p99", latency.p99_ns);
    ec_json_member_u64(w, "p999", latency.p999_ns);
    ec_json_member_u64(w, "max", latency.max_ns);
    ec_json_object_end(w);
    ec_json_object_end(w);
}

int cmd_event_stats(struct request *request)
{
    const struct params_event_stats *params = request->params;
    struct events *events = request->services->events;
    struct ec_json_writer *w = request->result;
    struct event_type *only = NULL, *type, *next;

    if (params->type.present) {
        only = find_type(request, params->type.string);
        if (only == NULL)
            return EC_ERR_TYPE;
    }
    ec_json_object_begin(w);
    ec_json_member_array(w, "items");
    HASH_ITER(hh, events->types.by_id, type, next)
    if (only == NULL || only == type)
        write_statistics(w, events, type);
    ec_json_array_end(w);
    ec_json_member_array(w, "ports");
    for (const struct route_port *port = events->routes.ports; port != NULL; port = port->next)
        event_port_write(port, w);
    ec_json_array_end(w);
    ec_json_object_end(w);
    return EC_OK;
}

/* ---- JSON publishers and subscribers --------------------------------------------------------- */

int cmd_event_publish(struct request *request)
{
    const struct params_event_publish *params = request->params;
    struct events *events = request->services->events;
    struct event_type *type = find_type(request, params->type.string);
    uint32_t bytes;
    uint64_t sequence;
    void *payload;
    int rc;

    if (type == NULL)
        return EC_ERR_TYPE;
    if (type->is_system)
        return ec_fail(request->why, EC_ERR_PERMISSION, "%s is published by engine-cored only",
                       type->name);
    rc = events_claim(events, type->size, &payload);
    if (rc < 0)
        return ec_fail(request->why, rc, "%s of up to %u bytes does not fit the daemon's port",
                       type->name, type->size);
    /* Encoded in place: nobody sees the bytes before the commit, which a fault does not reach. */
    rc = event_payload_encode(type, params->payload.span, payload, &bytes, request->why);
    if (rc < 0)
        return ec_error_prefix(request->why, rc, "payload");
    if (request_would(request, "publish one %s of %u bytes", type->name, bytes))
        return EC_OK;
    sequence = events_commit(events, type, bytes, request->client->id);
    ec_json_object_begin(request->result);
    ec_json_member_u64(request->result, "sequence", sequence);
    ec_json_object_end(request->result);
    return EC_OK;
}

/* Names of types or "*" into ids; none for all. lossy: every one of them is lossy only. */
/* A reader that comes back may want types whose programs are not back yet: their ids follow from their
 * names, and until they are known none of them is taken for lossy. */
static int parse_types(struct request *request, struct ec_json_span span, bool resumes,
                       uint64_t *ids, uint32_t *count, bool *lossy)
{
    struct ec_json_iterator elements = ec_json_iterate(span);
    struct ec_json_span element;
    char name[EVENT_NAME_BYTES];

    *count = 0;
    *lossy = false;
    if (ec_json_string_equals(span, "*"))
        return EC_OK;
    if (ec_json_type_of(span) != EC_JSON_ARRAY)
        return ec_fail(request->why, EC_ERR_PARAM, "types: expected an array of names, or \"*\"");
    *lossy = true;
    while (ec_json_next_element(&elements, &element)) {
        struct event_type *type;

        if (*count == READER_TYPES_MAX)
            return ec_fail(request->why, EC_ERR_LIMIT, "types: more than %d", READER_TYPES_MAX);
        if (ec_json_get_text(element, name, sizeof name) != EC_OK)
            return ec_fail(request->why, EC_ERR_PARAM, "types[%u]: expected a name of 1..%d bytes",
                           *count, EVENT_NAME_BYTES - 1);
        type = resumes ? event_types_find_name(&request->services->events->types, name)
                       : find_type(request, name);
        if (type == NULL && !resumes)
            return EC_ERR_TYPE;
        ids[(*count)++] = type != NULL ? type->id : ec_event_type_id(name);
        *lossy &= type != NULL && type->lossy;
    }
    return *count != 0 ? EC_OK
                       : ec_fail(request->why, EC_ERR_PARAM, "types is empty: \"*\" means all");
}

int cmd_event_subscribe(struct request *request)
{
    const struct params_event_subscribe *params = request->params;
    uint64_t types[READER_TYPES_MAX];
    struct subscriptions *subscriptions = &request->services->events->subscriptions;
    struct subscription_desc desc = { .types = types };
    uint32_t id = 0;
    bool lossy;
    int rc = parse_types(request, params->types.span, false, types, &desc.type_count, &lossy);

    if (rc == EC_OK)
        rc = feed_parse_pace(&params->mode, &params->max_rate_hz, &desc.feed, request->why);
    if (rc == EC_OK)
        rc = feed_parse_since(&params->since, &desc.feed, request->why);
    desc.is_rehearsal = request->dry_run;
    if (rc == EC_OK)
        rc = subscriptions_add(subscriptions, request->client, &desc, &id, request->why);
    if (rc < 0)
        return rc;
    if (request_would(request, "begin a stream of events"))
        return EC_OK;
    ec_json_object_begin(request->result);
    ec_json_member_u64(request->result, "subscription_id", id);
    ec_json_member_u64(request->result, "seq", feed_seq(subscriptions->feed));
    ec_json_object_end(request->result);
    return EC_OK;
}

int cmd_event_unsubscribe(struct request *request)
{
    const struct params_event_unsubscribe *params = request->params;

    return feed_end_by_request(request->services->events->subscriptions.feed, request,
                               (uint32_t)params->subscription_id.integer);
}

/* ---- ports and readers of attached clients --------------------------------------------------- */

static struct route_owner *find_owner(struct request *request)
{
    struct route_owner *owner =
        request->client->attached
            ? routes_owner(&request->services->events->routes, request->client)
            : NULL;

    if (owner == NULL)
        ec_fail(request->why, EC_ERR_STATE, "client.attach comes first");
    return owner;
}

/* "resume" of a port {port_id, readers} or a reader {reader_id, slot, ports}: who it was, and what it
 * says of others. slot is NULL for a port. Finish claims afterwards. */
static int parse_resume(const struct param *param, uint32_t *id, uint32_t *slot,
                        struct claims *claims, struct ec_error *why)
{
    const bool of_port = slot == NULL;
    const char *names[] = { of_port ? "port_id" : "reader_id", of_port ? "readers" : "ports",
                            "slot" };
    struct ec_json_span values[3] = { { 0 } };
    struct ec_json_fields fields = { .names = names, .values = values, .count = of_port ? 2 : 3 };
    uint64_t number, place = 0;

    if (!param->present)
        return EC_OK;
    if (ec_json_bind(param->span, &fields) < 0 || fields.unknown.bytes != 0 ||
        ec_json_get_u64(values[0], &number) < 0 || (of_port && number == 0) ||
        number > UINT32_MAX || ec_json_type_of(values[1]) != EC_JSON_ARRAY ||
        (!of_port && (ec_json_get_u64(values[2], &place) < 0 || place >= EC_READERS_MAX)))
        return ec_fail(why, EC_ERR_PARAM, "resume: expected {%s, %s%s}", names[0], names[1],
                       of_port ? "" : ", slot");
    *id = (uint32_t)number;
    if (!of_port)
        *slot = (uint32_t)place;
    return claims_read(claims, values[1], of_port, why);
}

int cmd_event_port_open(struct request *request)
{
    const struct params_event_port_open *params = request->params;
    struct events *events = request->services->events;
    struct route_owner *owner = find_owner(request);
    struct claims claims = { 0 };
    struct route_port_desc desc = { .name = params->name.string,
                                    .ring_bytes = (uint64_t)params->bytes.integer };
    struct route_port *port;
    int rc;

    if (owner == NULL)
        return EC_ERR_STATE;
    if (request->fd_count != 1)
        return ec_fail(request->why, EC_ERR_PARAM, "%u descriptors came with the line, expected 1",
                       request->fd_count);
    if (request_would(request, "open port %s", params->name.string))
        return EC_OK;
    desc.fd = request->fds[0];
    rc = parse_resume(&params->resume, &desc.id, NULL, &claims, request->why);
    desc.claims = params->resume.present ? &claims : NULL;
    if (rc == EC_OK)
        rc = routes_open_port(&events->routes, owner, &desc, &port, request->why);
    claims_finish(&claims);
    if (rc < 0)
        return ec_error_prefix(request->why, rc, "open port %s", params->name.string);
    if (params->blocks.present && params->blocks.integer != port->view.block_count) {
        rc = ec_fail(request->why, EC_ERR_PARAM, "blocks is %lld, but the segment has %u",
                     (long long)params->blocks.integer, port->view.block_count);
        routes_close_port(&events->routes, port);
        return rc;
    }
    joining_check(events);
    ec_json_object_begin(request->result);
    ec_json_member_u64(request->result, "port_id", port->id);
    ec_json_member_i64(request->result, "stall_ms",
                       config_integer(request->services->config, EC_CONFIG_event_stall_ms));
    ec_json_object_end(request->result);
    return EC_OK;
}

int cmd_event_port_close(struct request *request)
{
    const struct params_event_port_close *params = request->params;
    struct events *events = request->services->events;
    uint32_t id = (uint32_t)params->port_id.integer;
    struct route_port *port = routes_find_port(&events->routes, id);

    if (port == NULL || port->owner->client != request->client)
        return ec_fail(request->why, EC_ERR_NOT_FOUND, "this client has no port %u", id);
    if (request_would(request, "retire port %u (%s)", id, port->name))
        return EC_OK;
    routes_close_port(&events->routes, port);
    joining_check(events);
    ec_json_object_begin(request->result);
    ec_json_member_u64(request->result, "port_id", id);
    ec_json_object_end(request->result);
    return EC_OK;
}

struct start {
    enum ec_port_start kind;
    uint32_t history;
};

static int parse_start(const struct param *param, struct start *start, struct ec_error *why)
{
    static const char *const names[] = { "history" };
    struct ec_json_span value = { 0 };
    struct ec_json_fields members = { .names = names, .values = &value, .count = 1 };
    int64_t history = 0;

    *start = (struct start) { .kind = EC_PORT_START_TAIL };
    if (ec_json_string_equals(param->span, "tail"))
        return EC_OK;
    start->kind = EC_PORT_START_KEYFRAME;
    if (ec_json_string_equals(param->span, "keyframe"))
        return EC_OK;
    start->kind = EC_PORT_START_HISTORY;
    if (ec_json_type_of(param->span) != EC_JSON_OBJECT ||
        ec_json_bind(param->span, &members) != EC_OK || members.unknown.bytes != 0 ||
        ec_json_get_i64(value, &history) != EC_OK || history < 1 || history >= EC_PORT_MARKS)
        return ec_fail(why, EC_ERR_PARAM,
                       "start: expected \"tail\", \"keyframe\" or {\"history\": 1..%d}",
                       EC_PORT_MARKS - 1);
    start->history = (uint32_t)history;
    return EC_OK;
}

/* Where the reader begins in the ring, as of now; the library looks again once it is admitted. */
static void write_start(const struct route_port *port, const struct start *start,
                        struct ec_json_writer *w)
{
    struct ec_cursor_slot scratch;
    struct ec_port_reading reading;

    memset(&scratch, 0, sizeof scratch);
    ec_port_reading_init(&reading, &port->view, &scratch, 0, start->kind, start->history);
    ec_json_member_u64(w, "position", reading.position);
    ec_json_member_u64(w, "sequence", reading.expected);
}

/* One line carries so many descriptors; further ports follow as event.port.added. */
#define REPLY_PORTS_MAX 64

static int write_reader_ports(struct request *request, const struct route_reader *reader,
                              const struct start *start)
{
    unsigned count = 0;
    struct ec_json_writer *w = request->result;

    ec_json_object_begin(w);
    ec_json_member_u64(w, "reader_id", reader->id);
    ec_json_member_u64(w, "slot", reader->slot);
    ec_json_member_array(w, "ports");
    for (const struct route_link *link = reader->links; link != NULL; link = link->next_of_reader) {
        int rc;

        if (link->restored) /* it knows */
            continue;
        if (count++ >= REPLY_PORTS_MAX) {
            routes_tell_reader(&request->services->events->routes, link);
            continue;
        }
        rc = request_attach_fd(request, link->port->fd);
        if (rc < 0)
            return rc;
        ec_json_object_begin(w);
        ec_json_member_u64(w, "port_id", link->port->id);
        ec_json_member_u64(w, "client_id", link->port->owner->client_id);
        ec_json_member_string(w, "client", link->port->owner->name);
        ec_json_member_string(w, "name", link->port->name);
        ec_json_member_u64(w, "bytes", link->port->ring_bytes);
        ec_json_member_u64(w, "cursor", link->cursor);
        ec_json_member_u64(w, "reader_slot", link->reader_slot);
        ec_json_member_boolean(w, "existed", link->existed);
        ec_json_member_boolean(w, "across_users", route_is_across_users(link));
        write_start(link->port, start, w);
        ec_json_object_end(w);
    }
    ec_json_array_end(w);
    ec_json_object_end(w);
    return EC_OK;
}

/* With a second bell, for programs of other users, the first one may be an eventfd whoever the caller is:
 * only programs of its own user ring that. */
static int check_bells(const struct request *request)
{
    const bool has_two = request->fd_count == 2;
    int rc = EC_OK;

    if (request->fd_count > 0)
        rc = ec_doorbell_check(request->fds[0], has_two || request->client->uid == geteuid(),
                               request->why);
    if (rc == EC_OK && has_two)
        rc = ec_doorbell_check(request->fds[1], false, request->why);
    return rc;
}

int cmd_event_reader_open(struct request *request)
{
    const struct params_event_reader_open *params = request->params;
    struct events *events = request->services->events;
    struct route_owner *owner = find_owner(request);
    uint64_t types[READER_TYPES_MAX];
    struct route_reader *reader;
    uint32_t count;
    bool wants_lossy, lossy;
    struct start start = { EC_PORT_START_TAIL, 0 };
    struct claims claims = { 0 };
    struct route_reader_desc desc = { .foreign_only = params->foreign.boolean, .types = types };
    int rc;

    if (owner == NULL)
        return EC_ERR_STATE;
    if (request->fd_count > 2 || params->fds.present != (request->fd_count != 0))
        return ec_fail(request->why, EC_ERR_PARAM,
                       "fds is [\"doorbell\"] or [\"doorbell\",\"doorbell_across\"] with a "
                       "descriptor each, or absent with none");
    rc = parse_policy(&params->policy, &wants_lossy, request->why);
    if (rc == EC_OK)
        rc = parse_start(&params->start, &start, request->why);
    if (rc == EC_OK)
        rc =
            parse_types(request, params->types.span, params->resume.present, types, &count, &lossy);
    if (rc == EC_OK)
        rc = check_bells(request);
    if (rc == EC_OK && request_would(request, "open a reader of %u types (0: all)", count))
        return EC_OK;
    if (rc == EC_OK)
        rc = parse_resume(&params->resume, &desc.id, &desc.slot, &claims, request->why);
    if (rc == EC_OK) {
        desc.reliable = !wants_lossy && !lossy;
        desc.type_count = count;
        desc.bell_fd = request->fd_count > 0 ? request->fds[0] : -1;
        desc.bell_across_fd = request->fd_count > 1 ? request->fds[1] : -1;
        desc.claims = params->resume.present ? &claims : NULL;
        rc = routes_open_reader(&events->routes, owner, &desc, &reader, request->why);
    }
    claims_finish(&claims);
    if (rc < 0)
        return rc;
    for (unsigned i = 0; i < request->fd_count; i++)
        request->fds[i] = -1; /* the reader's now */
    joining_check(events);    /* one that came back may know what others waited for */
    rc = write_reader_ports(request, reader, &start);
    if (rc < 0)
        routes_close_reader(&events->routes, reader);
    return rc;
}

static struct route_link *find_link(struct events *events, int64_t port_id, int64_t reader_id)
{
    struct route_port *port = routes_find_port(&events->routes, (uint32_t)port_id);
    struct route_link *link = port != NULL ? port->links : NULL;

    while (link != NULL && link->reader->id != (uint32_t)reader_id)
        link = link->next_of_port;
    return link;
}

static void write_accepted(struct request *request)
{
    joining_check(request->services->events);
    ec_json_object_begin(request->result);
    ec_json_member_boolean(request->result, "accepted", true);
    ec_json_object_end(request->result);
}

int cmd_event_reader_accept(struct request *request)
{
    const struct params_event_reader_accept *params = request->params;
    struct route_link *link =
        find_link(request->services->events, params->port_id.integer, params->reader_id.integer);

    if (link == NULL || link->port->owner->client != request->client)
        return ec_fail(request->why, EC_ERR_NOT_FOUND, "this client has no port %u with reader %u",
                       (uint32_t)params->port_id.integer, (uint32_t)params->reader_id.integer);
    if (request_would(request, "note that port %u knows reader %u", link->port->id,
                      link->reader->id))
        return EC_OK;
    link->accepted = true;
    write_accepted(request);
    return EC_OK;
}

int cmd_event_port_accept(struct request *request)
{
    const struct params_event_port_accept *params = request->params;
    struct route_link *link =
        find_link(request->services->events, params->port_id.integer, params->reader_id.integer);

    if (link == NULL || link->reader->owner->client != request->client)
        return ec_fail(request->why, EC_ERR_NOT_FOUND, "this client has no reader %u of port %u",
                       (uint32_t)params->reader_id.integer, (uint32_t)params->port_id.integer);
    if (request_would(request, "note that reader %u knows port %u", link->reader->id,
                      link->port->id))
        return EC_OK;
    link->known = true;
    write_accepted(request);
    return EC_OK;
}

int cmd_event_port_sync(struct request *request)
{
    const struct params_event_port_sync *params = request->params;
    struct events *events = request->services->events;
    uint32_t id = (uint32_t)params->port_id.integer;
    struct route_port *port = routes_find_port(&events->routes, id);

    if (port == NULL || port->owner->client != request->client)
        return ec_fail(request->why, EC_ERR_NOT_FOUND, "this client has no port %u", id);
    return joining_wait_port(events, id, request);
}

int cmd_event_reader_sync(struct request *request)
{
    const struct params_event_reader_sync *params = request->params;
    struct events *events = request->services->events;
    uint32_t id = (uint32_t)params->reader_id.integer;
    struct route_reader *reader = routes_find_reader(&events->routes, id);

    if (reader == NULL || reader->owner->client != request->client)
        return ec_fail(request->why, EC_ERR_NOT_FOUND, "this client has no reader %u", id);
    return joining_wait_reader(events, id, request);
}

int cmd_event_reader_close(struct request *request)
{
    const struct params_event_reader_close *params = request->params;
    struct events *events = request->services->events;
    uint32_t id = (uint32_t)params->reader_id.integer;
    struct route_reader *reader = routes_find_reader(&events->routes, id);

    if (reader == NULL || reader->owner->client != request->client)
        return ec_fail(request->why, EC_ERR_NOT_FOUND, "this client has no reader %u", id);
    if (request_would(request, "end reader %u", id))
        return EC_OK;
    routes_close_reader(&events->routes, reader);
    joining_check(events);
    ec_json_object_begin(request->result);
    ec_json_member_u64(request->result, "reader_id", id);
    ec_json_object_end(request->result);
    return EC_OK;
}
