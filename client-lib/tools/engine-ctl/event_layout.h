/* event_layout.h - the layout of an event type: as JSON, as a ROS 1 message definition, as the library
 * registers it.
 *
 * The JSON is an item of event.list, without its counts:
 *
 *     {"name":"game.shot","version":1,"size":12,"policy":"reliable",
 *      "fields":[{"name":"shooter","type":"u32","count":1,"offset":0}, …]}
 *
 * The ROS 1 definition describes the same bytes to viewers of MCAP files: that encoding is packed and
 * little-endian, so the gaps of the C struct become fields of their own.
 *
 * Thread: any. Ownership: a layout is plain data. */
#ifndef ENGINE_CTL_EVENT_LAYOUT_H
#define ENGINE_CTL_EVENT_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include <engine-core/event.h>

#include "engine-ctl/mcap_bytes.h"

#define EVENT_NAME_BYTES 128
#define EVENT_FIELD_NAME_BYTES 128

struct event_layout {
    char name[EVENT_NAME_BYTES];
    uint32_t version;
    uint32_t bytes; /* with fields: exactly; else at most */
    bool lossy;
    uint32_t field_count;
    char field_names[EC_EVENT_FIELDS_MAX][EVENT_FIELD_NAME_BYTES];
    struct ec_event_field fields[EC_EVENT_FIELDS_MAX]; /* their names point into field_names */
};

/* Understand such JSON, which may be a stranger's: fields lie in their order, inside the size and apart.
 *
 * Returns EC_OK or EC_ERR_PARAM, naming what is wrong. The layout must not be moved afterwards. */
int event_layout_read(const cJSON *json, struct event_layout *layout, struct ec_error *why);

/* The same JSON; free it with cJSON_free. NULL: no memory. */
char *event_layout_json(const struct event_layout *layout);

/* The definition in the language of ROS 1, behind the fields of the prefix that every message has. */
void event_layout_ros1(const struct event_layout *layout, const char *prefix,
                       struct mcap_bytes *text);

/* Register the type with this layout. Returns as ec_event_type_register. */
int event_layout_register(const struct event_layout *layout, struct ec_client *client,
                          struct ec_error *why);

#endif
