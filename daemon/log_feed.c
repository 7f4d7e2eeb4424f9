/* log_feed.c - see log_feed.h; and log.level, log.tail and log.unsubscribe. */
#include "daemon/log_feed.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "clients/clients.h"
#include "clients/feed.h"
#include "daemon/config.h"
#include "daemon/log.h"
#include "daemon/log_settings.h"
#include "daemon/request.h"
#include "foundation/real_time.h"

#define TEXT_BYTES                                                                                 \
    (6 * (LOG_TEXT_BYTES + LOG_MODULE_BYTES) + 256) /* every byte may need an escape */
#define LINES_AT_ONCE 16

/* What a subscription wants. */
struct filter {
    uint64_t module; /* hash of its name; 0: all */
    uint32_t level;
};

struct log_feed {
    struct feed *feed;
    uv_async_t async;
    uint64_t sequence; /* read up to here */
};

static void on_client_left(void *context, struct client *client);
static void on_line(void *context);
static void on_wake(uv_async_t *async);
static void publish(struct log_feed *log_feed, const struct log_line *line);
static uint64_t hash_of(const char *name);
static bool wants(const void *context, const struct feed_topic *topic);
static bool covers(const void *context, const void *other);
static int parse_level(const struct param *param, enum log_level *level, struct ec_error *why);
static void on_closed(uv_handle_t *handle);

