/* segment/site_report.h - read call sites and modules out of a client segment into plain numbers.
 *
 * As with segment/telemetry.h the writer may be hostile or dead: each value is loaded once, counts are
 * bounded, texts end and hold no control characters, and what is current is never below zero.
 *
 * Thread: any. Cost: a pass over the rows in use, some 10 us for a thousand of them; no system call. */
#ifndef EC_SEGMENT_SITE_REPORT_H
#define EC_SEGMENT_SITE_REPORT_H

#include <stdbool.h>

#include "proto/client_segment.h"

struct ec_site_report {
    uint32_t row; /* stays the site's while the segment lives */
    uint32_t tag;
    uint32_t line;
    uint32_t depth;         /* of frames, at most EC_SITE_FRAMES */
    uint32_t modules_until; /* see struct ec_site_row */
    uint64_t bytes;         /* now */
    uint64_t count;         /* live blocks */
    uint64_t total;         /* allocations so far */
    uint64_t total_bytes;
    char file[EC_SITE_FILE_BYTES]; /* "": the stack is all there is */
    uint64_t frames[EC_SITE_FRAMES];
};

enum ec_site_order { EC_SITES_BY_BYTES, EC_SITES_BY_TOTAL };

/* The sites that come first in this order, sorted; by bytes only those that hold any. Returns how many
 * of max were filled in. */
unsigned ec_site_report_top(const struct ec_client_segment *segment, enum ec_site_order order,
                            struct ec_site_report *sites, unsigned max);

/* One row; false: it is not in use. */
bool ec_site_report_row(const struct ec_client_segment *segment, uint32_t row,
                        struct ec_site_report *site);

/* Rows [0, this) may be in use. */
uint32_t ec_site_report_rows(const struct ec_client_segment *segment);

struct ec_module_report {
    uint32_t row;
    bool is_unloaded;
    uint64_t begin, end, bias;
    uint32_t build_id_bytes;
    uint8_t build_id[EC_BUILD_ID_BYTES];
    char path[EC_MODULE_PATH_BYTES];
};

/* The module that an address of a site lies in: of a site whose modules are all loaded one that is loaded before
 * one that was unloaded, of another the newest that was there then. */
bool ec_module_report_find(const struct ec_client_segment *segment,
                           const struct ec_site_report *site, uint64_t address,
                           struct ec_module_report *module);

/* "malloc" in libc says little: the first frame outside of the libraries that pass allocations on, by
 * the name of their file; 0 when all frames lie in such. */
uint32_t ec_site_report_frame(const struct ec_client_segment *segment,
                              const struct ec_site_report *site);

/* How the samples were taken. */
struct ec_sampling_report {
    uint64_t sample_bytes; /* mean distance; 0: none are taken, 1: each allocation */
    uint64_t samples;
    uint64_t lost;
    uint64_t unknown_frees;
    uint32_t sites;
};
void ec_sampling_report(const struct ec_client_segment *segment, struct ec_sampling_report *report);

#endif
