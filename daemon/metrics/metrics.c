/* metrics.c - the module: history and subscriptions over one timer each. */
#include "metrics/metrics.h"

#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "clients/clients.h"
#include "clients/feed.h"
#include "daemon/config.h"
#include "daemon/request.h"
#include "foundation/real_time.h"

#define RHYTHMS_MAX 64 /* pairs of an interval and topics that are subscribed to */
#define TEXT_BYTES 4096

/* What a subscription wants, and what its items are about. */
struct filter {
    uint64_t rhythm;
};

/* An interval with topics, and when it is due next. */
struct rhythm {
    uint64_t key;
    int64_t next_ns;
};

struct metrics {
    struct services *services;
    struct feed *feed;
    uv_timer_t rhythm_timer, history_timer;
    unsigned open_handles;
    struct rhythm rhythms[RHYTHMS_MAX];
    unsigned rhythm_count;
    struct metrics_sample *history; /* a ring */
    unsigned history_size;
    uint64_t history_count; /* of samples ever taken */
};

static uint64_t key_of(int64_t interval_ms, unsigned topics);
static int64_t interval_ns_of(uint64_t key);
static unsigned topics_of(uint64_t key);
static bool wants(const void *context, const struct feed_topic *topic);
static bool covers(const void *context, const void *other);
static void on_used(void *context, bool used);
static void on_client_left(void *context, struct client *client);
static void on_rhythm(uv_timer_t *timer);
static void find_rhythms(struct metrics *metrics, int64_t now_ns);
static const struct rhythm *find_rhythm(const struct metrics *metrics, uint64_t key);
static void publish(struct metrics *metrics, const struct metrics_sample *sample, uint64_t key);
static void on_history(uv_timer_t *timer);
static void start_history(struct metrics *metrics);
static void on_config(void *context, enum ec_config_id id);
static int parse_topics(const struct param *param, unsigned *topics, struct ec_error *why);
static int parse_topic(const char *name, enum ec_topic *topic, struct ec_error *why);
static void write_history(const struct metrics *metrics,
                          const struct params_telemetry_history *params, enum ec_topic topic,
                          struct ec_json_writer *writer);
static void on_closed(uv_handle_t *handle);

