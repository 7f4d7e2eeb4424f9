/* engine-ctl mem-profile: the call sites of a process in a file that other programs read. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine-ctl/json_read.h"
#include "engine-ctl/profile_format.h"
#include "engine-ctl/verb.h"

#define SITES_MAX 1000

enum { FORMAT, BY, DEBUG_DIRECTORY };

static int write_file(const char *path, const cJSON *process, const struct verb_input *input,
                      bool folded, bool by_total);

int verb_mem_profile(struct ctl *ctl, const struct verb_input *input)
{
    const char *format = input->options[FORMAT] != NULL ? input->options[FORMAT] : "pprof";
    const char *by = input->options[BY] != NULL ? input->options[BY] : "bytes";
    struct json_answer answer = { 0 };
    cJSON *object;
    long long client;
    char *params;
    int rc;

    if (!verb_number(input->arguments[0], 0, UINT32_MAX, &client))
        return ctl_fail(EXIT_USAGE, "mem-profile: \"%s\" is not the number of a client",
                        input->arguments[0]);
    if (strcmp(format, "pprof") != 0 && strcmp(format, "folded") != 0)
        return ctl_fail(EXIT_USAGE, "mem-profile: --format is \"%s\", expected pprof or folded",
                        format);
    if (strcmp(by, "bytes") != 0 && strcmp(by, "total") != 0)
        return ctl_fail(EXIT_USAGE, "mem-profile: --by is \"%s\", expected bytes or total", by);
    object = cJSON_CreateObject();
    cJSON_AddNumberToObject(object, "client_id", (double)client);
    cJSON_AddNumberToObject(object, "limit", SITES_MAX);
    cJSON_AddStringToObject(object, "by", by);
    params = json_params(object);
    rc = ctl_call(ctl, "memory.sites", params, &answer);
    if (rc == EXIT_DONE)
        rc = write_file(input->arguments[1],
                        cJSON_GetArrayItem(json_member(answer.tree, "items"), 0), input,
                        strcmp(format, "folded") == 0, strcmp(by, "total") == 0);
    json_answer_finish(&answer);
    cJSON_free(params);
    return rc;
}

static int write_file(const char *path, const cJSON *process, const struct verb_input *input,
                      bool folded, bool by_total)
{
    const bool to_stdout = strcmp(path, "-") == 0;
    struct symbols *symbols = symbols_create(input->options[DEBUG_DIRECTORY]);
    FILE *out = to_stdout ? stdout : fopen(path, "we");
    bool done = symbols != NULL && out != NULL;

    if (out == NULL) {
        symbols_destroy(symbols);
        return ctl_fail(EXIT_ANSWERED_ERROR, "mem-profile: %s: %s", path, strerror(errno));
    }
    if (done)
        done = folded ? profile_write_folded(out, process, symbols, by_total)
                      : profile_write_pprof(out, process, symbols);
    if (!to_stdout && fclose(out) != 0)
        done = false;
    symbols_destroy(symbols);
    if (!done)
        return ctl_fail(EXIT_ANSWERED_ERROR, "mem-profile: %s could not be written", path);
    return to_stdout ? ctl_flush() : EXIT_DONE;
}
