/* bench/session_trace.h - the resource trace of an evening's play, the same each time.
 *
 * 24 levels, 12 characters, an interface and what all levels share, of sizes between 50 KB and 8 MB. A
 * player is in menus, plays a level, tries it again, or plays four in a row; in a row the next level is
 * known before, and the game says so by soft references.
 *
 * The file is as engine-ctl resources replay reads it. Thread: one. */
#ifndef EC_BENCH_SESSION_TRACE_H
#define EC_BENCH_SESSION_TRACE_H

#include <stdbool.h>
#include <stdint.h>

/* *bytes is the size of all resources together. false: it cannot be written. */
bool session_trace_write(const char *path, uint64_t *bytes);

#endif
