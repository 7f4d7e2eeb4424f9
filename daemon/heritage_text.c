/* heritage_text.c - one table of numbers for each kind of row; writing and reading loop over them. */
#include "daemon/heritage_text.h"

#include <stdlib.h>
#include <string.h>

#include "foundation/json/json_scan.h"
#include "proto/breaker_board.h"
#include "segment/clock_arithmetic.h"

#define FORMAT 1 /* raised when the same text would mean something else */

enum number_kind { I64, U64, U32, BOOL };

struct number {
    const char *name;
    size_t offset;
    enum number_kind kind;
};

#define NUMBER(type, field, kind)                                                                  \
    {                                                                                              \
#field, offsetof(struct type, field), kind                                                 \
    }

static const struct number game_numbers[] = {
    NUMBER(ec_game_snapshot, real0_ns, I64),  NUMBER(ec_game_snapshot, game0_ns, I64),
    NUMBER(ec_game_snapshot, remainder, U64), NUMBER(ec_game_snapshot, scale_num, U64),
    NUMBER(ec_game_snapshot, scale_den, U64), NUMBER(ec_game_snapshot, epoch, U64),
    NUMBER(ec_game_snapshot, until_ns, I64),
};

static const struct number step_numbers[] = {
    NUMBER(ec_step_snapshot, source, U32),          NUMBER(ec_step_snapshot, base_ns, I64),
    NUMBER(ec_step_snapshot, fraction, U64),        NUMBER(ec_step_snapshot, n0, U64),
    NUMBER(ec_step_snapshot, period_num, U64),      NUMBER(ec_step_snapshot, period_den, U64),
    NUMBER(ec_step_snapshot, until_step, U64),      NUMBER(ec_step_snapshot, next_period_num, U64),
    NUMBER(ec_step_snapshot, next_period_den, U64),
};

/* How a clock was ordered, beside how it runs. */
#define ORDERED(field, kind)                                                                       \
    {                                                                                              \
        "its_" #field,                                                                             \
            offsetof(struct clock_heritage, clock[0].field) -                                      \
                offsetof(struct clock_heritage, clock[0]),                                         \
            kind                                                                                   \
    }
static const struct number ordered_numbers[] = {
    ORDERED(late, U32), ORDERED(burst, U32),  ORDERED(halvable, BOOL),  ORDERED(spin_ns, I64),
    ORDERED(step, U64), ORDERED(missed, U64), ORDERED(period_num, U64), ORDERED(period_den, U64),
};

static const struct number clock_numbers[] = {
    NUMBER(clock_heritage, scale_num, U64),
    NUMBER(clock_heritage, scale_den, U64),
    NUMBER(clock_heritage, paused, BOOL),
    NUMBER(clock_heritage, last_checkpoint, U64),
};

static const struct number checkpoint_numbers[] = {
    NUMBER(checkpoint_heritage, id, U64),
    NUMBER(checkpoint_heritage, game_ns, I64),
    NUMBER(checkpoint_heritage, remainder, U64),
    NUMBER(checkpoint_heritage, remainder_den, U64),
};

#define OF_CHECKPOINT(field, kind)                                                                 \
    {                                                                                              \
        "its_" #field,                                                                             \
            offsetof(struct checkpoint_heritage, clock[0].field) -                                 \
                offsetof(struct checkpoint_heritage, clock[0]),                                    \
            kind                                                                                   \
    }
static const struct number past_numbers[] = {
    OF_CHECKPOINT(period_num, U64),
    OF_CHECKPOINT(period_den, U64),
    OF_CHECKPOINT(halved, BOOL),
};

static const struct number breaker_numbers[] = {
    NUMBER(breaker_heritage, manual_level, U32),
    NUMBER(breaker_heritage, manual_end_ns, I64),
    NUMBER(breaker_heritage, last_reservation_id, U32),
};

#define OF_RESERVATION(field, kind)                                                                \
    {                                                                                              \
#field,                                                                                    \
            offsetof(struct breaker_heritage, reservations[0].field) -                             \
                offsetof(struct breaker_heritage, reservations[0]),                                \
            kind                                                                                   \
    }
