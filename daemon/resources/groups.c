/* groups.c - what is defined: groups, the resources that they name, and the groups that they depend on. */
#define HASH_NONFATAL_OOM 1
#include "resources/state.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "resources/directory_writer.h"
#include "resources/succession.h"

/* A walk along dependencies: where it came from, for the text of a cycle. */
struct walk {
    const struct walk *before;
    const struct group *group;
    unsigned level;
};

static int define_all(struct resources *resources, const struct group_desc *descs, uint32_t count,
                      bool keep, struct ec_error *why);
static int group_define(struct resources *resources, const struct group_desc *desc, bool *made,
                        struct ec_error *why);
static int desc_check(const struct group_desc *desc, struct ec_error *why);
static bool group_is(const struct group *group, const struct group_desc *desc);
static int member_check(struct resources *resources, const struct resource_desc *desc,
                        uint32_t *added, struct ec_error *why);
static void member_enter(struct resources *resources, struct resource *member);
static struct group *group_make(const struct group_desc *desc);
static int members_prepare(struct resources *resources, struct group *group,
                           const struct group_desc *desc);
static void group_free(struct group *group);
static void resource_free(struct resource *resource);
static struct resource *resource_make(const struct resource_desc *desc);
static void group_leave(struct resources *resources, struct group *group);
static void member_leave(struct resources *resources, struct resource *member,
                         const struct group *group);
static int cycle_check(struct resources *resources, const struct group *from,
                       const struct walk *walk, struct ec_error *why);
static int cycle_fail(const struct walk *walk, struct ec_error *why);
static int depth_find(struct resources *resources, struct group *group, unsigned level,
                      struct ec_error *why);

static const char *const state_names[] = {
    [GROUP_UNLOADED] = "unloaded", [GROUP_LOADING] = "loading",     [GROUP_READY] = "ready",
    [GROUP_EVICTED] = "evicted",   [GROUP_UNLOADING] = "unloading", [GROUP_FAILED] = "failed",
};

static const char *const residency_names[] = {
    [RESIDENCY_EVICTABLE] = "evictable",
    [RESIDENCY_AUTO] = "auto",
    [RESIDENCY_PINNED] = "pinned",
};

int groups_define(struct resources *resources, const struct group_desc *descs, uint32_t count,
                  struct ec_error *why)
{
    return define_all(resources, descs, count, true, why);
}

/* Whether groups fit to one another shows when they stand there; nobody can look in between. */
int groups_may_define(struct resources *resources, const struct group_desc *descs, uint32_t count,
                      struct ec_error *why)
{
    return define_all(resources, descs, count, false, why);
}

