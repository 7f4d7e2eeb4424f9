/* engine-ctl record
 *
 * While events come, they are taken without a pause. When none is there the tool naps instead of asking
 * to be woken: ringing a reader's bell is a system call of the publisher, and a recorder must not cost
 * one. Only after a quiet time it arms its bell, and costs the first event after it one call. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <engine-core/clock.h>

#include "engine-ctl/json_read.h"
#include "engine-ctl/print.h"
#include "engine-ctl/progress.h"
#include "engine-ctl/record_info.h"
#include "engine-ctl/recorder.h"
#include "engine-ctl/stop_signal.h"
#include "engine-ctl/verb.h"

#define NAP_NS 500000          /* 1 MiB of ring holds what 20 million small events a second fill */
#define QUIET_NS 1000000000    /* then the bell is armed */
#define SLEEP_NS 100000000     /* at most, to see the daemon go and the time pass */
#define FLUSH_NS 1000000000    /* what a crash may cost at most, beside what is on its way */
#define DRAIN_NS 20000000000   /* at most, at the end */
#define SECONDS_MAX 31536000ll /* a year */

enum { TYPE, SECONDS, HISTORY, INFO };

struct recording {
    struct ctl *ctl;
    const char *path;
    struct ec_client *client;
    struct mcap_writer *writer;
    struct chunk_queue queue;
    struct recorder recorder;
    int stop;
    int64_t begin_ns, until_ns;
    bool daemon_gone;
    bool cut_short; /* what was published in time was too much to be read at the end */
};

static int run(struct recording *recording, const struct recorder_desc *desc, struct ec_error *why);
static void take_events(struct recording *recording);
static void drain(struct recording *recording);
static int tell_end(const struct recording *recording, uint64_t file_bytes);

int verb_record(struct ctl *ctl, const struct verb_input *input)
{
    struct recording recording = { .ctl = ctl, .path = input->arguments[0], .until_ns = INT64_MAX };
    struct recorder_desc desc = { .types = input->list, .type_count = (uint32_t)input->list_count };
    struct ec_client_desc client = { .name = "engine-ctl record",
                                     .socket_path = ctl->socket_path,
                                     .timeout_ms = (uint32_t)ctl->timeout_ms };
    struct ec_error why = { 0 };
    long long number;
    int rc;

    if (input->options[INFO] != NULL)
        return record_info(ctl, recording.path);
    if (input->options[HISTORY] != NULL) {
        if (!verb_number(input->options[HISTORY], 1, 4095, &number))
            return ctl_fail(EXIT_USAGE, "--history is \"%s\", expected 1..4095",
                            input->options[HISTORY]);
        desc.history = (uint32_t)number;
    }
    recording.begin_ns = ec_time_real();
    if (input->options[SECONDS] != NULL) {
        if (!verb_number(input->options[SECONDS], 1, SECONDS_MAX, &number))
            return ctl_fail(EXIT_USAGE, "--seconds is \"%s\", expected 1..%lld",
                            input->options[SECONDS], SECONDS_MAX);
        recording.until_ns = recording.begin_ns + number * 1000000000;
    }
    recording.stop = stop_signal_open();
    if (recording.stop < 0)
        return ctl_fail(EXIT_ANSWERED_ERROR, "signals: %s", strerror(errno));
    rc = ec_client_create(&client, &recording.client, &why);
    if (rc == EC_OK) {
        desc.client = recording.client;
        rc = run(&recording, &desc, &why);
        ec_client_destroy(recording.client);
    }
    close(recording.stop);
    if (rc < 0)
        return ctl_fail(ctl_exit_code(rc), "record %s: %s", recording.path, why.text);
    if (recording.daemon_gone)
        return ctl_fail(EXIT_NO_DAEMON, "record %s: the daemon ended; what came before is recorded",
                        recording.path);
    return EXIT_DONE;
}

/* Open, record, and close in the reverse order; the file is whole unless it could not be written. */
static int run(struct recording *recording, const struct recorder_desc *desc, struct ec_error *why)
{
    struct recorder_desc with_queue = *desc;
    uint64_t file_bytes = 0;
    struct ec_error first;
    int rc = mcap_writer_open(recording->path, RECORDING_PROFILE, "engine-ctl " EC_VERSION,
                              &recording->writer, why);
    int end_rc;

    if (rc < 0)
        return rc;
    rc = chunk_queue_start(&recording->queue, recording->writer, why);
    if (rc < 0) {
        mcap_writer_close(recording->writer);
        return rc;
    }
    with_queue.queue = &recording->queue;
    rc = recorder_start(&recording->recorder, &with_queue, why);
    if (rc == EC_OK) {
        if (!recording->ctl->json)
            printf("recording into %s\n", recording->path);
        fflush(stdout);
        take_events(recording);
        drain(recording);
    }
    recorder_flush(&recording->recorder);
    if (recording->recorder.chunk != NULL)
        chunk_queue_give(&recording->queue, recording->recorder.chunk);
    first = *why;
    end_rc = chunk_queue_finish(&recording->queue, why);
    if (rc == EC_OK)
        rc = end_rc;
    else
        *why = first;
    end_rc = mcap_writer_finish(recording->writer, &recording->recorder.catalog, &first);
    if (rc == EC_OK && end_rc < 0) {
        rc = end_rc;
        *why = first;
    }
    file_bytes = recording->queue.written_bytes;
    recorder_finish(&recording->recorder);
    return rc == EC_OK && tell_end(recording, file_bytes) != EXIT_DONE ? EC_ERR_SYSTEM : rc;
}

