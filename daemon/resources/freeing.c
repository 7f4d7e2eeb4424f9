/* freeing.c - a list of answers, each with the number of the last free that it waits for. */
#include "resources/freeing.h"

#include <stdlib.h>
#include <uv.h>

#include "daemon/request.h"
#include "resources/asset_heap.h"

struct waiting_answer {
    struct waiting_answer *next;
    struct freeing *freeing;
    struct reply *reply;
    uint64_t ordered; /* goes out when the heap has come so far */
};

struct freeing {
    struct asset_heap *heap;
    struct waiting_answer *answers;
    uv_async_t reclaimed;
};

static void on_gone(void *context);
static void on_heap_reclaimed(void *context);
static void on_reclaimed(uv_async_t *async);
static void on_closed(uv_handle_t *handle);

int freeing_create(struct uv_loop_s *loop, struct asset_heap *heap, struct freeing **freeing,
                   struct ec_error *why)
{
    struct freeing *made = calloc(1, sizeof *made);

    *freeing = NULL;
    if (made == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory");
    made->heap = heap;
    if (uv_async_init(loop, &made->reclaimed, on_reclaimed) < 0) {
        free(made);
        return ec_fail(why, EC_ERR_SYSTEM, "no wake-up for the asset heap");
    }
    made->reclaimed.data = made;
    asset_heap_on_reclaimed(heap, on_heap_reclaimed, made);
    *freeing = made;
    return EC_OK;
}

void freeing_destroy(struct freeing *freeing)
{
    if (freeing == NULL)
        return;
    asset_heap_on_reclaimed(freeing->heap, NULL, NULL);
    while (freeing->answers != NULL) { /* connections are gone by now; for a test without them */
        struct waiting_answer *answer = freeing->answers;

        freeing->answers = answer->next;
        free(answer);
    }
    uv_close((uv_handle_t *)&freeing->reclaimed, on_closed);
}

int freeing_defer(struct freeing *freeing, struct request *request, struct ec_json_writer **result)
{
    const uint64_t ordered = asset_heap_ordered(freeing->heap);
    struct waiting_answer *answer;

    if (asset_heap_done(freeing->heap) == ordered)
        return EC_OK;
    answer = calloc(1, sizeof *answer);
    /* Without memory for that the answer goes out a little early. */
    if (answer == NULL || request_defer(request, on_gone, answer, &answer->reply) < 0) {
        free(answer);
        return EC_OK;
    }
    answer->ordered = ordered;
    answer->freeing = freeing;
    answer->next = freeing->answers;
    freeing->answers = answer;
    *result = reply_result(answer->reply);
    uv_async_send(&freeing->reclaimed); /* it may be back since, and nobody will say so again */
    return EC_AGAIN;
}

static void unlink_answer(struct waiting_answer *answer)
{
    struct waiting_answer **at = &answer->freeing->answers;

    while (*at != answer)
        at = &(*at)->next;
    *at = answer->next;
}

static void on_gone(void *context)
{
    struct waiting_answer *answer = context;

    unlink_answer(answer);
    free(answer);
}

static void on_heap_reclaimed(void *context)
{
    struct freeing *freeing = context;

    uv_async_send(&freeing->reclaimed);
}

static void on_reclaimed(uv_async_t *async)
{
    struct freeing *freeing = async->data;
    const uint64_t done = asset_heap_done(freeing->heap);
    struct waiting_answer *answer = freeing->answers;

    while (answer != NULL) {
        struct reply *reply = answer->reply;

        if (answer->ordered > done) {
            answer = answer->next;
            continue;
        }
        unlink_answer(answer);
        free(answer);
        reply_finish(reply); /* which may bring new requests in */
        answer = freeing->answers;
    }
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}
