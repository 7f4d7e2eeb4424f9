/* http.c - connections of scrapers: read a head, answer, close. */
#include "http/http.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "daemon/config.h"
#include "daemon/counters.h"
#include "daemon/log.h"
#include "daemon/services.h"
#include "http/exposition.h"
#include "http/http_request.h"

#define PEERS_MAX 8
#define DEADLINE_MS 5000 /* for the whole of a connection */
#define RETRY_MS 100     /* without a descriptor for who connects */

struct peer {
    TAILQ_ENTRY(peer) link;
    struct http *http;
    int fd;
    uv_poll_t poll;
    uv_timer_t deadline;
    unsigned open_handles;
    char head[HTTP_REQUEST_BYTES];
    size_t head_bytes;
    char *answer; /* NULL: the head is not complete */
    size_t answer_bytes, sent;
    bool is_shut; /* all is sent; what still comes is thrown away until it hangs up */
};

struct http {
    struct services *services;
    int fd;
    uv_poll_t poll;
    uv_timer_t retry;
    bool is_polling;
    TAILQ_HEAD(peers, peer) peers;
    unsigned peer_count;
    unsigned open_handles; /* of all that libuv has not closed yet */
};

static void on_accept(uv_poll_t *poll, int status, int events);
static void on_retry(uv_timer_t *timer);
static void add_peer(struct http *http, int fd);
static void on_peer(uv_poll_t *poll, int status, int events);
static void on_deadline(uv_timer_t *timer);
static void receive(struct peer *peer);
static void answer(struct peer *peer, struct http_request request);
static void send_answer(struct peer *peer);
static void end(struct peer *peer);
static void on_peer_closed(uv_handle_t *handle);
static void on_closed(uv_handle_t *handle);

int http_check_listener(int fd, struct ec_error *why)
{
    struct sockaddr_storage address;
    const struct sockaddr_in *four = (const void *)&address;
    const struct sockaddr_in6 *six = (const void *)&address;
    socklen_t bytes = sizeof address;
    bool is_loopback = false;

    if (getsockname(fd, (struct sockaddr *)&address, &bytes) < 0)
        return ec_fail(why, EC_ERR_PARAM, "the socket of the metrics: %s", strerror(errno));
    if (address.ss_family == AF_INET)
        is_loopback = ntohl(four->sin_addr.s_addr) >> 24 == 127;
    else if (address.ss_family == AF_INET6)
        is_loopback = IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
    return is_loopback ? EC_OK
                       : ec_fail(why, EC_ERR_PARAM,
                                 "the socket of the metrics is not bound to the loopback");
}