static const struct number reservation_numbers[] = {
    OF_RESERVATION(id, U32),     OF_RESERVATION(client_id, U32),  OF_RESERVATION(bytes, U64),
    OF_RESERVATION(end_ns, I64), OF_RESERVATION(held_bytes, U64),
};

static const struct number id_numbers[] = {
    { "client", HERITAGE_CLIENT * sizeof(uint32_t), U32 },
    { "port", HERITAGE_PORT * sizeof(uint32_t), U32 },
    { "reader", HERITAGE_READER * sizeof(uint32_t), U32 },
};

static const struct number lease_numbers[] = {
    NUMBER(lease, client_id, U32),
    NUMBER(lease, pid, U32),
    NUMBER(lease, uid, U32),
    NUMBER(lease, process_start, U64),
};
_Static_assert(sizeof(pid_t) == 4 && sizeof(uid_t) == 4, "read as 32 bits");

#define COUNT(table) (sizeof(table) / sizeof(table)[0])
#define NUMBERS_MAX 16

/* ---- writing --------------------------------------------------------------------------------- */

static void write_numbers(struct ec_json_writer *writer, const struct number *numbers, size_t count,
                          const void *row)
{
    for (size_t i = 0; i < count; i++) {
        const char *at = (const char *)row + numbers[i].offset;

        switch (numbers[i].kind) {
        case I64:
            ec_json_member_i64(writer, numbers[i].name, *(const int64_t *)(const void *)at);
            break;
        case U64:
            ec_json_member_u64(writer, numbers[i].name, *(const uint64_t *)(const void *)at);
            break;
        case U32:
            ec_json_member_u64(writer, numbers[i].name, *(const uint32_t *)(const void *)at);
            break;
        case BOOL:
            ec_json_member_boolean(writer, numbers[i].name, *(const bool *)(const void *)at);
            break;
        }
    }
}

static void write_object(struct ec_json_writer *writer, const char *name,
                         const struct number *numbers, size_t count, const void *row)
{
    ec_json_member_object(writer, name);
    write_numbers(writer, numbers, count, row);
    ec_json_object_end(writer);
}

static void write_clock(struct ec_json_writer *writer, const struct clock_heritage *clock)
{
    ec_json_member_object(writer, "clock");
    write_numbers(writer, clock_numbers, COUNT(clock_numbers), clock);
    write_object(writer, "game", game_numbers, COUNT(game_numbers), &clock->snapshot.game);
    write_object(writer, "game_next", game_numbers, COUNT(game_numbers),
                 &clock->snapshot.game_next);
    ec_json_member_array(writer, "steps");
    for (uint32_t i = 0; i < clock->clock_count; i++) {
        const struct ec_step_snapshot *step = &clock->snapshot.step[i];

        ec_json_object_begin(writer);
        ec_json_member_string_n(writer, "name", step->name, strnlen(step->name, sizeof step->name));
        write_numbers(writer, step_numbers, COUNT(step_numbers), step);
        write_numbers(writer, ordered_numbers, COUNT(ordered_numbers), &clock->clock[i]);
        ec_json_object_end(writer);
    }
    ec_json_array_end(writer);
    ec_json_object_end(writer);
}

static void write_checkpoint(struct ec_json_writer *writer,
                             const struct checkpoint_heritage *checkpoint)
{
    ec_json_object_begin(writer);
    ec_json_member_string_n(writer, "name", checkpoint->name,
                            strnlen(checkpoint->name, sizeof checkpoint->name));
    write_numbers(writer, checkpoint_numbers, COUNT(checkpoint_numbers), checkpoint);
    ec_json_member_array(writer, "steps");
    for (uint32_t i = 0; i < checkpoint->clock_count; i++) {
        ec_json_object_begin(writer);
        ec_json_member_string_n(
            writer, "name", checkpoint->clock[i].step.name,
            strnlen(checkpoint->clock[i].step.name, sizeof checkpoint->clock[i].step.name));
        write_numbers(writer, step_numbers, COUNT(step_numbers), &checkpoint->clock[i].step);
        write_numbers(writer, past_numbers, COUNT(past_numbers), &checkpoint->clock[i]);
        ec_json_object_end(writer);
    }
    ec_json_array_end(writer);
    ec_json_object_end(writer);
}

