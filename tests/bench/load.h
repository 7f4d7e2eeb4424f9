/* bench/load.h - a load generator for servers on a Unix socket: the same for ours and for Redis.
 *
 * Each connection sends as many requests at once as the pipeline says, and the next ones when all
 * their replies have come. One thread, one epoll; every reply is found by its protocol's own framing
 * and its first bytes are compared with those of a good answer.
 *
 *     struct load *load = load_open(&(struct load_desc){ .socket_path = path, .protocol = &load_json,
 *                                   .request = line, .connections = 50, .pipeline = 1 });
 *     per_s = load_run(load, 100000);
 *     load_close(load);
 *
 * What goes wrong ends the process (bench_fail). Thread: one. */
#ifndef EC_BENCH_LOAD_H
#define EC_BENCH_LOAD_H

#include <stddef.h>
#include <stdint.h>

struct load_protocol {
    const char *good;         /* how a good reply begins */
    unsigned lines_per_reply; /* replies end with the last of so many LF */
};

extern const struct load_protocol
    load_json; /* one line of JSON-RPC; the id of requests is 1234567 */
extern const struct load_protocol load_redis; /* a bulk string without LF in it */

struct load_desc {
    const char *socket_path;
    const struct load_protocol *protocol;
    const char *request; /* with its LF */
    unsigned connections, pipeline;
};

struct load; /* opaque */

struct load *load_open(const struct load_desc *desc); /* waits for the socket to be there */
void load_close(struct load *load);

/* Send requests in all and wait for their replies. Returns replies a second. */
double load_run(struct load *load, uint64_t requests);

/* Bytes of the last reply that load_run saw. */
size_t load_reply_bytes(const struct load *load);

#endif
