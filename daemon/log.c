/* The log: many threads put records into a ring, one writer thread takes them out.
 *
 *   log_write() --> [ record | record | record | ... ] --> writer thread --> stderr, file, journal
 *                   LOG_RECORDS slots, each with a turn      |
 *                                                            +--> the last LOG_RECENT lines --> log_read()
 *
 * A slot's turn says whose it is: turn == 2 * lap: free for the record of that lap; turn == 2 * lap + 1:
 * it holds that record. So a ring of zeros is an empty one, of which no page is touched before its slots
 * are used. Callers claim a position by compare-and-swap on `next`; only the writer moves `written`. A full
 * ring loses the line and counts it.
 *
 * The writer sleeps on `asleep` when the ring is empty; the caller that finds it set wakes it. It alone
 * touches the sinks; which ones there are is handed to it through `sinks_wanted`. */
#include "daemon/log.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "daemon/log_sinks.h"
#include "foundation/error.h"
#include "proto/tables.h"

#define LOG_RECORDS 512   /* a burst of half a thousand lines; 256 KiB, touched as it is used */
#define LOG_RECENT 256    /* the last lines, for those who come later */
#define LOG_MODULES 32    /* names that are known; lines of others have the common level */
#define LEVEL_COMMON (-1) /* a module without a level of its own */
#define LOG_LINE_BYTES (4 * LOG_TEXT_BYTES + 128) /* every byte may have to be escaped */
#define LOG_STUCK_MS 1000 /* how long a stderr that takes nothing may hold up log_stop() */

struct log_record {
    _Atomic uint64_t turn;
    struct log_line line;
};

/* Filled in before `module_count` counts it, and never changed but for the level. */
struct log_module {
    char name[LOG_MODULE_BYTES];
    _Atomic int level;
};

/* The log is one of the few global things: everybody may log, from anywhere, before anything is up. */
static struct {
    _Atomic int level; /* of modules without their own */
    _Atomic int least; /* of all of them: what is below is not looked at any further */
    struct log_module modules[LOG_MODULES];
    _Atomic unsigned module_count;
    pthread_mutex_t modules_lock; /* of who adds one or reckons `least` */
    _Atomic bool running;
    _Atomic bool stopping;
    _Atomic bool is_stuck; /* while stopping: stderr takes nothing, so do not wait for it again */
    _Atomic uint64_t lost;
    _Atomic uint64_t next;   /* position of the next record; callers */
    uint64_t written;        /* position of the next one to write; writer */
    uint64_t lost_reported;  /* writer */
    _Atomic uint32_t asleep; /* futex: 1 while the writer waits */
    pthread_t writer;

    struct log_sinks sinks;                      /* writer */
    struct log_sinks_desc *_Atomic sinks_wanted; /* for the writer, who frees it; NULL: as before */
    _Atomic uint64_t sink_lost;

    pthread_mutex_t recent_lock; /* of recent[] and what is below; held for one copy at a time */
    uint64_t recent_count;       /* since the start: sequence of the last line */
    void (*tap)(void *context);
    void *tap_context;
    void (*_Atomic mirror)(const struct log_line *line);
} sink = {
    .level = LOG_LEVEL_INFO,
    .least = LOG_LEVEL_INFO,
    .modules_lock = PTHREAD_MUTEX_INITIALIZER,
    .recent_lock = PTHREAD_MUTEX_INITIALIZER,
    .sinks = { .desc = { .to_stderr = true } },
};

/* Apart from it, because these begin as zeros, which take no room in the program's file. */
static struct log_record ring[LOG_RECORDS];
static struct log_line recent[LOG_RECENT];