static void write_breaker(struct ec_json_writer *writer, const struct breaker_heritage *breaker)
{
    ec_json_member_object(writer, "breaker");
    write_numbers(writer, breaker_numbers, COUNT(breaker_numbers), breaker);
    ec_json_member_string(writer, "manual_reason", breaker->manual_reason);
    ec_json_member_array(writer, "reservations");
    for (uint32_t i = 0; i < breaker->reservation_count; i++) {
        ec_json_object_begin(writer);
        write_numbers(writer, reservation_numbers, COUNT(reservation_numbers),
                      &breaker->reservations[i]);
        ec_json_object_end(writer);
    }
    ec_json_array_end(writer);
    ec_json_object_end(writer);
}

void heritage_content_write(const struct heritage_content *content, struct ec_json_writer *writer)
{
    ec_json_object_begin(writer);
    ec_json_member_u64(writer, "format", FORMAT);
    ec_json_member_string(writer, "boot_id", content->boot_id);
    ec_json_member_hex64(writer, "instance", content->instance);
    ec_json_member_u64(writer, "runs", content->runs);
    ec_json_member_boolean(writer, "ended", content->ended);
    write_object(writer, "last_ids", id_numbers, COUNT(id_numbers), content->last_id);
    if (content->has_clock)
        write_clock(writer, &content->clock);
    ec_json_member_array(writer, "checkpoints");
    for (unsigned i = 0; i < HERITAGE_CHECKPOINTS; i++)
        if (content->checkpoints[i] != NULL)
            write_checkpoint(writer, content->checkpoints[i]);
    ec_json_array_end(writer);
    if (content->has_breaker)
        write_breaker(writer, &content->breaker);
    ec_json_member_array(writer, "leases");
    for (unsigned i = 0; i < content->lease_count; i++) {
        ec_json_object_begin(writer);
        ec_json_member_string(writer, "name", content->leases[i].name);
        write_numbers(writer, lease_numbers, COUNT(lease_numbers), &content->leases[i]);
        ec_json_object_end(writer);
    }
    ec_json_array_end(writer);
    ec_json_object_end(writer);
    ec_json_line_end(writer);
}

/* ---- reading --------------------------------------------------------------------------------- */

static int read_number(struct ec_json_span value, const struct number *number, void *row)
{
    char *at = (char *)row + number->offset;
    uint64_t wide;
    int rc;

    switch (number->kind) {
    case I64:
        return ec_json_get_i64(value, (int64_t *)(void *)at);
    case U64:
        return ec_json_get_u64(value, (uint64_t *)(void *)at);
    case U32:
        rc = ec_json_get_u64(value, &wide);
        if (rc == EC_OK && wide <= UINT32_MAX)
            *(uint32_t *)(void *)at = (uint32_t)wide;
        return rc == EC_OK && wide > UINT32_MAX ? EC_ERR_PARAM : rc;
    case BOOL:
        return ec_json_get_boolean(value, (bool *)(void *)at);
    }
    return EC_ERR_PARAM;
}

/* All numbers of a row; other members are left to others. */
static int read_numbers(struct ec_json_span object, const struct number *numbers, size_t count,
                        void *row, struct ec_error *why)
{
    const char *names[NUMBERS_MAX];
    struct ec_json_span values[NUMBERS_MAX];
    struct ec_json_fields fields = { .names = names, .values = values, .count = count };

    for (size_t i = 0; i < count; i++)
        names[i] = numbers[i].name;
    if (ec_json_bind(object, &fields) < 0)
        return ec_fail(why, EC_ERR_PARAM, "%s and others: there is no object", names[0]);
    for (size_t i = 0; i < count; i++)
        if (read_number(values[i], &numbers[i], row) < 0)
            return ec_fail(why, EC_ERR_PARAM, "%s: missing, or not such a number", names[i]);
    return EC_OK;
}

