/* log.h - the daemon's log: lines "[Module][Level] Message" that never block the caller.
 *
 *     log_info("events", "type %s registered by client %u", name, client_id);
 *
 * Records of a fixed size go into a ring; a writer thread writes them to the sinks: stderr, a file, the
 * journal. When the ring is full the line is lost and counted (counter log.lost); the writer reports how
 * many. Before log_start and after log_stop lines go straight to stderr with one write. The last lines
 * are kept for those who come later (log_read). Control characters
 * are written as \\xNN, so that a name that a stranger chose cannot forge a line.
 *
 * Thread: any, but not a signal handler. Cost: one formatting and one copy; no lock, and no system
 * call but one wake-up when the writer sleeps. */
#ifndef ENGINE_CORED_LOG_H
#define ENGINE_CORED_LOG_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define LOG_TEXT_BYTES 456  /* longer messages are cut */
#define LOG_MODULE_BYTES 24 /* longer names are cut */

enum log_level {
    LOG_LEVEL_TRACE,
    LOG_LEVEL_DEBUG,
    LOG_LEVEL_INFO,
    LOG_LEVEL_WARNING,
    LOG_LEVEL_ERROR
};

/* One line, as those get it who read the last ones. */
struct log_line {
    uint64_t sequence;  /* 1 is the first since the start */
    struct timespec at; /* wall clock */
    enum log_level level;
    char module[LOG_MODULE_BYTES];
    char text[LOG_TEXT_BYTES]; /* may hold control characters */
};

int log_start(void); /* EC_OK or EC_ERR_SYSTEM */
void log_stop(void); /* writes what is left, then joins the writer */

/* All take effect at once. A module's own level counts instead of the common one, whichever is lower.
 * log_level_parse answers false for a name that is not a level. */
void log_set_level(enum log_level level);
int log_set_module_level(const char *module, enum log_level level); /* EC_OK or EC_ERR_LIMIT */
void log_clear_module_levels(void);
enum log_level log_level_of(const char *module); /* NULL: the common one */
const char *log_module_at(unsigned index);       /* of those that have, or had, their own; NULL */
const char *log_level_name(enum log_level level);
bool log_level_parse(const char *name, enum log_level *level);
uint64_t log_lost(void);
uint64_t log_sink_lost(void); /* lines that a file or the journal did not take */

/* Write to these sinks from now on. Where a file cannot be written, lines go to stderr and it is said
 * once; the file is tried again with each line. */
struct log_sinks_desc;
void log_use_sinks(const struct log_sinks_desc *desc);

/* Copy the lines behind *sequence (0: all that are kept), and move it on. A gap means that they came
 * faster than they were read. */
unsigned log_read(uint64_t *sequence, struct log_line *lines, unsigned max);
/* Call tap after each line, from whatever thread; it must not log or block. NULL: none any more, and
 * none is running. */
void log_set_tap(void (*tap)(void *context), void *context);

/* Call mirror with each line as soon as it is made, on the thread that logs: for what has to survive the
 * process. It must not log, block or allocate. NULL: none any more; another thread may still be in it. */
void log_set_mirror(void (*mirror)(const struct log_line *line));

/* Below the log: needs nothing of it, and may be called by a signal handler. text has its own LF. */
void log_raw(const char *text);

void log_write(enum log_level level, const char *module, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#define log_debug(module, ...) log_write(LOG_LEVEL_DEBUG, module, __VA_ARGS__)
#define log_info(module, ...) log_write(LOG_LEVEL_INFO, module, __VA_ARGS__)
#define log_warning(module, ...) log_write(LOG_LEVEL_WARNING, module, __VA_ARGS__)
#define log_error(module, ...) log_write(LOG_LEVEL_ERROR, module, __VA_ARGS__)

#endif
