/* A ping behind each example tells that nothing more comes. */
#include "support/rpc_examples.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct rpc_example rpc_examples[] = {
    { "{\"jsonrpc\":\"2.0\",\"method\":\"core.ping\",\"params\":[42, 23],\"id\":1}",
      { RPC_PONG("1"), "\"echo\":[42, 23]" } },
    { "{\"jsonrpc\":\"2.0\",\"method\":\"core.ping\",\"params\":{\"subtrahend\":23,\"minuend\":42},"
      "\"id\":3}",
      { RPC_PONG("3"), "\"echo\":{\"subtrahend\":23,\"minuend\":42}" } },
    { "{\"jsonrpc\":\"2.0\",\"method\":\"core.ping\",\"params\":[1,2,3,4,5]}", { NULL } },
    { "{\"jsonrpc\":\"2.0\",\"method\":\"foobar\"}", { NULL } },
    { "{\"jsonrpc\":\"2.0\",\"method\":\"foobar\",\"id\":\"1\"}",
      { RPC_ERROR("\"1\"", "-32601") } },
    { "{\"jsonrpc\":\"2.0\",\"method\":\"foobar, \"params\":\"bar\",\"baz]",
      { RPC_ERROR("null", "-32700") } },
    { "{\"jsonrpc\":\"2.0\",\"method\":1,\"params\":\"bar\"}", { RPC_ERROR("null", "-32600") } },
    { "[{\"jsonrpc\":\"2.0\",\"method\":\"sum\",\"params\":[1,2,4],\"id\":\"1\"},"
      "{\"jsonrpc\":\"2.0\",\"method\"]",
      { RPC_ERROR("null", "-32700") } },
    { "[]", { RPC_ERROR("null", "-32600") } },
    { "[1]", { "[", RPC_ERROR("null", "-32600"), "]" } },
    { "[1,2,3]",
      { RPC_ERROR("null", "-32600"), RPC_ERROR("null", "-32600"), RPC_ERROR("null", "-32600"),
        "}}]" } },
    { "[" RPC_PING(
          "\"1\"") ",{\"jsonrpc\":\"2.0\",\"method\":\"core.ping\",\"params\":[7]},"
                   "{\"foo\":\"boo\"},"
                   "{\"jsonrpc\":\"2.0\",\"method\":\"foo.get\",\"params\":{\"name\":\"me\"},"
                   "\"id\":\"5\"}," RPC_PING("\"9\"") "]",
      { RPC_PONG("\"1\""), RPC_ERROR("null", "-32600"), RPC_ERROR("\"5\"", "-32601"),
        RPC_PONG("\"9\"") } },
    { "[{\"jsonrpc\":\"2.0\",\"method\":\"core.ping\",\"params\":[1,2,4]},"
      "{\"jsonrpc\":\"2.0\",\"method\":\"core.ping\",\"params\":[7]}]",
      { NULL } },
    /* And what the specification says in words. */
    { RPC_PING("null"), { RPC_PONG("null") } },
    { RPC_PING("-1.50e3"), { RPC_PONG("-1.50e3") } },
    { RPC_PING("18446744073709551615"), { RPC_PONG("18446744073709551615") } },
    { RPC_PING("\"a\\u0000\\\"b\""), { RPC_PONG("\"a\\u0000\\\"b\"") } },
    { RPC_PING("true"), { RPC_ERROR("null", "-32600") } },
    { RPC_PING("{}"), { RPC_ERROR("null", "-32600") } },
    { "{\"method\":\"core.ping\",\"id\":1}", { RPC_ERROR("1", "-32600") } },
    { "{\"jsonrpc\":\"1.0\",\"method\":\"core.ping\",\"id\":1}", { RPC_ERROR("1", "-32600") } },
    { "{\"jsonrpc\":\"2.0\",\"method\":\"core.ping\",\"params\":5,\"id\":1}",
      { RPC_ERROR("1", "-32600") } },
    { "{\"jsonrpc\":\"2.0\",\"method\":\"core\\u002eping\",\"id\":1}", { RPC_PONG("1") } },
    { "\"text\"", { RPC_ERROR("null", "-32600") } },
    { "{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":2,\"method\":\"core.ping\"}",
      { RPC_ERROR("null", "-32700") } },
    { "{\"jsonrpc\":\"2.0\",\"method\":\"clock.get\",\"params\":[],\"id\":1}",
      { RPC_ERROR("1", "-32602") } },
    { "{\"jsonrpc\":\"2.0\",\"method\":\"client.get\",\"params\":{},\"id\":1}",
      { RPC_ERROR("1", "-32602"),
        "\"data\":{\"param\":\"client_id\",\"reason\":\"is missing\"}" } },
    { "\r", { NULL } },
    { "", { NULL } },
    { RPC_PING("7") "\r", { RPC_PONG("7") } },
};
const size_t rpc_examples_count = sizeof rpc_examples / sizeof rpc_examples[0];

static const char *receive(struct line_client *client, const struct rpc_example *example);

const char *rpc_example_try(struct line_client *client, const struct rpc_example *example)
{
    const char *missing = NULL, *reply;

    if (!line_client_send(client, example->line) || !line_client_send(client, RPC_PING("\"end\"")))
        return "a daemon that does not hang up";
    reply = receive(client, example);
    if (example->expected[0] != NULL) {
        const char *at = reply;

        for (size_t p = 0; p < 5 && missing == NULL && example->expected[p] != NULL; p++) {
            at = strstr(at, example->expected[p]);
            if (at == NULL)
                missing = example->expected[p];
            else
                at += strlen(example->expected[p]);
        }
        reply = receive(client, example);
    }
    while (strstr(reply, RPC_PONG("\"end\"")) != reply) {
        missing = missing != NULL ? missing : "nothing more";
        reply = receive(client, example);
    }
    return missing;
}

static const char *receive(struct line_client *client, const struct rpc_example *example)
{
    const char *reply = line_client_receive(client);

    if (reply == NULL) {
        fprintf(stderr, "the daemon hung up after %s\n", example->line);
        abort();
    }
    return reply;
}
