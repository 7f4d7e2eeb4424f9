/* succession.h - the clocks go on where an earlier run of the daemon left them.
 *
 * How time runs is a closed form, so nothing has to be caught up with: the new run computes which steps
 * were reached meanwhile, as the games did, and announces the newest. Steps are never announced twice,
 * and the epoch stays: no time was lost.
 *
 * What is kept in the page itself (where its segment outlived the daemon) is newer than what the file
 * says, and wins.
 *
 * Thread: loop, before the scheduler's thread runs. */
#ifndef ENGINE_CORED_SCHEDULER_SUCCESSION_H
#define ENGINE_CORED_SCHEDULER_SUCCESSION_H

#include <stdbool.h>

#include "daemon/heritage.h"
#include "proto/clock_page.h"
#include "scheduler/turn.h"

/* Begin where heritage says. now_ns is not before what it knows. */
void succession_restore(struct scheduler_state *state, const struct clock_heritage *heritage,
                        int64_t now_ns);

/* And a checkpoint, after that. One that lies ahead of game time is of a future that was taken back, and
 * one of other clocks is of no use: it is left out, and false returned. */
bool succession_restore_checkpoint(struct scheduler_state *state,
                                   const struct checkpoint_heritage *heritage, int64_t now_ns);

/* Take over what a page says that an earlier run wrote. false: it says nothing that can be used, and
 * heritage is as it was. */
bool succession_read_page(const struct ec_clock_page *page, struct clock_heritage *heritage);

#endif