int http_init(struct services *services, struct ec_error *why)
{
    struct http *http;

    if (services->metrics_fd < 0)
        return EC_OK;
    http = calloc(1, sizeof *http);
    if (http == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory for metrics over HTTP");
    if (fcntl(services->metrics_fd, F_SETFD, FD_CLOEXEC) < 0 ||
        fcntl(services->metrics_fd, F_SETFL, O_NONBLOCK) < 0) {
        free(http);
        return ec_fail(why, EC_ERR_SYSTEM, "passed socket: %s", strerror(errno));
    }
    http->services = services;
    http->fd = services->metrics_fd;
    TAILQ_INIT(&http->peers);
    services->http = http;
    return EC_OK;
}

int http_post_init(struct services *services, struct ec_error *why)
{
    struct http *http = services->http;
    int rc;

    if (http == NULL)
        return EC_OK;
    rc = uv_poll_init(services->loop, &http->poll, http->fd);
    if (rc < 0)
        return ec_fail(why, EC_ERR_SYSTEM, "poll the socket of the metrics: %s", uv_strerror(rc));
    uv_timer_init(services->loop, &http->retry);
    http->poll.data = http->retry.data = http;
    http->is_polling = true;
    http->open_handles = 2;
    uv_poll_start(&http->poll, UV_READABLE, on_accept);
    log_info("http", "metrics are served at /metrics");
    return EC_OK;
}

void http_shutdown(struct services *services)
{
    struct http *http = services->http;

    if (http == NULL)
        return;
    while (!TAILQ_EMPTY(&http->peers))
        end(TAILQ_FIRST(&http->peers));
    if (http->is_polling) {
        uv_close((uv_handle_t *)&http->poll, on_closed);
        uv_close((uv_handle_t *)&http->retry, on_closed);
    }
    while (http->open_handles > 0)
        uv_run(services->loop, UV_RUN_NOWAIT);
    close(http->fd);
    services->http = NULL;
    free(http);
}

static void on_accept(uv_poll_t *poll, int status, int events)
{
    struct http *http = poll->data;
    const int fd = accept4(http->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    (void)status;
    (void)events;
    if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
        /* Who waits stays in the backlog, which would wake the loop for ever. */
        uv_poll_stop(&http->poll);
        uv_timer_start(&http->retry, on_retry, RETRY_MS, 0);
    }
    if (fd < 0)
        return;
    if (http->peer_count >= PEERS_MAX) { /* a scraper comes again */
        counters_add(http->services->counters, EC_COUNTER_http_requests, 1);
        counters_add(http->services->counters, EC_COUNTER_http_refused, 1);
        close(fd);
        return;
    }
    add_peer(http, fd);
}

static void on_retry(uv_timer_t *timer)
{
    struct http *http = timer->data;

    uv_poll_start(&http->poll, UV_READABLE, on_accept);
}

static void add_peer(struct http *http, int fd)
{
    struct peer *peer = calloc(1, sizeof *peer);

    if (peer == NULL || uv_poll_init(http->services->loop, &peer->poll, fd) < 0) {
        free(peer);
        close(fd);
        return;
    }
    uv_timer_init(http->services->loop, &peer->deadline);
    peer->http = http;
    peer->fd = fd;
    peer->poll.data = peer->deadline.data = peer;
    peer->open_handles = 2;
    http->open_handles += 2;
    http->peer_count++;
    TAILQ_INSERT_TAIL(&http->peers, peer, link);
    uv_poll_start(&peer->poll, UV_READABLE, on_peer);
    uv_timer_start(&peer->deadline, on_deadline, DEADLINE_MS, 0);
}

static void on_peer(uv_poll_t *poll, int status, int events)
{
    struct peer *peer = poll->data;

    if (status < 0)
        end(peer);
    else if (events & UV_READABLE)
        receive(peer);
    else
        send_answer(peer);
}

static void on_deadline(uv_timer_t *timer)
{
    end(timer->data);
}

static void receive(struct peer *peer)
{
    char rest[1024];
    ssize_t received;
    size_t bytes;

    if (peer->answer != NULL) {
        received = recv(peer->fd, rest, sizeof rest, MSG_DONTWAIT);
        if (received == 0 || (received < 0 && errno != EAGAIN && errno != EINTR))
            end(peer);
        return;
    }
    received = recv(peer->fd, peer->head + peer->head_bytes, sizeof peer->head - peer->head_bytes,
                    MSG_DONTWAIT);
    if (received < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (received <= 0) {
        end(peer);
        return;
    }
    peer->head_bytes += (size_t)received;
    bytes = http_head_bytes(peer->head, peer->head_bytes);
    if (bytes > 0)
        answer(peer, http_parse(peer->head, bytes,
                                config_string(peer->http->services->config, EC_CONFIG_http_hosts)));
    else if (peer->head_bytes == sizeof peer->head)
        answer(peer, (struct http_request) { .status = 431 });
}

static void answer(struct peer *peer, struct http_request request)
{
    char *body = NULL;
    size_t body_bytes = 0;
    FILE *out = open_memstream(&body, &body_bytes), *whole;

    if (out == NULL) {
        end(peer);
        return;
    }
    if (request.status == 200)
        exposition_write(peer->http->services, out);
    else
        fprintf(out, "%d %s\n", request.status, http_reason(request.status));
    whole = fclose(out) == 0 ? open_memstream(&peer->answer, &peer->answer_bytes) : NULL;
    if (whole == NULL) {
        free(body);
        end(peer);
        return;
    }
    fprintf(whole,
            "HTTP/1.1 %d %s\r\n"
            "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
            "Content-Length: %zu\r\n"
            "%s"
            "Cache-Control: no-store\r\n"
            "Content-Security-Policy: default-src 'none'\r\n"
            "X-Content-Type-Options: nosniff\r\n"
            "Connection: close\r\n\r\n",
            request.status, http_reason(request.status), body_bytes,
            request.status == 405 ? "Allow: GET, HEAD\r\n" : "");
    if (!request.is_head)
        fwrite(body, 1, body_bytes, whole);
    free(body);
    if (fclose(whole) != 0) {
        end(peer);
        return;
    }
    counters_add(peer->http->services->counters, EC_COUNTER_http_requests, 1);
    if (request.status != 200) {
        counters_add(peer->http->services->counters, EC_COUNTER_http_refused, 1);
        log_debug("http", "a request was answered with %d %s", request.status,
                  http_reason(request.status));
    }
    send_answer(peer);
}

static void send_answer(struct peer *peer)
{
    while (peer->sent < peer->answer_bytes) {
        const ssize_t sent = send(peer->fd, peer->answer + peer->sent,
                                  peer->answer_bytes - peer->sent, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && errno == EAGAIN) { /* who has hung up one way still gets the rest */
            uv_poll_start(&peer->poll, UV_WRITABLE, on_peer);
            return;
        }
        if (sent < 0) {
            end(peer);
            return;
        }
        peer->sent += (size_t)sent;
    }
    /* Closing with unread bytes would reset the connection under the answer. */
    if (!peer->is_shut)
        shutdown(peer->fd, SHUT_WR);
    peer->is_shut = true;
    uv_poll_start(&peer->poll, UV_READABLE, on_peer);
}

static void end(struct peer *peer)
{
    if (uv_is_closing((uv_handle_t *)&peer->poll))
        return;
    TAILQ_REMOVE(&peer->http->peers, peer, link);
    peer->http->peer_count--;
    uv_close((uv_handle_t *)&peer->poll, on_peer_closed);
    uv_close((uv_handle_t *)&peer->deadline, on_peer_closed);
    close(peer->fd);
}

static void on_peer_closed(uv_handle_t *handle)
{
    struct peer *peer = handle->data;

    peer->http->open_handles--;
    if (--peer->open_handles > 0)
        return;
    free(peer->answer);
    free(peer);
}

static void on_closed(uv_handle_t *handle)
{
    struct http *http = handle->data;

    http->open_handles--;
}
