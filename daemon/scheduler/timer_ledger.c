/* timer_ledger.c - see timer_ledger.h. */
#include "scheduler/timer_ledger.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/boot_id.h"
#include "daemon/log.h"
#include "daemon/state_file.h"

#define MAGIC 0x3172656d69746365ull /* "ectimer1" */
#define HEADER_BYTES 4096u
#define INLINE_BYTES 56u
#define GROW_ROWS 512u                  /* sixteen pages at a time */
#define PAYLOADS_BYTES_MAX (256u << 20) /* of all that are read: the file may say anything */

struct ledger_header {
    uint64_t magic;
    uint32_t row_bytes, row_count;
    char boot_id[BOOT_ID_BYTES];
};

struct ledger_row {
    _Atomic uint32_t life; /* enum timer_life; what else the row says counts unless it is free */
    uint32_t generation;
    uint32_t owner, clock;
    _Atomic int64_t due;
    int64_t every, first;
    _Atomic int64_t fired;
    _Atomic uint64_t count;
    uint64_t event;
    uint32_t payload_bytes, reserved;
    uint8_t payload[INLINE_BYTES];
};
_Static_assert(sizeof(struct ledger_row) == 128, "rows of two cache lines");

struct timer_ledger {
    char path[STATE_FILE_PATH_BYTES];
    int fd;
    void *base;
    struct ledger_row *rows;
    uint32_t maximum;
    uint32_t ready; /* rows whose blocks are there */
    bool is_committed, has_warned;
};

static size_t rows_bytes(uint32_t count)
{
    return HEADER_BYTES + (size_t)count * sizeof(struct ledger_row);
}

/* Where the large payload of a slot lies. */
static off_t payload_at(uint32_t maximum, uint32_t slot)
{
    const size_t rows = (rows_bytes(maximum) + HEADER_BYTES - 1) / HEADER_BYTES * HEADER_BYTES;

    return (off_t)(rows + (size_t)slot * TIMER_LEDGER_PAYLOAD_MAX);
}

/* ---- reading --------------------------------------------------------------------------------- */

static int check_header(const struct ledger_header *header, off_t bytes, struct ec_error *why)
{
    char boot_id[BOOT_ID_BYTES];

    if (header->magic != MAGIC || header->row_bytes != sizeof(struct ledger_row) ||
        header->row_count == 0 || header->row_count > TIMERS_MAX || bytes < (off_t)HEADER_BYTES)
        return ec_fail(why, EC_ERR_LAYOUT, "it is not of this version");
    boot_id_read(boot_id);
    if (boot_id[0] == '\0' || strncmp(header->boot_id, boot_id, sizeof boot_id) != 0)
        return ec_fail(why, EC_ERR_NOT_FOUND, "it is of another boot");
    return EC_OK;
}

static bool is_whole(const struct timer_kept *kept, unsigned clock_count)
{
    return (kept->life == TIMER_ARMED || kept->life == TIMER_FIRED) &&
           kept->desc.clock < clock_count && kept->desc.every >= 0 && kept->desc.owner != 0 &&
           kept->desc.payload_bytes <= TIMER_LEDGER_PAYLOAD_MAX && kept->generation != 0 &&
           (kept->life == TIMER_ARMED || kept->desc.clock != ALARM_REAL) &&
           (kept->desc.event != 0 || kept->desc.payload_bytes == 0);
}

/* A row as it lies in a copy, in which nobody writes. */
static void read_row(const struct ledger_row *row, uint32_t slot, struct timer_kept *kept)
{
    *kept = (struct timer_kept) {
        .slot = slot,
        .generation = row->generation,
        .life = (enum timer_life)atomic_load_explicit(&row->life, memory_order_relaxed),
        .desc = { .clock = row->clock,
                  .due = atomic_load_explicit(&row->due, memory_order_relaxed),
                  .every = row->every,
                  .owner = row->owner,
                  .event = row->event,
                  .payload_bytes = row->payload_bytes },
        .first = row->first,
        .fired = atomic_load_explicit(&row->fired, memory_order_relaxed),
        .count = atomic_load_explicit(&row->count, memory_order_relaxed),
    };
}

