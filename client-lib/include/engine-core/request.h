/* engine-core/request.h - ask another process and get an answer, or an error at the deadline.
 *
 * A request is an event, and so is its reply; both types begin with the fields of EC_REQUEST_FIELDS.
 * Whoever reads the request's type may reply; the first reply counts. There is no daemon on the path.
 *
 *     #define PATH_QUERY(FIELD, ARRAY) EC_REQUEST_FIELDS(FIELD) FIELD(float, x) FIELD(float, y)
 *     EC_EVENT_STRUCT(path_query, "game.path_query", PATH_QUERY);
 *
 * The side that asks:
 *
 *     if (ec_requester_claim(requester, sizeof *query, (void **)&query) == EC_OK) {
 *         query->x = 1.0f;
 *         ec_requester_send(requester, 50000000, on_path, unit, NULL);
 *     }
 *     …
 *     ec_requester_poll(requester, 100); // once per frame: calls on_path
 *
 * The side that replies:
 *
 *     while (ec_replier_next(replier, &request) == EC_OK) {
 *         rc = ec_replier_claim(replier, &request, sizeof *path, (void **)&path);
 *         if (rc == EC_OK)
 *             find_path(path, request.payload);
 *         if (ec_replier_done(replier) == EC_OK && rc == EC_OK)
 *             ec_replier_send(replier, EC_OK);
 *     }
 *
 * Every request that was sent ends exactly once: with its reply, with EC_ERR_TIMEOUT at the first poll
 * behind its deadline that finds none, or with EC_ERR_STATE when the requester is destroyed. A reply
 * that comes after that is dropped and counted. Payloads are read in place: see ec_reply_fn.
 *
 * Thread:    create and destroy from any thread; everything else from the one that publishes.
 * Ownership: the publisher stays the caller's, may publish other events too, and outlives what uses it.
 * Cost:      no system call, no lock and no allocation, but for sleeping in ec_requester_wait and waking
 *            who sleeps. A deadline costs O(log n) of the outstanding requests. */
#ifndef ENGINE_CORE_REQUEST_H
#define ENGINE_CORE_REQUEST_H

#include <engine-core/publisher.h>
#include <engine-core/subscriber.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a payload begins with, filled in by send. As fields of a type: EC_REQUEST_FIELDS. */
struct ec_request_head {
    uint64_t correlation; /* of the request, unique within the requester */
    uint64_t requester;   /* unique within the run of the daemon */
    int64_t deadline_ns;  /* real time; in a reply that of its request */
    int64_t status;       /* of a reply: EC_OK or the replier's error; 0 in a request */
};

#define EC_REQUEST_FIELDS(FIELD)                                                                   \
    FIELD(uint64_t, correlation)                                                                   \
    FIELD(uint64_t, requester)                                                                     \
    FIELD(int64_t, deadline_ns)                                                                    \
    FIELD(int64_t, status)

/* ---- asking ---------------------------------------------------------------------------------- */

struct ec_requester; /* opaque */

#define EC_REQUESTS_OUTSTANDING_MAX 65536

/* Zero means the default; publisher, request and reply are required. */
struct ec_requester_desc {
    struct ec_publisher *publisher;
    const char *request;      /* names of registered types */
    const char *reply;        /* */
    uint32_t outstanding_max; /* 1..EC_REQUESTS_OUTSTANDING_MAX; default 1,024 */
};

struct ec_reply {
    uint64_t correlation;
    int status;          /* EC_OK, what the replier said, or EC_ERR_TIMEOUT, _STALE or _STATE */
    uint32_t bytes;      /* of the payload; 0 without a reply */
    const void *payload; /* begins with struct ec_request_head; NULL without a reply */
    uint32_t sender;     /* client id of the replier */
};

/* The end of a request. The payload is provisional, as that of every event: in the rare case that it was
 * overwritten while the call-back used it, the call-back comes once more with EC_ERR_STALE, and what it
 * saw must be thrown away. It may claim and send the next request. */
typedef void ec_reply_fn(void *context, const struct ec_reply *reply);

/* Returns EC_OK, EC_ERR_PARAM (names what is missing or out of range), EC_ERR_TYPE (names the type that is not
 *         registered), EC_ERR_SIZE (the type has no room for struct ec_request_head), EC_ERR_MEMORY, and
 *         what ec_subscriber_create returns. */
