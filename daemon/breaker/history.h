/* history.h - the last transitions of the breaker, with cause, values, answers and effect.
 *
 * The effect is added to a transition after it was noted: what eviction gave back, who was asked for
 * how much, who answered when. Thread: loop. Allocates nothing. */
#ifndef ENGINE_CORED_BREAKER_HISTORY_H
#define ENGINE_CORED_BREAKER_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

#include "breaker/policy.h"
#include "foundation/json/json_writer.h"

#define HISTORY_ITEMS 256
#define HISTORY_ANSWERS 16 /* of each transition; further ones are only counted */
#define HISTORY_NAME_BYTES 96
#define HISTORY_NONE 0 /* no transition has this number */

/* What one action did in all, at one transition. */
struct history_effect {
    uint32_t runs;
    uint64_t bytes; /* given back, as measured for this action */
    int64_t ns;     /* spent here */
};

struct history_answer {
    uint32_t client_id;
    uint32_t rounds; /* how often it was asked */
    uint64_t asked_bytes, freed_bytes;
    int64_t latency_ns; /* of the first answer; -1: none */
    uint32_t late;      /* rounds that it did not answer in time */
};

struct history_item {
    uint64_t number; /* from 1 */
    int64_t at_ns;
    uint32_t from, to;
    uint32_t global; /* the level of all, afterwards */
    enum ec_breaker_cause cause;
    bool own;                        /* of a source that counts for all */
    char source[HISTORY_NAME_BYTES]; /* "host", a group, "manual", "budget" */
    char reason[HISTORY_NAME_BYTES];
    uint64_t total_bytes, available_bytes, bytes_per_s;
    uint64_t lowest_bytes; /* available, until the next transition of this source */
    struct history_effect effects[ACTION_COUNT];
    struct history_answer answers[HISTORY_ANSWERS];
    uint32_t answer_count, exits;
};

struct history {
    uint64_t count; /* ever */
    struct history_item items[HISTORY_ITEMS];
};

/* A fresh item, whose number is set; fill in the rest. */
struct history_item *history_add(struct history *history);
/* NULL: it is HISTORY_NONE, or forgotten. */
struct history_item *history_find(struct history *history, uint64_t number);

void history_add_effect(struct history_item *item, enum breaker_action action, uint64_t bytes,
                        int64_t ns);
/* The answers of a client; NULL when there are more clients than room. */
struct history_answer *history_answer(struct history_item *item, uint32_t client_id);

/* The newest first, at most limit, as elements of an open array. */
void history_write(const struct history *history, unsigned limit, struct ec_json_writer *writer);
uint64_t history_freed_bytes(const struct history_item *item);
const char *history_cause_name(enum ec_breaker_cause cause); /* "memory" */

#endif
