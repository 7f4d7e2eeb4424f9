/* exposition.h - the metrics in the text format of Prometheus, version 0.0.4.
 *
 * Names are engine_core_TOPIC_NAME, with units as Prometheus has them: seconds, ratios, and _total for what
 * only grows. Of clients, types, clocks and groups at most EXPOSITION_ROWS are named, and the rest is one
 * row "other", so that nobody can flood the store.
 *
 * Thread: loop. */
#ifndef ENGINE_CORED_EXPOSITION_H
#define ENGINE_CORED_EXPOSITION_H

#include <stdio.h>

struct services;

#define EXPOSITION_ROWS 64

void exposition_write(struct services *services, FILE *out);

/* A label's value, escaped. */
void exposition_label(FILE *out, const char *text);

#endif
