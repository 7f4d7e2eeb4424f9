/* engine-cored: arguments, signals, the service manager, and the main loop. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>
#include <uv.h>

#include "breaker/breaker.h"
#include "clients/clients.h"
#include "daemon/arguments.h"
#include "daemon/before_answers.h"
#include "daemon/config.h"
#include "daemon/config_commands.h"
#include "daemon/config_read.h"
#include "daemon/counters.h"
#include "daemon/fd_store.h"
#include "daemon/log.h"
#include "daemon/log_settings.h"
#include "daemon/module.h"
#include "daemon/notify.h"
#include "daemon/reference.h"
#include "daemon/services.h"
#include "foundation/real_time.h"
#include "http/http.h"
#include "proto/line.h"
#include "resources/decode_child.h"
#include "resources/decode_server.h"

#define CONFIG_FILE_NAME "engine-core/engine-core.json"
#define CONFIG_FILE_SYSTEM "/etc/" CONFIG_FILE_NAME

/* What the main loop itself listens to. */
struct watch {
    struct services *services;
    uv_signal_t term, interrupt, hang_up;
    uv_timer_t watchdog;
};

static void fill_standard_descriptors(void);
static int print(const char *table);
static bool check_sets(const struct arguments *arguments);
static int check_file(const struct arguments *arguments);
static void find_standard_files(struct config_source *source, char user_path[PATH_MAX]);
static int run(const struct arguments *arguments);
static void raise_descriptor_limit(void);
static int serve(struct services *services, struct ec_error *why);
static const char *choose_socket(const char *argument, char *buffer, size_t bytes);
static int take_listen_fds(struct services *services, struct ec_error *why);
static const char *path_of_passed(int fd, const char *chosen, char *buffer, size_t bytes);
static bool is_ours(const char *name);
static int watch_begin(struct watch *watch, struct services *services, struct ec_error *why);
static void watch_end(struct watch *watch);

int main(int argc, char **argv)
{
    struct arguments arguments = { 0 };
    int rc;

    decode_nursery_if_asked(argc, argv, decode_child_run);
    fill_standard_descriptors();
    rc = arguments_parse(argc, argv, &arguments);
    if (rc >= 0)
        return rc;
    if (arguments.print != NULL)
        return print(arguments.print);
    if (!check_sets(&arguments))
        return EXIT_USAGE;
    if (arguments.check != NULL)
        return check_file(&arguments);
    return run(&arguments);
}

static int print(const char *table)
{
    if (reference_print(stdout, table) == EC_OK)
        return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_CANNOT_START;
    fprintf(stderr, "engine-cored: there is no table %s; there are", table);
    for (size_t i = 0; reference_table(i) != NULL; i++)
        fprintf(stderr, "%s %s", i == 0 ? "" : ",", reference_table(i));
    fputc('\n', stderr);
    return EXIT_USAGE;
}

