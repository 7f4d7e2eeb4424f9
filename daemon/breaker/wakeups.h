/* wakeups.h - the kernel's own events about memory, as extra wake-ups between two looks.
 *
 *   control group v1   an eventfd that is rung when usage crosses a mark
 *   control group v2   memory.events, which can be polled
 *   pressure           a trigger: programs waited for memory for some time within two seconds
 *
 * All of them are optional: rights, kernels and containers differ, and plain files of a test have none.
 * What is not there is noted with its reason; the tick finds everything by itself.
 *
 * Thread: loop. */
#ifndef ENGINE_CORED_BREAKER_WAKEUPS_H
#define ENGINE_CORED_BREAKER_WAKEUPS_H

#include <uv.h>

#include "breaker/sources.h"

struct wakeups;

/* wake is called from the loop when an event came. */
struct wakeups *wakeups_create(uv_loop_t *loop, void (*wake)(void *context), void *context);
void wakeups_destroy(struct wakeups *wakeups); /* accepts NULL */

/* Arm what a source has, at these marks. Again after its limit or the marks changed. */
void wakeups_arm(struct wakeups *wakeups, struct sources *sources, uint32_t source,
                 const struct level_marks *marks, uint32_t fast_permille);
void wakeups_disarm(struct wakeups *wakeups, uint32_t source);

uint64_t wakeups_count(const struct wakeups *wakeups); /* events so far */
bool wakeups_is_armed(const struct wakeups *wakeups, uint32_t source);

#endif
