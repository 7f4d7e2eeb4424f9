/* engine-ctl doctor: ask for everything, look at it, and say what is not well. */
#include "engine-ctl/doctor.h"
#include "engine-ctl/json_read.h"
#include "engine-ctl/print.h"
#include "engine-ctl/verb.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <engine-core/client.h>

static const struct {
    const char *method, *params;
    size_t place;
} questions[] = {
    { "core.info", NULL, offsetof(struct doctor, info) },
    { "config.get", NULL, offsetof(struct doctor, config) },
    { "clock.get", NULL, offsetof(struct doctor, clock) },
    { "client.list", NULL, offsetof(struct doctor, clients) },
    { "client.list", "{\"closed\":true}", offsetof(struct doctor, closed) },
    { "memory.report", NULL, offsetof(struct doctor, report) },
    { "breaker.get", NULL, offsetof(struct doctor, breaker) },
    { "event.stats", NULL, offsetof(struct doctor, events) },
    { "resource.list", NULL, offsetof(struct doctor, resources) },
    { "log.level", NULL, offsetof(struct doctor, log) },
    /* The last, since it needs a role that not everybody has. */
    { "config.reload", "{\"dry_run\":true}", offsetof(struct doctor, reload) },
};
#define QUESTIONS (sizeof questions / sizeof questions[0])

static const char *const severity_names[SEVERITIES] = { "note", "warning", "problem" };

static int ask(struct ctl *ctl, struct doctor *doctor, struct json_answer answers[QUESTIONS]);
static void find_no_daemon(struct ctl *ctl, struct doctor *doctor);
static int compare(const void *left, const void *right);
static void print_json(const struct doctor *doctor, size_t checks);
static void print_findings(const struct ctl *ctl, const struct doctor *doctor, size_t checks);

int verb_doctor(struct ctl *ctl, const struct verb_input *input)
{
    struct json_answer answers[QUESTIONS];
    struct doctor *doctor = calloc(1, sizeof *doctor);
    size_t checks = 0, problems = 0;
    int rc;

    (void)input;
    if (doctor == NULL)
        return ctl_fail(EXIT_ANSWERED_ERROR, "no memory");
    memset(answers, 0, sizeof answers);
    rc = ask(ctl, doctor, answers);
    if (rc == EXIT_NO_DAEMON || rc == EXIT_NOT_PERMITTED)
        find_no_daemon(ctl, doctor);
    else if (rc == EXIT_DONE)
        checks = doctor_check(doctor);
    if (doctor->count > 0 || rc == EXIT_DONE) {
        qsort(doctor->findings, doctor->count, sizeof doctor->findings[0], compare);
        if (ctl->json)
            print_json(doctor, checks);
        else
            print_findings(ctl, doctor, checks);
        for (size_t i = 0; i < doctor->count; i++)
            problems += doctor->findings[i].severity == SEVERITY_PROBLEM;
        if (rc == EXIT_DONE && ctl_flush() != EXIT_DONE)
            rc = EXIT_ANSWERED_ERROR;
    }
    for (size_t i = 0; i < QUESTIONS; i++)
        json_answer_finish(&answers[i]);
    free(doctor);
    return rc == EXIT_DONE && problems > 0 ? EXIT_ANSWERED_ERROR : rc;
}

/* A daemon that is older may not know a method; what it does not answer is not looked at. */
static int ask(struct ctl *ctl, struct doctor *doctor, struct json_answer answers[QUESTIONS])
{
    int rc = ctl_connect(ctl);

    for (size_t i = 0; i < QUESTIONS && rc == EXIT_DONE; i++) {
        struct ec_error why = { 0 };
        const int status = json_socket_call(&ctl->socket, questions[i].method, questions[i].params,
                                            &answers[i], &why);

        if (status == EC_OK)
            *(const cJSON **)(void *)((char *)doctor + questions[i].place) = answers[i].tree;
        else if (status != EC_ERR_METHOD && status != EC_ERR_PERMISSION)
            rc = ctl_fail(ctl_exit_code(status), "%s: %s", questions[i].method, why.text);
    }
    return rc;
}

static void find_no_daemon(struct ctl *ctl, struct doctor *doctor)
{
    char path[EC_SOCKET_PATH_MAX];
    struct ec_error why = { 0 };
    struct finding *finding;

    if (ec_client_socket_path(ctl->socket_path, path, sizeof path, &why) < 0)
        return;
    finding = doctor_find(doctor, SEVERITY_PROBLEM, "daemon", "No daemon answers");
    if (access(path, F_OK) < 0) {
        finding_evidence(finding, "%s: %s", path, strerror(errno));
        finding_command(finding, "systemctl start engine-core.socket");
    } else if (access(path, W_OK) < 0) {
        finding_evidence(finding, "%s: %s; members of the group engine-core may connect", path,
                         strerror(errno));
        finding_command(finding, "usermod --append --groups engine-core $USER");
    } else {
        finding_evidence(finding, "%s is there, but nobody listens on it", path);
        finding_command(finding, "systemctl status engine-core.service");
    }
}

/* What is worst comes first, and what belongs together stands together. */
static int compare(const void *left, const void *right)
{
    const struct finding *a = left, *b = right;

    if (a->severity != b->severity)
        return a->severity > b->severity ? -1 : 1;
    return strcmp(a->area, b->area);
}

static void print_json(const struct doctor *doctor, size_t checks)
{
    cJSON *result = cJSON_CreateObject(), *findings = cJSON_AddArrayToObject(result, "findings");
    char *text;

    for (size_t i = 0; i < doctor->count; i++) {
        const struct finding *finding = &doctor->findings[i];
        cJSON *row = cJSON_CreateObject();

        cJSON_AddStringToObject(row, "severity", severity_names[finding->severity]);
        cJSON_AddStringToObject(row, "area", finding->area);
        cJSON_AddStringToObject(row, "text", finding->text);
        cJSON_AddStringToObject(row, "evidence", finding->evidence);
        cJSON_AddStringToObject(row, "command", finding->command);
        cJSON_AddItemToArray(findings, row);
    }
    cJSON_AddNumberToObject(result, "checks", (double)checks);
    cJSON_AddNumberToObject(result, "more", (double)doctor->dropped);
    text = cJSON_PrintUnformatted(result);
    cJSON_Delete(result);
    puts(text);
    cJSON_free(text);
}

static void print_findings(const struct ctl *ctl, const struct doctor *doctor, size_t checks)
{
    static const enum style styles[SEVERITIES] = { STYLE_BOLD, STYLE_WARNING, STYLE_BAD };

    for (size_t i = 0; i < doctor->count; i++) {
        const struct finding *finding = &doctor->findings[i];

        printf("%s%-8s%s %-14s %s\n", style_on(styles[finding->severity], ctl->colours),
               severity_names[finding->severity], style_off(ctl->colours), finding->area,
               finding->text);
        printf("         because        %s\n", finding->evidence);
        if (finding->command[0] != '\0')
            printf("         try            %s\n", finding->command);
    }
    if (doctor->dropped > 0)
        printf("and %zu more\n", doctor->dropped);
    if (doctor->count == 0)
        printf("All is well: memory, clocks, clients, events, resources and configuration were "
               "looked at in %zu ways.\n",
               checks);
}
