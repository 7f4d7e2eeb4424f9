/* telemetry_commands.c - memory.stats and memory.report. */
#include <inttypes.h>
#include <malloc.h>
#include <unistd.h>

#include "clients/clients.h"
#include "daemon/request.h"
#include "resources/resources.h"
#include "segment/telemetry.h"
#include "telemetry/host_memory.h"

#define PROC "/proc"

static int write_system(struct ec_json_writer *writer, struct ec_error *why);
static void write_daemon(struct ec_json_writer *writer);
static void write_clients(struct ec_json_writer *writer, struct clients *clients);
static uint64_t heap_in_use(void);
static bool wanted(const struct params_memory_report *params, uint32_t id, pid_t pid);
static void report_daemon(struct ec_json_writer *writer);
static void report_client(struct ec_json_writer *writer, const struct client *client);
static void write_tags(struct ec_json_writer *writer, const struct ec_client_segment *segment);
static void write_allocators(struct ec_json_writer *writer,
                             const struct ec_client_segment *segment);

int cmd_memory_stats(struct request *request)
{
    struct ec_json_writer *writer = request->result;
    struct resources_totals totals;
    int rc;

    ec_json_object_begin(writer);
    rc = write_system(writer, request->why);
    if (rc < 0)
        return rc;
    write_daemon(writer);
    resources_totals(request->services->resources, &totals);
    ec_json_member_object(writer, "assets");
    ec_json_member_u64(writer, "bytes", totals.bytes);
    ec_json_member_u64(writer, "resources", totals.resources);
    ec_json_member_u64(writer, "heap_virtual_bytes", totals.heap_virtual_bytes);
    ec_json_object_end(writer);
    write_clients(writer, request->services->clients);
    ec_json_object_end(writer);
    return EC_OK;
}

/* The daemon is client 0 here. Dead ones show what they had when they ended. */
int cmd_memory_report(struct request *request)
{
    const struct params_memory_report *params = request->params;
    struct clients *clients = request->services->clients;
    struct ec_json_writer *writer = request->result;
    unsigned count = 0;

    ec_json_object_begin(writer);
    ec_json_member_array(writer, "items");
    if (wanted(params, 0, getpid())) {
        report_daemon(writer);
        count++;
    }
    for (struct client *client = clients_next(clients, NULL); client != NULL;
         client = clients_next(clients, client))
        if (client->attached && wanted(params, client->id, client->pid)) {
            report_client(writer, client);
            count++;
        }
    for (struct client *client = clients_next_dead(clients, NULL); client != NULL;
         client = clients_next_dead(clients, client))
        if (wanted(params, client->id, client->pid)) {
            report_client(writer, client);
            count++;
        }
    ec_json_array_end(writer);
    ec_json_object_end(writer);
    if (count > 0)
        return EC_OK;
    if (params->client_id.present)
        return ec_fail(request->why, EC_ERR_NOT_FOUND,
                       "client %" PRId64 " is neither attached nor among the last dead ones",
                       params->client_id.integer);
    return ec_fail(request->why, EC_ERR_NOT_FOUND,
                   "process %" PRId64 " is neither attached nor among the last dead ones",
                   params->pid.integer);
}

static int write_system(struct ec_json_writer *writer, struct ec_error *why)
{
    struct host_memory memory;
    int rc = host_memory_read(PROC, &memory, why);

    if (rc < 0)
        return rc;
    ec_json_member_object(writer, "system");
    ec_json_member_u64(writer, "total_bytes", memory.total_bytes);
    ec_json_member_u64(writer, "available_bytes", memory.available_bytes);
    ec_json_member_real(
        writer, "available_ratio",
        memory.total_bytes == 0 ? 0 : (double)memory.available_bytes / (double)memory.total_bytes);
    ec_json_member_string(writer, "source", memory.source);
    if (memory.cgroup_limit_bytes != 0)
        ec_json_member_u64(writer, "cgroup_limit_bytes", memory.cgroup_limit_bytes);
    ec_json_object_end(writer);
    return EC_OK;
}

static void write_daemon(struct ec_json_writer *writer)
{
    uint64_t peak_bytes, rss_bytes = host_memory_rss(PROC, getpid(), &peak_bytes);

    ec_json_member_object(writer, "daemon");
    ec_json_member_u64(writer, "rss_bytes", rss_bytes);
    ec_json_member_u64(writer, "current_bytes", heap_in_use());
    ec_json_member_u64(writer, "peak_bytes", peak_bytes);
    ec_json_object_end(writer);
}

static void write_clients(struct ec_json_writer *writer, struct clients *clients)
{
    struct ec_memory_sum sum, all = { 0 };
    unsigned count = 0;

    for (struct client *client = clients_next(clients, NULL); client != NULL;
         client = clients_next(clients, client)) {
        if (!client->attached)
            continue;
        ec_telemetry_memory(client_segment(client), &sum);
        if (__builtin_add_overflow(all.bytes, sum.bytes, &all.bytes))
            all.bytes = UINT64_MAX;
        if (__builtin_add_overflow(all.peak_bytes, sum.peak_bytes, &all.peak_bytes))
            all.peak_bytes = UINT64_MAX;
        count++;
    }
    ec_json_member_object(writer, "clients");
    ec_json_member_u64(writer, "count", count);
    ec_json_member_u64(writer, "current_bytes", all.bytes);
    ec_json_member_u64(writer, "peak_bytes", all.peak_bytes);
    ec_json_object_end(writer);
}

