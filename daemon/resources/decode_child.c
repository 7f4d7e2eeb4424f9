/* decode_child.c - decode a few resources with as few rights as that takes.
 *
 * All entries are opened before the first byte of one is decoded, so that opening can be forbidden then.
 * The descriptor of the heap comes only after a file was measured, so while the name is looked up and
 * the header is read there is nothing to write into. */
#include "resources/decode_child.h"

#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "resources/decode_messages.h"
#include "resources/heap_ranges.h"
#include "resources/packet.h"

struct opened {
    struct decode_entry want;
    struct search_entry entry;
    struct ec_error why; /* code < 0: it cannot be opened */
};

struct child {
    int socket_fd;
    bool drop_cache;
    uint32_t count;
    struct sandbox sandbox;
    struct opened opened[DECODE_ENTRIES_MAX];
};

static void entries_take(struct child *child, const struct decode_load *load);
static void guard(struct child *child, const struct decode_load *load);
static void entries_open(struct child *child, struct search_path *search);
static void entry_turn(struct child *child, struct opened *opened);
static int read_entry(void *stream, void *to, uint64_t bytes, struct ec_error *why);
static bool entry_at_end(void *stream);
static void tell(int socket_fd, const struct decode_child_message *message, const int *fd);
static void tell_failed(int socket_fd, const struct ec_error *why);
static unsigned char *ask_for_range(struct child *child, const struct decoded *decoded,
                                    uint32_t mount, struct ec_error *why);

void decode_child_run(struct search_path *search, const struct decode_load *load, int socket_fd)
{
    static struct child child; /* the process has no other */
    struct decode_turn turn = { .entry = load->turn };

    child = (struct child) { .socket_fd = socket_fd, .drop_cache = load->drop_cache };
    child.sandbox.guard = SANDBOX_PROCESS;
    entries_take(&child, load);
    sandbox_limit(load->memory_bytes, load->seconds);
    guard(&child, load);
    entries_open(&child, search);
    if (load->guarded)
        sandbox_close();
    do {
        if (turn.entry >= child.count)
            _exit(EXIT_FAILURE);
        entry_turn(&child, &child.opened[turn.entry]);
    } while (child.count > 1 &&
             child.sandbox.guard == SANDBOX_ONE_RANGE && /* else only its end counts */
             packet_receive(socket_fd, &turn, sizeof turn, NULL, 0));
    _exit(EXIT_SUCCESS); /* all that it has goes with it */
}

static void entries_take(struct child *child, const struct decode_load *load)
{
    static struct decode_entry more[DECODE_ENTRIES_MAX - 1];

    assert(load->count >= 1 && load->count <= DECODE_ENTRIES_MAX);
    if (load->count > 1 &&
        !packet_receive(child->socket_fd, more, (load->count - 1) * sizeof more[0], NULL, 0))
        _exit(EXIT_FAILURE);
    child->count = load->count;
    child->opened[0].want = load->first;
    for (uint32_t i = 1; i < load->count; i++)
        child->opened[i].want = more[i - 1];
}

static void guard(struct child *child, const struct decode_load *load)
{
    struct decode_child_message message = { .kind = DECODE_GUARDED };
    const uint64_t place_bytes =
        load->count > 1 ? heap_ranges_round(load->first.limits.bytes_max) : 0;
    int *listener = NULL;

    if (load->guarded) {
        sandbox_enter(&child->sandbox, child->socket_fd, place_bytes);
        if (child->sandbox.listener >= 0)
            listener = &child->sandbox.listener;
    }
    message.guard = child->sandbox.guard;
    tell(child->socket_fd, &message, listener);
    if (listener != NULL)
        close(*listener);
}

/* What does not fit into memory beside the others may do so alone, and what is unpacked by opening it takes the
 * time of a resource for that: without a word from here, each of them gets a process of its own. */
static void entries_open(struct child *child, struct search_path *search)
{
    for (uint32_t i = 0; i < child->count; i++) {
        struct opened *opened = &child->opened[i];
        const int rc = search_entry_open(search, &opened->entry, opened->want.path, &opened->why);
        const bool unpacked = rc == EC_OK && opened->entry.fd < 0;

        if (child->count > 1 && (rc == EC_ERR_MEMORY || unpacked))
            _exit(EXIT_FAILURE);
    }
}

/* Everything that was taken for the entry is given back, the range first of all: only then is the end
 * of the turn told. */
static void entry_turn(struct child *child, struct opened *opened)
{
    const struct decode_child_message done = { .kind = DECODE_DONE };
    struct decode_source source = { .read = read_entry,
                                    .at_end = entry_at_end,
                                    .stream = &opened->entry,
                                    .length = opened->entry.bytes };
    const struct decode_request request = { .kind = opened->want.kind,
                                            .options = opened->want.options,
                                            .limits = opened->want.limits };
    const struct decoder *decoder;
    struct decoded decoded;
    struct ec_error why = opened->why;
    unsigned char *to = NULL;
    int rc = why.code;

    if (rc == EC_OK)
        rc = decoder_choose(&request, &source, &decoder, &why);
    if (rc == EC_OK)
        rc = decoder_measure(decoder, &request, &source, &decoded, &why);
    if (rc == EC_OK) {
        to = ask_for_range(child, &decoded, opened->entry.mount, &why);
        rc = to != NULL ? decoder_decode(decoder, &source, &decoded, to, &why) : why.code;
    }
    if (rc == EC_OK && child->drop_cache)
        search_entry_forget(&opened->entry);
    decode_source_finish(&source);
    search_entry_close(&opened->entry);
    if (to != NULL && child->sandbox.place != NULL &&
        !sandbox_unmap(&child->sandbox, heap_ranges_round(decoded.bytes)))
        _exit(EXIT_FAILURE);
    if (rc == EC_OK)
        tell(child->socket_fd, &done, NULL);
    else
        tell_failed(child->socket_fd, &why);
}

static int read_entry(void *stream, void *to, uint64_t bytes, struct ec_error *why)
{
    return search_entry_read(stream, to, bytes, why);
}

static bool entry_at_end(void *stream)
{
    return search_entry_at_end(stream);
}

static void tell(int socket_fd, const struct decode_child_message *message, const int *fd)
{
    if (!packet_send(socket_fd, message, sizeof *message, fd, fd != NULL ? 1 : 0))
        _exit(EXIT_FAILURE);
}

static void tell_failed(int socket_fd, const struct ec_error *why)
{
    const struct decode_child_message message = { .kind = DECODE_FAILED, .why = *why };

    assert(why->code < 0);
    tell(socket_fd, &message, NULL);
}

/* The heap's descriptor is good for nothing else behind the filter, and without a filter there is nothing
 * to keep. */
static unsigned char *ask_for_range(struct child *child, const struct decoded *decoded,
                                    uint32_t mount, struct ec_error *why)
{
    struct decode_child_message message = { .kind = DECODE_MEASURED };
    struct decode_range range;
    void *memory;
    int heap_fd;

    message.measured.decoded = *decoded;
    message.measured.mount = mount;
    tell(child->socket_fd, &message, NULL);
    if (!packet_receive(child->socket_fd, &range, sizeof range, &heap_fd, 1) || heap_fd < 0)
        _exit(EXIT_FAILURE); /* nobody wants it any more */
    memory = sandbox_map(&child->sandbox, heap_fd, range.offset, range.bytes);
    close(heap_fd);
    if (memory == NULL)
        ec_fail(why, EC_ERR_SYSTEM, "the range in the heap cannot be mapped");
    return memory;
}