EC_API int ec_requester_create(struct ec_client *client, const struct ec_requester_desc *desc,
                               struct ec_requester **requester, struct ec_error *why);
/* Ends what is outstanding with EC_ERR_STATE. Accepts NULL. */
EC_API void ec_requester_destroy(struct ec_requester *requester);

/* Reserve room for a request of bytes, struct ec_request_head included. Until it is sent nothing else may
 * be claimed from the publisher; the same holds for ec_replier_claim.
 *
 * Returns EC_OK, EC_ERR_LIMIT (outstanding_max requests are on their way), or what ec_publisher_claim
 *         returns; EC_ERR_SIZE also for less than the head. */
EC_API int ec_requester_claim(struct ec_requester *requester, size_t bytes, void **payload);

/* Send what was claimed; fn hears the end within timeout_ns (more than 0) and the next poll.
 * correlation may be NULL.
 *
 * Returns EC_OK, EC_ERR_STATE (nothing was claimed), EC_ERR_PARAM (no fn, no timeout). */
EC_API int ec_requester_send(struct ec_requester *requester, int64_t timeout_ns, ec_reply_fn *fn,
                             void *context, uint64_t *correlation);

/* Forget a request: its fn is not called any more. EC_OK or EC_ERR_STALE (it has ended already). */
EC_API int ec_requester_cancel(struct ec_requester *requester, uint64_t correlation);

/* Take up to max replies, then end the requests whose deadline has passed. Returns how many ended. */
EC_API int ec_requester_poll(struct ec_requester *requester, uint32_t max);

/* Sleep until there is something to poll: a reply, or a deadline that has passed. timeout_ns < 0 waits
 * without end. Returns EC_OK, EC_ERR_TIMEOUT, EC_ERR_SYSTEM. */
EC_API int ec_requester_wait(struct ec_requester *requester, int64_t timeout_ns);

struct ec_requester_stats {
    uint64_t sent;
    uint64_t replied;
    uint64_t timed_out;
    uint64_t stale;   /* replies that were overwritten while they were used */
    uint64_t late;    /* replies to a request that had ended */
    uint64_t refused; /* replies without a whole head */
    uint64_t limited; /* claims beyond outstanding_max */
    uint32_t outstanding;
};

EC_API void ec_requester_stats(const struct ec_requester *requester,
                               struct ec_requester_stats *stats);

/* ---- replying -------------------------------------------------------------------------------- */

struct ec_replier; /* opaque */

/* All three are required. */
struct ec_replier_desc {
    struct ec_publisher *publisher;
    const char *request; /* names of registered types */
    const char *reply;
};

/* Copy it to reply later; its payload goes with ec_replier_done. */
struct ec_request {
    struct ec_request_head head;
    uint32_t sender; /* client id of who asks */
    uint32_t bytes;
    const void *payload; /* begins with the head; provisional until ec_replier_done */
};

/* Errors as of ec_requester_create. */
EC_API int ec_replier_create(struct ec_client *client, const struct ec_replier_desc *desc,
                             struct ec_replier **replier, struct ec_error *why);
EC_API void ec_replier_destroy(struct ec_replier *replier); /* accepts NULL */

/* The next request whose deadline has not passed, in place. It stays until ec_replier_done.
 * Returns EC_OK or EC_AGAIN. */
EC_API int ec_replier_next(struct ec_replier *replier, struct ec_request *request);

/* EC_OK when the request was whole all the time; EC_ERR_STALE when it must be thrown away, and with it a
 * reply that was claimed; EC_ERR_STATE without next. */
EC_API int ec_replier_done(struct ec_replier *replier);

/* Reserve room for the reply to request, now or later. Returns what ec_publisher_claim returns. */
EC_API int ec_replier_claim(struct ec_replier *replier, const struct ec_request *request,
                            size_t bytes, void **payload);

/* Send what was claimed. status is EC_OK or an error of the replier's own.
 * Returns EC_OK or EC_ERR_STATE (nothing is claimed). */
EC_API int ec_replier_send(struct ec_replier *replier, int status);

/* Sleep until there is a request; as ec_subscriber_wait. */
EC_API int ec_replier_wait(struct ec_replier *replier, int64_t timeout_ns);

struct ec_replier_stats {
    uint64_t requests;
    uint64_t replied;
    uint64_t expired; /* requests that were read behind their deadline */
    uint64_t refused; /* requests without a whole head */
};

EC_API void ec_replier_stats(const struct ec_replier *replier, struct ec_replier_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
