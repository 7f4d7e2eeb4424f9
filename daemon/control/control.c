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

int control_init(struct services *services, struct ec_error *why)
{
    struct control *control = calloc(1, sizeof *control);
    int rc;

    if (control == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "%zu bytes", sizeof *control);
    services->control = control;
    control->services = services;
    control->listener.fd = control->listener.lock_fd = control->listener.spare_fd = -1;
    rc = dispatcher_init(&control->dispatcher, services, why);
    if (rc == EC_OK)
        rc = listener_init(&control->listener, services->socket_path, services->listen_fd, why);
    if (rc == EC_OK && services->listen_fd >= 0)
        services->socket_path = control->listener.path;
    return rc;
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
