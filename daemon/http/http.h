/* http.h - the metrics for Prometheus: GET /metrics on a loopback port.
 *
 * Off unless the service manager passes a listening TCP socket (engine-core-metrics.socket), which must be
 * bound to the loopback. One request a connection, which is closed behind the answer.
 *
 * A port on the loopback is reachable by every web page in a browser of this host, so a request must name
 * one of http.hosts as its Host, and one that a page has sent (it has an Origin) is refused. Nothing can
 * be changed here.
 *
 * Thread: loop. Cost: a collection of the metrics for each scrape. */
#ifndef ENGINE_CORED_HTTP_H
#define ENGINE_CORED_HTTP_H

#include "foundation/error.h"

struct services;

int http_init(struct services *services, struct ec_error *why);      /* module phase */
int http_post_init(struct services *services, struct ec_error *why); /* accepts */
void http_shutdown(struct services *services);

/* Is it a listening TCP socket that only this host can reach? EC_OK or EC_ERR_PARAM. */
int http_check_listener(int fd, struct ec_error *why);

#endif
