/* describe.c - see describe.h. */
#include "postmortem/describe.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "breaker/breaker.h"
#include "daemon/log.h"
#include "daemon/segments.h"
#include "daemon/services.h"
#include "events/events.h"
#include "foundation/real_time.h"
#include "resources/resources.h"
#include "segment/client_log.h"
#include "segment/directory.h"
#include "segment/references.h"
#include "segment/telemetry.h"

#define DAEMON_LINES 20 /* of the log, around the death of a client */
#define REFERENCES_MAX 64

static void write_memory(const struct ec_client_segment *segment, bool brief,
                         struct ec_json_writer *w)
{
    struct ec_tag_report tags[EC_TAGS_MAX];
    struct ec_allocator_report allocators[EC_ALLOCATORS_MAX];
    struct ec_memory_sum sum = { 0 };
    unsigned count = ec_telemetry_tags(segment, tags);

    ec_telemetry_memory(segment, &sum);
    ec_json_member_object(w, "memory");
    ec_json_member_u64(w, "bytes", sum.bytes);
    ec_json_member_u64(w, "peak_bytes", sum.peak_bytes);
    ec_json_member_array(w, "tags");
    for (unsigned i = 0; i < count; i++) {
        ec_json_object_begin(w);
        ec_json_member_string(w, "tag", tags[i].name);
        ec_json_member_u64(w, "bytes", tags[i].bytes);
        ec_json_member_u64(w, "peak_bytes", tags[i].peak_bytes);
        ec_json_member_u64(w, "count", tags[i].count);
        ec_json_member_u64(w, "budget_bytes", tags[i].budget_bytes);
        ec_json_object_end(w);
    }
    ec_json_array_end(w);
    count = brief ? 0 : ec_telemetry_allocators(segment, allocators);
    ec_json_member_array(w, "allocators");
    for (unsigned i = 0; i < count; i++) {
        ec_json_object_begin(w);
        ec_json_member_string(w, "name", allocators[i].name);
        ec_json_member_string(w, "kind", ec_allocator_kind_name(allocators[i].kind));
        ec_json_member_string(w, "tag", allocators[i].tag);
        ec_json_member_u64(w, "current_bytes", allocators[i].current_bytes);
        ec_json_member_u64(w, "peak_bytes", allocators[i].peak_bytes);
        ec_json_member_u64(w, "capacity_bytes", allocators[i].capacity_bytes);
        ec_json_member_u64(w, "failed", allocators[i].failed);
        ec_json_object_end(w);
    }
    ec_json_array_end(w);
    ec_json_object_end(w);
}

/* Names lie in the directory, which is ours. */
static void write_references(struct services *services, const struct ec_client_segment *segment,
                             struct ec_json_writer *w)
{
    const struct ec_directory *directory = segments_directory(services->segments);
    const uint32_t high = atomic_load_explicit(&directory->high, memory_order_relaxed);
    struct ec_reference_sum sum = { 0 };
    unsigned named = 0;

    ec_telemetry_references(segment, high, &sum);
    ec_json_member_u64(w, "hard_refs", sum.hard);
    ec_json_member_u64(w, "soft_refs", sum.soft);
    ec_json_member_array(w, "references");
    for (uint32_t i = 0; i < high && sum.hard > 0 && named < REFERENCES_MAX; i++) {
        uint32_t hard = ec_reference_sum(segment, &segment->hard, i);
        char name[EC_RESOURCE_NAME_BYTES];

        if (hard == 0)
            continue;
        ec_json_object_begin(w);
        ec_json_member_string(w, "name", ec_directory_name(directory, i, name) ? name : "");
        ec_json_member_u64(w, "hard_refs", hard);
        ec_json_object_end(w);
        named++;
    }
    ec_json_array_end(w);
}

