/* feed.c - see feed.h. */
#include "clients/feed.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "clients/clients.h"
#include "daemon/config.h"
#include "daemon/own_memory.h"
#include "foundation/real_time.h"
#include "proto/line.h"

#define SUBSCRIPTIONS_MAX 1024
#define SUBSCRIPTIONS_OF_CLIENT_MAX 64
#define ABSENT_MAX 32            /* subscriptions whose client is gone */
#define OUTPUT_BYTES (64 * 1024) /* a connection with more unsent bytes waits in the queue */
#define HEAD_BYTES 192           /* what is put around an item's members, and the line */
#define FLUSH_MS 5

/* Shared by the ring and the queues of all subscriptions. */
struct feed_item {
    unsigned references;
    uint64_t seq;
    struct feed_topic topic;
    struct feed_item *newer; /* in the ring */
    size_t bytes;
    char members[];
};

struct queued {
    struct queued *next;
    struct feed_item *item;
};

/* Of a key in a subscription that does not take all items. */
struct pace {
    uint64_t key;
    int64_t next_ns;           /* the next item may go then */
    struct feed_item *waiting; /* the newest, for a subscription to the newest only; or NULL */
    UT_hash_handle hh;
};

struct subscription {
    struct subscription *next;
    struct client *client; /* NULL: it is gone */
    uint32_t id;
    uint64_t from_seq; /* what it wants is in the ring, or was, from the item behind this one */
    uint64_t left_seq; /* of one whose client is gone: the last item before that */
    int64_t end_ns;    /* and when it ends */
    bool newest_only;
    int64_t interval_ns;
    struct pace *paces;
    struct queued *first, *last;
    size_t queued_bytes;
    uint64_t lost, skipped; /* since the last notification */
    size_t filter_bytes;
    unsigned char filter[] __attribute__((aligned(16)));
};

struct feed {
    struct feed_desc desc;
    struct subscription *list;
    unsigned absent_count;
    uint32_t last_id;
    uint64_t seq;
    struct feed_item *oldest, *newest; /* the ring */
    size_t ring_bytes;
    uv_timer_t flush_timer;
    struct ec_json_writer params; /* scratch, kept */
};

static void flush(uv_timer_t *timer);
static void flush_in(struct feed *feed, uint64_t ms);
static void remove_at(struct feed *feed, struct subscription **at);
static void end_absent(struct feed *feed, int64_t now_ns);

static void count(struct feed *feed, int row, uint64_t n)
{
    if (row >= 0)
        counters_add(feed->desc.counters, (enum ec_counter_id)row, n);
}

static void *take(const struct feed *feed, size_t bytes)
{
    return own_memory_alloc(feed->desc.own_memory, OWN_MEMORY_FEEDS, bytes);
}

/* ---- items and the ring ------------------------------------------------------------------------ */

static struct feed_item *item_hold(struct feed_item *item)
{
    item->references++;
    return item;
}

static void item_release(struct feed_item *item)
{
    if (item != NULL && --item->references == 0)
        own_memory_free(item);
}

static void ring_drop_oldest(struct feed *feed)
{
    struct feed_item *oldest = feed->oldest;

    feed->oldest = oldest->newer;
    if (feed->oldest == NULL)
        feed->newest = NULL;
    feed->ring_bytes -= oldest->bytes;
    item_release(oldest);
}

static void ring_add(struct feed *feed, struct feed_item *item)
{
    const size_t most = (size_t)config_integer(feed->desc.config, EC_CONFIG_control_replay_bytes);

    if (feed->newest != NULL)
        feed->newest->newer = item_hold(item);
    else
        feed->oldest = item_hold(item);
    feed->newest = item;
    feed->ring_bytes += item->bytes;
    while (feed->ring_bytes > most)
        ring_drop_oldest(feed);
}

/* Does the ring hold everything that was put into it behind this one? */
static bool ring_reaches(const struct feed *feed, uint64_t seq)
{
    return seq >= feed->seq || (feed->oldest != NULL && feed->oldest->seq <= seq + 1);
}

/* ---- sending ----------------------------------------------------------------------------------- */

