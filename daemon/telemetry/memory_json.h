/* memory_json.h - the parts of a memory report as JSON, each a member of the open object.
 *
 * Call stacks go out as offsets in files, with the list of those files beside them, so that a tool can
 * name functions and lines without the process:
 *
 *     "sites":[{"where":"game+0x1234", …, "frames":[{"module":0,"offset":"0x1234"}]}],
 *     "modules":[{"path":"/usr/bin/game","build_id":"6f0c…"}]
 *
 * Thread: loop. */
#ifndef ENGINE_CORED_TELEMETRY_MEMORY_JSON_H
#define ENGINE_CORED_TELEMETRY_MEMORY_JSON_H

#include <stdbool.h>

#include "foundation/json/json_writer.h"
#include "segment/site_report.h"
#include "segment/telemetry.h"
#include "telemetry/host_memory.h"
#include "telemetry/memory_history.h"

/* The modules that frames were found in, in the order of their first use. */
struct memory_modules {
    struct ec_module_report module[EC_MODULES_MAX];
    unsigned count;
    bool brief; /* of each stack only the frame that the site is called after */
};

/* history may be NULL. */
void memory_json_tags(struct ec_json_writer *writer, const struct ec_client_segment *segment,
                      const struct memory_history *history);
void memory_json_allocators(struct ec_json_writer *writer, const struct ec_client_segment *segment);
void memory_json_sampling(struct ec_json_writer *writer, const struct ec_client_segment *segment);
/* {on, faults} */
void memory_json_checks(struct ec_json_writer *writer, const struct ec_client_segment *segment);
/* From what was asked for to what the system counts; process is NULL of one that has ended. */
void memory_json_bridge(struct ec_json_writer *writer, const struct ec_client_segment *segment,
                        const struct process_memory *process);
/* A site that is one has its place, too, as in the list of sites. */
void memory_json_suspects(struct ec_json_writer *writer, const struct ec_client_segment *segment,
                          const struct memory_history *history, uint64_t frames_min,
                          struct memory_modules *modules);

/* One object of a list: amounts and place. */
void memory_json_site(struct ec_json_writer *writer, const struct ec_client_segment *segment,
                      const struct ec_site_report *site, struct memory_modules *modules);
/* Its members alone. */
void memory_json_site_place(struct ec_json_writer *writer, const struct ec_client_segment *segment,
                            const struct ec_site_report *site, struct memory_modules *modules);
void memory_json_modules(struct ec_json_writer *writer, const struct memory_modules *modules);

/* "file.c:12", or "game+0x1234", or an address that lies in no module. */
#define MEMORY_WHERE_BYTES 128
void memory_where(const struct ec_client_segment *segment, const struct ec_site_report *site,
                  char where[MEMORY_WHERE_BYTES]);

#endif
