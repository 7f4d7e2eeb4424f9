#include "telemetry/memory_json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define FRAGMENTED 0.7              /* less than 30 % of what is free is of use */
#define FREE_BYTES_MIN (64u * 1024) /* below, it is not worth a word */
#define REASON_BYTES 192

static void begin_suspect(struct ec_json_writer *writer, const char *kind, const char *what,
                          const char *reason);
static void suspect(struct ec_json_writer *writer, const char *kind, const char *what,
                    const char *reason);
static void suspect_tags(struct ec_json_writer *writer, const struct ec_client_segment *segment);
static void suspect_allocators(struct ec_json_writer *writer,
                               const struct ec_client_segment *segment,
                               const struct memory_history *history, uint64_t frames_min);
static void suspect_sites(struct ec_json_writer *writer, const struct ec_client_segment *segment,
                          const struct memory_history *history, uint64_t frames_min,
                          struct memory_modules *modules);
static void write_frame(struct ec_json_writer *writer, const struct ec_client_segment *segment,
                        const struct ec_site_report *site, uint64_t address,
                        struct memory_modules *modules);

void memory_json_tags(struct ec_json_writer *writer, const struct ec_client_segment *segment,
                      const struct memory_history *history)
{
    struct ec_tag_report tags[EC_TAGS_MAX];
    const unsigned count = ec_telemetry_tags(segment, tags);

    ec_json_member_array(writer, "tags");
    for (unsigned i = 0; i < count; i++) {
        ec_json_object_begin(writer);
        ec_json_member_string(writer, "tag", tags[i].name);
        ec_json_member_u64(writer, "bytes", tags[i].bytes);
        ec_json_member_u64(writer, "peak_bytes", tags[i].peak_bytes);
        ec_json_member_u64(writer, "count", tags[i].count);
        ec_json_member_u64(writer, "total", tags[i].total);
        if (history != NULL)
            ec_json_member_real(writer, "allocations_per_s",
                                history->tag_allocations_per_s[tags[i].row]);
        if (tags[i].budget_bytes != 0)
            ec_json_member_u64(writer, "budget_bytes", tags[i].budget_bytes);
        ec_json_object_end(writer);
    }
    ec_json_array_end(writer);
}

void memory_json_allocators(struct ec_json_writer *writer, const struct ec_client_segment *segment)
{
    struct ec_allocator_report allocators[EC_ALLOCATORS_MAX];
    const unsigned count = ec_telemetry_allocators(segment, allocators);

    ec_json_member_array(writer, "allocators");
    for (unsigned i = 0; i < count; i++) {
        const struct ec_allocator_report *row = &allocators[i];
        const uint64_t used_bytes =
            row->current_bytes < row->capacity_bytes ? row->current_bytes : row->capacity_bytes;

        ec_json_object_begin(writer);
        ec_json_member_string(writer, "name", row->name);
        ec_json_member_string(writer, "kind", ec_allocator_kind_name(row->kind));
        ec_json_member_string(writer, "tag", row->tag);
        ec_json_member_u64(writer, "current_bytes", row->current_bytes);
        ec_json_member_u64(writer, "requested_bytes", row->requested_bytes);
        ec_json_member_u64(writer, "peak_bytes", row->peak_bytes);
        ec_json_member_u64(writer, "capacity_bytes", row->capacity_bytes);
        ec_json_member_u64(writer, "count", row->count);
        ec_json_member_u64(writer, "total", row->total);
        ec_json_member_u64(writer, "failed", row->failed);
        ec_json_member_u64(writer, "fallbacks", row->fallbacks);
        ec_json_member_u64(writer, "largest_free_bytes", row->largest_free_bytes);
        ec_json_member_real(writer, "fragmentation_ratio", row->fragmentation);
        ec_json_member_real(
            writer, "occupancy",
            row->capacity_bytes == 0 ? 0 : (double)used_bytes / (double)row->capacity_bytes);
        ec_json_object_end(writer);
    }
    ec_json_array_end(writer);
}