/* Put a notification together in the scratch text. NULL: no memory. */
static struct ec_json_writer *compose(struct feed *feed, const struct subscription *s, uint64_t seq,
                                      struct ec_json_span members)
{
    struct ec_json_writer *w = &feed->params;
    char head[80], lost[32] = "", skipped[40] = "";
    int head_bytes;
    char *at;

    if (w->capacity < members.bytes + HEAD_BYTES) {
        char *more = realloc(w->base, members.bytes + HEAD_BYTES);

        if (more == NULL)
            return NULL;
        w->base = more;
        w->capacity = members.bytes + HEAD_BYTES;
    }
    if (s->lost != 0)
        snprintf(lost, sizeof lost, ",\"lost\":%" PRIu64, s->lost);
    if (s->skipped != 0)
        snprintf(skipped, sizeof skipped, ",\"skipped\":%" PRIu64, s->skipped);
    head_bytes = snprintf(head, sizeof head,
                          "{\"subscription_id\":%" PRIu32 ",\"seq\":%" PRIu64 ",", s->id, seq);
    ec_json_writer_rewind(w, 0);
    at = mempcpy(w->base, head, (size_t)head_bytes);
    at = mempcpy(at, members.text, members.bytes);
    at = mempcpy(at, lost, strlen(lost));
    at = mempcpy(at, skipped, strlen(skipped));
    *at++ = '}';
    w->bytes = (size_t)(at - w->base);
    return w;
}

static void count_lost(struct feed *feed, struct subscription *s, const struct feed_topic *topic,
                       uint64_t n)
{
    s->lost += n;
    count(feed, feed->desc.lost, n);
    if (topic != NULL && feed->desc.on_lost != NULL)
        feed->desc.on_lost(feed->desc.context, topic->key, n);
}

/* For want of reading, as what the connection drops and counts itself. */
static void count_unread(struct feed *feed, struct subscription *s, const struct feed_topic *topic,
                         uint64_t n)
{
    s->client->lost_notifications += n;
    count_lost(feed, s, topic, n);
}

static void count_skipped(struct feed *feed, struct subscription *s)
{
    s->skipped++;
    count(feed, feed->desc.skipped, 1);
}

static void send_now(struct feed *feed, struct subscription *s, const struct feed_item *item)
{
    const struct ec_json_span members = { item->members, item->bytes };
    const struct ec_json_writer *w = compose(feed, s, item->seq, members);

    if (w == NULL || client_notify(s->client, feed->desc.method, w, NULL, 0) != EC_OK) {
        count_lost(feed, s, &item->topic, 1);
        return;
    }
    s->lost = s->skipped = 0;
    count(feed, feed->desc.delivered, 1);
}

static bool output_has_room(const struct subscription *s)
{
    return s->client->output != NULL &&
           s->client->output->pending(s->client->connection) < OUTPUT_BYTES;
}

/* ---- what waits -------------------------------------------------------------------------------- */

static void drop_first(struct subscription *s)
{
    struct queued *first = s->first;

    s->first = first->next;
    if (s->first == NULL)
        s->last = NULL;
    s->queued_bytes -= first->item->bytes;
    item_release(first->item);
    own_memory_free(first);
}

static void enqueue(struct feed *feed, struct subscription *s, struct feed_item *item)
{
    const size_t bound = (size_t)config_integer(feed->desc.config, EC_CONFIG_event_queue_bytes);
    struct queued *place = item->bytes <= bound ? take(feed, sizeof *place) : NULL;

    if (place == NULL) {
        count_unread(feed, s, &item->topic, 1);
        return;
    }
    *place = (struct queued) { .item = item_hold(item) };
    if (s->last != NULL)
        s->last->next = place;
    else
        s->first = place;
    s->last = place;
    s->queued_bytes += item->bytes;
    while (s->queued_bytes > bound) { /* oldest first */
        count_unread(feed, s, &s->first->item->topic, 1);
        drop_first(s);
    }
    flush_in(feed, FLUSH_MS);
}

static void send_or_enqueue(struct feed *feed, struct subscription *s, struct feed_item *item)
{
    if (s->first != NULL || !output_has_room(s))
        enqueue(feed, s, item);
    else
        send_now(feed, s, item);
}