/* What arithmetic asks of a step clock, and what the scheduler does. */
static int check_step(const struct clock_heritage *clock, uint32_t i, struct ec_error *why)
{
    const struct ec_step_snapshot *step = &clock->snapshot.step[i];

    if (!ec_step_valid(step) || step->source > EC_STEP_GAME || clock->clock[i].late > 2 ||
        clock->clock[i].spin_ns < 0 || clock->clock[i].period_num == 0 ||
        clock->clock[i].period_num >= EC_PERIOD_TERM_MAX || clock->clock[i].period_den == 0 ||
        clock->clock[i].period_den >= EC_PERIOD_TERM_MAX)
        return ec_fail(why, EC_ERR_PARAM, "step clock %u cannot run like this", i);
    for (uint32_t other = 0; other < i; other++)
        if (strcmp(clock->snapshot.step[other].name, step->name) == 0)
            return ec_fail(why, EC_ERR_PARAM, "step clock %s stands twice", step->name);
    return EC_OK;
}

static int read_step(struct ec_json_span object, struct clock_heritage *clock, struct ec_error *why)
{
    uint32_t i = clock->clock_count;
    struct ec_step_snapshot *step = &clock->snapshot.step[i];
    int rc;

    if (i == EC_STEP_CLOCKS_MAX)
        return ec_fail(why, EC_ERR_PARAM, "steps: more than %d", EC_STEP_CLOCKS_MAX);
    if (ec_json_get_text(ec_json_get_member(object, "name"), step->name, sizeof step->name) < 0 ||
        step->name[0] == '\0')
        return ec_fail(why, EC_ERR_PARAM, "steps: one has no name");
    rc = read_numbers(object, step_numbers, COUNT(step_numbers), step, why);
    if (rc == EC_OK)
        rc = read_numbers(object, ordered_numbers, COUNT(ordered_numbers), &clock->clock[i], why);
    if (rc == EC_OK)
        rc = check_step(clock, i, why);
    clock->clock_count++;
    return rc;
}

static int read_clock(struct ec_json_span object, struct clock_heritage *clock,
                      struct ec_error *why)
{
    struct ec_json_iterator steps = ec_json_iterate(ec_json_get_member(object, "steps"));
    struct ec_json_span step;
    int rc = read_numbers(object, clock_numbers, COUNT(clock_numbers), clock, why);

    if (rc == EC_OK)
        rc = read_numbers(ec_json_get_member(object, "game"), game_numbers, COUNT(game_numbers),
                          &clock->snapshot.game, why);
    if (rc == EC_OK)
        rc = read_numbers(ec_json_get_member(object, "game_next"), game_numbers,
                          COUNT(game_numbers), &clock->snapshot.game_next, why);
    if (rc < 0)
        return rc;
    if (!ec_game_valid(&clock->snapshot.game) || !ec_game_valid(&clock->snapshot.game_next) ||
        clock->scale_den == 0 || clock->scale_den > EC_SCALE_DEN_MAX ||
        clock->scale_num > EC_SCALE_MAX * clock->scale_den)
        return ec_fail(why, EC_ERR_PARAM, "game: time cannot run like this");
    while (rc == EC_OK && ec_json_next_element(&steps, &step))
        rc = read_step(step, clock, why);
    return rc;
}

/* What the scheduler does with it when time goes back there. */
static int check_checkpoint(const struct checkpoint_heritage *checkpoint, struct ec_error *why)
{
    if (checkpoint->id == 0 || checkpoint->remainder_den == 0 ||
        checkpoint->remainder_den > EC_SCALE_DEN_MAX ||
        checkpoint->remainder >= checkpoint->remainder_den)
        return ec_fail(why, EC_ERR_PARAM, "checkpoints: time cannot go back to one");
    for (uint32_t i = 0; i < checkpoint->clock_count; i++)
        if (!ec_step_valid(&checkpoint->clock[i].step) ||
            checkpoint->clock[i].step.source > EC_STEP_GAME ||
            checkpoint->clock[i].period_num == 0 ||
            checkpoint->clock[i].period_num >= EC_PERIOD_TERM_MAX ||
            checkpoint->clock[i].period_den == 0 ||
            checkpoint->clock[i].period_den >= EC_PERIOD_TERM_MAX)
            return ec_fail(why, EC_ERR_PARAM, "checkpoints: step clock %u cannot run like this", i);
    return EC_OK;
}

