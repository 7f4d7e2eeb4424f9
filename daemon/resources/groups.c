/* groups.c - what is defined: groups, and the resources that they name. */
#define HASH_NONFATAL_OOM 1
#include "resources/state.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "resources/directory_writer.h"

static int desc_check_names(struct resource_desc *resources, uint32_t count, struct ec_error *why);
static bool group_is(const struct group *group, const struct group_desc *desc);
static int member_check(struct resources *resources, const struct resource_desc *desc,
                        uint32_t *added, struct ec_error *why);
static struct group *group_make(const struct group_desc *desc);
static int members_prepare(struct resources *resources, struct group *group,
                           const struct group_desc *desc);
static void members_forget(struct group *group);
static struct resource *resource_make(const struct resource_desc *desc);
static void resource_free(struct resource *resource);

static const char *const state_names[] = {
    [GROUP_UNLOADED] = "unloaded", [GROUP_LOADING] = "loading",     [GROUP_READY] = "ready",
    [GROUP_EVICTED] = "evicted",   [GROUP_UNLOADING] = "unloading", [GROUP_FAILED] = "failed",
};

static const char *const residency_names[] = {
    [RESIDENCY_EVICTABLE] = "evictable",
    [RESIDENCY_AUTO] = "auto",
    [RESIDENCY_PINNED] = "pinned",
};

int groups_may_define(struct resources *resources, const struct group_desc *desc,
                      struct ec_error *why)
{
    const struct group *group = groups_find(resources, desc->name);
    uint32_t added = 0;
    int rc;

    if (group != NULL && group_is(group, desc))
        return EC_OK;
    if (group != NULL)
        return ec_fail(why, EC_ERR_STATE, "group %s is already defined otherwise", desc->name);
    rc = desc_check_names(desc->resources, desc->count, why);
    for (uint32_t i = 0; i < desc->count && rc == EC_OK; i++)
        rc = member_check(resources, &desc->resources[i], &added, why);
    if (rc < 0)
        return rc;
    if (added > directory_room(resources->directory))
        return ec_fail(why, EC_ERR_LIMIT, "%u new resources, the directory has room for %u", added,
                       directory_room(resources->directory));
    return EC_AGAIN;
}

int groups_define(struct resources *resources, const struct group_desc *desc, struct ec_error *why)
{
    struct group *group;
    int rc = groups_may_define(resources, desc, why);

    if (rc != EC_AGAIN)
        return rc;
    group = group_make(desc);
    if (group == NULL || members_prepare(resources, group, desc) < 0)
        goto no_memory;
    HASH_ADD_STR(resources->groups, name, group);
    if (group->hh.tbl == NULL)
        goto no_memory;

    /* Nothing below can fail. */
    for (uint32_t i = 0; i < group->count; i++) {
        struct resource *member = group->members[i];

        if (member->group_count == 0) {
            rc = directory_add(resources->directory, member->name, &member->index);
            assert(rc == EC_OK);
            resources->by_index[member->index] = member;
        }
        member->groups[member->group_count++] = group;
    }
    resources->group_count++;
    return EC_OK;

no_memory:
    members_forget(group);
    return ec_fail(why, EC_ERR_MEMORY, "no memory for group %s", desc->name);
}

struct group *groups_find(struct resources *resources, const char *name)
{
    struct group *group = NULL;

    HASH_FIND_STR(resources->groups, name, group);
    return group;
}

void groups_free(struct resources *resources)
{
    struct group *group, *next;

    HASH_ITER(hh, resources->groups, group, next)
    {
        HASH_DEL(resources->groups, group);
        free(group->members);
        free(group);
    }
    for (uint32_t i = 0; i < EC_RESOURCES_MAX; i++) {
        resource_free(resources->by_index[i]);
        resources->by_index[i] = NULL;
    }
}

const char *group_state_name(enum group_state state)
{
    return state_names[state];
}

const char *residency_name(enum residency residency)
{
    return residency_names[residency];
}

bool residency_parse(const char *name, enum residency *residency)
{
    for (unsigned i = 0; i < sizeof residency_names / sizeof residency_names[0]; i++)
        if (strcmp(name, residency_names[i]) == 0) {
            *residency = (enum residency)i;
            return true;
        }
    return false;
}

uint64_t resource_bytes(const struct resource *resource)
{
    if (resource->presence != RESOURCE_DECODED && resource->presence != RESOURCE_READY)
        return 0;
    return heap_ranges_round(resource->decoded.bytes);
}

uint64_t group_bytes(const struct group *group)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < group->count; i++)
        bytes += resource_bytes(group->members[i]);
    return bytes;
}

enum residency resource_residency(const struct resource *of)
{
    enum residency strongest = RESIDENCY_EVICTABLE;

