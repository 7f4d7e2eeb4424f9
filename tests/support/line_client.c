/* The raw JSON line client of support/daemon.h. */
#include "foundation/json/json_scan.h"
#include "support/daemon.h"
#include "support/reply.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define READ_BYTES 65536

static ssize_t receive_some(struct line_client *client);
static void give_up(const char *what, const char *line) __attribute__((noreturn));
static void check_json(const char *line, size_t bytes);

bool line_client_connect(struct line_client *client, const char *socket_path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };

    *client = (struct line_client) { .fd = -1 };
    if (strlen(socket_path) >= sizeof address.sun_path)
        return false;
    memcpy(address.sun_path, socket_path, strlen(socket_path) + 1);
    client->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (client->fd < 0)
        return false;
    if (connect(client->fd, (const struct sockaddr *)&address, sizeof address) == 0)
        return true;
    line_client_close(client);
    return false;
}

void line_client_close(struct line_client *client)
{
    if (client->fd >= 0)
        close(client->fd);
    free(client->buffer);
    *client = (struct line_client) { .fd = -1 };
}

bool line_client_send_bytes(struct line_client *client, const void *data, size_t bytes)
{
    const char *at = data;

    while (bytes > 0) {
        ssize_t sent = send(client->fd, at, bytes, MSG_NOSIGNAL);

        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return false;
        at += sent;
        bytes -= (size_t)sent;
    }
    return true;
}

bool line_client_send(struct line_client *client, const char *line)
{
    return line_client_send_fds(client, line, NULL, 0);
}

bool line_client_send_fds(struct line_client *client, const char *line, const int *fds,
                          unsigned fd_count)
{
    char control[CMSG_SPACE(sizeof(int) * 253)];
    struct iovec parts[] = { { .iov_base = (char *)(uintptr_t)line, .iov_len = strlen(line) },
                             { .iov_base = (char[]) { '\n' }, .iov_len = 1 } };
    struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };
    const size_t bytes = parts[0].iov_len + 1;
    ssize_t sent;

    if (fd_count > 0) {
        struct cmsghdr *rights;

        memset(control, 0, sizeof control);
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE(sizeof(int) * fd_count);
        rights = CMSG_FIRSTHDR(&message);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(sizeof(int) * fd_count);
        memcpy(CMSG_DATA(rights), fds, sizeof(int) * fd_count);
    }
    do
        sent = sendmsg(client->fd, &message, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (sent < 0)
        return false;
    if ((size_t)sent == bytes)
        return true;
    if ((size_t)sent < bytes - 1 &&
        !line_client_send_bytes(client, line + sent, bytes - 1 - (size_t)sent))
        return false;
    return line_client_send_bytes(client, "\n", 1);
}

const char *line_client_receive(struct line_client *client)
{
    for (;;) {
        const size_t left = client->bytes - client->taken;
        char *start = left > 0 ? client->buffer + client->taken : NULL;
        char *end = left > 0 ? memchr(start, '\n', left) : NULL;
        ssize_t received;

        if (end != NULL) {
            *end = '\0';
            client->taken += (size_t)(end - start) + 1;
            check_json(start, (size_t)(end - start));
            return start;
        }
        received = receive_some(client);
        if (received == 0 && client->bytes > client->taken)
            give_up("the daemon hung up in the middle of a line", client->buffer + client->taken);
        if (received == 0)
            return NULL;
    }
}

const char *line_client_call(struct line_client *client, const char *method, const char *params)
{
    const size_t bytes = strlen(method) + (params != NULL ? strlen(params) : 0) + 128;
    char *line = malloc(bytes);
    const char *reply;
    char id[32];

    if (line == NULL)
        give_up("out of memory", method);
    client->next_id++;
    snprintf(id, sizeof id, "\"id\":%u,", client->next_id);
    snprintf(line, bytes, "{\"jsonrpc\":\"2.0\",%s\"method\":\"%s\"%s%s}", id, method,
             params != NULL ? ",\"params\":" : "", params != NULL ? params : "");
    if (!line_client_send(client, line))
        give_up("the daemon hung up before the request", line);
    do {
        reply = line_client_receive(client);
        if (reply == NULL)
            give_up("the daemon hung up instead of an answer to", line);
    } while (strstr(reply, id) == NULL);
    free(line);
    return reply;
}

