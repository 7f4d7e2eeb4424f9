/* memory_tag.h - which tags of memory.report are worth a line. */
#ifndef ENGINE_CTL_MEMORY_TAG_H
#define ENGINE_CTL_MEMORY_TAG_H

#include "engine-ctl/json_read.h"

/* Each process has all the fixed tags; people want to see those that it uses. */
static inline bool memory_tag_is_used(const cJSON *tag)
{
    return json_number(tag, "peak_bytes") > 0 || json_number(tag, "count") > 0 ||
           json_number(tag, "budget_bytes") > 0;
}

#endif
