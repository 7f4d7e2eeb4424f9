/* step_member.c - the member's side of a step clock's group.
 *
 *   member                                     scheduler (daemon/scheduler/group.c)
 *   simulate step n
 *   finished, histograms
 *   done = n             (release)  ------>    done (acquire): n, so step n + 1 may come
 *   FUTEX_WAKE done, or ring the bell  --->    sleeps on done while it says what it said before */
#include "client/step_member.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/client.h"
#include "client/kept_calls.h"
#include "foundation/futex.h"
#include "foundation/json/json_span.h"
#include "foundation/json/json_writer.h"

#define PARAMS_BYTES 512

static struct ec_step_member *record_of(const struct ec_step_clock *clock)
{
    return &ec_client_own(clock->client)->members[clock->index];
}

void ec_step_member_woken(struct ec_step_clock *clock, uint64_t step, int64_t due_ns,
                          int64_t now_ns)
{
    struct ec_step_member *record = record_of(clock);
    int64_t finished_ns = atomic_load_explicit(&record->finished_ns, memory_order_relaxed);
    /* Nobody could have told it before it was done with its last step: that is in step_work. */
    int64_t awaited_ns = finished_ns > due_ns ? finished_ns : due_ns;

    atomic_store_explicit(&record->step, step, memory_order_relaxed);
    atomic_store_explicit(&record->woken_ns, now_ns, memory_order_relaxed);
    if (now_ns >= awaited_ns)
        ec_histogram_add(&record->woken_late, (uint64_t)(now_ns - awaited_ns));
    clock->working = true;
}

static void wake_scheduler(const struct ec_step_clock *clock, struct ec_step_member *record)
{
    const uint64_t one = 1;
    ssize_t bytes;

    if (clock->bell_fd < 0) {
        ec_futex_wake_all(&record->done);
        return;
    }
    bytes = write(clock->bell_fd, &one, sizeof one);
    (void)bytes; /* full: it is ringing already */
}

void ec_step_member_finished(struct ec_step_clock *clock, int64_t now_ns)
{
    struct ec_step_member *record = record_of(clock);
    int64_t woken_ns = atomic_load_explicit(&record->woken_ns, memory_order_relaxed);

    clock->working = false;
    atomic_store_explicit(&record->finished_ns, now_ns, memory_order_relaxed);
    if (now_ns >= woken_ns)
        ec_histogram_add(&record->step_work, (uint64_t)(now_ns - woken_ns));
    /* release: partner is the acquire load in group.c. */
    atomic_store_explicit(&record->done, (uint32_t)clock->seen, memory_order_release);
    if (clock->required)
        wake_scheduler(clock, record);
}

void ec_step_done(struct ec_step_clock *clock)
{
    if (clock->joined && clock->working)
        ec_step_member_finished(clock, ec_client_now_ns(clock->client));
}

/* The clock's name, as the page has it. phase_ns: one that was given before, or NULL. */
static int write_params(const struct ec_step_clock *clock, const struct ec_step_join_desc *desc,
                        const int64_t *phase_ns, char text[PARAMS_BYTES], struct ec_error *why)
{
    const struct ec_step_snapshot *step =
        &ec_client_clock(clock->client)->step_copy[0][clock->index]; /* a name never changes */
    struct ec_json_writer writer;

    ec_json_writer_init(&writer, text, PARAMS_BYTES - 1);
    ec_json_object_begin(&writer);
    ec_json_member_string_n(&writer, "name", step->name, strnlen(step->name, sizeof step->name));
    if (desc != NULL) {
        ec_json_member_boolean(&writer, "required", desc->required);
        ec_json_member_string(&writer, "phase", desc->spread ? "auto" : "same");
        ec_json_member_boolean(&writer, "free_running_speed", desc->free_running_speed);
        if (phase_ns != NULL)
            ec_json_member_i64(&writer, "phase_ns", *phase_ns);
        if (desc->budget_ms != 0)
            ec_json_member_u64(&writer, "budget_ms", desc->budget_ms);
        if (desc->start_at_step != 0)
            ec_json_member_u64(&writer, "start_at_step", desc->start_at_step);
    }
    ec_json_object_end(&writer);
    if (ec_json_writer_status(&writer) < 0)
        return ec_fail(why, ec_json_writer_status(&writer), "params of a step clock");
    text[writer.bytes] = '\0';
    return EC_OK;
}

