/* clients_commands.c - client.attach, client.detach, client.list and client.get. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "clients/clients_private.h"
#include "clients/peer.h"
#include "daemon/request.h"
#include "daemon/segments.h"
#include "foundation/real_time.h"
#include "segment/telemetry.h"

#define STALL_NS EC_NS_PER_S

/* A difference of the clocks below this is the time that the request took. */
#define CLOCK_TOLERANCE_NS EC_NS_PER_S

static int sort_fds(struct request *request, const struct params_client_attach *params,
                    int fds[ATTACH_PARTS]);
static int part_of(struct ec_json_span name, enum attachment_part *part);
static void give_fds_back(struct request *request, int fds[ATTACH_PARTS]);
static void write_refusal(struct request *request, const struct attachment *attachment);
static int clock_offset(const struct client *client, int64_t real_ns, int64_t *offset_ns,
                        struct ec_error *why);
static int write_segments(struct request *request, int64_t clock_offset_ns);
static void write_client(struct request *request, const struct client *client);
static void write_closed(struct ec_json_writer *writer, const struct closed_client *closed);

int cmd_client_attach(struct request *request)
{
    const struct params_client_attach *params = request->params;
    struct clients *clients = request->services->clients;
    struct client *client = request->client;
    int fds[ATTACH_PARTS] = { -1, -1, -1 };
    struct attachment attachment = { 0 };
    int64_t offset_ns = 0;
    int rc;

    rc = clients_may_attach(clients, client, request->why);
    if (rc == EC_OK)
        rc = clock_offset(client, params->real_ns.integer, &offset_ns, request->why);
    if (rc == EC_OK)
        rc = sort_fds(request, params, fds);
    if (rc == EC_OK) {
        rc = attachment_init(&attachment, fds, request->client->uid == geteuid(), request->why);
        if (rc < 0)
            write_refusal(request, &attachment);
    }
    /* The answer is written first, because nothing can fail after the others were told. It is sent
     * after this returns, so no game can hold a reference that is not yet looked for. */
    if (rc == EC_OK && request_would(request, "attach client %u", client->id)) {
        give_fds_back(request, fds);
        attachment_finish(&attachment);
        return EC_OK;
    }
    if (rc == EC_OK)
        rc = write_segments(request, offset_ns);
    if (rc == EC_OK)
        rc = clients_attach(clients, client, &attachment, fds, offset_ns, request->why);
    give_fds_back(request, fds);
    attachment_finish(&attachment);
    return rc < 0 ? ec_error_prefix(request->why, rc, "attach client %u", client->id) : EC_OK;
}

int cmd_client_detach(struct request *request)
{
    int rc = clients_may_detach(request->client, request->why);

    if (rc == EC_OK && request_would(request, "take back what client %u was given at its attach",
                                     request->client->id))
        return EC_OK;
    if (rc == EC_OK)
        rc = clients_detach(request->services->clients, request->client, request->why);
    if (rc < 0)
        return rc;
    ec_json_object_begin(request->result);
    ec_json_member_boolean(request->result, "detached", true);
    ec_json_object_end(request->result);
    return EC_OK;
}

int cmd_client_resumed(struct request *request)
{
    struct clients *clients = request->services->clients;
    struct client *client = request->client;

    if (!client->attached)
        return ec_fail(request->why, EC_ERR_STATE, "client %u is not attached", client->id);
    if (request_would(request, "wait no more for what client %u hands back", client->id))
        return EC_OK;
    clients_resumed(clients, client);
    ec_json_object_begin(request->result);
    ec_json_member_u64(request->result, "awaited", clients_awaited(clients));
    ec_json_object_end(request->result);
    return EC_OK;
}

int cmd_client_list(struct request *request)
{
    const struct params_client_list *params = request->params;
    struct clients *clients = request->services->clients;
    struct ec_json_writer *writer = request->result;
    const struct closed_client *closed;

    ec_json_object_begin(writer);
    ec_json_member_array(writer, "items");
    if (params->closed.boolean) {
        for (unsigned i = 0; (closed = closed_clients_at(&clients->closed, i)) != NULL; i++)
            write_closed(writer, closed);
    } else {
        for (struct client *client = clients_next(clients, NULL); client != NULL;
             client = clients_next(clients, client)) {
            ec_json_object_begin(writer);
            write_client(request, client);
            /* client.get has arrays of these names instead */
            ec_json_member_u64(writer, "ports", client->ports);
            ec_json_member_u64(writer, "readers", client->readers);
            ec_json_object_end(writer);
        }
    }
    ec_json_array_end(writer);
    ec_json_object_end(writer);
    return EC_OK;
}

