/* desk_members.c - who is in which group.
 *
 * The thread looks into a member's record at any time until it has reported that the member is out. So
 * each member has a mapping of its own, which does not go with the client's. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/config.h"
#include "events/events.h"
#include "foundation/real_time.h"
#include "scheduler/desk.h"
#include "scheduler/phases.h"
#include "segment/clock_page.h"
#include "segment/histogram.h"

static struct desk_member *find_member(struct desk *desk, uint32_t client_id, uint32_t clock)
{
    for (uint32_t i = 0; i < SCHEDULER_MEMBERS; i++) {
        struct desk_member *member = &desk->members[i];

        if (member->used && !member->leaving && member->client_id == client_id &&
            member->clock == clock)
            return member;
    }
    return NULL;
}

static uint32_t slot_of(const struct desk *desk, const struct desk_member *member)
{
    return (uint32_t)(member - desk->members);
}

static void leave(struct desk *desk, struct desk_member *member)
{
    member->leaving = true;
    desk_post(desk, &(struct order) { .kind = ORDER_LEAVE, .clock = slot_of(desk, member) });
}

void desk_member_left(struct desk *desk, uint32_t slot)
{
    struct desk_member *member = &desk->members[slot];

    munmap(member->map, member->map_bytes);
    *member = (struct desk_member) { .used = false };
}

void desk_client_left(struct desk *desk, struct client *client)
{
    for (uint32_t i = 0; i < SCHEDULER_MEMBERS; i++) {
        struct desk_member *member = &desk->members[i];

        if (member->used && !member->leaving && member->client_id == client->id)
            leave(desk, member);
    }
    desk_timers_left(desk, client);
}

void desk_tell_releases(struct desk *desk)
{
    const struct scheduler *scheduler = desk->scheduler;

    for (uint32_t i = 0; i < SCHEDULER_MEMBERS; i++) {
        struct desk_member *member = &desk->members[i];
        const struct scheduler_member *seen = &scheduler->state.member[i];
        uint64_t releases = atomic_load_explicit(&seen->releases, memory_order_relaxed);
        struct event_clock_released event = { .client_id = { member->client_id } };

        if (!member->used || releases <= member->releases_told)
            continue;
        member->releases_told = releases;
        memcpy(event.clock, desk->clocks[member->clock].name, sizeof event.clock);
        event.step[0] =
            atomic_load_explicit(&scheduler->page->step[member->clock].step, memory_order_relaxed);
        events_publish_system(desk->services->events, EC_SYSTEM_clock_released, &event);
    }
}

/* Map the pages that hold the record. The segment is sealed and was checked when it was attached. */
static int map_record(struct desk_member *member, const struct client *client, struct ec_error *why)
{
    size_t offset =
        offsetof(struct ec_client_segment, members) + member->clock * sizeof(struct ec_step_member);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t from = offset / page * page;

    member->map_bytes = offset + sizeof(struct ec_step_member) - from;
    member->map = mmap(NULL, member->map_bytes, PROT_READ, MAP_SHARED | MAP_POPULATE,
                       client->client_fd, (off_t)from);
    if (member->map == MAP_FAILED)
        return ec_fail(why, EC_ERR_SYSTEM, "map the record of a member: %s", strerror(errno));
    member->record = (const void *)((const char *)member->map + (offset - from));
    return EC_OK;
}

/* Where in the period a newcomer fits best. */
static int64_t choose_phase(const struct desk *desk, uint32_t clock, int64_t period_ns)
{
    int64_t taken[SCHEDULER_MEMBERS];
    unsigned count = 0;

    for (uint32_t i = 0; i < SCHEDULER_MEMBERS; i++)
        if (desk->members[i].used && !desk->members[i].leaving && desk->members[i].clock == clock)
            taken[count++] = desk->members[i].phase_ns % period_ns;
    return phase_for_newcomer(taken, count, period_ns);
}

static int parse_phase(struct request *request, const struct params_clock_group_join *params,
                       const struct desk *desk, uint32_t clock, int64_t *phase_ns)
{
    const char *text = params->phase.string;
    struct ec_clock_view view;

    *phase_ns = params->phase_ns.present ? params->phase_ns.integer : 0;
    if (params->phase_ns.present) /* an earlier run of the daemon chose it */
        return EC_OK;
    if (strcmp(text, "same") == 0)
        return EC_OK;
    if (strcmp(text, "auto") != 0)
        return desk_fail_param(request, EC_ERR_PARAM, "phase", "is %s, expected same or auto",
                               text);
    if (ec_clock_read_view(desk->scheduler->page, clock, &view) != EC_OK)
        return ec_fail(request->why, EC_ERR_BUSY, "the clock page changes too fast to be read");
    *phase_ns = choose_phase(desk, clock, (int64_t)(view.step.period_num / view.step.period_den));
    return EC_OK;
}

