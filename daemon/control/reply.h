/* reply.h - the text of an answer, and answers that come later.
 *
 * Thread: loop. */
#ifndef ENGINE_CORED_CONTROL_REPLY_H
#define ENGINE_CORED_CONTROL_REPLY_H

#include "control/dispatcher.h"

/* A batch with requests that are answered later: its answers are collected until the last one. */
struct batch {
    struct caller *caller;
    struct ec_json_writer *answers; /* an open array: the dispatcher's, then own */
    struct ec_json_writer own;
    unsigned waiting; /* answers to come, and one while the batch is being read */
};

/* One request on its way: struct request's call. */
struct call {
    struct dispatcher *dispatcher;
    struct caller *caller;
    struct ec_json_span id; /* empty: a notification */
    bool is_in_batch;
    struct batch **batch;   /* of the line; made by the first deferred reply */
    struct reply *deferred; /* NULL: not deferred */
    int fds[EC_LINE_FDS];   /* to go with the reply; own duplicates */
    unsigned fd_count;
};

struct reply {
    TAILQ_ENTRY(reply) link;
    struct dispatcher *dispatcher;
    struct caller *caller;
    struct batch *batch; /* NULL: a line of its own */
    void (*on_gone)(void *context);
    void *context;
    struct ec_json_writer text;
    struct ec_json_writer data;
    size_t id_bytes; /* 0: a notification; nothing is sent */
    char id[];
};

/* Writers that grow on the heap, up to bytes_max. */
void reply_writer_init(struct ec_json_writer *writer, size_t bytes_max);
void reply_writer_finish(struct ec_json_writer *writer);
/* Empty it; a buffer that has become large goes back. */
void reply_writer_reset(struct ec_json_writer *writer);

/* {"jsonrpc":"2.0","id":ID,"result": and then one value, which reply_end checks for being there.
 * reply_end returns EC_OK, EC_ERR_SIZE, EC_ERR_MEMORY or EC_ERR_INTERNAL (no value). */
void reply_begin(struct ec_json_writer *writer, struct ec_json_span id);
int reply_end(struct ec_json_writer *writer);

/* A whole error answer. data may be empty; text may be NULL: that of the code. */
void reply_error(struct ec_json_writer *writer, struct ec_json_span id, int code, const char *text,
                 const struct ec_json_writer *data);

/* Take a deferred reply back: its request failed after all. */
void reply_cancel(struct reply *reply);
/* Its connection is gone. */
void reply_abandon(struct reply *reply);

/* Add an answer to the open array of a batch. What would make the line longer than the client may
 * receive becomes an error with the same id; answers_left says for how many small ones to keep room. */
void batch_add(struct ec_json_writer *answers, struct ec_json_writer *answer,
               struct ec_json_span id, size_t answers_left);
/* One answer less to wait for; the last one sends the line. */
void batch_settle(struct batch *batch);
/* End the array and send it, unless it is empty. */
void batch_send(struct ec_json_writer *answers, struct caller *caller);

#endif
