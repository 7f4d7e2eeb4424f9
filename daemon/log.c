/* The log: many threads put records into a ring, one writer thread takes them out.
 *
 *   log_write() --> [ record | record | record | ... ] --> writer thread --> stderr
 *                   LOG_RECORDS slots, each with a turn
 *
 * A slot's turn says whose it is: turn == position: free for the record of that position; turn ==
 * position + 1: it holds that record. Callers claim a position by compare-and-swap on `next`; only the
 * writer moves `written`. A full ring loses the line and counts it.
 *
 * The writer sleeps on `asleep` when the ring is empty; the caller that finds it set wakes it. */
#include "daemon/log.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "foundation/error.h"

#define LOG_RECORDS 512     /* a burst of half a thousand lines; 256 KiB, touched as it is used */
#define LOG_TEXT_BYTES 456  /* longer messages are cut; the record is 512 bytes then */
#define LOG_MODULE_BYTES 24 /* longer names are cut */
#define LOG_LINE_BYTES (4 * LOG_TEXT_BYTES + 128) /* every byte may have to be escaped */
#define LOG_STUCK_MS 1000 /* how long a stderr that takes nothing may hold up log_stop() */

struct log_record {
    _Atomic uint64_t turn;
    struct timespec at; /* wall clock */
    enum log_level level;
    char module[LOG_MODULE_BYTES];
    char text[LOG_TEXT_BYTES];
};

/* The log is one of the few global things: everybody may log, from anywhere, before anything is up. */
static struct {
    _Atomic int level;
    _Atomic bool running;
    _Atomic bool stopping;
    _Atomic bool is_stuck; /* while stopping: stderr takes nothing, so do not wait for it again */
    _Atomic uint64_t lost;
    _Atomic uint64_t next;   /* position of the next record; callers */
    uint64_t written;        /* position of the next one to write; writer */
    uint64_t lost_reported;  /* writer */
    _Atomic uint32_t asleep; /* futex: 1 while the writer waits */
    pthread_t writer;
    struct log_record ring[LOG_RECORDS];
} sink = { .level = LOG_LEVEL_INFO };

static const char *const level_names[] = { "trace", "debug", "info", "warning", "error" };

static void *write_records(void *nothing);
static bool write_next(void);
static void report_lost(void);
static void cut_at_character(char *text, size_t capacity);
static size_t format_line(char *line, const struct log_record *record);
static size_t append_escaped(char *line, const char *text);
static void write_all(const char *line, size_t bytes);
static struct log_record *claim(uint64_t *position);
static void wake_writer(void);

int log_start(void)
{
    sigset_t all, before;
    int rc;

    for (uint64_t i = 0; i < LOG_RECORDS; i++)
        atomic_store_explicit(&sink.ring[i].turn, i, memory_order_relaxed);
    atomic_store_explicit(&sink.next, 0, memory_order_relaxed);
    atomic_store_explicit(&sink.stopping, false, memory_order_relaxed);
    atomic_store_explicit(&sink.is_stuck, false, memory_order_relaxed);
    sink.written = 0;
    sink.lost_reported = atomic_load_explicit(&sink.lost, memory_order_relaxed);

    /* Signals are the main thread's business. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&sink.writer, NULL, write_records, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0)
        return EC_ERR_SYSTEM;
    pthread_setname_np(sink.writer, "log");
    atomic_store_explicit(&sink.running, true, memory_order_release);
    return EC_OK;
}

void log_stop(void)
{
    if (!atomic_exchange_explicit(&sink.running, false, memory_order_acq_rel))
        return;
    atomic_store_explicit(&sink.stopping, true, memory_order_release);
    wake_writer();
    pthread_join(sink.writer, NULL);
}

void log_set_level(enum log_level level)
{
    atomic_store_explicit(&sink.level, (int)level, memory_order_relaxed);
}

bool log_level_parse(const char *name, enum log_level *level)
{
    for (size_t i = 0; i < sizeof level_names / sizeof level_names[0]; i++)
        if (strcmp(name, level_names[i]) == 0) {
            *level = (enum log_level)i;
            return true;
        }
    return false;
}

uint64_t log_lost(void)
{
    return atomic_load_explicit(&sink.lost, memory_order_relaxed);
}

void log_write(enum log_level level, const char *module, const char *format, ...)
{
    const int errno_before = errno;
    struct log_record *record;
    struct log_record raw;
    uint64_t position = 0;
    bool is_raw;
    va_list arguments;

    if ((int)level < atomic_load_explicit(&sink.level, memory_order_relaxed))
        return;
    is_raw = !atomic_load_explicit(&sink.running, memory_order_acquire);
    record = is_raw ? &raw : claim(&position);
    if (record == NULL) {
        atomic_fetch_add_explicit(&sink.lost, 1, memory_order_relaxed);
        return;
    }
    clock_gettime(CLOCK_REALTIME, &record->at);
    record->level = level;
    snprintf(record->module, sizeof record->module, "%s", module);
    va_start(arguments, format);
    if (vsnprintf(record->text, sizeof record->text, format, arguments) >= (int)sizeof record->text)
        cut_at_character(record->text, sizeof record->text);
    va_end(arguments);
    if (is_raw) {
        char line[LOG_LINE_BYTES];

        write_all(line, format_line(line, record));
    } else {
        /* Publishes the record; pairs with the acquire in write_next(). */
        atomic_store_explicit(&record->turn, position + 1, memory_order_release);
        wake_writer();
    }
    errno = errno_before;
}

