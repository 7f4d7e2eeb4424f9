/* support/rpc_examples.h - the examples of the JSON-RPC 2.0 specification, with methods that exist here,
 * and what it says in words.
 *
 *     for (size_t i = 0; i < rpc_examples_count; i++)
 *         ck_assert_msg((missing = rpc_example_try(&client, &rpc_examples[i])) == NULL, "%s", missing);
 *
 * Thread: one at a time. */
#ifndef EC_SUPPORT_RPC_EXAMPLES_H
#define EC_SUPPORT_RPC_EXAMPLES_H

#include <stddef.h>

#include "support/daemon.h"

#define RPC_ERROR(id, code) "\"id\":" id ",\"error\":{\"code\":" code ","
#define RPC_PING(id) "{\"jsonrpc\":\"2.0\",\"method\":\"core.ping\",\"id\":" id "}"
#define RPC_PONG(id) "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"result\":{\"pong\":true"

struct rpc_example {
    const char *line;
    const char *expected[5]; /* parts of the one line that comes back, in order; none: no answer */
};

extern const struct rpc_example rpc_examples[];
extern const size_t rpc_examples_count;

/* Send one and judge what comes back. NULL: it is as it should be; else what was expected and not
 * found. Afterwards the connection is as before. A daemon that hangs up aborts the test. */
const char *rpc_example_try(struct line_client *client, const struct rpc_example *example);

#endif
