/* engine-ctl resources record, resources replay */
#include "engine-ctl/json_read.h"
#include "engine-ctl/print.h"
#include "engine-ctl/resource_trace.h"
#include "engine-ctl/stop_signal.h"
#include "engine-ctl/verb.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <engine-core/clock.h>

#define POLL_NS INT64_C(200000000)
#define BAR_COLUMNS 40
#define CAPACITIES_MAX VERB_LIST_MAX

/* Indices of the daemon may get another name; the recording gives each name a number of its own. */
struct recording {
    FILE *file;
    char **names; /* by number */
    uint32_t count;
    uint32_t *numbers; /* by the daemon's index, + 1 */
    unsigned long uses, lost;
};

#define INDICES_MAX 65536

static int record_page(struct ctl *ctl, struct recording *recording, double *since);
static bool add_resource(struct recording *recording, const char *name, const cJSON *row);
static int replay_all(struct ctl *ctl, const struct resource_trace *trace,
                      const uint64_t *capacities, size_t count);

/* ---- record ---- */

int verb_resources_record(struct ctl *ctl, const struct verb_input *input)
{
    struct recording recording = { .numbers = calloc(INDICES_MAX, sizeof(uint32_t)),
                                   .names = calloc(RESOURCE_TRACE_RESOURCES_MAX, sizeof(char *)) };
    int stop = stop_signal_open(), rc = EXIT_DONE;
    long long seconds = 0;
    double since = -1;
    int64_t end_ns;
    bool last = false;

    if (recording.numbers == NULL || recording.names == NULL)
        return ctl_fail(EXIT_ANSWERED_ERROR, "resources record: no memory");
    if (input->options[0] != NULL && !verb_number(input->options[0], 1, 1000000, &seconds))
        rc = ctl_fail(EXIT_USAGE, "resources record: --seconds is \"%s\", expected 1..1000000",
                      input->options[0]);
    if (rc == EXIT_DONE) /* from here on; there is nothing to write yet */
        rc = record_page(ctl, &recording, &since);
    if (rc == EXIT_DONE && (recording.file = fopen(input->arguments[0], "we")) == NULL)
        rc = ctl_fail(EXIT_ANSWERED_ERROR, "resources record: %s: %s", input->arguments[0],
                      strerror(errno));
    end_ns = seconds > 0 ? ec_time_real() + seconds * 1000000000 : INT64_MAX;
    if (rc == EXIT_DONE)
        fputs(RESOURCE_TRACE_HEADER, recording.file);
    while (rc == EXIT_DONE && !last) {
        rc = record_page(ctl, &recording, &since);
        last = stop_signal_wait(stop, -1, POLL_NS) || ec_time_real() > end_ns;
        if (last && rc == EXIT_DONE)
            rc = record_page(ctl, &recording, &since);
    }
    if (recording.file != NULL && fclose(recording.file) != 0 && rc == EXIT_DONE)
        rc = ctl_fail(EXIT_ANSWERED_ERROR, "resources record: %s: %s", input->arguments[0],
                      strerror(errno));
    if (rc == EXIT_DONE && ctl->json)
        printf("{\"uses\":%lu,\"resources\":%u,\"lost\":%lu}\n", recording.uses, recording.count,
               recording.lost);
    else if (rc == EXIT_DONE)
        printf("%lu uses of %u resources, %lu lost\n", recording.uses, recording.count,
               recording.lost);
    for (uint32_t i = 0; i < recording.count; i++)
        free(recording.names[i]);
    free(recording.names);
    free(recording.numbers);
    if (stop >= 0)
        close(stop);
    return rc == EXIT_DONE ? ctl_flush() : rc;
}

static double element(const cJSON *array, int index)
{
    const cJSON *value = cJSON_GetArrayItem(array, index);

    return cJSON_IsNumber(value) ? value->valuedouble : 0;
}

static void name_resource(struct recording *recording, const cJSON *row)
{
    const cJSON *item = cJSON_GetArrayItem(row, 1);
    uint32_t index = (uint32_t)element(row, 0), number = 0;
    const char *name;

    if (!cJSON_IsString(item) || index >= INDICES_MAX)
        return;
    name = tame(item->valuestring);
    while (number < recording->count && strcmp(recording->names[number], name) != 0)
        number++;
    recording->numbers[index] = 0; /* whoever had the index before is not meant any more */
    if (number == recording->count && !add_resource(recording, name, row))
        return;
    recording->numbers[index] = number + 1;
}

/* As the next number. false: there is no room, or its size is not known. */
static bool add_resource(struct recording *recording, const char *name, const cJSON *row)
{
    char *copy;

    if (recording->count == RESOURCE_TRACE_RESOURCES_MAX || element(row, 2) < 1)
        return false;
    copy = strdup(name);
    if (copy == NULL)
        return false;
    fprintf(recording->file, "r %u %.0f %.0f %s\n", recording->count, element(row, 2),
            element(row, 3), name);
    recording->names[recording->count++] = copy;
    return true;
}

