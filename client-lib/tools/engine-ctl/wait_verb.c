/* engine-ctl wait ready|METRIC>VALUE - for scripts: come back when it is so, or after --timeout. */
#include "engine-ctl/json_read.h"
#include "engine-ctl/metric.h"
#include "engine-ctl/print.h"
#include "engine-ctl/verb.h"

#include <string.h>
#include <time.h>

#include <engine-core/client.h>
#include <engine-core/clock.h>

#define RETRY_MS 50  /* until there is a socket, nobody tells us */
#define SAMPLE_MS 50 /* how often a metric is looked at */

static int wait_ready(struct ctl *ctl);
static int wait_for_metric(struct ctl *ctl, const struct metric_condition *condition);
static bool try_once(const char *path, int timeout_ms);
static int64_t now_ms(void);
static void sleep_ms(long ms);

int verb_wait(struct ctl *ctl, const struct verb_input *input)
{
    struct metric_condition condition;
    char why[256];

    if (strcmp(input->arguments[0], "ready") == 0)
        return wait_ready(ctl);
    if (!metric_condition_parse(input->arguments[0], &condition, why, sizeof why))
        return ctl_fail(EXIT_USAGE, "wait: %s", why);
    return wait_for_metric(ctl, &condition);
}

/* Ready: it listens and answers. */
static int wait_ready(struct ctl *ctl)
{
    const int64_t deadline_ms = now_ms() + ctl->timeout_ms;
    char path[EC_SOCKET_PATH_MAX];
    struct ec_error why = { 0 };

    if (ec_client_socket_path(ctl->socket_path, path, sizeof path, &why) < 0)
        return ctl_fail(EXIT_USAGE, "wait: %s", why.text);
    for (;;) {
        const int64_t left_ms = deadline_ms - now_ms();

        if (left_ms > 0 && try_once(path, (int)left_ms))
            return EXIT_DONE;
        if (deadline_ms - now_ms() <= 0)
            return ctl_fail(EXIT_TIMEOUT, "wait: no daemon has answered on %s within %d s", path,
                            ctl->timeout_ms / 1000);
        sleep_ms(RETRY_MS);
    }
}

static bool try_once(const char *path, int timeout_ms)
{
    struct json_socket socket = { 0 };
    struct json_answer answer = { 0 };
    struct ec_error why = { 0 };
    int rc = json_socket_open(&socket, path, timeout_ms, &why);

    if (rc == EC_OK)
        rc = json_socket_call(&socket, "core.ping", "{}", &answer, &why);
    json_answer_finish(&answer);
    json_socket_close(&socket);
    return rc == EC_OK;
}

static int wait_for_metric(struct ctl *ctl, const struct metric_condition *condition)
{
    const int64_t deadline_ms = now_ms() + ctl->timeout_ms;
    char params[64], name[METRIC_NAME_BYTES], text[TEXT_BYTES];

    metric_name(condition->row, name);
    snprintf(params, sizeof params, "{\"topics\":[\"%s\"]}", ec_topic_name(condition->row->topic));
    for (;;) {
        struct json_answer answer;
        double value = 0;
        int rc = ctl_call(ctl, "telemetry.get", params, &answer);

        if (rc == EXIT_DONE)
            value = metric_value(condition->row, answer.tree);
        json_answer_finish(&answer);
        if (rc != EXIT_DONE)
            return rc;
        if (metric_condition_holds(condition, value)) {
            if (ctl->json)
                printf("{\"%s\":%.0f}\n", name, value);
            else
                printf("%s is %s\n", name, metric_text(condition->row, value, text));
            return ctl_flush();
        }
        if (now_ms() >= deadline_ms)
            return ctl_fail(EXIT_TIMEOUT, "wait: %s is %s after %d s", name,
                            metric_text(condition->row, value, text), ctl->timeout_ms / 1000);
        sleep_ms(SAMPLE_MS);
    }
}

static int64_t now_ms(void)
{
    return ec_time_real() / 1000000;
}

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec) { .tv_nsec = ms * 1000000 }, NULL);
}
