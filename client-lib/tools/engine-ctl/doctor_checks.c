/* doctor_checks.c - the checks, one function each. Thresholds stand beside what they are compared with. */
#include "engine-ctl/doctor.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine-ctl/breaker_level.h"
#include "engine-ctl/json_read.h"
#include "engine-ctl/print.h"

#define MISSED_SHARE 0.001 /* of all steps */
#define JITTER_SHARE 0.25  /* of the period */
#define NEAR_RATIO 0.05    /* above the mark of level 1 */
#define NEAR_FULL 0.9      /* of connections, of a ring */

/* What no shell takes for something else. */
#define SHELL_PLAIN "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./:@%+,-"

struct finding *doctor_find(struct doctor *doctor, enum severity severity, const char *area,
                            const char *format, ...)
{
    static struct finding beyond; /* one too many is counted, and written where nobody looks */
    struct finding *finding = &beyond;
    va_list arguments;

    if (doctor->count < FINDINGS_MAX)
        finding = &doctor->findings[doctor->count++];
    else
        doctor->dropped++;
    *finding = (struct finding) { .severity = severity, .area = area };
    va_start(arguments, format);
    vsnprintf(finding->text, sizeof finding->text, format, arguments);
    va_end(arguments);
    tame(finding->text);
    return finding;
}

void finding_evidence(struct finding *finding, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(finding->evidence, sizeof finding->evidence, format, arguments);
    va_end(arguments);
    tame(finding->evidence);
}

void finding_command(struct finding *finding, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(finding->command, sizeof finding->command, format, arguments);
    va_end(arguments);
    tame(finding->command);
}

/* A name that would not fit is left out. */
void finding_command_for(struct finding *finding, const char *command, const char *name)
{
    char quoted[sizeof finding->command] = "'";
    size_t used = 1;

    if (name[strspn(name, SHELL_PLAIN)] == '\0' && name[0] != '\0') {
        finding_command(finding, "%s %s", command, name);
        return;
    }
    for (; *name != '\0' && used + 6 < sizeof quoted; name++)
        used += (size_t)snprintf(quoted + used, sizeof quoted - used,
                                 *name == '\'' ? "'\\''" : "%c", *name);
    if (*name != '\0')
        quoted[0] = '\0';
    else
        memcpy(quoted + used, "'", 2);
    finding_command(finding, "%s %s", command, quoted);
}

/* ---- memory ------------------------------------------------------------------------------------ */

static void check_level(struct doctor *doctor)
{
    const double level = json_number(doctor->breaker, "level");
    char available[TEXT_BYTES], total[TEXT_BYTES];
    struct finding *finding;

    if (level == 0)
        return;
    finding =
        doctor_find(doctor, level >= 2 ? SEVERITY_PROBLEM : SEVERITY_WARNING, "memory",
                    "The memory breaker is at level %.0f, %s", level, breaker_level_name(level));
    finding_evidence(finding, "%s of %s are available at %s; cause %s: %s",
                     bytes_text(available, json_number(doctor->breaker, "available_bytes")),
                     bytes_text(total, json_number(doctor->breaker, "total_bytes")),
                     json_text(doctor->breaker, "source"), json_text(doctor->breaker, "cause"),
                     json_text(doctor->breaker, "reason"));
    finding_command(finding, strcmp(json_text(doctor->breaker, "cause"), "manual") == 0
                                 ? "engine-ctl breaker reset"
                                 : "engine-ctl mem-report");
}

static void check_manual_level(struct doctor *doctor)
{
    const double level = json_number(doctor->breaker, "manual_level");
    struct finding *finding;

    if (level == 0 || strcmp(json_text(doctor->breaker, "cause"), "manual") == 0)
        return;
    finding = doctor_find(doctor, SEVERITY_NOTE, "memory",
                          "A level that was raised by hand is a floor under the breaker");
    finding_evidence(finding, "level %.0f, %.0f s left (0: until it is reset)", level,
                     json_number(doctor->breaker, "hold_s"));
    finding_command(finding, "engine-ctl breaker reset");
}