/* ---- fewer than all ---------------------------------------------------------------------------- */

/* The row of a key; made when it is new. NULL: no memory. */
static struct pace *find_pace(struct subscription *s, uint64_t key)
{
    struct pace *pace;

    HASH_FIND(hh, s->paces, &key, sizeof key, pace);
    if (pace != NULL)
        return pace;
    pace = own_memory_alloc(own_memory_of(s), OWN_MEMORY_FEEDS, sizeof *pace);
    if (pace == NULL)
        return NULL;
    pace->key = key;
    HASH_ADD(hh, s->paces, key, sizeof pace->key, pace);
    return pace;
}

static bool has_pace(const struct subscription *s)
{
    return s->newest_only || s->interval_ns != 0;
}

/* One item of the key goes out now. Being late once is made up for, so that the rate is reached;
 * standing still is not. */
static void step_pace(const struct subscription *s, struct pace *pace, int64_t now_ns)
{
    pace->next_ns = now_ns - pace->next_ns < s->interval_ns ? pace->next_ns + s->interval_ns
                                                            : now_ns + s->interval_ns;
}

static void free_paces(struct subscription *s)
{
    struct pace *pace, *next;

    HASH_ITER(hh, s->paces, pace, next)
    {
        HASH_DEL(s->paces, pace);
        item_release(pace->waiting);
        own_memory_free(pace);
    }
}

static uint64_t ms_until(int64_t time_ns, int64_t now_ns)
{
    return time_ns <= now_ns ? 1 : (uint64_t)(time_ns - now_ns) / 1000000 + 1;
}

/* Send the newest items whose turn has come; the others have a later look. */
static void flush_newest(struct feed *feed, struct subscription *s)
{
    const int64_t now_ns = ec_real_ns();
    struct pace *pace, *next;

    HASH_ITER(hh, s->paces, pace, next)
    {
        if (pace->waiting == NULL)
            continue;
        if (pace->next_ns > now_ns) {
            flush_in(feed, ms_until(pace->next_ns, now_ns));
        } else if (!output_has_room(s)) {
            flush_in(feed, FLUSH_MS);
        } else {
            send_now(feed, s, pace->waiting);
            step_pace(s, pace, now_ns);
            item_release(pace->waiting);
            pace->waiting = NULL;
        }
    }
}

/* The item takes the place of an older one of its key, or goes out if its turn has come. */
static void send_newest(struct feed *feed, struct subscription *s, struct pace *pace,
                        struct feed_item *item)
{
    if (pace->waiting != NULL)
        count_skipped(feed, s);
    item_release(pace->waiting);
    pace->waiting = item_hold(item);
    flush_newest(feed, s);
}

static void offer(struct feed *feed, struct subscription *s, struct feed_item *item, int64_t now_ns)
{
    struct pace *pace = has_pace(s) ? find_pace(s, item->topic.key) : NULL;

    if (pace != NULL && s->newest_only) {
        send_newest(feed, s, pace, item);
    } else if (pace != NULL && now_ns < pace->next_ns) {
        count_skipped(feed, s);
    } else {
        if (pace != NULL)
            step_pace(s, pace, now_ns);
        send_or_enqueue(feed, s, item);
    }
}

static void flush_in(struct feed *feed, uint64_t ms)
{
    uv_timer_t *timer = &feed->flush_timer;

    if (!uv_is_active((uv_handle_t *)timer) || uv_timer_get_due_in(timer) > ms)
        uv_timer_start(timer, flush, ms, 0);
}

static void flush(uv_timer_t *timer)
{
    struct feed *feed = timer->data;

    for (struct subscription *s = feed->list; s != NULL; s = s->next) {
        if (s->client == NULL)
            continue;
        while (s->first != NULL && output_has_room(s)) {
            send_now(feed, s, s->first->item);
            drop_first(s);
        }
        if (s->first != NULL)
            flush_in(feed, FLUSH_MS);
        if (s->newest_only)
            flush_newest(feed, s);
    }
    end_absent(feed, ec_real_ns());
}

/* ---- publishing -------------------------------------------------------------------------------- */

