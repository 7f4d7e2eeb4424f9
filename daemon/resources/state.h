/* state.h - what the files of this module share: resources, groups, and the rules between them.
 *
 *   groups.c   what is defined               loading.c    groups become ready, or fail as a whole
 *   leaving.c  unload, drop, old lives       evicting.c   victims, and who holds what
 *   soft.c     orders to load ahead          uses.c       who used what, and when; the tick
 *   resources.c  the module; totals
 *
 * A resource exists once, however many groups name it. needed counts the groups that want it in
 * memory, and its soft order; it is 0 exactly when nobody does, and then it leaves as soon as nobody
 * holds it:
 *
 *              load                done                all of the group are there
 *   ABSENT ----------> LOADING ----------> DECODED ----------------------------> READY
 *      ^                  |  failed, cancelled |  group failed                     |
 *      +------------------+--------------------+-----------------------------------+
 *                                                evicted, or needed == 0 and not held
 *
 * What is needed by more than groups that are still loading (a soft order, a group that had been ready
 * and lost it) goes from LOADING to READY at once.
 *
 * A READY resource that nobody needs any more but somebody holds is `leaving`: its entry says EVICTING,
 * so that nobody new gets in, until the last reference ends or a group needs it again.
 *
 * A resource whose file changed while games hold it moves to another entry of the directory; the entry
 * before is an old life (struct old_life), whose bytes stay until its last reference ends.
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
#include "proto/client_segment.h"
#include "proto/directory.h"
#include "resources/aliases.h"
#include "resources/asset_heap.h"
#include "resources/content.h"
#include "resources/freeing.h"
#include "resources/kept_paths.h"
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
    VERDICT_SHARED,    /* another group needs it */
    VERDICT_AWAITED,   /* a group that is loading counts on it */
    VERDICT_LEAVING,   /* it is being unloaded, and held until then */
    VERDICT_RETURNING, /* clients of the last run may come back and hold it */
    VERDICT_FAILED,    /* the kernel refused the barrier */
};

/* Where a soft order stands. */
enum order {
    ORDER_NONE,   /* no game asks */
    ORDER_QUEUED, /* waits for its turn, for room in the budget, or for better times */
    ORDER_ACTIVE, /* counts in needed: it is loading or there */
    ORDER_SPENT,  /* it was evicted or could not be loaded; not tried again by itself */
};

/* When a resource was used, by the clock of uses and by real time; kept while it is not in memory. */
struct usage {
    uint64_t last, previous; /* 0: never */
    int64_t last_ns, previous_ns;
    int64_t loaded_ns; /* when it became decoded */
    int64_t load_ns;   /* the shortest time that it took to load */
    uint64_t round;    /* of the reading that saw the last one */
    uint64_t count;    /* of all uses */
};

struct resource {
    char name[EC_RESOURCE_NAME_BYTES];
    char *path;
    enum ec_resource_kind kind;
    struct decode_options options;
    uint32_t index; /* of its directory entry; EC_RESOURCE_NONE before it has one */

    struct group **groups; /* that name it; none: it goes with its last byte */
    uint32_t group_count;
    uint32_t needed;

    enum presence presence;
    bool leaving;
    bool stale;              /* its file changed while it was loading: load it again */
    struct load_job *job;    /* while LOADING, or while a READY one is loaded anew */
    unsigned mount;          /* what it was read from: mounts_at(); of its last load */
    struct content *content; /* while DECODED or READY */
    uint32_t old_lives;      /* whose bytes or references are still there */
    uint64_t stamp;          /* of the last list that it was written to */
    struct usage usage;
    struct waiter *waiters; /* of resource.request */

    enum order order;
    bool hurried;          /* the order was asked for by name: the budget does not count */
    uint64_t order_number; /* first come, first served */
    uint64_t known_bytes;  /* its size when it was decoded last; 0: never */

    enum verdict verdict;
    uint32_t verdict_client; /* who held it */
    struct resource *next_grave;
};

/* A life that ended while somebody held it, under the index that it had. */
struct old_life {
    struct old_life *next;
    uint32_t index;
    uint64_t handle;           /* as it was */
    struct content *content;   /* NULL: the bytes are gone, soft references are left */
    struct resource *resource; /* NULL: it is not defined any more */
};