int cmd_client_get(struct request *request)
{
    const struct params_client_get *params = request->params;
    struct clients *clients = request->services->clients;
    struct client *client = clients_find(clients, (uint32_t)params->client_id.integer);

    if (client == NULL)
        return ec_fail(request->why, EC_ERR_NOT_FOUND, "client %" PRId64 " is not connected",
                       params->client_id.integer);
    ec_json_object_begin(request->result);
    write_client(request, client);
    clients_describe(clients, client, request->result);
    ec_json_object_end(request->result);
    return EC_OK;
}

/* Take the line's descriptors in the order of the parts. The parameter says which is which; each must
 * come exactly once. */
static int sort_fds(struct request *request, const struct params_client_attach *params,
                    int fds[ATTACH_PARTS])
{
    struct ec_json_iterator names = ec_json_iterate(params->fds.span);
    enum attachment_part part;
    struct ec_json_span name;
    unsigned count = 0;

    while (ec_json_next_element(&names, &name)) {
        if (part_of(name, &part) < 0 || fds[part] >= 0)
            return ec_fail(request->why, EC_ERR_PARAM,
                           "fds: element %u is not one of client, cursor, doorbell, each once",
                           count);
        if (count >= request->fd_count || request->fds[count] < 0)
            return ec_fail(request->why, EC_ERR_PARAM,
                           "fds: %u descriptors came with the line, expected %d", request->fd_count,
                           ATTACH_PARTS);
        fds[part] = request->fds[count];
        request->fds[count++] = -1;
    }
    if (count != ATTACH_PARTS || request->fd_count != ATTACH_PARTS)
        return ec_fail(request->why, EC_ERR_PARAM,
                       "fds: %u names and %u descriptors, expected %d of each", count,
                       request->fd_count, ATTACH_PARTS);
    return EC_OK;
}

static int part_of(struct ec_json_span name, enum attachment_part *part)
{
    for (unsigned i = 0; i < ATTACH_PARTS; i++)
        if (ec_json_string_equals(name, attachment_part_name((enum attachment_part)i))) {
            *part = (enum attachment_part)i;
            return EC_OK;
        }
    return EC_ERR_PARAM;
}

/* What was not taken over goes back into free places of the request, which closes it. */
static void give_fds_back(struct request *request, int fds[ATTACH_PARTS])
{
    for (unsigned i = 0, at = 0; i < ATTACH_PARTS; i++) {
        if (fds[i] < 0)
            continue;
        while (request->fds[at] >= 0)
            at++;
        request->fds[at] = fds[i];
        fds[i] = -1;
    }
}

/* What was wrong, as data: which part, which field, and both values. */
static void write_refusal(struct request *request, const struct attachment *attachment)
{
    const struct ec_segment_mismatch *mismatch = &attachment->mismatch;
    struct ec_json_writer *data = request->data;
    bool is_hash;

    ec_json_object_begin(data);
    ec_json_member_string(data, "segment", attachment_part_name(attachment->refused));
    if (mismatch->field != NULL) {
        is_hash =
            strcmp(mismatch->field, "layout_hash") == 0 || strcmp(mismatch->field, "magic") == 0;
        ec_json_member_string(data, "field", mismatch->field);
        ec_json_key(data, "expected");
        is_hash ? ec_json_hex64(data, mismatch->expected) : ec_json_u64(data, mismatch->expected);
        ec_json_key(data, "got");
        is_hash ? ec_json_hex64(data, mismatch->got) : ec_json_u64(data, mismatch->got);
    }
    ec_json_object_end(data);
}

/* In one time namespace both read the same clock: the difference is the time that the request lay about
 * (a stopped process, a busy host), and never less than nothing. In another one a difference beyond the
 * round trip is the offset. What no clock could show is refused. */
static int clock_offset(const struct client *client, int64_t real_ns, int64_t *offset_ns,
                        struct ec_error *why)
{
    int64_t now_ns = ec_real_ns(), difference_ns;

    *offset_ns = 0;
    if (real_ns < 0 || __builtin_sub_overflow(now_ns, real_ns, &difference_ns))
        return ec_fail(why, EC_ERR_PARAM,
                       "parameter real_ns: is %" PRId64 ", which no CLOCK_MONOTONIC shows",
                       real_ns);
    if (peer_shares_clock(client->pid)) {
        if (difference_ns < 0)
            return ec_fail(why, EC_ERR_PARAM,
                           "parameter real_ns: is %" PRId64 ", %" PRId64
                           " ns after now, though both read one clock",
                           real_ns, -difference_ns);
        return EC_OK;
    }
    if (difference_ns < -CLOCK_TOLERANCE_NS || difference_ns > CLOCK_TOLERANCE_NS)
        *offset_ns = difference_ns;
    return EC_OK;
}

