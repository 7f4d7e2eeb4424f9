/* load_job.c - the daemon's side of decode_messages.h: start, judge, reserve, wait.
 *
 * Everything that comes from the child is a stranger's word. A size is compared with the limits before
 * it is reserved; DONE counts only when the process has ended as well, and ended well, or when the listener
 * saw it let go of the range. */
#include "resources/load_job.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "foundation/real_time.h"
#include "resources/decode_messages.h"
#include "resources/decode_server.h"
#include "resources/packet.h"

/* For a process that has said its last word. Machines stand still for a second now and then, and what was
 * decoded well would count as lost. */
#define END_MS 3000

/* A process gets no further turn after that, so that what it has used of a processor's time is little beside
 * the limit of one resource. */
#define BATCH_S 1u

enum hold { HOLD_NOTHING, HOLD_RANGE, HOLD_LET_GO };

/* One job, while it is its turn. */
struct turn {
    struct load_job *job;
    unsigned index; /* in the batch */
    int64_t begin_ns;
    bool reserved, done, failed; /* how far it came */
    enum hold hold;              /* what the process has of the heap, as far as the listener saw */
    uint64_t address;            /* of it, in the process */
};

struct running {
    const struct load_batch *batch;
    struct turn turn;
    struct asset_heap *heap;
    struct decode_child child;
    int listener;
    int cancel_fd;
    int64_t begin_ns;         /* of the process */
    bool guarded;             /* it is, */
    enum sandbox_guard guard; /* so */
    bool heard;               /* it has said something of an entry */
    bool used;                /* it has had a turn before this one */
};

static int child_begin(struct running *running, const struct load_place *place);
static bool turn_next(struct running *running, unsigned index);
static void turn_end(struct running *running, const struct turn *turn, int rc);
static bool child_is_free(const struct running *running);
static void listener_close(struct running *running);
static int child_talk(struct running *running);
static int listener_hear(struct running *running);
static int child_listen(struct running *running, bool *over);
static int on_measured(struct running *running, const struct decode_child_message *message);
static int judge(struct running *running, int rc, int status);
static bool is_doubtful(const struct running *running, int rc);

enum load_outcome load_batch_run(const struct load_batch *batch, const struct load_place *place)
{
    struct running running = { .batch = batch,
                               .heap = place->heap,
                               .listener = -1,
                               .cancel_fd = place->cancel_fd,
                               .begin_ns = ec_real_ns() };
    bool more = true;
    int rc, status;

    if (!turn_next(&running, 0))
        return LOAD_OVER;
    rc = child_begin(&running, place);
    if (rc == EC_ERR_STATE)
        return LOAD_NO_SERVER;
    if (rc != EC_OK) {
        turn_end(&running, &running.turn, rc);
        return LOAD_OVER;
    }
    do {
        struct turn ended;

        rc = child_talk(&running);
        if (!child_is_free(&running))
            break;
        ended = running.turn; /* the process goes on while its last work is looked at */
        running.used = true;
        more = turn_next(&running, ended.index + 1);
        if (more)
            packet_send(running.child.socket_fd, &(struct decode_turn) { running.turn.index },
                        sizeof(struct decode_turn), NULL, 0);
        turn_end(&running, &ended, rc);
    } while (more);
    listener_close(&running);
    status = decode_child_finish(&running.child, more && rc == EC_OK ? END_MS : 0);
    if (!more)
        return LOAD_OVER;
    rc = judge(&running, rc, status);
    if (is_doubtful(&running, rc)) {
        if (running.turn.reserved)
            asset_heap_free(running.heap, running.turn.job->offset,
                            running.turn.job->decoded.bytes);
        return LOAD_ALONE;
    }
    turn_end(&running, &running.turn, rc);
    return LOAD_OVER;
}

void load_job_entry(const struct load_job *job, struct decode_entry *entry)
{
    memset(entry, 0, sizeof *entry); /* all of it goes to another process */
    memcpy(entry->path, job->path, sizeof entry->path);
    entry->kind = job->kind;
    entry->options = job->options;
    entry->limits = job->limits.decode;
}

bool load_limits_same(const struct load_limits *left, const struct load_limits *right)
{
    return left->decode.bytes_max == right->decode.bytes_max &&
           left->decode.pixels_max == right->decode.pixels_max &&
           left->memory_bytes == right->memory_bytes && left->seconds == right->seconds &&
           left->guarded == right->guarded && left->drop_cache == right->drop_cache;
}

