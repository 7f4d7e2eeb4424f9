/* profile_format.h - write call sites for other programs: folded stacks, and pprof's protobuf.
 *
 * Folded: one line a site, root first, "main;spawn;ec_pool_alloc 4096", as flame graphs read it. pprof:
 * the message perftools.profiles.Profile, uncompressed, with four sample types: live blocks and bytes, and
 * those allocated so far (inuse_objects, inuse_space, alloc_objects, alloc_space).
 *
 * Thread: one. */
#ifndef ENGINE_CTL_PROFILE_FORMAT_H
#define ENGINE_CTL_PROFILE_FORMAT_H

#include <stdbool.h>
#include <stdio.h>

#include <cjson/cJSON.h>

#include "engine-ctl/symbols.h"

/* process: an item of memory.sites. by_total: what was allocated, not what is held. false: out could not
 * take it, or there is no memory. */
bool profile_write_folded(FILE *out, const cJSON *process, struct symbols *symbols, bool by_total);
bool profile_write_pprof(FILE *out, const cJSON *process, struct symbols *symbols);

#endif
