/* Whoever kills the daemon's helpers, at any moment: an error of what was being loaded at most, and then
 * everything goes on. */
#include <check.h>
#include <dirent.h>
#include <engine-core/client.h>
#include <engine-core/resource.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "support/asset_daemon.h"
#include "support/reply.h"
#include "support/sample_images.h"

#define FILES 64
#define FILE_BYTES 20000
#define ROUNDS 40
#define HELPERS_MAX 512

static struct asset_daemon assets;
static struct line_client other;

/* ---- helpers ---- */

struct helper {
    pid_t pid;
    int pid_fd; /* of the same process, whoever gets its number later */
};
static struct helper helpers[HELPERS_MAX];
static unsigned helper_count;

static bool has_ended(const struct helper *helper)
{
    struct pollfd ended = { .fd = helper->pid_fd, .events = POLLIN };

    return poll(&ended, 1, 0) > 0;
}

static void helpers_forget_ended(void)
{
    for (unsigned i = 0; i < helper_count;) {
        if (!has_ended(&helpers[i])) {
            i++;
            continue;
        }
        close(helpers[i].pid_fd);
        helpers[i] = helpers[--helper_count];
    }
}

static void helper_add(pid_t pid)
{
    const struct helper helper = { pid, (int)syscall(SYS_pidfd_open, pid, 0) };

    for (unsigned i = 0; i < helper_count; i++)
        if (helpers[i].pid == pid && !has_ended(&helpers[i])) {
            close(helper.pid_fd);
            return;
        }
    if (helper.pid_fd < 0) /* it has ended */
        return;
    ck_assert_uint_lt(helper_count, HELPERS_MAX);
    helpers[helper_count++] = helper;
}

/* The children of all threads of a process, and theirs. */
static void helpers_find(pid_t pid)
{
    char path[300];
    DIR *tasks;

    snprintf(path, sizeof path, "/proc/%ld/task", (long)pid);
    tasks = opendir(path);
    for (struct dirent *task; tasks != NULL && (task = readdir(tasks)) != NULL;) {
        FILE *file;
        long child;

        snprintf(path, sizeof path, "/proc/%ld/task/%s/children", (long)pid, task->d_name);
        file = task->d_name[0] != '.' ? fopen(path, "re") : NULL;
        while (file != NULL && fscanf(file, "%ld", &child) == 1) {
            helper_add((pid_t)child);
            helpers_find((pid_t)child);
        }
        if (file != NULL)
            fclose(file);
    }
    if (tasks != NULL)
        closedir(tasks);
}

