/* heritage.c - keep the heritage in memory and its file the same; see heritage.h.
 *
 * Ids are noted in blocks, so that most of them cost no write: the file says the end of the block. What many
 * requests of one read change, such as the leases of clients that all come back, is written once, before the
 * first of them is answered. */
#include "daemon/heritage.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "daemon/before_answers.h"
#include "daemon/boot_id.h"
#include "daemon/fd_store.h"
#include "daemon/heritage_text.h"
#include "daemon/log.h"
#include "daemon/services.h"
#include "daemon/state_file.h"
#include "proto/line.h"

#define ID_BLOCK 256u
#define FILE_BYTES_MAX (4u << 20) /* of HERITAGE_LEASES_MAX leases and more */
#define RETRY_MS 1000             /* until a file that could not be written is tried again */
#define SUFFIX ".state"
#define PATH_BYTES (EC_SOCKET_PATH_BYTES + 512)

struct heritage {
    char path[PATH_BYTES];
    bool existed;
    uint64_t instance_before;
    uint32_t last_id_before[HERITAGE_IDS];
    bool has_clock_before, has_breaker_before, ended_before;
    struct clock_heritage clock_before;
    struct breaker_heritage breaker_before;
    struct heritage_content content;
    bool is_ours;   /* the socket is: nobody else writes the file */
    bool is_due;    /* something has changed since it was written */
    bool is_behind; /* it could not be written */
    struct before_answers *before_answers;
    uv_timer_t *retry;
};

static void load(struct heritage *heritage);
static void begin(struct heritage *heritage, uint64_t instance);
static void end(struct heritage *heritage, bool stays);
static void save(struct heritage *heritage);
static void save_before_answers(struct heritage *heritage);
static void save_if_due(void *context);
static void on_retry(uv_timer_t *timer);
static void on_closed(uv_handle_t *handle);