static struct desk_member *free_member(struct desk *desk)
{
    for (uint32_t i = 0; i < SCHEDULER_MEMBERS; i++)
        if (!desk->members[i].used)
            return &desk->members[i];
    return NULL;
}

static int check_join(struct request *request, const struct params_clock_group_join *params,
                      uint32_t clock)
{
    struct desk *desk = request->services->scheduler->desk;
    uint64_t step =
        atomic_load_explicit(&desk->scheduler->page->step[clock].step, memory_order_relaxed);

    if (!request->client->attached)
        return ec_fail(request->why, EC_ERR_STATE, "client %u is not attached",
                       request->client->id);
    if (find_member(desk, request->client->id, clock) != NULL)
        return desk_fail_param(request, EC_ERR_STATE, "name", "client %u is a member of %s already",
                               request->client->id, desk->clocks[clock].name);
    if (params->start_at_step.present && (uint64_t)params->start_at_step.integer <= step)
        return desk_fail_param(request, EC_ERR_PARAM, "start_at_step",
                               "is %lld, expected one after %llu",
                               (long long)params->start_at_step.integer, (unsigned long long)step);
    if (params->free_running_speed.boolean &&
        (!params->required.boolean || desk->clocks[clock].source != EC_STEP_GAME))
        return desk_fail_param(request, EC_ERR_PARAM, "free_running_speed",
                               "only a required member of a clock on game time can ask for it");
    return EC_OK;
}

static void write_join(struct desk *desk, const struct order *order,
                       const struct desk_member *member, struct ec_json_writer *writer)
{
    ec_json_object_begin(writer);
    ec_json_member_string(writer, "name", desk->clocks[member->clock].name);
    ec_json_member_u64(writer, "clock", member->clock);
    ec_json_member_boolean(writer, "required", member->required);
    ec_json_member_i64(writer, "budget_ms", member->budget_ns / 1000000);
    ec_json_member_i64(writer, "phase_ns", member->phase_ns);
    ec_json_member_u64(writer, "start_at_step", order->u.join.member.start_at);
    ec_json_member_string(writer, "wake",
                          desk->scheduler->sleeper.bell_fd < 0 ? "futex" : "eventfd");
    ec_json_object_end(writer);
}

int cmd_clock_group_join(struct request *request)
{
    const struct params_clock_group_join *params = request->params;
    struct scheduler *scheduler = request->services->scheduler;
    struct desk *desk = scheduler->desk;
    struct desk_member *member = free_member(desk);
    struct order order = { .kind = ORDER_JOIN };
    int64_t phase_ns = 0;
    uint32_t clock;
    int rc = desk_find_clock(request, "name", params->name.string, &clock);

    if (rc == EC_OK)
        rc = check_join(request, params, clock);
    if (rc == EC_OK)
        rc = parse_phase(request, params, desk, clock, &phase_ns);
    if (rc == EC_OK && member == NULL)
        rc = ec_fail(request->why, EC_ERR_LIMIT, "there are %d members already", SCHEDULER_MEMBERS);
    if (rc < 0)
        return rc;
    if (request_would(request, "make client %u a member of the group of %s", request->client->id,
                      params->name.string))
        return EC_OK;
    *member = (struct desk_member) {
        .client_id = request->client->id,
        .clock = clock,
        .required = params->required.boolean,
        .budget_ns = (params->budget_ms.present ? params->budget_ms.integer
                                                : config_integer(request->services->config,
                                                                 EC_CONFIG_scheduler_budget_ms)) *
                     1000000,
        .phase_ns = phase_ns,
    };
    rc = map_record(member, request->client, request->why);
    if (rc == EC_OK && scheduler->sleeper.bell_fd >= 0) {
        rc = request_attach_fd(request, scheduler->sleeper.bell_fd);
        if (rc < 0)
            munmap(member->map, member->map_bytes);
    }
    if (rc < 0)
        return rc;
    member->used = true;
    order.clock = clock;
    order.u.join.slot = slot_of(desk, member);
    order.u.join.member = (struct order_member) {
        .record = member->record,
        .client_id = member->client_id,
        .required = member->required,
        .fast = params->free_running_speed.boolean,
        .budget_ns = member->budget_ns,
        .phase_ns = member->phase_ns,
        .start_at = (uint64_t)params->start_at_step.integer,
    };
    desk_post(desk, &order);
    write_join(desk, &order, member, request->result);
    return EC_OK;
}

