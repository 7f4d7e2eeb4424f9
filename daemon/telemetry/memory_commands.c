/* memory_commands.c - memory.report, .tags, .pools, .sites, .leaks and .snapshot.
 *
 * All read the clients' segments; no client is asked, and dead ones show what they had at their end. The
 * daemon is client 0. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clients/clients.h"
#include "daemon/own_memory.h"
#include "daemon/request.h"
#include "daemon/services.h"
#include "foundation/real_time.h"
#include "telemetry/host_memory.h"
#include "telemetry/memory_json.h"
#include "telemetry/memory_watch.h"

#define PROC "/proc"
#define REPORT_SITES 20
#define DIFF_SITES 50
#define LEAK_SITES 100
#define SITES_MAX 1000

/* A client or the daemon, as the commands see it. */
struct process {
    uint32_t id;
    const char *name;
    pid_t pid;
    bool alive;
    int64_t ended_ns;
    const struct ec_client_segment *segment;
};

/* Which processes are asked for. */
struct choice {
    const struct param *client_id;
    const struct param *pid;
};

/* One command's part of a process: members of the open object. EC_OK or an error. */
typedef int write_fn(struct request *request, const struct process *process);

static int write_processes(struct request *request, const struct choice *choice, write_fn *write);
static int write_process(struct request *request, const struct process *process, write_fn *write);
static int find_process(struct request *request, int64_t client_id, struct process *process);
static struct process process_of_client(const struct client *client);
static struct process own_process(const struct request *request);
static bool is_chosen(const struct choice *choice, const struct process *process);
static int not_found(struct request *request, const struct choice *choice);
static write_fn write_report, write_tags, write_pools, write_sites;
static int write_top_sites(struct request *request, const struct process *process, unsigned max,
                           enum ec_site_order order, struct memory_modules *modules);
static int take_snapshot(struct request *request);
static int diff_snapshots(struct request *request);

int cmd_memory_report(struct request *request)
{
    const struct params_memory_report *params = request->params;
    const struct choice choice = { &params->client_id, &params->pid };

    return write_processes(request, &choice, write_report);
}

int cmd_memory_tags(struct request *request)
{
    const struct params_memory_tags *params = request->params;
    const struct choice choice = { &params->client_id, &params->pid };

    return write_processes(request, &choice, write_tags);
}

int cmd_memory_pools(struct request *request)
{
    const struct params_memory_pools *params = request->params;
    const struct choice choice = { &params->client_id, &params->pid };

    return write_processes(request, &choice, write_pools);
}

int cmd_memory_sites(struct request *request)
{
    const struct params_memory_sites *params = request->params;
    const struct choice choice = { &params->client_id, &params->pid };

    if (strcmp(params->by.string, "bytes") != 0 && strcmp(params->by.string, "total") != 0)
        return ec_fail(request->why, EC_ERR_PARAM, "by is \"%s\", expected bytes or total",
                       params->by.string);
    return write_processes(request, &choice, write_sites);
}

/* ---- processes ---- */

static int write_processes(struct request *request, const struct choice *choice, write_fn *write)
{
    struct clients *clients = request->services->clients;
    struct process process = own_process(request);
    unsigned count = 0;
    int rc = EC_OK;

    ec_json_object_begin(request->result);
    ec_json_member_array(request->result, "items");
    if (is_chosen(choice, &process)) {
        rc = write_process(request, &process, write);
        count++;
    }
    for (struct client *client = clients_next(clients, NULL); rc == EC_OK && client != NULL;
         client = clients_next(clients, client)) {
        process = process_of_client(client);
        if (!client->attached || !is_chosen(choice, &process))
            continue;
        rc = write_process(request, &process, write);
        count++;
    }
    for (struct client *client = clients_next_dead(clients, NULL); rc == EC_OK && client != NULL;
         client = clients_next_dead(clients, client)) {
        process = process_of_client(client);
        if (process.segment == NULL || !is_chosen(choice, &process))
            continue;
        rc = write_process(request, &process, write);
        count++;
    }
    ec_json_array_end(request->result);
    ec_json_object_end(request->result);
    if (rc < 0)
        return rc;
    return count > 0 ? EC_OK : not_found(request, choice);
}

