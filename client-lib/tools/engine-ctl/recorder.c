/* recorder.c - from the bus into chunks; see recorder.h.
 *
 *     on_event       keep the event before, copy this one
 *     on_lost torn   the event before is not whole: drop it */
#include "engine-ctl/recorder.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine-ctl/fault.h"
#include "engine-ctl/json_read.h"

#define POLL_EVENTS 8192u
#define FIRST_CHANNELS 64u  /* power of two */
#define LOSS_PAIRS_MAX 1024 /* ports that are named in the file; all are in the sums */

struct recorded_type {
    struct recorded_type *next;
    uint64_t id;
    int schema; /* -1: not known to the daemon; 0: not written yet */
    struct event_layout layout;
};

struct recorded_channel {
    bool used;
    uint32_t port;
    uint64_t type;
    int channel; /* -1: what comes here is not recorded */
    const struct recorded_type *as;
};

struct recorded_port {
    struct recorded_port *next;
    uint32_t id;
    struct ec_port_names names;
    uint64_t lost_events;
};

/* ---- types ----------------------------------------------------------------------------------- */

/* The items of event.list, of all types without fields or of one with them. NULL: no answer. */
static cJSON *list_types(struct recorder *recorder, const char *name)
{
    char *params = NULL, *result = NULL;
    cJSON *tree = NULL;

    if (name != NULL) {
        cJSON *object = cJSON_CreateObject();

        cJSON_AddStringToObject(object, "type", name);
        params = json_params(object);
    }
    if (ec_client_call(recorder->client, "event.list", params, &result, NULL) == EC_OK)
        tree = cJSON_Parse(result);
    free(result);
    cJSON_free(params);
    return tree;
}

/* Ask for the layout of a type by its name. false: no answer that makes sense. */
static bool ask_layout(struct recorder *recorder, const char *name, struct event_layout *layout)
{
    cJSON *tree = list_types(recorder, name);
    const cJSON *item = cJSON_GetArrayItem(json_member(tree, "items"), 0);
    bool good = item != NULL && event_layout_read(item, layout, NULL) == EC_OK;

    cJSON_Delete(tree);
    return good;
}

static struct recorded_type *add_type(struct recorder *recorder, uint64_t id)
{
    struct recorded_type *type = calloc(1, sizeof *type);

    if (type == NULL)
        return NULL;
    type->id = id;
    type->schema = -1;
    type->next = recorder->types;
    recorder->types = type;
    return type;
}

static struct recorded_type *find_type(const struct recorder *recorder, uint64_t id)
{
    struct recorded_type *type = recorder->types;

    while (type != NULL && type->id != id)
        type = type->next;
    return type;
}

/* Learn all types that the daemon knows and we do not. */
static void learn_types(struct recorder *recorder)
{
    cJSON *tree = list_types(recorder, NULL);
    const cJSON *item;

    cJSON_ArrayForEach(item, json_member(tree, "items"))
    {
        const char *name = json_text(item, "name");
        uint64_t id = ec_event_type(name);
        struct recorded_type *type = find_type(recorder, id);

        if (type != NULL && type->schema >= 0)
            continue;
        if (type == NULL)
            type = add_type(recorder, id);
        if (type != NULL && ask_layout(recorder, name, &type->layout))
            type->schema = 0;
    }
    cJSON_Delete(tree);
}

/* A viewer takes package/Name with letters, digits and underscores. */
static void make_schema_name(const char *type, char *name, size_t bytes)
{
    size_t count = (size_t)snprintf(name, bytes, "engine_core/");

    for (; *type != '\0' && count + 1 < bytes; type++)
        name[count++] =
            (*type >= '0' && *type <= '9') || ((*type | 32) >= 'a' && (*type | 32) <= 'z') ? *type
                                                                                           : '_';
    name[count] = '\0';
}

/* Write the schema of a type once. false: no memory, or no more ids. */
static bool has_schema(struct recorder *recorder, struct recorded_type *type)
{
    char name[EVENT_NAME_BYTES + 16];
    struct mcap_bytes text = { 0 };

    if (type->schema != 0)
        return type->schema > 0;
    make_schema_name(type->layout.name, name, sizeof name);
    event_layout_ros1(&type->layout, RECORDING_PREFIX_ROS1, &text);
    if (!text.failed)
        type->schema = mcap_catalog_schema(&recorder->catalog, recorder->chunk, name,
                                           RECORDING_SCHEMA_ENCODING, text.at, text.count);
    mcap_bytes_finish(&text);
    return type->schema > 0;
}

