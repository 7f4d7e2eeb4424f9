/* joining.c - see joining.h. */
#include "events/joining.h"

#include <stdlib.h>

/* Who waits: a reader for its publishers, or a port for its readers. */
enum side { SIDE_READER, SIDE_PORT };

struct joining {
    struct joining *next;
    struct events *events;
    struct reply *reply; /* NULL: its connection is gone */
    enum side side;
    uint32_t id; /* of the reader or port */
    uv_timer_t timer;
};

enum progress { WAITING, COMPLETE, GONE };

static enum progress progress_of_reader(const struct route_reader *reader)
{
    if (reader == NULL)
        return GONE;
    for (const struct route_link *link = reader->links; link != NULL; link = link->next_of_reader)
        if (!link->accepted)
            return WAITING;
    return COMPLETE;
}

static enum progress progress_of_port(const struct route_port *port)
{
    if (port == NULL)
        return GONE;
    for (const struct route_link *link = port->links; link != NULL; link = link->next_of_port)
        if (!link->known)
            return WAITING;
    return COMPLETE;
}

static enum progress progress_of(const struct events *events, enum side side, uint32_t id)
{
    return side == SIDE_READER ? progress_of_reader(routes_find_reader(&events->routes, id))
                               : progress_of_port(routes_find_port(&events->routes, id));
}

static void write_answer(struct ec_json_writer *w, enum side side, uint32_t id, bool complete)
{
    ec_json_object_begin(w);
    ec_json_member_u64(w, side == SIDE_READER ? "reader_id" : "port_id", id);
    ec_json_member_boolean(w, "complete", complete);
    ec_json_object_end(w);
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void end(struct joining *joining, bool complete)
{
    struct joining **at = &joining->events->joining;

    while (*at != joining)
        at = &(*at)->next;
    *at = joining->next;
    if (joining->reply != NULL) {
        write_answer(reply_result(joining->reply), joining->side, joining->id, complete);
        reply_finish(joining->reply);
    }
    uv_close((uv_handle_t *)&joining->timer, on_closed);
}

static void on_gone(void *context)
{
    struct joining *joining = context;

    joining->reply = NULL;
    end(joining, false);
}

static void on_timer(uv_timer_t *timer)
{
    end(timer->data, false);
}

static int wait_for(struct events *events, enum side side, uint32_t id, struct request *request)
{
    struct joining *joining;
    int rc;

    if (progress_of(events, side, id) == COMPLETE) {
        write_answer(request->result, side, id, true);
        return EC_OK;
    }
    joining = calloc(1, sizeof *joining);
    if (joining == NULL)
        return ec_fail(request->why, EC_ERR_MEMORY, "no memory to wait for %s %u",
                       side == SIDE_READER ? "reader" : "port", id);
    rc = request_defer(request, on_gone, joining, &joining->reply);
    if (rc < 0) {
        free(joining);
        return rc;
    }
    joining->events = events;
    joining->side = side;
    joining->id = id;
    joining->next = events->joining;
    events->joining = joining;
    uv_timer_init(events->services->loop, &joining->timer);
    joining->timer.data = joining;
    uv_timer_start(&joining->timer, on_timer, JOINING_MS, 0);
    return rc;
}

int joining_wait_reader(struct events *events, uint32_t reader_id, struct request *request)
{
    return wait_for(events, SIDE_READER, reader_id, request);
}

int joining_wait_port(struct events *events, uint32_t port_id, struct request *request)
{
    return wait_for(events, SIDE_PORT, port_id, request);
}

void joining_check(struct events *events)
{
    struct joining *joining = events->joining;

    while (joining != NULL) {
        struct joining *next = joining->next;
        enum progress progress = progress_of(events, joining->side, joining->id);

        if (progress != WAITING)
            end(joining, progress == COMPLETE);
        joining = next;
    }
}

void joining_finish(struct events *events)
{
    while (events->joining != NULL)
        end(events->joining, false);
}