    for (uint32_t i = 0; i < of->group_count; i++)
        if (group_wants(of->groups[i]) && of->groups[i]->residency > strongest)
            strongest = of->groups[i]->residency;
    return strongest;
}

static int compare_names(const void *left, const void *right)
{
    const struct resource_desc *const *a = left, *const *b = right;

    return strcmp((*a)->name, (*b)->name);
}

/* No name twice: sorted, equal ones are neighbours. */
static int desc_check_names(struct resource_desc *resources, uint32_t count, struct ec_error *why)
{
    const struct resource_desc **sorted = calloc(count > 0 ? count : 1, sizeof *sorted);
    int rc = EC_OK;

    if (sorted == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory for %u resources", count);
    for (uint32_t i = 0; i < count; i++)
        sorted[i] = &resources[i];
    qsort(sorted, count, sizeof *sorted, compare_names);
    for (uint32_t i = 1; i < count && rc == EC_OK; i++)
        if (strcmp(sorted[i - 1]->name, sorted[i]->name) == 0)
            rc = ec_fail(why, EC_ERR_PARAM, "resource %s is named twice", sorted[i]->name);
    free(sorted);
    return rc;
}

static bool options_equal(const struct decode_options *a, const struct decode_options *b)
{
    return a->channels == b->channels && a->levels == b->levels;
}

static bool group_is(const struct group *group, const struct group_desc *desc)
{
    if (group->residency != desc->residency || group->priority != desc->priority ||
        group->count != desc->count)
        return false;
    for (uint32_t i = 0; i < group->count; i++) {
        const struct resource *member = group->members[i];
        const struct resource_desc *other = &desc->resources[i];

        if (strcmp(member->name, other->name) != 0 || strcmp(member->path, other->path) != 0 ||
            member->kind != other->kind || !options_equal(&member->options, &other->options))
            return false;
    }
    return true;
}

static struct resource *resource_find(struct resources *resources, const char *name)
{
    uint32_t index = ec_directory_find(resources->directory, name);

    return index != EC_RESOURCE_NONE ? resources->by_index[index] : NULL;
}

/* A resource of another group must be the same there. */
static int member_check(struct resources *resources, const struct resource_desc *desc,
                        uint32_t *added, struct ec_error *why)
{
    const struct resource *known = resource_find(resources, desc->name);

    if (known == NULL) {
        ++*added;
        return EC_OK;
    }
    if (strcmp(known->path, desc->path) == 0 && known->kind == desc->kind &&
        options_equal(&known->options, &desc->options))
        return EC_OK;
    return ec_fail(why, EC_ERR_STATE, "resource %s is %s of kind %s in group %s", desc->name,
                   known->path, decoder_kind_name(known->kind), known->groups[0]->name);
}

static struct group *group_make(const struct group_desc *desc)
{
    struct group *group = calloc(1, sizeof *group);

    if (group == NULL)
        return NULL;
    group->members = calloc(desc->count > 0 ? desc->count : 1, sizeof(struct resource *));
    if (group->members == NULL) {
        free(group);
        return NULL;
    }
    memcpy(group->name, desc->name, strlen(desc->name) + 1);
    group->residency = desc->residency;
    group->priority = desc->priority;
    return group;
}

/* Find or make the members, with room for one more group in each. Resources that are new have no group
 * yet, which is how members_forget() knows them. */
static int members_prepare(struct resources *resources, struct group *group,
                           const struct group_desc *desc)
{
    for (; group->count < desc->count; group->count++) {
        const struct resource_desc *row = &desc->resources[group->count];
        struct resource *member = resource_find(resources, row->name);
        struct group **grown;

        if (member == NULL)
            member = resource_make(row);
        if (member == NULL)
            return EC_ERR_MEMORY;
        group->members[group->count] = member;
        grown = realloc(member->groups, (member->group_count + 1) * sizeof(struct group *));
        if (grown == NULL) {
            group->count++;
            return EC_ERR_MEMORY;
        }
        member->groups = grown;
    }
    return EC_OK;
}

static void members_forget(struct group *group)
{
    if (group == NULL)
        return;
    for (uint32_t i = 0; i < group->count; i++)
        if (group->members[i]->group_count == 0)
            resource_free(group->members[i]);
    free(group->members);
    free(group);
}

static struct resource *resource_make(const struct resource_desc *desc)
{
    struct resource *resource = calloc(1, sizeof *resource);

    if (resource == NULL)
        return NULL;
    resource->path = strdup(desc->path);
    if (resource->path == NULL) {
        free(resource);
        return NULL;
    }
    memcpy(resource->name, desc->name, strlen(desc->name) + 1);
    resource->kind = desc->kind;
    resource->options = desc->options;
    return resource;
}

static void resource_free(struct resource *resource)
{
    if (resource == NULL)
        return;
    free(resource->job);
    free(resource->groups);
    free(resource->path);
    free(resource);
}