/* Blocks of the C library's allocator, mapped ones included. */
static uint64_t heap_in_use(void)
{
    struct mallinfo2 info = mallinfo2();

    return info.uordblks + info.hblkhd;
}

static bool wanted(const struct params_memory_report *params, uint32_t id, pid_t pid)
{
    return (!params->client_id.present || params->client_id.integer == id) &&
           (!params->pid.present || params->pid.integer == pid);
}

static void report_daemon(struct ec_json_writer *writer)
{
    ec_json_object_begin(writer);
    ec_json_member_u64(writer, "client_id", 0);
    ec_json_member_string(writer, "name", "engine-cored");
    ec_json_member_i64(writer, "pid", getpid());
    ec_json_member_boolean(writer, "alive", true);
    ec_json_member_u64(writer, "rss_bytes", host_memory_rss(PROC, getpid(), NULL));
    ec_json_member_u64(writer, "current_bytes", heap_in_use());
    ec_json_member_array(writer, "tags");
    ec_json_array_end(writer);
    ec_json_member_array(writer, "allocators");
    ec_json_array_end(writer);
    ec_json_object_end(writer);
}

static void report_client(struct ec_json_writer *writer, const struct client *client)
{
    const struct ec_client_segment *segment = client_segment(client);
    const bool alive = client->state != CLIENT_DEAD;

    ec_json_object_begin(writer);
    ec_json_member_u64(writer, "client_id", client->id);
    ec_json_member_string(writer, "name", client->name);
    ec_json_member_i64(writer, "pid", client->pid);
    ec_json_member_boolean(writer, "alive", alive);
    if (alive)
        ec_json_member_u64(writer, "rss_bytes", host_memory_rss(PROC, client->pid, NULL));
    else
        ec_json_member_i64(writer, "ended_ns", client->ended_ns);
    write_tags(writer, segment);
    write_allocators(writer, segment);
    ec_json_object_end(writer);
}

static void write_tags(struct ec_json_writer *writer, const struct ec_client_segment *segment)
{
    struct ec_tag_report tags[EC_TAGS_MAX];
    unsigned count = ec_telemetry_tags(segment, tags);

    ec_json_member_array(writer, "tags");
    for (unsigned i = 0; i < count; i++) {
        ec_json_object_begin(writer);
        ec_json_member_string(writer, "tag", tags[i].name);
        ec_json_member_u64(writer, "bytes", tags[i].bytes);
        ec_json_member_u64(writer, "peak_bytes", tags[i].peak_bytes);
        ec_json_member_u64(writer, "count", tags[i].count);
        if (tags[i].budget_bytes != 0)
            ec_json_member_u64(writer, "budget_bytes", tags[i].budget_bytes);
        ec_json_object_end(writer);
    }
    ec_json_array_end(writer);
}

static void write_allocators(struct ec_json_writer *writer, const struct ec_client_segment *segment)
{
    struct ec_allocator_report allocators[EC_ALLOCATORS_MAX];
    unsigned count = ec_telemetry_allocators(segment, allocators);

    ec_json_member_array(writer, "allocators");
    for (unsigned i = 0; i < count; i++) {
        const struct ec_allocator_report *row = &allocators[i];
        uint64_t free_bytes =
            row->capacity_bytes > row->current_bytes ? row->capacity_bytes - row->current_bytes : 0;

        ec_json_object_begin(writer);
        ec_json_member_string(writer, "name", row->name);
        ec_json_member_string(writer, "kind", ec_allocator_kind_name(row->kind));
        ec_json_member_string(writer, "tag", row->tag);
        ec_json_member_u64(writer, "current_bytes", row->current_bytes);
        ec_json_member_u64(writer, "peak_bytes", row->peak_bytes);
        ec_json_member_u64(writer, "capacity_bytes", row->capacity_bytes);
        ec_json_member_u64(writer, "count", row->count);
        ec_json_member_u64(writer, "total", row->total);
        ec_json_member_u64(writer, "failed", row->failed);
        ec_json_member_u64(writer, "fallbacks", row->fallbacks);
        ec_json_member_u64(writer, "largest_free_bytes", row->largest_free_bytes);
        ec_json_member_real(writer, "fragmentation_ratio", row->fragmentation);
        ec_json_member_real(writer, "occupancy",
                            row->capacity_bytes == 0 ? 0
                                                     : (double)(row->capacity_bytes - free_bytes) /
                                                           (double)row->capacity_bytes);
        ec_json_object_end(writer);
    }
    ec_json_array_end(writer);
}
