/* replay_file.c - survey a recording, then read it in order; see replay_file.h. */
#include "engine-ctl/replay_file.h"

#include <stdlib.h>
#include <string.h>

#include "engine-ctl/fault.h"
#include "engine-ctl/json_read.h"
#include "proto/tables.h"

#define FIRST_FLOORS 256u
#define FIRST_HEAP 1024u

static int no_memory(struct ec_error *why)
{
    return fault(why, EC_ERR_MEMORY, "no memory for the recording");
}

/* ---- what is replayed ------------------------------------------------------------------------ */

static bool is_chosen(const struct replay_choice *choice, const char *type)
{
    if (choice->type_count == 0) {
        for (size_t i = 0; i < EC_SYSTEM_EVENTS; i++)
            if (strcmp(ec_system_events[i].name, type) == 0)
                return false;
        return true;
    }
    for (size_t i = 0; i < choice->type_count; i++)
        if (strcmp(choice->types[i], type) == 0)
            return true;
    return false;
}

static bool is_name(const char *name)
{
    return name != NULL && name[0] != '\0' && strlen(name) < REPLAY_NAME_BYTES;
}

/* The index of a port, which is added when it is new; -1: no memory. */
static int64_t find_port(struct replay_file *file, const char *client, const char *name)
{
    struct replay_port *grown;
    uint32_t at = 0;

    while (at < file->port_count &&
           (strcmp(file->ports[at].client, client) != 0 || strcmp(file->ports[at].name, name) != 0))
        at++;
    if (at < file->port_count)
        return at;
    grown = realloc(file->ports, (at + 1u) * sizeof *grown);
    if (grown == NULL)
        return -1;
    file->ports = grown;
    file->ports[at] = (struct replay_port) { .events = 0 };
    strcpy(file->ports[at].client, client);
    strcpy(file->ports[at].name, name);
    file->port_count++;
    return at;
}

/* What a channel means for us. *made stays NULL for one that is not replayed. */
static int learn_channel(struct replay_file *file, const struct mcap_channel *channel,
                         struct replay_channel **made, struct ec_error *why)
{
    const char *client = mcap_map_find(&channel->metadata, RECORDING_CLIENT);
    const char *name = mcap_map_find(&channel->metadata, RECORDING_PORT);
    const char *layout = mcap_map_find(&channel->metadata, RECORDING_LAYOUT);
    cJSON *json = layout != NULL ? cJSON_Parse(layout) : NULL;
    int64_t port;
    int rc = EC_OK;

    if (json == NULL || !is_name(client) || !is_name(name))
        rc = fault(why, EC_ERR_PARSE, "channel %s was not recorded by engine-ctl", channel->topic);
    else if (!is_chosen(&file->choice, json_text(json, "name")))
        client = NULL;
    if (rc < 0 || client == NULL) {
        cJSON_Delete(json);
        return rc;
    }
    *made = calloc(1, sizeof **made);
    port = find_port(file, client, name);
    if (*made == NULL || port < 0) {
        rc = no_memory(why);
    } else {
        rc = event_layout_read(json, &(*made)->layout, why);
        (*made)->type = ec_event_type((*made)->layout.name);
        (*made)->port = (uint32_t)port;
    }
    cJSON_Delete(json);
    return rc;
}

/* The channel of a message. *channel NULL: it is not replayed. */
static int channel_of(struct replay_file *file, const struct mcap_message *message, bool *known,
                      struct replay_channel **channel, struct ec_error *why)
{
    int rc = EC_OK;

    if (!known[message->channel])
        rc = learn_channel(file, mcap_reader_channel(file->reader, message->channel),
                           &file->channels[message->channel], why);
    known[message->channel] = true;
    if (message->channel >= file->channel_end)
        file->channel_end = message->channel + 1u;
    *channel = file->channels[message->channel];
    return rc;
}

static uint64_t key_of(const struct replay_file *file, const struct recorded_event *event)
{
    return file->choice.by_step ? event->step : event->time_ns;
}

/* ---- the survey ------------------------------------------------------------------------------ */