static void write_pulse(const struct client *client, struct ec_json_writer *w)
{
    const struct ec_client_segment *segment = client_segment(client);
    struct ec_pulse_seen pulse;
    struct ec_ack_seen ack = { 0 };
    int64_t age_ns;

    ec_telemetry_pulse(segment, &pulse);
    ec_json_member_u64(w, "last_frame", pulse.frame);
    ec_json_member_u64(w, "last_step", pulse.step);
    /* How long before the death that was; the client wrote it, so nonsense is left out. */
    if (pulse.last_ns != 0 &&
        !__builtin_sub_overflow(client->ended_ns - client->clock_offset_ns, pulse.last_ns,
                                &age_ns) &&
        age_ns >= 0)
        ec_json_member_i64(w, "silent_ns", age_ns);
    ec_json_member_object(w, "breaker_answer");
    if (ec_telemetry_ack(segment, &ack)) {
        ec_json_member_u64(w, "level", ack.level);
        ec_json_member_u64(w, "freed_bytes", ack.freed_bytes);
        ec_json_member_boolean(w, "answered", ack.sequence != 0);
    }
    ec_json_member_u64(w, "evictable_bytes", ec_telemetry_evictable(segment));
    ec_json_object_end(w);
}

static void write_client_log(const struct ec_client_segment *segment, struct ec_json_writer *w)
{
    struct ec_client_log_seen lines[EC_CLIENT_LOG_LINES];
    unsigned count = ec_client_log_read(segment, lines);

    ec_json_member_array(w, "log");
    for (unsigned i = 0; i < count; i++) {
        ec_json_object_begin(w);
        ec_json_member_i64(w, "real_ns", lines[i].at_ns);
        ec_json_member_string(w, "message", lines[i].text);
        ec_json_object_end(w);
    }
    ec_json_array_end(w);
}

/* What the daemon said last: who else came, went and was asked for memory around that time. */
static void write_daemon_log(struct ec_json_writer *w)
{
    struct log_line line;
    uint64_t sequence = 0, last = 0;

    while (log_read(&sequence, &line, 1) == 1)
        last = line.sequence;
    sequence = last > DAEMON_LINES ? last - DAEMON_LINES : 0;
    ec_json_member_array(w, "daemon_log");
    while (log_read(&sequence, &line, 1) == 1) {
        ec_json_object_begin(w);
        ec_json_member_i64(w, "unix_ns", (int64_t)line.at.tv_sec * EC_NS_PER_S + line.at.tv_nsec);
        ec_json_member_string(w, "level", log_level_name(line.level));
        ec_json_member_string(w, "module", line.module);
        ec_json_member_string(w, "message", line.text);
        ec_json_object_end(w);
    }
    ec_json_array_end(w);
}

void describe_client(struct services *services, const struct client *client, bool brief,
                     struct ec_json_writer *w)
{
    const struct ec_client_segment *segment = client_segment(client);

    ec_json_member_string(w, "name", client->name);
    ec_json_member_u64(w, "client_id", client->id);
    ec_json_member_i64(w, "pid", client->pid);
    ec_json_member_u64(w, "uid", client->uid);
    ec_json_member_i64(w, "real_ns", client->ended_ns);
    ec_json_member_i64(w, "connected_ns",
                       client->since_ns != 0 ? client->ended_ns - client->since_ns : 0);
    ec_json_member_string(w, "connection",
                          client->close_reason != NULL ? client->close_reason : "stood");
    ec_json_member_u64(w, "lost_notifications", client->lost_notifications);
    ec_json_member_u64(w, "ports", client->ports);
    ec_json_member_u64(w, "readers", client->readers);
    ec_json_member_u64(w, "breaker_level", breaker_level(services->breaker));
    ec_json_member_boolean(w, "segment", segment != NULL);
    if (segment != NULL) {
        write_pulse(client, w);
        write_references(services, segment, w);
        write_memory(segment, brief, w);
        write_client_log(segment, w);
    }
    events_describe_last(services->events, client, w);
    write_daemon_log(w);
}

