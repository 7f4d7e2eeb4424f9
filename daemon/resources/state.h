/* state.h - what the files of this module share: resources, groups, and the rules between them.
 *
 *   groups.c   what is defined            loading.c  groups become ready, or fail as a whole
 *   leaving.c  who holds what; evict, unload         resources.c  the module; totals
 *
 * A resource exists once, however many groups name it. needed counts the groups that want it in
 * memory; it is 0 exactly when nobody does, and then it leaves as soon as nobody holds it:
 *
 *              load                done                all of the group are there
 *   ABSENT ----------> LOADING ----------> DECODED ----------------------------> READY
 *      ^                  |  failed, cancelled |  group failed                     |
 *      +------------------+--------------------+-----------------------------------+
 *                                                evicted, or needed == 0 and not held
 *
 * A READY resource that nobody needs any more but somebody holds is `leaving`: its entry says EVICTING,
 * so that nobody new gets in, until the last reference ends or a group needs it again.
 *
 * Thread: loop. */
#ifndef RESOURCES_STATE_H
#define RESOURCES_STATE_H

#include <stdbool.h>
#include <stdint.h>
#include <uthash.h>
#include <uv.h>

#include "daemon/request.h"
#include "decoders/decoder.h"
#include "proto/directory.h"
#include "resources/aliases.h"
#include "resources/asset_heap.h"
#include "resources/freeing.h"
#include "resources/load_job.h"
#include "resources/mounts.h"
#include "resources/resources.h"
#include "resources/search_path.h"
#include "resources/worker_pool.h"

#define GROUP_NAME_BYTES 64
#define RESOURCES_MODULE "resources" /* in the log */

enum residency { RESIDENCY_EVICTABLE, RESIDENCY_AUTO, RESIDENCY_PINNED };

enum presence { RESOURCE_ABSENT, RESOURCE_LOADING, RESOURCE_DECODED, RESOURCE_READY };

/* What an attempt to evict came to; kept for the report until the next one. */
enum verdict {
    VERDICT_NONE,
    VERDICT_FREED,
    VERDICT_HELD,
    VERDICT_PINNED,
    VERDICT_SHARED,  /* another group needs it */
    VERDICT_AWAITED, /* a group that is loading counts on it */
    VERDICT_FAILED,  /* the kernel refused the barrier */
};

struct resource {
    char name[EC_RESOURCE_NAME_BYTES];
    char *path;
    enum ec_resource_kind kind;
    struct decode_options options;
    uint32_t index; /* of its directory entry */

    struct group **groups; /* that name it */
    uint32_t group_count;
    uint32_t needed;

    enum presence presence;
    bool leaving;
    struct load_job *job; /* while LOADING */
    unsigned mount;       /* what it was read from: mounts_at(); of its last load */
    struct decoded decoded;
    uint64_t offset;
    int64_t used_ns; /* when it was loaded, or last seen to be held */

    enum verdict verdict;
    uint32_t verdict_client; /* who held it */
};

enum group_state {
    GROUP_UNLOADED,
    GROUP_LOADING,
    GROUP_READY,
    GROUP_EVICTED,   /* wanted, but some members were evicted */
    GROUP_UNLOADING, /* not wanted; members are still held */
    GROUP_FAILED,
};

/* A deferred answer to resource.load. */
struct load_waiter {
    struct load_waiter *next;
    struct group *group;
    struct reply *reply;
};

struct group {
    char name[GROUP_NAME_BYTES];
    enum residency residency;
    enum group_state state;
    unsigned priority;
    int64_t progress_ns; /* when its progress was told last */
    struct resource **members;
    uint32_t count;
    uint32_t pending; /* while LOADING: members that are not decoded yet */
    bool lost;        /* lost a member in the eviction that goes on */
    struct load_waiter *waiters;
    UT_hash_handle hh;
};

struct resources {
    struct services *services;
    struct ec_directory *directory;
    struct asset_heap heap;
    struct mounts *mounts;
    struct aliases aliases;
    struct worker_pool *workers;
    uint64_t cancelled;       /* loads that ended because nobody wanted them any more */

    struct freeing *freeing; /* answers that wait for memory to be back */
    bool membarrier;