static int write_process(struct request *request, const struct process *process, write_fn *write)
{
    struct ec_json_writer *writer = request->result;
    int rc;

    ec_json_object_begin(writer);
    ec_json_member_u64(writer, "client_id", process->id);
    ec_json_member_string(writer, "name", process->name);
    ec_json_member_i64(writer, "pid", process->pid);
    ec_json_member_boolean(writer, "alive", process->alive);
    rc = write(request, process);
    ec_json_object_end(writer);
    return rc;
}

static struct process process_of_client(const struct client *client)
{
    return (struct process) {
        .id = client->id,
        .name = client->name,
        .pid = client->pid,
        .alive = client->state != CLIENT_DEAD,
        .ended_ns = client->ended_ns,
        .segment = client_segment(client),
    };
}

static struct process own_process(const struct request *request)
{
    return (struct process) {
        .name = "engine-cored",
        .pid = getpid(),
        .alive = true,
        .segment = own_memory_segment(request->services->own_memory),
    };
}

static bool is_chosen(const struct choice *choice, const struct process *process)
{
    return (!choice->client_id->present || choice->client_id->integer == process->id) &&
           (!choice->pid->present || choice->pid->integer == process->pid);
}

static int not_found(struct request *request, const struct choice *choice)
{
    if (choice->client_id->present)
        return ec_fail(request->why, EC_ERR_NOT_FOUND,
                       "client %" PRId64 " is neither attached nor among the last dead ones",
                       choice->client_id->integer);
    return ec_fail(request->why, EC_ERR_NOT_FOUND,
                   "process %" PRId64 " is neither attached nor among the last dead ones",
                   choice->pid->integer);
}

static int find_process(struct request *request, int64_t client_id, struct process *process)
{
    struct clients *clients = request->services->clients;
    struct client *client = NULL;

    if (client_id == 0) {
        *process = own_process(request);
        return EC_OK;
    }
    while ((client = clients_next(clients, client)) != NULL)
        if (client->attached && client->id == client_id)
            break;
    if (client == NULL)
        while ((client = clients_next_dead(clients, client)) != NULL)
            if (client->id == client_id && client_segment(client) != NULL)
                break;
    if (client == NULL)
        return ec_fail(request->why, EC_ERR_NOT_FOUND,
                       "client %" PRId64 " is neither attached nor among the last dead ones",
                       client_id);
    *process = process_of_client(client);
    return EC_OK;
}

/* ---- what is written of each ---- */

static int write_report(struct request *request, const struct process *process)
{
    const struct params_memory_report *params = request->params;
    const struct memory_watch *watch = request->services->memory_watch;
    const struct memory_history *history = memory_watch_history(watch, process->id);
    struct ec_json_writer *writer = request->result;
    struct process_memory memory;
    struct memory_modules *modules = calloc(1, sizeof *modules);
    bool is_seen = false;
    int rc;

    if (modules == NULL)
        return ec_fail(request->why, EC_ERR_MEMORY, "no memory for the modules of a process");
    if (process->alive) {
        is_seen = host_memory_process(PROC, process->pid, &memory);
        ec_json_member_u64(writer, "rss_bytes", is_seen ? memory.rss_bytes : 0);
    } else {
        ec_json_member_i64(writer, "ended_ns", process->ended_ns);
    }
    if (process->id == 0)
        ec_json_member_u64(writer, "current_bytes", own_memory_bytes());
    if (history != NULL)
        ec_json_member_real(writer, "allocations_per_s", history->allocations_per_s);
    memory_json_bridge(writer, process->segment, is_seen ? &memory : NULL);
    memory_json_tags(writer, process->segment, history);
    memory_json_allocators(writer, process->segment);
    memory_json_sampling(writer, process->segment);
    memory_json_checks(writer, process->segment);
    /* Whole stacks only of a process that was asked for by name: those of all would be too much. */
    modules->brief = !params->client_id.present && !params->pid.present;
    rc = write_top_sites(request, process, REPORT_SITES, EC_SITES_BY_BYTES, modules);
    memory_json_suspects(writer, process->segment, history, memory_watch_frames(watch), modules);
    memory_json_modules(writer, modules);
    free(modules);
    return rc;
}

