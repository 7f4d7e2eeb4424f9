/* stress/namespaces.h - run something with processes and mounts of its own.
 *
 * For guards that know the host only: what they see there can be arranged.
 *
 * Thread: one. */
#ifndef EC_STRESS_NAMESPACES_H
#define EC_STRESS_NAMESPACES_H

#include <stdbool.h>
#include <stddef.h>

/* Run fn in a child that is the first process of its namespace, with a /proc of its own, and wait for
 * it. What it has to tell goes through memory that is shared with it.
 *
 * false: namespaces cannot be had here, and why says the reason. */
bool namespaces_run(void (*fn)(void *context), void *context, char *why, size_t bytes);

#endif