/* floors[chunk] becomes at most key; chunks without events have none. */
static bool note_floor(struct replay_file *file, uint64_t chunk, uint64_t key)
{
    if (chunk >= file->chunk_count) {
        uint64_t capacity = FIRST_FLOORS;

        while (capacity <= chunk)
            capacity *= 2;
        if (file->chunk_count == 0 || capacity > file->chunk_count) {
            uint64_t *grown = realloc(file->floors, capacity * sizeof *grown);

            if (grown == NULL)
                return false;
            for (uint64_t i = file->chunk_count; i < capacity; i++)
                grown[i] = UINT64_MAX;
            file->floors = grown;
            file->chunk_count = capacity;
        }
    }
    if (key < file->floors[chunk])
        file->floors[chunk] = key;
    return true;
}

static bool count_event(struct replay_file *file, const struct replay_channel *channel,
                        const struct recorded_event *event, uint64_t chunk)
{
    struct replay_port *port = &file->ports[channel->port];
    uint64_t key = key_of(file, event);

    if (file->events == 0 || key < file->first)
        file->first = key;
    if (key > file->last)
        file->last = key;
    file->events++;
    port->events++;
    if (event->bytes > port->payload_bytes_max)
        port->payload_bytes_max = event->bytes;
    return note_floor(file, chunk, key);
}

static int survey(struct replay_file *file, bool *known, struct ec_error *why)
{
    struct mcap_message message;
    int rc;

    while ((rc = mcap_reader_next(file->reader, &message, why)) == EC_OK) {
        struct replay_channel *channel;
        struct recorded_event event;

        rc = channel_of(file, &message, known, &channel, why);
        if (rc < 0)
            return rc;
        if (channel == NULL)
            file->left_out++;
        else if (!recording_take(&channel->layout, &message, &event))
            file->bad++;
        else if (!count_event(file, channel, &event, message.chunk))
            return no_memory(why);
    }
    return rc < 0 ? rc : EC_OK;
}

static int compare_ports(const void *a, const void *b)
{
    const struct replay_port *left = a, *right = b;
    int order = strcmp(left->client, right->client);

    return order != 0 ? order : strcmp(left->name, right->name);
}

/* Put the ports into their order, and let the channels find them again. */
static int sort_ports(struct replay_file *file, struct ec_error *why)
{
    struct replay_port *before = malloc((file->port_count + 1u) * sizeof *before);

    if (before == NULL)
        return no_memory(why);
    if (file->port_count != 0) {
        memcpy(before, file->ports, file->port_count * sizeof *before);
        qsort(file->ports, file->port_count, sizeof *file->ports, compare_ports);
    }
    for (uint32_t id = 0; id < file->channel_end; id++) {
        struct replay_channel *channel = file->channels[id];
        uint32_t at = 0;

        if (channel == NULL)
            continue;
        while (compare_ports(&file->ports[at], &before[channel->port]) != 0)
            at++;
        channel->port = at;
    }
    free(before);
    return EC_OK;
}

static int check_choice(const struct replay_file *file, struct ec_error *why)
{
    for (size_t i = 0; i < file->choice.type_count; i++) {
        bool found = false;

        for (uint32_t id = 0; id < file->channel_end && !found; id++)
            found = file->channels[id] != NULL &&
                    strcmp(file->channels[id]->layout.name, file->choice.types[i]) == 0;
        if (!found)
            return fault(why, EC_ERR_NOT_FOUND, "it has no event of type %s",
                         file->choice.types[i]);
    }
    return EC_OK;
}

int replay_file_open(struct replay_file *file, const char *path, const struct replay_choice *choice,
                     struct ec_error *why)
{
    struct mcap_totals totals;
    bool *known = calloc(MCAP_IDS, sizeof *known);
    int rc;

    *file = (struct replay_file) { .choice = *choice };
    file->channels = calloc(MCAP_IDS, sizeof *file->channels);
    rc = known == NULL || file->channels == NULL ? no_memory(why)
                                                 : mcap_reader_open(path, &file->reader, why);
    if (rc == EC_OK)
        rc = survey(file, known, why);
    free(known);
    if (rc < 0)
        return rc;
    mcap_reader_totals(file->reader, &totals);
    file->whole = totals.whole;
    file->damaged = totals.damaged;
    for (uint64_t i = file->chunk_count; i > 1; i--)
        if (file->floors[i - 1] < file->floors[i - 2])
            file->floors[i - 2] = file->floors[i - 1];
    rc = check_choice(file, why);
    if (rc == EC_OK)
        rc = sort_ports(file, why);
    mcap_reader_close(file->reader);
    file->reader = NULL;
    return rc == EC_OK ? mcap_reader_open(path, &file->reader, why) : rc;
}

