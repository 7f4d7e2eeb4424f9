/* fault.h - put a reason into struct ec_error: the library keeps its own way of doing so to itself.
 *
 * Thread: any. */
#ifndef ENGINE_CTL_FAULT_H
#define ENGINE_CTL_FAULT_H

#include <engine-core/error.h>

/* Returns the code. why may be NULL. */
int fault(struct ec_error *why, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
