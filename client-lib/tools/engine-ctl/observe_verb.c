/* engine-ctl mem-observe: how closely a program looks at its own memory. */
#include <stdint.h>
#include <string.h>

#include "engine-ctl/duration.h"
#include "engine-ctl/json_read.h"
#include "engine-ctl/print.h"
#include "engine-ctl/verb.h"

enum { SAMPLE, CHECKS };

static int read_switch(const char *text, bool *on);
static void print_observed(const struct ctl *ctl, const cJSON *result);

int verb_mem_observe(struct ctl *ctl, const struct verb_input *input)
{
    const char *sample = input->options[SAMPLE], *checks = input->options[CHECKS];
    uint64_t sample_bytes = 0;
    bool on = false;
    long long client;
    cJSON *params;
    int rc = EXIT_DONE;

    if (!verb_number(input->arguments[0], 1, UINT32_MAX, &client))
        return ctl_fail(EXIT_USAGE, "mem-observe: \"%s\" is not the number of a client",
                        input->arguments[0]);
    if (sample == NULL && checks == NULL)
        return ctl_fail(EXIT_USAGE, "mem-observe: expected --sample, --checks, or both");
    if (sample != NULL && !sample_distance_parse(sample, &sample_bytes))
        rc = ctl_fail(EXIT_USAGE,
                      "mem-observe: --sample is \"%s\", expected bytes up to 1TiB, or off", sample);
    if (rc == EXIT_DONE && checks != NULL)
        rc = read_switch(checks, &on);
    if (rc != EXIT_DONE)
        return rc;
    params = cJSON_CreateObject();
    cJSON_AddNumberToObject(params, "client_id", (double)client);
    if (sample != NULL)
        cJSON_AddNumberToObject(params, "sample_bytes", (double)sample_bytes);
    if (checks != NULL)
        cJSON_AddBoolToObject(params, "checks", on);
    return ctl_show(ctl, "memory.observe", params, print_observed);
}

static int read_switch(const char *text, bool *on)
{
    *on = strcmp(text, "on") == 0;
    if (!*on && strcmp(text, "off") != 0)
        return ctl_fail(EXIT_USAGE, "mem-observe: --checks is \"%s\", expected on or off", text);
    return EXIT_DONE;
}

static void print_observed(const struct ctl *ctl, const cJSON *result)
{
    const double sample_bytes = json_number(result, "sample_bytes");
    char text[TEXT_BYTES];

    (void)ctl;
    printf("Client %.0f: ", json_number(result, "client_id"));
    if (sample_bytes == 0)
        fputs("no samples", stdout);
    else if (sample_bytes == 1)
        fputs("each block is a sample", stdout);
    else
        printf("a sample in %s", bytes_text(text, sample_bytes));
    printf(", checks %s\n", json_is_true(result, "checks") ? "on" : "off");
}
