/* watch.h - show something once, or again and again: --watch[=SECONDS] of several verbs.
 *
 * Thread: one. */
#ifndef ENGINE_CTL_WATCH_H
#define ENGINE_CTL_WATCH_H

#include "engine-ctl/ctl.h"

#define WATCH_S_MAX 86400

/* Show it, and flush. */
typedef int watch_show_fn(struct ctl *ctl, void *context);

/* seconds is the value of --watch: NULL for once, "" for each second. Goes on until show fails, as it does
 * when the daemon goes, or a signal ends the program. verb is for messages. */
int watch_show(struct ctl *ctl, const char *verb, const char *seconds, watch_show_fn *show,
               void *context);

#endif
