/* event_peers.c - what the daemon announces about ports and readers; see event_peers.h. */
#include "client/event_peers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EARLY_MAX 1024u /* more can only come from a daemon that makes no sense */

bool ec_event_member(struct ec_json_span object, const char *name, uint64_t max, uint64_t *value)
{
    struct ec_json_span found = { 0 };
    struct ec_json_fields fields = { .names = &name, .values = &found, .count = 1 };
    uint64_t number;

    if (ec_json_bind(object, &fields) != EC_OK || ec_json_get_u64(found, &number) != EC_OK ||
        number > max)
        return false;
    *value = number;
    return true;
}

static bool member32(struct ec_json_span object, const char *name, uint32_t *value)
{
    uint64_t number = 0;

    if (!ec_event_member(object, name, UINT32_MAX, &number))
        return false;
    *value = (uint32_t)number;
    return true;
}

static void early_free(struct ec_early *news)
{
    for (int i = 0; i < 2; i++)
        if (news->fds[i] >= 0)
            close(news->fds[i]);
    free(news);
}

/* Hand news to our object if it is known already. Called with the mutex held. */
static bool deliver(struct ec_event_peers *peers, struct ec_early *news)
{
    if (news->port) {
        for (struct ec_subscriber *s = peers->subscribers; s != NULL; s = *ec_subscriber_link(s)) {
            /* A port that went concerns every reader; its news name no reader. */
            if (news->removed) {
                ec_subscriber_remove_port(s, news->port_id);
            } else if (ec_subscriber_reader_id(s) == news->id) {
                ec_subscriber_add_port(s, news);
                return news->accepted = true;
            }
        }
        return news->removed && peers->opening == 0;
    }
    for (struct ec_publisher *p = peers->publishers; p != NULL; p = *ec_publisher_link(p)) {
        if (ec_publisher_port_id(p) != news->id)
            continue;
        if (news->removed)
            ec_publisher_remove_reader(p, news->reader_id);
        else
            ec_publisher_add_reader(p, news);
        news->accepted = !news->removed;
        return true;
    }
    return false;
}

/* Tell the daemon that a port knows its reader, or a reader a port: the other side may be waiting for that.
 * Not with the mutex held, because sending may wait. */
static void tell_accepted(struct ec_event_peers *peers, const struct ec_early *news)
{
    char params[96];

    if (!news->accepted)
        return;
    snprintf(params, sizeof params, "{\"port_id\":%u,\"reader_id\":%u}",
             news->port ? news->port_id : (uint32_t)news->id,
             (uint32_t)(news->port ? news->id : news->reader_id));
    ec_connection_notify(peers->connection,
                         news->port ? "event.port.accept" : "event.reader.accept", params, NULL);
}

static void receive(struct ec_event_peers *peers, struct ec_early *news, int *fds,
                    unsigned fd_count)
{
    bool keep;

    for (unsigned i = 0; i < 2; i++) {
        news->fds[i] = i < fd_count ? fds[i] : -1;
        if (i < fd_count)
            fds[i] = -1;
    }
    pthread_mutex_lock(&peers->mutex);
    keep = !deliver(peers, news) && peers->early_count < EARLY_MAX;
    if (keep) {
        news->next = peers->early;
        peers->early = news;
        peers->early_count++;
    }
    pthread_mutex_unlock(&peers->mutex);
    if (!keep) {
        tell_accepted(peers, news);
        early_free(news);
    }
}

static void member_text(struct ec_json_span object, const char *name, char *text, size_t bytes)
{
    struct ec_json_span found = { 0 };
    struct ec_json_fields fields = { .names = &name, .values = &found, .count = 1 };

    if (ec_json_bind(object, &fields) != EC_OK || ec_json_get_text(found, text, bytes) != EC_OK)
        text[0] = '\0';
}

static bool member_is_true(struct ec_json_span object, const char *name)
{
    struct ec_json_span found = { 0 };
    struct ec_json_fields fields = { .names = &name, .values = &found, .count = 1 };
    bool value = false;

    return ec_json_bind(object, &fields) == EC_OK && ec_json_get_boolean(found, &value) == EC_OK &&
           value;
}