static void check_near_level(struct doctor *doctor)
{
    const double ratio = json_number(doctor->breaker, "available_ratio");
    const cJSON *mark = cJSON_GetArrayItem(json_member(doctor->breaker, "thresholds"), 0);
    const cJSON *next_ns = json_member(doctor->breaker, "next_level_ns");
    struct finding *finding;
    char text[TEXT_BYTES];

    if (json_number(doctor->breaker, "level") > 0)
        return;
    if (cJSON_IsNumber(next_ns) && next_ns->valuedouble < 600e9) {
        finding = doctor_find(doctor, SEVERITY_WARNING, "memory",
                              "Memory shrinks: at this rate level 1 begins in %s",
                              duration_text(text, next_ns->valuedouble));
        finding_evidence(finding, "%s/s less, %.1f %% are available",
                         bytes_text(text, json_number(doctor->breaker, "growth_bytes_s")),
                         100 * ratio);
        finding_command(finding, "engine-ctl top");
    } else if (cJSON_IsNumber(mark) && ratio > 0 && ratio < mark->valuedouble + NEAR_RATIO) {
        finding =
            doctor_find(doctor, SEVERITY_NOTE, "memory", "There is little room above level 1");
        finding_evidence(finding, "%.1f %% are available, level 1 begins below %.1f %%",
                         100 * ratio, 100 * mark->valuedouble);
        finding_command(finding, "engine-ctl mem-report");
    }
}

static void check_late_answers(struct doctor *doctor)
{
    const cJSON *client;

    cJSON_ArrayForEach(client, json_member(doctor->breaker, "clients"))
    {
        struct finding *finding;

        if (json_number(client, "late") == 0)
            continue;
        finding = doctor_find(doctor, SEVERITY_WARNING, "memory",
                              "%s does not give memory back in time when it is asked to",
                              json_text(client, "name"));
        finding_evidence(finding, "client %.0f was late %.0f times",
                         json_number(client, "client_id"), json_number(client, "late"));
        finding_command(finding, "engine-ctl mem-report --client %.0f",
                        json_number(client, "client_id"));
    }
}

static void check_budgets(struct doctor *doctor)
{
    const cJSON *process, *tag;

    cJSON_ArrayForEach(process, json_member(doctor->report, "items"))
    {
        if (!json_is_true(process, "alive"))
            continue;
        cJSON_ArrayForEach(tag, json_member(process, "tags"))
        {
            const double bytes = json_number(tag, "bytes");
            const double budget_bytes = json_number(tag, "budget_bytes");
            char has[TEXT_BYTES], may[TEXT_BYTES];
            struct finding *finding;

            if (budget_bytes == 0 || bytes <= budget_bytes)
                continue;
            finding = doctor_find(doctor, SEVERITY_WARNING, "memory",
                                  "%s uses more memory for %s than its budget",
                                  json_text(process, "name"), json_text(tag, "tag"));
            finding_evidence(finding, "%s of %s", bytes_text(has, bytes),
                             bytes_text(may, budget_bytes));
            finding_command(finding, "engine-ctl mem-report --client %.0f",
                            json_number(process, "client_id"));
        }
    }
}

/* ---- clocks ------------------------------------------------------------------------------------ */

static void check_clocks(struct doctor *doctor)
{
    const cJSON *step;

    cJSON_ArrayForEach(step, json_member(doctor->clock, "steps"))
    {
        const double missed = json_number(step, "missed"), steps = json_number(step, "step");
        const double hz = json_number(step, "hz");
        const cJSON *recent = json_member(step, "jitter_last_minute_ns");
        const double late_ns = json_number(recent, "p99");
        char text[TEXT_BYTES];
        struct finding *finding;

        if (missed > 0 && missed > MISSED_SHARE * (steps + missed)) {
            finding = doctor_find(doctor, SEVERITY_WARNING, "clocks",
                                  "Clock %s leaves steps out because they come too late",
                                  json_text(step, "name"));
            finding_evidence(finding, "%.0f of %.0f steps", missed, steps + missed);
            finding_command_for(finding, "engine-ctl clock group", json_text(step, "name"));
        }
        if (hz > 0 && late_ns > JITTER_SHARE * 1e9 / hz) {
            finding = doctor_find(doctor, SEVERITY_WARNING, "clocks", "Steps of clock %s come late",
                                  json_text(step, "name"));
            finding_evidence(finding, "one in a hundred is %s late or more, the period is %.1f ms",
                             duration_text(text, late_ns), 1e3 / hz);
            finding_command(finding, "engine-ctl clock get");
        }
    }
}

static void check_rights(struct doctor *doctor)
{
    const cJSON *scheduler = json_member(doctor->info, "scheduler");
    struct finding *finding;

    if (scheduler == NULL || strcmp(json_text(scheduler, "class"), "fifo") == 0 ||
        json_text(scheduler, "refused")[0] == '\0')
        return;
    finding =
        doctor_find(doctor, SEVERITY_NOTE, "clocks",
                    "The scheduler has no real-time priority, so a busy machine makes steps late");
    finding_evidence(finding, "class %s, refused: %s", json_text(scheduler, "class"),
                     json_text(scheduler, "refused"));
    finding_command(finding, "systemctl start engine-core.service");
}

