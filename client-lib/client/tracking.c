/* tracking.c - call sites of a client's allocators. */
#include <engine-core/tracking.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/client.h"
#include "foundation/memory/tracker.h"
#include "segment/site_report.h"

#define SAMPLE_BYTES_MAX (1ull << 40)
#define LEAKS_MAX 64

/* What is chosen when nobody says how much, and what begins by itself; 0: nothing does. In a release the plain
 * way to a block stays free of any look until somebody asks. */
#if EC_TIER_DEBUG
#define SAMPLE_BYTES_DEFAULT 1
#define SAMPLE_BYTES_BY_ITSELF 1
#elif EC_TIER_DEVELOPMENT
#define SAMPLE_BYTES_DEFAULT (512u * 1024)
#define SAMPLE_BYTES_BY_ITSELF SAMPLE_BYTES_DEFAULT
#else
#define SAMPLE_BYTES_DEFAULT (512u * 1024)
#define SAMPLE_BYTES_BY_ITSELF 0
#endif

static struct ec_tracker *tracker_of(struct ec_client *client);
static uint64_t environment_or(uint64_t otherwise);
static bool passes(const struct ec_client_segment *own, const struct ec_site_report *site,
                   const char *filter);
static void print_leak(const struct ec_client_segment *own, const struct ec_site_report *site,
                       int fd);

int ec_tracking_start(struct ec_client *client, uint64_t sample_bytes, struct ec_error *why)
{
    const uint64_t bytes = sample_bytes != 0 ? sample_bytes : SAMPLE_BYTES_DEFAULT;
    struct ec_tracker *tracker;
    int rc = EC_OK;

    if (client == NULL || client->memory == NULL)
        return ec_fail(why, EC_ERR_PARAM, "track memory: there is no client");
    if (bytes > SAMPLE_BYTES_MAX)
        return ec_fail(why, EC_ERR_PARAM,
                       "track memory: sample_bytes is %" PRIu64 ", expected at most %llu", bytes,
                       SAMPLE_BYTES_MAX);
    pthread_mutex_lock(&client->observing_lock);
    tracker = tracker_of(client);
    if (tracker != NULL) {
        ec_tracker_update_modules(tracker);
        ec_tracker_set(tracker, bytes);
    } else if ((tracker = calloc(1, sizeof *tracker)) != NULL) {
        ec_tracker_start(tracker, client->memory, &ec_client_own(client)->tracking, bytes);
        /* Release: whoever finds it finds it whole. Pairs with the acquire in tracker_of(). */
        atomic_store_explicit(&client->tracker, tracker, memory_order_release);
    } else {
        rc = ec_fail(why, EC_ERR_MEMORY, "track memory: no memory");
    }
    pthread_mutex_unlock(&client->observing_lock);
    return rc;
}

void ec_tracking_stop(struct ec_client *client)
{
    struct ec_tracker *tracker;

    if (client == NULL)
        return;
    /* Under the lock: a start at the same time comes before or after, not in between. */
    pthread_mutex_lock(&client->observing_lock);
    tracker = tracker_of(client);
    if (tracker != NULL)
        ec_tracker_set(tracker, 0);
    pthread_mutex_unlock(&client->observing_lock);
}

void ec_client_tracking_begin(struct ec_client *client)
{
    const uint64_t bytes = environment_or(SAMPLE_BYTES_BY_ITSELF);
    struct ec_error why;

    if (bytes != 0)
        (void)ec_tracking_start(client, bytes, &why); /* the program must not fail for it */
}

/* Modules that came since the last look, for sites that have come since. */
void ec_client_tracking_look(struct ec_client *client)
{
    struct ec_tracker *tracker = tracker_of(client);

    if (tracker != NULL && atomic_load_explicit(&tracker->has_news, memory_order_relaxed))
        ec_tracker_update_modules(tracker);
}

void ec_client_tracking_finish(struct ec_client *client)
{
    struct ec_tracker *tracker = tracker_of(client);

    ec_tracker_finish(tracker);
    free(tracker);
    atomic_store_explicit(&client->tracker, NULL, memory_order_relaxed);
}

int ec_tracking_leaks(struct ec_client *client, const char *filter, int fd)
{
    const struct ec_client_segment *own;
    struct ec_site_report *sites;
    struct ec_tracker *tracker;
    unsigned count, held = 0;

    if (client == NULL)
        return EC_ERR_PARAM;
    own = ec_client_own(client);
    tracker = tracker_of(client);
    if (tracker != NULL)
        ec_tracker_update_modules(tracker);
    sites = malloc(EC_SITES_MAX * sizeof *sites);
    if (sites == NULL)
        return EC_ERR_MEMORY;
    count = ec_site_report_top(own, EC_SITES_BY_BYTES, sites, EC_SITES_MAX);
    for (unsigned i = 0; i < count; i++) {
        if (!passes(own, &sites[i], filter))
            continue;
        if (held++ < LEAKS_MAX)
            print_leak(own, &sites[i], fd);
    }
    free(sites);
    return (int)held;
}

static struct ec_tracker *tracker_of(struct ec_client *client)
{
    return atomic_load_explicit(&client->tracker, memory_order_acquire);
}

/* ENGINE_CORE_SAMPLE, where it is a number: 0 for none. */
static uint64_t environment_or(uint64_t otherwise)
{
    const char *text = getenv("ENGINE_CORE_SAMPLE");
    uint64_t bytes;
    char *end;

    if (text == NULL || text[0] < '0' || text[0] > '9')
        return otherwise;
    errno = 0;
    bytes = strtoull(text, &end, 10);
    return *end == '\0' && errno == 0 ? bytes : otherwise;
}

static bool passes(const struct ec_client_segment *own, const struct ec_site_report *site,
                   const char *filter)
{
    struct ec_module_report module;

    if (filter == NULL || strstr(site->file, filter) != NULL)
        return true;
    for (uint32_t i = 0; i < site->depth; i++)
        if (ec_module_report_find(own, site, site->frames[i], &module) &&
            strstr(module.path, filter) != NULL)
            return true;
    return false;
}

static void print_leak(const struct ec_client_segment *own, const struct ec_site_report *site,
                       int fd)
{
    const uint32_t first = ec_site_report_frame(own, site);
    struct ec_module_report module;

    dprintf(fd, "%" PRIu64 " bytes in %" PRIu64 " blocks", site->bytes, site->count);
    if (site->file[0] != '\0')
        dprintf(fd, " at %s:%" PRIu32, site->file, site->line);
    dprintf(fd, "\n");
    for (uint32_t i = first; i < site->depth; i++)
        if (ec_module_report_find(own, site, site->frames[i], &module))
            dprintf(fd, "    %s 0x%" PRIx64 "\n", module.path, site->frames[i] - module.bias);
        else
            dprintf(fd, "    ? 0x%" PRIx64 "\n", site->frames[i]);
}