bool ec_event_port_members(struct ec_json_span object, struct ec_early *news)
{
    news->existed = member_is_true(object, "existed");
    news->across_users = member_is_true(object, "across_users");
    member_text(object, "client", news->client, sizeof news->client);
    member_text(object, "name", news->name, sizeof news->name);
    return member32(object, "port_id", &news->port_id) &&
           member32(object, "client_id", &news->client_id) &&
           member32(object, "cursor", &news->cursor) &&
           member32(object, "reader_slot", &news->reader_slot);
}

static void on_port_added(void *context, struct ec_json_span params, int *fds, unsigned fd_count)
{
    struct ec_early *news = calloc(1, sizeof *news);

    if (news == NULL)
        return;
    news->port = true;
    if (ec_event_member(params, "reader_id", UINT32_MAX, &news->id) &&
        ec_event_port_members(params, news) && fd_count == 1)
        receive(context, news, fds, fd_count);
    else
        free(news);
}

static void on_port_removed(void *context, struct ec_json_span params, int *fds, unsigned fd_count)
{
    struct ec_early *news = calloc(1, sizeof *news);

    (void)fds;
    (void)fd_count;
    if (news == NULL)
        return;
    news->port = true;
    news->removed = true;
    if (member32(params, "port_id", &news->port_id))
        receive(context, news, NULL, 0);
    else
        free(news);
}

static void on_reader_added(void *context, struct ec_json_span params, int *fds, unsigned fd_count)
{
    static const char *const policy_name[] = { "policy" };
    struct ec_json_span policy = { 0 };
    struct ec_json_fields fields = { .names = policy_name, .values = &policy, .count = 1 };
    struct ec_early *news = calloc(1, sizeof *news);

    if (news == NULL)
        return;
    ec_json_bind(params, &fields);
    news->reliable = ec_json_string_equals(policy, "reliable");
    if (ec_event_member(params, "port_id", UINT32_MAX, &news->id) &&
        ec_event_member(params, "reader_id", UINT32_MAX, &news->reader_id) &&
        member32(params, "client_id", &news->client_id) &&
        member32(params, "cursor", &news->cursor) && member32(params, "slot", &news->slot) &&
        member32(params, "reader_slot", &news->reader_slot) && fd_count == 2)
        receive(context, news, fds, fd_count);
    else
        free(news);
}

static void on_reader_removed(void *context, struct ec_json_span params, int *fds,
                              unsigned fd_count)
{
    struct ec_early *news = calloc(1, sizeof *news);

    (void)fds;
    (void)fd_count;
    if (news == NULL)
        return;
    news->removed = true;
    if (ec_event_member(params, "port_id", UINT32_MAX, &news->id) &&
        ec_event_member(params, "reader_id", UINT32_MAX, &news->reader_id))
        receive(context, news, NULL, 0);
    else
        free(news);
}

/* Deliver what came early for an object that is known now, in the order of arrival. Returns what was
 * delivered, for tell_adopted once the mutex is free. */
static struct ec_early *adopt(struct ec_event_peers *peers)
{
    struct ec_early *news = peers->early, *ordered = NULL, *delivered = NULL;
    struct ec_early **rest = &peers->early;

    peers->early = NULL;
    peers->early_count = 0;
    while (news != NULL) {
        struct ec_early *next = news->next;

        news->next = ordered;
        ordered = news;
        news = next;
    }
    while (ordered != NULL) {
        struct ec_early *next = ordered->next;

        if (deliver(peers, ordered)) {
            ordered->next = delivered;
            delivered = ordered;
        } else { /* for another one; keep the order that receive makes: newest first */
            ordered->next = *rest;
            *rest = ordered;
            peers->early_count++;
        }
        ordered = next;
    }
    return delivered;
}

static void tell_adopted(struct ec_event_peers *peers, struct ec_early *delivered)
{
    while (delivered != NULL) {
        struct ec_early *next = delivered->next;

        tell_accepted(peers, delivered);
        early_free(delivered);
        delivered = next;
    }
}

static void free_early(struct ec_event_peers *peers)
{
    while (peers->early != NULL) {
        struct ec_early *next = peers->early->next;

        early_free(peers->early);
        peers->early = next;
    }
    peers->early_count = 0;
}

void ec_event_peers_forget_early(struct ec_event_peers *peers)
{
    pthread_mutex_lock(&peers->mutex);
    free_early(peers);
    pthread_mutex_unlock(&peers->mutex);
}

