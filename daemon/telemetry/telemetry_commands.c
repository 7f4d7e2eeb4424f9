/* telemetry_commands.c - memory.stats. */
#include <unistd.h>

#include "clients/clients.h"
#include "daemon/own_memory.h"
#include "daemon/request.h"
#include "resources/resources.h"
#include "segment/telemetry.h"
#include "telemetry/host_memory.h"
#include "telemetry/memory_watch.h"

#define PROC "/proc"

static int write_system(struct ec_json_writer *writer, struct ec_error *why);
static void write_daemon(struct ec_json_writer *writer);
static void write_clients(struct ec_json_writer *writer, struct clients *clients);
static double fragmentation(struct clients *clients);

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
    ec_json_member_real(writer, "allocations_per_s",
                        memory_watch_allocations_per_s(request->services->memory_watch));
    ec_json_member_real(writer, "fragmentation_ratio", fragmentation(request->services->clients));
    ec_json_object_end(writer);
    return EC_OK;
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
    ec_json_member_u64(writer, "current_bytes", own_memory_bytes());
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

/* Over the allocators of all clients: the share of what is free that does not serve every request. */
static double fragmentation(struct clients *clients)
{
    struct ec_allocator_report rows[EC_ALLOCATORS_MAX];
    double free_bytes = 0, lost_bytes = 0;

    for (struct client *client = clients_next(clients, NULL); client != NULL;
         client = clients_next(clients, client)) {
        const unsigned count =
            client->attached ? ec_telemetry_allocators(client_segment(client), rows) : 0;

        for (unsigned i = 0; i < count; i++) {
            if (rows[i].capacity_bytes <= rows[i].current_bytes)
                continue;
            free_bytes += (double)(rows[i].capacity_bytes - rows[i].current_bytes);
            lost_bytes +=
                rows[i].fragmentation * (double)(rows[i].capacity_bytes - rows[i].current_bytes);
        }
    }
    return free_bytes > 0 ? lost_bytes / free_bytes : 0;
}
