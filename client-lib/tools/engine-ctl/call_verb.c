/* engine-ctl call METHOD [PARAMS] */
#include "engine-ctl/verb.h"

#include <string.h>

static bool is_json(const char *text);

int verb_call(struct ctl *ctl, const struct verb_input *input)
{
    const char *method = input->arguments[0], *params = input->arguments[1];

    /* Both become part of one line of JSON. */
    if (strspn(method, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") !=
        strlen(method))
        return ctl_fail(EXIT_USAGE, "call: \"%s\" is not the name of a method", method);
    if (params != NULL && !is_json(params))
        return ctl_fail(EXIT_USAGE, "call: the params are not JSON: %s", params);
    return ctl_call_and_print(ctl, method, params);
}

static bool is_json(const char *text)
{
    cJSON *tree = cJSON_ParseWithOpts(text, NULL, true);
    bool valid = tree != NULL;

    cJSON_Delete(tree);
    return valid;
}
