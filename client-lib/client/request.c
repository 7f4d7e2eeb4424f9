/* request.c - requests and replies as events; see engine-core/request.h.
 *
 * Each side has one publisher, the caller's, and one subscriber of its own. A reply goes to all who read
 * its type; its head says whose it is, and everybody else passes it over. */
#include <engine-core/request.h>

#include <limits.h>
#include <stdlib.h>

#include "client/event_peers.h"
#include "client/outstanding.h"
#include "foundation/real_time.h"

#define OUTSTANDING_DEFAULT 1024u

struct ec_requester {
    struct ec_publisher *publisher;
    struct ec_subscriber *subscriber;
    uint64_t id;
    uint64_t request; /* type */
    void *claimed;    /* NULL: nothing */
    struct ec_outstanding outstanding;
    struct ec_requester_stats stats;
};

struct ec_replier {
    struct ec_publisher *publisher;
    struct ec_subscriber *subscriber;
    uint64_t reply;              /* type */
    void *claimed;               /* NULL: nothing */
    struct ec_request_head head; /* of what is claimed */
    bool claimed_in_place;       /* for the request that next gave out: done may throw it away */
    bool reading;                /* between next and done */
    struct ec_replier_stats stats;
};

/* ---- both sides ------------------------------------------------------------------------------ */

static int check_type(struct ec_client *client, const char *what, const char *name,
                      struct ec_error *why)
{
    struct ec_known_type known;

    if (name == NULL || name[0] == '\0')
        return ec_fail(why, EC_ERR_PARAM, "the type of the %s has no name", what);
    if (!ec_event_peers_type(client->event_peers, ec_event_type(name), &known))
        return ec_fail(why, EC_ERR_TYPE, "event type %s is not registered by this client", name);
    if (known.bytes < sizeof(struct ec_request_head))
        return ec_fail(why, EC_ERR_SIZE,
                       "event type %s has %u bytes, the head of a %s alone takes %zu", name,
                       known.bytes, what, sizeof(struct ec_request_head));
    return EC_OK;
}

static int check_sides(struct ec_client *client, const struct ec_publisher *publisher,
                       const char *request, const char *reply, struct ec_error *why)
{
    int rc;

    if (publisher == NULL)
        return ec_fail(why, EC_ERR_PARAM, "there is no publisher");
    rc = check_type(client, "request", request, why);
    return rc == EC_OK ? check_type(client, "reply", reply, why) : rc;
}

static int subscribe(struct ec_client *client, const char *type, struct ec_subscriber **subscriber,
                     struct ec_error *why)
{
    struct ec_subscriber_desc desc = { .types = &type, .type_count = 1 };

    return ec_subscriber_create(client, &desc, subscriber, why);
}

/* Copy the head out of the ring, once. false: the event is too short to have one. */
static bool read_head(const struct ec_event *event, struct ec_request_head *head)
{
    if (event->bytes < sizeof *head)
        return false;
    ec_port_copy_out(head, event->payload, sizeof *head);
    return true;
}

/* ---- asking ---------------------------------------------------------------------------------- */

int ec_requester_create(struct ec_client *client, const struct ec_requester_desc *desc,
                        struct ec_requester **requester, struct ec_error *why)
{
    uint32_t capacity = desc->outstanding_max != 0 ? desc->outstanding_max : OUTSTANDING_DEFAULT;
    struct ec_requester *made = NULL;
    int rc;

    *requester = NULL;
    rc = check_sides(client, desc->publisher, desc->request, desc->reply, why);
    if (rc == EC_OK && capacity > EC_REQUESTS_OUTSTANDING_MAX)
        rc = ec_fail(why, EC_ERR_PARAM, "outstanding_max is %u, expected 1..%d", capacity,
                     EC_REQUESTS_OUTSTANDING_MAX);
    if (rc < 0)
        goto fail;
    made = calloc(1, sizeof *made);
    if (made == NULL || ec_outstanding_init(&made->outstanding, capacity) < 0) {
        rc = ec_fail(why, EC_ERR_MEMORY, "no memory for %u outstanding requests", capacity);
        goto fail;
    }
    made->publisher = desc->publisher;
    made->request = ec_event_type(desc->request);
    rc = subscribe(client, desc->reply, &made->subscriber, why);
    if (rc < 0)
        goto fail;
    made->id = (uint64_t)client->id << 32 | (uint32_t)ec_subscriber_reader_id(made->subscriber);
    *requester = made;
    return EC_OK;

fail:
    ec_requester_destroy(made);
    return ec_error_prefix(why, rc, "create requester");
}