    struct group *groups;
    uint32_t group_count;
    struct resource *by_index[EC_RESOURCES_MAX];
    uint32_t ready;         /* READY resources */
    uint32_t leaving_count; /* of them leaving */

    struct resource *batch[EC_RESOURCES_MAX]; /* of the eviction that goes on */

    uv_timer_t recheck; /* runs while something is leaving */
    bool recheck_made;
};

/* ---- groups.c ---- */

struct resource_desc {
    const char *name;
    const char *path;
    enum ec_resource_kind kind;
    struct decode_options options;
};

struct group_desc {
    const char *name;
    enum residency residency;
    unsigned priority;
    struct resource_desc *resources;
    uint32_t count;
};

/* Define a group, all or nothing. The same again changes nothing.
 *
 * Returns EC_OK, EC_ERR_PARAM (a name twice), EC_ERR_STATE (the group or a resource is defined
 * otherwise), EC_ERR_LIMIT or EC_ERR_MEMORY. */
int groups_may_define(struct resources *resources, const struct group_desc *desc,
                      struct ec_error *why); /* EC_AGAIN: nothing speaks against it */
int groups_define(struct resources *resources, const struct group_desc *desc, struct ec_error *why);
struct group *groups_find(struct resources *resources, const char *name); /* NULL */
void groups_free(struct resources *resources);

const char *group_state_name(enum group_state state);
const char *residency_name(enum residency residency);
bool residency_parse(const char *name, enum residency *residency);

static inline bool group_wants(const struct group *group)
{
    return group->state == GROUP_LOADING || group->state == GROUP_READY ||
           group->state == GROUP_EVICTED;
}

uint64_t group_bytes(const struct group *group);              /* in memory, in whole pages */
enum residency resource_residency(const struct resource *of); /* the strongest of its groups */
uint64_t resource_bytes(const struct resource *resource);     /* in memory, in whole pages */

/* ---- loading.c ---- */

/* Begin, or join, or find it ready. Whether it ended shows in group->state.
 *
 * Returns EC_OK, EC_ERR_MEMORY or EC_ERR_LIMIT (an entry was retired and there is no other). */
int group_load(struct resources *resources, struct group *group, struct ec_error *why);
/* Give up a load that goes on: its waiters get the error. */
void group_load_cancel(struct resources *resources, struct group *group,
                       const struct ec_error *why);
void group_loaded_write(const struct resources *resources, const struct group *group,
                        struct ec_json_writer *writer); /* the result of resource.load */
void resource_job_done(void *context, struct load_job *job);
/* Tell log and event bus about the group's state. */
void group_announce(struct resources *resources, const struct group *group);

/* ---- leaving.c ---- */

/* References of all clients, connected or gone but alive. */
uint64_t resource_hard_refs(struct resources *resources, const struct resource *resource);
uint64_t resource_soft_refs(struct resources *resources, const struct resource *resource);
/* End this life of a resource that is LOADING, DECODED or READY and free its range. */
void resource_drop(struct resources *resources, struct resource *resource,
                   enum ec_resource_state state);
/* A group stops needing a resource. */
void resource_unneed(struct resources *resources, struct resource *resource);
/* A group needs a resource; one that is leaving stays. */
void resource_need(struct resources *resources, struct resource *resource);
/* Free what is leaving and not held any more; ends groups that were waiting for it. */
void leaving_check(struct resources *resources);
void leaving_check_soon(struct resources *resources);
/* Let a group go as soon as nobody holds it; a load that goes on is given up. group->state says what
 * came of it now. */
void group_unload(struct resources *resources, struct group *group);

/* Evict the first count resources of resources->batch in their order until bytes are free; their
 * verdicts say what happened. Returns the bytes given back. */
uint64_t evict_batch(struct resources *resources, uint32_t count, uint64_t bytes);
/* Fill the batch with what is in memory, of one group or (NULL) of all. The first *evictable of them may
 * be tried, best candidates first; the others have their verdict. Returns how many there are. */
uint32_t evict_candidates(struct resources *resources, const struct group *group,
                          uint32_t *evictable);
/* Groups that lost members become EVICTED and are announced; their names go into names. */
void evict_announce(struct resources *resources, struct ec_json_writer *names);

#endif