enum group_state {
    GROUP_UNLOADED,
    GROUP_LOADING,
    GROUP_READY,
    GROUP_EVICTED,   /* wanted, but some members were evicted */
    GROUP_UNLOADING, /* not wanted; members are still held */
    GROUP_FAILED,
};

/* A deferred answer, in the list of what it waits for. */
struct waiter {
    struct waiter *next;
    struct waiter **list;
    struct reply *reply;
};

struct group {
    char name[GROUP_NAME_BYTES];
    enum residency residency;
    bool pinned; /* by resource.pin, besides residency */
    enum group_state state;
    unsigned priority;
    int64_t progress_ns; /* when its progress was told last */
    struct resource **members;
    uint32_t count;
    uint32_t pending; /* while LOADING: members that are not decoded yet */
    bool lost;        /* lost a member in the eviction that goes on */
    struct waiter *waiters;

    /* Dependencies: names are as defined; groups are found when it is loaded. */
    char (*depends)[GROUP_NAME_BYTES];
    uint32_t depend_count;
    bool asked;           /* loaded by name, not only for another group */
    bool linked;          /* it stands in users of all its dependencies */
    struct group **users; /* that depend on it and want it now */
    uint32_t user_count, user_capacity;
    uint64_t stamp; /* of the last walk that came by */
    uint32_t depth; /* found by it */
    bool awaited;   /* found by it: this one is loading, or one is that depends on it */
    struct group *next_grave;
    UT_hash_handle hh;
};

struct use_reader; /* uses.c: how far the ring of each client was read */
struct use_trace;  /* uses.c: the newest uses, for who records */
struct hot_reload; /* hot_reload.c */
struct gpu_queues; /* gpu.c */
struct succession; /* succession.c */

struct resources {
    struct services *services;
    struct ec_directory *directory;
    struct asset_heap heap;
    struct contents contents;
    struct mounts *mounts;
    struct aliases aliases;
    struct kept_mounts kept_mounts; /* that were made while the daemon ran */
    struct worker_pool *workers;
    uint64_t cancelled; /* loads that ended because nobody wanted them any more */

    struct freeing *freeing; /* answers that wait for memory to be back */
    bool membarrier;

    struct group *groups;
    uint32_t group_count;
    uint64_t stamp;
    struct resource *by_index[EC_RESOURCES_MAX];
    uint32_t ready;         /* READY resources */
    uint32_t leaving_count; /* of them leaving */
    struct old_life *old_lives;

    struct resource *batch[EC_RESOURCES_MAX]; /* of the eviction that goes on */

    /* Answers may bring new requests in while somebody still walks over groups and resources: what those
     * undefine is freed when busy is 0 again. */
    unsigned busy;
    struct group *group_graves;
    struct resource *resource_graves;

    enum resources_soft soft;
    uint64_t order_number;
    uint32_t queued;      /* orders that are QUEUED */
    uint32_t prefetching; /* orders that are ACTIVE and LOADING */

    uint64_t use_clock; /* counts uses */
    uint64_t use_round; /* counts readings */
    bool soft_changed;  /* soft references changed since they were looked at */
    uint64_t uses_lost; /* overtaken in a ring */
    struct use_reader *use_readers;
    struct use_trace *trace;
    struct hot_reload *hot_reload;
    struct gpu_queues *gpu;
    struct succession *succession; /* NULL: nobody keeps our segments */

    uv_timer_t recheck; /* runs while something is leaving */
    uv_timer_t tick;    /* uses.c; runs while games are attached */
    bool handles_made;
    unsigned open_handles;
    bool is_down; /* shut down: clients that end afterwards change nothing */
};

/* Of each of two lists in an answer, which may have 1 MiB. */
#define LIST_BYTES_MAX (400u << 10)

/* ---- groups.c ---- */

struct resource_desc {
    const char *name;
    const char *path;
    enum ec_resource_kind kind;
    struct decode_options options;
};

#define GROUP_DEPTH_MAX 64 /* groups that depend on groups, one behind the other */

struct group_desc {
    const char *name;
    enum residency residency;
    unsigned priority;
    struct resource_desc *resources;
    uint32_t count;
    const char **depends; /* names of groups, which may be defined later */
    uint32_t depend_count;
};