/* End a request without a reply. false: it had ended. */
static bool end_request(struct ec_requester *requester, uint64_t correlation, int status)
{
    struct ec_reply reply = { .correlation = correlation, .status = status };
    struct ec_outstanding_slot ended;

    if (!ec_outstanding_remove(&requester->outstanding, correlation, &ended))
        return false;
    ended.fn(ended.context, &reply);
    return true;
}

void ec_requester_destroy(struct ec_requester *requester)
{
    uint64_t correlation;
    int64_t deadline_ns;

    if (requester == NULL)
        return;
    while (requester->outstanding.count != 0 &&
           ec_outstanding_first(&requester->outstanding, &correlation, &deadline_ns))
        end_request(requester, correlation, EC_ERR_STATE);
    ec_subscriber_destroy(requester->subscriber);
    ec_outstanding_finish(&requester->outstanding);
    free(requester);
}

int ec_requester_claim(struct ec_requester *requester, size_t bytes, void **payload)
{
    int rc;

    requester->claimed = NULL;
    if (bytes < sizeof(struct ec_request_head))
        return EC_ERR_SIZE;
    if (requester->outstanding.count == requester->outstanding.capacity) {
        requester->stats.limited++;
        return EC_ERR_LIMIT;
    }
    rc = ec_publisher_claim(requester->publisher, requester->request, bytes, payload);
    if (rc == EC_OK)
        requester->claimed = *payload;
    return rc;
}

int ec_requester_send(struct ec_requester *requester, int64_t timeout_ns, ec_reply_fn *fn,
                      void *context, uint64_t *correlation)
{
    struct ec_request_head head = { .requester = requester->id };
    struct ec_outstanding_slot unsent;
    void *claimed = requester->claimed;
    int rc;

    if (claimed == NULL)
        return EC_ERR_STATE;
    if (fn == NULL || timeout_ns <= 0)
        return EC_ERR_PARAM;
    requester->claimed = NULL;
    head.deadline_ns = ec_deadline_ns(ec_real_ns(), timeout_ns);
    head.correlation = ec_outstanding_add(&requester->outstanding, head.deadline_ns, fn, context);
    ec_port_copy_in(claimed, &head, sizeof head);
    rc = ec_publisher_commit(requester->publisher);
    if (rc < 0) { /* something else was claimed and committed meanwhile */
        ec_outstanding_remove(&requester->outstanding, head.correlation, &unsent);
        return rc;
    }
    requester->stats.sent++;
    if (correlation != NULL)
        *correlation = head.correlation;
    return EC_OK;
}

int ec_requester_cancel(struct ec_requester *requester, uint64_t correlation)
{
    struct ec_outstanding_slot ended;

    return ec_outstanding_remove(&requester->outstanding, correlation, &ended) ? EC_OK
                                                                               : EC_ERR_STALE;
}

/* Is the event a reply to a request of ours that waits for it? Returns whether one ended. */
static bool take_reply(struct ec_requester *requester, const struct ec_event *event)
{
    struct ec_outstanding_slot ended = { 0 };
    struct ec_request_head head = { 0 };
    struct ec_reply reply = { .bytes = event->bytes, .payload = event->payload };
    bool whole, mine, waits;

    whole = read_head(event, &head);
    mine = whole && head.requester == requester->id;
    waits = mine && ec_outstanding_remove(&requester->outstanding, head.correlation, &ended);
    reply.correlation = head.correlation;
    reply.sender = event->sender;
    reply.status = head.status <= 0 && head.status >= INT_MIN ? (int)head.status : EC_ERR_INTERNAL;
    if (waits)
        ended.fn(ended.context, &reply);
    if (ec_subscriber_done(requester->subscriber) != EC_OK) {
        if (waits) {
            reply = (struct ec_reply) { .correlation = head.correlation, .status = EC_ERR_STALE };
            ended.fn(ended.context, &reply);
            requester->stats.stale++;
        }
        return waits; /* what else was seen of it was not whole and is not counted */
    }
    requester->stats.refused += !whole;
    requester->stats.replied += waits;
    requester->stats.late += mine && !waits;
    return waits;
}

int ec_requester_poll(struct ec_requester *requester, uint32_t max)
{
    struct ec_event event;
    uint64_t correlation;
    int64_t deadline_ns, now_ns;
    int ended = 0;

    for (uint32_t i = 0; i < max && ec_subscriber_next(requester->subscriber, &event) == EC_OK; i++)
        ended += take_reply(requester, &event);
    if (requester->outstanding.count == 0)
        return ended;
    now_ns = ec_real_ns();
    while (ec_outstanding_first(&requester->outstanding, &correlation, &deadline_ns) &&
           deadline_ns <= now_ns) {
        requester->stats.timed_out++;
        ended += end_request(requester, correlation, EC_ERR_TIMEOUT);
    }
    return ended;
}

