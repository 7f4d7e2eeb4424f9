/* Clients and publishers of a replay; see replay_ports.h. */
#include "engine-ctl/replay_ports.h"

#include <stdlib.h>
#include <string.h>

#include "engine-ctl/fault.h"

#define RING_BYTES_MIN (1u << 20)
#define RING_BYTES_MAX (1u << 30)
#define BLOCK_BYTES_MAX (64u << 20)
#define WAIT_NS 100000000
#define EVENT_OVERHEAD 64u /* header and alignment */

static bool is_same_client(const struct replay_file *file, uint32_t a, uint32_t b)
{
    return strcmp(file->ports[a].client, file->ports[b].client) == 0;
}

static int register_types(const struct replay_file *file, uint32_t first_port,
                          struct ec_client *client, struct ec_error *why)
{
    for (uint32_t id = 0; id < file->channel_end; id++) {
        const struct replay_channel *channel = file->channels[id];
        int rc = EC_OK;

        if (channel != NULL && is_same_client(file, channel->port, first_port))
            rc = event_layout_register(&channel->layout, client, why);
        if (rc < 0)
            return rc;
    }
    return EC_OK;
}

/* A ring that holds four of its largest events, or blocks for them. */
static struct ec_publisher_desc shape_of(const struct replay_port *port, enum ec_stamp stamp)
{
    struct ec_publisher_desc desc = { .name = port->name,
                                      .ring_bytes = RING_BYTES_MIN,
                                      .stamp = stamp };
    size_t largest = port->payload_bytes_max + EVENT_OVERHEAD;

    if (largest <= RING_BYTES_MIN / 4)
        return desc;
    if (port->payload_bytes_max <= BLOCK_BYTES_MAX) {
        desc.block_bytes = (uint32_t)port->payload_bytes_max;
        return desc;
    }
    while (desc.ring_bytes < RING_BYTES_MAX && desc.ring_bytes / 4 < largest)
        desc.ring_bytes *= 2;
    return desc;
}

static int open_port(struct replay_ports *ports, uint32_t index, struct ec_client **client,
                     const struct ctl *ctl, enum ec_stamp stamp, struct ec_error *why)
{
    const struct replay_file *file = ports->file;
    struct ec_client_desc desc = { .name = file->ports[index].client,
                                   .socket_path = ctl->socket_path,
                                   .timeout_ms = (uint32_t)ctl->timeout_ms };
    struct ec_publisher_desc publisher = shape_of(&file->ports[index], stamp);
    int rc = EC_OK;

    if (index == 0 || !is_same_client(file, index, index - 1)) {
        rc = ec_client_create(&desc, &ports->clients[index], why);
        *client = ports->clients[index];
        if (rc == EC_OK)
            rc = register_types(file, index, *client, why);
    }
    if (rc == EC_OK)
        rc = ec_publisher_create(*client, &publisher, &ports->publishers[index], why);
    if (rc == EC_OK)
        ec_publisher_batch_begin(ports->publishers[index]);
    return rc;
}

int replay_ports_open(struct replay_ports *ports, const struct ctl *ctl,
                      const struct replay_file *file, enum ec_stamp stamp, struct ec_error *why)
{
    struct ec_client *client = NULL;
    int rc = EC_OK;

    *ports = (struct replay_ports) { .file = file };
    ports->publishers = calloc(file->port_count + 1u, sizeof(*ports->publishers));
    ports->clients = calloc(file->port_count + 1u, sizeof(*ports->clients));
    if (ports->publishers == NULL || ports->clients == NULL)
        return fault(why, EC_ERR_MEMORY, "no memory for %u ports", file->port_count);
    for (uint32_t i = 0; rc == EC_OK && i < file->port_count; i++)
        rc = open_port(ports, i, &client, ctl, stamp, why);
    return rc;
}

void replay_ports_close(struct replay_ports *ports)
{
    const uint32_t count = ports->file->port_count;

    for (uint32_t i = 0; ports->publishers != NULL && i < count; i++)
        ec_publisher_destroy(ports->publishers[i]);
    for (uint32_t i = 0; ports->clients != NULL && i < count; i++)
        ec_client_destroy(ports->clients[i]);
    free(ports->publishers);
    free(ports->clients);
}

int replay_ports_publish(struct replay_ports *ports, const struct replay_event *event)
{
    struct ec_publisher *publisher = ports->publishers[event->port];
    void *room;
    int rc = ec_publisher_claim_wait(publisher, event->type, event->bytes, WAIT_NS, &room);

    if (rc == EC_ERR_TIMEOUT)
        return EC_AGAIN;
    if (rc < 0)
        return rc;
    memcpy(room, event->payload, event->bytes);
    if ((event->flags & RECORDING_KEYFRAME) != 0)
        ec_publisher_keyframe(publisher);
    return ec_publisher_commit(publisher);
}

void replay_ports_flush(struct replay_ports *ports)
{
    for (uint32_t i = 0; i < ports->file->port_count; i++) {
        ec_publisher_batch_end(ports->publishers[i]);
        ec_publisher_batch_begin(ports->publishers[i]);
    }
}

void replay_ports_stamp(struct replay_ports *ports)
{
    for (uint32_t i = 0; i < ports->file->port_count; i++)
        ec_publisher_stamp(ports->publishers[i]);
}

void replay_ports_step_passed(struct replay_ports *ports, uint64_t step)
{
    for (uint32_t i = 0; i < ports->file->port_count; i++)
        ec_publisher_step_passed(ports->publishers[i], step);
}