void memory_json_sampling(struct ec_json_writer *writer, const struct ec_client_segment *segment)
{
    struct ec_sampling_report sampling;

    ec_sampling_report(segment, &sampling);
    ec_json_member_object(writer, "sampling");
    ec_json_member_u64(writer, "sample_bytes", sampling.sample_bytes);
    ec_json_member_u64(writer, "samples", sampling.samples);
    ec_json_member_u64(writer, "lost", sampling.lost);
    ec_json_member_u64(writer, "unknown_frees", sampling.unknown_frees);
    ec_json_member_u64(writer, "sites", sampling.sites);
    ec_json_object_end(writer);
}

void memory_json_checks(struct ec_json_writer *writer, const struct ec_client_segment *segment)
{
    struct ec_observation_seen seen;

    ec_telemetry_observation(segment, &seen);
    ec_json_member_object(writer, "checks");
    ec_json_member_boolean(writer, "on", seen.checks);
    ec_json_member_u64(writer, "faults", seen.faults);
    ec_json_object_end(writer);
}

/* Each step names what is added: rounding to block sizes, free blocks that are kept for more of their size, free
 * memory that may go back or serve anything; all of that is the allocators' capacity. Blocks that are counted for a
 * tag alone, as those of an unmodified program's malloc, are in the first two. */
void memory_json_bridge(struct ec_json_writer *writer, const struct ec_client_segment *segment,
                        const struct process_memory *process)
{
    struct ec_allocator_report allocators[EC_ALLOCATORS_MAX];
    struct ec_memory_sum tags;
    const unsigned count = ec_telemetry_allocators(segment, allocators);
    uint64_t requested = 0, current = 0, cached = 0, capacity = 0, beside;

    for (unsigned i = 0; i < count; i++) {
        requested += allocators[i].requested_bytes;
        current += allocators[i].current_bytes;
        cached += allocators[i].unusable_bytes;
        capacity += allocators[i].capacity_bytes > allocators[i].current_bytes
                        ? allocators[i].capacity_bytes
                        : allocators[i].current_bytes;
    }
    ec_telemetry_memory(segment, &tags);
    beside = tags.bytes > current ? tags.bytes - current : 0;
    ec_json_member_object(writer, "bridge");
    ec_json_member_u64(writer, "requested_bytes", requested + beside);
    ec_json_member_u64(writer, "rounded_bytes", current + beside);
    ec_json_member_u64(writer, "cached_bytes", cached);
    ec_json_member_u64(writer, "free_bytes",
                       capacity > current + cached ? capacity - current - cached : 0);
    ec_json_member_u64(writer, "capacity_bytes", capacity + beside);
    if (process != NULL) {
        ec_json_member_u64(writer, "mapped_bytes", process->mapped_bytes);
        ec_json_member_u64(writer, "rss_bytes", process->rss_bytes);
        ec_json_member_u64(writer, "anonymous_bytes", process->anonymous_bytes);
        ec_json_member_u64(writer, "file_bytes", process->file_bytes);
        ec_json_member_u64(writer, "shared_bytes", process->shared_bytes);
        ec_json_member_u64(writer, "swap_bytes", process->swap_bytes);
    }
    ec_json_object_end(writer);
}

void memory_json_site(struct ec_json_writer *writer, const struct ec_client_segment *segment,
                      const struct ec_site_report *site, struct memory_modules *modules)
{
    ec_json_object_begin(writer);
    ec_json_member_u64(writer, "bytes", site->bytes);
    ec_json_member_u64(writer, "count", site->count);
    ec_json_member_u64(writer, "total", site->total);
    ec_json_member_u64(writer, "total_bytes", site->total_bytes);
    memory_json_site_place(writer, segment, site, modules);
    ec_json_object_end(writer);
}