static void check_time(struct doctor *doctor)
{
    struct finding *finding;

    if (json_is_true(doctor->clock, "paused")) {
        finding = doctor_find(doctor, SEVERITY_NOTE, "clocks", "Game time stands");
        finding_evidence(finding, "paused at %.3f s", json_number(doctor->clock, "game_ns") / 1e9);
        finding_command(finding, "engine-ctl clock resume");
    }
    if (json_number(doctor->clock, "discontinuities") > 0) {
        finding = doctor_find(doctor, SEVERITY_NOTE, "clocks",
                              "Time stood still for the daemon for over a second");
        finding_evidence(finding, "%.0f times since the start; late steps were left out",
                         json_number(doctor->clock, "discontinuities"));
        finding_command(finding, "engine-ctl log tail --module scheduler --lines 100");
    }
}

/* ---- clients and events ------------------------------------------------------------------------ */

static void check_clients(struct doctor *doctor)
{
    const cJSON *client;

    cJSON_ArrayForEach(client, json_member(doctor->clients, "items"))
    {
        struct finding *finding;

        if (json_is_true(client, "stalled")) {
            finding =
                doctor_find(doctor, SEVERITY_WARNING, "clients",
                            "%s has rendered nothing for over a second", json_text(client, "name"));
            finding_evidence(finding, "client %.0f, pid %.0f, frame %.0f",
                             json_number(client, "client_id"), json_number(client, "pid"),
                             json_number(client, "last_frame"));
            finding_command(finding, "engine-ctl call client.get '{\"client_id\":%.0f}'",
                            json_number(client, "client_id"));
        }
        if (json_number(client, "lost_notifications") > 0) {
            finding = doctor_find(doctor, SEVERITY_WARNING, "clients",
                                  "%s reads the socket too slowly", json_text(client, "name"));
            finding_evidence(finding, "client %.0f has lost %.0f notifications",
                             json_number(client, "client_id"),
                             json_number(client, "lost_notifications"));
            finding_command(finding, "engine-ctl clients");
        }
    }
}

static void check_connections(struct doctor *doctor)
{
    const int count = cJSON_GetArraySize(json_member(doctor->clients, "items"));
    double limit = 0;
    struct finding *finding;
    const cJSON *item;

    cJSON_ArrayForEach(item, json_member(doctor->config, "items"))
    {
        if (strcmp(json_text(item, "key"), "control.connections") == 0)
            limit = json_number(item, "value");
    }
    if (limit == 0 || count < NEAR_FULL * limit)
        return;
    finding = doctor_find(doctor, SEVERITY_WARNING, "clients", "Nearly all connections are taken");
    finding_evidence(finding, "%d of %.0f", count, limit);
    finding_command(finding, "engine-ctl clients");
}

static void check_closed(struct doctor *doctor)
{
    const cJSON *closed;
    int slow = 0;
    struct finding *finding;

    cJSON_ArrayForEach(closed, json_member(doctor->closed, "items"))
    {
        slow += strcmp(json_text(closed, "reason"), "it does not take its answers") == 0;
    }
    if (slow == 0)
        return;
    finding = doctor_find(doctor, SEVERITY_WARNING, "clients",
                          "Connections were closed because their programs did not read");
    finding_evidence(finding, "%d of the last %d that were closed", slow,
                     cJSON_GetArraySize(json_member(doctor->closed, "items")));
    finding_command(finding, "engine-ctl clients --closed");
}

static void check_events(struct doctor *doctor)
{
    const cJSON *type, *port;

    cJSON_ArrayForEach(type, json_member(doctor->events, "items"))
    {
        const double lost = json_number(type, "lost"), refused = json_number(type, "refused");
        struct finding *finding;

        if (lost + refused == 0)
            continue;
        finding = doctor_find(doctor, SEVERITY_WARNING, "events", "Events of type %s are lost",
                              json_text(type, "name"));
        finding_evidence(finding,
                         "%.0f lost by readers, %.0f refused to publishers, %.0f published", lost,
                         refused, json_number(type, "published"));
        finding_command_for(finding, "engine-ctl events stats --type", json_text(type, "name"));
    }
    cJSON_ArrayForEach(port, json_member(doctor->events, "ports"))
    {
        const double ring = json_number(port, "ring_bytes"), used = json_number(port, "used_bytes");
        struct finding *finding;

        if (ring == 0 || used < NEAR_FULL * ring)
            continue;
        finding = doctor_find(doctor, SEVERITY_WARNING, "events",
                              "A reader holds up the port %s of client %.0f",
                              json_text(port, "port"), json_number(port, "client_id"));
        finding_evidence(finding, "%.0f of %.0f bytes of its ring wait to be read", used, ring);
        finding_command(finding, "engine-ctl events stats");
    }
}