void ec_event_peers_deliver_early(struct ec_event_peers *peers)
{
    struct ec_early *delivered;

    pthread_mutex_lock(&peers->mutex);
    delivered = adopt(peers);
    pthread_mutex_unlock(&peers->mutex);
    tell_adopted(peers, delivered);
}

void ec_event_peers_add_publisher(struct ec_event_peers *peers, struct ec_publisher *publisher)
{
    struct ec_early *delivered;

    pthread_mutex_lock(&peers->mutex);
    *ec_publisher_link(publisher) = peers->publishers;
    peers->publishers = publisher;
    delivered = adopt(peers);
    pthread_mutex_unlock(&peers->mutex);
    tell_adopted(peers, delivered);
}

void ec_event_peers_remove_publisher(struct ec_event_peers *peers, struct ec_publisher *publisher)
{
    pthread_mutex_lock(&peers->mutex);
    for (struct ec_publisher **at = &peers->publishers; *at != NULL; at = ec_publisher_link(*at)) {
        if (*at == publisher) {
            *at = *ec_publisher_link(publisher);
            break;
        }
    }
    pthread_mutex_unlock(&peers->mutex);
}

void ec_event_peers_open_subscriber(struct ec_event_peers *peers)
{
    pthread_mutex_lock(&peers->mutex);
    peers->opening++;
    pthread_mutex_unlock(&peers->mutex);
}

void ec_event_peers_cancel_subscriber(struct ec_event_peers *peers)
{
    struct ec_early *delivered;

    pthread_mutex_lock(&peers->mutex);
    peers->opening--;
    delivered = adopt(peers);
    pthread_mutex_unlock(&peers->mutex);
    tell_adopted(peers, delivered);
}

void ec_event_peers_add_subscriber(struct ec_event_peers *peers, struct ec_subscriber *subscriber)
{
    struct ec_early *delivered;

    pthread_mutex_lock(&peers->mutex);
    peers->opening--;
    *ec_subscriber_link(subscriber) = peers->subscribers;
    peers->subscribers = subscriber;
    delivered = adopt(peers);
    pthread_mutex_unlock(&peers->mutex);
    tell_adopted(peers, delivered);
}

void ec_event_peers_remove_subscriber(struct ec_event_peers *peers,
                                      struct ec_subscriber *subscriber)
{
    pthread_mutex_lock(&peers->mutex);
    for (struct ec_subscriber **at = &peers->subscribers; *at != NULL;
         at = ec_subscriber_link(*at)) {
        if (*at == subscriber) {
            *at = *ec_subscriber_link(subscriber);
            break;
        }
    }
    pthread_mutex_unlock(&peers->mutex);
}

bool ec_event_peers_type(struct ec_event_peers *peers, uint64_t type, struct ec_known_type *known)
{
    bool found = false;

    pthread_mutex_lock(&peers->mutex);
    for (unsigned i = 0; i < peers->type_count && !found; i++) {
        if (peers->types[i].type == type) {
            *known = peers->types[i];
            known->request = NULL; /* may go any time */
            found = true;
        }
    }
    pthread_mutex_unlock(&peers->mutex);
    return found;
}

int ec_event_peers_create(struct ec_client *client, struct ec_error *why)
{
    static const struct {
        const char *method;
        ec_notification_fn *fn;
    } handlers[] = {
        { "event.port.added", on_port_added },
        { "event.port.removed", on_port_removed },
        { "event.reader.added", on_reader_added },
        { "event.reader.removed", on_reader_removed },
    };
    struct ec_event_peers *peers = calloc(1, sizeof *peers);

    if (peers == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "%zu bytes for the event peers", sizeof *peers);
    pthread_mutex_init(&peers->mutex, NULL);
    peers->connection = client->connection;
    client->event_peers = peers;
    for (size_t i = 0; i < sizeof handlers / sizeof handlers[0]; i++) {
        int rc = ec_connection_on(client->connection, handlers[i].method, handlers[i].fn, peers);

        if (rc < 0)
            return ec_error_prefix(why, rc, "listen to %s", handlers[i].method);
    }
    return EC_OK;
}

void ec_event_peers_destroy(struct ec_client *client)
{
    struct ec_event_peers *peers = client->event_peers;

    if (peers == NULL)
        return;
    free_early(peers);
    for (unsigned i = 0; i < peers->type_count; i++)
        free(peers->types[i].request);
    pthread_mutex_destroy(&peers->mutex);
    free(peers);
    client->event_peers = NULL;
}