void memory_json_site_place(struct ec_json_writer *writer, const struct ec_client_segment *segment,
                            const struct ec_site_report *site, struct memory_modules *modules)
{
    char where[MEMORY_WHERE_BYTES], tag[EC_TAG_NAME_BYTES] = "";
    uint32_t frame, first, end;

    memory_where(segment, site, where);
    ec_json_member_string(writer, "where", where);
    if (site->tag < EC_TAGS_MAX)
        ec_telemetry_tag_name(segment, site->tag, tag);
    ec_json_member_string(writer, "tag", tag);
    if (site->depth == 0)
        return;
    frame = ec_site_report_frame(segment, site);
    first = modules->brief ? frame : 0;
    end = modules->brief ? first + 1 : site->depth;
    ec_json_member_u64(writer, "frame", frame - first);
    ec_json_member_array(writer, "frames");
    for (uint32_t i = first; i < end; i++)
        write_frame(writer, segment, site, site->frames[i], modules);
    ec_json_array_end(writer);
}

void memory_json_modules(struct ec_json_writer *writer, const struct memory_modules *modules)
{
    static const char digits[] = "0123456789abcdef";

    ec_json_member_array(writer, "modules");
    for (unsigned i = 0; i < modules->count; i++) {
        const struct ec_module_report *module = &modules->module[i];
        char build_id[2 * EC_BUILD_ID_BYTES];

        for (uint32_t byte = 0; byte < module->build_id_bytes; byte++) {
            build_id[2 * byte] = digits[module->build_id[byte] >> 4];
            build_id[2 * byte + 1] = digits[module->build_id[byte] & 15];
        }
        ec_json_object_begin(writer);
        ec_json_member_string(writer, "path", module->path);
        ec_json_member_string_n(writer, "build_id", build_id, 2 * (size_t)module->build_id_bytes);
        if (module->is_unloaded)
            ec_json_member_boolean(writer, "unloaded", true);
        ec_json_object_end(writer);
    }
    ec_json_array_end(writer);
}

void memory_where(const struct ec_client_segment *segment, const struct ec_site_report *site,
                  char where[MEMORY_WHERE_BYTES])
{
    struct ec_module_report module;
    const char *name;
    uint64_t address;

    if (site->file[0] != '\0') {
        snprintf(where, MEMORY_WHERE_BYTES, "%s:%" PRIu32, site->file, site->line);
        return;
    }
    address = site->depth == 0 ? 0 : site->frames[ec_site_report_frame(segment, site)];
    if (!ec_module_report_find(segment, site, address, &module)) {
        snprintf(where, MEMORY_WHERE_BYTES, "0x%" PRIx64, address);
        return;
    }
    name = strrchr(module.path, '/');
    snprintf(where, MEMORY_WHERE_BYTES, "%.90s+0x%" PRIx64, name == NULL ? module.path : name + 1,
             address - module.bias);
}

static void write_frame(struct ec_json_writer *writer, const struct ec_client_segment *segment,
                        const struct ec_site_report *site, uint64_t address,
                        struct memory_modules *modules)
{
    struct ec_module_report found;
    unsigned index = 0;

    ec_json_object_begin(writer);
    if (ec_module_report_find(segment, site, address, &found)) {
        while (index < modules->count && modules->module[index].row != found.row)
            index++;
        if (index == modules->count) /* one of EC_MODULES_MAX rows, so there is room */
            modules->module[modules->count++] = found;
        ec_json_member_u64(writer, "module", index);
        ec_json_member_hex64(writer, "offset", address - found.bias);
    } else {
        ec_json_member_hex64(writer, "address", address);
    }
    ec_json_object_end(writer);
}

/* ---- suspects ---- */

void memory_json_suspects(struct ec_json_writer *writer, const struct ec_client_segment *segment,
                          const struct memory_history *history, uint64_t frames_min,
                          struct memory_modules *modules)
{
    ec_json_member_array(writer, "suspects");
    suspect_tags(writer, segment);
    suspect_allocators(writer, segment, history, frames_min);
    if (history != NULL)
        suspect_sites(writer, segment, history, frames_min, modules);
    ec_json_array_end(writer);
}

