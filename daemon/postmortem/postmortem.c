/* postmortem.c - notice deaths, wait a moment for how it happened, keep a record.
 *
 * What a client left is written down at once, as the body of the record. Its exit status often comes a
 * little later, when its parent has collected it: the record waits for that, but not for long. */
#include "postmortem/postmortem.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "clients/clients.h"
#include "daemon/config.h"
#include "daemon/log.h"
#include "daemon/services.h"
#include "foundation/real_time.h"
#include "postmortem/describe.h"
#include "postmortem/exit_status.h"
#include "postmortem/state.h"

#define FIRST_LOOK_MS 5 /* others are told of the death first: a record waits for the disk */
#define LOOK_MS 50
#define LOOKS_MAX 20 /* a second: a parent that has not looked by then may never do */

struct death {
    struct death *next;
    int pidfd; /* ours; -1: the process was gone before */
    pid_t pid;
    uint32_t client_id;
    char name[CLIENT_NAME_BYTES];
    int64_t unix_ns;
    char *body; /* a JSON object */
    unsigned looks;
};

/* The head of a record, into an open object. */
static void write_head(const struct postmortem *postmortem, const char *kind, int64_t at_unix_ns,
                       struct ec_json_writer *w)
{
    ec_json_member_u64(w, "id", records_next_id(postmortem->records));
    ec_json_member_string(w, "kind", kind);
    ec_json_member_i64(w, "unix_ns", at_unix_ns);
}

/* Returns its id; 0: it was lost, which the log says. */
static uint32_t add_record(struct postmortem *postmortem, const struct ec_json_writer *w)
{
    if (ec_json_writer_status(w) == EC_OK)
        return records_add(postmortem->records, w->base, (uint32_t)w->bytes);
    log_error("postmortem", "a record was lost: more than %u bytes, or no memory",
              RECORD_BYTES_MAX);
    return 0;
}

/* ---- clients --------------------------------------------------------------------------------- */

static void end_death(struct postmortem *postmortem, struct death *death, bool known, int status)
{
    struct ec_json_iterator members =
        ec_json_iterate(ec_json_root(death->body, strlen(death->body)));
    struct death **at = &postmortem->deaths;
    struct ec_json_span name, value;
    struct ec_json_writer w;
    char text[64];
    uint32_t id;

    ec_json_writer_init_growing(&w, ec_json_grow_heap, NULL, RECORD_BYTES_MAX);
    ec_json_object_begin(&w);
    write_head(postmortem, "client", death->unix_ns, &w);
    describe_status(known, status, &w);
    while (ec_json_next_member(&members, &name, &value))
        if (ec_json_get_text(name, text, sizeof text) == EC_OK)
            ec_json_member_raw(&w, text, value);
    ec_json_object_end(&w);
    id = add_record(postmortem, &w);
    if (id != 0)
        log_info("postmortem", "client %u (%s, pid %d) has a record: engine-ctl postmortem show %u",
                 death->client_id, death->name, (int)death->pid, id);
    else
        log_error("postmortem", "client %u (%s, pid %d) ended without a record", death->client_id,
                  death->name, (int)death->pid);
    free(w.base);
    while (*at != death)
        at = &(*at)->next;
    *at = death->next;
    if (death->pidfd >= 0)
        close(death->pidfd);
    free(death->body);
    free(death);
}

static void on_look(uv_timer_t *timer)
{
    struct postmortem *postmortem = timer->data;
    struct death *death, *next;

    for (death = postmortem->deaths; death != NULL; death = next) {
        int status = 0;
        bool known = death->pidfd >= 0 && exit_status_of(death->pidfd, death->pid, &status);

        next = death->next;
        if (known || death->pidfd < 0 || ++death->looks >= LOOKS_MAX)
            end_death(postmortem, death, known, status);
    }
    if (postmortem->deaths == NULL)
        uv_timer_stop(timer);
}

/* Everything that is known; less of it where that would be too much. */
static char *write_body(struct services *services, const struct client *client)
{
    struct ec_json_writer w;

    for (int brief = 0; brief < 2; brief++) {
        ec_json_writer_init_growing(&w, ec_json_grow_heap, NULL, RECORD_BYTES_MAX - 1024);
        ec_json_object_begin(&w);
        describe_client(services, client, brief != 0, &w);
        ec_json_object_end(&w);
        ec_json_line_end(&w);
        if (ec_json_writer_status(&w) == EC_OK) {
            w.base[w.bytes - 1] = '\0'; /* instead of the line end */
            return w.base;
        }
        free(w.base);
    }
    return NULL;
}

