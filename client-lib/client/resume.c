/* resume.c - hand back to a new daemon what the one before knew.
 *
 *     hello {resume}            who this was: id and name stay
 *     client.attach             segments; those of the daemon take the place of the old ones
 *     breaker.declare           what the game said it is worth
 *     event.register            each type
 *     event.port.open {resume}  each publisher, with the readers that it has
 *     event.reader.open {…}     each subscriber, with the ports that it reads
 *     clock.group.join          each group
 *     client.resumed
 *
 * All of it runs on the reading thread, while publishing and reading threads go on with the rings that
 * they have. What a publisher and a subscriber say of each other is matched by the daemon: a link that
 * both know goes on without a word.
 *
 * A daemon that does not know this client (its state file was lost, or the client took too long to come
 * back) gets everything as if it was new: with another id, and new links.
 *
 * The mutex of the event peers guards what is handed back, and is never held during a call: the answer
 * may come behind notifications whose handlers take it. So requests are written first, with duplicates
 * of the descriptors; and what was closed meanwhile is closed again afterwards. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/attach.h"
#include "client/event_peers.h"
#include "client/kept_calls.h"
#include "segment/breaker_board.h"

static int call_simple(struct ec_client *client, const char *method, const char *params,
                       struct ec_error *why)
{
    struct ec_call call = { .method = method, .params = params };
    int rc = ec_connection_call(client->connection, &call, why);

    ec_call_finish(&call);
    return rc;
}

void ec_handback_copy_members(struct ec_json_writer *writer, const char *object)
{
    struct ec_json_iterator members = ec_json_iterate(ec_json_root(object, strlen(object)));
    struct ec_json_span name, value;
    char text[64];

    while (ec_json_next_member(&members, &name, &value))
        if (ec_json_get_text(name, text, sizeof text) == EC_OK)
            ec_json_member_raw(writer, text, value);
}

uint32_t ec_handback_lend_id(struct ec_event_peers *peers)
{
    return UINT32_MAX - peers->ids_lent++;
}

/* ---- types ----------------------------------------------------------------------------------- */

/* A copy of the request of one type; caller frees. NULL: there are no more. */
static char *copy_type_request(struct ec_event_peers *peers, unsigned index)
{
    char *copy = NULL;

    pthread_mutex_lock(&peers->mutex);
    if (index < peers->type_count)
        copy = strdup(peers->types[index].request);
    pthread_mutex_unlock(&peers->mutex);
    return copy;
}

static int hand_back_types(struct ec_client *client, struct ec_error *why)
{
    char *request;
    int rc = EC_OK;

    for (unsigned i = 0;
         rc == EC_OK && (request = copy_type_request(client->event_peers, i)) != NULL; i++) {
        rc = call_simple(client, "event.register", request, why);
        free(request);
    }
    return rc;
}

/* ---- publishers and subscribers -------------------------------------------------------------- */

static void free_handback(struct ec_handback *handback)
{
    for (unsigned i = 0; i < handback->fd_count; i++)
        if (handback->fds[i] >= 0)
            close(handback->fds[i]);
    free(handback->params);
    free(handback);
}

/* Put one in front of the list. false: no memory. */
static bool add_handback(struct ec_handback **list, struct ec_publisher *publisher,
                         struct ec_subscriber *subscriber, bool fresh)
{
    struct ec_handback *made = calloc(1, sizeof *made);
    bool written;

    if (made == NULL)
        return false;
    written = publisher != NULL ? ec_publisher_hand_back(publisher, fresh, made)
                                : ec_subscriber_hand_back(subscriber, fresh, made);
    if (!written) {
        free_handback(made);
        return false;
    }
    made->next = *list;
    *list = made;
    return true;
}

static struct ec_publisher *find_publisher(struct ec_event_peers *peers, uint32_t id)
{
    struct ec_publisher *publisher = peers->publishers;

    while (publisher != NULL && ec_publisher_port_id(publisher) != id)
        publisher = *ec_publisher_link(publisher);
    return publisher;
}

static struct ec_subscriber *find_subscriber(struct ec_event_peers *peers, uint32_t id)
{
    struct ec_subscriber *subscriber = peers->subscribers;

    while (subscriber != NULL && ec_subscriber_reader_id(subscriber) != id)
        subscriber = *ec_subscriber_link(subscriber);
    return subscriber;
}

/* Requests for all of them. With links first, so that the ports are there when their readers come. */
static int write_handbacks(struct ec_event_peers *peers, bool fresh, struct ec_handback **list,
                           struct ec_error *why)
{
    bool enough = true;

