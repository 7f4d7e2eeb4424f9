#include "telemetry/memory_snapshot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "segment/site_report.h"
#include "segment/telemetry.h"

static void fill(struct memory_snapshot *snapshot, const struct ec_client_segment *segment);

void memory_snapshots_finish(struct memory_snapshots *snapshots)
{
    for (unsigned i = 0; i < MEMORY_SNAPSHOTS_MAX; i++) {
        if (snapshots->kept[i] != NULL)
            free(snapshots->kept[i]->sites);
        free(snapshots->kept[i]);
    }
    *snapshots = (struct memory_snapshots) { 0 };
}

int memory_snapshots_take(struct memory_snapshots *snapshots, uint32_t client_id, const char *name,
                          const struct ec_client_segment *segment, int64_t now_ns,
                          const struct memory_snapshot **taken, struct ec_error *why)
{
    struct memory_snapshot *made = calloc(1, sizeof *made);
    const uint32_t sites = ec_site_report_rows(segment);
    struct memory_snapshot **place;

    if (made != NULL && sites > 0)
        made->sites = calloc(sites, sizeof made->sites[0]);
    if (made == NULL || (sites > 0 && made->sites == NULL)) {
        free(made);
        return ec_fail(why, EC_ERR_MEMORY, "no memory for a snapshot");
    }
    made->site_count = sites;
    made->client_id = client_id;
    made->real_ns = now_ns;
    snprintf(made->name, sizeof made->name, "%s", name != NULL ? name : "");
    fill(made, segment);

    made->id = ++snapshots->last_id;
    place = &snapshots->kept[made->id % MEMORY_SNAPSHOTS_MAX];
    if (*place != NULL)
        free((*place)->sites);
    free(*place);
    *place = made;
    *taken = made;
    return EC_OK;
}

const struct memory_snapshot *memory_snapshots_find(const struct memory_snapshots *snapshots,
                                                    uint32_t id, const char *name)
{
    const struct memory_snapshot *found = NULL;

    for (unsigned i = 0; i < MEMORY_SNAPSHOTS_MAX; i++) {
        const struct memory_snapshot *kept = snapshots->kept[i];

        if (kept == NULL)
            continue;
        if (name == NULL ? kept->id == id
                         : strcmp(kept->name, name) == 0 && (found == NULL || kept->id > found->id))
            found = kept;
    }
    return found;
}

static void fill(struct memory_snapshot *snapshot, const struct ec_client_segment *segment)
{
    struct ec_tag_report tags[EC_TAGS_MAX];
    struct ec_allocator_report allocators[EC_ALLOCATORS_MAX];
    struct ec_site_report site;
    struct ec_pulse_seen pulse;
    unsigned count = ec_telemetry_tags(segment, tags);

    for (unsigned i = 0; i < count; i++)
        snapshot->tags[tags[i].row] =
            (struct memory_amount) { tags[i].bytes, tags[i].count, tags[i].total };
    count = ec_telemetry_allocators(segment, allocators);
    for (unsigned i = 0; i < count; i++)
        snapshot->allocators[allocators[i].row] =
            (struct memory_amount) { allocators[i].current_bytes, allocators[i].count,
                                     allocators[i].total };
    for (uint32_t row = 0; row < snapshot->site_count; row++)
        if (ec_site_report_row(segment, row, &site))
            snapshot->sites[row] = (struct memory_amount) { site.bytes, site.count, site.total };
    ec_telemetry_pulse(segment, &pulse);
    snapshot->frame = pulse.frame;
}