static void *write_records(void *nothing);
static bool write_next(void);
static void report_lost(void);
static void cut_at_character(char *text, size_t capacity);
static size_t format_line(char *shown, const struct log_line *line, size_t *text_at);
static size_t append_escaped(char *line, const char *text);
static void keep(struct log_line *line);
static void write_to_sinks(const struct log_line *line);
static void take_wanted_sinks(void);
static void say(enum log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static struct log_module *find_module(const char *name);
static struct log_module *add_module(const char *name);
static void reckon_least(void);
static bool is_wanted(enum log_level level, const char *module);
static void write_all(const char *line, size_t bytes);
static uint64_t turn_of(uint64_t position);
static struct log_record *claim(uint64_t *position);
static void wake_writer(void);

int log_start(void)
{
    sigset_t all, before;
    int rc;

    atomic_store_explicit(&sink.stopping, false, memory_order_relaxed);
    atomic_store_explicit(&sink.is_stuck, false, memory_order_relaxed);
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
    reckon_least();
}

int log_set_module_level(const char *module, enum log_level level)
{
    struct log_module *row = add_module(module);

    if (row == NULL)
        return EC_ERR_LIMIT;
    atomic_store_explicit(&row->level, (int)level, memory_order_relaxed);
    reckon_least();
    return EC_OK;
}

void log_clear_module_levels(void)
{
    const unsigned count = atomic_load_explicit(&sink.module_count, memory_order_acquire);

    for (unsigned i = 0; i < count; i++)
        atomic_store_explicit(&sink.modules[i].level, LEVEL_COMMON, memory_order_relaxed);
    reckon_least();
}

enum log_level log_level_of(const char *module)
{
    const struct log_module *row = module != NULL ? find_module(module) : NULL;
    const int own =
        row != NULL ? atomic_load_explicit(&row->level, memory_order_relaxed) : LEVEL_COMMON;

    return (enum log_level)(
        own != LEVEL_COMMON ? own : atomic_load_explicit(&sink.level, memory_order_relaxed));
}

const char *log_module_at(unsigned index)
{
    /* Pairs with the release in add_module(): the name is there. */
    return index < atomic_load_explicit(&sink.module_count, memory_order_acquire)
               ? sink.modules[index].name
               : NULL;
}

void log_use_sinks(const struct log_sinks_desc *desc)
{
    struct log_sinks_desc *copy = malloc(sizeof *copy);

    if (copy == NULL)
        return; /* lines go on to where they went */
    *copy = *desc;
    /* Hands the copy over; pairs with the exchange in take_wanted_sinks(). What the writer has not
     * taken yet is replaced. */
    free(atomic_exchange_explicit(&sink.sinks_wanted, copy, memory_order_acq_rel));
    wake_writer();
}

uint64_t log_sink_lost(void)
{
    return atomic_load_explicit(&sink.sink_lost, memory_order_relaxed);
}

unsigned log_read(uint64_t *sequence, struct log_line *lines, unsigned max)
{
    unsigned count = 0;
    uint64_t at;

    pthread_mutex_lock(&sink.recent_lock);
    at = sink.recent_count > LOG_RECENT && *sequence < sink.recent_count - LOG_RECENT
             ? sink.recent_count - LOG_RECENT
             : *sequence;
    while (at < sink.recent_count && count < max)
        lines[count++] = recent[at++ % LOG_RECENT];
    pthread_mutex_unlock(&sink.recent_lock);
    *sequence = at > *sequence ? at : *sequence;
    return count;
}

void log_set_tap(void (*tap)(void *context), void *context)
{
    pthread_mutex_lock(&sink.recent_lock);
    sink.tap = tap;
    sink.tap_context = context;
    pthread_mutex_unlock(&sink.recent_lock);
}

void log_raw(const char *text)
{
    size_t left = strlen(text);

    while (left > 0) {
        const ssize_t written = write(STDERR_FILENO, text, left);

        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return;
        text += written;
        left -= (size_t)written;
    }
}

const char *log_level_name(enum log_level level)
{
    return ec_log_level_name(level);
}

bool log_level_parse(const char *name, enum log_level *level)
{
    const char *known;

    for (unsigned i = 0; (known = ec_log_level_name(i)) != NULL; i++)
        if (strcmp(name, known) == 0) {
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
    struct log_line *line;
    void (*mirror)(const struct log_line *line);
    uint64_t position = 0;
    bool is_raw;
    va_list arguments;

    if ((int)level < atomic_load_explicit(&sink.least, memory_order_relaxed) ||
        !is_wanted(level, module))
        return;
    is_raw = !atomic_load_explicit(&sink.running, memory_order_acquire);
    record = is_raw ? &raw : claim(&position);
    if (record == NULL) {
        atomic_fetch_add_explicit(&sink.lost, 1, memory_order_relaxed);
        return;
    }
    line = &record->line;
    clock_gettime(CLOCK_REALTIME, &line->at);
    line->level = level;
    snprintf(line->module, sizeof line->module, "%s", module);
    va_start(arguments, format);
    if (vsnprintf(line->text, sizeof line->text, format, arguments) >= (int)sizeof line->text)
        cut_at_character(line->text, sizeof line->text);
    va_end(arguments);
    /* acquire: partner is the release in log_set_mirror; what it writes to is there. */
    mirror = atomic_load_explicit(&sink.mirror, memory_order_acquire);
    if (mirror != NULL)
        mirror(line);
    if (is_raw) {
        char shown[LOG_LINE_BYTES];
        size_t text_at;

        keep(line);
        write_all(shown, format_line(shown, line, &text_at));
    } else {
        /* Publishes the record; pairs with the acquire in write_next(). */
        atomic_store_explicit(&record->turn, turn_of(position) + 1, memory_order_release);
        wake_writer();
    }
    errno = errno_before;
}

void log_set_mirror(void (*mirror)(const struct log_line *line))
{
    atomic_store_explicit(&sink.mirror, mirror, memory_order_release);
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

/* The turn of a slot that is free for the record of this position. */
static uint64_t turn_of(uint64_t position)
{
    return position / LOG_RECORDS * 2;
}

/* Take the next position that is free. NULL: the ring is full. */
static struct log_record *claim(uint64_t *position)
{
    uint64_t at = atomic_load_explicit(&sink.next, memory_order_relaxed);

    for (;;) {
        struct log_record *record = &ring[at % LOG_RECORDS];
        /* Pairs with the release in write_next(): who sees the slot free may overwrite it. */
        const uint64_t turn = atomic_load_explicit(&record->turn, memory_order_acquire);

        if (turn == turn_of(at)) {
            if (atomic_compare_exchange_weak_explicit(&sink.next, &at, at + 1, memory_order_relaxed,
                                                      memory_order_relaxed)) {
                *position = at;
                return record;
            }
        } else if (turn < turn_of(at)) {
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
        take_wanted_sinks();
        while (write_next())
            ;
        report_lost();
        atomic_store_explicit(&sink.asleep, 1, memory_order_relaxed);
        atomic_thread_fence(memory_order_seq_cst); /* pairs with the one in wake_writer() */
        if (write_next() || atomic_load_explicit(&sink.sinks_wanted, memory_order_relaxed) != NULL)
            continue;
        /* Pairs with the release in log_stop(): what was logged before is in the ring. */
        if (atomic_load_explicit(&sink.stopping, memory_order_acquire)) {
            while (write_next())
                ;
            log_sinks_finish(&sink.sinks);
            sink.sinks = (struct log_sinks) { .desc = { .to_stderr = true } };
            return NULL;
        }
        syscall(SYS_futex, &sink.asleep, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0);
    }
}

static bool write_next(void)
{
    struct log_record *record = &ring[sink.written % LOG_RECORDS];

    if (atomic_load_explicit(&record->turn, memory_order_acquire) != turn_of(sink.written) + 1)
        return false;
    keep(&record->line);
    write_to_sinks(&record->line);
    /* Gives the slot back; pairs with the acquire in claim(). */
    atomic_store_explicit(&record->turn, turn_of(sink.written + LOG_RECORDS), memory_order_release);
    sink.written++;
    return true;
}

static void report_lost(void)
{
    const uint64_t lost = log_lost();
    struct log_line line = { .level = LOG_LEVEL_WARNING, .module = "log" };

    if (lost == sink.lost_reported)
        return;
    clock_gettime(CLOCK_REALTIME, &line.at);
    snprintf(line.text, sizeof line.text, "%llu lines lost, the ring was full",
             (unsigned long long)(lost - sink.lost_reported));
    sink.lost_reported = lost;
    keep(&line);
    write_to_sinks(&line);
}

/* ---- sinks, and the last lines ----------------------------------------------------------------- */

static void take_wanted_sinks(void)
{
    /* Takes it over; pairs with the exchange in log_use_sinks(). */
    struct log_sinks_desc *wanted =
        atomic_exchange_explicit(&sink.sinks_wanted, NULL, memory_order_acq_rel);

    if (wanted == NULL)
        return;
    log_sinks_use(&sink.sinks, wanted);
    free(wanted);
}

static void write_to_sinks(const struct log_line *line)
{
    char shown[LOG_LINE_BYTES], text[LOG_LINE_BYTES];
    size_t text_at;
    const size_t bytes = format_line(shown, line, &text_at);
    bool is_for_stderr;

    if (!sink.sinks.desc.to_file && !sink.sinks.desc.to_journal) {
        write_all(shown, bytes);
        return;
    }
    memcpy(text, shown + text_at, bytes - text_at);
    text[bytes - text_at - 1] = '\0'; /* without the LF */
    is_for_stderr = log_sinks_write(&sink.sinks, line, shown, bytes, text, say);
    atomic_store_explicit(&sink.sink_lost, sink.sinks.lost, memory_order_relaxed);
    if (is_for_stderr)
        write_all(shown, bytes);
}

/* Said by a sink of itself: to stderr and to those who follow. */
static void say(enum log_level level, const char *format, ...)
{
    struct log_line line = { .level = level, .module = "log" };
    char shown[LOG_LINE_BYTES];
    va_list arguments;
    size_t text_at;

    clock_gettime(CLOCK_REALTIME, &line.at);
    va_start(arguments, format);
    vsnprintf(line.text, sizeof line.text, format, arguments);
    va_end(arguments);
    keep(&line);
    write_all(shown, format_line(shown, &line, &text_at));
}

static void keep(struct log_line *line)
{
    pthread_mutex_lock(&sink.recent_lock);
    line->sequence = ++sink.recent_count;
    recent[(line->sequence - 1) % LOG_RECENT] = *line;
    if (sink.tap != NULL)
        sink.tap(sink.tap_context);
    pthread_mutex_unlock(&sink.recent_lock);
}

/* ---- modules ----------------------------------------------------------------------------------- */

static struct log_module *find_module(const char *name)
{
    /* Pairs with the release in add_module(): the names are there. */
    const unsigned count = atomic_load_explicit(&sink.module_count, memory_order_acquire);

    for (unsigned i = 0; i < count; i++)
        if (strcmp(sink.modules[i].name, name) == 0)
            return &sink.modules[i];
    return NULL;
}

static struct log_module *add_module(const char *name)
{
    struct log_module *row;
    unsigned count;

    pthread_mutex_lock(&sink.modules_lock);
    row = find_module(name);
    count = atomic_load_explicit(&sink.module_count, memory_order_relaxed);
    if (row == NULL && count < LOG_MODULES && strlen(name) < LOG_MODULE_BYTES) {
        row = &sink.modules[count];
        strcpy(row->name, name);
        atomic_store_explicit(&row->level, LEVEL_COMMON, memory_order_relaxed);
        /* Publishes the name; pairs with the acquire in find_module(). */
        atomic_store_explicit(&sink.module_count, count + 1, memory_order_release);
    }
    pthread_mutex_unlock(&sink.modules_lock);
    return row;
}

static void reckon_least(void)
{
    int least = atomic_load_explicit(&sink.level, memory_order_relaxed);

    pthread_mutex_lock(&sink.modules_lock);
    for (unsigned i = 0; i < atomic_load_explicit(&sink.module_count, memory_order_relaxed); i++) {
        const int level = atomic_load_explicit(&sink.modules[i].level, memory_order_relaxed);

        least = level != LEVEL_COMMON && level < least ? level : least;
    }
    atomic_store_explicit(&sink.least, least, memory_order_relaxed);
    pthread_mutex_unlock(&sink.modules_lock);
}

static bool is_wanted(enum log_level level, const char *module)
{
    return level >= log_level_of(module);
}

/* ---- text -------------------------------------------------------------------------------------- */

/* "2025-11-30T12:34:56.123456Z [events][info] text", one line whatever the text holds. */
static size_t format_line(char *shown, const struct log_line *line, size_t *text_at)
{
    struct tm utc;
    size_t bytes;

    gmtime_r(&line->at.tv_sec, &utc);
    bytes = strftime(shown, 32, "%Y-%m-%dT%H:%M:%S", &utc);
    bytes += (size_t)sprintf(shown + bytes, ".%06ldZ [%s][%s] ", line->at.tv_nsec / 1000,
                             line->module, ec_log_level_name(line->level));
    *text_at = bytes;
    bytes += append_escaped(shown + bytes, line->text);
    shown[bytes++] = '\n';
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