/* What the daemon arranged. */
static int take_join(struct ec_step_clock *clock, struct ec_call *call, struct ec_error *why)
{
    enum { PHASE, WAKE, MEMBERS };
    static const char *const names[MEMBERS] = { "phase_ns", "wake" };
    struct ec_json_span values[MEMBERS];
    struct ec_json_fields fields = { .names = names, .values = values, .count = MEMBERS };

    if (ec_json_bind(call->result, &fields) < 0 ||
        ec_json_get_i64(values[PHASE], &clock->phase_ns) < 0 || clock->phase_ns < 0)
        return ec_fail(why, EC_ERR_LAYOUT, "clock.group.join: the answer is not understood");
    clock->bell_fd = -1;
    if (!ec_json_string_equals(values[WAKE], "eventfd"))
        return EC_OK;
    if (call->reply_fd_count != 1)
        return ec_fail(why, EC_ERR_LAYOUT, "clock.group.join: no eventfd came along");
    clock->bell_fd = call->reply_fds[0];
    call->reply_fds[0] = -1;
    return EC_OK;
}

/* For the next daemon: with the phase that this one gave, and at once, since the members before a start
 * would wait for it twice. */
static int keep_join(const struct ec_step_clock *clock, const struct ec_step_join_desc *desc,
                     struct ec_error *why)
{
    struct ec_step_join_desc again = *desc;
    char params[PARAMS_BYTES];
    int rc;

    again.start_at_step = 0;
    rc = write_params(clock, &again, &clock->phase_ns, params, why);
    return rc < 0 ? rc : ec_kept_set_join(clock->client, clock->index, params, clock->bell_fd, why);
}

int ec_step_join(struct ec_step_clock *clock, const struct ec_step_join_desc *desc,
                 struct ec_error *why)
{
    struct ec_step_member *record = record_of(clock);
    struct ec_call call = { .method = "clock.group.join" };
    const uint64_t generation = ec_connection_generation(clock->client->connection);
    char params[PARAMS_BYTES];
    int rc;

    if (clock->joined)
        return ec_fail(why, EC_ERR_STATE, "a member of this step clock already");
    rc = write_params(clock, desc, NULL, params, why);
    if (rc < 0)
        return rc;
    /* Before the scheduler looks: what an earlier member left behind says nothing of this one. */
    atomic_store_explicit(&record->done, (uint32_t)clock->seen, memory_order_relaxed);
    call.params = params;
    rc = ec_connection_call(clock->client->connection, &call, why);
    if (rc == EC_OK)
        rc = take_join(clock, &call, why);
    ec_call_finish(&call);
    if (rc == EC_OK)
        rc = keep_join(clock, desc, why);
    if (rc == EC_OK && generation != ec_connection_generation(clock->client->connection)) {
        ec_kept_remove_join(clock->client, clock->index); /* the new one may not know of it */
        rc = ec_fail(why, EC_ERR_DISCONNECTED, "clock.group.join: the daemon was replaced");
    }
    if (rc < 0)
        return rc;
    clock->joined = true;
    clock->required = desc->required;
    clock->start_at = desc->start_at_step;
    if (clock->start_at > 0) /* what passes before is not its own */
        clock->seen = clock->start_at - 1;
    clock->working = false;
    atomic_store_explicit(&record->joined, 1, memory_order_relaxed);
    return EC_OK;
}

int ec_step_leave(struct ec_step_clock *clock, struct ec_error *why)
{
    struct ec_call call = { .method = "clock.group.leave" };
    char params[PARAMS_BYTES];
    int rc;

    if (!clock->joined)
        return ec_fail(why, EC_ERR_STATE, "no member of this step clock");
    rc = write_params(clock, NULL, NULL, params, why);
    if (rc < 0)
        return rc;
    call.params = params;
    rc = ec_connection_call(clock->client->connection, &call, why);
    ec_call_finish(&call);
    if (rc < 0)
        return rc;
    atomic_store_explicit(&record_of(clock)->joined, 0, memory_order_relaxed);
    ec_kept_remove_join(clock->client, clock->index);
    if (clock->bell_fd >= 0)
        close(clock->bell_fd);
    clock->bell_fd = -1;
    clock->joined = clock->required = clock->working = false;
    clock->phase_ns = 0;
    clock->start_at = 0;
    return EC_OK;
}
