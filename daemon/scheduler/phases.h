/* phases.h - when in a period each member of a group is woken, so that not all are at once.
 *
 * Thread: any; pure. */
#ifndef ENGINE_CORED_SCHEDULER_PHASES_H
#define ENGINE_CORED_SCHEDULER_PHASES_H

#include <stdint.h>

/* The middle of the largest gap between the phases that are taken, each below period_ns: the place of a
 * newcomer, which moves nobody. 0 for the first. taken is sorted by it. */
int64_t phase_for_newcomer(int64_t *taken, unsigned count, int64_t period_ns);

#endif
