/* verb.h - the verbs of engine-ctl, once: parsing and help come from these rows.
 *
 * To add a verb, add a row to verbs.c and the function that it names. */
#ifndef ENGINE_CTL_VERB_H
#define ENGINE_CTL_VERB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "engine-ctl/ctl.h"

#define VERB_OPTIONS_MAX 8
#define VERB_ARGUMENTS_MAX 2
#define VERB_LIST_MAX 32

struct verb_option {
    const char *name;    /* "watch" is --watch; NULL ends the list */
    const char *value;   /* "SECONDS": --watch SECONDS or --watch=SECONDS; NULL: takes none;
                            "NAME...": may be given several times */
    bool value_optional; /* then only --watch=SECONDS */
    const char *help;
};

/* What was given. Absent arguments and options are NULL; an option without its value is "". */
struct verb_input {
    const char *arguments[VERB_ARGUMENTS_MAX];
    const char *options[VERB_OPTIONS_MAX];
    /* The values of the options that may be given several times, in their order, and whose each is. */
    const char *list[VERB_LIST_MAX];
    size_t list_option[VERB_LIST_MAX]; /* its row in the verb's options */
    size_t list_count;
    char *const *rest; /* of a verb that runs a program: its words, ended by NULL; NULL: none */
};

struct verb {
    const char *name;      /* "breaker trip" */
    const char *arguments; /* "LEVEL", "METHOD [PARAMS]", "" */
    size_t argument_min, argument_max;
    const char *help;
    struct verb_option options[VERB_OPTIONS_MAX];
    bool runs_program; /* what follows its options is not for engine-ctl */
    /* Writes a file, publishes, …: --dry-run, which the daemon heeds, is refused. */
    bool acts_itself;
    int (*run)(struct ctl *ctl, const struct verb_input *input);
};

extern const struct verb verbs[];
extern const size_t verb_count;
extern const struct verb_option verb_globals[]; /* options of all verbs */
extern const size_t verb_global_count;

/* Understand a command line: global options set ctl, the rest fills verb and input.
 *
 * Returns EXIT_DONE with *verb set, EXIT_DONE with *verb NULL (help or version was printed), or
 * EXIT_USAGE, said on stderr. */
int verb_parse(struct ctl *ctl, int argc, char **argv, const struct verb **verb,
               struct verb_input *input);

/* Whole numbers on the command line. false: not a number, or out of the range. */
bool verb_number(const char *text, long long min, long long max, long long *number);