static uint64_t random_next(void)
{
    static uint64_t state = 88172645463325252ull;

    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static void kill_one(void)
{
    helpers_forget_ended();
    helpers_find(assets.process.pid);
    ck_assert_uint_gt(helper_count, 0);
    syscall(SYS_pidfd_send_signal, helpers[random_next() % helper_count].pid_fd, SIGKILL, NULL, 0);
}

/* ---- content ---- */

static void file_fill(unsigned char *bytes, unsigned index)
{
    for (unsigned i = 0; i < FILE_BYTES; i++)
        bytes[i] = (unsigned char)(i * (index + 1) >> 4);
}

static void content_make(void)
{
    const struct sample_shape shape = { .width = 200, .height = 100, .channels = 3 };
    static unsigned char bytes[FILE_BYTES];
    static char members[FILES * 64];
    struct sample image;
    char name[32];
    size_t at = 0;

    sample_png(&image, &shape);
    for (unsigned i = 0; i < FILES; i++) {
        const bool is_image = i % 4 == 3;

        snprintf(name, sizeof name, "file%u", i);
        file_fill(bytes, i);
        asset_file(&assets, name, is_image ? image.bytes : bytes,
                   is_image ? image.count : FILE_BYTES);
        at += (size_t)snprintf(members + at, sizeof members - at,
                               "%s{\"name\":\"%s\",\"kind\":\"%s\"}", i > 0 ? "," : "", name,
                               is_image ? "image" : "raw");
    }
    sample_free(&image);
    asset_ok(
        asset_call(&assets, "resource.define", "{\"group\":\"all\",\"resources\":[%s]}", members));
}

static void content_check(void)
{
    static unsigned char bytes[FILE_BYTES];
    struct ec_client *game = asset_game(&assets, "game");

    for (unsigned i = 0; i < FILES; i++) {
        struct ec_resource_view view;
        ec_resource resource;
        char name[32];

        snprintf(name, sizeof name, "file%u", i);
        resource = asset_hold(game, name, &view);
        file_fill(bytes, i);
        if (i % 4 == 3) {
            ck_assert_uint_eq(view.width, 200);
            ck_assert_uint_eq(((const unsigned char *)view.data)[3 * 200 * 50 + 30 * 3 + 1],
                              sample_pixel(30, 50, 1));
        } else {
            ck_assert_uint_eq(view.bytes, FILE_BYTES);
            ck_assert_mem_eq(view.data, bytes, FILE_BYTES);
        }
        ec_resource_release(game, resource);
    }
    ec_client_destroy(game);
}

/* ---- tests ---- */

/* Begin, kill one of them after a random number of round trips, and see what comes of it. */
static void disturbed(const char *method, const char *params)
{
    char line[512];
    const char *reply;

    snprintf(line, sizeof line,
             "{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"%s\",\"params\":%s}", method, params);
    ck_assert(line_client_send(&assets.line, line));
    for (uint64_t i = random_next() % 16; i > 0; i--)
        ck_assert_ptr_nonnull(line_client_call(&other, "core.ping", "{}"));
    kill_one();
    reply = line_client_receive(&assets.line);
    ck_assert_ptr_nonnull(reply);
    if (strstr(reply, "\"error\"") != NULL && strstr(reply, "-32602") != NULL)
        ck_abort_msg("%s", reply); /* not of that kind */
}

START_TEST(helpers_that_are_killed_cost_one_load_at_most)
{
    unsigned descriptors;
    char folder[160], params[200];

    assets = (struct asset_daemon) { 0 };
    asset_daemon_start(&assets, NULL);
    ck_assert(line_client_connect(&other, assets.process.socket_path));
    ck_assert_ptr_nonnull(line_client_hello(&other, "other"));
    content_make();
    asset_load(&assets, "all");
    asset_ok(asset_call(&assets, "resource.evict", "{\"group\":\"all\"}"));
    asset_await_idle(&assets);
    descriptors = process_descriptors(assets.process.pid);

    for (unsigned round = 0; round < ROUNDS; round++) {
        disturbed("resource.load", "{\"group\":\"all\"}");
        if (round % 8 == 7) { /* a search path is made while a process of it is killed */
            snprintf(folder, sizeof folder, "%s/more%u", assets.folder, round);
            ck_assert_int_eq(mkdir(folder, 0700), 0);
            snprintf(params, sizeof params, "{\"path\":\"%s\"}", folder);
            disturbed("resource.mount", params);
            asset_ok(asset_call(&assets, "resource.mount", "%s", params));
        }
        asset_ok(asset_call(&assets, "resource.unload", "{\"group\":\"all\"}"));
    }

    /* Nobody kills any more: all is as if nobody ever had. */
    asset_load(&assets, "all");
    content_check();
    snprintf(folder, sizeof folder, "%s/last", assets.folder);
    ck_assert_int_eq(mkdir(folder, 0700), 0);
    asset_ok(asset_call(&assets, "resource.mount", "{\"path\":\"%s\",\"at\":\"/last\"}", folder));
    asset_ok(asset_call(&assets, "resource.unload", "{\"group\":\"all\"}"));
    asset_load(&assets, "all");
    asset_ok(asset_call(&assets, "resource.evict", "{\"group\":\"all\"}"));
    asset_await_idle(&assets);
    ck_assert_int_eq(asset_bytes(&assets), 0);
    while (process_descriptors(assets.process.pid) > descriptors) /* the game is being forgotten */
        ck_assert_ptr_nonnull(line_client_call(&other, "core.ping", "{}"));
    ck_assert_uint_eq(process_descriptors(assets.process.pid), descriptors);

    /* Those that lost their parent end with the daemon, too. */
    helpers_find(assets.process.pid);
    line_client_close(&other);
    asset_daemon_stop(&assets);
    for (unsigned i = 0; i < helper_count; i++) {
        struct pollfd ended = { .fd = helpers[i].pid_fd, .events = POLLIN };

        ck_assert_int_eq(poll(&ended, 1, -1), 1);
        close(helpers[i].pid_fd);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("decoders killed");
    TCase *tcase = tcase_create("decoders killed");
    SRunner *runner;
    int failed;

    tcase_set_timeout(tcase, 240);
    tcase_add_test(tcase, helpers_that_are_killed_cost_one_load_at_most);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