static int write_tags(struct request *request, const struct process *process)
{
    memory_json_tags(request->result, process->segment,
                     memory_watch_history(request->services->memory_watch, process->id));
    return EC_OK;
}

static int write_pools(struct request *request, const struct process *process)
{
    memory_json_allocators(request->result, process->segment);
    return EC_OK;
}

static int write_sites(struct request *request, const struct process *process)
{
    const struct params_memory_sites *params = request->params;
    struct memory_modules *modules = calloc(1, sizeof *modules);
    int rc;

    if (modules == NULL)
        return ec_fail(request->why, EC_ERR_MEMORY, "no memory for the modules of a process");
    memory_json_sampling(request->result, process->segment);
    rc = write_top_sites(
        request, process, (unsigned)params->limit.integer,
        strcmp(params->by.string, "bytes") == 0 ? EC_SITES_BY_BYTES : EC_SITES_BY_TOTAL, modules);
    memory_json_modules(request->result, modules);
    free(modules);
    return rc;
}

static int write_top_sites(struct request *request, const struct process *process, unsigned max,
                           enum ec_site_order order, struct memory_modules *modules)
{
    const uint32_t rows = ec_site_report_rows(process->segment);
    const unsigned room = rows < max ? rows : max;
    struct ec_site_report *sites = malloc((room + 1) * sizeof *sites);
    struct ec_json_writer *writer = request->result;
    unsigned count;

    if (sites == NULL)
        return ec_fail(request->why, EC_ERR_MEMORY, "no memory for %u sites", room);
    count = ec_site_report_top(process->segment, order, sites, room);
    ec_json_member_array(writer, "sites");
    for (unsigned i = 0; i < count; i++)
        memory_json_site(writer, process->segment, &sites[i], modules);
    ec_json_array_end(writer);
    free(sites);
    return EC_OK;
}

/* ---- leaks ---- */

/* The filter is part of the name of a file of source, or of a module that the stack leads through. */
static bool passes(const struct ec_client_segment *segment, const struct ec_site_report *site,
                   const struct param *filter)
{
    struct ec_module_report module;

    if (!filter->present || strstr(site->file, filter->string) != NULL)
        return true;
    for (uint32_t i = 0; i < site->depth; i++)
        if (ec_module_report_find(segment, site, site->frames[i], &module) &&
            strstr(module.path, filter->string) != NULL)
            return true;
    return false;
}

/* What is held now, or was when the process ended: by then everything that is still held was not given
 * back by anybody. */
int cmd_memory_leaks(struct request *request)
{
    const struct params_memory_leaks *params = request->params;
    struct ec_json_writer *writer = request->result;
    struct ec_site_report *sites;
    struct memory_modules *modules;
    struct process process;
    uint64_t bytes = 0, blocks = 0;
    unsigned count, written = 0;
    int rc = find_process(request, params->client_id.integer, &process);

    if (rc < 0)
        return rc;
    count = ec_site_report_rows(process.segment);
    sites = malloc((count + 1) * sizeof *sites);
    modules = calloc(1, sizeof *modules);
    if (sites == NULL || modules == NULL) {
        free(sites);
        free(modules);
        return ec_fail(request->why, EC_ERR_MEMORY, "no memory for %u sites", count);
    }
    count = ec_site_report_top(process.segment, EC_SITES_BY_BYTES, sites, count);
    ec_json_object_begin(writer);
    ec_json_member_u64(writer, "client_id", process.id);
    ec_json_member_string(writer, "name", process.name);
    ec_json_member_i64(writer, "pid", process.pid);
    ec_json_member_boolean(writer, "alive", process.alive);
    memory_json_sampling(writer, process.segment);
    ec_json_member_array(writer, "items");
    for (unsigned i = 0; i < count; i++) {
        if (!passes(process.segment, &sites[i], &params->filter))
            continue;
        bytes += sites[i].bytes;
        blocks += sites[i].count;
        if (written++ < LEAK_SITES)
            memory_json_site(writer, process.segment, &sites[i], modules);
    }
    ec_json_array_end(writer);
    memory_json_modules(writer, modules);
    ec_json_member_u64(writer, "bytes", bytes);
    ec_json_member_u64(writer, "count", blocks);
    ec_json_member_u64(writer, "sites", written);
    ec_json_object_end(writer);
    free(sites);
    free(modules);
    return EC_OK;
}