static void begin_suspect(struct ec_json_writer *writer, const char *kind, const char *what,
                          const char *reason)
{
    ec_json_object_begin(writer);
    ec_json_member_string(writer, "kind", kind);
    ec_json_member_string(writer, "what", what);
    ec_json_member_string(writer, "reason", reason);
}

static void suspect(struct ec_json_writer *writer, const char *kind, const char *what,
                    const char *reason)
{
    begin_suspect(writer, kind, what, reason);
    ec_json_object_end(writer);
}

static void suspect_tags(struct ec_json_writer *writer, const struct ec_client_segment *segment)
{
    struct ec_tag_report tags[EC_TAGS_MAX];
    const unsigned count = ec_telemetry_tags(segment, tags);
    char reason[REASON_BYTES];

    for (unsigned i = 0; i < count; i++) {
        if (tags[i].budget_bytes == 0 || tags[i].bytes <= tags[i].budget_bytes)
            continue;
        snprintf(reason, sizeof reason,
                 "holds %" PRIu64 " bytes, %" PRIu64 " more than its budget of %" PRIu64,
                 tags[i].bytes, tags[i].bytes - tags[i].budget_bytes, tags[i].budget_bytes);
        suspect(writer, "over_budget", tags[i].name, reason);
    }
}

static void suspect_allocators(struct ec_json_writer *writer,
                               const struct ec_client_segment *segment,
                               const struct memory_history *history, uint64_t frames_min)
{
    struct ec_allocator_report allocators[EC_ALLOCATORS_MAX];
    const unsigned count = ec_telemetry_allocators(segment, allocators);
    char reason[REASON_BYTES];
    uint64_t frames;

    for (unsigned i = 0; i < count; i++) {
        const struct ec_allocator_report *row = &allocators[i];
        const uint64_t free_bytes =
            row->capacity_bytes > row->current_bytes ? row->capacity_bytes - row->current_bytes : 0;

        if (history != NULL && memory_history_grows(history, row->row, frames_min, &frames)) {
            snprintf(reason, sizeof reason,
                     "its live blocks have only grown for %" PRIu64 " frames, from %" PRIu64
                     " to %" PRIu64,
                     frames, history->growth[row->row].begin_count, row->count);
            suspect(writer, "growing", row->name, reason);
        }
        /* Of a heap only what could be trimmed is known to be of use, which says too little. */
        if (row->kind != EC_ALLOCATOR_HEAP && row->fragmentation > FRAGMENTED &&
            free_bytes >= FREE_BYTES_MIN) {
            snprintf(reason, sizeof reason, "of %" PRIu64 " free bytes %.0f %% serve any request",
                     free_bytes, 100 * (1 - row->fragmentation));
            suspect(writer, "fragmented", row->name, reason);
        }
    }
}

static void suspect_sites(struct ec_json_writer *writer, const struct ec_client_segment *segment,
                          const struct memory_history *history, uint64_t frames_min,
                          struct memory_modules *modules)
{
    char where[MEMORY_WHERE_BYTES], reason[REASON_BYTES];
    struct ec_site_report site;
    uint64_t frames;

    for (uint32_t row = 0; row < ec_site_report_rows(segment); row++) {
        if (!memory_history_is_busy(history, row, frames_min, &frames) ||
            !ec_site_report_row(segment, row, &site))
            continue;
        memory_where(segment, &site, where);
        snprintf(reason, sizeof reason,
                 "has allocated in each of the last %" PRIu64 " frames, %" PRIu64
                 " blocks in all so far",
                 frames, site.total);
        begin_suspect(writer, "every_frame", where, reason);
        memory_json_site_place(writer, segment, &site, modules);
        ec_json_object_end(writer);
    }
}
