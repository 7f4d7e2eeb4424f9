/* breaker_calls.c - what a client arranges with the breaker over the socket. */
#include <engine-core/breaker.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <engine-core/client.h>

#include "client/kept_calls.h"
#include "foundation/error.h"
#include "foundation/json/json_span.h"

#define PARAMS_BYTES 160

static int read_reservation(const char *result, uint32_t *reservation_id, struct ec_error *why);

int ec_breaker_declare(struct ec_client *client, const struct ec_breaker_traits *traits,
                       struct ec_error *why)
{
    char params[PARAMS_BYTES], *result = NULL;
    uint64_t generation;
    int rc;

    snprintf(params, sizeof params,
             "{\"priority\":%u,\"busy\":%s,\"required\":%s,\"can_save\":%s,\"saving\":%s}",
             traits->priority, traits->idle ? "false" : "true", traits->required ? "true" : "false",
             traits->can_save ? "true" : "false", traits->saving ? "true" : "false");
    do { /* a daemon that came meanwhile does not know it yet */
        generation = ec_connection_generation(client->connection);
        rc = ec_client_call(client, "breaker.declare", params, &result, why);
        free(result);
        result = NULL;
        if (rc == EC_OK)
            rc = ec_kept_set_declare(client, params, why);
    } while (rc == EC_OK && generation != ec_connection_generation(client->connection));
    return rc;
}

int ec_breaker_reserve(struct ec_client *client, const struct ec_breaker_wish *wish,
                       uint32_t *reservation_id, struct ec_error *why)
{
    char params[PARAMS_BYTES], *result = NULL;
    int rc;

    snprintf(params, sizeof params, "{\"bytes\":%" PRIu64 ",\"timeout_ms\":%u,\"hold_s\":%u}",
             wish->bytes, wish->timeout_ms, wish->hold_s == 0 ? 60 : wish->hold_s);
    rc = ec_client_call(client, "breaker.reserve", params, &result, why);
    if (rc == EC_OK)
        rc = read_reservation(result, reservation_id, why);
    free(result);
    return rc;
}

int ec_breaker_release(struct ec_client *client, uint32_t reservation_id, struct ec_error *why)
{
    char params[PARAMS_BYTES], *result = NULL;
    int rc;

    snprintf(params, sizeof params, "{\"reservation_id\":%u}", reservation_id);
    rc = ec_client_call(client, "breaker.release", params, &result, why);
    free(result);
    return rc;
}

static int read_reservation(const char *result, uint32_t *reservation_id, struct ec_error *why)
{
    enum { GRANTED, ID, MEMBERS };
    static const char *const names[MEMBERS] = { "granted", "reservation_id" };
    struct ec_json_span values[MEMBERS];
    struct ec_json_fields fields = { .names = names, .values = values, .count = MEMBERS };
    bool granted = false;
    uint64_t id = 0;

    if (ec_json_bind(ec_json_root(result, strlen(result)), &fields) < 0 ||
        ec_json_get_boolean(values[GRANTED], &granted) < 0 ||
        (granted && (ec_json_get_u64(values[ID], &id) < 0 || id > UINT32_MAX)))
        return ec_fail(why, EC_ERR_VERSION, "breaker.reserve: the answer is not understood");
    *reservation_id = (uint32_t)id;
    return granted ? EC_OK : EC_AGAIN;
}
