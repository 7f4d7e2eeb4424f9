/* telemetry.c - bound what a stranger wrote, then let proto/memory_rows.h add it up. */
#include "segment/telemetry.h"

#include "proto/memory_rows.h"
#include "segment/foreign_text.h"

#define RESOURCES_AT_ONCE 512
#define ACK_TRIES 8

static uint64_t requested_of(const struct ec_client_segment *segment, uint32_t threads,
                             uint32_t index, const struct ec_allocator_sums *sums);
static uint32_t threads_used(const struct ec_client_segment *segment);
static uint64_t add_saturated(uint64_t a, uint64_t b);
static uint64_t reference_sum(const struct ec_reference_rows *rows, uint32_t threads,
                              uint32_t resources);

static bool tag_read(const struct ec_client_segment *segment, uint32_t tag,
                     struct ec_tag_report *report)
{
    const struct ec_tag_sums sums = ec_tag_sum(segment->tags, segment->allocators, segment->threads,
                                               threads_used(segment), tag);

    report->row = tag;
    ec_telemetry_tag_name(segment, tag, report->name);
    report->total = sums.total;
    report->bytes = sums.bytes;
    report->peak_bytes = sums.peak_bytes;
    report->count = sums.count;
    report->budget_bytes = sums.budget_bytes;
    return report->name[0] != '\0' || sums.total != 0 || sums.bytes != 0;
}

unsigned ec_telemetry_tags(const struct ec_client_segment *segment,
                           struct ec_tag_report tags[EC_TAGS_MAX])
{
    unsigned count = 0;

    for (uint32_t tag = 0; tag < EC_TAGS_MAX; tag++)
        if (tag_read(segment, tag, &tags[count]))
            count++;
    return count;
}

void ec_telemetry_tag_name(const struct ec_client_segment *segment, uint32_t tag,
                           char name[EC_TAG_NAME_BYTES])
{
    ec_foreign_text(name, segment->tags[tag].name, EC_TAG_NAME_BYTES);
}

void ec_telemetry_memory(const struct ec_client_segment *segment, struct ec_memory_sum *sum)
{
    struct ec_tag_report tag;

    *sum = (struct ec_memory_sum) { 0 };
    for (uint32_t i = 0; i < EC_TAGS_MAX; i++)
        if (tag_read(segment, i, &tag)) {
            sum->bytes = add_saturated(sum->bytes, tag.bytes);
            sum->peak_bytes = add_saturated(sum->peak_bytes, tag.peak_bytes);
        }
}

static double fragmentation_of(const struct ec_allocator_sums *sums)
{
    const uint64_t free_bytes = ec_row_difference(sums->capacity_bytes, sums->current_bytes);
    const uint64_t lost_bytes = sums->block_bytes != 0
                                    ? sums->unusable_bytes
                                    : ec_row_difference(free_bytes, sums->largest_free_bytes);

    return free_bytes != 0 ? (double)lost_bytes / (double)free_bytes : 0;
}

unsigned ec_telemetry_allocators(const struct ec_client_segment *segment,
                                 struct ec_allocator_report allocators[EC_ALLOCATORS_MAX])
{
    const uint32_t threads = threads_used(segment);
    unsigned count = 0;

    for (uint32_t i = 0; i < EC_ALLOCATORS_MAX; i++) {
        const struct ec_allocator_row *row = &segment->allocators[i];
        struct ec_allocator_report *report = &allocators[count];
        struct ec_allocator_sums sums;
        uint32_t tag;

        /* Acquire: pairs with the release store that takes the row, after name and tag. */
        report->kind = atomic_load_explicit(&row->kind, memory_order_acquire);
        if (report->kind == EC_ALLOCATOR_NONE)
            continue;
        report->row = i;
        tag = *(const volatile uint32_t *)&row->tag; /* one load: it is an index */
        report->tag[0] = '\0';
        if (tag < EC_TAGS_MAX)
            ec_telemetry_tag_name(segment, tag, report->tag);
        ec_foreign_text(report->name, row->name, sizeof report->name);
        sums = ec_allocator_sum(segment->allocators, segment->threads, threads, i);
        report->current_bytes = sums.current_bytes;
        report->requested_bytes = requested_of(segment, threads, i, &sums);
        report->peak_bytes = sums.peak_bytes;
        report->capacity_bytes = sums.capacity_bytes;
        report->unusable_bytes = sums.unusable_bytes;
        report->count = sums.count;
        report->total = sums.total;
        report->failed = sums.failed;
        report->fallbacks = sums.fallbacks;
        report->largest_free_bytes = sums.largest_free_bytes;
        report->fragmentation = fragmentation_of(&sums);
        count++;
    }
    return count;
}

void ec_telemetry_observation(const struct ec_client_segment *segment,
                              struct ec_observation_seen *seen)
{
    const struct ec_observation *from = &segment->observation;

