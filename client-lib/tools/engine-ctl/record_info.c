/* engine-ctl record --info; see record_info.h. */
#include "engine-ctl/record_info.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "engine-ctl/json_read.h"
#include "engine-ctl/print.h"
#include "engine-ctl/recording.h"

static int open_and_count(const char *path, struct mcap_reader **reader, struct ec_error *why);
static void print_json(const struct mcap_reader *reader, const char *path);
static void print_text(const struct ctl *ctl, const struct mcap_reader *reader, const char *path);

int record_info(struct ctl *ctl, const char *path)
{
    struct mcap_reader *reader;
    struct ec_error why = { 0 };
    int rc = open_and_count(path, &reader, &why);

    if (rc < 0)
        return ctl_fail(EXIT_ANSWERED_ERROR, "%s: %s", path, why.text);
    if (ctl->json)
        print_json(reader, path);
    else
        print_text(ctl, reader, path);
    mcap_reader_close(reader);
    return ctl_flush();
}

/* A reader whose totals are those of the file. */
static int open_and_count(const char *path, struct mcap_reader **reader, struct ec_error *why)
{
    struct mcap_message message;
    int rc = mcap_reader_open(path, reader, why);

    if (rc < 0)
        return rc;
    rc = mcap_reader_summary(*reader, why);
    if (rc == EC_ERR_NOT_FOUND) {
        mcap_reader_close(*reader);
        rc = mcap_reader_open(path, reader, why);
        while (rc == EC_OK)
            rc = mcap_reader_next(*reader, &message, why);
    }
    if (rc < 0)
        mcap_reader_close(*reader);
    return rc < 0 ? rc : EC_OK;
}

static const char *value_of(const struct mcap_channel *channel, const char *key)
{
    const char *value = mcap_map_find(&channel->metadata, key);

    return value != NULL ? value : "";
}

/* A number in decimal out of a map; "0" when there is none. */
static const char *number_of(const struct mcap_map *map, const char *key)
{
    const char *value = mcap_map_find(map, key);

    return value != NULL && value[0] != '\0' && strspn(value, "0123456789") == strlen(value) &&
                   strlen(value) <= 20 && (value[0] != '0' || value[1] == '\0')
               ? value
               : "0";
}

/* The tree holds numbers as they are written: 64 bits do not fit a double. */
static void add_number(cJSON *object, const char *name, uint64_t number)
{
    char text[24];

    snprintf(text, sizeof text, "%" PRIu64, number);
    cJSON_AddRawToObject(object, name, text);
}

static void add_channel(cJSON *channels, const struct mcap_channel *channel)
{
    cJSON *object = cJSON_CreateObject();
    cJSON *layout = cJSON_Parse(value_of(channel, RECORDING_LAYOUT));

    cJSON_AddStringToObject(object, "topic", channel->topic);
    cJSON_AddStringToObject(object, "client", value_of(channel, RECORDING_CLIENT));
    cJSON_AddStringToObject(object, "port", value_of(channel, RECORDING_PORT));
    cJSON_AddStringToObject(object, "type", json_text(layout, "name"));
    add_number(object, "events", channel->messages);
    if (layout != NULL)
        cJSON_AddItemToObject(object, "layout", layout);
    cJSON_AddItemToArray(channels, object);
}

static void print_json(const struct mcap_reader *reader, const char *path)
{
    const struct mcap_map *losses = mcap_reader_metadata(reader, RECORDING_LOSSES);
    const struct mcap_map *about = mcap_reader_metadata(reader, RECORDING_ABOUT);
    cJSON *root = cJSON_CreateObject(), *channels;
    struct mcap_totals totals;
    char *text;

    mcap_reader_totals(reader, &totals);
    cJSON_AddStringToObject(root, "file", path);
    cJSON_AddBoolToObject(root, "whole", totals.whole);
    add_number(root, "file_bytes", totals.bytes);
    add_number(root, "readable_bytes", totals.end);
    add_number(root, "damaged", totals.damaged);
    add_number(root, "events", totals.messages);
    add_number(root, "chunks", totals.chunks);
    add_number(root, "begin_ns", totals.time_min);
    add_number(root, "end_ns", totals.time_max);
    cJSON_AddRawToObject(root, "begin_unix_ns", number_of(about, "begin_unix_ns"));
    cJSON_AddRawToObject(root, "lost_events", number_of(losses, "lost_events"));
    cJSON_AddRawToObject(root, "unrecorded", number_of(losses, "unrecorded"));
    channels = cJSON_AddArrayToObject(root, "channels");
    for (uint32_t id = 0; id < totals.channel_end; id++)
        if (mcap_reader_channel(reader, id) != NULL)
            add_channel(channels, mcap_reader_channel(reader, id));
    text = json_params(root);
    if (text != NULL)
        puts(text);
    cJSON_free(text);
}

static void print_channels(const struct ctl *ctl, const struct mcap_reader *reader)
{
    static const struct column columns[] = {
        { "CLIENT", false }, { "PORT", false }, { "TYPE", false },
        { "VERSION", true }, { "BYTES", true }, { "EVENTS", true },
    };
    struct table table = { .columns = columns, .column_count = 6 };
    struct mcap_totals totals;

    mcap_reader_totals(reader, &totals);
    for (uint32_t id = 0; id < totals.channel_end; id++) {
        const struct mcap_channel *channel = mcap_reader_channel(reader, id);
        cJSON *layout;

        if (channel == NULL)
            continue;
        layout = cJSON_Parse(value_of(channel, RECORDING_LAYOUT));
        table_cell(&table, "%s", value_of(channel, RECORDING_CLIENT));
        table_cell(&table, "%s", value_of(channel, RECORDING_PORT));
        table_cell(&table, "%s", layout != NULL ? json_text(layout, "name") : channel->topic);
        table_cell(&table, "%.0f", json_number(layout, "version"));
        table_cell(&table, "%.0f", json_number(layout, "size"));
        table_cell(&table, "%" PRIu64, channel->messages);
        cJSON_Delete(layout);
    }
    table_print(&table, stdout, ctl->colours);
}

static void print_text(const struct ctl *ctl, const struct mcap_reader *reader, const char *path)
{
    const struct mcap_map *losses = mcap_reader_metadata(reader, RECORDING_LOSSES);
    char bytes[TEXT_BYTES], readable[TEXT_BYTES], duration[TEXT_BYTES];
    struct mcap_totals totals;

    mcap_reader_totals(reader, &totals);
    printf("%s: %" PRIu64 " events in %s, %" PRIu64 " chunks, %s\n", path, totals.messages,
           duration_text(duration, (double)(totals.time_max - totals.time_min)), totals.chunks,
           bytes_text(bytes, (double)totals.bytes));
    if (!totals.whole)
        printf("It was cut: %s of it can be read.\n", bytes_text(readable, (double)totals.end));
    if (totals.damaged != 0)
        printf("%" PRIu64 " chunks or records are damaged and left out.\n", totals.damaged);
    if (strcmp(number_of(losses, "lost_events"), "0") != 0)
        printf("%s events were lost while it was recorded.\n", number_of(losses, "lost_events"));
    putchar('\n');
    print_channels(ctl, reader);
}