/* As decode_child_start. */
static int child_begin(struct running *running, const struct load_place *place)
{
    const struct load_batch *batch = running->batch;
    struct decode_load load;

    memset(&load, 0, sizeof load);
    load.first = batch->entries[0];
    load.count = batch->count;
    load.turn = running->turn.index; /* those before it may have been taken away by now */
    load.seconds = batch->limits.seconds + (batch->count > 1 ? BATCH_S : 0);
    load.memory_bytes = batch->limits.memory_bytes;
    load.guarded = batch->limits.guarded;
    load.drop_cache = batch->limits.drop_cache;
    return decode_child_start(place->server, &load, &batch->entries[1], running->cancel_fd,
                              &running->child, &running->turn.job->why);
}

/* false: the process has nothing more to do. */
static bool turn_next(struct running *running, unsigned index)
{
    const struct load_batch *batch = running->batch;
    const int64_t now_ns = ec_real_ns();
    struct load_job *job;

    if (index > 0 && now_ns - running->begin_ns > BATCH_S * EC_NS_PER_S)
        return false;
    job = batch->turn(batch->context, &index);
    if (job == NULL)
        return false;
    running->turn = (struct turn) { .job = job, .index = index, .begin_ns = now_ns };
    return true;
}

/* Nobody writes into the range any more. */
static void turn_end(struct running *running, const struct turn *turn, int rc)
{
    struct load_job *job = turn->job;

    job->guard = running->guard;
    if (rc == EC_OK)
        rc = content_digest_range(job->secret, running->heap, job->offset, job->decoded.bytes,
                                  &job->digest, &job->why);
    if (rc != EC_OK && turn->reserved)
        asset_heap_free(running->heap, job->offset, job->decoded.bytes);
    job->rc = rc;
    job->load_ns = ec_real_ns() - turn->begin_ns;
    running->batch->end(running->batch->context, job);
}

/* Did the turn come to an end after which the process has nothing of the heap? Of one that has only this turn,
 * its own end is awaited: it comes at once, and tells more. */
static bool child_is_free(const struct running *running)
{
    const struct turn *turn = &running->turn;

    return running->batch->count > 1 && (turn->done || turn->failed) &&
           turn->hold == (turn->reserved ? HOLD_LET_GO : HOLD_NOTHING);
}

/* A call that waits there fails. */
static void listener_close(struct running *running)
{
    if (running->listener >= 0)
        close(running->listener);
    running->listener = -1;
}

static int timeout_ms(const struct running *running)
{
    const int64_t rest =
        running->turn.begin_ns + running->batch->limits.seconds * EC_NS_PER_S - ec_real_ns();

    return rest > 0 ? (int)(rest / 1000000) + 1 : 0;
}

/* Returns EC_OK when the child has nothing more to say, EC_AGAIN (cancelled) or an error. */
static int child_talk(struct running *running)
{
    bool over = false;
    int rc = EC_OK;

    while (rc == EC_OK && !over) {
        struct pollfd wait[] = {
            { .fd = running->cancel_fd, .events = POLLIN },
            { .fd = running->child.socket_fd, .events = POLLIN },
            { .fd = running->turn.reserved ? running->listener : -1, .events = POLLIN },
        };
        int ready = poll(wait, 3, timeout_ms(running));

        if (ready < 0 && errno == EINTR)
            continue;
        if (ready <= 0)
            return ec_fail(&running->turn.job->why, EC_ERR_TIMEOUT, "was not decoded within %u s",
                           running->batch->limits.seconds);
        if (wait[0].revents != 0)
            return EC_AGAIN;
        if (wait[2].revents & POLLIN)
            rc = listener_hear(running);
        else if (wait[1].revents != 0)
            rc = child_listen(running, &over);
    }
    return rc;
}

/* It may map its range once, and end that once. */
static int listener_hear(struct running *running)
{
    struct turn *turn = &running->turn;
    const uint64_t bytes = heap_ranges_round(turn->job->decoded.bytes);
    bool allowed;

    if (turn->hold == HOLD_NOTHING)
        allowed = sandbox_allow_map(running->listener, turn->job->offset, bytes, &turn->address);
    else
        allowed = turn->hold == HOLD_RANGE &&
                  sandbox_allow_unmap(running->listener, turn->address, bytes);
    if (allowed)
        turn->hold++;
    if (!allowed || running->batch->count == 1)
        listener_close(running); /* from now on such a call fails */
    return allowed ? EC_OK
                   : ec_fail(&turn->job->why, EC_ERR_SYSTEM,
                             "the decoder asked for memory that is not its own");
}