/* Define groups, all or none. The same again changes nothing.
 *
 * Returns EC_OK, EC_ERR_PARAM (a name twice; a cycle, which is named), EC_ERR_STATE (a group or resource is
 * defined otherwise), EC_ERR_LIMIT (of resources, of depth) or EC_ERR_MEMORY. */
int groups_define(struct resources *resources, const struct group_desc *descs, uint32_t count,
                  struct ec_error *why);
/* The same without any effect: what groups_define would return. */
int groups_may_define(struct resources *resources, const struct group_desc *descs, uint32_t count,
                      struct ec_error *why);
/* Forget a group and the resources that no other group names.
 *
 * Returns EC_OK or EC_ERR_STATE (it is wanted, still held, or a wanted group depends on it). */
int group_undefine(struct resources *resources, struct group *group, struct ec_error *why);
int group_may_undefine(const struct group *group, struct ec_error *why);
struct group *groups_find(struct resources *resources, const char *name); /* NULL */
void groups_free(struct resources *resources);
/* How deep its dependencies go, 1 without any.
 *
 * Returns EC_OK, EC_ERR_NOT_FOUND (one is not defined) or EC_ERR_LIMIT. */
int group_check_depends(struct resources *resources, struct group *group, struct ec_error *why);
/* Around what walks over groups or resources and may answer somebody meanwhile. */
void graves_hold(struct resources *resources);
void graves_release(struct resources *resources);
/* A resource that no group names, nobody needs and that is not in memory: free it. Else nothing. */
void resource_bury(struct resources *resources, struct resource *resource);
struct resource *resource_find(struct resources *resources, const char *name); /* NULL */

const char *group_state_name(enum group_state state);
const char *residency_name(enum residency residency);
bool residency_parse(const char *name, enum residency *residency);

static inline bool group_wants(const struct group *group)
{
    return group->state == GROUP_LOADING || group->state == GROUP_READY ||
           group->state == GROUP_EVICTED;
}

/* Its state in a word: group_state_name, or partial when only some members were evicted. */
const char *group_state_text(const struct group *group);
static inline bool group_is_pinned(const struct group *group)
{
    return group->pinned || group->residency == RESIDENCY_PINNED;
}

uint64_t group_bytes(const struct group *group);              /* in memory, in whole pages */
enum residency resource_residency(const struct resource *of); /* the strongest of its groups */
uint64_t resource_bytes(const struct resource *resource);     /* in memory, in whole pages */

/* ---- loading.c ---- */

/* Begin, or join, or find it ready. Whether it ended shows in group->state.
 *
 * Returns EC_OK, EC_ERR_NOT_FOUND (a dependency is not defined), EC_ERR_MEMORY or EC_ERR_LIMIT (an entry was
 * retired and there is no other; dependencies are too deep). */
int group_load(struct resources *resources, struct group *group, struct ec_error *why);
/* A wanted group takes its place among the users of those that it depends on; without memory it does not. */
void group_link_wanted(struct resources *resources, struct group *group);
/* Give up a load that goes on: its waiters get the error. */
void group_load_cancel(struct resources *resources, struct group *group,
                       const struct ec_error *why);
void group_loaded_write(const struct resources *resources, const struct group *group,
                        struct ec_json_writer *writer); /* the result of resource.load */
/* Hand a needed resource that is absent to the workers. Errors as group_load. */
int resource_load(struct resources *resources, struct resource *resource, struct ec_error *why);
struct load_job *load_job_create(struct resources *resources, struct resource *resource,
                                 struct ec_error *why); /* NULL: no memory */
void resource_ready_write(const struct resources *resources, const struct resource *resource,
                          struct ec_json_writer *writer); /* the result of resource.request */
/* Somebody asks for a resource by name that is not READY. Returns EC_OK (it is on its way), EC_ERR_STATE (nothing
 * wants it: load a group that names it) or as resource_load. */
int resource_ask(struct resources *resources, struct resource *resource, struct ec_error *why);
/* Publish what is DECODED, tell who asked for it, and see whether groups are whole again. */
void resource_publish(struct resources *resources, struct resource *resource);
/* Does somebody want it by itself, not only groups that are still loading? */
bool resource_is_wanted_alone(const struct resource *resource);
void resource_job_done(void *context, struct load_job *job);
/* Tell log and event bus about the group's state. */
void group_announce(struct resources *resources, const struct group *group);

