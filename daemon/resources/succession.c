/* succession.c - see succession.h. */
#include "resources/succession.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clients/clients.h"
#include "daemon/before_answers.h"
#include "daemon/fd_store.h"
#include "daemon/heritage.h"
#include "daemon/log.h"
#include "daemon/segments.h"
#include "daemon/services.h"
#include "daemon/state_file.h"
#include "foundation/json/json_scan.h"
#include "foundation/json/json_writer.h"
#include "proto/handle.h"
#include "resources/directory_writer.h"
#include "resources/state.h"
#include "segment/references.h"

#define FORMAT 1
#define FILE_BYTES_MAX (32u << 20) /* EC_RESOURCES_MAX resources with long names and paths */
#define SUFFIX ".assets"
#define PATH_BYTES 640
#define NAME_BYTES 4096 /* of a path in a row */

struct succession {
    char path[PATH_BYTES];
    bool is_behind; /* something has changed since it was written */
    struct resources *resources;
};

/* ---- writing --------------------------------------------------------------------------------- */

static void write_group(const struct group *group, struct ec_json_writer *w)
{
    ec_json_object_begin(w);
    ec_json_member_string(w, "name", group->name);
    ec_json_member_string(w, "residency", residency_name(group->residency));
    ec_json_member_u64(w, "priority", group->priority);
    ec_json_member_boolean(w, "pinned", group->pinned);
    ec_json_member_boolean(w, "asked", group->asked);
    /* One that was loading has to be asked for again: who waited for it got an error. */
    ec_json_member_boolean(w, "wanted",
                           group->state == GROUP_READY || group->state == GROUP_EVICTED);
    ec_json_member_array(w, "depends");
    for (uint32_t i = 0; i < group->depend_count; i++)
        ec_json_string(w, group->depends[i]);
    ec_json_array_end(w);
    ec_json_member_array(w, "resources");
    for (uint32_t i = 0; i < group->count; i++) {
        const struct resource *member = group->members[i];

        ec_json_object_begin(w);
        ec_json_member_string(w, "name", member->name);
        ec_json_member_string(w, "path", member->path);
        ec_json_member_u64(w, "kind", member->kind);
        ec_json_member_u64(w, "channels", member->options.channels);
        ec_json_member_u64(w, "levels", member->options.levels);
        ec_json_object_end(w);
    }
    ec_json_array_end(w);
    ec_json_object_end(w);
}

static void write_all(const struct resources *resources, struct ec_json_writer *w)
{
    const struct group *group;

    ec_json_object_begin(w);
    ec_json_member_u64(w, "format", FORMAT);
    ec_json_member_hex64(w, "instance", resources->services->instance);
    ec_json_member_array(w, "groups");
    for (group = resources->groups; group != NULL; group = group->hh.next)
        write_group(group, w);
    ec_json_array_end(w);
    ec_json_object_end(w);
    ec_json_line_end(w);
}

static void write_now(struct succession *succession)
{
    struct ec_json_writer w;
    int rc;

    ec_json_writer_init_growing(&w, ec_json_grow_heap, NULL, FILE_BYTES_MAX);
    write_all(succession->resources, &w);
    rc = ec_json_writer_status(&w) == EC_OK ? state_file_replace(succession->path, w.base, w.bytes)
                                            : ENOMEM;
    if (rc != 0)
        log_warning(RESOURCES_MODULE,
                    "cannot write %s: %s; a daemon after this one would lose assets",
                    succession->path, strerror(rc));
    free(w.base);
}

static void write_if_behind(void *context)
{
    struct succession *succession = context;

    if (!succession->is_behind)
        return;
    succession->is_behind = false;
    write_now(succession);
}

void succession_note(struct resources *resources)
{
    if (resources->succession == NULL)
        return;
    resources->succession->is_behind = true;
    before_answers_note(resources->services->before_answers);
}

void succession_write(struct resources *resources)
{
    if (resources->succession != NULL)
        write_if_behind(resources->succession);
}

/* ---- reading definitions --------------------------------------------------------------------- */

/* A text that is kept as long as the definition is being made; NULL: missing, empty, too long. */
static char *text_of(struct ec_json_span object, const char *name, size_t bytes_max)
{
    char *text = malloc(bytes_max + 1);

    if (text != NULL &&
        (ec_json_get_text(ec_json_get_member(object, name), text, bytes_max + 1) < 0 ||
         text[0] == '\0')) {
        free(text);
        return NULL;
    }
    return text;
}

