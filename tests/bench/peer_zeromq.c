/* peer_zeromq.c - ZeroMQ over ipc://, as a contender: peer_zeromq DIRECTORY round_trip | throughput [READERS].
 *
 * Round trips go through a PAIR, 1 to 1 through PUSH and PULL, 1 to many through XPUB (which drops
 * nothing here) and SUB. Payloads are copied in and out, since the library has no memory of its own
 * that both sides share. */
#include <errno.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include "bench/contender_shape.h"
#include "bench/harness.h"

#define BYTES 64
#define READERS_MAX 8

static char endpoint[128];

static void *open_socket(int type, bool bind)
{
    int no_limit = 100000, no_drop = 1;
    void *socket = zmq_socket(zmq_ctx_new(), type);

    if (socket == NULL)
        bench_fail("zmq_socket: %s", zmq_strerror(zmq_errno()));
    zmq_setsockopt(socket, ZMQ_SNDHWM, &no_limit, sizeof no_limit);
    zmq_setsockopt(socket, ZMQ_RCVHWM, &no_limit, sizeof no_limit);
    if (type == ZMQ_XPUB) {
        zmq_setsockopt(socket, ZMQ_XPUB_NODROP, &no_drop, sizeof no_drop);
        zmq_setsockopt(socket, ZMQ_XPUB_VERBOSE, &no_drop, sizeof no_drop);
    }
    if (type == ZMQ_SUB)
        zmq_setsockopt(socket, ZMQ_SUBSCRIBE, "", 0);
    if ((bind ? zmq_bind(socket, endpoint) : zmq_connect(socket, endpoint)) != 0)
        bench_fail("%s: %s", endpoint, zmq_strerror(zmq_errno()));
    return socket;
}

static void send_value(void *socket, uint64_t value)
{
    alignas(64) unsigned char payload[BYTES];

    bench_fill(payload, value, BYTES);
    while (zmq_send(socket, payload, BYTES, 0) != BYTES)
        if (zmq_errno() != EAGAIN && zmq_errno() != EINTR)
            bench_fail("zmq_send: %s", zmq_strerror(zmq_errno()));
}

static uint64_t receive_value(void *socket)
{
    alignas(64) unsigned char payload[BYTES];

    while (zmq_recv(socket, payload, BYTES, 0) != BYTES)
        if (zmq_errno() != EINTR)
            bench_fail("zmq_recv: %s", zmq_strerror(zmq_errno()));
    return bench_read(payload, BYTES);
}

/* ---- round trip ------------------------------------------------------------------------------ */

static void echo(struct bench_partner *parent, const void *context)
{
    uint64_t count;
    void *socket;

    (void)context;
    bench_pin(1);
    bench_partner_wait(parent, &count); /* the endpoint is bound */
    socket = open_socket(ZMQ_PAIR, false);
    bench_partner_send(parent, 0);
    while (bench_partner_wait(parent, &count)) {
        for (uint64_t i = 0; i < count; i++)
            send_value(socket, receive_value(socket));
        bench_partner_send(parent, 0);
    }
}

static void round_trip(void)
{
    struct bench_partner partner;
    uint64_t value = 0, answer;
    void *socket;

    bench_partner_start(&partner, echo, NULL); /* before the library has threads */
    bench_pin(0);
    socket = open_socket(ZMQ_PAIR, true);
    bench_partner_send(&partner, 0);
    if (!bench_partner_wait(&partner, &answer))
        bench_fail("the other process ended");
    bench_ready();
    while (bench_next()) {
        double ns[SHAPE_BLOCKS_SLEEPING];

        bench_partner_send(&partner, (SHAPE_BLOCKS_SLEEPING + 1) * SHAPE_BLOCK);
        for (unsigned i = 0; i <= SHAPE_BLOCKS_SLEEPING; i++) {
            int64_t begin = bench_ns();

            for (unsigned j = 0; j < SHAPE_BLOCK; j++) {
                send_value(socket, ++value);
                if (receive_value(socket) != value)
                    bench_fail("the echo differs");
            }
            if (i > 0)
                ns[i - 1] = (double)(bench_ns() - begin) / SHAPE_BLOCK;
        }
        if (!bench_partner_wait(&partner, &answer))
            bench_fail("the other process ended");
        bench_answer(bench_median(ns, SHAPE_BLOCKS_SLEEPING), 0);
    }
    bench_partner_end(&partner);
}

/* ---- throughput ------------------------------------------------------------------------------ */

static void drain(struct bench_partner *parent, const void *context)
{
    unsigned readers = *(const unsigned *)context;
    uint64_t count, expected = 0;
    void *socket;

    bench_pin(readers > 1 ? BENCH_ANY_PROCESSOR : 1);
    bench_partner_wait(parent, &count);
    socket = open_socket(readers > 1 ? ZMQ_SUB : ZMQ_PULL, false);
    while (bench_partner_wait(parent, &count)) {
        int64_t begin = 0;

        for (uint64_t i = 0; i < count; i++, expected++) {
            if (receive_value(socket) != expected)
                bench_fail("a payload was lost");
            if (i == 0)
                begin = bench_ns();
        }
        bench_partner_send(parent, (uint64_t)(bench_ns() - begin));
    }
}

static void throughput(unsigned readers)
{
    struct bench_partner partner[READERS_MAX];
    uint64_t value = 0;
    void *socket;

    for (unsigned i = 0; i < readers; i++)
        bench_partner_start(&partner[i], drain, &readers);
    bench_pin(readers > 1 ? BENCH_ANY_PROCESSOR : 0);
    socket = open_socket(readers > 1 ? ZMQ_XPUB : ZMQ_PUSH, true);
    for (unsigned i = 0; i < readers; i++)
        bench_partner_send(&partner[i], 0);
    for (unsigned i = 0; i < readers && readers > 1; i++) {
        char subscription[8];

        zmq_recv(socket, subscription, sizeof subscription, 0);
    }
    bench_ready();
    while (bench_next()) {
        uint64_t longest_ns = 0;

        for (unsigned i = 0; i < readers; i++)
            bench_partner_send(&partner[i], SHAPE_THROUGHPUT);
        for (unsigned i = 0; i < SHAPE_THROUGHPUT; i++)
            send_value(socket, value++);
        for (unsigned i = 0; i < readers; i++) {
            uint64_t took = 0;

            if (!bench_partner_wait(&partner[i], &took))
                bench_fail("a reader ended");
            longest_ns = took > longest_ns ? took : longest_ns;
        }
        bench_answer((double)SHAPE_THROUGHPUT * readers * 1000 / (double)longest_ns, 0);
    }
    for (unsigned i = 0; i < readers; i++)
        bench_partner_end(&partner[i]);
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: %s DIRECTORY round_trip | throughput [READERS]\n", argv[0]);
        return 2;
    }
    snprintf(endpoint, sizeof endpoint, "ipc://%s/zeromq-%d", argv[1], (int)getpid());
    if (strcmp(argv[2], "round_trip") == 0)
        round_trip();
    else
        throughput(argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 1);
    unlink(endpoint + strlen("ipc://"));
    _exit(EXIT_SUCCESS); /* what the library still has to send is nobody's now */
}
