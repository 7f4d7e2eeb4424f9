/* json_read.h - read members that may be missing out of a cJSON tree, and build params.
 *
 * A missing member reads as zero, "" or an empty list: what a daemon does not tell is not shown.
 *
 * Thread: any. */
#ifndef ENGINE_CTL_JSON_READ_H
#define ENGINE_CTL_JSON_READ_H

#include <stdbool.h>

#include <cjson/cJSON.h>

static inline const cJSON *json_member(const cJSON *object, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(object, name);
}

static inline double json_number(const cJSON *object, const char *name)
{
    const cJSON *member = json_member(object, name);

    return cJSON_IsNumber(member) ? member->valuedouble : 0;
}

static inline const char *json_text(const cJSON *object, const char *name)
{
    const cJSON *member = json_member(object, name);

    return cJSON_IsString(member) ? member->valuestring : "";
}

static inline bool json_is_true(const cJSON *object, const char *name)
{
    return cJSON_IsTrue(json_member(object, name));
}

/* The text of an object, which is deleted; free it with cJSON_free. NULL: no memory. */
static inline char *json_params(cJSON *object)
{
    char *text = cJSON_PrintUnformatted(object);

    cJSON_Delete(object);
    return text;
}

#endif
