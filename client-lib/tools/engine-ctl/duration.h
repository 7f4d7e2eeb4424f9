/* duration.h - durations and amounts on the command line: "250ms", "1.5s", "2GiB".
 *
 * Thread: any. */
#ifndef ENGINE_CTL_DURATION_H
#define ENGINE_CTL_DURATION_H

#include <stdbool.h>
#include <stdint.h>

/* In ns: a number with ns, us, ms, s, min or h; without a unit it is seconds. false: it is none, negative,
 * or beyond 2^63 ns. */
bool duration_parse(const char *text, long long *ns);

/* A number, with KiB, MiB, GiB or TiB, or a unit of time, which makes it ns. */
bool amount_parse(const char *text, double *amount);

/* Whole bytes with or without such a unit, up to 1 TiB, between two samples of memory; "off" is 0. */
bool sample_distance_parse(const char *text, uint64_t *bytes);

#endif