static void write_signal(int number, struct ec_json_writer *w)
{
    const char *name = sigabbrev_np(number);
    char text[24];

    snprintf(text, sizeof text, name != NULL ? "SIG%s" : "%s%d", name != NULL ? name : "signal ",
             number);
    ec_json_member_i64(w, "signal", number);
    ec_json_member_string(w, "signal_name", text);
}

void describe_status(bool known, int status, struct ec_json_writer *w)
{
    if (known && WIFSIGNALED(status)) {
        ec_json_member_string(w, "cause", "signal");
        write_signal(WTERMSIG(status), w);
        ec_json_member_boolean(w, "core_dumped", WCOREDUMP(status) != 0);
    } else if (known && WIFEXITED(status)) {
        ec_json_member_string(w, "cause", "exit");
        ec_json_member_i64(w, "code", WEXITSTATUS(status));
    } else {
        ec_json_member_string(w, "cause", "unknown");
    }
}

/* ---- the daemon ------------------------------------------------------------------------------ */

static void write_frame(const struct crash_found *found, uint64_t address, struct ec_json_writer *w)
{
    const struct crash_module *module = crash_module_of(found, address);
    char build_id[2 * CRASH_BUILD_ID_BYTES + 1] = "";

    ec_json_object_begin(w);
    ec_json_member_hex64(w, "address", address);
    if (module != NULL) {
        for (unsigned i = 0; i < module->build_id_bytes; i++)
            snprintf(build_id + 2 * i, 3, "%02x", module->build_id[i]);
        ec_json_member_string(w, "module", module->path);
        ec_json_member_string(w, "build_id", build_id);
        ec_json_member_hex64(w, "offset", address - module->bias); /* as in the file's symbols */
    }
    ec_json_object_end(w);
}

void describe_daemon(const struct crash_found *found, struct ec_json_writer *w)
{
    if (found->signal != 0) {
        ec_json_member_string(w, "cause", "signal");
        write_signal(found->signal, w);
        ec_json_member_i64(w, "signal_code", found->code);
        ec_json_member_hex64(w, "address", found->address);
        ec_json_member_i64(w, "thread", found->thread);
        ec_json_member_string(w, "thread_name", found->thread_name);
    } else {
        /* No handler ran: SIGKILL, the kernel's for want of memory, or the host itself. */
        ec_json_member_string(w, "cause", found->same_boot ? "killed" : "host ended");
    }
    ec_json_member_string(w, "name", "engine-cored");
    ec_json_member_string(w, "version", found->version);
    ec_json_member_i64(w, "pid", found->pid);
    ec_json_member_hex64(w, "instance", found->instance);
    ec_json_member_i64(w, "started_unix_ns", found->started_unix_ns);
    ec_json_member_i64(w, "seen_unix_ns", found->beat_unix_ns);
    ec_json_member_u64(w, "rss_bytes", found->rss_bytes);
    ec_json_member_u64(w, "clients", found->clients);
    ec_json_member_u64(w, "breaker_level", found->breaker_level);
    ec_json_member_u64(w, "last_step", found->step);
    ec_json_member_array(w, "frames");
    for (uint32_t i = 0; i < found->frame_count; i++)
        write_frame(found, found->frames[i], w);
    ec_json_array_end(w);
    ec_json_member_array(w, "log");
    for (uint32_t i = 0; i < found->line_count; i++) {
        ec_json_object_begin(w);
        ec_json_member_i64(w, "unix_ns", found->lines[i].at_unix_ns);
        ec_json_member_string(w, "level",
                              log_level_name(found->lines[i].level <= LOG_LEVEL_ERROR
                                                 ? (enum log_level)found->lines[i].level
                                                 : LOG_LEVEL_ERROR));
        ec_json_member_string(w, "message", found->lines[i].text);
        ec_json_object_end(w);
    }
    ec_json_array_end(w);
}