const char *line_client_must(struct line_client *client, const char *method, const char *params)
{
    const char *reply = line_client_call(client, method, params);

    if (reply_at(reply, "result").text == NULL) {
        fprintf(stderr, "%s %s\n", method, params != NULL ? params : "");
        give_up("is answered with", reply);
    }
    return reply;
}

const char *daemon_ask(const struct daemon_process *daemon, const char *method, const char *params)
{
    static char *kept;
    struct line_client client;

    if (!line_client_connect(&client, daemon->socket_path))
        give_up("connect", daemon->socket_path);
    free(kept);
    kept = strdup(line_client_must(&client, method, params));
    if (kept == NULL)
        give_up("out of memory", method);
    line_client_close(&client);
    return kept;
}

const char *line_client_hello(struct line_client *client, const char *name)
{
    char params[128];

    snprintf(params, sizeof params, "{\"name\":\"%s\",\"protocol\":1}", name);
    return line_client_call(client, "core.hello", params);
}

void line_client_wait_hang_up(struct line_client *client)
{
    do
        client->bytes = client->taken = 0;
    while (receive_some(client) > 0);
}

bool line_has(const char *line, const char *name, const char *value)
{
    char pattern[1024];

    snprintf(pattern, sizeof pattern, "\"%s\":%s", name, value);
    for (const char *at = strstr(line, pattern); at != NULL; at = strstr(at + 1, pattern)) {
        const char after = at[strlen(pattern)];

        /* Strings and containers end by themselves; a number must not go on. */
        if (after == ',' || after == '}' || after == ']' || after == '\0')
            return true;
    }
    return false;
}

/* Receive into the buffer. Returns the bytes, 0 when the daemon hung up. */
static ssize_t receive_some(struct line_client *client)
{
    struct pollfd polled = { .fd = client->fd, .events = POLLIN };
    char control[CMSG_SPACE(sizeof(int) * 253)];
    struct iovec part;
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
    ssize_t received;

    if (client->taken > 0) {
        memmove(client->buffer, client->buffer + client->taken, client->bytes - client->taken);
        client->bytes -= client->taken;
        client->taken = 0;
    }
    if (client->capacity - client->bytes < READ_BYTES) {
        client->capacity = client->capacity * 2 + READ_BYTES;
        client->buffer = realloc(client->buffer, client->capacity);
        if (client->buffer == NULL)
            give_up("out of memory", "");
    }
    part = (struct iovec) { client->buffer + client->bytes, client->capacity - client->bytes };
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    if (poll(&polled, 1, DAEMON_WAIT_MS) != 1)
        give_up("nothing came from the daemon", "");
    received = recvmsg(client->fd, &message, MSG_CMSG_CLOEXEC);
    if (received < 0 && errno == ECONNRESET)
        return 0;
    if (received < 0)
        give_up("recvmsg", strerror(errno));
    for (struct cmsghdr *part_of = CMSG_FIRSTHDR(&message); part_of != NULL;
         part_of = CMSG_NXTHDR(&message, part_of)) {
        const size_t count = (part_of->cmsg_len - CMSG_LEN(0)) / sizeof(int);

        for (size_t i = 0; i < count; i++) {
            int fd;

            memcpy(&fd, CMSG_DATA(part_of) + i * sizeof fd, sizeof fd);
            if (client->fd_count < sizeof client->fds / sizeof client->fds[0])
                client->fds[client->fd_count++] = fd;
            else
                close(fd);
        }
    }
    client->bytes += (size_t)received;
    return received;
}

static void check_json(const char *line, size_t bytes)
{
    struct ec_json_fault fault;

    if (ec_json_check(line, bytes, NULL, &fault) == EC_OK)
        return;
    fprintf(stderr, "byte %zu: %s\n", fault.offset, fault.reason);
    give_up("the daemon sent what is not strict JSON", line);
}

static void give_up(const char *what, const char *line)
{
    fprintf(stderr, "%s: %.2000s\n", what, line);
    abort();
}