int log_feed_init(struct services *services, struct ec_error *why)
{
    static const struct client_hooks hooks = { .left = on_client_left };
    struct log_feed *log_feed = calloc(1, sizeof *log_feed);
    int rc;

    if (log_feed == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory for log.tail");
    rc = feed_create(services->loop,
                     &(struct feed_desc) {
                         .method = "log",
                         .instance = services->instance,
                         .config = services->config,
                         .counters = services->counters,
                         .own_memory = services->own_memory,
                         .delivered = EC_COUNTER_log_delivered,
                         .lost = EC_COUNTER_log_tail_lost,
                         .skipped = -1,
                         .wants = wants,
                         .covers = covers,
                         .keeps_all = true,
                     },
                     &log_feed->feed, why);
    if (rc < 0) {
        free(log_feed);
        return rc;
    }
    uv_async_init(services->loop, &log_feed->async, on_wake);
    uv_unref((uv_handle_t *)&log_feed->async);
    log_feed->async.data = log_feed;
    services->log_feed = log_feed;
    clients_add_hooks(services->clients, &hooks, log_feed);
    log_set_tap(on_line, log_feed);
    on_wake(&log_feed->async);
    return EC_OK;
}

void log_feed_shutdown(struct services *services)
{
    struct log_feed *log_feed = services->log_feed;

    if (log_feed == NULL)
        return;
    log_set_tap(NULL, NULL);
    feed_destroy(log_feed->feed);
    uv_close((uv_handle_t *)&log_feed->async, on_closed);
    services->log_feed = NULL;
}

int cmd_log_level(struct request *request)
{
    const struct params_log_level *params = request->params;
    const char *module = params->module.present ? params->module.string : NULL, *name;
    struct ec_json_writer *writer = request->result;
    enum log_level level = LOG_LEVEL_INFO;
    int rc = module != NULL ? log_settings_check_module(module, request->why) : EC_OK;

    if (rc == EC_OK && params->level.present) {
        rc = parse_level(&params->level, &level, request->why);
        if (rc == EC_OK && request->client->role < EC_ROLE_OPERATOR)
            rc = ec_fail(request->why, EC_ERR_PERMISSION, "log.level: only an operator may set it");
        if (rc == EC_OK &&
            request_would(request, "log %s from %s on", module != NULL ? module : "everything else",
                          log_level_name(level)))
            return EC_OK;
        if (rc == EC_OK && module != NULL)
            rc = log_set_module_level(module, level);
        else if (rc == EC_OK)
            log_set_level(level);
    }
    if (rc < 0)
        return rc;
    if (request_would(request, "change nothing, since level is missing"))
        return EC_OK;
    ec_json_object_begin(writer);
    ec_json_member_string(writer, "level", log_level_name(log_level_of(NULL)));
    ec_json_member_object(writer, "modules");
    for (unsigned i = 0; (name = log_settings_module(i)) != NULL; i++)
        if (module == NULL || strcmp(module, name) == 0)
            ec_json_member_string(writer, name, log_level_name(log_level_of(name)));
    ec_json_object_end(writer);
    ec_json_object_end(writer);
    return EC_OK;
}

int cmd_log_tail(struct request *request)
{
    const struct params_log_tail *params = request->params;
    struct log_feed *log_feed = request->services->log_feed;
    struct filter filter = { 0 };
    struct feed_subscription_desc desc = { .filter = &filter, .filter_bytes = sizeof filter };
    enum log_level level = LOG_LEVEL_TRACE;
    uint32_t id = 0;
    int rc = EC_OK;

    if (params->module.present) {
        rc = log_settings_check_module(params->module.string, request->why);
        filter.module = hash_of(params->module.string);
    }
    if (rc == EC_OK && params->level.present)
        rc = parse_level(&params->level, &level, request->why);
    filter.level = level;
    desc.last = (uint32_t)params->lines.integer;
    if (rc == EC_OK)
        rc = feed_parse_pace(&params->mode, &params->max_rate_hz, &desc, request->why);
    if (rc == EC_OK)
        rc = feed_parse_since(&params->since, &desc, request->why);
    if (rc == EC_OK)
        rc = feed_may_add(log_feed->feed, request->client, &desc, request->why);
    if (rc == EC_OK && request_would(request, "begin a stream of log lines"))
        return EC_OK;
    if (rc == EC_OK)
        rc = feed_add(log_feed->feed, request->client, &desc, &id, request->why);
    if (rc < 0)
        return rc;
    ec_json_object_begin(request->result);
    ec_json_member_u64(request->result, "subscription_id", id);
    ec_json_member_u64(request->result, "seq", feed_seq(log_feed->feed));
    ec_json_object_end(request->result);
    return EC_OK;
}

int cmd_log_unsubscribe(struct request *request)
{
    const struct params_log_unsubscribe *params = request->params;

    return feed_end_by_request(request->services->log_feed->feed, request,
                               (uint32_t)params->subscription_id.integer);
}

static void on_client_left(void *context, struct client *client)
{
    struct log_feed *log_feed = context;

    feed_remove_client(log_feed->feed, client);
}

/* In the thread that wrote the line. */
static void on_line(void *context)
{
    struct log_feed *log_feed = context;

    uv_async_send(&log_feed->async);
}

static void on_wake(uv_async_t *async)
{
    struct log_feed *log_feed = async->data;
    struct log_line lines[LINES_AT_ONCE];
    unsigned count;

    do {
        const uint64_t before = log_feed->sequence;

        count = log_read(&log_feed->sequence, lines, LINES_AT_ONCE);
        if (count > 0 && lines[0].sequence > before + 1 && before > 0)
            feed_lose(log_feed->feed, lines[0].sequence - before - 1);
        for (unsigned i = 0; i < count; i++)
            publish(log_feed, &lines[i]);
    } while (count == LINES_AT_ONCE);
}

static void publish(struct log_feed *log_feed, const struct log_line *line)
{
    const struct feed_topic topic = { hash_of(line->module), (uint32_t)line->level };
    struct ec_json_writer writer;
    char text[TEXT_BYTES];

    ec_json_writer_init(&writer, text, sizeof text);
    ec_json_object_begin(&writer);
    ec_json_member_i64(&writer, "time_ns",
                       (int64_t)line->at.tv_sec * EC_NS_PER_S + line->at.tv_nsec);
    ec_json_member_string(&writer, "module", line->module);
    ec_json_member_string(&writer, "level", log_level_name(line->level));
    ec_json_member_string(&writer, "message", line->text);
    ec_json_object_end(&writer);
    if (ec_json_writer_status(&writer) < 0)
        feed_lose(log_feed->feed, 1);
    else
        feed_publish(log_feed->feed, &topic, (struct ec_json_span) { text + 1, writer.bytes - 2 },
                     ec_real_ns());
}

/* FNV-1a; 0 is kept for all. */
static uint64_t hash_of(const char *name)
{
    uint64_t hash = 0xcbf29ce484222325ull;

    for (; *name != '\0'; name++)
        hash = (hash ^ (unsigned char)*name) * 0x100000001b3ull;
    return hash != 0 ? hash : 1;
}

static bool wants(const void *context, const struct feed_topic *topic)
{
    const struct filter *filter = context;

    return topic->rank >= filter->level && (filter->module == 0 || filter->module == topic->key);
}

static bool covers(const void *context, const void *other)
{
    (void)context; /* all lines are kept */
    (void)other;
    return true;
}

static int parse_level(const struct param *param, enum log_level *level, struct ec_error *why)
{
    if (log_level_parse(param->string, level))
        return EC_OK;
    return ec_fail(why, EC_ERR_PARAM, "level is %s, allowed are %s", param->string,
                   ec_log_level_list);
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}
