/* The module: puts listener, connections and dispatcher together. */
#include "control/control.h"

#include <stdlib.h>

#include "control/connection.h"
#include "control/dispatcher.h"
#include "control/listener.h"
#include "daemon/services.h"

struct control {
    struct services *services;
    struct dispatcher dispatcher;
    struct connections connections;
    struct listener listener;
};

static void on_accepted(void *context, int socket_fd);

/* Before any module reads what an earlier run left in files beside the socket, or ends them when the start
 * fails: of a running daemon they are not ours. */
int control_pre_init(struct services *services, struct ec_error *why)
{
    struct control *control = calloc(1, sizeof *control);

    if (control == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "%zu bytes", sizeof *control);
    services->control = control;
    control->services = services;
    return listener_init(&control->listener, services->socket_path, services->listen_fd, why);
}

int control_init(struct services *services, struct ec_error *why)
{
    return dispatcher_init(&services->control->dispatcher, services, why);
}

int control_post_init(struct services *services, struct ec_error *why)
{
    struct control *control = services->control;
    int rc = connections_init(&control->connections, services, &control->dispatcher, why);

    if (rc < 0)
        return rc;
    return listener_start(&control->listener, services->loop, on_accepted, control, why);
}

void control_shutdown(struct services *services)
{
    struct control *control = services->control;

    if (control == NULL)
        return;
    listener_finish(&control->listener);
    connections_finish(&control->connections);
    while (control->listener.closing > 0)
        uv_run(services->loop, UV_RUN_NOWAIT);
    dispatcher_finish(&control->dispatcher);
    services->control = NULL;
    free(control);
}

static void on_accepted(void *context, int socket_fd)
{
    struct control *control = context;

    connections_add(&control->connections, socket_fd);
}
