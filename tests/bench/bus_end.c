/* bus_end.c - see bus_end.h. */
#include "bench/bus_end.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench/harness.h"

#define POLL_MAX 1024
#define CLAIM_WAIT_NS (20 * (int64_t)BUS_WAIT_NS) /* a reader may wait for its processor, too */

struct daemon_process bus_daemon;

/* ---- the daemon ------------------------------------------------------------------------------ */

void bus_daemon_begin(void)
{
    if (!daemon_start(&bus_daemon, (const char *const[]) { "--set", "event.stall_ms=60000", NULL }))
        bench_fail("%s", bus_daemon.why);
}

void bus_daemon_end(void)
{
    if (daemon_stop(&bus_daemon) != 0)
        bench_fail("the daemon ended badly");
}

/* ---- what was read --------------------------------------------------------------------------- */

static void on_event(void *context, const struct ec_event *event)
{
    struct bus_end *end = context;
    uint64_t value = bench_read(event->payload, event->bytes);

    if (end->read != 0 && value != end->last + 1)
        bench_fail("event %llu after %llu", (unsigned long long)value,
                   (unsigned long long)end->last);
    end->last = value;
    end->read++;
}

/* ---- in a foreign loop ----------------------------------------------------------------------- */

static void on_bell(uv_poll_t *bell, int status, int events)
{
    struct bus_end *end = bell->data;

    (void)status;
    (void)events;
    ec_subscriber_poll(end->subscriber, on_event, end, POLL_MAX);
}

static void open_loop(struct bus_end *end)
{
    int fd = ec_subscriber_fd(end->subscriber);

    end->bell.data = end;
    if (fd < 0 || uv_loop_init(&end->loop) < 0 || uv_poll_init(&end->loop, &end->bell, fd) < 0 ||
        uv_poll_start(&end->bell, UV_READABLE, on_bell) < 0)
        bench_fail("libuv does not watch the subscriber");
}

static void close_loop(struct bus_end *end)
{
    uv_close((uv_handle_t *)&end->bell, NULL);
    uv_run(&end->loop, UV_RUN_DEFAULT);
    uv_loop_close(&end->loop);
}

/* ---- an end ---------------------------------------------------------------------------------- */

static uint64_t register_type(struct bus_end *end, const char *name)
{
    const struct ec_event_field words = { .name = "words",
                                          .type = EC_FIELD_U64,
                                          .count = (uint32_t)(end->bench->bytes / 8),
                                          .bytes = (uint32_t)end->bench->bytes };
    char full[64];
    struct ec_error why = { 0 };
    uint64_t type;

    snprintf(full, sizeof full, "%s.%zu", name, end->bench->bytes);
    if (ec_event_type_register(
            end->client,
            &(struct ec_event_type_desc) {
                .name = full, .fields = &words, .field_count = 1, .bytes = words.bytes },
            &type, &why) < 0)
        bench_fail("%s", why.text);
    return type;
}

void bus_open(struct bus_end *end, const struct bus_bench *bench, const char *out, const char *in)
{
    struct ec_error why = { 0 };
    char full[64];

    *end = (struct bus_end) { .bench = bench };
    if (ec_client_create(
            &(struct ec_client_desc) { .name = "benchmark", .socket_path = bus_daemon.socket_path },
            &end->client, &why) < 0)
        bench_fail("%s", why.text);
    if (out != NULL) {
        end->out = register_type(end, out);
        if (ec_publisher_create(
                end->client,
                &(struct ec_publisher_desc) {
                    .name = "bench", .stamp = bench->stamp_each ? EC_STAMP_EVENT : EC_STAMP_BATCH },
                &end->publisher, &why) < 0)
            bench_fail("%s", why.text);
    }
    if (in != NULL) {
        register_type(end, in);
        snprintf(full, sizeof full, "%s.%zu", in, bench->bytes);
        if (ec_subscriber_create(end->client,
                                 &(struct ec_subscriber_desc) {
                                     .types = (const char *[]) { full },
                                     .type_count = 1,
                                     .policy = bench->lossy ? EC_EVENT_LOSSY : EC_EVENT_RELIABLE,
                                     .spin_ns = bench->spin_ns,
                                     .foreign_only = out != NULL && strcmp(out, in) != 0 },
                                 &end->subscriber, &why) < 0)
            bench_fail("%s", why.text);
        if (bench->in_loop)
            open_loop(end);
    }
}

void bus_close(struct bus_end *end)
{
    if (end->subscriber != NULL && end->bench->in_loop)
        close_loop(end);
    ec_publisher_destroy(end->publisher);
    ec_subscriber_destroy(end->subscriber);
    ec_client_destroy(end->client);
}

/* The ring is full, or something is wrong. */
static __attribute__((noinline)) void *claim_late(struct bus_end *end, int rc)
{
    void *payload;

    if (rc == EC_AGAIN)
        rc = ec_publisher_claim_wait(end->publisher, end->out, end->bench->bytes, CLAIM_WAIT_NS,
                                     &payload);
    if (rc != EC_OK)
        bench_fail("claim: %s", ec_error_text(rc));
    return payload;
}

static inline void *claim(struct bus_end *end)
{
    void *payload;
    int rc = ec_publisher_claim(end->publisher, end->out, end->bench->bytes, &payload);

    return rc == EC_OK ? payload : claim_late(end, rc);
}

void *bus_claim(struct bus_end *end)
{
    return claim(end);
}

/* A claim, which is never committed, is how the publishing thread gets to know of them. */
void bus_await_readers(struct bus_end *end, unsigned readers)
{
    struct ec_publisher_stats stats;
    int64_t begin = bench_ns();

    for (;;) {
        bus_claim(end);
        ec_publisher_stats(end->publisher, &stats);
        if (stats.readers == readers)
            return;
        if (bench_ns() - begin > 10 * (int64_t)BUS_WAIT_NS)
            bench_fail("the publisher knows %u of %u readers", stats.readers, readers);
        usleep(100);
    }
}

void bus_publish_one(struct bus_end *end, uint64_t value)
{
    bench_fill(claim(end), value, end->bench->bytes);
    ec_publisher_commit(end->publisher);
}

void bus_publish_many(struct bus_end *end, uint64_t first, unsigned count)
{
    unsigned batch = end->bench->batch;

    if (batch == 0) {
        for (unsigned i = 0; i < count; i++)
            bus_publish_one(end, first + i);
        return;
    }
    for (unsigned i = 0; i < count;) {
        ec_publisher_batch_begin(end->publisher);
        for (unsigned j = 0; j < batch && i < count; j++, i++)
            bus_publish_one(end, first + i);
        ec_publisher_batch_end(end->publisher);
    }
}

void bus_read(struct bus_end *end, uint64_t count)
{
    uint64_t goal = end->read + count;

    while (end->read < goal) {
        uint64_t left = goal - end->read;

        if (ec_subscriber_poll(end->subscriber, on_event, end,
                               left < POLL_MAX ? (uint32_t)left : POLL_MAX) != 0)
            continue;
        if (end->bench->in_loop) {
            if (ec_subscriber_arm(end->subscriber) == EC_AGAIN)
                uv_run(&end->loop, UV_RUN_ONCE);
        } else if (end->bench->sleeping)
            ec_subscriber_wait(end->subscriber, BUS_WAIT_NS);
        else
            bench_relax();
    }
}