/* The text is a stranger's: it ends, and is printable. */
static int failed(struct load_job *job, const struct ec_error *said)
{
    job->why = *said;
    job->why.text[sizeof job->why.text - 1] = '\0';
    for (char *at = job->why.text; *at != '\0'; at++)
        if ((unsigned char)*at < 0x20 || (unsigned char)*at >= 0x7f)
            *at = '?';
    if (job->why.code >= 0 || strcmp(ec_error_text(job->why.code), "unknown error") == 0)
        job->why.code = EC_ERR_PARAM;
    return job->why.code;
}

static int child_listen(struct running *running, bool *over)
{
    struct turn *turn = &running->turn;
    struct load_job *job = turn->job;
    struct decode_child_message message;
    int listener;

    if (!packet_receive(running->child.socket_fd, &message, sizeof message, &listener, 1)) {
        *over = true;
        return EC_OK; /* how it ended tells more */
    }
    if (listener >= 0 && (message.kind != DECODE_GUARDED || running->guarded))
        close(listener);
    switch (message.kind) {
    case DECODE_GUARDED:
        if (running->guarded)
            break;
        running->guarded = true;
        running->listener = listener;
        running->guard = listener >= 0                      ? SANDBOX_ONE_RANGE
                         : message.guard == SANDBOX_SECCOMP ? SANDBOX_SECCOMP
                                                            : SANDBOX_PROCESS;
        return EC_OK;
    case DECODE_MEASURED:
        if (!running->guarded || turn->reserved)
            break;
        running->heard = true;
        return on_measured(running, &message);
    case DECODE_DONE:
        if (!turn->reserved)
            break;
        turn->done = *over = true;
        return EC_OK;
    case DECODE_FAILED:
        running->heard = true;
        turn->failed = *over = true;
        return failed(job, &message.why);
    }
    return ec_fail(&job->why, EC_ERR_PARAM, "the decoder talks nonsense");
}

static int on_measured(struct running *running, const struct decode_child_message *message)
{
    struct load_job *job = running->turn.job;
    const struct decode_request request = { .kind = job->kind,
                                            .options = job->options,
                                            .limits = job->limits.decode };
    struct decode_range range;
    int rc;

    job->decoded = message->measured.decoded;
    job->mount = message->measured.mount;
    if (!decoded_is_possible(&job->decoded, &request))
        return ec_fail(&job->why, EC_ERR_SIZE, "the decoder announced an impossible size");
    rc = asset_heap_reserve(running->heap, job->decoded.bytes, &job->offset, &job->why);
    if (rc < 0)
        return rc;
    running->turn.reserved = true;
    range = (struct decode_range) { job->offset, heap_ranges_round(job->decoded.bytes) };
    /* If it is gone already, the next look tells. */
    packet_send(running->child.socket_fd, &range, sizeof range, &running->heap->fd, 1);
    return EC_OK;
}

/* What came of it, now that the process has ended: killed here, by the kernel, or by itself. */
static int judge(struct running *running, int rc, int status)
{
    struct ec_error *why = &running->turn.job->why;

    if (rc != EC_OK || (running->turn.done && status >= 0 && WIFEXITED(status) &&
                        WEXITSTATUS(status) == EXIT_SUCCESS))
        return rc;
    if (status < 0)
        return ec_fail(why, EC_ERR_SYSTEM, "the decoding process was lost");
    if (WIFEXITED(status))
        return ec_fail(why, EC_ERR_SYSTEM, "the decoder ended early with exit code %d",
                       WEXITSTATUS(status));
    if (WTERMSIG(status) == SIGSYS)
        return ec_fail(why, EC_ERR_SYSTEM, "the decoder made a forbidden system call");
    if (WTERMSIG(status) == SIGXCPU)
        return ec_fail(why, EC_ERR_TIMEOUT, "was not decoded within %u s",
                       running->batch->limits.seconds);
    return ec_fail(why, EC_ERR_SYSTEM, "the decoder crashed: %s", strsignal(WTERMSIG(status)));
}

/* May another entry have brought this about? All were opened before the first turn; and what one has damaged in
 * the process may break it in the turn of a later one. A later one that hangs is not given as long again. */
static bool is_doubtful(const struct running *running, int rc)
{
    if (running->batch->count == 1 || rc == EC_OK || rc == EC_AGAIN)
        return false;
    if (!running->heard)
        return true;
    return running->used && !running->turn.failed && rc != EC_ERR_TIMEOUT && rc != EC_ERR_MEMORY;
}
