/* breaker_level.h - how a level of the breaker is shown. */
#ifndef ENGINE_CTL_BREAKER_LEVEL_H
#define ENGINE_CTL_BREAKER_LEVEL_H

#include "engine-ctl/print.h"

static inline const char *breaker_level_name(double level)
{
    return level <= 0 ? "normal" : level <= 1 ? "warning" : level <= 2 ? "eviction" : "emergency";
}

static inline enum style breaker_level_style(double level)
{
    return level <= 0 ? STYLE_GOOD : level <= 1 ? STYLE_WARNING : STYLE_BAD;
}

#endif
