// A public JSON-RPC client over the control socket: what a stranger writes in a few lines. Lines are the
// framing, which the library leaves to its user.
'use strict';
const assert = require('node:assert');
const net = require('node:net');
const { JSONRPCClient, JSONRPCErrorException } = require('json-rpc-2.0');

const socket = net.createConnection(process.argv[2]);
const client = new JSONRPCClient((request) => {
    socket.write(JSON.stringify(request) + '\n');
});
let rest = '';

socket.setEncoding('utf8');
socket.on('data', (text) => {
    const lines = (rest + text).split('\n');

    rest = lines.pop();
    for (const line of lines) client.receive(JSON.parse(line));
});
socket.on('close', () => client.rejectAllPendingRequests('the daemon hung up'));

async function main() {
    const hello = await client.request('core.hello', { name: 'npm', protocol: 1 });
    assert.strictEqual(hello.server, 'engine-core');
    assert.strictEqual(hello.protocol, 1);

    const echo = { text: 'zwölf \u0000 \u{1F3B2}', list: [1, 2.5, null, true], deep: { a: [{}] } };
    assert.deepStrictEqual((await client.request('core.ping', echo)).echo, echo);
    assert.deepStrictEqual((await client.request('core.ping', [1, 2])).echo, [1, 2]);

    const many = await Promise.all(
        Array.from({ length: 100 }, (_, n) => client.request('core.ping', { n })));
    many.forEach((reply, n) => assert.strictEqual(reply.echo.n, n));

    const batch = await client.requestAdvanced([
        { jsonrpc: '2.0', id: 'a', method: 'core.ping', params: {} },
        { jsonrpc: '2.0', id: 'b', method: 'no.such', params: {} },
    ]);
    assert.strictEqual(batch.find((reply) => reply.id === 'a').result.pong, true);
    assert.strictEqual(batch.find((reply) => reply.id === 'b').error.code, -32601);

    client.notify('core.ping', {});
    await assert.rejects(client.request('clock.scale', { scale: 'fast' }), (error) =>
        error instanceof JSONRPCErrorException && error.code === -32602);
    const document = await client.request('core.discover', {});
    assert.ok(document.methods.some((method) => method.name === 'core.discover'));
    socket.end();
}

main().catch((error) => {
    console.error(error);
    process.exit(1);
});
