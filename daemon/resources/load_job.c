/* load_job.c - the daemon's side of decode_messages.h: start, judge, reserve, wait.
 *
 * Everything that comes from the child is a stranger's word. A size is compared with the limits before
 * it is reserved; DONE counts only when the process has ended as well, and ended well. */
#include "resources/load_job.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "foundation/real_time.h"
#include "resources/decode_messages.h"
#include "resources/decode_server.h"
#include "resources/packet.h"

#define END_MS 1000 /* for a process that has said its last word */

struct running {
    struct load_job *job;
    struct asset_heap *heap;
    struct decode_child child;
    int listener;
    int cancel_fd;
    int64_t deadline_ns;
    bool guarded, reserved, done; /* how far it came */
};

static void listener_close(struct running *running);
static void load_fill(struct decode_load *load, const struct load_job *job);
static int child_talk(struct running *running);
static int child_listen(struct running *running, bool *over);
static int on_measured(struct running *running, const struct decode_child_message *message);
static int judge(struct running *running, int rc, int status);

bool load_job_run(struct load_job *job, const struct load_place *place)
{
    struct running running = {
        .job = job, .heap = place->heap, .listener = -1, .cancel_fd = place->cancel_fd
    };
    const int64_t begin_ns = ec_real_ns();
    struct decode_load load;
    int rc;

    running.deadline_ns = begin_ns + job->limits.seconds * EC_NS_PER_S;
    load_fill(&load, job);
    rc = decode_child_start(place->server, &load, &running.child, &job->why);
    if (rc == EC_AGAIN)
        return false;
    if (rc == EC_OK) {
        rc = child_talk(&running);
        listener_close(&running);
        rc = judge(&running, rc, decode_child_finish(&running.child, rc == EC_OK ? END_MS : 0));
    }
    if (rc == EC_OK)
        rc = content_digest_range(job->secret, place->heap, job->offset, job->decoded.bytes,
                                  &job->digest, &job->why);
    if (rc != EC_OK && running.reserved)
        asset_heap_free(place->heap, job->offset, job->decoded.bytes);
    job->rc = rc;
    job->load_ns = ec_real_ns() - begin_ns;
    return true;
}

/* A call that waits there fails. */
static void listener_close(struct running *running)
{
    if (running->listener >= 0)
        close(running->listener);
    running->listener = -1;
}

static void load_fill(struct decode_load *load, const struct load_job *job)
{
    memset(load, 0, sizeof *load);
    memcpy(load->path, job->path, sizeof load->path);
    load->kind = job->kind;
    load->options = job->options;
    load->limits = job->limits.decode;
    load->memory_bytes = job->limits.memory_bytes;
    load->seconds = job->limits.seconds;
    load->guarded = job->limits.guarded;
    load->drop_cache = job->limits.drop_cache;
}

static int timeout_ms(const struct running *running)
{
    int64_t rest = running->deadline_ns - ec_real_ns();

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
            { .fd = running->reserved ? running->listener : -1, .events = POLLIN },
        };
        int ready = poll(wait, 3, timeout_ms(running));

        if (ready < 0 && errno == EINTR)
            continue;
        if (ready <= 0)
            return ec_fail(&running->job->why, EC_ERR_TIMEOUT, "was not decoded within %u s",
                           running->job->limits.seconds);
        if (wait[0].revents != 0)
            return EC_AGAIN;
        if (wait[2].revents & POLLIN) {
            if (!sandbox_allow_map(running->listener, running->job->offset,
                                   heap_ranges_round(running->job->decoded.bytes)))
                rc = ec_fail(&running->job->why, EC_ERR_SYSTEM,
                             "the decoder asked for memory that is not its own");
            listener_close(running); /* once is enough: from now on such a call fails */
        } else if (wait[1].revents != 0) {
            rc = child_listen(running, &over);
        }
    }
    return rc;
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
    struct load_job *job = running->job;
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
        job->guard = listener >= 0                      ? SANDBOX_ONE_RANGE
                     : message.guard == SANDBOX_SECCOMP ? SANDBOX_SECCOMP
                                                        : SANDBOX_PROCESS;
        return EC_OK;
    case DECODE_MEASURED:
        if (!running->guarded || running->reserved)
            break;
        return on_measured(running, &message);
    case DECODE_DONE:
        if (!running->reserved)
            break;
        running->done = *over = true;
        return EC_OK;
    case DECODE_FAILED:
        *over = true;
        return failed(job, &message.why);
    }
    return ec_fail(&job->why, EC_ERR_PARAM, "the decoder talks nonsense");
}

static int on_measured(struct running *running, const struct decode_child_message *message)
{
    struct load_job *job = running->job;
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
    running->reserved = true;
    range = (struct decode_range) { job->offset, heap_ranges_round(job->decoded.bytes) };
    /* If it is gone already, the next look tells. */
    packet_send(running->child.socket_fd, &range, sizeof range, &running->heap->fd, 1);
    return EC_OK;
}

/* What came of it, now that the process has ended: killed here, by the kernel, or by itself. */
static int judge(struct running *running, int rc, int status)
{
    struct ec_error *why = &running->job->why;

    if (rc != EC_OK ||
        (running->done && status >= 0 && WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS))
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
                       running->job->limits.seconds);
    return ec_fail(why, EC_ERR_SYSTEM, "the decoder crashed: %s", strsignal(WTERMSIG(status)));
}
