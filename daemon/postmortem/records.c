/* records.c - see records.h. */
#include "postmortem/records.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include <engine-core/file.h>

#include "daemon/log.h"
#include "foundation/thread.h"

#define PATH_BYTES 4352
#define NAME_FORMAT "%08u.json"
#define NAME_BYTES 24

/* What the thread writes: a copy, because the row may go meanwhile. */
struct writing {
    uint32_t id, bytes;
    char *text;
    int rc;
    struct ec_error why;
};

struct records {
    uv_async_t wake; /* the thread has come to its end */
    pthread_t thread;
    bool running;
    struct writing writing;
    char directory[4096];
    uint32_t count_max;
    uint64_t bytes_max;
    uint32_t last_id;
    struct record_row *rows; /* by id, ascending */
    uint32_t count, capacity;
};

static void on_wake(uv_async_t *wake);
static void write_rest(struct records *records);

static void path_of(const struct records *records, uint32_t id, char path[PATH_BYTES])
{
    snprintf(path, PATH_BYTES, "%s/" NAME_FORMAT, records->directory, id);
}

static int compare_rows(const void *left, const void *right)
{
    const struct record_row *a = left, *b = right;

    return a->id < b->id ? -1 : a->id > b->id;
}

static struct record_row *append(struct records *records)
{
    if (records->count == records->capacity) {
        uint32_t capacity = records->capacity != 0 ? records->capacity * 2 : 16;
        struct record_row *grown = realloc(records->rows, capacity * sizeof *grown);

        if (grown == NULL)
            return NULL;
        records->rows = grown;
        records->capacity = capacity;
    }
    return &records->rows[records->count++];
}

/* Names of ours are taken for records, whatever is in them; all others are left alone. */
static bool parse_name(const char *name, uint32_t *id)
{
    char again[NAME_BYTES];
    unsigned number;

    if (sscanf(name, "%8u.json", &number) != 1 || number == 0)
        return false;
    snprintf(again, sizeof again, NAME_FORMAT, number);
    *id = number;
    return strcmp(again, name) == 0;
}