int verb_status(struct ctl *ctl, const struct verb_input *input);
int verb_clients(struct ctl *ctl, const struct verb_input *input);
int verb_mem_leaks(struct ctl *ctl, const struct verb_input *input);
int verb_mem_profile(struct ctl *ctl, const struct verb_input *input);
int verb_symbolize(struct ctl *ctl, const struct verb_input *input);
int verb_mem_observe(struct ctl *ctl, const struct verb_input *input);
int verb_mem_snapshot(struct ctl *ctl, const struct verb_input *input);
int verb_mem_report(struct ctl *ctl, const struct verb_input *input);
int verb_events_list(struct ctl *ctl, const struct verb_input *input);
int verb_events_tail(struct ctl *ctl, const struct verb_input *input);
int verb_events_stats(struct ctl *ctl, const struct verb_input *input);
int verb_events_publish(struct ctl *ctl, const struct verb_input *input);
int verb_resources_list(struct ctl *ctl, const struct verb_input *input);
int verb_resources_get(struct ctl *ctl, const struct verb_input *input);
int verb_resources_define(struct ctl *ctl, const struct verb_input *input);
int verb_resources_undefine(struct ctl *ctl, const struct verb_input *input);
int verb_resources_unload(struct ctl *ctl, const struct verb_input *input);
int verb_resources_request(struct ctl *ctl, const struct verb_input *input);
int verb_resources_reload(struct ctl *ctl, const struct verb_input *input);
int verb_resources_pin(struct ctl *ctl, const struct verb_input *input);
int verb_resources_watch(struct ctl *ctl, const struct verb_input *input);
int verb_resources_record(struct ctl *ctl, const struct verb_input *input);
int verb_resources_replay(struct ctl *ctl, const struct verb_input *input);
int verb_resources_dump(struct ctl *ctl, const struct verb_input *input);
int verb_resources_load(struct ctl *ctl, const struct verb_input *input);
int verb_resources_evict(struct ctl *ctl, const struct verb_input *input);
int verb_resources_alias(struct ctl *ctl, const struct verb_input *input);
int verb_resources_stats(struct ctl *ctl, const struct verb_input *input);
int verb_cook(struct ctl *ctl, const struct verb_input *input);
int verb_resources_mount(struct ctl *ctl, const struct verb_input *input);
int verb_breaker_get(struct ctl *ctl, const struct verb_input *input);
int verb_breaker_trip(struct ctl *ctl, const struct verb_input *input);
int verb_breaker_reset(struct ctl *ctl, const struct verb_input *input);
int verb_breaker_policy(struct ctl *ctl, const struct verb_input *input);
int verb_breaker_rehearse(struct ctl *ctl, const struct verb_input *input);
int verb_breaker_trace(struct ctl *ctl, const struct verb_input *input);
int verb_breaker_history(struct ctl *ctl, const struct verb_input *input);
int verb_breaker_samples(struct ctl *ctl, const struct verb_input *input);
int verb_clock_get(struct ctl *ctl, const struct verb_input *input);
int verb_clock_pause(struct ctl *ctl, const struct verb_input *input);
int verb_clock_resume(struct ctl *ctl, const struct verb_input *input);
int verb_clock_scale(struct ctl *ctl, const struct verb_input *input);
int verb_clock_checkpoint(struct ctl *ctl, const struct verb_input *input);
int verb_clock_rollback(struct ctl *ctl, const struct verb_input *input);
int verb_clock_step(struct ctl *ctl, const struct verb_input *input);
int verb_clock_create(struct ctl *ctl, const struct verb_input *input);
int verb_clock_rate(struct ctl *ctl, const struct verb_input *input);
int verb_clock_group(struct ctl *ctl, const struct verb_input *input);
int verb_timer_arm(struct ctl *ctl, const struct verb_input *input);
int verb_timer_cancel(struct ctl *ctl, const struct verb_input *input);
int verb_timer_list(struct ctl *ctl, const struct verb_input *input);
int verb_config_show(struct ctl *ctl, const struct verb_input *input);
int verb_config_get(struct ctl *ctl, const struct verb_input *input);
int verb_config_set(struct ctl *ctl, const struct verb_input *input);
int verb_config_reload(struct ctl *ctl, const struct verb_input *input);
int verb_config_check(struct ctl *ctl, const struct verb_input *input);
int verb_config_schema(struct ctl *ctl, const struct verb_input *input);
int verb_log_level(struct ctl *ctl, const struct verb_input *input);
int verb_log_tail(struct ctl *ctl, const struct verb_input *input);
int verb_telemetry_get(struct ctl *ctl, const struct verb_input *input);
int verb_telemetry_tail(struct ctl *ctl, const struct verb_input *input);
int verb_telemetry_history(struct ctl *ctl, const struct verb_input *input);
int verb_wait(struct ctl *ctl, const struct verb_input *input);
int verb_doctor(struct ctl *ctl, const struct verb_input *input);
int verb_top(struct ctl *ctl, const struct verb_input *input);
int verb_names(struct ctl *ctl, const struct verb_input *input);
int verb_completion(struct ctl *ctl, const struct verb_input *input);
int verb_postmortem_list(struct ctl *ctl, const struct verb_input *input);
int verb_postmortem_show(struct ctl *ctl, const struct verb_input *input);
int verb_record(struct ctl *ctl, const struct verb_input *input);
int verb_replay(struct ctl *ctl, const struct verb_input *input);
int verb_run(struct ctl *ctl, const struct verb_input *input);
int verb_call(struct ctl *ctl, const struct verb_input *input);

#endif
