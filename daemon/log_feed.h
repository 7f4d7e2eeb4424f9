/* log_feed.h - log lines as notifications, for log.tail.
 *
 * The writer thread only wakes the loop; the loop reads the last lines and publishes them to a feed. The
 * feed keeps all lines that it got, so log.tail can begin in the past, and since needs no subscription
 * that was there before.
 *
 * Thread: loop. */
#ifndef ENGINE_CORED_LOG_FEED_H
#define ENGINE_CORED_LOG_FEED_H

#include "foundation/error.h"

struct services;

int log_feed_init(struct services *services, struct ec_error *why); /* module phase */
void log_feed_shutdown(struct services *services);

#endif
