/* records.c - see records.h. */
#include "postmortem/records.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <engine-core/file.h>

#include "daemon/log.h"

#define PATH_BYTES 4352
#define NAME_FORMAT "%08u.json"
#define NAME_BYTES 24

struct records {
    char directory[4096];
    uint32_t count_max;
    uint64_t bytes_max;
    uint32_t last_id;
    struct record_row *rows; /* by id, ascending */
    uint32_t count, capacity;
};

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

int records_create(const char *directory, struct records **records, struct ec_error *why)
{
    struct records *made = calloc(1, sizeof *made);

    *records = NULL;
    if (made == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory for post-mortem records");
    snprintf(made->directory, sizeof made->directory, "%s", directory);
    made->count_max = UINT32_MAX;
    made->bytes_max = UINT64_MAX;
    scan(made);
    *records = made;
    return EC_OK;
}

void records_destroy(struct records *records)
{
    if (records == NULL)
        return;
    for (uint32_t i = 0; i < records->count; i++)
        free(records->rows[i].unwritten);
    free(records->rows);
    free(records);
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
    for (uint32_t i = records->count; i-- > 0;)
        if (records->rows[i].unwritten != NULL && ++unwritten > RECORDS_UNWRITTEN)
            drop(records, i);
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

/* Try to get a record out of memory. */
static int write_out(struct records *records, struct record_row *row, struct ec_error *why)
{
    char path[PATH_BYTES];
    int rc;

    if (mkdir(records->directory, 0750) < 0 && errno != EEXIST)
        return ec_fail(why, EC_ERR_SYSTEM, "%s: %s", records->directory, strerror(errno));
    path_of(records, row->id, path);
    rc = ec_file_replace(path, row->unwritten, row->bytes, 0640, why);
    if (rc < 0)
        return rc;
    free(row->unwritten);
    row->unwritten = NULL;
    return EC_OK;
}

void records_add(struct records *records, const char *text, uint32_t bytes)
{
    struct ec_error why = { 0 };
    struct record_row *row = append(records);
    char *copy = row != NULL ? malloc(bytes + 1) : NULL;

    if (copy == NULL) {
        records->count -= row != NULL;
        log_error("postmortem", "no memory for a record of %u bytes", bytes);
        return;
    }
    memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    *row = (struct record_row) { .id = ++records->last_id, .bytes = bytes, .unwritten = copy };
    for (uint32_t i = 0; i < records->count; i++)
        if (records->rows[i].unwritten != NULL && write_out(records, &records->rows[i], &why) < 0) {
            log_warning("postmortem", "record %u stays in memory: %s", records->rows[i].id,
                        why.text);
            break; /* what is true of one is true of the others */
        }
    shrink(records);
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