/* ---- how closely a client looks ---- */

int cmd_memory_observe(struct request *request)
{
    const struct params_memory_observe *params = request->params;
    struct client *client =
        clients_find(request->services->clients, (uint32_t)params->client_id.integer);
    struct ec_observation_seen seen;
    struct ec_sampling_report sampling;
    struct ec_json_writer notification;
    char text[96];
    int rc;

    if (client == NULL || !client->attached)
        return ec_fail(request->why, EC_ERR_NOT_FOUND, "client %" PRId64 " is not attached",
                       params->client_id.integer);
    if (!params->sample_bytes.present && !params->checks.present)
        return ec_fail(request->why, EC_ERR_PARAM, "give sample_bytes, checks, or both");
    ec_telemetry_observation(client_segment(client), &seen);
    ec_sampling_report(client_segment(client), &sampling);
    if (!seen.is_switchable)
        return ec_fail(request->why, EC_ERR_STATE,
                       "client %" PRIu32 " cannot be switched while it runs; engine-ctl run "
                       "--sample says it at the start",
                       client->id);
    if (request_would(request, "tell client %" PRIu32 " how to look at its memory", client->id))
        return EC_OK;
    if (params->sample_bytes.present)
        sampling.sample_bytes = (uint64_t)params->sample_bytes.integer;
    if (params->checks.present)
        seen.checks = params->checks.boolean;
    ec_json_writer_init(&notification, text, sizeof text);
    ec_json_object_begin(&notification);
    if (params->sample_bytes.present)
        ec_json_member_u64(&notification, "sample_bytes", sampling.sample_bytes);
    if (params->checks.present)
        ec_json_member_boolean(&notification, "checks", seen.checks);
    ec_json_object_end(&notification);
    rc = client_notify(client, "memory.observe", &notification, NULL, 0);
    if (rc < 0)
        return ec_fail(request->why, rc, "client %" PRIu32 " could not be told", client->id);
    ec_json_object_begin(request->result);
    ec_json_member_u64(request->result, "client_id", client->id);
    ec_json_member_u64(request->result, "sample_bytes", sampling.sample_bytes);
    ec_json_member_boolean(request->result, "checks", seen.checks);
    ec_json_object_end(request->result);
    return EC_OK;
}

/* ---- snapshots ---- */

int cmd_memory_snapshot(struct request *request)
{
    const struct params_memory_snapshot *params = request->params;

    if (params->client_id.present == params->diff.present)
        return ec_fail(request->why, EC_ERR_PARAM,
                       "give client_id for a snapshot, or diff with two snapshots");
    return params->client_id.present ? take_snapshot(request) : diff_snapshots(request);
}

static int take_snapshot(struct request *request)
{
    const struct params_memory_snapshot *params = request->params;
    struct memory_watch *watch = request->services->memory_watch;
    const struct memory_snapshot *taken;
    struct process process;
    int rc = find_process(request, params->client_id.integer, &process);

    if (rc == EC_OK && request_would(request, "keep a snapshot of client %u", process.id))
        return EC_OK;
    if (rc == EC_OK)
        rc = memory_snapshots_take(memory_watch_snapshots(watch), process.id,
                                   params->name.present ? params->name.string : NULL,
                                   process.segment, ec_real_ns(), &taken, request->why);
    if (rc < 0)
        return rc;
    ec_json_object_begin(request->result);
    ec_json_member_u64(request->result, "snapshot", taken->id);
    ec_json_member_string(request->result, "name", taken->name);
    ec_json_member_u64(request->result, "client_id", taken->client_id);
    ec_json_member_i64(request->result, "real_ns", taken->real_ns);
    ec_json_member_u64(request->result, "frame", taken->frame);
    ec_json_object_end(request->result);
    return EC_OK;
}

