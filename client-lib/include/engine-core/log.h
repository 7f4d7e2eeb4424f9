/* engine-core/log.h - the last lines that a program wants to be remembered by.
 *
 *     ec_log(client, "level %s: %u of %u objects placed", level, placed, count);
 *
 * The last 32 lines lie in shared memory. When the program dies, by whatever signal, they are in its
 * post-mortem record: engine-ctl postmortem list, engine-ctl postmortem show ID. Nobody reads them
 * before that, and nothing is written anywhere: this is no replacement for the program's own log.
 *
 * Thread: any. Cost: formatting and a copy; no lock, no system call. */
#ifndef ENGINE_CORE_LOG_H
#define ENGINE_CORE_LOG_H

#include <engine-core/client.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A line of at most 247 bytes of UTF-8; what is longer is cut. */
EC_API void ec_log(struct ec_client *client, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#ifdef __cplusplus
}
#endif
#endif
