/* support/asset_daemon.h - a daemon with a folder of files for resources, and short ways to ask it.
 *
 *     struct asset_daemon assets;
 *
 *     asset_daemon_start(&assets, (const char *const[]) { "--set", "resource.soft_bytes=0", NULL });
 *     asset_file(&assets, "a", "bytes", 5);
 *     asset_call(&assets, "resource.define", "{\"group\":\"g\",\"resources\":[{\"name\":\"a\"}]}");
 *     asset_load(&assets, "g");
 *     …
 *     asset_daemon_stop(&assets);
 *
 * The folder is mounted at the start and goes with the daemon. Whatever goes wrong here aborts the test.
 *
 * Thread: one. */
#ifndef EC_SUPPORT_ASSET_DAEMON_H
#define EC_SUPPORT_ASSET_DAEMON_H

#include <engine-core/client.h>
#include <engine-core/resource.h>
#include <stdint.h>

#include "support/daemon.h"

struct asset_daemon {
    struct daemon_process process;
    struct line_client line;
    struct line_client events; /* asset_subscribe */
    char folder[96];
};

void asset_daemon_start(struct asset_daemon *assets, const char *const *arguments);
/* With nothing mounted. */
void asset_daemon_start_bare(struct asset_daemon *assets, const char *const *arguments);
/* Make the folder only; the start, which else does it, goes on from there. */
void asset_daemon_prepare(struct asset_daemon *assets);
void asset_daemon_stop(struct asset_daemon *assets);

/* Write a file as an editor does: another name, then rename. */
void asset_file(struct asset_daemon *assets, const char *name, const void *bytes, size_t count);

const char *asset_call(struct asset_daemon *assets, const char *method, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void asset_ok(const char *reply); /* it is a result */
void asset_error(const char *reply, int64_t code, const char *part);
void asset_text(const char *reply, const char *path, const char *expected);
void asset_load(struct asset_daemon *assets, const char *group);
int64_t asset_bytes(struct asset_daemon *assets); /* of the heap in use */
/* Wait until no decoding process is left: one that was cancelled has ended, too, with its descriptors in the
 * daemon. */
void asset_await_idle(struct asset_daemon *assets);
/* A member of the item of resource.list that has this name. */
const char *asset_state(struct asset_daemon *assets, const char *resource);

/* Follow these events (JSON array of names), then wait for one whose field name is text. Returns the line. */
void asset_subscribe(struct asset_daemon *assets, const char *types);
const char *asset_await(struct asset_daemon *assets, const char *type, const char *field,
                        const char *text);

struct ec_client *asset_game(struct asset_daemon *assets, const char *name);
ec_resource asset_hold(struct ec_client *client, const char *name, struct ec_resource_view *view);

#endif