/* ---- channels -------------------------------------------------------------------------------- */

static struct recorded_channel *place_of(struct recorded_channel *channels, uint32_t capacity,
                                         uint32_t port, uint64_t type)
{
    uint32_t at = ((uint32_t)(type ^ (type >> 32)) ^ port * 2654435761u) & (capacity - 1);

    while (channels[at].used && (channels[at].port != port || channels[at].type != type))
        at = (at + 1) & (capacity - 1);
    return &channels[at];
}

static bool has_room_for_channel(struct recorder *recorder)
{
    uint32_t capacity =
        recorder->channel_capacity != 0 ? recorder->channel_capacity * 2 : FIRST_CHANNELS;
    struct recorded_channel *grown;

    if (recorder->channel_count < recorder->channel_capacity / 2)
        return true;
    if (recorder->channel_count >= 2 * MCAP_IDS)
        return false;
    grown = calloc(capacity, sizeof *grown);
    if (grown == NULL)
        return false;
    for (uint32_t i = 0; i < recorder->channel_capacity; i++) {
        const struct recorded_channel *old = &recorder->channels[i];

        if (old->used)
            *place_of(grown, capacity, old->port, old->type) = *old;
    }
    free(recorder->channels);
    recorder->channels = grown;
    recorder->channel_capacity = capacity;
    return true;
}

/* The daemon's own ports come without the name of a client. */
static void find_names(const struct recorder *recorder, uint32_t port, struct ec_port_names *names)
{
    *names = (struct ec_port_names) { .client_id = 0 };
    ec_subscriber_port(recorder->subscriber, port, names);
    if (names->client[0] == '\0')
        strcpy(names->client, "engine-cored");
}

/* The id of the new channel, or -1. */
static int write_channel(struct recorder *recorder, const struct ec_event *event,
                         struct recorded_type *type)
{
    struct ec_port_names names;
    char topic[EVENT_NAME_BYTES + 128], client_id[16], port_id[16];
    char *layout;
    int channel = -1;

    if (!has_schema(recorder, type))
        return -1;
    find_names(recorder, event->port, &names);
    snprintf(topic, sizeof topic, "/%s/%s/%s", names.client, names.port, type->layout.name);
    snprintf(client_id, sizeof client_id, "%" PRIu32, names.client_id);
    snprintf(port_id, sizeof port_id, "%" PRIu32, event->port);
    layout = event_layout_json(&type->layout);
    if (layout != NULL) {
        const struct mcap_pair metadata[] = {
            { RECORDING_CLIENT, names.client }, { RECORDING_CLIENT_ID, client_id },
            { RECORDING_PORT, names.port },     { RECORDING_PORT_ID, port_id },
            { RECORDING_LAYOUT, layout },
        };

        channel = mcap_catalog_channel(&recorder->catalog, recorder->chunk,
                                       &(struct mcap_channel_desc) {
                                           .schema = (uint16_t)type->schema,
                                           .topic = topic,
                                           .encoding = RECORDING_ENCODING,
                                           .metadata = metadata,
                                           .metadata_count = sizeof metadata / sizeof metadata[0],
                                       });
    }
    cJSON_free(layout);
    return channel;
}

/* The first event of this type on this port. NULL: no memory. */
static struct recorded_channel *learn_channel(struct recorder *recorder,
                                              const struct ec_event *event)
{
    struct recorded_type *type = find_type(recorder, event->type);
    struct recorded_channel *place;

    if (type == NULL) {
        learn_types(recorder);
        type = find_type(recorder, event->type);
    }
    if (type == NULL)
        type = add_type(recorder, event->type); /* so that it is not asked for again */
    if (type == NULL || !has_room_for_channel(recorder))
        return NULL;
    place = place_of(recorder->channels, recorder->channel_capacity, event->port, event->type);
    *place = (struct recorded_channel) {
        .used = true,
        .port = event->port,
        .type = event->type,
        .channel = type->schema >= 0 ? write_channel(recorder, event, type) : -1,
        .as = type,
    };
    recorder->channel_count++;
    return place;
}