static bool wants(const struct feed *feed, const struct subscription *s,
                  const struct feed_topic *topic)
{
    return feed->desc.wants(s->filter, topic);
}

/* Would it be passed over now? */
static bool is_sated(const struct subscription *s, uint64_t key, int64_t now_ns)
{
    struct pace *pace = NULL;

    if (s->newest_only || s->interval_ns == 0)
        return false;
    HASH_FIND(hh, s->paces, &key, sizeof key, pace);
    return pace != NULL && now_ns < pace->next_ns;
}

/* Could those whose client is gone still be replayed? */
static bool absent_are_reached(const struct feed *feed)
{
    for (const struct subscription *s = feed->list; s != NULL; s = s->next)
        if (s->client == NULL && !ring_reaches(feed, s->left_seq))
            return false;
    return true;
}

bool feed_takes(const struct feed *feed, const struct feed_topic *topic, int64_t now_ns)
{
    for (const struct subscription *s = feed->list; s != NULL; s = s->next)
        if (wants(feed, s, topic) && !is_sated(s, topic->key, now_ns))
            return true;
    return feed->desc.keeps_all;
}

void feed_pass_over(struct feed *feed, const struct feed_topic *topic)
{
    for (struct subscription *s = feed->list; s != NULL; s = s->next)
        if (s->client != NULL && wants(feed, s, topic))
            count_skipped(feed, s);
}

void feed_publish(struct feed *feed, const struct feed_topic *topic, struct ec_json_span members,
                  int64_t now_ns)
{
    const bool fits = members.bytes + HEAD_BYTES <= EC_LINE_BYTES;
    struct feed_item *item = fits ? take(feed, sizeof *item + members.bytes) : NULL;

    feed->seq++;
    if (item != NULL) {
        *item = (struct feed_item) {
            .references = 1, .seq = feed->seq, .topic = *topic, .bytes = members.bytes
        };
        memcpy(item->members, members.text, members.bytes);
        ring_add(feed, item);
    }
    for (struct subscription *s = feed->list; s != NULL; s = s->next) {
        if (s->client == NULL || !wants(feed, s, topic))
            continue;
        if (item == NULL)
            count_lost(feed, s, topic, 1);
        else
            offer(feed, s, item, now_ns);
    }
    while (item == NULL && feed->oldest != NULL) /* nothing is replayed over a hole */
        ring_drop_oldest(feed);
    item_release(item);
    if (feed->absent_count > 0 && !absent_are_reached(feed))
        flush_in(feed, 1); /* not from here: the publisher is in the middle of something */
}

void feed_lose(struct feed *feed, uint64_t n)
{
    for (struct subscription *s = feed->list; s != NULL; s = s->next)
        if (s->client != NULL)
            count_lost(feed, s, NULL, n);
    while (n > 0 && feed->oldest != NULL) /* what lies before cannot be replayed without a gap */
        ring_drop_oldest(feed);
    feed->seq += n;
}

/* ---- since ------------------------------------------------------------------------------------- */

/* Was all that the new one wants put into the ring from this item on? */
static bool is_covered(const struct feed *feed, const struct subscription *fresh, uint64_t seq)
{
    if (feed->desc.keeps_all)
        return true;
    for (const struct subscription *s = feed->list; s != NULL; s = s->next)
        if (s != fresh && s->from_seq <= seq && feed->desc.covers(s->filter, fresh->filter) &&
            (s->newest_only || s->interval_ns <= fresh->interval_ns))
            return true;
    return false;
}

static void replay(struct feed *feed, struct subscription *s, uint64_t seq)
{
    const int64_t now_ns = ec_real_ns();

    for (struct feed_item *item = feed->oldest; item != NULL; item = item->newer)
        if (item->seq > seq && wants(feed, s, &item->topic))
            offer(feed, s, item, now_ns);
}

static void send_gap(struct feed *feed, struct subscription *s, uint64_t from, const char *reason)
{
    char text[128];
    int bytes = snprintf(text, sizeof text,
                         "\"gap\":{\"reason\":\"%s\",\"from\":%" PRIu64 ",\"to\":%" PRIu64 "}",
                         reason, from, feed->seq);
    const struct ec_json_writer *w =
        compose(feed, s, feed->seq, (struct ec_json_span) { text, (size_t)bytes });

    if (w != NULL)
        client_notify(s->client, feed->desc.method, w, NULL, 0); /* a full output counts it */
}