static bool number_of(struct ec_json_span object, const char *name, uint64_t max, uint64_t *number)
{
    return ec_json_get_u64(ec_json_get_member(object, name), number) == EC_OK && *number <= max;
}

static unsigned count_of(struct ec_json_span array)
{
    struct ec_json_iterator items = ec_json_iterate(array);
    struct ec_json_span item;
    unsigned count = 0;

    while (ec_json_next_element(&items, &item))
        count++;
    return count;
}

static void free_desc(struct group_desc *desc)
{
    for (uint32_t i = 0; i < desc->count; i++) {
        free((char *)(uintptr_t)desc->resources[i].name);
        free((char *)(uintptr_t)desc->resources[i].path);
    }
    for (uint32_t i = 0; i < desc->depend_count; i++)
        free((char *)(uintptr_t)desc->depends[i]);
    free(desc->resources);
    free(desc->depends);
    free((char *)(uintptr_t)desc->name);
}

static bool read_resource(struct ec_json_span row, struct resource_desc *desc)
{
    uint64_t kind, channels, levels;

    desc->name = text_of(row, "name", EC_RESOURCE_NAME_BYTES - 1);
    desc->path = text_of(row, "path", NAME_BYTES);
    if (desc->name == NULL || desc->path == NULL || !number_of(row, "kind", EC_KIND_IMAGE, &kind) ||
        !number_of(row, "channels", 4, &channels) || !number_of(row, "levels", 64, &levels))
        return false;
    desc->kind = (enum ec_resource_kind)kind;
    desc->options.channels = (uint32_t)channels;
    desc->options.levels = (uint32_t)levels;
    return true;
}

static bool read_desc(struct ec_json_span row, struct group_desc *desc)
{
    struct ec_json_span depends = ec_json_get_member(row, "depends"),
                        rows = ec_json_get_member(row, "resources"), item;
    struct ec_json_iterator items;
    char text[GROUP_NAME_BYTES];
    uint64_t priority;

    desc->name = text_of(row, "name", GROUP_NAME_BYTES - 1);
    desc->resources = calloc(count_of(rows) + 1, sizeof *desc->resources);
    desc->depends = calloc(count_of(depends) + 1, sizeof *desc->depends);
    if (desc->name == NULL || desc->resources == NULL || desc->depends == NULL ||
        ec_json_get_text(ec_json_get_member(row, "residency"), text, sizeof text) < 0 ||
        !residency_parse(text, &desc->residency) ||
        !number_of(row, "priority", LOAD_PRIORITY_MAX, &priority))
        return false;
    desc->priority = (unsigned)priority;
    items = ec_json_iterate(rows);
    while (ec_json_next_element(&items, &item))
        if (!read_resource(item, &desc->resources[desc->count++]))
            return false;
    items = ec_json_iterate(depends);
    while (ec_json_next_element(&items, &item)) {
        if (ec_json_get_text(item, text, sizeof text) < 0)
            return false;
        desc->depends[desc->depend_count++] = strdup(text);
        if (desc->depends[desc->depend_count - 1] == NULL)
            return false;
    }
    return true;
}

static int define_group(struct resources *resources, struct ec_json_span row, struct ec_error *why)
{
    struct group_desc desc = { 0 };
    bool pinned = false, asked = false, wanted = false;
    struct group *group;
    int rc = EC_OK;

    if (!read_desc(row, &desc) ||
        ec_json_get_boolean(ec_json_get_member(row, "pinned"), &pinned) < 0 ||
        ec_json_get_boolean(ec_json_get_member(row, "asked"), &asked) < 0 ||
        ec_json_get_boolean(ec_json_get_member(row, "wanted"), &wanted) < 0)
        rc = ec_fail(why, EC_ERR_PARAM, "group %s is not whole",
                     desc.name != NULL ? desc.name : "without a name");
    if (rc == EC_OK)
        rc = groups_define(resources, &desc, 1, why);
    group = rc == EC_OK ? groups_find(resources, desc.name) : NULL;
    if (group != NULL) {
        group->pinned = pinned;
        group->asked = asked;
        group->state = wanted ? GROUP_EVICTED : GROUP_UNLOADED;
    }
    free_desc(&desc);
    return rc;
}