static int define_all(struct resources *resources, const struct group_desc *descs, uint32_t count,
                      bool keep, struct ec_error *why)
{
    bool *made = calloc(count > 0 ? count : 1, sizeof *made);
    int rc = EC_OK;

    if (made == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory for %u groups", count);
    for (uint32_t i = 0; i < count && rc == EC_OK; i++) {
        rc = group_define(resources, &descs[i], &made[i], why);
        if (rc < 0)
            ec_error_prefix(why, rc, "group %s", descs[i].name);
    }
    for (uint32_t i = 0; i < count && (rc < 0 || !keep); i++)
        if (made[i])
            group_leave(resources, groups_find(resources, descs[i].name));
    free(made);
    return rc;
}

int group_may_undefine(const struct group *group, struct ec_error *why)
{
    if (group->state == GROUP_UNLOADING)
        return ec_fail(why, EC_ERR_STATE, "group %s is unloading; somebody still holds it",
                       group->name);
    if (group->state != GROUP_UNLOADED && group->state != GROUP_FAILED)
        return ec_fail(why, EC_ERR_STATE, "group %s is %s; unload it first", group->name,
                       group_state_text(group));
    /* It failed when it was loaded again; they stayed ready, and will let go of it by its name. */
    if (group->user_count > 0)
        return ec_fail(why, EC_ERR_STATE, "group %s depends on it; unload that first",
                       group->users[0]->name);
    return EC_OK;
}

int group_undefine(struct resources *resources, struct group *group, struct ec_error *why)
{
    int rc = group_may_undefine(group, why);

    if (rc == EC_OK) {
        graves_hold(resources);
        group_leave(resources, group);
        leaving_check(resources); /* orders of games for its members ended with it */
        graves_release(resources);
        succession_note(resources);
    }
    return rc;
}

static int group_define(struct resources *resources, const struct group_desc *desc, bool *made,
                        struct ec_error *why)
{
    struct group *group = groups_find(resources, desc->name);
    uint32_t added = 0;
    int rc;

    if (group != NULL)
        return group_is(group, desc)
                   ? EC_OK
                   : ec_fail(why, EC_ERR_STATE, "it is already defined otherwise");
    rc = desc_check(desc, why);
    for (uint32_t i = 0; i < desc->count && rc == EC_OK; i++)
        rc = member_check(resources, &desc->resources[i], &added, why);
    if (rc < 0)
        return rc;
    if (added > directory_room(resources->directory))
        return ec_fail(why, EC_ERR_LIMIT, "%u new resources, the directory has room for %u", added,
                       directory_room(resources->directory));
    group = group_make(desc);
    if (group == NULL || members_prepare(resources, group, desc) < 0)
        goto no_memory;
    HASH_ADD_STR(resources->groups, name, group);
    if (group->hh.tbl == NULL)
        goto no_memory;

    for (uint32_t i = 0; i < group->count; i++) {
        struct resource *member = group->members[i];

        if (member->index == EC_RESOURCE_NONE)
            member_enter(resources, member);
        member->groups[member->group_count++] = group;
    }
    resources->group_count++;
    resources->stamp++;
    rc = cycle_check(resources, group, &(struct walk) { .group = group, .level = 1 }, why);
    if (rc < 0)
        group_leave(resources, group);
    *made = rc == EC_OK;
    succession_note(resources);
    return rc;

no_memory:
    group_free(group);
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
        waiters_forget(&group->waiters);
        group_free(group);
    }
    for (uint32_t i = 0; i < EC_RESOURCES_MAX; i++) {
        resource_free(resources->by_index[i]);
        resources->by_index[i] = NULL;
    }
}

int group_check_depends(struct resources *resources, struct group *group, struct ec_error *why)
{
    resources->stamp++;
    return depth_find(resources, group, 1, why);
}

const char *group_state_name(enum group_state state)
{
    return state_names[state];
}

const char *group_state_text(const struct group *group)
{
    if (group->state == GROUP_EVICTED)
        for (uint32_t i = 0; i < group->count; i++)
            if (group->members[i]->presence == RESOURCE_READY)
                return "partial";
    return state_names[group->state];
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
    return resource->content == NULL ? 0 : content_bytes(resource->content);
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

    for (uint32_t i = 0; i < of->group_count; i++) {
        const struct group *group = of->groups[i];

        if (!group_wants(group) && of->needed > 0)
            continue;
        if (group_is_pinned(group))
            return RESIDENCY_PINNED;
        if (group->residency > strongest)
            strongest = group->residency;
    }
    return strongest;
}

struct resource *resource_find(struct resources *resources, const char *name)
{
    uint32_t index = ec_directory_find(resources->directory, name);

    return index != EC_RESOURCE_NONE ? resources->by_index[index] : NULL;
}

static int compare_names(const void *left, const void *right)
{
    return strcmp(((const struct resource_desc *)left)->name,
                  ((const struct resource_desc *)right)->name);
}

