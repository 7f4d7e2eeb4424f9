/* frame.c - frame marks: how many frames a second, and how long they take. */
#include <engine-core/clock.h>

#include "client/client.h"
#include "client/soft_references.h"
#include "segment/histogram.h"

#define FPS_WINDOW_NS EC_NS_PER_S

/* Once a second: how many frames it had. */
static void count_fps(struct ec_client *client, uint64_t frame, int64_t now_ns)
{
    struct ec_frame_record *record = &ec_client_own(client)->frames;
    int64_t passed_ns = now_ns - client->fps_since_ns;

    if (client->fps_since_frame != 0 && passed_ns < FPS_WINDOW_NS)
        return;
    if (client->fps_since_frame != 0)
        atomic_store_explicit(
            &record->fps_milli,
            (uint64_t)((double)(frame - client->fps_since_frame) * 1e12 / (double)passed_ns),
            memory_order_relaxed);
    client->fps_since_ns = now_ns;
    client->fps_since_frame = frame;
}

void ec_frame_begin(struct ec_client *client, struct ec_frame *frame)
{
    struct ec_pulse *pulse = &ec_client_own(client)->pulse;
    uint64_t before = atomic_load_explicit(&pulse->frame, memory_order_relaxed);
    int64_t before_ns = atomic_load_explicit(&pulse->frame_ns, memory_order_relaxed);
    int64_t now_ns = ec_client_now_ns(client);

    *frame = (struct ec_frame) {
        .client = client,
        .index = before + 1,
        .begin_ns = now_ns,
        .period_ns = before > 0 ? now_ns - before_ns : 0,
    };
    atomic_store_explicit(&pulse->frame_ns, now_ns, memory_order_relaxed);
    atomic_store_explicit(&pulse->frame, frame->index, memory_order_relaxed);
    if (before > 0)
        ec_histogram_add(&ec_client_own(client)->frames.period, (uint64_t)frame->period_ns);
    count_fps(client, frame->index, now_ns);
    ec_client_memory_frame_begins(client);
    ec_client_soft_look(client);
    ec_client_breaker_look(client, EC_WATCH_FRAME); /* the safe point for its call-back */
}

void ec_frame_end(struct ec_frame *frame)
{
    ec_client_memory_frame_ends(frame->client); /* part of the frame's work */
    frame->work_ns = ec_client_now_ns(frame->client) - frame->begin_ns;
    ec_histogram_add(&ec_client_own(frame->client)->frames.work, (uint64_t)frame->work_ns);
}

static void fill_times(const struct ec_histogram *histogram, struct ec_frame_times *times)
{
    struct ec_histogram_sum sum = { 0 };
    struct ec_percentiles percentiles;

    ec_histogram_sum_add(&sum, histogram);
    ec_histogram_percentiles(&sum, &percentiles);
    *times = (struct ec_frame_times) { percentiles.p50_ns, percentiles.p99_ns, percentiles.p999_ns,
                                       percentiles.max_ns };
}

void ec_frame_stats(const struct ec_client *client, struct ec_frame_stats *stats)
{
    const struct ec_client_segment *own = client->own.base;

    stats->frames = atomic_load_explicit(&own->pulse.frame, memory_order_relaxed);
    stats->fps =
        (double)atomic_load_explicit(&own->frames.fps_milli, memory_order_relaxed) / 1000.0;
    fill_times(&own->frames.period, &stats->period);
    fill_times(&own->frames.work, &stats->work);
}