static void client_died(void *context, struct client *client)
{
    struct postmortem *postmortem = context;
    struct death *death = calloc(1, sizeof *death);
    int pidfd = client_pidfd(client);

    if (death != NULL)
        death->body = write_body(postmortem->services, client);
    if (death == NULL || death->body == NULL) {
        free(death);
        log_error("postmortem", "no memory for the record of client %u", client->id);
        return;
    }
    death->pidfd = pidfd >= 0 ? fcntl(pidfd, F_DUPFD_CLOEXEC, 3) : -1;
    death->pid = client->pid;
    death->client_id = client->id;
    memcpy(death->name, client->name, sizeof death->name);
    death->unix_ns = ec_wall_ns();
    death->next = postmortem->deaths;
    postmortem->deaths = death;
    if (!uv_is_active((uv_handle_t *)postmortem->timer))
        uv_timer_start(postmortem->timer, on_look, FIRST_LOOK_MS, LOOK_MS);
}

/* ---- the daemon before ----------------------------------------------------------------------- */

static void record_daemon(struct postmortem *postmortem, const struct crash_found *found)
{
    struct ec_json_writer w;
    uint32_t id;

    ec_json_writer_init_growing(&w, ec_json_grow_heap, NULL, RECORD_BYTES_MAX);
    ec_json_object_begin(&w);
    write_head(postmortem, "daemon", found->beat_unix_ns, &w);
    describe_daemon(found, &w);
    ec_json_object_end(&w);
    id = add_record(postmortem, &w);
    free(w.base);
    if (id != 0)
        log_warning(
            "postmortem",
            "the last run (pid %d) did not end in good order: engine-ctl postmortem show %u",
            (int)found->pid, id);
    else
        log_error("postmortem", "the last run (pid %d) did not end in good order, without a record",
                  (int)found->pid);
}

/* ---- life ------------------------------------------------------------------------------------ */

static void set_limits(struct postmortem *postmortem)
{
    const struct config *config = postmortem->services->config;

    records_set_limits(postmortem->records,
                       (uint32_t)config_integer(config, EC_CONFIG_postmortem_count),
                       (uint64_t)config_integer(config, EC_CONFIG_postmortem_bytes));
}

static void on_config(void *context, enum ec_config_id id)
{
    if (id == EC_CONFIG_postmortem_count || id == EC_CONFIG_postmortem_bytes)
        set_limits(context);
}

/* Where records lie: as configured, in what the service manager gives us, or beside the socket. */
static void choose_directory(const struct services *services, char *path, size_t bytes)
{
    const char *configured = config_string(services->config, EC_CONFIG_postmortem_directory);
    const char *state = getenv("STATE_DIRECTORY");

    if (configured[0] != '\0')
        snprintf(path, bytes, "%s", configured);
    else if (state != NULL && state[0] == '/' && strchr(state, ':') == NULL)
        snprintf(path, bytes, "%s/postmortem", state);
    else
        snprintf(path, bytes, "%s.postmortem", services->socket_path);
}

int postmortem_init(struct services *services, struct ec_error *why)
{
    static const struct client_hooks hooks = { .died = client_died };
    struct postmortem *postmortem = calloc(1, sizeof *postmortem);
    char directory[4096];
    int rc;

    if (postmortem == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory for post-mortems");
    services->postmortem = postmortem;
    postmortem->services = services;
    choose_directory(services, directory, sizeof directory);
    rc = records_create(services->loop, directory, &postmortem->records, why);
    if (rc < 0)
        return rc;
    postmortem->timer = calloc(1, sizeof *postmortem->timer);
    if (postmortem->timer == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory for a timer");
    uv_timer_init(services->loop, postmortem->timer);
    postmortem->timer->data = postmortem;
    rc = clients_add_hooks(services->clients, &hooks, postmortem);
    return rc < 0 ? rc : config_on_change(services->config, on_config, postmortem);
}

int postmortem_post_init(struct services *services, struct ec_error *why)
{
    const struct crash_found *found = crash_record_found(services);

    (void)why;
    if (found != NULL)
        record_daemon(services->postmortem, found);
    set_limits(services->postmortem);
    return EC_OK;
}

static void on_closed(uv_handle_t *handle)
{
    free(handle);
}

void postmortem_shutdown(struct services *services)
{
    struct postmortem *postmortem = services->postmortem;

    if (postmortem == NULL)
        return;
    while (postmortem->deaths != NULL) {
        struct death *death = postmortem->deaths;
        int status = 0;
        bool known = death->pidfd >= 0 && exit_status_of(death->pidfd, death->pid, &status);

        end_death(postmortem, death, known, status);
    }
    if (postmortem->timer != NULL)
        uv_close((uv_handle_t *)postmortem->timer, on_closed);
    records_destroy(postmortem->records);
    free(postmortem);
    services->postmortem = NULL;
}
