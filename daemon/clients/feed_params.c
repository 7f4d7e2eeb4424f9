/* feed_params.c - what the commands of all feeds share: mode, max_rate_hz, since, and the end. */
#include <string.h>

#include "clients/feed.h"
#include "daemon/request.h"

#define RATE_HZ_MIN 0.001

int feed_parse_pace(const struct param *mode, const struct param *max_rate_hz,
                    struct feed_subscription_desc *desc, struct ec_error *why)
{
    desc->newest_only = mode->present && strcmp(mode->string, "latest") == 0;
    if (mode->present && !desc->newest_only && strcmp(mode->string, "all") != 0)
        return ec_fail(why, EC_ERR_PARAM, "mode is %s, expected all or latest", mode->string);
    if (!max_rate_hz->present)
        return EC_OK;
    if (max_rate_hz->number < RATE_HZ_MIN)
        return ec_fail(why, EC_ERR_PARAM, "max_rate_hz is %g, expected 0.001..1000000",
                       max_rate_hz->number);
    desc->interval_ns = (int64_t)(1e9 / max_rate_hz->number);
    return EC_OK;
}

int feed_parse_since(const struct param *since, struct feed_subscription_desc *desc,
                     struct ec_error *why)
{
    static const char *const names[] = { "instance", "seq" };
    struct ec_json_span values[2];
    struct ec_json_fields fields = { .names = names, .values = values, .count = 2 };
    int64_t seq;

    if (!since->present)
        return EC_OK;
    if (ec_json_bind(since->span, &fields) < 0 || fields.unknown.text != NULL ||
        ec_json_get_hex64(values[0], &desc->since.instance) < 0 ||
        ec_json_get_i64(values[1], &seq) < 0 || seq < 0)
        return ec_fail(why, EC_ERR_PARAM,
                       "since: expected {\"instance\": \"0x…\" of core.hello, \"seq\": of the last "
                       "notification}");
    desc->since.given = true;
    desc->since.seq = (uint64_t)seq;
    return EC_OK;
}

int feed_end_by_request(struct feed *feed, struct request *request, uint32_t id)
{
    if (!feed_has(feed, request->client, id))
        return ec_fail(request->why, EC_ERR_NOT_FOUND, "this connection has no subscription %u",
                       id);
    if (request_would(request, "end subscription %u", id))
        return EC_OK;
    feed_remove(feed, request->client, id);
    ec_json_object_begin(request->result);
    ec_json_member_u64(request->result, "subscription_id", id);
    ec_json_object_end(request->result);
    return EC_OK;
}
