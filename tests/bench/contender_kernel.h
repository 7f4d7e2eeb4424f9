/* bench/contender_kernel.h - peers and limits that need nothing but the kernel and a shared page.
 *
 * Each function is a contender's run (see harness.h) and does what its namesake in contender_bus.h
 * does; context is a struct kernel_bench. */
#ifndef EC_BENCH_CONTENDER_KERNEL_H
#define EC_BENCH_CONTENDER_KERNEL_H

#include <stddef.h>

struct kernel_bench {
    size_t bytes;     /* of a payload, at most 1,024 */
    unsigned readers; /* pipes, each with a process that reads it */
};

/* A pipe per reader. */
void pipe_publish(const void *context);
void pipe_throughput(const void *context);

/* The limit: a payload and a flag line each way in shared memory, both sides spin on their flag. */
void line_round_trip(const void *context);

/* The limit with sleep: the payloads in shared memory, an eventfd each way. */
void eventfd_round_trip(const void *context);

/* The same in an epoll loop on each side. */
void epoll_round_trip(const void *context);

/* us from SIGKILL of a process until its end of a socket pair hangs up. */
void socket_dead(const void *context);

#endif
