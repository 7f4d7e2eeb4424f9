/* feed.h - notifications to whoever subscribed: bounded, counted, numbered, and replayed after a break.
 *
 *     publish --> item (one text, shared) --> ring of the last items      (for since)
 *                   |
 *                   +--> subscription --> queue of references --> connection
 *
 * An item has one text for all its subscribers; their queues hold references. What a slow connection
 * does not take waits in its subscription's queue; beyond the bound the oldest are dropped, and the next
 * notification says how many (lost). A subscription may ask for less: with a largest rate, items of a
 * key that come faster are passed over; with the newest only, one item of each key waits, and a newer
 * one takes its place. Both are counted, too (skipped): each item that a subscription is for is sent,
 * lost or skipped.
 *
 * Each notification carries seq, which counts the items of this run of the daemon. Who subscribes with
 * since {instance, seq} gets what came after it from the ring, or one notification with gap: {reason,
 * from, to}, which says that some are missing for good. So that there is something to replay after a
 * broken connection, a subscription goes on without its client for control.replay_s, but only as long as
 * the ring holds all that came since: nothing is kept for one that could not be replayed any more.
 *
 * Thread: loop. */
#ifndef ENGINE_CORED_CLIENTS_FEED_H
#define ENGINE_CORED_CLIENTS_FEED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "daemon/counters.h"
#include "foundation/error.h"
#include "foundation/json/json_span.h"
#include "foundation/json/json_writer.h"
#include "proto/tables.h"

struct client;
struct config;
struct feed;
struct feed_item;

#define FEED_FILTER_BYTES_MAX 1024

/* What an item is about; what it means is the owner's. */
struct feed_topic {
    uint64_t key;  /* rates and the newest are by key: a type, a module */
    uint32_t rank; /* a level */
};

struct feed_desc {
    const char *method; /* of the notifications */
    uint64_t instance;
    const struct config *config;
    struct counters *counters;
    struct own_memory *own_memory; /* where it takes its memory from; NULL: the C library */
    int delivered, lost, skipped;  /* rows of the counters; -1: not counted */
    /* Is an item for a subscription with this filter? */
    bool (*wants)(const void *filter, const struct feed_topic *topic);
    /* Is all that the second filter wants also wanted by the first? */
    bool (*covers)(const void *filter, const void *other);
    /* Lost by a subscription's queue; may be NULL. */
    void (*on_lost)(void *context, uint64_t key, uint64_t count);
    /* The first subscription is there (true), or the last is gone; may be NULL. */
    void (*on_used)(void *context, bool used);
    void *context;
    bool keeps_all; /* items enter the ring also when nobody wants them */
};

struct feed_since {
    bool given;
    uint64_t instance, seq;
};

struct feed_subscription_desc {
    const void *filter; /* copied */
    size_t filter_bytes;
    bool newest_only;    /* one item of each key waits, not all of them */
    int64_t interval_ns; /* between two items of a key; 0: all of them */
    struct feed_since since;
    uint32_t last; /* with keeps_all and no since: begin with so many of the last items */
};

/* Returns EC_OK or EC_ERR_MEMORY. */
int feed_create(uv_loop_t *loop, const struct feed_desc *desc, struct feed **feed,
                struct ec_error *why);
void feed_destroy(struct feed *feed); /* accepts NULL; needs one more turn of the loop */

/* Returns EC_OK, EC_ERR_LIMIT (too many), EC_ERR_PARAM (since.seq is not reached yet), EC_ERR_MEMORY. */
int feed_add(struct feed *feed, struct client *client, const struct feed_subscription_desc *desc,
             uint32_t *id, struct ec_error *why);
/* Could it be added? */
int feed_may_add(const struct feed *feed, const struct client *client,
                 const struct feed_subscription_desc *desc, struct ec_error *why);
bool feed_has(const struct feed *feed, const struct client *client, uint32_t id);
/* false: this client has no such subscription. */
bool feed_remove(struct feed *feed, const struct client *client, uint32_t id);
/* The client is gone. */
void feed_remove_client(struct feed *feed, const struct client *client);

bool feed_is_used(const struct feed *feed);
uint64_t feed_seq(const struct feed *feed); /* of the last item */
/* How many connected subscriptions want such items. */
uint32_t feed_count(const struct feed *feed, const struct feed_topic *topic);

/* Walk over the filters of all subscriptions: NULL begins and ends. */
const void *feed_next_filter(const struct feed *feed, const void *filter);

/* Must an item of this topic be built now? false: nobody wants one, or all who do have had their share
 * of it; these are told with feed_pass_over(). */
bool feed_takes(const struct feed *feed, const struct feed_topic *topic, int64_t now_ns);
void feed_pass_over(struct feed *feed, const struct feed_topic *topic);

/* Publish: members is the text of the params without braces and without subscription_id and seq, such
 * as "\"level\":2". What is larger than a line may be is lost. */
void feed_publish(struct feed *feed, const struct feed_topic *topic, struct ec_json_span members,
                  int64_t now_ns);

/* So many items were lost before anybody knew what they were: all subscriptions are told. */
void feed_lose(struct feed *feed, uint64_t count);

/* The ….unsubscribe of a feed, and its rehearsal: write the result {subscription_id}. */
struct request;
int feed_end_by_request(struct feed *feed, struct request *request, uint32_t id);

/* Parse the parameters that all subscriptions share. Each may be absent (present is false).
 *
 * Returns EC_OK or EC_ERR_PARAM. */
struct param;
int feed_parse_pace(const struct param *mode, const struct param *max_rate_hz,
                    struct feed_subscription_desc *desc, struct ec_error *why);
int feed_parse_since(const struct param *since, struct feed_subscription_desc *desc,
                     struct ec_error *why);

#endif