int metrics_init(struct services *services, struct ec_error *why)
{
    static const struct client_hooks hooks = { .left = on_client_left };
    struct metrics *metrics = calloc(1, sizeof *metrics);
    int rc;

    if (metrics == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory for metrics");
    metrics->services = services;
    metrics->history_size = (unsigned)config_integer(services->config, EC_CONFIG_telemetry_history);
    metrics->history = calloc(metrics->history_size + 1, sizeof *metrics->history);
    rc = metrics->history == NULL ? ec_fail(why, EC_ERR_MEMORY, "no memory for the history")
                                  : feed_create(services->loop,
                                                &(struct feed_desc) {
                                                    .method = "telemetry",
                                                    .instance = services->instance,
                                                    .config = services->config,
                                                    .counters = services->counters,
                                                    .own_memory = services->own_memory,
                                                    .delivered = EC_COUNTER_telemetry_delivered,
                                                    .lost = EC_COUNTER_telemetry_lost,
                                                    .skipped = EC_COUNTER_telemetry_skipped,
                                                    .wants = wants,
                                                    .covers = covers,
                                                    .on_used = on_used,
                                                    .context = metrics,
                                                },
                                                &metrics->feed, why);
    if (rc < 0) {
        free(metrics->history);
        free(metrics);
        return rc;
    }
    services->metrics = metrics;
    uv_timer_init(services->loop, &metrics->rhythm_timer);
    uv_timer_init(services->loop, &metrics->history_timer);
    uv_unref((uv_handle_t *)&metrics->rhythm_timer);
    uv_unref((uv_handle_t *)&metrics->history_timer);
    metrics->rhythm_timer.data = metrics->history_timer.data = metrics;
    metrics->open_handles = 2;
    start_history(metrics);
    rc = clients_add_hooks(services->clients, &hooks, metrics);
    if (rc == EC_OK)
        rc = config_on_change(services->config, on_config, metrics);
    return rc < 0 ? ec_fail(why, rc, "too many want to hear of clients or changes") : rc;
}

void metrics_shutdown(struct services *services)
{
    struct metrics *metrics = services->metrics;

    if (metrics == NULL)
        return;
    feed_destroy(metrics->feed);
    uv_close((uv_handle_t *)&metrics->rhythm_timer, on_closed);
    uv_close((uv_handle_t *)&metrics->history_timer, on_closed);
    services->metrics = NULL;
}

void metrics_write(const struct metrics_sample *sample, unsigned topics,
                   struct ec_json_writer *writer)
{
    for (unsigned topic = 0; topic < EC_TOPICS; topic++) {
        if ((topics >> topic & 1) == 0)
            continue;
        ec_json_member_object(writer, ec_topic_name((enum ec_topic)topic));
        for (size_t i = 0; i < EC_METRICS; i++)
            if (ec_metrics[i].topic == topic)
                ec_json_member_i64(writer, ec_metrics[i].name, sample->value[i]);
        ec_json_object_end(writer);
    }
}

/* ---- commands ---------------------------------------------------------------------------------- */

int cmd_telemetry_get(struct request *request)
{
    const struct params_telemetry_get *params = request->params;
    struct metrics_sample sample;
    unsigned topics;
    int rc = parse_topics(&params->topics, &topics, request->why);

    if (rc < 0)
        return rc;
    metrics_collect(request->services, topics, &sample);
    ec_json_object_begin(request->result);
    ec_json_member_i64(request->result, "real_ns", sample.real_ns);
    metrics_write(&sample, topics, request->result);
    ec_json_object_end(request->result);
    return EC_OK;
}

int cmd_telemetry_subscribe(struct request *request)
{
    const struct params_telemetry_subscribe *params = request->params;
    struct metrics *metrics = request->services->metrics;
    struct filter filter;
    struct feed_subscription_desc desc = { .filter = &filter, .filter_bytes = sizeof filter };
    unsigned topics;
    uint32_t id = 0;
    int rc = parse_topics(&params->topics, &topics, request->why);

    if (rc == EC_OK)
        rc = feed_parse_pace(&params->mode, &params->max_rate_hz, &desc, request->why);
    if (rc == EC_OK)
        rc = feed_parse_since(&params->since, &desc, request->why);
    if (rc < 0)
        return rc;
    filter.rhythm = key_of(params->interval_ms.integer, topics);
    find_rhythms(metrics, ec_real_ns());
    if (metrics->rhythm_count == RHYTHMS_MAX && find_rhythm(metrics, filter.rhythm) == NULL)
        return ec_fail(request->why, EC_ERR_LIMIT,
                       "there are %d pairs of interval and topics already", RHYTHMS_MAX);
    rc = feed_may_add(metrics->feed, request->client, &desc, request->why);
    if (rc == EC_OK && request_would(request, "begin a stream of metrics"))
        return EC_OK;
    if (rc == EC_OK)
        rc = feed_add(metrics->feed, request->client, &desc, &id, request->why);
    if (rc < 0)
        return rc;
    on_rhythm(&metrics->rhythm_timer); /* the new one is not in the timer yet */
    ec_json_object_begin(request->result);
    ec_json_member_u64(request->result, "subscription_id", id);
    ec_json_member_u64(request->result, "seq", feed_seq(metrics->feed));
    ec_json_object_end(request->result);
    return EC_OK;
}

int cmd_telemetry_unsubscribe(struct request *request)
{
    const struct params_telemetry_unsubscribe *params = request->params;

    return feed_end_by_request(request->services->metrics->feed, request,
                               (uint32_t)params->subscription_id.integer);
}

int cmd_telemetry_history(struct request *request)
{
    const struct params_telemetry_history *params = request->params;
    struct services *services = request->services;
    struct ec_json_writer *writer = request->result;
    enum ec_topic topic = EC_TOPICS;
    int rc = parse_topic(params->topic.string, &topic, request->why);

    if (rc < 0)
        return rc;
    ec_json_object_begin(writer);
    ec_json_member_i64(writer, "interval_ms",
                       config_integer(services->config, EC_CONFIG_telemetry_interval_ms));
    ec_json_member_array(writer, "names");
    for (size_t i = 0; i < EC_METRICS; i++)
        if (ec_metrics[i].topic == topic)
            ec_json_string(writer, ec_metrics[i].name);
    ec_json_array_end(writer);
    ec_json_member_array(writer, "items");
    write_history(services->metrics, params, topic, writer);
    ec_json_array_end(writer);
    ec_json_object_end(writer);
    return EC_OK;
}

static int parse_topics(const struct param *param, unsigned *topics, struct ec_error *why)
{
    struct ec_json_iterator elements = ec_json_iterate(param->span);
    struct ec_json_span element;
    enum ec_topic topic = EC_TOPICS;
    char name[32];

    *topics = param->present ? 0 : METRICS_ALL_TOPICS;
    if (!param->present)
        return EC_OK;
    while (ec_json_next_element(&elements, &element)) {
        int rc = ec_json_get_text(element, name, sizeof name) < 0
                     ? ec_fail(why, EC_ERR_PARAM, "topics: expected an array of names")
                     : parse_topic(name, &topic, why);

        if (rc < 0)
            return rc;
        *topics |= 1u << topic;
    }
    return *topics != 0 ? EC_OK : ec_fail(why, EC_ERR_PARAM, "topics is empty");
}

static int parse_topic(const char *name, enum ec_topic *topic, struct ec_error *why)
{
    for (unsigned i = 0; i < EC_TOPICS; i++)
        if (strcmp(name, ec_topic_name((enum ec_topic)i)) == 0) {
            *topic = (enum ec_topic)i;
            return EC_OK;
        }
    return ec_fail(why, EC_ERR_PARAM,
                   "topic is %s, expected memory, clock, event, breaker, resource or control",
                   name);
}

/* ---- subscriptions ----------------------------------------------------------------------------- */

static uint64_t key_of(int64_t interval_ms, unsigned topics)
{
    return (uint64_t)interval_ms << 8 | topics;
}

static int64_t interval_ns_of(uint64_t key)
{
    return (int64_t)(key >> 8) * 1000000;
}

static unsigned topics_of(uint64_t key)
{
    return (unsigned)(key & 0xff);
}

static bool wants(const void *context, const struct feed_topic *topic)
{
    return ((const struct filter *)context)->rhythm == topic->key;
}

static bool covers(const void *context, const void *other)
{
    return ((const struct filter *)context)->rhythm == ((const struct filter *)other)->rhythm;
}

static void on_used(void *context, bool used)
{
    struct metrics *metrics = context;

    if (!used)
        uv_timer_stop(&metrics->rhythm_timer);
}

static void on_client_left(void *context, struct client *client)
{
    struct metrics *metrics = context;

    feed_remove_client(metrics->feed, client);
}

/* Send what is due, and sleep until the next is. */
static void on_rhythm(uv_timer_t *timer)
{
    struct metrics *metrics = timer->data;
    const int64_t now_ns = ec_real_ns();
    int64_t next_ns = INT64_MAX;
    struct metrics_sample sample;
    unsigned topics = 0;

    find_rhythms(metrics, now_ns);
    for (unsigned i = 0; i < metrics->rhythm_count; i++)
        if (metrics->rhythms[i].next_ns <= now_ns)
            topics |= topics_of(metrics->rhythms[i].key);
    if (topics != 0)
        metrics_collect(metrics->services, topics, &sample);
    for (unsigned i = 0; i < metrics->rhythm_count; i++) {
        struct rhythm *rhythm = &metrics->rhythms[i];

        if (rhythm->next_ns <= now_ns) {
            const int64_t interval_ns = interval_ns_of(rhythm->key);

            publish(metrics, &sample, rhythm->key);
            rhythm->next_ns += interval_ns;
            if (rhythm->next_ns <= now_ns) /* standing still is not made up for */
                rhythm->next_ns = now_ns + interval_ns;
        }
        if (rhythm->next_ns < next_ns)
            next_ns = rhythm->next_ns;
    }
    if (metrics->rhythm_count > 0)
        uv_timer_start(timer, on_rhythm, (uint64_t)(next_ns - now_ns) / 1000000 + 1, 0);
}

/* Those that subscriptions have now; new ones are due one interval from now. */
static void find_rhythms(struct metrics *metrics, int64_t now_ns)
{
    struct rhythm found[RHYTHMS_MAX];
    unsigned count = 0;

    for (const struct filter *filter = feed_next_filter(metrics->feed, NULL); filter != NULL;
         filter = feed_next_filter(metrics->feed, filter)) {
        const struct rhythm rhythm = { filter->rhythm, now_ns + interval_ns_of(filter->rhythm) };
        const struct rhythm *known;
        unsigned i = 0;

        while (i < count && found[i].key != rhythm.key)
            i++;
        if (i < count || count == RHYTHMS_MAX)
            continue;
        known = find_rhythm(metrics, rhythm.key);
        found[count++] = known != NULL ? *known : rhythm;
    }
    memcpy(metrics->rhythms, found, count * sizeof *found);
    metrics->rhythm_count = count;
}

static const struct rhythm *find_rhythm(const struct metrics *metrics, uint64_t key)
{
    for (unsigned i = 0; i < metrics->rhythm_count; i++)
        if (metrics->rhythms[i].key == key)
            return &metrics->rhythms[i];
    return NULL;
}

static void publish(struct metrics *metrics, const struct metrics_sample *sample, uint64_t key)
{
    const struct feed_topic topic = { .key = key };
    struct ec_json_writer writer;
    char text[TEXT_BYTES];

    if (!feed_takes(metrics->feed, &topic, sample->real_ns)) {
        feed_pass_over(metrics->feed, &topic);
        return;
    }
    ec_json_writer_init(&writer, text, sizeof text);
    ec_json_object_begin(&writer);
    ec_json_member_i64(&writer, "real_ns", sample->real_ns);
    metrics_write(sample, topics_of(key), &writer);
    ec_json_object_end(&writer);
    if (ec_json_writer_status(&writer) == EC_OK)
        feed_publish(metrics->feed, &topic, (struct ec_json_span) { text + 1, writer.bytes - 2 },
                     sample->real_ns);
    else
        feed_lose(metrics->feed, 1);
}

/* ---- history ----------------------------------------------------------------------------------- */

static void start_history(struct metrics *metrics)
{
    const uint64_t interval_ms =
        (uint64_t)config_integer(metrics->services->config, EC_CONFIG_telemetry_interval_ms);

    if (metrics->history_size > 0)
        uv_timer_start(&metrics->history_timer, on_history, interval_ms, interval_ms);
}

static void on_history(uv_timer_t *timer)
{
    struct metrics *metrics = timer->data;

    metrics_collect(metrics->services, METRICS_ALL_TOPICS,
                    &metrics->history[metrics->history_count++ % metrics->history_size]);
}

static void on_config(void *context, enum ec_config_id id)
{
    if (id == EC_CONFIG_telemetry_interval_ms)
        start_history(context);
}

/* The newest of the samples that are asked for, the oldest of them first. */
static void write_history(const struct metrics *metrics,
                          const struct params_telemetry_history *params, enum ec_topic topic,
                          struct ec_json_writer *writer)
{
    const uint64_t kept = metrics->history_count < metrics->history_size ? metrics->history_count
                                                                         : metrics->history_size;
    const int64_t step_ns = params->step_ns.present ? params->step_ns.integer : 1;
    const uint64_t limit = (uint64_t)params->limit.integer;
    uint64_t first = metrics->history_count, taken = 0;
    int64_t period = INT64_MAX;

    /* Backwards: of each period the last sample counts, and no more than limit of them. */
    for (uint64_t back = 1; back <= kept; back++) {
        const struct metrics_sample *sample =
            &metrics->history[(metrics->history_count - back) % metrics->history_size];

        if (sample->real_ns < params->since_ns.integer)
            break;
        if (sample->real_ns / step_ns != period && ++taken > limit)
            break;
        period = sample->real_ns / step_ns;
        first = metrics->history_count - back;
    }
    for (uint64_t at = first; at < metrics->history_count; at++) {
        const struct metrics_sample *sample = &metrics->history[at % metrics->history_size];
        const bool is_last = at + 1 == metrics->history_count ||
                             metrics->history[(at + 1) % metrics->history_size].real_ns / step_ns !=
                                 sample->real_ns / step_ns;

        if (!is_last)
            continue;
        ec_json_array_begin(writer);
        ec_json_i64(writer, sample->real_ns);
        for (size_t i = 0; i < EC_METRICS; i++)
            if (ec_metrics[i].topic == topic)
                ec_json_i64(writer, sample->value[i]);
        ec_json_array_end(writer);
    }
}

static void on_closed(uv_handle_t *handle)
{
    struct metrics *metrics = handle->data;

    if (--metrics->open_handles > 0)
        return;
    free(metrics->history);
    free(metrics);
}
