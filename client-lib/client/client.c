/* The client: say hello, make the segments that this process writes, exchange them for the daemon's.
 *
 *   hello   -> id, instance        the segments' headers carry both
 *   attach  -> client segment, cursor segment, doorbell
 *           <- clock page, directory, heap
 *
 * (attach.c). Only then does the service thread start: until the end of create this thread reads by
 * itself. */
#include "client/client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/attach.h"
#include "client/kept_calls.h"
#include "client/live_clients.h"
#include "client/soft_references.h"
#include "foundation/memory/space.h"

#define NAME_BYTES_MAX 47
#define TIMEOUT_MS_DEFAULT 5000

struct ec_client_private {
    void (*on_state)(void *context, enum ec_client_state state);
    void *context;
    bool attached;
    size_t blocks_bytes; /* behind the client segment's struct */
};

static int build(struct ec_client *client, const struct ec_client_desc *desc, struct ec_error *why);
static bool exists(const char *path);
static int check_path(const char *path, char *buffer, size_t bytes, struct ec_error *why);
static void on_hang_up(void *context);
static void on_return(void *context);
static int make_segments(struct ec_client *client, struct ec_error *why);
static void detach(struct ec_client *client);

int ec_client_create(const struct ec_client_desc *desc, struct ec_client **client,
                     struct ec_error *why)
{
    return ec_client_create_lent(desc, NULL, client, why);
}

int ec_client_create_lent(const struct ec_client_desc *desc, const struct ec_segment *own,
                          struct ec_client **client, struct ec_error *why)
{
    const size_t name_bytes = desc->name == NULL ? 0 : strlen(desc->name);
    struct ec_client *made;
    int rc;

    if (name_bytes == 0 || name_bytes > NAME_BYTES_MAX)
        return ec_fail(why, EC_ERR_PARAM, "connect: name has %zu bytes, expected 1..%d", name_bytes,
                       NAME_BYTES_MAX);
    if (desc->segment_bytes > EC_CLIENT_BLOCKS_MAX)
        return ec_fail(why, EC_ERR_SIZE, "connect: segment_bytes is %zu, expected at most %zu",
                       desc->segment_bytes, EC_CLIENT_BLOCKS_MAX);
    made = calloc(1, sizeof *made);
    if (made == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "connect: no memory for a client");
    pthread_mutex_init(&made->observing_lock, NULL);
    made->own.fd = made->cursors.fd = -1;
    if (own != NULL) {
        made->own = *own;
        made->own_is_lent = true;
    }
    made->doorbell = (struct ec_doorbell) { -1, -1 };
    rc = build(made, desc, why);
    if (rc < 0) {
        ec_client_destroy(made);
        return rc;
    }
    *client = made;
    return EC_OK;
}

static int build(struct ec_client *client, const struct ec_client_desc *desc, struct ec_error *why)
{
    char path[EC_SOCKET_PATH_MAX];
    const uint32_t timeout_ms = desc->timeout_ms == 0 ? TIMEOUT_MS_DEFAULT : desc->timeout_ms;
    const struct ec_connection_desc connection_desc = {
        .socket_path = path,
        .timeout_ms = timeout_ms,
        .on_hang_up = on_hang_up,
        .on_return = on_return,
        .resume = ec_client_resume,
        .context = client,
    };
    int rc;

    client->private = calloc(1, sizeof *client->private);
    if (client->private == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "connect: no memory for a client");
    snprintf(client->name, sizeof client->name, "%s", desc->name);
    client->private->on_state = desc->on_state;
    client->private->context = desc->context;
    if (desc->segment_bytes != 0) /* room to align them, too */
        client->private->blocks_bytes = desc->segment_bytes + EC_SPACE_UNIT_BYTES;

    rc = ec_live_clients_add(client, why);
    if (rc == EC_OK)
        rc = ec_client_socket_path(desc->socket_path, path, sizeof path, why);
    if (rc == EC_OK)
        rc = ec_connection_create(&connection_desc, &client->connection, why);
    if (rc == EC_OK)
        rc = ec_kept_calls_create(client, why);
    if (rc == EC_OK)
        rc = ec_client_soft_create(client, why);
    if (rc == EC_OK)
        rc = ec_client_hello(client, NULL, why);
    if (rc == EC_OK)
        rc = make_segments(client, why);
    if (rc == EC_OK && !client->own_is_lent)
        rc = ec_client_memory_create(client, why);
    if (rc == EC_OK && !client->own_is_lent)
        rc = ec_client_observation_create(client, why);
    if (rc == EC_OK) {
        client->private->attached = true; /* even if what comes back cannot be mapped */
        rc = ec_client_attach(client, why);
    }
    if (rc == EC_OK)
        rc = ec_event_peers_create(client, why);
    if (rc == EC_OK)
        rc = ec_client_breaker_create(client, why);
    if (rc == EC_OK)
        rc = ec_client_gpu_create(client, why);
    if (rc == EC_OK)
        ec_connection_keep(client->connection);
    if (rc == EC_OK && !desc->no_thread)
        rc = ec_connection_start(client->connection, why);
    return rc == EC_OK ? EC_OK : ec_error_prefix(why, rc, "connect");
}

