/* engine-core/error.h - results and errors of every function of engine-core.
 *
 * A function that can fail returns EC_OK (0), EC_AGAIN (1: nothing is wrong, not now) or a negative
 * EC_ERR_ code. The codes are the numbers that the daemon reports over JSON-RPC. Functions that take
 * a struct ec_error write the whole reason into it, outermost action first:
 *
 *     struct ec_error why = {0};
 *     if (ec_client_create(&desc, &client, &why) < 0)
 *         fprintf(stderr, "%s\n", why.text);
 *
 * Thread: any. Cost: successful calls never touch the struct. */
#ifndef ENGINE_CORE_ERROR_H
#define ENGINE_CORE_ERROR_H

#include <engine-core/export.h>

#ifdef __cplusplus
extern "C" {
#endif

enum ec_result {
    EC_OK = 0,
    EC_AGAIN = 1, /* nothing is wrong, not now */

    EC_ERR_PARSE = -32700,      /* not JSON */
    EC_ERR_REQUEST = -32600,    /* not a JSON-RPC 2.0 request */
    EC_ERR_METHOD = -32601,     /* method not found */
    EC_ERR_PARAM = -32602,      /* an argument is out of its range or of the wrong type */
    EC_ERR_INTERNAL = -32603,   /* a defect of engine-core */
    EC_ERR_SIZE = -32001,       /* more bytes than the limit allows */
    EC_ERR_LIMIT = -32002,      /* more items than the limit allows */
    EC_ERR_PERMISSION = -32003, /* the role does not allow it */
    EC_ERR_VERSION = -32004,    /* the other side speaks another protocol version */
    EC_ERR_NOT_FOUND = -32005,
    EC_ERR_STATE = -32006, /* conflicts with the present state */
    EC_ERR_BUSY = -32007,
    EC_ERR_TIMEOUT = -32008,
    EC_ERR_MEMORY = -32009,
    EC_ERR_TYPE_CONFLICT = -32010, /* the event type is registered with another layout */
    EC_ERR_TYPE = -32011,          /* the event type is not registered */
    EC_ERR_LAYOUT = -32012,        /* a segment's layout is not understood */
    EC_ERR_GROUP = -32020,         /* a resource group failed to load */
    EC_ERR_PATH = -32021,          /* a path is refused */
    EC_ERR_EVICTED = -32022,       /* a resource was evicted; it can be asked for */
    EC_ERR_POLICY = -32030,       /* a policy of the breaker does not fit together; names the key */
    EC_ERR_SYSTEM = -32040,       /* a system call failed; the text carries errno's words */
    EC_ERR_STALE = -32042,        /* a handle's generation has passed */
    EC_ERR_DISCONNECTED = -32043, /* no connection to the daemon */
};

#define EC_ERROR_TEXT_BYTES 256

struct ec_error {
    int code;
    char text[EC_ERROR_TEXT_BYTES]; /* NUL-terminated, cut at the end when it does not fit */
};

/* The short text of a code, such as "not permitted"; "unknown error" for others. Never NULL. */
EC_API const char *ec_error_text(int code);

#ifdef __cplusplus
}
#endif
#endif