static void write_change(struct ec_json_writer *writer, const struct memory_amount *before,
                         const struct memory_amount *after)
{
    ec_json_member_i64(writer, "bytes", (int64_t)(after->bytes - before->bytes));
    ec_json_member_i64(writer, "count", (int64_t)(after->count - before->count));
    ec_json_member_i64(writer, "total", (int64_t)(after->total - before->total));
    ec_json_member_u64(writer, "bytes_before", before->bytes);
    ec_json_member_u64(writer, "bytes_after", after->bytes);
}

static bool differs(const struct memory_amount *before, const struct memory_amount *after)
{
    return before->bytes != after->bytes || before->count != after->count ||
           before->total != after->total;
}

static void write_moment(struct ec_json_writer *writer, const char *name,
                         const struct memory_snapshot *snapshot)
{
    ec_json_member_object(writer, name);
    ec_json_member_u64(writer, "snapshot", snapshot->id);
    ec_json_member_string(writer, "name", snapshot->name);
    ec_json_member_i64(writer, "real_ns", snapshot->real_ns);
    ec_json_member_u64(writer, "frame", snapshot->frame);
    ec_json_object_end(writer);
}

/* A site's change; by the amount that it grew. */
struct site_change {
    uint32_t row;
    int64_t bytes;
};

static int by_growth(const void *a, const void *b)
{
    const int64_t left = ((const struct site_change *)a)->bytes;
    const int64_t right = ((const struct site_change *)b)->bytes;

    return (left < right) - (left > right);
}

static const struct memory_amount *amount_at(const struct memory_snapshot *snapshot, uint32_t row)
{
    static const struct memory_amount none;

    return row < snapshot->site_count ? &snapshot->sites[row] : &none;
}

/* Rows of a later snapshot are those of the earlier one, and more. */
static int write_site_changes(struct request *request, const struct memory_snapshot *before,
                              const struct memory_snapshot *after,
                              const struct ec_client_segment *segment)
{
    const uint32_t rows =
        before->site_count > after->site_count ? before->site_count : after->site_count;
    struct site_change *changes = malloc((rows + 1) * sizeof *changes);
    struct memory_modules *modules = calloc(1, sizeof *modules);
    struct ec_json_writer *writer = request->result;
    uint32_t count = 0;

    if (changes == NULL || modules == NULL) {
        free(changes);
        free(modules);
        return ec_fail(request->why, EC_ERR_MEMORY, "no memory for %" PRIu32 " sites", rows);
    }
    for (uint32_t row = 0; row < rows; row++)
        if (differs(amount_at(before, row), amount_at(after, row)))
            changes[count++] = (struct site_change) {
                row, (int64_t)(amount_at(after, row)->bytes - amount_at(before, row)->bytes)
            };
    qsort(changes, count, sizeof changes[0], by_growth);
    ec_json_member_array(writer, "sites");
    for (uint32_t i = 0; i < count && i < DIFF_SITES; i++) {
        struct ec_site_report site;

        ec_json_object_begin(writer);
        write_change(writer, amount_at(before, changes[i].row), amount_at(after, changes[i].row));
        if (segment != NULL && ec_site_report_row(segment, changes[i].row, &site))
            memory_json_site_place(writer, segment, &site, modules);
        ec_json_object_end(writer);
    }
    ec_json_array_end(writer);
    memory_json_modules(writer, modules);
    free(changes);
    free(modules);
    return EC_OK;
}

