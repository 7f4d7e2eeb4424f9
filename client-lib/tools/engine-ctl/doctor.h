/* doctor.h - what is not well, in plain language: findings with their evidence and a command that helps.
 *
 * Each check looks at answers of the daemon and adds what it finds. To add one, write the function and a
 * row in the table of doctor_checks.c.
 *
 * Thread: one. */
#ifndef ENGINE_CTL_DOCTOR_H
#define ENGINE_CTL_DOCTOR_H

#include <stddef.h>

#include <cjson/cJSON.h>

enum severity { SEVERITY_NOTE, SEVERITY_WARNING, SEVERITY_PROBLEM, SEVERITIES };

struct finding {
    enum severity severity;
    const char *area; /* memory, clocks, clients, events, resources, configuration */
    char text[160];
    char evidence[320];
    char command[160]; /* "" when none helps */
};

#define FINDINGS_MAX 64

/* The results of the requests that the checks look at; NULL: it was not answered. */
struct doctor {
    const cJSON *info, *config, *reload, *clock, *clients, *closed, *report, *breaker;
    const cJSON *events, *resources, *log;
    struct finding findings[FINDINGS_MAX];
    size_t count, dropped;
};

/* Add a finding and return it, to be told its evidence and command. */
struct finding *doctor_find(struct doctor *doctor, enum severity severity, const char *area,
                            const char *format, ...) __attribute__((format(printf, 4, 5)));
void finding_evidence(struct finding *finding, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void finding_command(struct finding *finding, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The command and a name behind it, as a shell has to be told: programs choose names. */
void finding_command_for(struct finding *finding, const char *command, const char *name);

/* Run all checks. Returns how many there are. */
size_t doctor_check(struct doctor *doctor);

#endif