void ec_client_destroy(struct ec_client *client)
{
    if (client == NULL)
        return;
    if (client->private != NULL && client->private->attached)
        detach(client);
    ec_live_clients_remove(client);
    ec_connection_destroy(client->connection); /* no handler runs any more */
    client->connection = NULL;
    ec_event_peers_destroy(client);
    ec_client_gpu_destroy(client);
    ec_kept_calls_destroy(client);
    ec_client_soft_destroy(client);
    ec_client_memory_destroy(client);
    ec_client_heaps_finish(client);
    ec_segment_map_finish(&client->directory);
    ec_segment_map_finish(&client->clock);
    ec_doorbell_finish(&client->doorbell);
    if (client->cursors.base != NULL)
        ec_segment_finish(&client->cursors);
    if (client->own.base != NULL && !client->own_is_lent)
        ec_segment_finish(&client->own);
    pthread_mutex_destroy(&client->observing_lock);
    free(client->private);
    free(client);
}

int ec_client_socket_path(const char *path, char *buffer, size_t bytes, struct ec_error *why)
{
    const char *given = path != NULL && path[0] != '\0' ? path : getenv("ENGINE_CORE_SOCKET");
    const char *user_dir = getenv("XDG_RUNTIME_DIR");
    static const char system_path[] = EC_SOCKET_SYSTEM_DIR "/" EC_SOCKET_NAME;
    char user_path[EC_SOCKET_PATH_MAX] = "";

    if (given != NULL && given[0] != '\0')
        return check_path(given, buffer, bytes, why);
    if (user_dir != NULL && user_dir[0] != '\0' &&
        snprintf(user_path, sizeof user_path, "%s/%s", user_dir, EC_SOCKET_NAME) <=
            EC_SOCKET_PATH_BYTES &&
        exists(user_path))
        return check_path(user_path, buffer, bytes, why);
    if (exists(system_path))
        return check_path(system_path, buffer, bytes, why);
    return ec_fail(why, EC_ERR_DISCONNECTED, "no daemon runs here: there is neither %s nor %s",
                   user_path[0] != '\0' ? user_path : "a user socket", system_path);
}

uint32_t ec_client_id(const struct ec_client *client)
{
    return client->id;
}

enum ec_client_state ec_client_state(const struct ec_client *client)
{
    return ec_connection_is_open(client->connection) ? EC_CONNECTED : EC_DISCONNECTED;
}

int ec_client_fd(const struct ec_client *client)
{
    return ec_connection_fd(client->connection);
}

int ec_client_dispatch(struct ec_client *client)
{
    return ec_connection_dispatch(client->connection);
}

int ec_client_call(struct ec_client *client, const char *method, const char *params, char **result,
                   struct ec_error *why)
{
    struct ec_call call = { .method = method, .params = params };
    int rc = ec_connection_call(client->connection, &call, why);

    if (rc == EC_OK) {
        *result = malloc(call.result.bytes + 1);
        if (*result != NULL) {
            memcpy(*result, call.result.text, call.result.bytes);
            (*result)[call.result.bytes] = '\0';
        } else {
            rc = ec_fail(why, EC_ERR_MEMORY, "%s: no memory for a result of %zu bytes", method,
                         call.result.bytes);
        }
    }
    ec_call_finish(&call);
    return rc;
}

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

static int check_path(const char *path, char *buffer, size_t bytes, struct ec_error *why)
{
    const size_t length = strlen(path);

    if (length > EC_SOCKET_PATH_BYTES || length >= bytes)
        return ec_fail(why, EC_ERR_PARAM, "socket path has %zu bytes, the limit is %d: %s", length,
                       EC_SOCKET_PATH_BYTES, path);
    memcpy(buffer, path, length + 1);
    return EC_OK;
}

static void on_hang_up(void *context)
{
    const struct ec_client *client = context;

    if (client->private->on_state != NULL)
        client->private->on_state(client->private->context, EC_DISCONNECTED);
}

static void on_return(void *context)
{
    const struct ec_client *client = context;

    if (client->private->on_state != NULL)
        client->private->on_state(client->private->context, EC_CONNECTED);
}

static int make_segments(struct ec_client *client, struct ec_error *why)
{
    struct ec_segment_desc desc = { .name = "ec-client",
                                    .kind = EC_SEGMENT_CLIENT,
                                    .bytes = sizeof(struct ec_client_segment) +
                                             client->private->blocks_bytes,
                                    .client_id = client->id,
                                    .instance = client->instance };
    int rc = EC_OK;

    if (client->own_is_lent)
        ec_segment_name_writer(&client->own, client->id, client->instance);
    else
        rc = ec_segment_init(&client->own, &desc, why);
    if (rc < 0)
        return rc;
    desc.name = "ec-cursor";
    desc.kind = EC_SEGMENT_CURSOR;
    desc.bytes = sizeof(struct ec_cursor_segment);
    rc = ec_segment_init(&client->cursors, &desc, why);
    if (rc < 0)
        return rc;
    return ec_doorbell_init(&client->doorbell, client->foreign_daemon, why);
}

/* A process that lives on keeps its references until it detaches. Without a connection there is
 * nothing to say it on: the daemon notices the end of the process. */
static void detach(struct ec_client *client)
{
    struct ec_call call = { .method = "client.detach" };

    (void)ec_connection_call(client->connection, &call, NULL);
    ec_call_finish(&call);
}