int cmd_clock_group_leave(struct request *request)
{
    const struct params_clock_group_leave *params = request->params;
    struct desk *desk = request->services->scheduler->desk;
    struct desk_member *member;
    uint32_t clock;
    int rc = desk_find_clock(request, "name", params->name.string, &clock);

    if (rc < 0)
        return rc;
    member = find_member(desk, request->client->id, clock);
    if (member == NULL)
        return desk_fail_param(request, EC_ERR_NOT_FOUND, "name", "client %u is no member of %s",
                               request->client->id, params->name.string);
    if (request_would(request, "take client %u out of the group of %s", request->client->id,
                      params->name.string))
        return EC_OK;
    leave(desk, member);
    ec_json_object_begin(request->result);
    ec_json_member_string(request->result, "name", params->name.string);
    ec_json_object_end(request->result);
    return EC_OK;
}

static void write_percentiles(const char *name, const struct ec_histogram *histogram,
                              struct ec_json_writer *writer)
{
    struct ec_histogram_sum sum = { 0 };
    struct ec_percentiles percentiles;

    ec_histogram_sum_add(&sum, histogram);
    ec_histogram_percentiles(&sum, &percentiles);
    ec_json_member_object(writer, name);
    ec_json_member_u64(writer, "p50", percentiles.p50_ns);
    ec_json_member_u64(writer, "p99", percentiles.p99_ns);
    ec_json_member_u64(writer, "max", percentiles.max_ns);
    ec_json_member_u64(writer, "count", percentiles.count);
    ec_json_object_end(writer);
}

static void write_member(const struct desk *desk, const struct desk_member *member, uint64_t step,
                         struct ec_json_writer *writer)
{
    const struct scheduler_member *seen = &desk->scheduler->state.member[slot_of(desk, member)];
    const struct ec_step_member *record = member->record;
    uint32_t done = atomic_load_explicit(&record->done, memory_order_relaxed);
    uint64_t told = atomic_load_explicit(&record->step, memory_order_relaxed);

    ec_json_object_begin(writer);
    ec_json_member_u64(writer, "client_id", member->client_id);
    ec_json_member_boolean(writer, "required", member->required);
    ec_json_member_i64(writer, "budget_ms", member->budget_ns / 1000000);
    ec_json_member_i64(writer, "phase_ns", member->phase_ns);
    ec_json_member_u64(writer, "step", told);
    ec_json_member_boolean(writer, "waiting", done == (uint32_t)step);
    ec_json_member_boolean(writer, "released",
                           atomic_load_explicit(&seen->released, memory_order_relaxed) != 0);
    ec_json_member_u64(writer, "releases",
                       atomic_load_explicit(&seen->releases, memory_order_relaxed));
    write_percentiles("woken_late_ns", &record->woken_late, writer);
    write_percentiles("step_work_ns", &record->step_work, writer);
    ec_json_object_end(writer);
}

int cmd_clock_group_get(struct request *request)
{
    const struct params_clock_group_get *params = request->params;
    struct scheduler *scheduler = request->services->scheduler;
    struct desk *desk = scheduler->desk;
    struct ec_json_writer *writer = request->result;
    uint64_t step;
    uint32_t clock;
    int rc = desk_find_clock(request, "name", params->name.string, &clock);

    if (rc < 0)
        return rc;
    step = atomic_load_explicit(&scheduler->page->step[clock].step, memory_order_relaxed);
    ec_json_object_begin(writer);
    ec_json_member_string(writer, "name", desk->clocks[clock].name);
    ec_json_member_u64(writer, "step", step);
    ec_json_member_boolean(writer, "free_running_speed",
                           atomic_load_explicit(&scheduler->state.driven, memory_order_relaxed) ==
                               (int)clock);
    ec_json_member_array(writer, "members");
    for (uint32_t i = 0; i < SCHEDULER_MEMBERS; i++)
        if (desk->members[i].used && !desk->members[i].leaving && desk->members[i].clock == clock)
            write_member(desk, &desk->members[i], step, writer);
    ec_json_array_end(writer);
    ec_json_object_end(writer);
    return EC_OK;
}

void desk_describe_client(const struct desk *desk, const struct client *client,
                          struct ec_json_writer *writer)
{
    const struct ec_client_segment *segment = client_segment(client);

    if (segment != NULL) {
        uint64_t fps = atomic_load_explicit(&segment->frames.fps_milli, memory_order_relaxed);

        ec_json_member_object(writer, "frame");
        ec_json_member_real(writer, "fps", (double)fps / 1000.0);
        write_percentiles("period_ns", &segment->frames.period, writer);
        write_percentiles("work_ns", &segment->frames.work, writer);
        ec_json_object_end(writer);
    }
    ec_json_member_array(writer, "step_groups");
    for (uint32_t i = 0; i < SCHEDULER_MEMBERS; i++)
        if (desk->members[i].used && !desk->members[i].leaving &&
            desk->members[i].client_id == client->id)
            ec_json_string(writer, desk->clocks[desk->members[i].clock].name);
    ec_json_array_end(writer);
}
