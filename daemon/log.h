/* log.h - the daemon's log: lines "[Module][Level] Message" that never block the caller.
 *
 *     log_info("events", "type %s registered by client %u", name, client_id);
 *
 * Records of a fixed size go into a ring; a writer thread adds the time and writes them to stderr.
 * When the ring is full the line is lost and counted (counter log.lost); the writer reports how many.
 * Before log_start and after log_stop lines go straight to stderr with one write. Control characters
 * are written as \\xNN, so that a name that a stranger chose cannot forge a line.
 *
 * Thread: any, but not a signal handler. Cost: one formatting and one copy; no lock, and no system
 * call but one wake-up when the writer sleeps. */
#ifndef ENGINE_CORED_LOG_H
#define ENGINE_CORED_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum log_level {
    LOG_LEVEL_TRACE,
    LOG_LEVEL_DEBUG,
    LOG_LEVEL_INFO,
    LOG_LEVEL_WARNING,
    LOG_LEVEL_ERROR
};

int log_start(void); /* EC_OK or EC_ERR_SYSTEM */
void log_stop(void); /* writes what is left, then joins the writer */

/* Takes effect at once. log_level_parse answers false for a name that is not a level. */
void log_set_level(enum log_level level);
bool log_level_parse(const char *name, enum log_level *level);
uint64_t log_lost(void);

void log_write(enum log_level level, const char *module, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#define log_debug(module, ...) log_write(LOG_LEVEL_DEBUG, module, __VA_ARGS__)
#define log_info(module, ...) log_write(LOG_LEVEL_INFO, module, __VA_ARGS__)
#define log_warning(module, ...) log_write(LOG_LEVEL_WARNING, module, __VA_ARGS__)
#define log_error(module, ...) log_write(LOG_LEVEL_ERROR, module, __VA_ARGS__)

#endif
