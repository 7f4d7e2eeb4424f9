/* support/returns.h - a client of the library in the test's own process, whose returns are told.
 *
 *     struct returns returns;
 *     struct ec_client *client = returns_connect(&returns, "game", engine.socket_path);
 *     daemon_crash(&engine);
 *     … start it again …
 *     returns_await(&returns); // it has handed back everything
 *     returns_disconnect(&returns, client);
 *
 * Thread: one. Whatever goes wrong here aborts the test. */
#ifndef EC_SUPPORT_RETURNS_H
#define EC_SUPPORT_RETURNS_H

#include <engine-core/client.h>

struct returns {
    int to, from; /* a pipe: a byte for each return */
};

struct ec_client *returns_connect(struct returns *returns, const char *name,
                                  const char *socket_path);
void returns_await(const struct returns *returns);
void returns_disconnect(const struct returns *returns, struct ec_client *client);

/* Break all connections of this process to a socket, as a fault of the machine would; those of line clients,
 * too. Returns how many there were. */
unsigned returns_break(const char *socket_path);

#endif