static void show(struct recording *recording, struct progress *progress)
{
    const struct recorder *recorder = &recording->recorder;
    char events[TEXT_BYTES], bytes[TEXT_BYTES], lost[TEXT_BYTES];

    progress_show(recording->ctl, progress, "%s events, %s written, %s lost; Ctrl-C ends it",
                  number_text(events, (double)recorder->events),
                  bytes_text(bytes, (double)chunk_queue_written(&recording->queue)),
                  number_text(lost, (double)recorder->lost_events));
}

/* Nothing is there. Returns whether it is time to stop. */
static bool rest(struct recording *recording, int64_t quiet_ns)
{
    struct ec_subscriber *subscriber = recording->recorder.subscriber;

    if (ec_client_state(recording->client) == EC_DISCONNECTED)
        return recording->daemon_gone = true;
    if (quiet_ns < QUIET_NS)
        return stop_signal_wait(recording->stop, -1, NAP_NS);
    return ec_subscriber_arm(subscriber) == EC_AGAIN &&
           stop_signal_wait(recording->stop, ec_subscriber_fd(subscriber), SLEEP_NS);
}

static void take_events(struct recording *recording)
{
    int64_t last_ns = ec_time_real(), flushed_ns = last_ns;
    struct progress progress = { 0 };
    bool stop = false;

    while (!stop) {
        int events = recorder_poll(&recording->recorder);
        int64_t now = ec_time_real();

        if (events > 0)
            last_ns = now;
        if (now - flushed_ns >= FLUSH_NS) {
            recorder_flush(&recording->recorder);
            flushed_ns = now;
        }
        show(recording, &progress);
        stop = events < 0 || now >= recording->until_ns ||
               (events > 0 ? stop_signal_wait(recording->stop, -1, 0)
                           : rest(recording, now - last_ns));
    }
    progress_end(&progress);
}

/* What was published before we were asked to stop belongs to the recording. Ports that were opened
 * before are announced in front of the daemon's answer. Publishers may go on faster than we read, so
 * it ends when all that comes is later; a turn is long enough for each of many ports. */
static void drain(struct recording *recording)
{
    struct recorder *recorder = &recording->recorder;
    int64_t until_ns = ec_time_real() + DRAIN_NS;
    uint64_t passed_over;
    char *pong = NULL;
    int events;

    ec_client_call(recording->client, "core.ping", NULL, &pong, NULL);
    free(pong);
    recorder->end_ns = ec_time_real();
    do {
        passed_over = recorder->passed_over;
        events = recorder_poll(recorder);
    } while (events > 0 && (uint64_t)events > recorder->passed_over - passed_over &&
             ec_time_real() < until_ns);
    recording->cut_short = events > 0 && ec_time_real() >= until_ns;
}

static int tell_end(const struct recording *recording, uint64_t file_bytes)
{
    const struct recorder *recorder = &recording->recorder;
    int64_t elapsed_ns = ec_time_real() - recording->begin_ns;
    char events[TEXT_BYTES], bytes[TEXT_BYTES], duration[TEXT_BYTES];

    if (recording->ctl->json) {
        printf("{\"events\":%" PRIu64 ",\"payload_bytes\":%" PRIu64 ",\"file_bytes\":%" PRIu64
               ",\"lost_events\":%" PRIu64 ",\"lost_bytes\":%" PRIu64 ",\"torn\":%" PRIu64
               ",\"unrecorded\":%" PRIu64 ",\"cut_short\":%s,\"elapsed_ns\":%" PRId64 "}\n",
               recorder->events, recorder->payload_bytes, file_bytes, recorder->lost_events,
               recorder->lost_bytes, recorder->torn, recorder->unrecorded,
               recording->cut_short ? "true" : "false", elapsed_ns);
        return ctl_flush();
    }
    printf("%s events in %s, %s", number_text(events, (double)recorder->events),
           duration_text(duration, (double)elapsed_ns), bytes_text(bytes, (double)file_bytes));
    if (recorder->lost_events != 0)
        printf("; %" PRIu64 " events were lost", recorder->lost_events);
    if (recorder->unrecorded != 0)
        printf("; %" PRIu64 " events of unknown types were left out", recorder->unrecorded);
    if (recording->cut_short)
        printf("; the last events are missing, there were too many");
    putchar('\n');
    return ctl_flush();
}