int succession_read(struct resources *resources, const char *text, unsigned long bytes,
                    unsigned long long instance, struct ec_error *why)
{
    struct ec_json_fault fault = { 0 };
    struct ec_json_iterator groups;
    struct ec_json_span root, row;
    uint64_t format = 0, of = 0;
    int rc = EC_OK;

    if (ec_json_check(text, bytes, NULL, &fault) < 0)
        return ec_fail(why, EC_ERR_PARSE, "%s at byte %zu", fault.reason, fault.offset);
    root = ec_json_root(text, bytes);
    if (!number_of(root, "format", FORMAT, &format) || format != FORMAT ||
        ec_json_get_hex64(ec_json_get_member(root, "instance"), &of) < 0 || of != instance)
        return ec_fail(why, EC_ERR_PARAM, "it is not of the run that left the assets");
    groups = ec_json_iterate(ec_json_get_member(root, "groups"));
    while (rc == EC_OK && ec_json_next_element(&groups, &row))
        rc = define_group(resources, row, why);
    return rc;
}

/* ---- taking over the directory --------------------------------------------------------------- */

/* What an entry says of its bytes. This program wrote it, but may have been killed while it did. */
static bool read_entry(const struct resources *resources, uint32_t index, uint64_t *offset,
                       struct decoded *decoded)
{
    const struct ec_directory_entry *entry = &resources->directory->entries[index];

    *offset = atomic_load_explicit(&entry->offset, memory_order_relaxed);
    *decoded = (struct decoded) {
        .bytes = atomic_load_explicit(&entry->bytes, memory_order_relaxed),
        .kind = (enum ec_resource_kind)atomic_load_explicit(&entry->kind, memory_order_relaxed),
        .width = atomic_load_explicit(&entry->width, memory_order_relaxed),
        .height = atomic_load_explicit(&entry->height, memory_order_relaxed),
        .channels = atomic_load_explicit(&entry->channels, memory_order_relaxed),
        .stride = atomic_load_explicit(&entry->stride, memory_order_relaxed),
        .levels = atomic_load_explicit(&entry->levels, memory_order_relaxed),
    };
    return *offset >= EC_SEGMENT_HEADER_BYTES && *offset % HEAP_PAGE_BYTES == 0 &&
           *offset <= resources->heap.bytes &&
           heap_ranges_round(decoded->bytes) <= resources->heap.bytes - *offset &&
           decoded->kind <= EC_KIND_IMAGE;
}

/* The bytes of an entry, shared with another entry that has the same. NULL: none that can be used. */
static struct content *take_content(struct resources *resources, struct content **taken,
                                    uint32_t index)
{
    struct decoded decoded;
    uint64_t offset;

    if (!read_entry(resources, index, &offset, &decoded))
        return NULL;
    if (asset_heap_take_at(&resources->heap, offset, decoded.bytes))
        return content_adopt(&decoded, offset);
    for (uint32_t i = 0; i < index; i++)
        if (taken[i] != NULL && taken[i]->offset == offset &&
            taken[i]->decoded.bytes == decoded.bytes) {
            taken[i]->users++;
            return taken[i];
        }
    return NULL;
}

/* An entry that nobody wants, or that has no definition any more: its bytes stay while it is held. */
static void keep_old_life(struct resources *resources, uint32_t index, struct content *content)
{
    struct old_life *life = calloc(1, sizeof *life);

    if (life == NULL)
        return; /* its range stays taken: nobody reads wrong bytes */
    *life = (struct old_life) { .next = resources->old_lives,
                                .index = index,
                                .handle = directory_handle(resources->directory, index),
                                .content = content };
    resources->old_lives = life;
}

static void drop_entry(struct resources *resources, uint32_t index)
{
    struct resource *resource = resources->by_index[index];
    uint32_t next = index;

    directory_advance(resources->directory, &next, EC_RESOURCE_UNLOADED);
    if (resource == NULL || next == index)
        return;
    resources->by_index[index] = NULL; /* retired: the name has moved */
    resources->by_index[next] = resource;
    resource->index = next;
}

