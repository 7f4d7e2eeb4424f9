/* log_limit.h - let what strangers can cause be logged now and then, not as often as they like.
 *
 *     static … struct log_limit limit;
 *     uint64_t kept_back;
 *
 *     if (log_limit_allows(&limit, now_ns, &kept_back))
 *         log_warning("control", "… (%llu more were not logged)", kept_back);
 *
 * Thread: one. */
#ifndef ENGINE_CORED_LOG_LIMIT_H
#define ENGINE_CORED_LOG_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#define LOG_LIMIT_LINES 5 /* in each window */
#define LOG_LIMIT_WINDOW_NS 1000000000

struct log_limit {
    int64_t window_ns; /* when it began */
    unsigned lines;    /* allowed in it */
    uint64_t kept_back;
};

/* *kept_back: how many were refused since the last that was allowed. */
static inline bool log_limit_allows(struct log_limit *limit, int64_t now_ns, uint64_t *kept_back)
{
    if (now_ns - limit->window_ns >= LOG_LIMIT_WINDOW_NS) {
        limit->window_ns = now_ns;
        limit->lines = 0;
    }
    if (limit->lines >= LOG_LIMIT_LINES) {
        limit->kept_back++;
        return false;
    }
    limit->lines++;
    *kept_back = limit->kept_back;
    limit->kept_back = 0;
    return true;
}

#endif