static void scan(struct records *records)
{
    DIR *directory = opendir(records->directory);
    struct dirent *entry;
    struct stat st;
    uint32_t id;

    if (directory == NULL)
        return;
    while ((entry = readdir(directory)) != NULL) {
        struct record_row *row;

        if (!parse_name(entry->d_name, &id) ||
            fstatat(dirfd(directory), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
            !S_ISREG(st.st_mode))
            continue;
        row = append(records);
        if (row == NULL)
            break;
        *row = (struct record_row) { .id = id, .bytes = (uint32_t)(st.st_size & UINT32_MAX) };
        if (id > records->last_id)
            records->last_id = id;
    }
    closedir(directory);
    if (records->count > 1)
        qsort(records->rows, records->count, sizeof records->rows[0], compare_rows);
}

int records_create(uv_loop_t *loop, const char *directory, struct records **records,
                   struct ec_error *why)
{
    struct records *made = calloc(1, sizeof *made);

    *records = NULL;
    if (made == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory for post-mortem records");
    if (uv_async_init(loop, &made->wake, on_wake) < 0) {
        free(made);
        return ec_fail(why, EC_ERR_SYSTEM, "no wake-up for post-mortem records");
    }
    made->wake.data = made;
    uv_unref((uv_handle_t *)&made->wake);
    snprintf(made->directory, sizeof made->directory, "%s", directory);
    made->count_max = UINT32_MAX;
    made->bytes_max = UINT64_MAX;
    scan(made);
    *records = made;
    return EC_OK;
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void records_destroy(struct records *records)
{
    if (records == NULL)
        return;
    write_rest(records);
    for (uint32_t i = 0; i < records->count; i++)
        free(records->rows[i].unwritten);
    free(records->rows);
    uv_close((uv_handle_t *)&records->wake, on_closed);
}

static void drop(struct records *records, uint32_t index)
{
    char path[PATH_BYTES];

    if (records->rows[index].unwritten == NULL) {
        path_of(records, records->rows[index].id, path);
        unlink(path);
    }
    free(records->rows[index].unwritten);
    memmove(&records->rows[index], &records->rows[index + 1],
            (--records->count - index) * sizeof records->rows[0]);
}

static void shrink(struct records *records)
{
    uint64_t bytes = 0;
    uint32_t unwritten = 0;

    for (uint32_t i = 0; i < records->count; i++)
        bytes += records->rows[i].bytes;
    while (records->count > 0 &&
           (records->count > records->count_max || bytes > records->bytes_max)) {
        bytes -= records->rows[0].bytes;
        drop(records, 0);
    }
    for (uint32_t i = records->count; i-- > 0;) {
        if (records->rows[i].unwritten == NULL || ++unwritten <= RECORDS_UNWRITTEN)
            continue;
        log_warning("postmortem", "record %u is lost: it cannot be written, and %u newer ones wait",
                    records->rows[i].id, RECORDS_UNWRITTEN);
        drop(records, i);
    }
}

void records_set_limits(struct records *records, uint32_t count, uint64_t bytes)
{
    records->count_max = count;
    records->bytes_max = bytes;
    shrink(records);
}

uint32_t records_next_id(const struct records *records)
{
    return records->last_id + 1;
}

/* ---- writing ----------------------------------------------------------------------------------- */

static int write_file(const struct records *records, const struct writing *writing,
                      struct ec_error *why)
{
    char path[PATH_BYTES];

    if (mkdir(records->directory, 0750) < 0 && errno != EEXIST)
        return ec_fail(why, EC_ERR_SYSTEM, "%s: %s", records->directory, strerror(errno));
    path_of(records, writing->id, path);
    return ec_file_replace(path, writing->text, writing->bytes, 0640, why);
}

static struct record_row *find_row(struct records *records, uint32_t id)
{
    for (uint32_t i = 0; i < records->count; i++)
        if (records->rows[i].id == id)
            return &records->rows[i];
    return NULL;
}

/* The first one after this id that is not on disk. */
static struct record_row *next_unwritten(struct records *records, uint32_t after)
{
    for (uint32_t i = 0; i < records->count; i++)
        if (records->rows[i].id > after && records->rows[i].unwritten != NULL)
            return &records->rows[i];
    return NULL;
}

static void take_down(struct records *records)
{
    struct writing *writing = &records->writing;
    struct record_row *row = find_row(records, writing->id);
    char path[PATH_BYTES];

    if (writing->rc < 0) {
        log_warning("postmortem", "record %u stays in memory: %s", writing->id, writing->why.text);
    } else if (row != NULL) {
        free(row->unwritten);
        row->unwritten = NULL;
    } else { /* it had to make room meanwhile */
        path_of(records, writing->id, path);
        unlink(path);
    }
    free(writing->text);
    writing->text = NULL;
}

static bool take_up(struct records *records, const struct record_row *row)
{
    records->writing =
        (struct writing) { .id = row->id, .bytes = row->bytes, .text = malloc(row->bytes + 1) };
    if (records->writing.text != NULL)
        memcpy(records->writing.text, row->unwritten, row->bytes + 1);
    return records->writing.text != NULL;
}

static void *write_in_thread(void *context)
{
    struct records *records = context;
    struct writing *writing = &records->writing; /* the loop leaves it alone meanwhile */

    writing->rc = write_file(records, writing, &writing->why);
    uv_async_send(&records->wake);
    return NULL;
}

/* Go on with the first one after this id; it is tried again with the next record if it cannot be now. */
static void write_next(struct records *records, uint32_t after)
{
    struct record_row *row = next_unwritten(records, after);

    if (records->running || row == NULL || !take_up(records, row))
        return;
    records->running = ec_thread_start(&records->thread, "ec-record", write_in_thread, records,
                                       &records->writing.why) == EC_OK;
    if (records->running)
        return;
    records->writing.rc = EC_ERR_SYSTEM;
    take_down(records);
}

static void on_wake(uv_async_t *wake)
{
    struct records *records = wake->data;
    uint32_t id;

    if (!records->running)
        return;
    pthread_join(records->thread, NULL);
    records->running = false;
    id = records->writing.id;
    take_down(records);
    if (records->writing.rc == EC_OK) /* what is true of one is true of the others */
        write_next(records, id);
}

uint32_t records_add(struct records *records, const char *text, uint32_t bytes)
{
    struct record_row *row = append(records);
    char *copy = row != NULL ? malloc(bytes + 1) : NULL;
    uint32_t id;

    if (copy == NULL) {
        records->count -= row != NULL;
        log_error("postmortem", "no memory for a record of %u bytes", bytes);
        return 0;
    }
    memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    id = ++records->last_id;
    *row = (struct record_row) { .id = id, .bytes = bytes, .unwritten = copy };
    shrink(records);
    write_next(records, 0);
    return id;
}

/* The last ones, by the loop itself: nobody waits for it any more. */
static void write_rest(struct records *records)
{
    struct record_row *row;
    uint32_t id = 0;

    if (records->running) {
        pthread_join(records->thread, NULL);
        records->running = false;
        take_down(records);
    }
    while ((row = next_unwritten(records, id)) != NULL && take_up(records, row)) {
        id = row->id;
        records->writing.rc = write_file(records, &records->writing, &records->writing.why);
        take_down(records);
        if (records->writing.rc < 0)
            return;
    }
}

const struct record_row *records_at(const struct records *records, uint32_t index)
{
    return index < records->count ? &records->rows[index] : NULL;
}

/* The file may have been changed by people since: it is read up to the limit and no further. */
static int read_file(const char *path, char **text, struct ec_error *why)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    char *made = fd >= 0 ? malloc(RECORD_BYTES_MAX + 1) : NULL;
    size_t bytes = 0;
    ssize_t got;

    if (fd < 0)
        return ec_fail(why, EC_ERR_NOT_FOUND, "%s: %s", path, strerror(errno));
    while (made != NULL && bytes < RECORD_BYTES_MAX &&
           (got = read(fd, made + bytes, RECORD_BYTES_MAX - bytes)) > 0)
        bytes += (size_t)got;
    close(fd);
    if (made == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory for a record");
    made[bytes] = '\0';
    *text = made;
    return EC_OK;
}

int records_read(const struct records *records, uint32_t id, char **text, struct ec_error *why)
{
    char path[PATH_BYTES];

    for (uint32_t i = 0; i < records->count; i++) {
        if (records->rows[i].id != id)
            continue;
        if (records->rows[i].unwritten == NULL) {
            path_of(records, id, path);
            return read_file(path, text, why);
        }
        *text = strdup(records->rows[i].unwritten);
        return *text != NULL ? EC_OK : ec_fail(why, EC_ERR_MEMORY, "no memory for a record");
    }
    return ec_fail(why, EC_ERR_NOT_FOUND, "there is no post-mortem record %u", id);
}