static void write_row_changes(struct ec_json_writer *writer, const struct memory_snapshot *before,
                              const struct memory_snapshot *after,
                              const struct ec_client_segment *segment)
{
    struct ec_tag_report tags[EC_TAGS_MAX];
    struct ec_allocator_report allocators[EC_ALLOCATORS_MAX];
    unsigned count = segment == NULL ? 0 : ec_telemetry_tags(segment, tags);

    ec_json_member_array(writer, "tags");
    for (unsigned i = 0; i < count; i++) {
        const uint32_t row = tags[i].row;

        if (!differs(&before->tags[row], &after->tags[row]))
            continue;
        ec_json_object_begin(writer);
        ec_json_member_string(writer, "tag", tags[i].name);
        write_change(writer, &before->tags[row], &after->tags[row]);
        ec_json_object_end(writer);
    }
    ec_json_array_end(writer);
    count = segment == NULL ? 0 : ec_telemetry_allocators(segment, allocators);
    ec_json_member_array(writer, "allocators");
    for (unsigned i = 0; i < count; i++) {
        const uint32_t row = allocators[i].row;

        if (!differs(&before->allocators[row], &after->allocators[row]))
            continue;
        ec_json_object_begin(writer);
        ec_json_member_string(writer, "name", allocators[i].name);
        write_change(writer, &before->allocators[row], &after->allocators[row]);
        ec_json_object_end(writer);
    }
    ec_json_array_end(writer);
}

/* A number, or the name of the newest that was given it. */
static const struct memory_snapshot *find_snapshot(const struct memory_snapshots *snapshots,
                                                   struct ec_json_span value)
{
    char name[MEMORY_SNAPSHOT_NAME_BYTES];
    uint64_t id;

    if (ec_json_get_u64(value, &id) == EC_OK)
        return id > UINT32_MAX ? NULL : memory_snapshots_find(snapshots, (uint32_t)id, NULL);
    if (ec_json_get_text(value, name, sizeof name) == EC_OK)
        return memory_snapshots_find(snapshots, 0, name);
    return NULL;
}

static int diff_snapshots(struct request *request)
{
    const struct params_memory_snapshot *params = request->params;
    const struct memory_snapshots *snapshots =
        memory_watch_snapshots(request->services->memory_watch);
    const struct memory_snapshot *found[2] = { NULL, NULL };
    struct ec_json_iterator values = ec_json_iterate(params->diff.span);
    struct ec_json_writer *writer = request->result;
    struct ec_json_span value;
    struct process process = { .segment = NULL };
    unsigned count = 0;
    int rc;

    while (ec_json_next_element(&values, &value)) {
        if (count < 2)
            found[count] = find_snapshot(snapshots, value);
        if (count < 2 && found[count] == NULL)
            return ec_fail(request->why, EC_ERR_NOT_FOUND, "there is no snapshot %.*s",
                           (int)(value.bytes < 64 ? value.bytes : 64), value.text);
        count++;
    }
    if (count != 2)
        return ec_fail(request->why, EC_ERR_PARAM, "diff has %u snapshots, expected 2", count);
    if (found[0]->client_id != found[1]->client_id)
        return ec_fail(request->why, EC_ERR_PARAM,
                       "snapshot %" PRIu32 " is of client %" PRIu32 ", snapshot %" PRIu32
                       " of client %" PRIu32,
                       found[0]->id, found[0]->client_id, found[1]->id, found[1]->client_id);
    if (request_would(request, "compare snapshot %" PRIu32 " with snapshot %" PRIu32, found[0]->id,
                      found[1]->id))
        return EC_OK;
    rc = find_process(request, found[0]->client_id, &process);
    if (rc < 0)
        return ec_error_prefix(request->why, rc, "snapshot %" PRIu32, found[0]->id);
    ec_json_object_begin(writer);
    ec_json_member_u64(writer, "client_id", process.id);
    ec_json_member_string(writer, "name", process.name);
    write_moment(writer, "before", found[0]);
    write_moment(writer, "after", found[1]);
    write_row_changes(writer, found[0], found[1], process.segment);
    rc = write_site_changes(request, found[0], found[1], process.segment);
    ec_json_object_end(writer);
    return rc;
}