static int write_segments(struct request *request, int64_t clock_offset_ns)
{
    struct ec_json_writer *writer = request->result;
    unsigned count;
    const struct segment_row *rows = segments_rows(request->services->segments, &count);
    int rc;

    ec_json_object_begin(writer);
    ec_json_member_array(writer, "segments");
    for (unsigned i = 0; i < count; i++) {
        const struct ec_layout *layout = ec_layout_of(rows[i].kind);
        char version[16];

        rc = request_attach_fd(request, rows[i].fd);
        if (rc < 0)
            return rc;
        snprintf(version, sizeof version, "%u.%u", layout->major, layout->minor);
        ec_json_object_begin(writer);
        ec_json_member_string(writer, "name", rows[i].name);
        ec_json_member_u64(writer, "kind", rows[i].kind);
        ec_json_member_u64(writer, "bytes", rows[i].bytes);
        ec_json_member_string(writer, "layout", version);
        ec_json_object_end(writer);
    }
    ec_json_array_end(writer);
    ec_json_member_i64(writer, "clock_offset_ns", clock_offset_ns);
    ec_json_object_end(writer);
    return EC_OK;
}

/* The members of one client, into an open object. */
static void write_client(struct request *request, const struct client *client)
{
    const struct ec_directory *directory = segments_directory(request->services->segments);
    const uint32_t resources = atomic_load_explicit(&directory->high, memory_order_relaxed);
    struct ec_json_writer *writer = request->result;
    struct ec_reference_sum references = { 0 };
    struct ec_memory_sum memory = { 0 };
    struct ec_pulse_seen pulse = { 0 };
    int64_t pulse_age_ns = 0;

    if (client_segment(client) != NULL) {
        ec_telemetry_references(client_segment(client), resources, &references);
        ec_telemetry_memory(client_segment(client), &memory);
        ec_telemetry_pulse(client_segment(client), &pulse);
        /* The client wrote last_ns: a nonsense difference is no stall. */
        if (pulse.last_ns == 0 || __builtin_sub_overflow(ec_real_ns() - client->clock_offset_ns,
                                                         pulse.last_ns, &pulse_age_ns))
            pulse_age_ns = 0;
    }
    ec_json_member_u64(writer, "client_id", client->id);
    ec_json_member_string(writer, "name", client->name);
    ec_json_member_i64(writer, "pid", client->pid);
    ec_json_member_u64(writer, "uid", client->uid);
    ec_json_member_string(writer, "role", ec_role_name(client->role));
    ec_json_member_string(writer, "state",
                          client->state == CLIENT_CONNECTED ? "connected"
                          : client->private->awaited        ? "awaited"
                                                            : "gone");
    ec_json_member_boolean(writer, "attached", client->attached);
    ec_json_member_i64(writer, "since_ns", client->since_ns);
    ec_json_member_u64(writer, "hard_refs", references.hard);
    ec_json_member_u64(writer, "soft_refs", references.soft);
    ec_json_member_u64(writer, "memory_bytes", memory.bytes);
    ec_json_member_u64(writer, "last_frame", pulse.frame);
    ec_json_member_boolean(writer, "stalled",
                           client->state == CLIENT_CONNECTED && pulse_age_ns > STALL_NS);
    ec_json_member_u64(writer, "lost_notifications", client->lost_notifications);
}

static void write_closed(struct ec_json_writer *writer, const struct closed_client *closed)
{
    ec_json_object_begin(writer);
    ec_json_member_u64(writer, "client_id", closed->id);
    ec_json_member_string(writer, "name", closed->name);
    ec_json_member_i64(writer, "pid", closed->pid);
    ec_json_member_u64(writer, "uid", closed->uid);
    ec_json_member_string(writer, "reason", closed->reason);
    ec_json_member_i64(writer, "since_ns", closed->since_ns);
    ec_json_member_i64(writer, "ended_ns", closed->ended_ns);
    ec_json_member_u64(writer, "received_bytes", closed->received_bytes);
    ec_json_member_u64(writer, "sent_bytes", closed->sent_bytes);
    ec_json_member_u64(writer, "lost_notifications", closed->lost_notifications);
    ec_json_object_end(writer);
}
