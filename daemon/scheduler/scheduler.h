/* scheduler.h - the thread that keeps the step clocks, and the writer of the clock page.
 *
 * The thread sleeps on a command word with the next deadline as time-out, so that one system call
 * waits for the time and for the main loop. Between two sleeps it makes a turn (turn.h): arithmetic,
 * some stores and a wake. It never allocates, logs or takes a lock.
 *
 * Thread: loop, unless a function says otherwise. */
#ifndef ENGINE_CORED_SCHEDULER_H
#define ENGINE_CORED_SCHEDULER_H

#include <stdint.h>

#include "foundation/error.h"
#include "foundation/json/json_writer.h"

struct ec_clock_page;
struct scheduler;
struct services;

int scheduler_init(struct services *services, struct ec_error *why);      /* module phase */
int scheduler_post_init(struct services *services, struct ec_error *why); /* starts the thread */
void scheduler_shutdown(struct services *services);

/* The same without the rest of the daemon. The page stays the caller's and must outlive the
 * scheduler. From create on the page can be read; from start on time goes. destroy accepts NULL. */
int scheduler_create(struct ec_clock_page *page, int priority, struct scheduler **scheduler,
                     struct ec_error *why);
int scheduler_start(struct scheduler *scheduler, struct ec_error *why);
void scheduler_destroy(struct scheduler *scheduler);

/* Make a turn now: the breaker's level was changed in the page (release store), and who sleeps on a
 * step clock has to be told. Without it they hear of it at the next step. Thread: any. */
void scheduler_kick(struct scheduler *scheduler);

/* What the thread was granted: {class, priority, memory_locked, exact_timers, refused?}, one JSON
 * object. */
void scheduler_describe(const struct scheduler *scheduler, struct ec_json_writer *writer);

/* All clocks, as clock.get answers them: one JSON object. EC_OK or EC_ERR_BUSY. */
int scheduler_write_clocks(const struct scheduler *scheduler, struct ec_json_writer *writer,
                           struct ec_error *why);

#endif
