/* observation.c - how closely a client looks at its own memory: light checks, and what an operator asks for. */
#include <engine-core/memory.h>
#include <engine-core/tracking.h>

#include "client/client.h"
#include "foundation/memory/checks.h"
#include "foundation/memory/sink.h"

static void on_observe(void *context, struct ec_json_span params, int *fds, unsigned fd_count);

int ec_client_observation_create(struct ec_client *client, struct ec_error *why)
{
    struct ec_observation *observation = &ec_client_own(client)->observation;

    client->memory->faults = &observation->faults;
    atomic_store_explicit(&observation->checks, ec_memory_checks_are_on(), memory_order_relaxed);
    if (ec_connection_on(client->connection, "memory.observe", on_observe, client) < 0)
        return ec_fail(why, EC_ERR_LIMIT, "too many notifications have a handler");
    atomic_store_explicit(&observation->is_switchable, 1, memory_order_relaxed);
    return EC_OK;
}

int ec_checks_set(struct ec_client *client, bool on)
{
    int rc;

    if (client == NULL || client->memory == NULL)
        return EC_ERR_PARAM;
    pthread_mutex_lock(&client->observing_lock);
    rc = ec_memory_checks_set(client->memory, on);
    if (rc == EC_OK)
        atomic_store_explicit(&ec_client_own(client)->observation.checks,
                              on || ec_memory_checks_are_on(), memory_order_relaxed);
    pthread_mutex_unlock(&client->observing_lock);
    return rc;
}

/* {"sample_bytes":N, "checks":true}, each if it is to change; on the reading thread. What cannot be done stays
 * as it was, and the segment says how that is. */
static void on_observe(void *context, struct ec_json_span params, int *fds, unsigned fd_count)
{
    static const char *const names[] = { "sample_bytes", "checks" };
    struct ec_json_span values[2] = { { 0 } };
    struct ec_json_fields fields = { .names = names, .values = values, .count = 2 };
    struct ec_client *client = context;
    uint64_t sample_bytes;
    bool checks;

    (void)fds;
    (void)fd_count;
    if (ec_json_bind(params, &fields) < 0)
        return;
    if (values[0].text != NULL && ec_json_get_u64(values[0], &sample_bytes) == EC_OK) {
        if (sample_bytes == 0)
            ec_tracking_stop(client);
        else
            (void)ec_tracking_start(client, sample_bytes, NULL);
    }
    if (values[1].text != NULL && ec_json_get_boolean(values[1], &checks) == EC_OK)
        (void)ec_checks_set(client, checks);
}
