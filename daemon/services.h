/* services.h - the registry of the daemon: one typed pointer per module.
 *
 * Filled in while the modules start, read-only memory afterwards. A module's own functions take their own
 * state, so that a test builds one without the daemon; only command handlers and the module table
 * see this struct. */
#ifndef ENGINE_CORED_SERVICES_H
#define ENGINE_CORED_SERVICES_H

#include <stdint.h>

struct uv_loop_s;
struct before_answers;
struct breaker;
struct clients;
struct crash_record;
struct config;
struct config_watch;
struct config_source;
struct control;
struct counters;
struct decode_nursery;
struct events;
struct fd_store;
struct memory_watch;
struct heritage;
struct http;
struct log_feed;
struct postmortem;
struct metrics;
struct notify;
struct own_memory;
struct resources;
struct scheduler;
struct segments;

struct services {
    struct uv_loop_s *loop;
    uint64_t instance; /* random id of this run */
    int64_t started_ns;
    struct notify *notify;   /* the way to the service manager; NULL: none */
    const char *socket_path; /* as given or chosen; for core.info */
    int listen_fd;           /* a listening socket that the service manager passed; -1: bind */
    struct decode_nursery *decode_nursery; /* the process that others are forked from */
    int metrics_fd; /* a listening TCP socket that it passed; -1: no metrics over HTTP */
    const struct config_source *config_source; /* what the configuration is read from */

    struct config *config;
    struct config_watch *config_watch; /* NULL: no inotify here */
    struct counters *counters;
    struct before_answers *before_answers;
    struct crash_record *crash_record;
    struct postmortem *postmortem;
    struct fd_store *fd_store; /* also before its module: what was passed */
    struct heritage *heritage;
    struct segments *segments;
    struct clients *clients;
    struct events *events;
    struct log_feed *log_feed;
    struct scheduler *scheduler;
    struct resources *resources;
    struct own_memory *own_memory;
    struct memory_watch *memory_watch;
    struct breaker *breaker;
    struct metrics *metrics;
    struct http *http; /* NULL: no socket was passed */
    struct control *control;
};

/* An empty registry on pages of its own; NULL: no memory. */
struct services *services_create(void);
void services_destroy(struct services *services); /* accepts NULL */

/* After the start nothing may change the registry any more: a write ends the daemon at the place that
 * wrote, instead of being found by whoever reads it. Before the end it is opened again. */
void services_lock(struct services *services);
void services_unlock(struct services *services);

/* Ask the main loop to end in good order. Thread: loop. */
void services_stop(struct services *services);

#endif
