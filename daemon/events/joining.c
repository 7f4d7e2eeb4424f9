/* joining.c - see joining.h. */
#include "events/joining.h"

#include <stdlib.h>

struct joining {
    struct joining *next;
    struct events *events;
    struct reply *reply; /* NULL: its connection is gone */
    uint32_t reader_id;
    uv_timer_t timer;
};

static bool is_complete(const struct route_reader *reader)
{
    for (const struct route_link *link = reader->links; link != NULL; link = link->next_of_reader)
        if (!link->accepted)
            return false;
    return true;
}

static void write_answer(struct ec_json_writer *w, uint32_t reader_id, bool complete)
{
    ec_json_object_begin(w);
    ec_json_member_u64(w, "reader_id", reader_id);
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
        write_answer(reply_result(joining->reply), joining->reader_id, complete);
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

int joining_wait(struct events *events, struct route_reader *reader, struct request *request)
{
    struct joining *joining;
    int rc;

    if (is_complete(reader)) {
        write_answer(request->result, reader->id, true);
        return EC_OK;
    }
    joining = calloc(1, sizeof *joining);
    if (joining == NULL)
        return ec_fail(request->why, EC_ERR_MEMORY, "no memory to wait for reader %u", reader->id);
    rc = request_defer(request, on_gone, joining, &joining->reply);
    if (rc < 0) {
        free(joining);
        return rc;
    }
    joining->events = events;
    joining->reader_id = reader->id;
    joining->next = events->joining;
    events->joining = joining;
    uv_timer_init(events->services->loop, &joining->timer);
    joining->timer.data = joining;
    uv_timer_start(&joining->timer, on_timer, JOINING_MS, 0);
    return rc;
}

void joining_check(struct events *events)
{
    struct joining *joining = events->joining;

    while (joining != NULL) {
        struct joining *next = joining->next;
        struct route_reader *reader = routes_find_reader(&events->routes, joining->reader_id);

        if (reader == NULL)
            end(joining, false);
        else if (is_complete(reader))
            end(joining, true);
        joining = next;
    }
}

void joining_finish(struct events *events)
{
    while (events->joining != NULL)
        end(events->joining, false);
}