static bool read_whole(int fd, void *to, size_t bytes, off_t at)
{
    size_t done = 0;
    ssize_t got;

    while (done < bytes && (got = pread(fd, (char *)to + done, bytes - done, at + (off_t)done)) > 0)
        done += (size_t)got;
    return done == bytes;
}

/* Their payloads, one behind the other; a timer whose payload is not there is dropped. */
static int read_payloads(int fd, uint32_t maximum, const struct ledger_row *rows,
                         struct timer_ledger_rows *found, struct ec_error *why)
{
    size_t bytes = 0, at = 0;

    for (uint32_t i = 0; i < found->count; i++)
        bytes += found->rows[i].life != TIMER_FREE ? found->rows[i].desc.payload_bytes : 0;
    if (bytes > PAYLOADS_BYTES_MAX)
        return ec_fail(why, EC_ERR_LAYOUT, "payloads of %zu bytes, expected at most %u", bytes,
                       PAYLOADS_BYTES_MAX);
    found->payloads = malloc(bytes + 1);
    if (found->payloads == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory for %zu bytes of payloads", bytes);
    for (uint32_t i = 0; i < found->count; i++) {
        struct timer_kept *kept = &found->rows[i];
        const uint32_t count = kept->desc.payload_bytes;

        if (kept->life == TIMER_FREE || count == 0)
            continue;
        kept->desc.payload = &found->payloads[at];
        if (count <= INLINE_BYTES)
            memcpy(&found->payloads[at], rows[i].payload, count);
        else if (!read_whole(fd, &found->payloads[at], count, payload_at(maximum, i)))
            kept->life = TIMER_FREE;
        at += count;
    }
    return EC_OK;
}

static int read_rows(int fd, off_t file_bytes, unsigned clock_count,
                     struct timer_ledger_rows *found, struct ec_error *why)
{
    struct ledger_header header = { 0 };
    struct ledger_row *rows;
    int rc;

    if (!read_whole(fd, &header, sizeof header, 0))
        return ec_fail(why, EC_ERR_LAYOUT, "it is too short");
    rc = check_header(&header, file_bytes, why);
    if (rc < 0)
        return rc;
    found->count = header.row_count;
    if (file_bytes < (off_t)rows_bytes(header.row_count)) /* no more were used */
        found->count = (uint32_t)((size_t)(file_bytes - HEADER_BYTES) / sizeof(struct ledger_row));
    rows = calloc(found->count + 1u, sizeof *rows);
    found->rows = calloc(found->count + 1u, sizeof *found->rows);
    if (rows == NULL || found->rows == NULL)
        rc = ec_fail(why, EC_ERR_MEMORY, "no memory for %u timers", found->count);
    else if (!read_whole(fd, rows, found->count * sizeof *rows, HEADER_BYTES))
        rc = ec_fail(why, EC_ERR_SYSTEM, "read %u rows: %s", found->count, strerror(errno));
    for (uint32_t i = 0; rc == EC_OK && i < found->count; i++) {
        read_row(&rows[i], i, &found->rows[i]);
        if (!is_whole(&found->rows[i], clock_count))
            found->rows[i].life = TIMER_FREE;
    }
    if (rc == EC_OK)
        rc = read_payloads(fd, header.row_count, rows, found, why);
    while (rc == EC_OK && found->count > 0 && found->rows[found->count - 1].generation == 0)
        found->count--; /* that was never used */
    free(rows);
    return rc;
}

int timer_ledger_read(const char *path, unsigned clock_count, struct timer_ledger_rows *found,
                      struct ec_error *why)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    int rc;