int heritage_init(struct services *services, struct ec_error *why)
{
    struct heritage *heritage = calloc(1, sizeof *heritage);

    if (heritage == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory for the heritage");
    services->heritage = heritage;
    heritage->before_answers = services->before_answers;
    before_answers_add(heritage->before_answers, save_if_due, heritage);
    snprintf(heritage->path, sizeof heritage->path, "%.*s" SUFFIX, EC_SOCKET_PATH_BYTES + 256,
             services->socket_path);
    load(heritage);
    heritage->content.runs += heritage->existed;
    heritage->retry = calloc(1, sizeof *heritage->retry);
    if (heritage->retry == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory for a timer");
    uv_timer_init(services->loop, heritage->retry);
    heritage->retry->data = heritage;
    uv_timer_start(heritage->retry, on_retry, RETRY_MS, RETRY_MS);
    uv_unref((uv_handle_t *)heritage->retry);
    return EC_OK;
}

int heritage_post_init(struct services *services, struct ec_error *why)
{
    (void)why;
    begin(services->heritage, services->instance);
    return EC_OK;
}

void heritage_shutdown(struct services *services)
{
    struct heritage *heritage = services->heritage;

    if (heritage == NULL)
        return;
    if (heritage->retry != NULL)
        uv_close((uv_handle_t *)heritage->retry, on_closed);
    if (heritage->is_ours)
        end(heritage, fd_store_is_used(services->fd_store));
    before_answers_remove(heritage->before_answers, heritage);
    heritage_content_finish(&heritage->content);
    free(heritage);
    services->heritage = NULL;
}

bool heritage_exists(const struct heritage *heritage)
{
    return heritage != NULL && heritage->existed;
}

bool heritage_counts(const struct heritage *heritage, bool kept)
{
    return heritage_exists(heritage) && (!heritage->ended_before || kept);
}

bool heritage_is_ours(const struct heritage *heritage)
{
    return heritage != NULL && heritage->is_ours;
}

uint32_t heritage_runs(const struct heritage *heritage)
{
    return heritage != NULL ? heritage->content.runs : 0;
}

uint64_t heritage_instance(const struct heritage *heritage)
{
    return heritage != NULL ? heritage->instance_before : 0;
}

bool heritage_clock(const struct heritage *heritage, bool kept, struct clock_heritage *clock)
{
    if (!heritage_counts(heritage, kept) || !heritage->has_clock_before)
        return false;
    *clock = heritage->clock_before;
    return true;
}

void heritage_set_clock(struct heritage *heritage, const struct clock_heritage *clock)
{
    if (heritage == NULL)
        return;
    heritage->content.clock = *clock;
    heritage->content.has_clock = true;
    save(heritage);
}

const struct checkpoint_heritage *heritage_checkpoint(const struct heritage *heritage,
                                                      unsigned index)
{
    for (unsigned i = 0; heritage != NULL && i < HERITAGE_CHECKPOINTS; i++)
        if (heritage->content.checkpoints[i] != NULL && index-- == 0)
            return heritage->content.checkpoints[i];
    return NULL;
}

void heritage_checkpoint_add(struct heritage *heritage,
                             const struct checkpoint_heritage *checkpoint)
{
    struct checkpoint_heritage **place;

    if (heritage == NULL)
        return;
    place = &heritage->content.checkpoints[checkpoint->id % HERITAGE_CHECKPOINTS];
    if (*place == NULL)
        *place = malloc(sizeof **place);
    if (*place != NULL) /* else it ends with this run */
        **place = *checkpoint;
}

void heritage_checkpoint_remove(struct heritage *heritage, uint64_t id)
{
    struct checkpoint_heritage **place;

    if (heritage == NULL)
        return;
    place = &heritage->content.checkpoints[id % HERITAGE_CHECKPOINTS];
    if (*place != NULL && (*place)->id == id) {
        free(*place);
        *place = NULL;
    }
}

bool heritage_breaker(const struct heritage *heritage, bool kept, struct breaker_heritage *breaker)
{
    if (!heritage_counts(heritage, kept) || !heritage->has_breaker_before)
        return false;
    *breaker = heritage->breaker_before;
    return true;
}

void heritage_set_breaker(struct heritage *heritage, const struct breaker_heritage *breaker)
{
    if (heritage == NULL)
        return;
    heritage->content.breaker = *breaker;
    heritage->content.has_breaker = true;
    save_before_answers(heritage);
}

uint32_t heritage_last_id(const struct heritage *heritage, enum heritage_id kind)
{
    return heritage != NULL ? heritage->last_id_before[kind] : 0;
}

void heritage_note_id(struct heritage *heritage, enum heritage_id kind, uint32_t id)
{
    uint32_t *last;

    if (heritage == NULL || id <= heritage->content.last_id[kind])
        return;
    last = &heritage->content.last_id[kind];
    *last = id <= UINT32_MAX - ID_BLOCK ? id + ID_BLOCK : UINT32_MAX;
    save(heritage);
}

const struct lease *heritage_lease(const struct heritage *heritage, unsigned index)
{
    return heritage != NULL && index < heritage->content.lease_count
               ? &heritage->content.leases[index]
               : NULL;
}

static struct lease *find_lease(struct heritage *heritage, uint32_t client_id)
{
    for (unsigned i = 0; i < heritage->content.lease_count; i++)
        if (heritage->content.leases[i].client_id == client_id)
            return &heritage->content.leases[i];
    return NULL;
}

void heritage_lease_add(struct heritage *heritage, const struct lease *lease)
{
    struct heritage_content *content;
    struct lease *place;

    if (heritage == NULL)
        return;
    content = &heritage->content;
    place = find_lease(heritage, lease->client_id);
    if (place == NULL && content->lease_count < HERITAGE_LEASES_MAX) {
        struct lease *grown =
            realloc(content->leases, (content->lease_count + 1) * sizeof *content->leases);

        if (grown == NULL)
            return; /* it cannot come back as the client that it was */
        content->leases = grown;
        place = &grown[content->lease_count++];
    }
    if (place == NULL)
        return;
    *place = *lease;
    save_before_answers(heritage);
}

void heritage_lease_remove(struct heritage *heritage, uint32_t client_id)
{
    struct lease *place = heritage != NULL ? find_lease(heritage, client_id) : NULL;

    if (place == NULL)
        return;
    *place = heritage->content.leases[--heritage->content.lease_count];
    save_before_answers(heritage);
}

/* ---- the file -------------------------------------------------------------------------------- */

static void load(struct heritage *heritage)
{
    char boot_id[BOOT_ID_BYTES];
    struct heritage_content found = { 0 };
    struct ec_error why = { 0 };
    size_t bytes;
    char *text = state_file_read(heritage->path, FILE_BYTES_MAX, &bytes, &why);
    int rc = text != NULL ? heritage_content_read(text, bytes, &found, &why) : EC_ERR_NOT_FOUND;

    free(text);
    if (rc < 0 && why.text[0] != '\0')
        log_warning("heritage", "%s is of no use: %s; the clocks begin anew", heritage->path,
                    why.text);
    boot_id_read(boot_id);
    if (rc == EC_OK && strcmp(found.boot_id, boot_id) == 0) {
        heritage->existed = true;
        heritage->instance_before = found.instance;
        memcpy(heritage->last_id_before, found.last_id, sizeof found.last_id);
        heritage->has_clock_before = found.has_clock;
        heritage->clock_before = found.clock;
        heritage->has_breaker_before = found.has_breaker;
        heritage->breaker_before = found.breaker;
        heritage->ended_before = found.ended;
        heritage->content = found;
        heritage->content.ended = false;
        return;
    }
    heritage_content_finish(&found);
    memcpy(heritage->content.boot_id, boot_id, sizeof boot_id);
}

static void begin(struct heritage *heritage, uint64_t instance)
{
    heritage->is_ours = true;
    heritage->content.instance = instance;
    for (unsigned i = 0; i < HERITAGE_IDS; i++) /* the first block of each */
        heritage->content.last_id[i] = heritage->last_id_before[i] + ID_BLOCK;
    save(heritage);
}

static void end(struct heritage *heritage, bool stays)
{
    heritage->content.ended = heritage->content.lease_count == 0;
    if (heritage->content.ended && !stays)
        unlink(heritage->path);
    else
        save(heritage);
}

static void save(struct heritage *heritage)
{
    struct ec_json_writer writer;
    int rc;

    if (!heritage->is_ours)
        return;
    ec_json_writer_init_growing(&writer, ec_json_grow_heap, NULL, FILE_BYTES_MAX);
    heritage_content_write(&heritage->content, &writer);
    rc = ec_json_writer_status(&writer) == EC_OK
             ? state_file_replace(heritage->path, writer.base, writer.bytes)
             : ENOMEM;
    free(writer.base);
    if (rc != 0 && !heritage->is_behind)
        log_warning("heritage",
                    "cannot write %s: %s; if the daemon ended now, its successor would not know "
                    "clocks and clients",
                    heritage->path, strerror(rc));
    if (rc == 0 && heritage->is_behind)
        log_info("heritage", "%s is written again", heritage->path);
    heritage->is_behind = rc != 0;
    heritage->is_due = false;
}

static void save_before_answers(struct heritage *heritage)
{
    heritage->is_due = true;
    before_answers_note(heritage->before_answers);
}

static void save_if_due(void *context)
{
    struct heritage *heritage = context;

    if (heritage->is_due)
        save(heritage);
}

static void on_retry(uv_timer_t *timer)
{
    struct heritage *heritage = timer->data;

    if (heritage->is_behind)
        save(heritage);
}

static void on_closed(uv_handle_t *handle)
{
    free(handle);
}
