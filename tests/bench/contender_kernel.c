/* contender_kernel.c - pipes, cache lines, eventfds and sockets; see contender_kernel.h. */
#include "bench/contender_kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench/contender_shape.h"
#include "bench/harness.h"

#define BYTES_MAX 1024
#define READERS_MAX 8
#define PIPE_BYTES (1 << 20) /* as much as a port's ring has by default */

/* ---- pipes ----------------------------------------------------------------------------------- */

struct pipe_reader {
    const struct kernel_bench *bench;
    int fd;
};

static uint64_t pipe_read(int fd, size_t bytes)
{
    alignas(64) unsigned char payload[BYTES_MAX];
    size_t have = 0;

    while (have < bytes) {
        ssize_t got = read(fd, payload + have, bytes - have);

        if (got <= 0)
            bench_fail("read from the pipe: %s", strerror(errno));
        have += (size_t)got;
    }
    return bench_read(payload, bytes);
}

static void pipe_write(int fd, uint64_t value, size_t bytes)
{
    alignas(64) unsigned char payload[BYTES_MAX];

    bench_fill(payload, value, bytes);
    if (write(fd, payload, bytes) != (ssize_t)bytes) /* at most PIPE_BUF: all or nothing */
        bench_fail("write to the pipe: %s", strerror(errno));
}

static void pipe_drain(struct bench_partner *parent, const void *context)
{
    const struct pipe_reader *reader = context;
    uint64_t count, expected = 0;

    bench_pin(reader->bench->readers > 1 ? BENCH_ANY_PROCESSOR : 1);
    while (bench_partner_wait(parent, &count)) {
        long switches = bench_switches();
        int64_t begin = 0;

        for (uint64_t i = 0; i < count; i++, expected++) {
            if (pipe_read(reader->fd, reader->bench->bytes) != expected)
                bench_fail("the pipe lost a payload");
            if (i == 0)
                begin = bench_ns();
        }
        bench_partner_send(parent, (uint64_t)(bench_ns() - begin));
        bench_partner_send(parent, (uint64_t)(bench_switches() - switches));
    }
}

struct pipes {
    struct bench_partner partner[READERS_MAX];
    int fd[READERS_MAX];
    unsigned count;
};

static void pipes_start(struct pipes *pipes, const struct kernel_bench *bench)
{
    pipes->count = bench->readers;
    for (unsigned i = 0; i < pipes->count; i++) {
        int ends[2];

        if (pipe(ends) < 0)
            bench_fail("pipe: %s", strerror(errno));
        fcntl(ends[1], F_SETPIPE_SZ, PIPE_BYTES); /* refused: the default size must do */
        bench_partner_start(&pipes->partner[i], pipe_drain,
                            &(struct pipe_reader) { .bench = bench, .fd = ends[0] });
        close(ends[0]);
        pipes->fd[i] = ends[1];
    }
}

static void pipes_begin(const struct pipes *pipes, uint64_t count)
{
    for (unsigned i = 0; i < pipes->count; i++)
        bench_partner_send(&pipes->partner[i], count);
}

static uint64_t pipes_wait(const struct pipes *pipes, long *switches)
{
    uint64_t longest = 0;

    for (unsigned i = 0; i < pipes->count; i++) {
        uint64_t took = 0, lost = 0;

        if (!bench_partner_wait(&pipes->partner[i], &took) ||
            !bench_partner_wait(&pipes->partner[i], &lost))
            bench_fail("a reader ended");
        longest = took > longest ? took : longest;
        *switches += (long)lost;
    }
    return longest;
}

static void pipes_end(struct pipes *pipes)
{
    for (unsigned i = 0; i < pipes->count; i++)
        bench_partner_end(&pipes->partner[i]);
}

void pipe_publish(const void *context)
{
    const struct kernel_bench *bench = context;
    struct pipes pipes;
    uint64_t value = 0;

    pipes_start(&pipes, bench);
    bench_pin(0);
    bench_ready();
    while (bench_next()) {
        double ns[SHAPE_BURSTS];
        long switches = 0;

        for (unsigned i = 0; i < SHAPE_BURSTS; i++) {
            long before = bench_switches();
            int64_t begin = bench_ns();

            for (unsigned j = 0; j < SHAPE_BURST; j++, value++)
                for (unsigned k = 0; k < pipes.count; k++)
                    pipe_write(pipes.fd[k], value, bench->bytes);
            ns[i] = (double)(bench_ns() - begin) / SHAPE_BURST;
            switches += bench_switches() - before;
            pipes_begin(&pipes, SHAPE_BURST);
            before = 0;
            pipes_wait(&pipes, &before);
        }
        bench_answer(bench_median(ns, SHAPE_BURSTS), switches);
    }
    pipes_end(&pipes);
}

