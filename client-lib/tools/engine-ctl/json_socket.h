/* json_socket.h - the control socket as a tool without shared memory uses it.
 *
 *     rc = json_socket_open(&socket, path, 30000, &why);
 *     rc = json_socket_call(&socket, "core.info", NULL, &answer, &why);
 *     … answer.tree …
 *     json_answer_finish(&answer);
 *     json_socket_close(&socket);
 *
 * A result is kept twice: as text, exactly as it came, and as a tree, in which numbers above 2^53
 * lose digits.
 *
 * Thread: one. Cost: one write and at least one read for a call. */
#ifndef ENGINE_CTL_JSON_SOCKET_H
#define ENGINE_CTL_JSON_SOCKET_H

#include <stdbool.h>
#include <stddef.h>

#include <cjson/cJSON.h>

#include <engine-core/error.h>

/* Zero is a closed socket. */
struct json_socket {
    int fd_plus_one;
    int timeout_ms;
    int stop_plus_one; /* a descriptor that ends a wait as its deadline does, plus one; 0: none */
    char *buffer;      /* [begin, end) is received and not yet taken */
    size_t begin, end, capacity;
    unsigned long last_id;
};

struct json_answer {
    char *line;
    const char *result; /* in line; not NUL-terminated */
    size_t result_bytes;
    const char *error; /* the error object, when the daemon answered one */
    size_t error_bytes;
    cJSON *tree; /* of the result */
};

/* Returns EC_OK, EC_ERR_DISCONNECTED, EC_ERR_PERMISSION (the file's mode forbids it), EC_ERR_PARAM (path over
 * 107 bytes) or EC_ERR_SYSTEM. */
int json_socket_open(struct json_socket *socket, const char *path, int timeout_ms,
                     struct ec_error *why);
bool json_socket_is_open(const struct json_socket *socket);
void json_socket_close(struct json_socket *socket); /* accepts a closed one */

/* Send a request and wait for its answer; notifications that come before are passed over.
 *
 * Returns EC_OK, the daemon's error code with its message, EC_ERR_TIMEOUT, EC_ERR_DISCONNECTED,
 *         EC_ERR_REQUEST (the daemon sent something else than an answer), EC_ERR_MEMORY, EC_ERR_SYSTEM. */
int json_socket_call(struct json_socket *socket, const char *method, const char *params,
                     struct json_answer *answer, struct ec_error *why);

/* Wait without end for a notification of this method: its params come as the result. */
int json_socket_next(struct json_socket *socket, const char *method, struct json_answer *answer,
                     struct ec_error *why);

void json_answer_finish(struct json_answer *answer);

/* The text of a member of the outermost object of a JSON text that is known to be right. NULL: none. */
const char *json_member_text(const char *object, const char *name, size_t *bytes);

#endif