static int read_checkpoint(struct ec_json_span object, struct checkpoint_heritage *checkpoint,
                           struct ec_error *why)
{
    struct ec_json_iterator steps = ec_json_iterate(ec_json_get_member(object, "steps"));
    struct ec_json_span step;
    int rc = read_numbers(object, checkpoint_numbers, COUNT(checkpoint_numbers), checkpoint, why);

    if (rc == EC_OK && ec_json_get_text(ec_json_get_member(object, "name"), checkpoint->name,
                                        sizeof checkpoint->name) < 0)
        rc = ec_fail(why, EC_ERR_PARAM, "checkpoints: one has no name");
    while (rc == EC_OK && ec_json_next_element(&steps, &step)) {
        const uint32_t i = checkpoint->clock_count;

        if (i == EC_STEP_CLOCKS_MAX)
            return ec_fail(why, EC_ERR_PARAM, "checkpoints: more than %d clocks",
                           EC_STEP_CLOCKS_MAX);
        if (ec_json_get_text(ec_json_get_member(step, "name"), checkpoint->clock[i].step.name,
                             sizeof checkpoint->clock[i].step.name) < 0)
            return ec_fail(why, EC_ERR_PARAM, "checkpoints: a clock has no name");
        rc = read_numbers(step, step_numbers, COUNT(step_numbers), &checkpoint->clock[i].step, why);
        if (rc == EC_OK)
            rc = read_numbers(step, past_numbers, COUNT(past_numbers), &checkpoint->clock[i], why);
        checkpoint->clock_count++;
    }
    return rc == EC_OK ? check_checkpoint(checkpoint, why) : rc;
}

static int read_checkpoints(struct ec_json_span array, struct heritage_content *content,
                            struct ec_error *why)
{
    struct ec_json_iterator rows = ec_json_iterate(array);
    struct ec_json_span row;
    int rc = EC_OK;

    while (rc == EC_OK && ec_json_next_element(&rows, &row)) {
        struct checkpoint_heritage *made = calloc(1, sizeof *made), **place;

        if (made == NULL)
            return ec_fail(why, EC_ERR_MEMORY, "no memory for a checkpoint");
        rc = read_checkpoint(row, made, why);
        place = &content->checkpoints[made->id % HERITAGE_CHECKPOINTS];
        if (rc == EC_OK && *place != NULL)
            rc = ec_fail(why, EC_ERR_PARAM, "checkpoints: two in one place");
        if (rc == EC_OK)
            *place = made;
        else
            free(made);
    }
    return rc;
}

static int read_breaker(struct ec_json_span object, struct breaker_heritage *breaker,
                        struct ec_error *why)
{
    struct ec_json_iterator rows = ec_json_iterate(ec_json_get_member(object, "reservations"));
    struct ec_json_span row;
    int rc = read_numbers(object, breaker_numbers, COUNT(breaker_numbers), breaker, why);

    if (rc == EC_OK &&
        (breaker->manual_level >= EC_BREAKER_LEVELS ||
         ec_json_get_text(ec_json_get_member(object, "manual_reason"), breaker->manual_reason,
                          sizeof breaker->manual_reason) < 0))
        rc = ec_fail(why, EC_ERR_PARAM, "breaker: there is no such level, or no reason");
    while (rc == EC_OK && ec_json_next_element(&rows, &row)) {
        const uint32_t at = breaker->reservation_count;

        if (at == HERITAGE_RESERVATIONS)
            return ec_fail(why, EC_ERR_PARAM, "reservations: more than %d", HERITAGE_RESERVATIONS);
        rc = read_numbers(row, reservation_numbers, COUNT(reservation_numbers),
                          &breaker->reservations[at], why);
        if (rc == EC_OK &&
            (breaker->reservations[at].id == 0 || breaker->reservations[at].client_id == 0))
            rc = ec_fail(why, EC_ERR_PARAM, "reservations: one has no id or client");
        for (uint32_t i = 0; rc == EC_OK && i < at; i++)
            if (breaker->reservations[i].id == breaker->reservations[at].id)
                rc = ec_fail(why, EC_ERR_PARAM, "reservations: two with one id");
        breaker->reservation_count++;
    }
    return rc;
}