void pipe_throughput(const void *context)
{
    const struct kernel_bench *bench = context;
    struct pipes pipes;
    uint64_t value = 0;

    pipes_start(&pipes, bench);
    bench_pin(bench->readers > 1 ? BENCH_ANY_PROCESSOR : 0);
    bench_ready();
    while (bench_next()) {
        long switches = bench_switches();
        uint64_t longest_ns;

        pipes_begin(&pipes, SHAPE_THROUGHPUT);
        for (unsigned i = 0; i < SHAPE_THROUGHPUT; i++, value++)
            for (unsigned k = 0; k < pipes.count; k++)
                pipe_write(pipes.fd[k], value, bench->bytes);
        switches = bench_switches() - switches;
        longest_ns = pipes_wait(&pipes, &switches);
        bench_answer((double)SHAPE_THROUGHPUT * bench->readers * 1000 / (double)longest_ns,
                     switches);
    }
    pipes_end(&pipes);
}

/* ---- shared lines ---------------------------------------------------------------------------- */

struct lines {
    struct {
        alignas(128) _Atomic uint64_t flag;
        alignas(128) unsigned char payload[BYTES_MAX];
    } there, back;
    int bell_there, bell_back;
    int loop_back; /* an epoll descriptor of the one who measures */
    size_t bytes;
};

static struct lines *lines_new(const struct kernel_bench *bench)
{
    struct lines *lines = mmap(NULL, sizeof *lines, PROT_READ | PROT_WRITE,
                               MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

    if (lines == MAP_FAILED)
        bench_fail("mmap: %s", strerror(errno));
    lines->bytes = bench->bytes;
    return lines;
}

static inline uint64_t await_flag(const _Atomic uint64_t *flag, uint64_t value)
{
    while (atomic_load_explicit(flag, memory_order_acquire) != value)
        bench_relax();
    return value;
}

static void line_echo(struct bench_partner *parent, const void *context)
{
    struct lines *lines = *(struct lines *const *)context;
    uint64_t count, value = 0;

    bench_pin(1);
    while (bench_partner_wait(parent, &count)) {
        long switches = bench_switches();

        for (uint64_t i = 0; i < count; i++) {
            await_flag(&lines->there.flag, ++value);
            bench_fill(lines->back.payload, bench_read(lines->there.payload, lines->bytes),
                       lines->bytes);
            atomic_store_explicit(&lines->back.flag, value, memory_order_release);
        }
        bench_partner_send(parent, (uint64_t)(bench_switches() - switches));
    }
}

static void line_trip(struct lines *lines, uint64_t value)
{
    bench_fill(lines->there.payload, value, lines->bytes);
    atomic_store_explicit(&lines->there.flag, value, memory_order_release);
    await_flag(&lines->back.flag, value);
    if (bench_read(lines->back.payload, lines->bytes) != value)
        bench_fail("the echo differs");
}

static void bell_echo(struct bench_partner *parent, const void *context)
{
    struct lines *lines = *(struct lines *const *)context;
    uint64_t count, rung;

    bench_pin(1);
    while (bench_partner_wait(parent, &count)) {
        long switches = bench_switches();

        for (uint64_t i = 0; i < count; i++) {
            if (read(lines->bell_there, &rung, sizeof rung) < 0)
                bench_fail("eventfd: %s", strerror(errno));
            bench_fill(lines->back.payload, bench_read(lines->there.payload, lines->bytes),
                       lines->bytes);
            if (write(lines->bell_back, &(uint64_t) { 1 }, sizeof rung) < 0)
                bench_fail("eventfd: %s", strerror(errno));
        }
        bench_partner_send(parent, (uint64_t)(bench_switches() - switches));
    }
}

static void bell_trip(struct lines *lines, uint64_t value)
{
    uint64_t rung;

    bench_fill(lines->there.payload, value, lines->bytes);
    if (write(lines->bell_there, &(uint64_t) { 1 }, sizeof rung) < 0 ||
        read(lines->bell_back, &rung, sizeof rung) < 0)
        bench_fail("eventfd: %s", strerror(errno));
    if (bench_read(lines->back.payload, lines->bytes) != value)
        bench_fail("the echo differs");
}

static void measure_trips(struct lines *lines, unsigned blocks,
                          void (*echo)(struct bench_partner *parent, const void *context),
                          void (*trip)(struct lines *lines, uint64_t value))
{
    struct bench_partner partner;
    uint64_t value = 0, lost;

    bench_partner_start(&partner, echo, &lines);
    bench_pin(0);
    bench_ready();
    while (bench_next()) {
        double ns[SHAPE_BLOCKS];
        long switches = bench_switches();

        bench_partner_send(&partner, (blocks + 1) * SHAPE_BLOCK);
        for (unsigned i = 0; i <= blocks; i++) {
            int64_t begin = bench_ns();

            for (unsigned j = 0; j < SHAPE_BLOCK; j++)
                trip(lines, ++value);
            if (i > 0)
                ns[i - 1] = (double)(bench_ns() - begin) / SHAPE_BLOCK;
        }
        switches = bench_switches() - switches;
        if (!bench_partner_wait(&partner, &lost))
            bench_fail("the other process ended");
        bench_answer(bench_median(ns, blocks), switches + (long)lost);
    }
    bench_partner_end(&partner);
}

void line_round_trip(const void *context)
{
    measure_trips(lines_new(context), SHAPE_BLOCKS, line_echo, line_trip);
}

void eventfd_round_trip(const void *context)
{
    struct lines *lines = lines_new(context);

    lines->bell_there = eventfd(0, 0);
    lines->bell_back = eventfd(0, 0);
    if (lines->bell_there < 0 || lines->bell_back < 0)
        bench_fail("eventfd: %s", strerror(errno));
    measure_trips(lines, SHAPE_BLOCKS_SLEEPING, bell_echo, bell_trip);
}

/* ---- eventfds in epoll ----------------------------------------------------------------------- */

static void await_bell(int epoll_fd, int bell_fd)
{
    struct epoll_event readable;
    uint64_t rung;

    if (epoll_wait(epoll_fd, &readable, 1, -1) != 1 || read(bell_fd, &rung, sizeof rung) < 0)
        bench_fail("eventfd in epoll: %s", strerror(errno));
}

static int watch_bell(int bell_fd)
{
    struct epoll_event readable = { .events = EPOLLIN };
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC);

