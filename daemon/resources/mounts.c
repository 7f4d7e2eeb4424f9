/* mounts.c - a queue of changes, the first of which is on its way. */
#include "resources/mounts.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "foundation/thread.h"
#include "resources/decode_server.h"
#include "resources/kept_paths.h"

struct rows {
    struct search_mount *at;
    unsigned count;
};

struct change {
    struct change *next;
    bool is_refresh;
    bool append;
    char *path, *place;
    mounts_done_fn *done;
    void *context;

    struct rows rows; /* what is to be the search path */
    struct decode_server *server;
    int rc;
    struct ec_error why;
};

struct mounts {
    struct mounts_desc desc;
    struct rows rows;
    struct decode_server *server;
    struct change *first, **end;
    pthread_t thread; /* of the first change */
    bool running;
    uv_async_t wake; /* the thread has come to its end */
};

static int change_make(const struct search_mount *mount, struct change **change,
                       struct ec_error *why);
static void change_free(struct change *change);
static int enqueue(struct mounts *mounts, struct change *change);
static void next_change(struct mounts *mounts);
static void on_wake(uv_async_t *wake);
static void on_closed(uv_handle_t *handle);
static int rows_with(const struct mounts *mounts, struct change *change);
static int find(const struct rows *rows, const struct search_mount *mount, struct ec_error *why);

static void rows_free(struct rows *rows)
{
    for (unsigned i = 0; i < rows->count; i++) {
        free((char *)(size_t)rows->at[i].path);
        free((char *)(size_t)rows->at[i].at);
    }
    free(rows->at);
    *rows = (struct rows) { 0 };
}

