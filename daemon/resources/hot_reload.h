/* hot_reload.h - in development, a file that was saved is loaded again while games run.
 *
 * Directories are watched, not files, since editors write a new file and move it over the old one. Only
 * complete files count (closed after writing, moved in); what follows within 100 ms belongs to the same
 * save. The result of a load that succeeded becomes a new life of the resource: its name moves to
 * another entry, and who holds the old one keeps its bytes until the release. One that failed changes
 * nothing and is logged.
 *
 * Thread: loop. */
#ifndef RESOURCES_HOT_RELOAD_H
#define RESOURCES_HOT_RELOAD_H

#include "foundation/error.h"

struct hot_reload;
struct load_job;
struct resource;
struct resources;

/* Begin to watch what is mounted. A changed archive has the search path opened anew first.
 *
 * Returns EC_OK, EC_ERR_MEMORY or EC_ERR_SYSTEM. */
int hot_reload_create(struct resources *resources, struct ec_error *why);
void hot_reload_destroy(struct resources *resources); /* accepts one without */
/* The search path has changed; without hot reload nothing happens. */
void hot_reload_mounts_changed(struct resources *resources);

/* A READY or DECODED resource is loaded again; one that is loading begins anew when it has ended. Returns
 * EC_OK, EC_ERR_STATE (not in memory), EC_ERR_PATH (an alias makes it too long) or EC_ERR_MEMORY. */
int hot_reload_begin(struct resources *resources, struct resource *resource, struct ec_error *why);
/* The result is in; owns the job. The resource may have gone meanwhile. */
void hot_reload_job_done(struct resources *resources, struct resource *resource,
                         struct load_job *job);

#endif
