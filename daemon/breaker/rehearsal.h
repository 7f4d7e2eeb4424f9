/* rehearsal.h - what a policy would do, without doing it.
 *
 * A trace of readings, given or recorded, goes through the same level machine as real ones.
 *
 * Thread: loop. */
#ifndef ENGINE_CORED_BREAKER_REHEARSAL_H
#define ENGINE_CORED_BREAKER_REHEARSAL_H

#include "breaker/policy.h"
#include "breaker/trace.h"
#include "foundation/error.h"
#include "foundation/json/json_writer.h"

/* trace is an array of [at_ms, total_bytes, available_bytes, some_permille?, full_permille?], times
 * ascending. Writes members into an open object: "transitions" [{at_ms, from, to, cause, available_bytes,
 * growth_bytes_s, actions, wanted_bytes}], "level" at the end, "readings", "highest".
 *
 * Returns EC_OK or EC_ERR_PARAM (the text names the element). */
int rehearsal_run(const struct breaker_policy *policy, struct ec_json_span trace,
                  struct ec_json_writer *writer, struct ec_error *why);

/* The same with what was recorded. */
void rehearsal_run_recorded(const struct breaker_policy *policy, const struct trace *trace,
                            struct ec_json_writer *writer);

/* The actions of a level, as an array of names. */
void rehearsal_write_actions(const struct breaker_policy *policy, uint32_t level,
                             struct ec_json_writer *writer);

#endif
