#include "telemetry/memory_history.h"

#include <stdlib.h>

#include "segment/site_report.h"
#include "segment/telemetry.h"

#define NS_PER_S 1000000000ll
#define FRAMES_PER_S 60 /* of a program that marks none */
#define STEPS_MIN 4     /* fewer may be a start that takes its time */
#define QUIET_PART 4    /* what has not grown for this part of the frames has stopped */

static void begin_anew(struct memory_history *history, uint64_t frame);
static void look_at_tags(struct memory_history *history, const struct ec_client_segment *segment,
                         int64_t passed_ns);
static void look_at_allocators(struct memory_history *history,
                               const struct ec_client_segment *segment);
static void look_at_sites(struct memory_history *history, const struct ec_client_segment *segment,
                          bool has_frames, uint64_t frames);

void memory_history_finish(struct memory_history *history)
{
    free(history->sites);
    *history = (struct memory_history) { 0 };
}

void memory_history_look(struct memory_history *history, const struct ec_client_segment *segment,
                         int64_t now_ns)
{
    struct ec_pulse_seen pulse;
    uint64_t frame, before;

    ec_telemetry_pulse(segment, &pulse);
    frame = pulse.frame != 0 ? pulse.frame : (uint64_t)(now_ns / (NS_PER_S / FRAMES_PER_S));
    if (frame < history->frame) /* the first mark of a program that had none, or nonsense */
        begin_anew(history, frame);
    before = history->frame;
    history->frame = frame;
    look_at_tags(history, segment, now_ns - history->at_ns);
    look_at_allocators(history, segment);
    look_at_sites(history, segment, pulse.frame != 0,
                  pulse.frame != 0 && history->looks > 0 ? frame - before : 0);
    history->at_ns = now_ns;
    history->looks++;
}

bool memory_history_grows(const struct memory_history *history, uint32_t allocator,
                          uint64_t frames_min, uint64_t *frames)
{
    const struct memory_growth *growth = &history->growth[allocator];

    *frames = history->frame - growth->begin_frame;
    return growth->steps >= STEPS_MIN && *frames >= frames_min &&
           history->frame - growth->grown_frame <= frames_min / QUIET_PART;
}

bool memory_history_is_busy(const struct memory_history *history, uint32_t site,
                            uint64_t frames_min, uint64_t *frames)
{
    if (site >= history->site_count)
        return false;
    *frames = history->frame - history->sites[site].begin_frame;
    return *frames >= frames_min;
}

/* Frames that were counted in another way cannot be compared with those from now on. */
static void begin_anew(struct memory_history *history, uint64_t frame)
{
    history->frame = frame;
    for (unsigned i = 0; i < EC_ALLOCATORS_MAX; i++) {
        struct memory_growth *growth = &history->growth[i];

        growth->begin_count = growth->count;
        growth->begin_frame = growth->grown_frame = frame;
        growth->steps = 0;
    }
    for (uint32_t row = 0; row < history->site_count; row++)
        history->sites[row].begin_frame = frame;
}

static double rate(uint64_t now, uint64_t before, int64_t passed_ns)
{
    return now <= before || passed_ns <= 0
               ? 0
               : (double)(now - before) * (double)NS_PER_S / (double)passed_ns;
}

static void look_at_tags(struct memory_history *history, const struct ec_client_segment *segment,
                         int64_t passed_ns)
{
    struct ec_tag_report tags[EC_TAGS_MAX];
    const unsigned count = ec_telemetry_tags(segment, tags);

    history->allocations_per_s = 0;
    for (unsigned i = 0; i < count; i++) {
        const uint32_t row = tags[i].row;

        history->tag_allocations_per_s[row] =
            history->looks == 0 ? 0 : rate(tags[i].total, history->tag_total[row], passed_ns);
        history->allocations_per_s += history->tag_allocations_per_s[row];
        history->tag_total[row] = tags[i].total;
    }
}

static void look_at_allocators(struct memory_history *history,
                               const struct ec_client_segment *segment)
{
    struct ec_allocator_report allocators[EC_ALLOCATORS_MAX];
    const unsigned count = ec_telemetry_allocators(segment, allocators);

    for (unsigned i = 0; i < count; i++) {
        struct memory_growth *growth = &history->growth[allocators[i].row];

        if (allocators[i].count < growth->count || allocators[i].total < growth->total ||
            growth->total == 0) {
            *growth = (struct memory_growth) { .begin_count = allocators[i].count,
                                               .begin_frame = history->frame };
        } else if (allocators[i].count > growth->count) {
            growth->grown_frame = history->frame;
            growth->steps++;
        }
        growth->count = allocators[i].count;
        growth->total = allocators[i].total;
    }
}

static void look_at_sites(struct memory_history *history, const struct ec_client_segment *segment,
                          bool has_frames, uint64_t frames)
{
    const uint32_t rows = ec_site_report_rows(segment);

    if (rows > history->site_count) {
        struct memory_site_rate *more = realloc(history->sites, rows * sizeof *more);

        if (more == NULL)
            return; /* rates are a hint: without memory there is none */
        for (uint32_t row = history->site_count; row < rows; row++)
            more[row] = (struct memory_site_rate) { .begin_frame = history->frame };
        history->sites = more;
        history->site_count = rows;
    }
    for (uint32_t row = 0; row < rows; row++) {
        struct memory_site_rate *site = &history->sites[row];
        struct ec_site_report report;

        if (!ec_site_report_row(segment, row, &report))
            continue;
        if (frames == 0) { /* no frame has passed, or there are none */
            if (!has_frames || history->looks == 0)
                site->begin_frame = history->frame;
            if (history->looks == 0)
                site->total = report.total;
            continue;
        }
        /* The looks fall anywhere into frames: up to one of them may have been counted already. */
        if (report.total < site->total + (frames > 1 ? frames - 1 : 1))
            site->begin_frame = history->frame;
        site->total = report.total;
    }
}
