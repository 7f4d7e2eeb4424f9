/* asset_daemon.c - see asset_daemon.h. */
#include "support/asset_daemon.h"

#include <check.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "foundation/json/json_scan.h"
#include "support/reply.h"

void asset_daemon_prepare(struct asset_daemon *assets)
{
    *assets = (struct asset_daemon) { 0 };
    assets->events.fd = -1;
    ck_assert(daemon_prepare(&assets->process));
    snprintf(assets->folder, sizeof assets->folder, "%s/files", assets->process.directory);
    ck_assert_int_eq(mkdir(assets->folder, 0700), 0);
}

void asset_daemon_start(struct asset_daemon *assets, const char *const *arguments)
{
    const char *all[32] = { "--set", NULL };
    char mounts[160];
    unsigned count = 2;

    if (assets->folder[0] == '\0')
        asset_daemon_prepare(assets);
    snprintf(mounts, sizeof mounts, "resource.mounts=%s", assets->folder);
    all[1] = mounts;
    for (; arguments != NULL && *arguments != NULL; arguments++) {
        ck_assert_uint_lt(count + 1, sizeof all / sizeof all[0]);
        all[count++] = *arguments;
    }
    asset_daemon_start_bare(assets, all);
}

void asset_daemon_start_bare(struct asset_daemon *assets, const char *const *arguments)
{
    if (assets->folder[0] == '\0')
        asset_daemon_prepare(assets);
    ck_assert_msg(daemon_start(&assets->process, arguments), "%s", assets->process.why);
    ck_assert(line_client_connect(&assets->line, assets->process.socket_path));
    ck_assert_ptr_nonnull(line_client_hello(&assets->line, "test"));
}

void asset_daemon_stop(struct asset_daemon *assets)
{
    if (assets->events.fd >= 0)
        line_client_close(&assets->events);
    line_client_close(&assets->line);
    ck_assert_int_eq(daemon_stop(&assets->process), 0);
}

void asset_file(struct asset_daemon *assets, const char *name, const void *bytes, size_t count)
{
    char path[300], fresh[300];
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", assets->folder, name);
    snprintf(fresh, sizeof fresh, "%s/%s.new", assets->folder, name);
    file = fopen(fresh, "we");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, count, file), count);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_int_eq(rename(fresh, path), 0);
}

const char *asset_call(struct asset_daemon *assets, const char *method, const char *format, ...)
{
    static char params[65536];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(params, sizeof params, format, arguments);
    va_end(arguments);
    return line_client_call(&assets->line, method, params);
}

void asset_ok(const char *reply)
{
    ck_assert_msg(reply_at(reply, "result").text != NULL, "%s", reply);
}

void asset_error(const char *reply, int64_t code, const char *part)
{
    char text[1024] = "";

    ck_assert_msg(reply_at(reply, "error/code").text != NULL, "%s", reply);
    ec_json_get_text(reply_at(reply, "error/message"), text, sizeof text);
    ck_assert_msg(reply_number(reply, "error/code") == code, "%s", reply);
    ck_assert_msg(strstr(text, part) != NULL, "\"%s\" does not name \"%s\"", text, part);
}

void asset_text(const char *reply, const char *path, const char *expected)
{
    char text[1024] = "";

    ec_json_get_text(reply_at(reply, path), text, sizeof text);
    ck_assert_msg(strcmp(text, expected) == 0, "%s is \"%s\" instead of \"%s\" in %s", path, text,
                  expected, reply);
}

void asset_load(struct asset_daemon *assets, const char *group)
{
    asset_text(asset_call(assets, "resource.load", "{\"group\":\"%s\"}", group), "result/state",
               "ready");
}

int64_t asset_bytes(struct asset_daemon *assets)
{
    return reply_number(asset_call(assets, "memory.stats", "{}"), "result/assets/bytes");
}

void asset_await_idle(struct asset_daemon *assets)
{
    const char *reply;

    do
        reply = asset_call(assets, "resource.stats", "{}");
    while (reply_number(reply, "result/decoding/running") > 0 ||
           reply_number(reply, "result/decoding/waiting") > 0);
}

const char *asset_state(struct asset_daemon *assets, const char *resource)
{
    return reply_text(asset_call(assets, "resource.get", "{\"name\":\"%s\"}", resource),
                      "result/state");
}

void asset_subscribe(struct asset_daemon *assets, const char *types)
{
    char params[256];

    ck_assert(line_client_connect(&assets->events, assets->process.socket_path));
    ck_assert_ptr_nonnull(line_client_hello(&assets->events, "events"));
    snprintf(params, sizeof params, "{\"types\":%s}", types);
    asset_ok(line_client_call(&assets->events, "event.subscribe", params));
}

const char *asset_await(struct asset_daemon *assets, const char *type, const char *field,
                        const char *text)
{
    char path[64];
    const char *event;

    snprintf(path, sizeof path, "params/payload/%s", field);
    do {
        event = line_client_receive(&assets->events);
        ck_assert_ptr_nonnull(event);
    } while (!ec_json_string_equals(reply_at(event, "params/type"), type) ||
             !ec_json_string_equals(reply_at(event, path), text));
    return event;
}

struct ec_client *asset_game(struct asset_daemon *assets, const char *name)
{
    const struct ec_client_desc desc = { .name = name,
                                         .socket_path = assets->process.socket_path,
                                         .timeout_ms = DAEMON_WAIT_MS };
    struct ec_client *client = NULL;
    struct ec_error why = { 0 };

    ck_assert_msg(ec_client_create(&desc, &client, &why) == EC_OK, "%s", why.text);
    return client;
}

ec_resource asset_hold(struct ec_client *client, const char *name, struct ec_resource_view *view)
{
    ec_resource resource;

    ck_assert_int_eq(ec_resource_find(client, name, &resource), EC_OK);
    ck_assert_int_eq(ec_resource_acquire(client, resource, view), EC_OK);
    return resource;
}
