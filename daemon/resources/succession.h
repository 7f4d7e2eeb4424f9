/* succession.h - assets outlive the daemon, where the service manager keeps its segments.
 *
 * Two things tell what there was. The directory, which is kept: handle, place and size of all that is in
 * memory; the allocator of the heap is rebuilt from it alone, and what was loading is free. And a file
 * beside the socket (PATH.assets): which groups are defined, and which of them are wanted; it is replaced
 * as a whole when something changed, before that is answered.
 *
 * What is held or wanted keeps its handle and its bytes. Until every client of the last run is back or
 * known to be dead nothing is freed at all, because nobody knows what they hold (clients_awaited()).
 *
 * Thread: loop. */
#ifndef RESOURCES_SUCCESSION_H
#define RESOURCES_SUCCESSION_H

#include "foundation/error.h"

struct resources;

/* Before the configured manifests: define what the last run had defined, and take its assets over.
 * Without kept segments nothing happens. */
void succession_begin(struct resources *resources);
/* Groups or their states have changed: it is written before the next answer goes out. */
void succession_note(struct resources *resources);
/* The heritage is of this run by now: so must the file be, before archives are opened, which may take long. */
void succession_write(struct resources *resources);
void succession_end(struct resources *resources);

/* For tests: define the groups of such a text; what is wanted comes back in the groups' asked and, as
 * GROUP_EVICTED, in their state. Returns EC_OK, EC_ERR_PARSE, EC_ERR_PARAM or as groups_define. */
int succession_read(struct resources *resources, const char *text, unsigned long bytes,
                    unsigned long long instance, struct ec_error *why);

#endif