    if (epoll_fd < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, bell_fd, &readable) < 0)
        bench_fail("epoll: %s", strerror(errno));
    return epoll_fd;
}

static void loop_echo(struct bench_partner *parent, const void *context)
{
    struct lines *lines = *(struct lines *const *)context;
    int epoll_fd = watch_bell(lines->bell_there);
    uint64_t count;

    bench_pin(1);
    while (bench_partner_wait(parent, &count)) {
        long switches = bench_switches();

        for (uint64_t i = 0; i < count; i++) {
            await_bell(epoll_fd, lines->bell_there);
            bench_fill(lines->back.payload, bench_read(lines->there.payload, lines->bytes),
                       lines->bytes);
            if (write(lines->bell_back, &(uint64_t) { 1 }, sizeof(uint64_t)) < 0)
                bench_fail("eventfd: %s", strerror(errno));
        }
        bench_partner_send(parent, (uint64_t)(bench_switches() - switches));
    }
}

static void loop_trip(struct lines *lines, uint64_t value)
{
    bench_fill(lines->there.payload, value, lines->bytes);
    if (write(lines->bell_there, &(uint64_t) { 1 }, sizeof(uint64_t)) < 0)
        bench_fail("eventfd: %s", strerror(errno));
    await_bell(lines->loop_back, lines->bell_back);
    if (bench_read(lines->back.payload, lines->bytes) != value)
        bench_fail("the echo differs");
}

void epoll_round_trip(const void *context)
{
    struct lines *lines = lines_new(context);

    lines->bell_there = eventfd(0, EFD_NONBLOCK);
    lines->bell_back = eventfd(0, EFD_NONBLOCK);
    if (lines->bell_there < 0 || lines->bell_back < 0)
        bench_fail("eventfd: %s", strerror(errno));
    lines->loop_back = watch_bell(lines->bell_back);
    measure_trips(lines, SHAPE_BLOCKS_SLEEPING, loop_echo, loop_trip);
}

/* ---- death ----------------------------------------------------------------------------------- */

static void hold_end(struct bench_partner *parent, const void *context)
{
    uint64_t never;

    (void)context;
    bench_pin(1);
    bench_partner_send(parent, 0);
    bench_partner_wait(parent, &never);
}

void socket_dead(const void *context)
{
    (void)context;
    bench_pin(0);
    bench_ready();
    while (bench_next()) {
        struct bench_partner dying;
        struct pollfd end = { .events = POLLIN };
        uint64_t ready;
        int64_t begin, took;
        int ends[2];

        if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) < 0)
            bench_fail("socketpair: %s", strerror(errno));
        bench_partner_start(&dying, hold_end, NULL);
        close(ends[1]);
        end.fd = ends[0];
        bench_partner_wait(&dying, &ready);
        begin = bench_ns();
        kill(dying.pid, SIGKILL);
        if (poll(&end, 1, 10000) != 1)
            bench_fail("the socket of a dead process did not hang up");
        took = bench_ns() - begin;
        close(ends[0]);
        bench_partner_end(&dying);
        bench_answer((double)took / 1000, 0);
    }
}
