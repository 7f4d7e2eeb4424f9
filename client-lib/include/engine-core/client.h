/* engine-core/client.h - connect a program to engine-cored.
 *
 * A client is the program's connection to the daemon and the memory that both share. Everything else
 * of the library (clock, publishers, subscribers, resources, memory, breaker) hangs on it.
 *
 *     struct ec_client *client;
 *     struct ec_error why = {0};
 *
 *     if (ec_client_create(&(struct ec_client_desc){ .name = "my game" }, &client, &why) < 0) {
 *         fprintf(stderr, "%s\n", why.text);
 *         return 1;
 *     }
 *     …
 *     ec_client_destroy(client);
 *
 * The library runs one service thread of its own, which blocks all signals. It installs no signal
 * handler and never ends the program: when the daemon goes away the state becomes EC_DISCONNECTED,
 * shared memory and the event rings between games go on working, and calls that need the daemon
 * return EC_ERR_DISCONNECTED.
 *
 * Thread:    create and destroy from one thread; the rest from any.
 * Ownership: destroy publishers and subscribers before their client. A forked child must not use it.
 * Cost:      create is some system calls and a round trip (below a millisecond). */
#ifndef ENGINE_CORE_CLIENT_H
#define ENGINE_CORE_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <engine-core/error.h>
#include <engine-core/export.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ec_client; /* opaque */

enum ec_client_state {
    EC_CONNECTED,
    EC_DISCONNECTED, /* the daemon hung up or ended */
};

/* Zero means the default; only name is required. */
struct ec_client_desc {
    const char *name; /* shown to operators, 1..47 bytes */
    const char
        *socket_path;    /* default: $ENGINE_CORE_SOCKET, else $XDG_RUNTIME_DIR/engine-core.sock,
                                else /run/engine-core/engine-core.sock; the first that exists */
    uint32_t timeout_ms; /* of each call to the daemon; default 5,000 */
    size_t
        segment_bytes; /* room in the client segment for the blocks of allocators that are made with
                             in_segment, where others can read them; default none, at most 64 GiB.
                             Memory is taken when a block is touched, and stays until the client goes. A
                             forked child does not have these blocks. */
    bool no_thread;    /* the program polls ec_client_fd and calls ec_client_dispatch */
    void (*on_state)(void *context, enum ec_client_state state); /* on the service thread */
    void *context;
};

/* Connect, say hello, hand up the client's segments and map the daemon's.
 *
 * Returns EC_OK, EC_ERR_PARAM (no name, path over 107 bytes), EC_ERR_SIZE (segment_bytes),
 *         EC_ERR_DISCONNECTED (no daemon there), EC_ERR_VERSION, EC_ERR_PERMISSION, EC_ERR_LAYOUT,
 *         EC_ERR_STATE (another time namespace), EC_ERR_TIMEOUT, EC_ERR_MEMORY, EC_ERR_SYSTEM. */
EC_API int ec_client_create(const struct ec_client_desc *desc, struct ec_client **client,
                            struct ec_error *why);

/* Give everything back to the daemon, which is asked for it and waited for, up to timeout_ms, and free
 * the client. Accepts NULL. */
EC_API void ec_client_destroy(struct ec_client *client);

/* The socket that such a path means: path itself, or the default above when it is NULL or empty.
 * buffer gets the path and a NUL; EC_SOCKET_PATH_MAX bytes are always enough.
 *
 * Returns EC_OK, EC_ERR_PARAM (over 107 bytes), EC_ERR_DISCONNECTED (no default exists: no daemon runs). */
#define EC_SOCKET_PATH_MAX 108
EC_API int ec_client_socket_path(const char *path, char *buffer, size_t bytes,
                                 struct ec_error *why);

EC_API uint32_t ec_client_id(const struct ec_client *client);
EC_API enum ec_client_state ec_client_state(const struct ec_client *client);

/* With no_thread: readable when ec_client_dispatch has something to do. -1 with a service thread. */
EC_API int ec_client_fd(const struct ec_client *client);
EC_API int
ec_client_dispatch(struct ec_client *client); /* EC_OK, EC_AGAIN (nothing), EC_ERR_DISCONNECTED */

/* Call any method of the control protocol. params is JSON text or NULL. On EC_OK *result is the JSON
 * text of the result, NUL-terminated, to be freed with free(). An error of the daemon comes back as
 * its code, with its message in why. */
EC_API int ec_client_call(struct ec_client *client, const char *method, const char *params,
                          char **result, struct ec_error *why);

#ifdef __cplusplus
}
#endif
#endif