static struct recorded_channel *find_channel(struct recorder *recorder,
                                             const struct ec_event *event)
{
    struct recorded_channel *last = recorder->last;

    if (last != NULL && last->port == event->port && last->type == event->type)
        return last;
    if (recorder->channel_capacity != 0) {
        last = place_of(recorder->channels, recorder->channel_capacity, event->port, event->type);
        if (last->used)
            return last;
    }
    return learn_channel(recorder, event);
}

/* ---- events ---------------------------------------------------------------------------------- */

static bool fits_layout(const struct event_layout *layout, uint32_t bytes)
{
    return layout->field_count != 0 ? bytes == layout->bytes : bytes <= layout->bytes;
}

/* Keep the event that was copied last: it is whole. */
static void keep(struct recorder *recorder)
{
    if (recorder->chunk == NULL || recorder->chunk->record_bytes == 0)
        return;
    recorder->events++;
    recorder->payload_bytes += recorder->pending_bytes;
    mcap_chunk_keep(recorder->chunk);
}

static void on_event(void *context, const struct ec_event *event)
{
    struct recorder *recorder = context;
    struct recorded_channel *channel;
    struct mcap_message_head head;
    unsigned char *to;
    size_t bytes;

    keep(recorder);
    if (recorder->chunk == NULL)
        return;
    if (recorder->end_ns != 0 && event->time_ns > recorder->end_ns) {
        recorder->passed_over++;
        return;
    }
    channel = find_channel(recorder, event);
    recorder->last = channel;
    if (channel == NULL || channel->channel < 0 ||
        !fits_layout(&channel->as->layout, event->bytes)) {
        recorder->unrecorded++;
        return;
    }
    bytes = recording_message_bytes(&channel->as->layout, event->bytes);
    if (recorder->chunk->records.count + MCAP_RECORD_HEAD_BYTES + MCAP_MESSAGE_HEAD_BYTES + bytes >
            CHUNK_QUEUE_CHUNK_BYTES &&
        recorder->chunk->entry_count != 0) {
        recorder_flush(recorder);
        if (recorder->chunk == NULL)
            return;
    }
    head = (struct mcap_message_head) { .channel = (uint16_t)channel->channel,
                                        .sequence = (uint32_t)event->sequence,
                                        .log_time = (uint64_t)event->time_ns,
                                        .publish_time = (uint64_t)event->time_ns };
    to = mcap_chunk_message(recorder->chunk, &head, bytes);
    if (to == NULL) {
        recorder->unrecorded++;
        return;
    }
    recording_put(&channel->as->layout, event, to);
    recorder->pending_bytes = event->bytes;
}

static struct recorded_port *find_lossy_port(struct recorder *recorder, uint32_t id)
{
    struct recorded_port *port = recorder->lossy_ports;

    while (port != NULL && port->id != id)
        port = port->next;
    if (port != NULL)
        return port;
    port = calloc(1, sizeof *port);
    if (port == NULL)
        return NULL; /* the sums have it */
    port->id = id;
    find_names(recorder, id, &port->names);
    port->next = recorder->lossy_ports;
    recorder->lossy_ports = port;
    return port;
}

static void on_lost(void *context, const struct ec_loss *loss)
{
    struct recorder *recorder = context;
    struct recorded_port *port = find_lossy_port(recorder, loss->port);

    recorder->lost_events += loss->events;
    recorder->lost_bytes += loss->bytes;
    if (port != NULL)
        port->lost_events += loss->events;
    if (!loss->torn)
        return;
    recorder->torn++;
    if (recorder->chunk != NULL)
        mcap_chunk_drop(recorder->chunk);
}

int recorder_poll(struct recorder *recorder)
{
    int events = ec_subscriber_poll(recorder->subscriber, on_event, recorder, POLL_EVENTS);

    keep(recorder);
    return recorder->chunk != NULL ? events : -1;
}

/* ---- chunks ---------------------------------------------------------------------------------- */