static void adopt_entry(struct resources *resources, struct content **taken, uint32_t index)
{
    struct ec_directory_entry *entry = &resources->directory->entries[index];
    struct resource *resource = resources->by_index[index];
    const enum ec_resource_state state = directory_state(resources->directory, index);
    const uint32_t generation = directory_generation(resources->directory, index);

    if (state != EC_RESOURCE_READY && state != EC_RESOURCE_EVICTING) {
        if (state == EC_RESOURCE_LOADING)
            directory_set_state(resources->directory, index, EC_RESOURCE_UNLOADED);
        return;
    }
    taken[index] = take_content(resources, taken, index);
    if (state == EC_RESOURCE_READY && (resource == NULL || resource->needed == 0))
        ec_reference_mark(&entry->life, generation);
    if (taken[index] == NULL) { /* what it says cannot be */
        log_warning(RESOURCES_MODULE, "entry %u of the directory makes no sense; it is dropped",
                    index);
        if (state == EC_RESOURCE_READY && resource != NULL && resource->needed > 0)
            ec_reference_mark(&entry->life, generation);
        drop_entry(resources, index);
        return;
    }
    if (resource == NULL) {
        keep_old_life(resources, index, taken[index]);
        return;
    }
    resource->presence = RESOURCE_READY;
    resource->content = taken[index];
    resource->known_bytes = taken[index]->decoded.bytes;
    resources->ready++;
    if (resource->needed == 0) {
        resource->leaving = true;
        resources->leaving_count++;
    } else if (state == EC_RESOURCE_EVICTING) {
        ec_reference_unmark(&entry->life, generation);
    }
}

static void adopt_directory(struct resources *resources)
{
    const uint32_t high = atomic_load_explicit(&resources->directory->high, memory_order_relaxed);
    struct content **taken = calloc(EC_RESOURCES_MAX, sizeof(struct content *));

    if (taken == NULL)
        return; /* cannot be so early; the heap is empty then, and all entries are stale */
    for (struct group *group = resources->groups; group != NULL; group = group->hh.next)
        for (uint32_t i = 0; group_wants(group) && i < group->count; i++)
            group->members[i]->needed++;
    for (uint32_t i = 0; i < high && i < EC_RESOURCES_MAX; i++)
        adopt_entry(resources, taken, i);
    free(taken);
    asset_heap_clear_free(&resources->heap); /* what was being loaded, or freed */
}

/* What a wanted group lacks was evicted, or is to be loaded again when it is asked for. */
static void settle_groups(struct resources *resources)
{
    for (struct group *group = resources->groups; group != NULL; group = group->hh.next) {
        uint32_t ready = 0, leaving = 0;

        for (uint32_t i = 0; i < group->count; i++) {
            ready += group->members[i]->presence == RESOURCE_READY && !group->members[i]->leaving;
            leaving += group->members[i]->leaving;
        }
        if (group_wants(group)) {
            group->state = ready == group->count ? GROUP_READY : GROUP_EVICTED;
            group_link_wanted(resources, group);
        } else if (leaving > 0) {
            group->state = GROUP_UNLOADING;
        }
    }
}

static void inherit(struct resources *resources)
{
    struct ec_error why = { 0 };
    size_t bytes;
    char *text = state_file_read(resources->succession->path, FILE_BYTES_MAX, &bytes, &why);

    if (text == NULL || succession_read(resources, text, bytes,
                                        heritage_instance(resources->services->heritage), &why) < 0)
        log_warning(
            RESOURCES_MODULE, "%s: %s; assets of the last run stay only while they are held",
            resources->succession->path, why.text[0] != '\0' ? why.text : "it is not there");
    free(text);
    adopt_directory(resources);
    settle_groups(resources);
    log_info(RESOURCES_MODULE, "%u resources of the last run are there, in %u groups",
             resources->ready, resources->group_count);
}

/* ---- life ------------------------------------------------------------------------------------ */

void succession_begin(struct resources *resources)
{
    struct services *services = resources->services;

    if (!fd_store_is_used(services->fd_store))
        return;
    resources->succession = calloc(1, sizeof *resources->succession);
    if (resources->succession == NULL)
        return;
    resources->succession->resources = resources;
    snprintf(resources->succession->path, PATH_BYTES, "%.*s" SUFFIX, PATH_BYTES - 32,
             services->socket_path);
    before_answers_add(services->before_answers, write_if_behind, resources->succession);
    if (segments_are_kept(services->segments))
        inherit(resources);
    succession_note(resources);
}

void succession_end(struct resources *resources)
{
    struct succession *succession = resources->succession;

    if (succession == NULL)
        return;
    if (heritage_is_ours(resources->services->heritage))
        write_if_behind(succession);
    before_answers_remove(resources->services->before_answers, succession);
    resources->succession = NULL;
    free(succession);
}
