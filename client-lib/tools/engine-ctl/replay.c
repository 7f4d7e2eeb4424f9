/* engine-ctl replay
 *
 *     timed         an event at begin + (its time - the first one's) / speed
 *     step-locked   the events of recorded step first + n in step base + n of the first step clock
 *
 * A step-locked replay that falls behind never puts the events of two recorded steps into one: readers
 * would see another order. It moves the base instead, and counts by how many steps.
 *
 * Between events the ports say which steps are over, so that readers who order by step go on. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <engine-core/clock.h>

#include "engine-ctl/fault.h"
#include "engine-ctl/json_read.h"
#include "engine-ctl/print.h"
#include "engine-ctl/progress.h"
#include "engine-ctl/replay_ports.h"
#include "engine-ctl/stop_signal.h"
#include "engine-ctl/verb.h"

#define SLEEP_NS 5000000 /* at most: a step is not held back for longer */
#define LOOK_EVENTS 256u /* of a batch; then flush, and look for signals */
#define STEP_WAIT_NS 100000000

enum { TYPE, SPEED, STEP_LOCKED };

struct replay {
    struct ctl *ctl;
    struct replay_file file;
    struct replay_ports ports;
    double speed;
    int stop;
    bool stopped;
    struct ec_step_clock clock;
    bool has_clock;
    struct progress progress;

    uint64_t published;
    int64_t begin_ns, late_ns_max; /* timed */
    uint64_t base;       /* step-locked: the step of the first events, if all had been in time */
    uint64_t late_steps; /* by so many it moved */
    uint64_t last_step;  /* of all that was published; 0: nothing was */
};

static int run(struct replay *replay, struct ec_error *why);
static int find_clock(struct replay *replay, struct ec_error *why);
static int play_timed(struct replay *replay, struct ec_error *why);
static int play_steps(struct replay *replay, struct ec_error *why);
static int tell_end(const struct replay *replay);

int verb_replay(struct ctl *ctl, const struct verb_input *input)
{
    struct replay replay = { .ctl = ctl, .speed = 1 };
    struct replay_choice choice = { .types = input->list,
                                    .type_count = input->list_count,
                                    .by_step = input->options[STEP_LOCKED] != NULL };
    struct ec_error why = { 0 };
    char *end;
    int rc;

    if (input->options[SPEED] != NULL) {
        if (choice.by_step)
            return ctl_fail(EXIT_USAGE, "replay: --speed or --step-locked, not both");
        replay.speed = strtod(input->options[SPEED], &end);
        if (*end != '\0' || !(replay.speed >= 0.1 && replay.speed <= 100))
            return ctl_fail(EXIT_USAGE, "--speed is \"%s\", expected 0.1..100",
                            input->options[SPEED]);
    }
    replay.stop = stop_signal_open();
    if (replay.stop < 0)
        return ctl_fail(EXIT_ANSWERED_ERROR, "signals: %s", strerror(errno));
    rc = replay_file_open(&replay.file, input->arguments[0], &choice, &why);
    if (rc == EC_OK)
        rc = run(&replay, &why);
    replay_file_finish(&replay.file);
    close(replay.stop);
    return rc < 0 ? ctl_fail(ctl_exit_code(rc), "replay %s: %s", input->arguments[0], why.text)
                  : rc;
}

static int run(struct replay *replay, struct ec_error *why)
{
    const bool by_step = replay->file.choice.by_step;
    int rc = replay_ports_open(&replay->ports, replay->ctl, &replay->file,
                               by_step ? EC_STAMP_FRAME : EC_STAMP_BATCH, why);

    if (rc == EC_OK && replay->file.events != 0)
        rc = find_clock(replay, why);
    replay->begin_ns = ec_time_real();
    if (rc == EC_OK && replay->file.events != 0)
        rc = by_step ? play_steps(replay, why) : play_timed(replay, why);
    progress_end(&replay->progress);
    replay_ports_close(&replay->ports);
    return rc < 0 ? rc : tell_end(replay);
}

/* The first step clock, by which publishers stamp. Without one events have no steps. */
static int find_clock(struct replay *replay, struct ec_error *why)
{
    struct ec_client *client = replay->ports.clients[0];
    char *result = NULL;
    cJSON *tree;
    int rc = ec_client_call(client, "clock.get", NULL, &result, why);

    if (rc < 0)
        return rc;
    tree = cJSON_Parse(result);
    do
        rc = ec_step_find(client,
                          json_text(cJSON_GetArrayItem(json_member(tree, "steps"), 0), "name"),
                          &replay->clock);
    while (rc == EC_AGAIN);
    cJSON_Delete(tree);
    free(result);
    replay->has_clock = rc == EC_OK;
    if (!replay->has_clock && replay->file.choice.by_step)
        return fault(why, rc, "the daemon has no step clock");
    return EC_OK;
}

/* ---- one event ------------------------------------------------------------------------------- */

static void show(struct replay *replay)
{
    char events[TEXT_BYTES];

    progress_show(replay->ctl, &replay->progress, "%3.0f %%  %s events",
                  100.0 * (double)replay->published / (double)replay->file.events,
                  number_text(events, (double)replay->published));
}

static int publish(struct replay *replay, const struct replay_event *event, struct ec_error *why)
{
    int rc = EC_AGAIN;

    while (rc == EC_AGAIN && !replay->stopped) {
        rc = replay_ports_publish(&replay->ports, event);
        if (rc == EC_AGAIN)
            replay->stopped = stop_signal_wait(replay->stop, -1, 0);
    }
    if (rc < 0)
        return fault(why, rc, "publish on port %s of %s: %s", replay->file.ports[event->port].name,
                     replay->file.ports[event->port].client, ec_error_text(rc));
    if (rc == EC_OK && ++replay->published % LOOK_EVENTS == 0) {
        replay_ports_flush(&replay->ports);
        replay->stopped = stop_signal_wait(replay->stop, -1, 0);
        show(replay);
    }
    return EC_OK;
}