void replay_file_finish(struct replay_file *file)
{
    for (uint32_t id = 0; id < file->channel_end; id++)
        free(file->channels[id]);
    while (file->heap_count > 0)
        free(file->heap[--file->heap_count]);
    free(file->channels);
    free(file->ports);
    free(file->floors);
    free(file->heap);
    free(file->current);
    mcap_reader_close(file->reader);
    *file = (struct replay_file) { .whole = false };
}

/* ---- in order -------------------------------------------------------------------------------- */

static bool is_before(const struct replay_event *a, const struct replay_event *b)
{
    if (a->key != b->key)
        return a->key < b->key;
    if (a->port != b->port)
        return a->port < b->port;
    return a->sequence != b->sequence ? a->sequence < b->sequence : a->arrival < b->arrival;
}

static bool push(struct replay_file *file, struct replay_event *event)
{
    size_t at = file->heap_count;

    if (at == file->heap_capacity) {
        size_t capacity = at != 0 ? at * 2 : FIRST_HEAP;
        struct replay_event **grown = realloc(file->heap, capacity * sizeof(*grown));

        if (grown == NULL)
            return false;
        file->heap = grown;
        file->heap_capacity = capacity;
    }
    for (; at > 0 && is_before(event, file->heap[(at - 1) / 2]); at = (at - 1) / 2)
        file->heap[at] = file->heap[(at - 1) / 2];
    file->heap[at] = event;
    file->heap_count++;
    return true;
}

static struct replay_event *pop(struct replay_file *file)
{
    struct replay_event *top = file->heap[0], *moved = file->heap[--file->heap_count];
    size_t at = 0;

    for (size_t child; (child = 2 * at + 1) < file->heap_count; at = child) {
        if (child + 1 < file->heap_count && is_before(file->heap[child + 1], file->heap[child]))
            child++;
        if (!is_before(file->heap[child], moved))
            break;
        file->heap[at] = file->heap[child];
    }
    file->heap[at] = moved;
    return top;
}

/* One more message of the file into the heap, if it is replayed. */
static int read_one(struct replay_file *file, struct ec_error *why)
{
    const struct replay_channel *channel;
    struct recorded_event recorded;
    struct mcap_message message;
    struct replay_event *event;
    int rc = mcap_reader_next(file->reader, &message, why);

    if (rc == EC_AGAIN || (rc == EC_OK && message.chunk >= file->chunk_count)) {
        file->ended = true; /* what was appended since the survey is not ours */
        return EC_OK;
    }
    if (rc < 0)
        return rc;
    file->bound = file->floors[message.chunk];
    channel = file->channels[message.channel];
    if (channel == NULL || !recording_take(&channel->layout, &message, &recorded))
        return EC_OK;
    event = malloc(sizeof *event + recorded.bytes);
    if (event == NULL)
        return no_memory(why);
    *event = (struct replay_event) { .key = key_of(file, &recorded),
                                     .port = channel->port,
                                     .sequence = recorded.sequence,
                                     .arrival = file->arrivals++,
                                     .type = channel->type,
                                     .flags = recorded.flags,
                                     .bytes = recorded.bytes };
    memcpy(event->payload, recorded.payload, recorded.bytes);
    if (push(file, event))
        return EC_OK;
    free(event);
    return no_memory(why);
}

int replay_file_next(struct replay_file *file, const struct replay_event **event,
                     struct ec_error *why)
{
    while (file->heap_count == 0 || (!file->ended && file->heap[0]->key >= file->bound)) {
        int rc;

        if (file->ended)
            return EC_AGAIN;
        rc = read_one(file, why);
        if (rc < 0)
            return rc;
    }
    free(file->current);
    *event = file->current = pop(file);
    return EC_OK;
}