/* Who starts us with stderr closed must not get log lines into whatever has its number instead. */
static void fill_standard_descriptors(void)
{
    int fd;

    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

/* What is wrong on the command line is wrong usage. */
static bool check_sets(const struct arguments *arguments)
{
    struct config_set set = { 0 };
    struct ec_error why = { 0 };
    int rc = config_set_defaults(&set, &why);

    for (unsigned i = 0; i < arguments->source.set_count && rc == EC_OK; i++)
        rc = config_read_argument(&set, arguments->sets[i], &why);
    config_set_finish(&set);
    if (rc < 0)
        fprintf(stderr, "engine-cored: %s\n", why.text);
    return rc == EC_OK;
}

static void say_unknown(void *context, const char *where, const char *text)
{
    unsigned *count = context;

    fprintf(stderr, "%s: %s\n", where, text);
    (*count)++;
}

/* Everything that the start would look at, and unknown keys, which it lets pass. */
static int check_file(const struct arguments *arguments)
{
    unsigned unknown = 0;
    struct config_source source = arguments->source;
    struct config *config = NULL;
    struct ec_error why = { 0 };
    int rc;

    source.file = arguments->check;
    source.on_unknown = say_unknown;
    source.context = &unknown;
    rc = config_create(&source, &config, &why);
    if (rc == EC_OK)
        rc = config_add_check(config, log_settings_check, NULL, &why);
    if (rc == EC_OK)
        rc = config_add_check(config, clients_check_config, NULL, &why);
    if (rc == EC_OK)
        rc = config_add_check(config, breaker_check_config, NULL, &why);
    if (rc < 0)
        fprintf(stderr, "%s\n", why.text);
    config_destroy(config);
    return rc < 0 || unknown > 0 ? EXIT_CANNOT_START : EXIT_SUCCESS;
}

/* Root's own file is the system's. */
static void find_standard_files(struct config_source *source, char user_path[PATH_MAX])
{
    const char *base = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    int bytes = 0;

    source->standard[0] = CONFIG_FILE_SYSTEM;
    if (geteuid() == 0)
        return;
    if (base != NULL && base[0] == '/')
        bytes = snprintf(user_path, PATH_MAX, "%s/" CONFIG_FILE_NAME, base);
    else if (home != NULL && home[0] == '/')
        bytes = snprintf(user_path, PATH_MAX, "%s/.config/" CONFIG_FILE_NAME, home);
    if (bytes > 0 && bytes < PATH_MAX)
        source->standard[1] = user_path;
}

static int run(const struct arguments *arguments)
{
    struct config_source source = arguments->source;
    char user_path[PATH_MAX];
    char path[EC_SOCKET_PATH_BYTES + 256];
    struct counters counters = { 0 };
    struct before_answers before_answers = { 0 };
    struct notify notify = { .wait_ms = NOTIFY_WAIT_MS };
    struct ec_error why = { 0 };
    struct services *services = services_create();
    uv_loop_t loop;
    int rc;

    if (services == NULL) {
        fputs("engine-cored: no memory\n", stderr);
        return EXIT_CANNOT_START;
    }
    find_standard_files(&source, user_path);
    services->counters = &counters;
    services->before_answers = &before_answers;
    services->notify = &notify;
    services->config_source = &source;
    signal(SIGPIPE, SIG_IGN); /* stderr may be a pipe whose reader is gone */
    /* First of all: it is a copy of this process, and is to have no thread, no secret and no file. */
    rc = decode_nursery_start(decode_child_run, &services->decode_nursery, &why);
    if (rc < 0) {
        fprintf(stderr, "engine-cored: %s\n", why.text);
        return EXIT_CANNOT_START;
    }
    raise_descriptor_limit();
    services->started_ns = ec_real_ns();
    services->socket_path = choose_socket(arguments->socket_path, path, sizeof path);
    rc = take_listen_fds(services, &why);
    if (rc == EC_OK && services->listen_fd >= 0)
        services->socket_path =
            path_of_passed(services->listen_fd, services->socket_path, path, sizeof path);
    services->loop = &loop;
    if (rc < 0) {
        fprintf(stderr, "engine-cored: %s\n", why.text);
        return EXIT_CANNOT_START;
    }
    if (getrandom(&services->instance, sizeof services->instance, 0) !=
            (ssize_t)sizeof services->instance ||
        uv_loop_init(&loop) < 0) {
        fprintf(stderr, "engine-cored: cannot make the main loop: %s\n", strerror(errno));
        return EXIT_CANNOT_START;
    }
    rc = serve(services, &why);
    decode_nursery_end(services->decode_nursery);
    if (uv_loop_close(&loop) < 0)
        log_error("main", "handles of the main loop were left open");
    if (rc < 0)
        fprintf(stderr, "engine-cored: %s\n", why.text);
    services_destroy(services);
    return rc < 0 ? EXIT_CANNOT_START : EXIT_SUCCESS;
}

/* Clients bring descriptors by the dozen. The usual soft limit of 1,024 is for programs that call
 * select(), which nothing here does. */
static void raise_descriptor_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit); /* if not, the old limit is in force */
    }
}

static int serve(struct services *services, struct ec_error *why)
{
    struct watch watch = { .services = services };
    /* Signals first: one that comes during the start is heard as soon as the loop turns. */
    int rc = watch_begin(&watch, services, why);

    if (rc == EC_OK)
        rc = modules_start(daemon_modules, daemon_module_count, services, why);
    if (rc == EC_OK) {
        services_lock(services);
        log_info("main", "engine-cored " EC_VERSION " listens on %s", services->socket_path);
        notify_send(services->notify, "READY=1\nSTATUS=Listening on %s", services->socket_path);
        uv_run(services->loop, UV_RUN_DEFAULT);
        notify_send(services->notify, "STOPPING=1\nSTATUS=Stopping");
        log_info("main", "stopping");
        services_unlock(services);
        modules_stop(daemon_modules, daemon_module_count, services);
    }
    watch_end(&watch);
    /* Handles that were closed need a turn of the loop for their call-backs. */
    uv_run(services->loop, UV_RUN_NOWAIT);
    return rc;
}

static const char *choose_socket(const char *argument, char *buffer, size_t bytes)
{
    const char *from_environment = getenv("ENGINE_CORE_SOCKET");
    const char *runtime = getenv("XDG_RUNTIME_DIR");

    if (argument != NULL)
        return argument;
    if (from_environment != NULL && from_environment[0] != '\0')
        return from_environment;
    if (geteuid() != 0 && runtime != NULL && runtime[0] == '/') {
        snprintf(buffer, bytes, "%s/" EC_SOCKET_NAME, runtime);
        return buffer;
    }
    /* The place of the system service; what cannot be made shows at the bind. */
    if (mkdir(EC_SOCKET_SYSTEM_DIR, 0750) < 0 && errno != EEXIST)
        log_debug("main", "%s: %s", EC_SOCKET_SYSTEM_DIR, strerror(errno));
    return EC_SOCKET_SYSTEM_DIR "/" EC_SOCKET_NAME;
}