    pthread_mutex_lock(&peers->mutex);
    for (struct ec_subscriber *s = peers->subscribers; s != NULL && enough;
         s = *ec_subscriber_link(s))
        enough = add_handback(list, NULL, s, fresh);
    for (struct ec_publisher *p = peers->publishers; p != NULL && enough; p = *ec_publisher_link(p))
        enough = add_handback(list, p, NULL, fresh);
    pthread_mutex_unlock(&peers->mutex);
    return enough ? EC_OK
                  : ec_fail(why, EC_ERR_MEMORY, "no memory or descriptor to hand an object back");
}

/* Take the answer; *gone: the object was destroyed meanwhile, and *id is what the daemon calls it. */
static int take_back(struct ec_event_peers *peers, const struct ec_handback *handback,
                     struct ec_call *call, bool *gone, uint64_t *id, struct ec_error *why)
{
    int rc = EC_OK;

    pthread_mutex_lock(&peers->mutex);
    if (handback->of_port) {
        struct ec_publisher *publisher = find_publisher(peers, handback->id);

        *gone = publisher == NULL || !ec_event_member(call->result, "port_id", UINT32_MAX, id);
        if (publisher != NULL)
            rc = ec_publisher_take_back(publisher, call, why);
    } else {
        struct ec_subscriber *subscriber = find_subscriber(peers, handback->id);

        *gone = subscriber == NULL || !ec_event_member(call->result, "reader_id", UINT32_MAX, id);
        if (subscriber != NULL)
            rc = ec_subscriber_take_back(subscriber, call, why);
    }
    pthread_mutex_unlock(&peers->mutex);
    return rc;
}

static int send_handback(struct ec_client *client, const struct ec_handback *handback,
                         struct ec_error *why)
{
    struct ec_call call = {
        .method = handback->of_port ? "event.port.open" : "event.reader.open",
        .params = handback->params,
        .fds = handback->fds,
        .fd_count = handback->fd_count,
    };
    char params[64];
    bool gone = false;
    uint64_t id = 0;
    int rc = ec_connection_call(client->connection, &call, why);

    if (rc == EC_OK)
        rc = take_back(client->event_peers, handback, &call, &gone, &id, why);
    ec_call_finish(&call);
    if (rc == EC_OK)
        ec_event_peers_deliver_early(client->event_peers);
    if (rc == EC_OK && gone && id != 0) {
        snprintf(params, sizeof params, "{\"%s\":%llu}",
                 handback->of_port ? "port_id" : "reader_id", (unsigned long long)id);
        rc = call_simple(client, handback->of_port ? "event.port.close" : "event.reader.close",
                         params, why);
    }
    return rc;
}

/* The daemon does not accept this object as it was: then as a new one. */
static int send_fresh(struct ec_client *client, const struct ec_handback *refused,
                      struct ec_error *why)
{
    struct ec_event_peers *peers = client->event_peers;
    struct ec_handback *fresh = NULL;
    struct ec_publisher *publisher = NULL;
    struct ec_subscriber *subscriber = NULL;
    bool enough = true;
    int rc = EC_OK;

    pthread_mutex_lock(&peers->mutex);
    if (refused->of_port)
        publisher = find_publisher(peers, refused->id);
    else
        subscriber = find_subscriber(peers, refused->id);
    if (publisher != NULL || subscriber != NULL)
        enough = add_handback(&fresh, publisher, subscriber, true);
    pthread_mutex_unlock(&peers->mutex);
    if (!enough)
        return ec_fail(why, EC_ERR_MEMORY, "no memory or descriptor to hand an object back");
    if (fresh != NULL) {
        rc = send_handback(client, fresh, why);
        free_handback(fresh);
    }
    return rc;
}

static int hand_back_peers(struct ec_client *client, bool fresh, struct ec_error *why)
{
    struct ec_handback *list = NULL;
    int rc = write_handbacks(client->event_peers, fresh, &list, why);

    while (list != NULL) {
        struct ec_handback *next = list->next;

        if (rc == EC_OK) {
            rc = send_handback(client, list, why);
            if (rc == EC_ERR_STATE && !fresh)
                rc = send_fresh(client, list, why);
        }
        free_handback(list);
        list = next;
    }
    return rc;
}

/* ---- all of it ------------------------------------------------------------------------------- */

int ec_client_resume(void *context, struct ec_error *why)
{
    struct ec_client *client = context;
    bool resumed = true;
    int rc;

    ec_event_peers_forget_early(client->event_peers); /* before the first word of this one */
    rc = ec_client_hello(client, &resumed, why);
    if (rc == EC_OK)
        rc = ec_client_attach(client, why);
    if (rc == EC_OK)
        ec_client_breaker_find_order(client);
    if (rc == EC_OK)
        rc = ec_kept_declare(client, why);
    if (rc == EC_OK)
        rc = hand_back_types(client, why);
    if (rc == EC_OK)
        rc = hand_back_peers(client, !resumed, why);
    if (rc == EC_OK)
        rc = ec_kept_join_again(client, why);
    if (rc == EC_OK)
        rc = call_simple(client, "client.resumed", "{}", why);
    return rc;
}