static int read_leases(struct ec_json_span array, struct heritage_content *content,
                       struct ec_error *why)
{
    struct ec_json_iterator rows = ec_json_iterate(array);
    struct ec_json_span row;
    int rc = EC_OK;

    while (rc == EC_OK && ec_json_next_element(&rows, &row)) {
        struct lease lease = { 0 };
        struct lease *grown;

        if (content->lease_count == HERITAGE_LEASES_MAX)
            return ec_fail(why, EC_ERR_PARAM, "leases: more than %d", HERITAGE_LEASES_MAX);
        rc = read_numbers(row, lease_numbers, COUNT(lease_numbers), &lease, why);
        if (rc == EC_OK &&
            (lease.client_id == 0 || lease.pid <= 0 ||
             ec_json_get_text(ec_json_get_member(row, "name"), lease.name, sizeof lease.name) < 0))
            rc = ec_fail(why, EC_ERR_PARAM, "leases: one has no id, process or name");
        if (rc < 0)
            break;
        grown = realloc(content->leases, (content->lease_count + 1) * sizeof *grown);
        if (grown == NULL)
            return ec_fail(why, EC_ERR_MEMORY, "no memory for %u leases", content->lease_count + 1);
        content->leases = grown;
        grown[content->lease_count++] = lease;
    }
    return rc;
}

static int read_all(struct ec_json_span root, struct heritage_content *content,
                    struct ec_error *why)
{
    struct ec_json_span clock = ec_json_get_member(root, "clock"),
                        breaker = ec_json_get_member(root, "breaker");
    uint64_t format = 0, runs = 0;
    int rc;

    if (ec_json_get_u64(ec_json_get_member(root, "format"), &format) < 0 || format != FORMAT)
        return ec_fail(why, EC_ERR_PARAM, "format: expected %d", FORMAT);
    if (ec_json_get_text(ec_json_get_member(root, "boot_id"), content->boot_id,
                         sizeof content->boot_id) < 0)
        return ec_fail(why, EC_ERR_PARAM, "boot_id: expected text");
    if (ec_json_get_hex64(ec_json_get_member(root, "instance"), &content->instance) < 0)
        return ec_fail(why, EC_ERR_PARAM, "instance: expected an id");
    if (ec_json_get_u64(ec_json_get_member(root, "runs"), &runs) < 0 || runs > UINT32_MAX - 1)
        return ec_fail(why, EC_ERR_PARAM, "runs: expected a count");
    if (ec_json_get_boolean(ec_json_get_member(root, "ended"), &content->ended) < 0)
        return ec_fail(why, EC_ERR_PARAM, "ended: expected true or false");
    content->runs = (uint32_t)runs;
    rc = read_numbers(ec_json_get_member(root, "last_ids"), id_numbers, COUNT(id_numbers),
                      content->last_id, why);
    if (rc == EC_OK && clock.text != NULL) {
        rc = read_clock(clock, &content->clock, why);
        content->has_clock = rc == EC_OK;
    }
    if (rc == EC_OK)
        rc = read_checkpoints(ec_json_get_member(root, "checkpoints"), content, why);
    if (rc == EC_OK && breaker.text != NULL) {
        rc = read_breaker(breaker, &content->breaker, why);
        content->has_breaker = rc == EC_OK;
    }
    return rc == EC_OK ? read_leases(ec_json_get_member(root, "leases"), content, why) : rc;
}

int heritage_content_read(const char *text, size_t bytes, struct heritage_content *content,
                          struct ec_error *why)
{
    struct ec_json_fault fault = { 0 };
    int rc;

    *content = (struct heritage_content) { 0 };
    if (ec_json_check(text, bytes, NULL, &fault) < 0)
        return ec_fail(why, EC_ERR_PARSE, "%s at byte %zu", fault.reason, fault.offset);
    rc = read_all(ec_json_root(text, bytes), content, why);
    if (rc < 0)
        heritage_content_finish(content);
    return rc;
}

void heritage_content_finish(struct heritage_content *content)
{
    for (unsigned i = 0; i < HERITAGE_CHECKPOINTS; i++)
        free(content->checkpoints[i]);
    free(content->leases);
    *content = (struct heritage_content) { 0 };
}
