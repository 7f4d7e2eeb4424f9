/* kept_calls.c - see kept_calls.h. */
#include "client/kept_calls.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int ec_kept_calls_create(struct ec_client *client, struct ec_error *why)
{
    client->kept = calloc(1, sizeof *client->kept);
    if (client->kept == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory for kept calls");
    pthread_mutex_init(&client->kept->mutex, NULL);
    return EC_OK;
}

void ec_kept_calls_destroy(struct ec_client *client)
{
    if (client->kept == NULL)
        return;
    for (unsigned i = 0; i < EC_STEP_CLOCKS_MAX; i++)
        free(client->kept->joins[i].params);
    free(client->kept->declare);
    pthread_mutex_destroy(&client->kept->mutex);
    free(client->kept);
    client->kept = NULL;
}

/* Put a copy in the place of what is there. */
static int put(struct ec_kept_calls *kept, char **place, const char *params, struct ec_error *why)
{
    char *copy = strdup(params);

    if (copy == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory to keep a call");
    pthread_mutex_lock(&kept->mutex);
    free(*place);
    *place = copy;
    pthread_mutex_unlock(&kept->mutex);
    return EC_OK;
}

static char *copy_of(struct ec_kept_calls *kept, char *const *place)
{
    char *copy;

    pthread_mutex_lock(&kept->mutex);
    copy = *place != NULL ? strdup(*place) : NULL;
    pthread_mutex_unlock(&kept->mutex);
    return copy;
}

int ec_kept_set_declare(struct ec_client *client, const char *params, struct ec_error *why)
{
    return put(client->kept, &client->kept->declare, params, why);
}

int ec_kept_set_join(struct ec_client *client, uint32_t clock, const char *params, int bell_fd,
                     struct ec_error *why)
{
    struct ec_kept_join *join = &client->kept->joins[clock];

    pthread_mutex_lock(&client->kept->mutex);
    join->bell_fd = bell_fd;
    pthread_mutex_unlock(&client->kept->mutex);
    return put(client->kept, &join->params, params, why);
}

void ec_kept_remove_join(struct ec_client *client, uint32_t clock)
{
    struct ec_kept_join *join = &client->kept->joins[clock];

    pthread_mutex_lock(&client->kept->mutex);
    free(join->params);
    *join = (struct ec_kept_join) { .bell_fd = -1 };
    pthread_mutex_unlock(&client->kept->mutex);
}

int ec_kept_declare(struct ec_client *client, struct ec_error *why)
{
    struct ec_call call = { .method = "breaker.declare" };
    char *params = copy_of(client->kept, &client->kept->declare);
    int rc = EC_OK;

    if (params == NULL)
        return EC_OK;
    call.params = params;
    rc = ec_connection_call(client->connection, &call, why);
    ec_call_finish(&call);
    free(params);
    return rc;
}

/* The bell of the new daemon takes the number of the old one, which the member's thread writes to. */
static void take_bell(struct ec_client *client, uint32_t clock, struct ec_call *call)
{
    struct ec_kept_join *join = &client->kept->joins[clock];

    pthread_mutex_lock(&client->kept->mutex);
    if (join->params != NULL && join->bell_fd >= 0 && call->reply_fd_count == 1)
        dup3(call->reply_fds[0], join->bell_fd, O_CLOEXEC);
    pthread_mutex_unlock(&client->kept->mutex);
}

int ec_kept_join_again(struct ec_client *client, struct ec_error *why)
{
    int rc = EC_OK;

    for (uint32_t clock = 0; clock < EC_STEP_CLOCKS_MAX && rc == EC_OK; clock++) {
        struct ec_call call = { .method = "clock.group.join" };
        char *params = copy_of(client->kept, &client->kept->joins[clock].params);

        if (params == NULL)
            continue;
        call.params = params;
        rc = ec_connection_call(client->connection, &call, why);
        if (rc == EC_OK)
            take_bell(client, clock, &call);
        else if (rc == EC_ERR_NOT_FOUND)
            rc = EC_OK; /* a daemon without this clock: the member goes on by itself */
        ec_call_finish(&call);
        free(params);
    }
    return rc;
}