/* What the service manager passed: the listening sockets, of which that of the control plane is a Unix
 * socket and that of the metrics one of TCP on the loopback, and what an earlier run left with it. */
static int take_listen_fds(struct services *services, struct ec_error *why)
{
    char **names = NULL;
    const int count = sd_listen_fds_with_names(1, &names);
    struct ec_error ignored;
    int kept = 0;

    services->listen_fd = services->metrics_fd = -1;
    if (count < 0)
        return ec_fail(why, EC_ERR_SYSTEM, "passed descriptors: %s", strerror(-count));
    for (int i = 0; i < count; i++) {
        const int fd = SD_LISTEN_FDS_START + i;

        if (services->listen_fd < 0 && sd_is_socket_unix(fd, SOCK_STREAM, 1, NULL, 0) > 0) {
            services->listen_fd = fd;
        } else if (names != NULL && is_ours(names[i])) {
            kept++;
            fd_store_keep(&services->fd_store, names[i], fd, NULL); /* what is lost begins anew */
        } else if (services->metrics_fd < 0 && sd_is_socket(fd, AF_UNSPEC, SOCK_STREAM, 1) > 0 &&
                   http_check_listener(fd, &ignored) == EC_OK) {
            services->metrics_fd = fd;
        } else {
            log_warning("main", "the passed descriptor %s is not used",
                        names != NULL ? names[i] : "without a name");
            close(fd);
        }
    }
    for (int i = 0; names != NULL && names[i] != NULL; i++)
        free(names[i]);
    free(names);
    if (count > kept && services->listen_fd < 0 && services->metrics_fd < 0)
        return ec_fail(why, EC_ERR_STATE,
                       "none of the %d passed descriptors is a listening Unix stream socket",
                       count);
    return EC_OK;
}

/* Where a passed socket listens; the path that was chosen when it has no file. */
static const char *path_of_passed(int fd, const char *chosen, char *buffer, size_t bytes)
{
    struct sockaddr_un address = { 0 };
    socklen_t length = sizeof address;

    if (getsockname(fd, (struct sockaddr *)&address, &length) < 0 || address.sun_path[0] != '/')
        return chosen;
    snprintf(buffer, bytes, "%.*s", (int)sizeof address.sun_path, address.sun_path);
    return buffer;
}

/* Names under which the daemon leaves descriptors for its next run. */
static bool is_ours(const char *name)
{
    return strncmp(name, "segment-", 8) == 0 || strncmp(name, "client-", 7) == 0;
}

static void on_stop_signal(uv_signal_t *handle, int number)
{
    struct watch *watch = handle->data;

    log_info("main", "signal %s", strsignal(number));
    services_stop(watch->services);
}

static void on_reload_signal(uv_signal_t *handle, int number)
{
    struct watch *watch = handle->data;
    bool changed[EC_CONFIGS];
    struct ec_error why = { 0 };

    (void)number;
    config_reload_and_tell(watch->services, "SIGHUP", changed, &why);
}

static void on_watchdog(uv_timer_t *timer)
{
    struct watch *watch = timer->data;

    notify_send(watch->services->notify, "WATCHDOG=1");
}

static int watch_begin(struct watch *watch, struct services *services, struct ec_error *why)
{
    struct {
        uv_signal_t *handle;
        uv_signal_cb call_back;
        int number;
    } const signals[] = { { &watch->term, on_stop_signal, SIGTERM },
                          { &watch->interrupt, on_stop_signal, SIGINT },
                          { &watch->hang_up, on_reload_signal, SIGHUP } };
    uint64_t watchdog_us = 0;
    int rc = 0;

    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        uv_signal_init(services->loop, signals[i].handle);
        signals[i].handle->data = watch;
    }
    uv_timer_init(services->loop, &watch->watchdog);
    watch->watchdog.data = watch;
    for (size_t i = 0; i < sizeof signals / sizeof signals[0] && rc == 0; i++)
        rc = uv_signal_start(signals[i].handle, signals[i].call_back, signals[i].number);
    if (rc < 0)
        return ec_fail(why, EC_ERR_SYSTEM, "watch signals: %s", uv_strerror(rc));
    /* Twice as often as asked, from the loop itself: it pings only while it turns. */
    if (sd_watchdog_enabled(0, &watchdog_us) > 0 && watchdog_us >= 2000)
        uv_timer_start(&watch->watchdog, on_watchdog, 0, watchdog_us / 2000);
    return EC_OK;
}

static void watch_end(struct watch *watch)
{
    uv_close((uv_handle_t *)&watch->term, NULL);
    uv_close((uv_handle_t *)&watch->interrupt, NULL);
    uv_close((uv_handle_t *)&watch->hang_up, NULL);
    uv_close((uv_handle_t *)&watch->watchdog, NULL);
}