int ec_requester_wait(struct ec_requester *requester, int64_t timeout_ns)
{
    int64_t now_ns = ec_real_ns(), deadline_ns = INT64_MAX, left_ns;
    int64_t end_ns = ec_deadline_ns(now_ns, timeout_ns);
    uint64_t correlation;
    bool deadline_first;
    int rc;

    ec_outstanding_first(&requester->outstanding, &correlation, &deadline_ns);
    deadline_first = deadline_ns <= end_ns && deadline_ns != INT64_MAX;
    if (deadline_first)
        end_ns = deadline_ns;
    left_ns = end_ns == INT64_MAX ? -1 : end_ns > now_ns ? end_ns - now_ns : 0;
    rc = ec_subscriber_wait(requester->subscriber, left_ns);
    return rc == EC_ERR_TIMEOUT && deadline_first ? EC_OK : rc;
}

void ec_requester_stats(const struct ec_requester *requester, struct ec_requester_stats *stats)
{
    *stats = requester->stats;
    stats->outstanding = requester->outstanding.count;
}

/* ---- replying -------------------------------------------------------------------------------- */

int ec_replier_create(struct ec_client *client, const struct ec_replier_desc *desc,
                      struct ec_replier **replier, struct ec_error *why)
{
    struct ec_replier *made = NULL;
    int rc = check_sides(client, desc->publisher, desc->request, desc->reply, why);

    *replier = NULL;
    if (rc < 0)
        goto fail;
    made = calloc(1, sizeof *made);
    if (made == NULL) {
        rc = ec_fail(why, EC_ERR_MEMORY, "%zu bytes for a replier", sizeof *made);
        goto fail;
    }
    made->publisher = desc->publisher;
    made->reply = ec_event_type(desc->reply);
    rc = subscribe(client, desc->request, &made->subscriber, why);
    if (rc < 0)
        goto fail;
    *replier = made;
    return EC_OK;

fail:
    ec_replier_destroy(made);
    return ec_error_prefix(why, rc, "create replier");
}

void ec_replier_destroy(struct ec_replier *replier)
{
    if (replier == NULL)
        return;
    ec_subscriber_destroy(replier->subscriber);
    free(replier);
}

int ec_replier_next(struct ec_replier *replier, struct ec_request *request)
{
    struct ec_event event;

    while (ec_subscriber_next(replier->subscriber, &event) == EC_OK) {
        bool whole = read_head(&event, &request->head);

        if (whole && request->head.deadline_ns > ec_real_ns()) {
            request->sender = event.sender;
            request->bytes = event.bytes;
            request->payload = event.payload;
            replier->reading = true;
            return EC_OK;
        }
        if (ec_subscriber_done(replier->subscriber) != EC_OK)
            continue;
        replier->stats.refused += !whole;
        replier->stats.expired += whole;
    }
    return EC_AGAIN;
}

int ec_replier_done(struct ec_replier *replier)
{
    int rc = ec_subscriber_done(replier->subscriber);

    replier->reading = false;
    if (rc == EC_OK)
        replier->stats.requests++;
    else if (replier->claimed_in_place)
        replier->claimed = NULL;
    replier->claimed_in_place = false;
    return rc;
}

int ec_replier_claim(struct ec_replier *replier, const struct ec_request *request, size_t bytes,
                     void **payload)
{
    int rc;

    replier->claimed = NULL;
    if (bytes < sizeof(struct ec_request_head))
        return EC_ERR_SIZE;
    rc = ec_publisher_claim(replier->publisher, replier->reply, bytes, payload);
    if (rc != EC_OK)
        return rc;
    replier->claimed = *payload;
    replier->claimed_in_place = replier->reading;
    replier->head = request->head;
    return EC_OK;
}

int ec_replier_send(struct ec_replier *replier, int status)
{
    int rc;

    if (replier->claimed == NULL)
        return EC_ERR_STATE;
    replier->head.status = status;
    ec_port_copy_in(replier->claimed, &replier->head, sizeof replier->head);
    replier->claimed = NULL;
    rc = ec_publisher_commit(replier->publisher);
    replier->stats.replied += rc == EC_OK;
    return rc;
}

int ec_replier_wait(struct ec_replier *replier, int64_t timeout_ns)
{
    return ec_subscriber_wait(replier->subscriber, timeout_ns);
}

void ec_replier_stats(const struct ec_replier *replier, struct ec_replier_stats *stats)
{
    *stats = replier->stats;
}