/* No name twice among the members, nor among the dependencies. */
static int desc_check(const struct group_desc *desc, struct ec_error *why)
{
    struct resource_desc *sorted = malloc((desc->count + 1) * sizeof *sorted);
    const char *twice = NULL;

    if (sorted == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory");
    memcpy(sorted, desc->resources, desc->count * sizeof *sorted);
    qsort(sorted, desc->count, sizeof sorted[0], compare_names);
    for (uint32_t i = 1; i < desc->count && twice == NULL; i++)
        if (strcmp(sorted[i - 1].name, sorted[i].name) == 0)
            twice = sorted[i].name;
    free(sorted);
    if (twice != NULL)
        return ec_fail(why, EC_ERR_PARAM, "resource %s is named twice", twice);
    for (uint32_t i = 0; i < desc->depend_count; i++)
        for (uint32_t k = 0; k < i; k++)
            if (strcmp(desc->depends[i], desc->depends[k]) == 0)
                return ec_fail(why, EC_ERR_PARAM, "dependency %s is named twice", desc->depends[i]);
    return EC_OK;
}

static bool options_equal(const struct decode_options *a, const struct decode_options *b)
{
    return a->channels == b->channels && a->levels == b->levels;
}

static bool group_is(const struct group *group, const struct group_desc *desc)
{
    if (group->count != desc->count || group->priority != desc->priority ||
        group->residency != desc->residency || group->depend_count != desc->depend_count)
        return false;
    for (uint32_t i = 0; i < group->depend_count; i++)
        if (strcmp(group->depends[i], desc->depends[i]) != 0)
            return false;
    for (uint32_t i = 0; i < group->count; i++) {
        const struct resource *member = group->members[i];

        if (strcmp(member->name, desc->resources[i].name) != 0 ||
            strcmp(member->path, desc->resources[i].path) != 0 ||
            member->kind != desc->resources[i].kind ||
            !options_equal(&member->options, &desc->resources[i].options))
            return false;
    }
    return true;
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
    return ec_fail(why, EC_ERR_STATE, "resource %s is %s of kind %s %s%s", desc->name, known->path,
                   decoder_kind_name(known->kind),
                   known->group_count > 0 ? "in group " : "and still in use",
                   known->group_count > 0 ? known->groups[0]->name : "");
}

/* Give a new member its entry; there is room. The directory has the name already when an earlier run left
 * it, or when references to a life before keep the entry: those count by its index, so the name moves. */
static void member_enter(struct resources *resources, struct resource *member)
{
    struct ec_directory *directory = resources->directory;
    uint32_t index = ec_directory_find(directory, member->name);
    struct old_life *old = resources->old_lives;
    int rc = EC_OK;

    while (index != EC_RESOURCE_NONE && old != NULL && old->index != index)
        old = old->next;
    if (index == EC_RESOURCE_NONE) {
        rc = directory_add(directory, member->name, &index);
    } else if (old != NULL) {
        old->resource = member; /* soft references to it ask for this one */
        member->old_lives++;
        if (directory_generation(directory, index) == 0) { /* retired, moves of itself */
            rc = directory_advance(directory, &index, EC_RESOURCE_UNLOADED);
        } else {
            index = directory_replace(directory, index);
            directory_set_state(directory, index, EC_RESOURCE_UNLOADED);
        }
    }
    assert(rc == EC_OK);
    (void)rc;
    member->index = index;
    resources->by_index[index] = member;
}

static struct group *group_make(const struct group_desc *desc)
{
    struct group *group = calloc(1, sizeof *group);

    if (group == NULL)
        return NULL;
    group->members = calloc(desc->count > 0 ? desc->count : 1, sizeof(struct resource *));
    group->depends = calloc(desc->depend_count > 0 ? desc->depend_count : 1, GROUP_NAME_BYTES);
    if (group->members == NULL || group->depends == NULL) {
        group_free(group);
        return NULL;
    }
    memcpy(group->name, desc->name, strlen(desc->name) + 1);
    group->residency = desc->residency;
    group->priority = desc->priority;
    for (; group->depend_count < desc->depend_count; group->depend_count++)
        memcpy(group->depends[group->depend_count], desc->depends[group->depend_count],
               strlen(desc->depends[group->depend_count]) + 1);
    return group;
}

/* Find or make the members, with room for one more group in each. */
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

/* With the members that have no entry yet; the others stay. */
static void group_free(struct group *group)
{
    if (group == NULL)
        return;
    for (uint32_t i = 0; i < group->count; i++)
        if (group->members[i] != NULL && group->members[i]->index == EC_RESOURCE_NONE)
            resource_free(group->members[i]);
    free(group->users);
    free(group->depends);
    free(group->members);
    free(group);
}

static struct resource *resource_make(const struct resource_desc *desc)
{
    struct resource *resource = calloc(1, sizeof *resource);

    if (resource == NULL)
        return NULL;
    resource->index = EC_RESOURCE_NONE;
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
    waiters_forget(&resource->waiters);
    free(resource->job);
    free(resource->groups);
    free(resource->path);
    free(resource);
}

/* A group that wants nothing: out of the table, and out of its members, which go with their last. */
static void group_leave(struct resources *resources, struct group *group)
{
    assert(!group_wants(group) && group->user_count == 0);
    HASH_DEL(resources->groups, group);
    resources->group_count--;
    graves_hold(resources);
    for (uint32_t i = 0; i < group->count; i++)
        member_leave(resources, group->members[i], group);
    group->count = 0;
    group->next_grave = resources->group_graves;
    resources->group_graves = group;
    graves_release(resources);
}

void graves_hold(struct resources *resources)
{
    resources->busy++;
}

void graves_release(struct resources *resources)
{
    struct resource *resource;
    struct group *group;

    assert(resources->busy > 0);
    if (--resources->busy > 0)
        return;
    while ((group = resources->group_graves) != NULL) {
        resources->group_graves = group->next_grave;
        group_free(group);
    }
    while ((resource = resources->resource_graves) != NULL) {
        resources->resource_graves = resource->next_grave;
        resource_free(resource);
    }
}

void resource_bury(struct resources *resources, struct resource *resource)
{
    struct old_life life = { .index = resource->index,
                             .handle = directory_handle(resources->directory, resource->index) };

    if (resource->group_count > 0 || resource->needed > 0 ||
        resource->presence != RESOURCE_ABSENT || resource->job != NULL ||
        resources->by_index[resource->index] != resource)
        return;
    graves_hold(resources);
    waiters_forget(&resource->waiters);
    resources->by_index[resource->index] = NULL;
    for (struct old_life *old = resources->old_lives; old != NULL; old = old->next)
        if (old->resource == resource)
            old->resource = NULL;
    old_life_begin(resources, &life);
    resource->next_grave = resources->resource_graves;
    resources->resource_graves = resource;
    graves_release(resources);
}

static void member_leave(struct resources *resources, struct resource *member,
                         const struct group *group)
{
    uint32_t at = 0;

    while (member->groups[at] != group)
        at++;
    member->groups[at] = member->groups[--member->group_count];
    if (member->group_count > 0)
        return;
    soft_end(resources, member);
    if (member->job != NULL && member->presence != RESOURCE_LOADING) /* a reload */
        worker_pool_cancel(resources->workers, member->job);
    resource_bury(resources, member);
}

/* Does the group depend on itself? stamp marks what was walked already. */
static int cycle_check(struct resources *resources, const struct group *from,
                       const struct walk *walk, struct ec_error *why)
{
    int rc = EC_OK;

    if (walk->level > GROUP_DEPTH_MAX)
        return ec_fail(why, EC_ERR_LIMIT, "dependencies go deeper than %d groups", GROUP_DEPTH_MAX);
    for (uint32_t i = 0; i < walk->group->depend_count && rc == EC_OK; i++) {
        struct group *next = groups_find(resources, walk->group->depends[i]);
        const struct walk step = { .before = walk, .group = next, .level = walk->level + 1 };

        if (next == from)
            return cycle_fail(&step, why);
        if (next == NULL || next->stamp == resources->stamp)
            continue;
        next->stamp = resources->stamp;
        rc = cycle_check(resources, from, &step, why);
    }
    return rc;
}

static int cycle_fail(const struct walk *walk, struct ec_error *why)
{
    const char *names[GROUP_DEPTH_MAX + 2];
    char text[512] = "";
    size_t used = 0;
    unsigned count = 0;

    for (; walk != NULL; walk = walk->before)
        names[count++] = walk->group->name;
    for (unsigned i = count; i-- > 0 && used < sizeof text;)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", names[i],
                                 i > 0 ? " -> " : "");
    return ec_fail(why, EC_ERR_PARAM, "its dependencies form a cycle: %s", text);
}

static int depth_find(struct resources *resources, struct group *group, unsigned level,
                      struct ec_error *why)
{
    uint32_t depth = 1;

    if (group->stamp != resources->stamp) {
        for (uint32_t i = 0; i < group->depend_count && level <= GROUP_DEPTH_MAX; i++) {
            struct group *next = groups_find(resources, group->depends[i]);
            int rc = next != NULL ? depth_find(resources, next, level + 1, why)
                                  : ec_fail(why, EC_ERR_NOT_FOUND,
                                            "group %s depends on group %s, which is not defined",
                                            group->name, group->depends[i]);

            if (rc < 0)
                return rc;
            if (next->depth + 1 > depth)
                depth = next->depth + 1;
        }
        group->stamp = resources->stamp;
        group->depth = depth;
    }
    if (level + group->depth - 1 > GROUP_DEPTH_MAX)
        return ec_fail(why, EC_ERR_LIMIT, "dependencies go deeper than %d groups", GROUP_DEPTH_MAX);
    return EC_OK;
}