/* ---- timed ----------------------------------------------------------------------------------- */

/* What is published from now on has the step of now, or a later one. */
static void pass_steps(struct replay *replay)
{
    uint64_t step = replay->has_clock ? ec_step_index(&replay->clock) : 0;

    if (step > 0)
        replay_ports_step_passed(&replay->ports, step - 1);
}

static void sleep_until(struct replay *replay, int64_t due_ns)
{
    int64_t now = ec_time_real();

    if (now >= due_ns) {
        if (now - due_ns > replay->late_ns_max)
            replay->late_ns_max = now - due_ns;
        return;
    }
    replay_ports_flush(&replay->ports);
    for (; now < due_ns && !replay->stopped; now = ec_time_real()) {
        int64_t left = due_ns - now;

        pass_steps(replay);
        show(replay);
        replay->stopped = stop_signal_wait(replay->stop, -1, left < SLEEP_NS ? left : SLEEP_NS);
    }
}

static int play_timed(struct replay *replay, struct ec_error *why)
{
    const struct replay_event *event;
    int rc = EC_OK;

    while (!replay->stopped && (rc = replay_file_next(&replay->file, &event, why)) == EC_OK) {
        double after = (double)(event->key - replay->file.first) / replay->speed;

        sleep_until(replay, replay->begin_ns + (after < 9e18 ? (int64_t)after : INT64_MAX / 2));
        if (!replay->stopped)
            rc = publish(replay, event, why);
        if (rc < 0)
            break;
    }
    replay_ports_flush(&replay->ports);
    return rc < 0 ? rc : EC_OK;
}

/* ---- step-locked ----------------------------------------------------------------------------- */

/* Wait until a step is there; those before it are over. */
static void await_step(struct replay *replay, uint64_t target)
{
    struct ec_step step = { .step = ec_step_index(&replay->clock) };

    while (step.step < target && !replay->stopped) {
        replay_ports_step_passed(&replay->ports, step.step);
        show(replay);
        ec_step_wait(&replay->clock, STEP_WAIT_NS, &step);
        replay->stopped = stop_signal_wait(replay->stop, -1, 0);
    }
}

/* Begin with the events of a recorded step, in a step that nothing was published in yet. Ports are
 * stamped in their order, so the order holds too when a step begins between two of them. */
static void begin_step(struct replay *replay, uint64_t recorded)
{
    uint64_t target = replay->base + (recorded - replay->file.first), newest;

    await_step(replay, target);
    newest = ec_step_index(&replay->clock);
    if (newest == replay->last_step) {
        await_step(replay, newest + 1);
        newest = ec_step_index(&replay->clock);
    }
    /* All ports, some of whose clients may be told later of the step that has begun. */
    pass_steps(replay);
    replay_ports_stamp(&replay->ports);
    replay->base += newest - target;
    replay->late_steps += newest - target;
    replay->last_step = ec_step_index(&replay->clock);
}

static int play_steps(struct replay *replay, struct ec_error *why)
{
    const struct replay_event *event;
    uint64_t recorded = 0;
    int rc = EC_OK;

    replay->base = ec_step_index(&replay->clock) + 1;
    while (!replay->stopped && (rc = replay_file_next(&replay->file, &event, why)) == EC_OK) {
        if (replay->last_step == 0 || event->key != recorded) {
            replay_ports_step_passed(&replay->ports, replay->last_step);
            recorded = event->key;
            begin_step(replay, recorded);
        }
        if (!replay->stopped)
            rc = publish(replay, event, why);
        if (rc < 0)
            break;
    }
    replay_ports_step_passed(&replay->ports, replay->last_step);
    return rc < 0 ? rc : EC_OK;
}

/* ---- the end --------------------------------------------------------------------------------- */

static int tell_end(const struct replay *replay)
{
    const struct replay_file *file = &replay->file;
    int64_t elapsed_ns = ec_time_real() - replay->begin_ns;
    char events[TEXT_BYTES], duration[TEXT_BYTES], late[TEXT_BYTES];

    if (replay->ctl->json) {
        printf("{\"published\":%" PRIu64 ",\"events\":%" PRIu64 ",\"left_out\":%" PRIu64
               ",\"bad\":%" PRIu64 ",\"damaged\":%" PRIu64 ",\"whole\":%s,\"ports\":%" PRIu32
               ",\"elapsed_ns\":%" PRId64 ",\"late_ns_max\":%" PRId64 ",\"base_step\":%" PRIu64
               ",\"late_steps\":%" PRIu64 "}\n",
               replay->published, file->events, file->left_out, file->bad, file->damaged,
               file->whole ? "true" : "false", file->port_count, elapsed_ns, replay->late_ns_max,
               replay->base - replay->late_steps, replay->late_steps);
        return ctl_flush();
    }
    printf("%s events on %" PRIu32 " ports in %s", number_text(events, (double)replay->published),
           file->port_count, duration_text(duration, (double)elapsed_ns));
    if (file->choice.by_step)
        printf(", from step %" PRIu64 "; it fell %" PRIu64 " steps behind",
               replay->base - replay->late_steps, replay->late_steps);
    else
        printf(", at most %s late", duration_text(late, (double)replay->late_ns_max));
    if (file->left_out != 0)
        printf("; %" PRIu64 " events of other types were left out", file->left_out);
    if (file->bad + file->damaged != 0)
        printf("; %" PRIu64 " damaged ones too", file->bad + file->damaged);
    puts(file->whole ? "" : "; the recording was cut");
    return ctl_flush();
}
