/* returns.c - see returns.h. */
#include "support/returns.h"

#include <check.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "support/daemon.h"

#define DESCRIPTORS_MAX 1024

static void note_return(void *context, enum ec_client_state state)
{
    const struct returns *returns = context;

    if (state == EC_CONNECTED)
        ck_assert_int_eq(write(returns->to, "!", 1), 1);
}

struct ec_client *returns_connect(struct returns *returns, const char *name,
                                  const char *socket_path)
{
    struct ec_client_desc desc = { .name = name,
                                   .socket_path = socket_path,
                                   .timeout_ms = DAEMON_WAIT_MS,
                                   .on_state = note_return,
                                   .context = returns };
    struct ec_error why = { 0 };
    struct ec_client *client;
    int ends[2];

    ck_assert_int_eq(pipe(ends), 0);
    returns->from = ends[0];
    returns->to = ends[1];
    ck_assert_msg(ec_client_create(&desc, &client, &why) == EC_OK, "%s", why.text);
    return client;
}

void returns_await(const struct returns *returns)
{
    struct pollfd polled = { .fd = returns->from, .events = POLLIN };
    char byte;

    ck_assert_int_eq(poll(&polled, 1, DAEMON_WAIT_MS), 1);
    ck_assert_int_eq(read(returns->from, &byte, 1), 1);
}

void returns_disconnect(const struct returns *returns, struct ec_client *client)
{
    ec_client_destroy(client);
    close(returns->from);
    close(returns->to);
}

unsigned returns_break(const char *socket_path)
{
    unsigned broken = 0;

    for (int fd = 3; fd < DESCRIPTORS_MAX; fd++) {
        struct sockaddr_un peer = { 0 };
        socklen_t bytes = sizeof peer - 1;

        if (getpeername(fd, (struct sockaddr *)&peer, &bytes) < 0 || peer.sun_family != AF_UNIX ||
            strcmp(peer.sun_path, socket_path) != 0)
            continue;
        shutdown(fd, SHUT_RDWR);
        broken++;
    }
    return broken;
}
