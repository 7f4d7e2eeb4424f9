/* load.c - see load.h. A connection's replies are counted as they come and never kept. */
#include "bench/load.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "bench/harness.h"

#define RECEIVE_BYTES 65536
#define EVENTS_MAX 64
#define CONNECT_TRIES 5000 /* of 1 ms */

const struct load_protocol load_json = { "{\"jsonrpc\":\"2.0\",\"id\":1234567,\"result\":", 1 };
const struct load_protocol load_redis = { "$", 2 };

struct load_connection {
    int fd;
    unsigned lines;     /* LF that are still to come for what was sent */
    size_t reply_bytes; /* of the reply that is coming in */
    size_t checked;     /* of good */
};

struct load {
    struct load_desc desc;
    char *batch; /* pipeline times the request */
    size_t request_bytes;
    int epoll_fd;
    uint64_t to_send, to_come;
    size_t last_reply_bytes;
    struct load_connection connections[];
};

static int connect_to(const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };

    if (strlen(path) >= sizeof address.sun_path)
        bench_fail("%s is too long for a socket", path);
    strcpy(address.sun_path, path);
    for (int tries = 0; tries < CONNECT_TRIES; tries++) {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
            return fd;
        close(fd);
        usleep(1000);
    }
    bench_fail("connect to %s: %s", path, strerror(errno));
}

struct load *load_open(const struct load_desc *desc)
{
    struct load *load = calloc(1, sizeof *load + desc->connections * sizeof *load->connections);

    if (load == NULL)
        bench_fail("no memory");
    load->desc = *desc;
    load->request_bytes = strlen(desc->request);
    load->batch = malloc(load->request_bytes * desc->pipeline);
    load->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (load->batch == NULL || load->epoll_fd < 0)
        bench_fail("epoll: %s", strerror(errno));
    for (unsigned i = 0; i < desc->pipeline; i++)
        memcpy(load->batch + i * load->request_bytes, desc->request, load->request_bytes);
    for (unsigned i = 0; i < desc->connections; i++) {
        struct epoll_event event = { .events = EPOLLIN, .data.ptr = &load->connections[i] };

        load->connections[i].fd = connect_to(desc->socket_path);
        if (epoll_ctl(load->epoll_fd, EPOLL_CTL_ADD, load->connections[i].fd, &event) < 0)
            bench_fail("epoll_ctl: %s", strerror(errno));
    }
    return load;
}

void load_close(struct load *load)
{
    for (unsigned i = 0; i < load->desc.connections; i++)
        close(load->connections[i].fd);
    close(load->epoll_fd);
    free(load->batch);
    free(load);
}

static void send_batch(struct load *load, struct load_connection *connection)
{
    unsigned count = load->desc.pipeline;

    if (load->to_send < count)
        count = (unsigned)load->to_send;
    if (count == 0)
        return;
    load->to_send -= count;
    connection->lines = count * load->desc.protocol->lines_per_reply;
    if (send(connection->fd, load->batch, count * load->request_bytes, MSG_NOSIGNAL) !=
        (ssize_t)(count * load->request_bytes))
        bench_fail("send: %s", strerror(errno));
}

static void take_line(struct load *load, struct load_connection *connection)
{
    connection->lines--;
    if (connection->lines % load->desc.protocol->lines_per_reply != 0)
        return;
    load->to_come--;
    load->last_reply_bytes = connection->reply_bytes;
    connection->reply_bytes = 0;
    connection->checked = 0;
}

/* The first bytes of a reply, of which some may have come before. */
static void check_begin(const struct load *load, struct load_connection *connection,
                        const char *bytes, size_t count)
{
    const char *good = load->desc.protocol->good + connection->checked;
    size_t left = strlen(good);

    if (count > left)
        count = left;
    if (memcmp(bytes, good, count) != 0)
        bench_fail("a reply begins with %.*s", (int)count, bytes);
    connection->checked += count;
}

static void receive(struct load *load, struct load_connection *connection)
{
    static char buffer[RECEIVE_BYTES];
    ssize_t got = recv(connection->fd, buffer, sizeof buffer, 0);
    const char *at = buffer, *end = buffer + got;

    if (got <= 0)
        bench_fail("the server hung up");
    while (at < end) {
        const char *lf = memchr(at, '\n', (size_t)(end - at));
        const char *next = lf != NULL ? lf + 1 : end;

        check_begin(load, connection, at, (size_t)(next - at));
        connection->reply_bytes += (size_t)(next - at);
        if (lf != NULL)
            take_line(load, connection);
        at = next;
    }
    if (connection->lines == 0)
        send_batch(load, connection);
}

double load_run(struct load *load, uint64_t requests)
{
    struct epoll_event events[EVENTS_MAX];
    int64_t begin = bench_ns();

    load->to_send = load->to_come = requests;
    for (unsigned i = 0; i < load->desc.connections; i++)
        send_batch(load, &load->connections[i]);
    while (load->to_come != 0) {
        int count = epoll_wait(load->epoll_fd, events, EVENTS_MAX, -1);

        for (int i = 0; i < count; i++)
            receive(load, events[i].data.ptr);
    }
    return (double)requests * 1e9 / (double)(bench_ns() - begin);
}

size_t load_reply_bytes(const struct load *load)
{
    return load->last_reply_bytes;
}
