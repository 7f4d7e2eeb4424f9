/* memory_watch.h - looks at the memory of all clients from time to time, and keeps snapshots of it.
 *
 * Thread: loop. Cost: each memory.look_ms some 10 us per client. */
#ifndef ENGINE_CORED_TELEMETRY_MEMORY_WATCH_H
#define ENGINE_CORED_TELEMETRY_MEMORY_WATCH_H

#include "foundation/error.h"
#include "telemetry/memory_history.h"
#include "telemetry/memory_snapshot.h"

struct memory_watch;
struct services;

int memory_watch_init(struct services *services, struct ec_error *why); /* module phases */
int memory_watch_post_init(struct services *services, struct ec_error *why);
void memory_watch_shutdown(struct services *services);

/* NULL: the client is not attached, or it was not looked at yet. */
const struct memory_history *memory_watch_history(const struct memory_watch *watch,
                                                  uint32_t client_id);

/* All allocations of all clients per second, at the last look. */
double memory_watch_allocations_per_s(const struct memory_watch *watch);

/* How many frames make a suspect: memory.suspect_frames. */
uint64_t memory_watch_frames(const struct memory_watch *watch);

struct memory_snapshots *memory_watch_snapshots(struct memory_watch *watch);

#endif