    seen->is_switchable = atomic_load_explicit(&from->is_switchable, memory_order_relaxed) != 0;
    seen->checks = atomic_load_explicit(&from->checks, memory_order_relaxed) != 0;
    seen->faults = ec_row_load(&from->faults);
}

void ec_telemetry_references(const struct ec_client_segment *segment, uint32_t resources,
                             struct ec_reference_sum *sum)
{
    const uint32_t threads = threads_used(segment);

    if (resources > EC_RESOURCES_MAX)
        resources = EC_RESOURCES_MAX;
    sum->hard = reference_sum(&segment->hard, threads, resources);
    sum->soft = reference_sum(&segment->soft, threads, resources);
}

void ec_telemetry_pulse(const struct ec_client_segment *segment, struct ec_pulse_seen *pulse)
{
    int64_t frame_ns = atomic_load_explicit(&segment->pulse.frame_ns, memory_order_relaxed);
    int64_t step_ns = atomic_load_explicit(&segment->pulse.step_ns, memory_order_relaxed);

    pulse->frame = ec_row_load(&segment->pulse.frame);
    pulse->step = ec_row_load(&segment->pulse.step);
    pulse->last_ns = frame_ns > step_ns ? frame_ns : step_ns;
}

bool ec_telemetry_ack(const struct ec_client_segment *segment, struct ec_ack_seen *ack)
{
    const struct ec_breaker_ack *from = &segment->breaker;

    for (unsigned i = 0; i < ACK_TRIES; i++) {
        /* Acquire: pairs with the release store of sequence in ec_breaker_ack(). */
        ack->sequence = atomic_load_explicit(&from->sequence, memory_order_acquire);
        ack->level = atomic_load_explicit(&from->level, memory_order_relaxed);
        ack->at_ns = atomic_load_explicit(&from->at_ns, memory_order_relaxed);
        ack->freed_bytes = ec_row_load(&from->freed_bytes);
        ack->trimmed_bytes = ec_row_load(&from->trimmed_bytes);
        ack->order = ec_row_load(&from->order);
        /* Pairs with the writer's release fence: who read a newer field sees the odd sequence. */
        atomic_thread_fence(memory_order_acquire);
        if (ack->sequence % 2 == 0 && ec_row_load(&from->sequence) == ack->sequence)
            return true;
    }
    return false;
}

uint64_t ec_telemetry_evictable(const struct ec_client_segment *segment)
{
    return ec_row_load(&segment->breaker.evictable_bytes);
}

/* Nobody remembers how much was asked for in a single block. What all blocks of a class were asked for on average
 * is known, and those that live now are taken to be like them. */
static uint64_t requested_of(const struct ec_client_segment *segment, uint32_t threads,
                             uint32_t index, const struct ec_allocator_sums *sums)
{
    uint64_t requested = 0, allocs, frees;

    for (uint32_t i = 0; i < threads; i++)
        requested += ec_row_load(&segment->requested[i].bytes[index]);
    ec_allocator_count(segment->threads, threads, index, &allocs, &frees);
    if (requested == 0 || allocs == 0 ||
        (double)requested >= (double)allocs * (double)sums->block_bytes)
        return sums->current_bytes;
    return (uint64_t)((double)sums->current_bytes *
                      ((double)requested / ((double)allocs * (double)sums->block_bytes)));
}

static uint32_t threads_used(const struct ec_client_segment *segment)
{
    uint32_t high = atomic_load_explicit(&segment->threads_high, memory_order_relaxed);

    return high < EC_THREADS_MAX ? high : EC_THREADS_MAX;
}

static uint64_t add_saturated(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* Row by row for some hundred resources at a time: rows are 64 KiB apart. */
static uint64_t reference_sum(const struct ec_reference_rows *rows, uint32_t threads,
                              uint32_t resources)
{
    uint64_t total = 0;

    for (uint32_t from = 0; from < resources; from += RESOURCES_AT_ONCE) {
        uint32_t count =
            resources - from < RESOURCES_AT_ONCE ? resources - from : RESOURCES_AT_ONCE;
        int64_t held[RESOURCES_AT_ONCE] = { 0 };

        for (uint32_t thread = 0; thread < threads; thread++)
            for (uint32_t i = 0; i < count; i++)
                held[i] +=
                    atomic_load_explicit(&rows->count[thread][from + i], memory_order_relaxed);
        for (uint32_t i = 0; i < count; i++)
            if (held[i] > 0)
                total += (uint64_t)held[i];
    }
    return total;
}

void ec_telemetry_knobs(const struct ec_client_segment *segment, struct ec_knobs_seen *knobs)
{
    /* Acquire: pairs with the release store in note_taken() of client/breaker.c. */
    knobs->level = atomic_load_explicit(&segment->knobs.level, memory_order_acquire);
    knobs->taken_ns = atomic_load_explicit(&segment->knobs.taken_ns, memory_order_relaxed);
    for (unsigned i = 0; i < EC_BREAKER_KNOBS; i++)
        knobs->freed_bytes[i] = ec_row_load(&segment->knobs.freed_bytes[i]);
}