    *found = (struct timer_ledger_rows) { 0 };
    if (fd < 0)
        return ec_fail(why, errno == ENOENT ? EC_ERR_NOT_FOUND : EC_ERR_SYSTEM, "%s",
                       strerror(errno));
    rc = timer_ledger_read_file(fd, clock_count, found, why);
    close(fd);
    return rc;
}

int timer_ledger_read_file(int fd, unsigned clock_count, struct timer_ledger_rows *found,
                           struct ec_error *why)
{
    struct stat st;
    int rc;

    *found = (struct timer_ledger_rows) { 0 };
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        rc = ec_fail(why, EC_ERR_LAYOUT, "it is no file");
    else if (st.st_uid != geteuid())
        rc = ec_fail(why, EC_ERR_PERMISSION, "it belongs to uid %u", (unsigned)st.st_uid);
    else
        rc = read_rows(fd, st.st_size, clock_count, found, why);
    if (rc < 0)
        timer_ledger_rows_finish(found);
    return rc;
}

void timer_ledger_rows_finish(struct timer_ledger_rows *found)
{
    free(found->rows);
    free(found->payloads);
    *found = (struct timer_ledger_rows) { 0 };
}

/* ---- writing --------------------------------------------------------------------------------- */

static void fresh_path(const struct timer_ledger *ledger, char path[STATE_FILE_PATH_BYTES + 8])
{
    snprintf(path, STATE_FILE_PATH_BYTES + 8, "%s.new", ledger->path);
}

/* Blocks for the next rows. */
static bool grow(struct timer_ledger *ledger, uint32_t slot)
{
    uint32_t next = (slot / GROW_ROWS + 1) * GROW_ROWS;

    if (slot < ledger->ready)
        return true;
    next = next < ledger->maximum ? next : ledger->maximum;
    if (posix_fallocate(ledger->fd, 0, (off_t)rows_bytes(next)) != 0)
        return false;
    ledger->ready = next;
    return true;
}

static int open_file(struct timer_ledger *ledger, struct ec_error *why)
{
    char path[STATE_FILE_PATH_BYTES + 8];
    struct ledger_header *header;

    fresh_path(ledger, path);
    unlink(path);
    ledger->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (ledger->fd < 0)
        return ec_fail(why, EC_ERR_SYSTEM, "%s: %s", path, strerror(errno));
    if (!grow(ledger, 0))
        return ec_fail(why, EC_ERR_SYSTEM, "%s: there is no room", path);
    ledger->base =
        mmap(NULL, rows_bytes(ledger->maximum), PROT_READ | PROT_WRITE, MAP_SHARED, ledger->fd, 0);
    if (ledger->base == MAP_FAILED) {
        ledger->base = NULL;
        return ec_fail(why, EC_ERR_SYSTEM, "map %s: %s", path, strerror(errno));
    }
    header = ledger->base;
    *header = (struct ledger_header) { .magic = MAGIC,
                                       .row_bytes = sizeof(struct ledger_row),
                                       .row_count = ledger->maximum };
    boot_id_read(header->boot_id);
    ledger->rows = (struct ledger_row *)(void *)((char *)ledger->base + HEADER_BYTES);
    return EC_OK;
}

int timer_ledger_create(const char *path, uint32_t maximum, struct timer_ledger **ledger,
                        struct ec_error *why)
{
    struct timer_ledger *made = calloc(1, sizeof *made);
    int rc;