static void begin_since(struct feed *feed, struct subscription *s, const struct feed_since *since)
{
    if (since->instance != feed->desc.instance)
        send_gap(feed, s, since->seq, "instance");
    else if (since->seq == feed->seq)
        return;
    else if (!ring_reaches(feed, since->seq))
        send_gap(feed, s, since->seq, "overwritten");
    else if (!is_covered(feed, s, since->seq))
        send_gap(feed, s, since->seq, "not kept");
    else
        replay(feed, s, since->seq);
}

/* ---- subscriptions ----------------------------------------------------------------------------- */

int feed_may_add(const struct feed *feed, const struct client *client,
                 const struct feed_subscription_desc *desc, struct ec_error *why)
{
    unsigned all = 0, own = 0;

    for (const struct subscription *s = feed->list; s != NULL; s = s->next) {
        all += s->client != NULL;
        own += s->client == client;
    }
    if (all >= SUBSCRIPTIONS_MAX || own >= SUBSCRIPTIONS_OF_CLIENT_MAX)
        return ec_fail(why, EC_ERR_LIMIT,
                       "%u subscriptions, %u of them this client's; at most %d and %d are possible",
                       all, own, SUBSCRIPTIONS_MAX, SUBSCRIPTIONS_OF_CLIENT_MAX);
    if (desc->since.given && desc->since.instance == feed->desc.instance &&
        desc->since.seq > feed->seq)
        return ec_fail(why, EC_ERR_PARAM, "since.seq is %" PRIu64 ", the newest is %" PRIu64,
                       desc->since.seq, feed->seq);
    return EC_OK;
}

