/* decode_child.c - decode one resource with as few rights as that takes.
 *
 * The descriptor of the heap comes only after the file was measured, so while the name is looked up and
 * the header is read there is nothing to write into. */
#include "resources/decode_child.h"

#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "resources/decode_messages.h"
#include "resources/packet.h"

static int read_entry(void *stream, void *to, uint64_t bytes, struct ec_error *why);
static bool entry_at_end(void *stream);
static void fail(int socket_fd, const struct ec_error *why) __attribute__((noreturn));
static void tell(int socket_fd, const struct decode_child_message *message, const int *fd);
static unsigned char *ask_for_range(int socket_fd, const struct decoded *decoded, uint32_t mount,
                                    struct ec_error *why);

void decode_child_run(struct search_path *search, const struct decode_load *load, int socket_fd)
{
    struct search_entry entry = { 0 };
    struct decode_source source = { .read = read_entry, .at_end = entry_at_end, .stream = &entry };
    struct decode_request request = { .kind = load->kind,
                                      .options = load->options,
                                      .limits = load->limits };
    struct decode_child_message guarded = { .kind = DECODE_GUARDED, .guard = SANDBOX_PROCESS };
    const struct decode_child_message done = { .kind = DECODE_DONE };
    const struct decoder *decoder;
    struct ec_error why = { 0 };
    struct decoded decoded;
    unsigned char *to;
    int listener = -1;

    if (search_path_own_files(search, &why) < 0)
        fail(socket_fd, &why);
    sandbox_limit(load->memory_bytes, load->seconds);
    if (load->guarded)
        guarded.guard = sandbox_enter(socket_fd, &listener);
    tell(socket_fd, &guarded, listener >= 0 ? &listener : NULL);
    if (listener >= 0)
        close(listener);
    if (search_entry_open(search, &entry, load->path, &why) < 0)
        fail(socket_fd, &why);
    source.length = entry.bytes;
    if (load->guarded)
        sandbox_close();
    if (decoder_choose(&request, &source, &decoder, &why) < 0 ||
        decoder_measure(decoder, &request, &source, &decoded, &why) < 0)
        fail(socket_fd, &why);
    /* The heap's descriptor stays open: behind the filter it is good for nothing else, and without a
     * filter there is nothing to keep. */
    to = ask_for_range(socket_fd, &decoded, entry.mount, &why);
    if (to == NULL || decoder_decode(decoder, &source, &decoded, to, &why) < 0)
        fail(socket_fd, &why);
    if (load->drop_cache)
        search_entry_forget(&entry);
    tell(socket_fd, &done, NULL);
    _exit(EXIT_SUCCESS); /* all that it has goes with it */
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

static void fail(int socket_fd, const struct ec_error *why)
{
    const struct decode_child_message message = { .kind = DECODE_FAILED, .why = *why };

    assert(why->code < 0);
    tell(socket_fd, &message, NULL);
    _exit(EXIT_SUCCESS);
}

static unsigned char *ask_for_range(int socket_fd, const struct decoded *decoded, uint32_t mount,
                                    struct ec_error *why)
{
    struct decode_child_message message = { .kind = DECODE_MEASURED };
    struct decode_range range;
    void *memory;
    int heap_fd;

    message.measured.decoded = *decoded;
    message.measured.mount = mount;
    tell(socket_fd, &message, NULL);
    if (!packet_receive(socket_fd, &range, sizeof range, &heap_fd, 1) || heap_fd < 0)
        _exit(EXIT_FAILURE); /* nobody wants it any more */
    memory = sandbox_map(heap_fd, range.offset, range.bytes);
    if (memory == NULL)
        ec_fail(why, EC_ERR_SYSTEM, "the range in the heap cannot be mapped");
    return memory;
}