/* Wait in a list for an answer. Returns EC_AGAIN, or an error of request_defer. */
int waiter_add(struct request *request, struct waiter **list);
/* Take one out of its list, to answer it. NULL: there is none. */
struct reply *waiter_take(struct waiter **list);
void waiters_forget(struct waiter **list);

/* ---- leaving.c ---- */

/* End this life of a resource that is LOADING, DECODED or READY and let go of its bytes. A resource that no
 * group names any more is freed, too: it must not be used afterwards. */
void resource_drop(struct resources *resources, struct resource *resource,
                   enum ec_resource_state state);
/* A group or an order stops needing a resource. It may be freed, as by resource_drop. */
void resource_unneed(struct resources *resources, struct resource *resource);
/* A group or an order needs a resource; one that is leaving stays. */
void resource_need(struct resources *resources, struct resource *resource);
/* Free what is leaving and not held any more; ends groups that were waiting for it. */
void leaving_check(struct resources *resources);
void leaving_check_soon(struct resources *resources);
/* Give the entry of a resource back, at once or when its last reference has ended. content: bytes that who
 * holds it still reads; NULL for none. */
void old_life_begin(struct resources *resources, struct old_life *life);
void old_lives_forget(struct resources *resources);
/* Let a group go as soon as nobody holds it, unless other groups depend on it; a load that goes on is
 * given up. group->state says what came of it now. */
void group_unload(struct resources *resources, struct group *group);
/* The group does not want its dependencies any more; those that nobody wants are unloaded. */
void group_unlink(struct resources *resources, struct group *group);

/* ---- evicting.c ---- */

/* References of all clients, connected or gone but alive. */
uint64_t resource_hard_refs(struct resources *resources, const struct resource *resource);
uint64_t resource_soft_refs(struct resources *resources, const struct resource *resource);
/* Sum over the clients for one entry; *first_client (NULL: not wanted) is the id of one that refers to it. */
uint64_t references_sum(struct resources *resources, uint32_t index, bool soft,
                        uint32_t *first_client);
/* One barrier between marking and summing. false: it failed, nothing may be freed. */
bool references_barrier(struct resources *resources);
void resource_mark(struct resources *resources, struct resource *resource);
void resource_unmark(struct resources *resources, struct resource *resource);

/* Evict the first count resources of resources->batch in their order until bytes are free; their
 * verdicts say what happened. Returns the bytes given back. */
uint64_t evict_batch(struct resources *resources, uint32_t count, uint64_t bytes);
/* Fill the batch with what is in memory, of one group or (NULL) of all. The first *evictable of them may
 * be tried, best victims first (usage_before); the others have their verdict. Returns how many there are. */
uint32_t evict_candidates(struct resources *resources, const struct group *group,
                          uint32_t *evictable);
/* Groups that lost members become EVICTED and are announced; their names go into names. */
void evict_announce(struct resources *resources, struct ec_json_writer *names);

/* ---- soft.c ---- */

/* Look at all soft references: new ones are queued, ended ones let go. */
void soft_look(struct resources *resources);
/* Begin what is queued as far as budget and workers allow. */
void soft_advance(struct resources *resources);
/* Start an order now, whatever the budget says. false: no game asks for the resource. */
bool soft_hurry(struct resources *resources, struct resource *resource);
/* The resource lost its bytes, or its load ended. */
void soft_lost(struct resources *resources, struct resource *resource);
void soft_load_ended(struct resources *resources, struct resource *resource);
/* It stops being an order of any kind; needed is left right. It may be freed, as by resource_drop. */
void soft_end(struct resources *resources, struct resource *resource);
uint64_t soft_bytes(const struct resources *resources); /* kept by soft orders alone */

/* ---- uses.c ---- */

void uses_start(struct resources *resources);
void uses_finish(struct resources *resources);
void uses_client_attached(struct resources *resources, struct client *client);
void uses_client_ended(struct resources *resources, const struct client *client);
/* Read all rings now: before victims are chosen, and before uses are shown. */
void uses_read(struct resources *resources);
/* Is left a better victim than right? The rule of residency, in one place:
 * class, soft references, LRU-2 with kept history, reload cost, last use. */
bool usage_before(const struct resource *left, const struct resource *right);

#endif