/* The losses of the whole recording so far, behind the chunk in hand. */
static void tell_losses(struct recorder *recorder)
{
    static const char *const sums[] = { "lost_events", "lost_bytes", "torn", "unrecorded" };
    const uint64_t numbers[] = { recorder->lost_events, recorder->lost_bytes, recorder->torn,
                                 recorder->unrecorded };
    struct {
        char key[128], value[24];
    } *texts = calloc(4 + LOSS_PAIRS_MAX, sizeof *texts);
    struct mcap_pair *pairs = calloc(4 + LOSS_PAIRS_MAX, sizeof *pairs);
    size_t count = 0;

    for (; texts != NULL && count < 4; count++) {
        snprintf(texts[count].key, sizeof texts->key, "%s", sums[count]);
        snprintf(texts[count].value, sizeof texts->value, "%" PRIu64, numbers[count]);
    }
    for (const struct recorded_port *port = recorder->lossy_ports;
         texts != NULL && port != NULL && count < 4 + LOSS_PAIRS_MAX; port = port->next, count++) {
        snprintf(texts[count].key, sizeof texts->key, "/%s/%s#%" PRIu32, port->names.client,
                 port->names.port, port->id);
        snprintf(texts[count].value, sizeof texts->value, "%" PRIu64, port->lost_events);
    }
    for (size_t i = 0; pairs != NULL && i < count; i++)
        pairs[i] = (struct mcap_pair) { texts[i].key, texts[i].value };
    if (pairs != NULL && texts != NULL) {
        mcap_chunk_metadata(recorder->chunk, RECORDING_LOSSES, pairs, count);
        recorder->losses_told = recorder->lost_events + recorder->unrecorded;
    }
    free(texts);
    free(pairs);
}

void recorder_flush(struct recorder *recorder)
{
    if (recorder->chunk == NULL)
        return;
    if (recorder->losses_told != recorder->lost_events + recorder->unrecorded)
        tell_losses(recorder);
    if (recorder->chunk->records.count == 0 && recorder->chunk->behind.count == 0)
        return;
    chunk_queue_give(recorder->queue, recorder->chunk);
    recorder->chunk = chunk_queue_take(recorder->queue);
}

/* What this file is, in front of all events. */
static void tell_about(struct recorder *recorder, const struct recorder_desc *desc)
{
    struct timespec unix_time, now;
    char unix_text[32], now_text[32], types[8192] = "*";
    size_t used = 0;

    clock_gettime(CLOCK_REALTIME, &unix_time);
    clock_gettime(CLOCK_MONOTONIC, &now);
    snprintf(unix_text, sizeof unix_text, "%lld%09ld", (long long)unix_time.tv_sec,
             unix_time.tv_nsec);
    snprintf(now_text, sizeof now_text, "%lld%09ld", (long long)now.tv_sec, now.tv_nsec);
    for (uint32_t i = 0; i < desc->type_count && used < sizeof types - 256; i++)
        used += (size_t)snprintf(types + used, sizeof types - used, "%s%s", i > 0 ? " " : "",
                                 desc->types[i]);
    {
        const struct mcap_pair pairs[] = {
            { "format", "1" },        { "engine-core", EC_VERSION },
            { "begin_ns", now_text }, { "begin_unix_ns", unix_text },
            { "types", types },
        };

        mcap_chunk_metadata(recorder->chunk, RECORDING_ABOUT, pairs,
                            sizeof pairs / sizeof pairs[0]);
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

int recorder_start(struct recorder *recorder, const struct recorder_desc *desc,
                   struct ec_error *why)
{
    struct ec_subscriber_desc subscriber = {
        .types = desc->types,
        .type_count = desc->type_count,
        .policy = EC_EVENT_LOSSY,
        .start = desc->history != 0 ? EC_START_HISTORY : EC_START_TAIL,
        .history = desc->history,
        .on_lost = on_lost,
        .context = recorder,
    };

    *recorder = (struct recorder) { .client = desc->client, .queue = desc->queue };
    recorder->chunk = chunk_queue_take(desc->queue);
    if (recorder->chunk == NULL)
        return fault(why, EC_ERR_MEMORY, "no memory for a chunk");
    tell_about(recorder, desc);
    recorder_flush(recorder);
    learn_types(recorder);
    return ec_subscriber_create(desc->client, &subscriber, &recorder->subscriber, why);
}

void recorder_finish(struct recorder *recorder)
{
    ec_subscriber_destroy(recorder->subscriber);
    mcap_catalog_finish(&recorder->catalog);
    while (recorder->types != NULL) {
        struct recorded_type *next = recorder->types->next;

        free(recorder->types);
        recorder->types = next;
    }
    while (recorder->lossy_ports != NULL) {
        struct recorded_port *next = recorder->lossy_ports->next;

        free(recorder->lossy_ports);
        recorder->lossy_ports = next;
    }
    free(recorder->channels);
    recorder->channels = NULL;
}