int feed_add(struct feed *feed, struct client *client, const struct feed_subscription_desc *desc,
             uint32_t *id, struct ec_error *why)
{
    struct subscription *s;
    const bool is_first = feed->list == NULL;
    int rc = feed_may_add(feed, client, desc, why);

    if (rc < 0)
        return rc;
    s = take(feed, sizeof *s + desc->filter_bytes);
    if (s == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory for a subscription");
    s->client = client;
    s->id = ++feed->last_id;
    s->from_seq = feed->seq;
    s->newest_only = desc->newest_only;
    s->interval_ns = desc->interval_ns;
    s->filter_bytes = desc->filter_bytes;
    if (desc->filter_bytes > 0)
        memcpy(s->filter, desc->filter, desc->filter_bytes);
    s->next = feed->list;
    feed->list = s;
    *id = s->id;
    if (desc->since.given)
        begin_since(feed, s, &desc->since);
    else if (desc->last > 0 && feed->oldest != NULL)
        replay(feed, s, feed->seq > desc->last ? feed->seq - desc->last : 0);
    if (is_first && feed->desc.on_used != NULL)
        feed->desc.on_used(feed->desc.context, true);
    return EC_OK;
}

static void drop_queue(struct subscription *s)
{
    while (s->first != NULL)
        drop_first(s);
    free_paces(s);
}

static void remove_at(struct feed *feed, struct subscription **at)
{
    struct subscription *s = *at;

    *at = s->next;
    feed->absent_count -= s->client == NULL;
    drop_queue(s);
    own_memory_free(s);
    if (feed->list != NULL)
        return;
    while (feed->oldest != NULL && !feed->desc.keeps_all)
        ring_drop_oldest(feed);
    if (feed->desc.on_used != NULL)
        feed->desc.on_used(feed->desc.context, false);
}

static struct subscription **find(struct feed *feed, const struct client *client, uint32_t id)
{
    struct subscription **at = &feed->list;

    while (*at != NULL && ((*at)->id != id || (*at)->client != client))
        at = &(*at)->next;
    return at;
}

bool feed_has(const struct feed *feed, const struct client *client, uint32_t id)
{
    for (const struct subscription *s = feed->list; s != NULL; s = s->next)
        if (s->id == id && s->client == client)
            return true;
    return false;
}

bool feed_remove(struct feed *feed, const struct client *client, uint32_t id)
{
    struct subscription **at = find(feed, client, id);

    if (client == NULL || *at == NULL)
        return false;
    remove_at(feed, at);
    return true;
}

/* ---- those whose client is gone ---------------------------------------------------------------- */

/* Of the same one there is no second: the first goes further back. */
static bool is_kept_already(const struct feed *feed, const struct subscription *s)
{
    for (const struct subscription *other = feed->list; other != NULL; other = other->next)
        if (other->client == NULL && other->from_seq <= s->from_seq &&
            other->newest_only == s->newest_only && other->interval_ns == s->interval_ns &&
            other->filter_bytes == s->filter_bytes &&
            memcmp(other->filter, s->filter, s->filter_bytes) == 0)
            return true;
    return false;
}

void feed_remove_client(struct feed *feed, const struct client *client)
{
    const int64_t keep_s = config_integer(feed->desc.config, EC_CONFIG_control_replay_s);
    struct subscription **at = &feed->list;

    while (*at != NULL) {
        struct subscription *s = *at;

        if (s->client != client) {
            at = &s->next;
        } else if (keep_s == 0 || feed->desc.keeps_all || feed->absent_count == ABSENT_MAX ||
                   is_kept_already(feed, s)) {
            remove_at(feed, at);
        } else {
            drop_queue(s);
            s->client = NULL;
            s->left_seq = feed->seq;
            s->end_ns = ec_real_ns() + keep_s * EC_NS_PER_S;
            feed->absent_count++;
            flush_in(feed, (uint64_t)keep_s * 1000);
            at = &s->next;
        }
    }
}

/* Their time is over, or what came since does not fit the ring any more. */
static void end_absent(struct feed *feed, int64_t now_ns)
{
    struct subscription **at = &feed->list;

    while (feed->absent_count > 0 && *at != NULL) {
        struct subscription *s = *at;

        if (s->client == NULL && (now_ns >= s->end_ns || !ring_reaches(feed, s->left_seq))) {
            remove_at(feed, at);
            continue;
        }
        if (s->client == NULL)
            flush_in(feed, ms_until(s->end_ns, now_ns));
        at = &s->next;
    }
}

/* ---- looking ----------------------------------------------------------------------------------- */

bool feed_is_used(const struct feed *feed)
{
    return feed->list != NULL;
}

uint64_t feed_seq(const struct feed *feed)
{
    return feed->seq;
}

uint32_t feed_count(const struct feed *feed, const struct feed_topic *topic)
{
    uint32_t wanting = 0;

    for (const struct subscription *s = feed->list; s != NULL; s = s->next)
        wanting += s->client != NULL && wants(feed, s, topic);
    return wanting;
}

const void *feed_next_filter(const struct feed *feed, const void *filter)
{
    const struct subscription *s = feed->list;

    if (filter != NULL)
        s = ((const struct subscription *)((const char *)filter -
                                           offsetof(struct subscription, filter)))
                ->next;
    return s != NULL ? s->filter : NULL;
}

/* ---- life -------------------------------------------------------------------------------------- */

int feed_create(uv_loop_t *loop, const struct feed_desc *desc, struct feed **out,
                struct ec_error *why)
{
    struct feed *feed = calloc(1, sizeof *feed);

    *out = NULL;
    if (feed == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory for the feed %s", desc->method);
    feed->desc = *desc;
    ec_json_writer_init_growing(&feed->params, ec_json_grow_heap, NULL, EC_LINE_BYTES);
    uv_timer_init(loop, &feed->flush_timer);
    uv_unref((uv_handle_t *)&feed->flush_timer);
    feed->flush_timer.data = feed;
    *out = feed;
    return EC_OK;
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void feed_destroy(struct feed *feed)
{
    if (feed == NULL)
        return;
    feed->desc.on_used = NULL;
    while (feed->list != NULL)
        remove_at(feed, &feed->list);
    while (feed->oldest != NULL)
        ring_drop_oldest(feed);
    free(feed->params.base);
    uv_close((uv_handle_t *)&feed->flush_timer, on_closed);
}