static int record_page(struct ctl *ctl, struct recording *recording, double *since)
{
    double before;
    int rc;

    do {
        struct json_answer answer = { 0 };
        char params[64] = "{}";
        const cJSON *row;

        before = *since;
        if (*since >= 0)
            snprintf(params, sizeof params, "{\"since\":%.0f}", *since);
        rc = ctl_call(ctl, "resource.trace", params, &answer);
        if (rc == EXIT_DONE) {
            *since = json_number(answer.tree, "next");
            recording->lost += (unsigned long)json_number(answer.tree, "lost");
            cJSON_ArrayForEach(row, json_member(answer.tree, "resources"))
            {
                name_resource(recording, row);
            }
            cJSON_ArrayForEach(row, json_member(answer.tree, "uses"))
            {
                uint32_t index = (uint32_t)element(row, 2);
                uint32_t number = index < INDICES_MAX ? recording->numbers[index] : 0;

                if (number == 0) { /* its size is not known */
                    recording->lost++;
                    continue;
                }
                fprintf(recording->file, "%c %.0f %.0f %u\n", element(row, 3) > 0 ? 's' : 'u',
                        element(row, 0), element(row, 1), number - 1);
                recording->uses++;
            }
        }
        json_answer_finish(&answer);
    } while (rc == EXIT_DONE && *since != before && before >= 0);
    if (recording->file != NULL)
        fflush(recording->file); /* what was recorded stays, however this program ends */
    return rc;
}

/* ---- replay ---- */

int verb_resources_replay(struct ctl *ctl, const struct verb_input *input)
{
    FILE *file = fopen(input->arguments[0], "re");
    uint64_t capacities[CAPACITIES_MAX];
    struct resource_trace trace;
    struct ec_error why = { 0 };
    size_t count = 0;
    int rc;

    if (file == NULL)
        return ctl_fail(EXIT_ANSWERED_ERROR, "resources replay: %s: %s", input->arguments[0],
                        strerror(errno));
    for (; count < input->list_count; count++) {
        long long bytes;

        if (!verb_number(input->list[count], 1, INT64_MAX, &bytes)) {
            fclose(file);
            return ctl_fail(EXIT_USAGE, "resources replay: --bytes is \"%s\", expected a number",
                            input->list[count]);
        }
        capacities[count] = (uint64_t)bytes;
    }
    rc = resource_trace_read(file, &trace, &why);
    fclose(file);
    if (rc < 0) {
        resource_trace_finish(&trace);
        return ctl_fail(EXIT_ANSWERED_ERROR, "resources replay: %s: %s", input->arguments[0],
                        why.text);
    }
    for (unsigned quarter = 1; quarter < 4 && input->list_count == 0; quarter++)
        capacities[count++] = trace.bytes / 4 * quarter;
    rc = replay_all(ctl, &trace, capacities, count);
    resource_trace_finish(&trace);
    return rc;
}

static void print_bar(double share, bool colours)
{
    int filled = (int)(share * BAR_COLUMNS + 0.5);

    printf("%s", style_on(STYLE_GOOD, colours));
    for (int i = 0; i < BAR_COLUMNS; i++)
        fputs(i < filled ? "#" : ".", stdout);
    printf("%s", style_off(colours));
}

static void print_result(const struct ctl *ctl, unsigned policy, const struct policy_result *result)
{
    double hits = result->uses > 0 ? (double)result->hits / (double)result->uses : 0;
    char reloaded[TEXT_BYTES], ahead[TEXT_BYTES];

    printf("  %-13s ", policy_name(policy));
    print_bar(hits, ctl->colours);
    printf(" %5.1f %% hits, %s reloaded", hits * 100,
           bytes_text(reloaded, (double)result->reloaded_bytes));
    if (result->ahead_bytes > 0)
        printf(", %s ahead", bytes_text(ahead, (double)result->ahead_bytes));
    putchar('\n');
}

static int replay_all(struct ctl *ctl, const struct resource_trace *trace,
                      const uint64_t *capacities, size_t count)
{
    unsigned policies = trace->ahead_count > 0 ? POLICIES : POLICY_LRU2_AHEAD;
    char text[TEXT_BYTES];

    if (ctl->json)
        printf("{\"uses\":%zu,\"resources\":%u,\"bytes\":%llu,\"items\":[",
               trace->use_count - trace->ahead_count, trace->resource_count,
               (unsigned long long)trace->bytes);
    for (size_t i = 0; i < count; i++) {
        if (!ctl->json)
            printf("%s%s of memory\n", i > 0 ? "\n" : "", bytes_text(text, (double)capacities[i]));
        for (unsigned policy = 0; policy < policies; policy++) {
            struct policy_result result;

            if (policy_run(trace, policy, capacities[i], &result) < 0)
                return ctl_fail(EXIT_ANSWERED_ERROR, "resources replay: no memory");
            if (!ctl->json)
                print_result(ctl, policy, &result);
            else
                printf("%s{\"capacity_bytes\":%llu,\"policy\":\"%s\",\"uses\":%llu,\"hits\":%llu,"
                       "\"hit_ratio\":%.6f,\"reloaded_bytes\":%llu,\"waited_bytes\":%llu,"
                       "\"ahead_bytes\":%llu}",
                       i + policy > 0 ? "," : "", (unsigned long long)capacities[i],
                       policy_name(policy), (unsigned long long)result.uses,
                       (unsigned long long)result.hits,
                       result.uses > 0 ? (double)result.hits / (double)result.uses : 0,
                       (unsigned long long)result.reloaded_bytes,
                       (unsigned long long)result.waited_bytes,
                       (unsigned long long)result.ahead_bytes);
        }
    }
    if (ctl->json)
        printf("]}\n");
    return ctl_flush();
}