static void check_groups(struct doctor *doctor)
{
    const cJSON *group;

    cJSON_ArrayForEach(group, json_member(doctor->resources, "groups"))
    {
        struct finding *finding;

        if (strcmp(json_text(group, "state"), "failed") != 0)
            continue;
        finding = doctor_find(doctor, SEVERITY_PROBLEM, "resources", "The group %s failed to load",
                              json_text(group, "group"));
        finding_evidence(finding, "%.0f resources, none of them is there",
                         json_number(group, "resources"));
        finding_command_for(finding, "engine-ctl resources load", json_text(group, "group"));
    }
}

/* ---- configuration and the daemon itself ------------------------------------------------------- */

static void check_reload(struct doctor *doctor)
{
    const cJSON *file, *row, *last = json_member(doctor->config, "last_reload");
    struct finding *finding;
    const char *path = "FILE";

    cJSON_ArrayForEach(file, json_member(doctor->config, "files"))
    {
        if (json_is_true(file, "read"))
            path = json_text(file, "path");
    }
    cJSON_ArrayForEach(row, json_member(doctor->reload, "errors"))
    {
        finding =
            doctor_find(doctor, SEVERITY_PROBLEM, "configuration",
                        "The configuration file is wrong: the daemon would not start with it");
        finding_evidence(finding, "%s", row->valuestring);
        finding_command_for(finding, "engine-ctl config check", path);
        return;
    }
    if (json_is_true(last, "failed")) {
        finding = doctor_find(doctor, SEVERITY_WARNING, "configuration",
                              "The last reload was refused; the values from before are in force");
        finding_evidence(finding, "%s", json_text(last, "reason"));
        finding_command(finding, "engine-ctl config reload");
    }
    cJSON_ArrayForEach(row, json_member(doctor->reload, "needs_restart"))
    {
        finding = doctor_find(doctor, SEVERITY_NOTE, "configuration",
                              "%s has changed in the file and needs a restart", row->valuestring);
        finding_evidence(finding, "read from %s", path);
        finding_command(finding, "systemctl restart engine-core.service");
    }
}

static void check_log(struct doctor *doctor)
{
    const cJSON *counters = json_member(doctor->info, "counters");
    const char *level = json_text(doctor->log, "level");
    struct finding *finding;

    if (json_number(counters, "log.sink_lost") > 0) {
        finding = doctor_find(doctor, SEVERITY_WARNING, "configuration",
                              "Log lines could not be written");
        finding_evidence(finding, "%.0f lines were not taken by the file or the journal",
                         json_number(counters, "log.sink_lost"));
        finding_command(finding, "engine-ctl log tail --module log --lines 100");
    }
    if (json_number(counters, "log.lost") > 0) {
        finding = doctor_find(doctor, SEVERITY_NOTE, "configuration",
                              "Log lines were lost because there were too many at once");
        finding_evidence(finding, "%.0f lines", json_number(counters, "log.lost"));
        finding_command(finding, "engine-ctl log level");
    }
    if (strcmp(level, "trace") == 0 || strcmp(level, "debug") == 0) {
        finding =
            doctor_find(doctor, SEVERITY_NOTE, "configuration", "The log is set to say everything");
        finding_evidence(finding, "level %s", level);
        finding_command(finding, "engine-ctl log level info");
    }
}

static void check_build(struct doctor *doctor)
{
    const char *tier = json_text(json_member(doctor->info, "build"), "tier");
    struct finding *finding;

    if (strcmp(tier, "debug") != 0)
        return;
    finding = doctor_find(doctor, SEVERITY_NOTE, "configuration",
                          "This daemon is built for debugging, which is slow");
    finding_evidence(finding, "tier %s", tier);
    finding_command(finding, "make install");
}

static void check_refused(struct doctor *doctor)
{
    const double refused = json_number(json_member(doctor->info, "counters"), "control.refused");
    struct finding *finding;

    if (refused == 0)
        return;
    finding = doctor_find(doctor, SEVERITY_NOTE, "clients", "Connections were turned away");
    finding_evidence(finding, "%.0f times: too many, or without a right", refused);
    finding_command(finding, "engine-ctl log tail --module control --lines 100");
}

size_t doctor_check(struct doctor *doctor)
{
    static void (*const checks[])(struct doctor * doctor) = {
        check_level,  check_manual_level, check_near_level, check_late_answers, check_budgets,
        check_clocks, check_rights,       check_time,       check_clients,      check_connections,
        check_closed, check_refused,      check_events,     check_groups,       check_reload,
        check_log,    check_build,
    };
    const size_t count = sizeof checks / sizeof checks[0];

    for (size_t i = 0; i < count; i++)
        checks[i](doctor);
    return count;
}
