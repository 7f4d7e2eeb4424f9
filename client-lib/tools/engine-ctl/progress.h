/* progress.h - how far long work is, in place on a terminal, nothing elsewhere.
 *
 *     progress_show(ctl, &progress, "%3.0f %%  %s events", percent, text);
 *     progress_end(&progress);
 *
 * Thread: one. Cost: a reading of the clock, unless it is time to print again (five times a second). */
#ifndef ENGINE_CTL_PROGRESS_H
#define ENGINE_CTL_PROGRESS_H

#include <stdint.h>

#include "engine-ctl/ctl.h"

/* Zero has shown nothing yet. */
struct progress {
    int64_t next_ns;
    bool shown;
};

void progress_show(const struct ctl *ctl, struct progress *progress, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void progress_end(struct progress *progress); /* make the line empty again */

#endif