    *ledger = NULL;
    if (made == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory for the ledger of timers");
    made->fd = -1;
    made->maximum = maximum;
    if (snprintf(made->path, sizeof made->path, "%s", path) >= (int)sizeof made->path)
        rc = ec_fail(why, EC_ERR_SYSTEM, "%s: %s", path, strerror(ENAMETOOLONG));
    else
        rc = open_file(made, why);
    if (rc < 0)
        timer_ledger_destroy(made, false);
    else
        *ledger = made;
    return rc;
}

int timer_ledger_commit(struct timer_ledger *ledger, struct ec_error *why)
{
    char path[STATE_FILE_PATH_BYTES + 8];

    fresh_path(ledger, path);
    if (rename(path, ledger->path) < 0)
        return ec_fail(why, EC_ERR_SYSTEM, "rename %s: %s", path, strerror(errno));
    ledger->is_committed = true;
    return EC_OK;
}

void timer_ledger_destroy(struct timer_ledger *ledger, bool stays)
{
    char path[STATE_FILE_PATH_BYTES + 8];

    if (ledger == NULL)
        return;
    fresh_path(ledger, path);
    if (ledger->fd >= 0 && (!ledger->is_committed || !stays))
        unlink(ledger->is_committed ? ledger->path : path);
    if (ledger->base != NULL)
        munmap(ledger->base, rows_bytes(ledger->maximum));
    if (ledger->fd >= 0)
        close(ledger->fd);
    free(ledger);
}

static void warn(struct timer_ledger *ledger, const char *what)
{
    if (!ledger->has_warned)
        log_warning("scheduler", "%s: %s; some timers would end with this run of the daemon",
                    ledger->path, what);
    ledger->has_warned = true;
}

static bool put_payload(struct timer_ledger *ledger, struct ledger_row *row,
                        const struct timer_kept *kept)
{
    const size_t bytes = kept->desc.payload_bytes;
    ssize_t written;

    if (bytes <= INLINE_BYTES) {
        if (bytes > 0)
            memcpy(row->payload, kept->desc.payload, bytes);
        return true;
    }
    if (bytes > TIMER_LEDGER_PAYLOAD_MAX) {
        warn(ledger, "a payload of more than 64 KiB is not kept");
        return false;
    }
    written =
        pwrite(ledger->fd, kept->desc.payload, bytes, payload_at(ledger->maximum, kept->slot));
    if (written != (ssize_t)bytes)
        warn(ledger, written < 0 ? strerror(errno) : "there is no room");
    return written == (ssize_t)bytes;
}

static void clear(struct timer_ledger *ledger, struct ledger_row *row, uint32_t slot)
{
    /* Release: a kill behind it finds the row free, whatever of the rest was written. */
    atomic_store_explicit(&row->life, TIMER_FREE, memory_order_release);
    atomic_thread_fence(memory_order_release); /* and nothing of the next timer before it */
    if (row->payload_bytes > INLINE_BYTES)
        (void)fallocate(ledger->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                        payload_at(ledger->maximum, slot), TIMER_LEDGER_PAYLOAD_MAX);
    row->payload_bytes = 0;
}

void timer_ledger_note(void *context, const struct timer_kept *kept)
{
    struct timer_ledger *ledger = context;
    struct ledger_row *row = &ledger->rows[kept->slot];

    if (!grow(ledger, kept->slot)) {
        warn(ledger, "there is no room");
        return;
    }
    if (kept->life == TIMER_FREE || row->generation != kept->generation) {
        clear(ledger, row, kept->slot);
        row->generation = kept->generation;
    }
    if (kept->life == TIMER_FREE)
        return;
    if (atomic_load_explicit(&row->life, memory_order_relaxed) == TIMER_FREE) {
        row->owner = kept->desc.owner;
        row->clock = kept->desc.clock;
        row->every = kept->desc.every;
        row->first = kept->first;
        row->event = kept->desc.event;
        if (!put_payload(ledger, row, kept))
            return;
        row->payload_bytes = kept->desc.payload_bytes;
    }
    atomic_store_explicit(&row->fired, kept->fired, memory_order_relaxed);
    atomic_store_explicit(&row->count, kept->count, memory_order_relaxed);
    atomic_store_explicit(&row->due, kept->desc.due, memory_order_relaxed);
    /* Release: a kill in front of it leaves the row free, or with its last firing not counted. */
    atomic_store_explicit(&row->life, (uint32_t)kept->life, memory_order_release);
}