/* The text fills the buffer: what is left of a UTF-8 character at its end goes. */
static void cut_at_character(char *text, size_t capacity)
{
    size_t end = capacity - 1;

    for (unsigned i = 0; i < 3 && end > 0 && ((unsigned char)text[end - 1] & 0xC0) == 0x80; i++)
        end--;
    if (end > 0 && ((unsigned char)text[end - 1] & 0xC0) == 0xC0)
        end--; /* its first byte; also of a whole one, which is no loss */
    else
        end = capacity - 1; /* no such character ends here */
    text[end] = '\0';
}

/* Take the next position that is free. NULL: the ring is full. */
static struct log_record *claim(uint64_t *position)
{
    uint64_t at = atomic_load_explicit(&sink.next, memory_order_relaxed);

    for (;;) {
        struct log_record *record = &sink.ring[at % LOG_RECORDS];
        /* Pairs with the release in write_next(): who sees the slot free may overwrite it. */
        const uint64_t turn = atomic_load_explicit(&record->turn, memory_order_acquire);

        if (turn == at) {
            if (atomic_compare_exchange_weak_explicit(&sink.next, &at, at + 1, memory_order_relaxed,
                                                      memory_order_relaxed)) {
                *position = at;
                return record;
            }
        } else if (turn < at) {
            return NULL;
        } else {
            at = atomic_load_explicit(&sink.next, memory_order_relaxed);
        }
    }
}

/* The caller has stored its record, the writer stores `asleep`, and each looks at the other's word
 * after a full fence: at least one of them sees the other, so no record is left lying. */
static void wake_writer(void)
{
    atomic_thread_fence(memory_order_seq_cst); /* pairs with the one in write_records() */
    if (atomic_load_explicit(&sink.asleep, memory_order_relaxed) == 0)
        return;
    if (atomic_exchange_explicit(&sink.asleep, 0, memory_order_relaxed) == 1)
        syscall(SYS_futex, &sink.asleep, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void *write_records(void *nothing)
{
    (void)nothing;
    for (;;) {
        while (write_next())
            ;
        report_lost();
        atomic_store_explicit(&sink.asleep, 1, memory_order_relaxed);
        atomic_thread_fence(memory_order_seq_cst); /* pairs with the one in wake_writer() */
        if (write_next())
            continue;
        /* Pairs with the release in log_stop(): what was logged before is in the ring. */
        if (atomic_load_explicit(&sink.stopping, memory_order_acquire)) {
            while (write_next())
                ;
            return NULL;
        }
        syscall(SYS_futex, &sink.asleep, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0);
    }
}

static bool write_next(void)
{
    struct log_record *record = &sink.ring[sink.written % LOG_RECORDS];
    char line[LOG_LINE_BYTES];

    if (atomic_load_explicit(&record->turn, memory_order_acquire) != sink.written + 1)
        return false;
    write_all(line, format_line(line, record));
    /* Gives the slot back; pairs with the acquire in claim(). */
    atomic_store_explicit(&record->turn, sink.written + LOG_RECORDS, memory_order_release);
    sink.written++;
    return true;
}

static void report_lost(void)
{
    const uint64_t lost = log_lost();
    struct log_record record = { .level = LOG_LEVEL_WARNING, .module = "log" };
    char line[LOG_LINE_BYTES];

    if (lost == sink.lost_reported)
        return;
    clock_gettime(CLOCK_REALTIME, &record.at);
    snprintf(record.text, sizeof record.text, "%llu lines lost, the ring was full",
             (unsigned long long)(lost - sink.lost_reported));
    sink.lost_reported = lost;
    write_all(line, format_line(line, &record));
}

/* "2025-11-30T12:34:56.123456Z [events][info] text", one line whatever the text holds. */
static size_t format_line(char *line, const struct log_record *record)
{
    struct tm utc;
    size_t bytes;

    gmtime_r(&record->at.tv_sec, &utc);
    bytes = strftime(line, 32, "%Y-%m-%dT%H:%M:%S", &utc);
    bytes += (size_t)sprintf(line + bytes, ".%06ldZ [%s][%s] ", record->at.tv_nsec / 1000,
                             record->module, level_names[record->level]);
    bytes += append_escaped(line + bytes, record->text);
    line[bytes++] = '\n';
    return bytes;
}

/* Texts quote what strangers sent: a control character must not begin a line of its own. */
static size_t append_escaped(char *line, const char *text)
{
    size_t bytes = 0;

    for (; *text != '\0'; text++) {
        const unsigned char byte = (unsigned char)*text;

        if (byte < 0x20 || byte == 0x7F)
            bytes += (size_t)sprintf(line + bytes, "\\x%02x", byte);
        else
            line[bytes++] = *text;
    }
    return bytes;
}

/* Write to stderr in pieces that poll() promises not to block, so that a terminal that stands still
 * cannot keep the daemon from ending. */
static void write_all(const char *line, size_t bytes)
{
    while (bytes > 0) {
        struct pollfd polled = { .fd = STDERR_FILENO, .events = POLLOUT };
        const bool is_stuck = atomic_load_explicit(&sink.is_stuck, memory_order_relaxed);
        const int ready = poll(&polled, 1, is_stuck ? 0 : LOG_STUCK_MS);
        ssize_t written;

        if (ready == 0 && atomic_load_explicit(&sink.stopping, memory_order_relaxed)) {
            atomic_store_explicit(&sink.is_stuck, true, memory_order_relaxed);
            return;
        }
        if (ready <= 0)
            continue;
        written = write(STDERR_FILENO, line, bytes);
        if (written < 0 && errno != EINTR && errno != EAGAIN)
            return;
        if (written > 0) {
            line += written;
            bytes -= (size_t)written;
        }
    }
}