int mounts_create(const struct mounts_desc *desc, struct mounts **mounts, struct ec_error *why)
{
    struct mounts *made = calloc(1, sizeof *made);

    *mounts = NULL;
    if (made == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory for the search path");
    made->desc = *desc;
    made->end = &made->first;
    if (uv_async_init(desc->loop, &made->wake, on_wake) < 0) {
        free(made);
        return ec_fail(why, EC_ERR_SYSTEM, "no wake-up for the search path");
    }
    made->wake.data = made;
    *mounts = made;
    return EC_OK;
}

void mounts_destroy(struct mounts *mounts)
{
    if (mounts == NULL)
        return;
    if (mounts->running)
        pthread_join(mounts->thread, NULL);
    while (mounts->first != NULL) {
        struct change *change = mounts->first;

        mounts->first = change->next;
        if (change->done != NULL) {
            ec_fail(&change->why, EC_ERR_STATE, "the daemon ends");
            change->done(change->context, EC_ERR_STATE, &change->why);
        }
        change_free(change);
    }
    decode_server_release(mounts->server);
    rows_free(&mounts->rows);
    uv_close((uv_handle_t *)&mounts->wake, on_closed);
}

int mounts_may_add(const struct mounts *mounts, const struct search_mount *mount,
                   struct ec_error *why)
{
    int rc = search_path_check_mount(mount->path, mount->at, why);

    return rc == EC_OK ? find(&mounts->rows, mount, why) : rc;
}

int mounts_add(struct mounts *mounts, const struct search_mount *mount, bool append,
               mounts_done_fn *done, void *context, struct ec_error *why)
{
    int rc = mounts_may_add(mounts, mount, why);
    struct change *change = NULL;

    if (rc != EC_AGAIN)
        return rc;
    rc = change_make(mount, &change, why);
    if (rc < 0)
        return rc;
    change->append = append;
    change->done = done;
    change->context = context;
    return enqueue(mounts, change);
}

int mounts_refresh(struct mounts *mounts, mounts_done_fn *done, void *context, struct ec_error *why)
{
    struct change *change = calloc(1, sizeof *change);

    if (change == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory to open the search path again");
    change->is_refresh = true;
    change->done = done;
    change->context = context;
    return enqueue(mounts, change);
}

void mounts_forget(struct mounts *mounts, const void *context)
{
    for (struct change *change = mounts->first; change != NULL; change = change->next)
        if (change->context == context)
            change->done = NULL;
}

const struct search_mount *mounts_at(const struct mounts *mounts, unsigned index)
{
    return index < mounts->rows.count ? &mounts->rows.at[index] : NULL;
}

struct decode_server *mounts_server(const struct mounts *mounts)
{
    return mounts->server;
}

static int change_make(const struct search_mount *mount, struct change **change,
                       struct ec_error *why)
{
    struct change *made;

    made = calloc(1, sizeof *made);
    if (made != NULL) {
        made->path = strdup(mount->path);
        made->place = strdup(mount->at);
    }
    if (made == NULL || made->path == NULL || made->place == NULL) {
        change_free(made);
        return ec_fail(why, EC_ERR_MEMORY, "no memory to mount %s", mount->path);
    }
    *change = made;
    return EC_OK;
}

static void change_free(struct change *change)
{
    if (change == NULL)
        return;
    rows_free(&change->rows);
    decode_server_release(change->server);
    free(change->path);
    free(change->place);
    free(change);
}

static int enqueue(struct mounts *mounts, struct change *change)
{
    *mounts->end = change;
    mounts->end = &change->next;
    if (mounts->first == change)
        next_change(mounts);
    return EC_AGAIN;
}

static void *open_all(void *context)
{
    struct mounts *mounts = context;
    struct change *change = mounts->first; /* the loop leaves it alone meanwhile */

    change->rc = decode_server_start(mounts->desc.nursery, change->rows.at, change->rows.count,
                                     mounts->desc.seconds, &change->server, &change->why);
    uv_async_send(&mounts->wake);
    return NULL;
}

/* What ends a change early is told on the next turn of the loop, like everything else. */
static void next_change(struct mounts *mounts)
{
    struct change *change = mounts->first;

    if (change == NULL)
        return;
    change->rc = rows_with(mounts, change);
    if (change->rc == EC_OK)
        change->rc = ec_thread_start(&mounts->thread, "ec-mount", open_all, mounts, &change->why);
    mounts->running = change->rc == EC_OK;
    if (!mounts->running)
        uv_async_send(&mounts->wake);
}

static void on_wake(uv_async_t *wake)
{
    struct mounts *mounts = wake->data;
    struct change *change = mounts->first;

    if (change == NULL)
        return;
    if (mounts->running)
        pthread_join(mounts->thread, NULL);
    mounts->running = false;
    mounts->first = change->next;
    if (mounts->first == NULL)
        mounts->end = &mounts->first;
    if (change->rc == EC_OK && change->server != NULL) {
        decode_server_release(mounts->server);
        mounts->server = change->server;
        rows_free(&mounts->rows);
        mounts->rows = change->rows;
        change->server = NULL;
        change->rows = (struct rows) { 0 };
        mounts->desc.changed(mounts->desc.context, mounts->server);
    }
    next_change(mounts);
    if (change->done != NULL)
        change->done(change->context, change->rc < 0 ? change->rc : EC_OK, &change->why);
    change_free(change);
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static bool row_append(struct rows *rows, const char *path, const char *at)
{
    struct search_mount *row = &rows->at[rows->count++];

    row->path = strdup(path);
    row->at = strdup(at);
    return row->path != NULL && row->at != NULL;
}

/* The rows after the change. EC_AGAIN: an earlier change has done it already. */
static int rows_with(const struct mounts *mounts, struct change *change)
{
    const struct search_mount added = { change->path, change->place };
    bool complete = true;
    int rc = EC_AGAIN;

    if (!change->is_refresh && (rc = find(&mounts->rows, &added, &change->why)) != EC_AGAIN)
        return rc == EC_OK ? EC_AGAIN : rc;
    if (!change->is_refresh &&
        mounts->rows.count >= MOUNTS_MAX) /* now: changes before it have been made */
        return ec_fail(&change->why, EC_ERR_LIMIT, "%d directories and archives are mounted",
                       MOUNTS_MAX);
    change->rows.at = calloc(mounts->rows.count + 1, sizeof *change->rows.at);
    if (change->rows.at == NULL)
        return ec_fail(&change->why, EC_ERR_MEMORY, "no memory for the search path");
    if (!change->is_refresh && !change->append)
        complete = row_append(&change->rows, change->path, change->place);
    for (unsigned i = 0; i < mounts->rows.count && complete; i++)
        complete = row_append(&change->rows, mounts->rows.at[i].path, mounts->rows.at[i].at);
    if (!change->is_refresh && change->append && complete)
        complete = row_append(&change->rows, change->path, change->place);
    return complete ? EC_OK : ec_fail(&change->why, EC_ERR_MEMORY, "no memory for the search path");
}

/* EC_AGAIN: not mounted yet. PhysicsFS would say yes to a second mount elsewhere and do nothing. */
static int find(const struct rows *rows, const struct search_mount *mount, struct ec_error *why)
{
    for (unsigned i = 0; i < rows->count; i++) {
        if (strcmp(rows->at[i].path, mount->path) != 0)
            continue;
        if (strcmp(rows->at[i].at, mount->at) == 0)
            return EC_OK;
        return ec_fail(why, EC_ERR_STATE, "%s is already mounted at %s", mount->path,
                       rows->at[i].at);
    }
    return EC_AGAIN;
}

/* Room was made. */
static bool rows_add_kept(struct rows *rows, const struct kept_mounts *kept)
{
    for (unsigned i = 0; kept != NULL && i < kept->count && rows->count < MOUNTS_MAX; i++) {
        const struct search_mount row = { kept->rows[i].path, kept->rows[i].at };
        struct search_mount last;

        if (find(rows, &row, NULL) != EC_AGAIN)
            continue; /* the configuration has it now */
        if (!row_append(rows, row.path, row.at))
            return false;
        if (kept->rows[i].append)
            continue;
        last = rows->at[rows->count - 1];
        memmove(&rows->at[1], &rows->at[0], (rows->count - 1) * sizeof *rows->at);
        rows->at[0] = last;
    }
    return true;
}

int mounts_begin(struct mounts *mounts, const char *list, const struct kept_mounts *kept,
                 struct ec_error *why)
{
    char *copy = strdup(list), *rest = copy, *path;
    struct rows rows = { 0 };
    int rc = EC_OK;

    assert(mounts->server == NULL && mounts->first == NULL);
    rows.at = calloc(MOUNTS_MAX, sizeof *rows.at);
    if (copy == NULL || rows.at == NULL)
        rc = ec_fail(why, EC_ERR_MEMORY, "no memory");
    while (rc == EC_OK && (path = strsep(&rest, ":")) != NULL) {
        const struct search_mount row = { path, "/" };

        if (path[0] == '\0' || find(&rows, &row, NULL) == EC_OK)
            continue;
        if (rows.count == MOUNTS_MAX)
            rc = ec_fail(why, EC_ERR_LIMIT, "more than %d paths", MOUNTS_MAX);
        else if (!row_append(&rows, path, "/"))
            rc = ec_fail(why, EC_ERR_MEMORY, "no memory");
    }
    free(copy);
    if (rc == EC_OK && !rows_add_kept(&rows, kept))
        rc = ec_fail(why, EC_ERR_MEMORY, "no memory");
    if (rc == EC_OK)
        rc = decode_server_start(mounts->desc.nursery, rows.at, rows.count, mounts->desc.seconds,
                                 &mounts->server, why);
    if (rc < 0) {
        rows_free(&rows);
        return rc;
    }
    mounts->rows = rows;
    return EC_OK;
}
