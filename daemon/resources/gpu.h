/* gpu.h - what each game keeps on its GPU, and what it is asked to give back.
 *
 * The books are the game's: rows of its client segment (engine-core/gpu.h), or what it says in JSON
 * (resource.gpu). When more is resident than the game's budget, it is asked for what was used the
 * longest ago, but only for what no unfinished work uses: its last fence is completed. What is asked for
 * counts as still there until the game confirms; a request ends unconfirmed when the game uses it again.
 *
 * Thread: loop. */
#ifndef RESOURCES_GPU_H
#define RESOURCES_GPU_H

#include <stdbool.h>
#include <stdint.h>

#include "foundation/error.h"
#include "proto/client_segment.h"

#define GPU_ITEMS_MAX (2 * EC_GPU_RESOURCES_MAX) /* the second half is for JSON */

enum gpu_state {
    GPU_UNUSED,
    GPU_RESIDENT,
    GPU_REQUESTED,
    GPU_EVICTED,
    GPU_KEEP, /* of gpu_queue_set_state: as it is */
};

struct gpu_item {
    char name[EC_GPU_NAME_BYTES];
    uint64_t id; /* {index, generation} */
    uint64_t bytes;
    uint64_t used_fence;
    enum gpu_state state;
};

struct gpu_queue {
    uint64_t budget_bytes; /* 0: no bound */
    uint64_t completed_fence;
    uint32_t high; /* items [0, high) were used */
    uint32_t count;
    uint64_t resident_bytes, requested_bytes; /* requested ones are resident, too */
    struct gpu_item *items;                   /* GPU_ITEMS_MAX */
};

/* Returns EC_OK or EC_ERR_MEMORY. */
int gpu_queue_init(struct gpu_queue *queue, struct ec_error *why);
void gpu_queue_finish(struct gpu_queue *queue);

/* Take over what the game wrote into its segment. All of it is hostile: bounded, and read once. */
void gpu_queue_read(struct gpu_queue *queue, const struct ec_gpu_table *table);

/* What JSON says. declare returns EC_OK, EC_ERR_PARAM or EC_ERR_LIMIT; the others EC_OK or EC_ERR_STALE. */
bool gpu_item_is_possible(const char *name, uint64_t bytes);
uint32_t gpu_queue_room(const struct gpu_queue *queue); /* for declare */
int gpu_queue_declare(struct gpu_queue *queue, const char *name, uint64_t bytes, uint64_t *id);
int gpu_queue_use(struct gpu_queue *queue, uint64_t id, uint64_t fence);
int gpu_queue_set_state(struct gpu_queue *queue, uint64_t id, enum gpu_state state);

/* Choose what the game is to give back now, longest unused first: those items become REQUESTED and their
 * places come into chosen. Returns how many. */
uint32_t gpu_queue_choose(struct gpu_queue *queue, uint32_t chosen[GPU_ITEMS_MAX]);

/* The game has not heard of it. */
void gpu_queue_withdraw(struct gpu_queue *queue, uint32_t index);

const char *gpu_state_name(enum gpu_state state);

/* ---- the queues of all clients ---- */

struct client;
struct ec_json_writer;
struct resources;

/* NULL: it has declared nothing yet. make: then it gets one; NULL is no memory. */
struct gpu_queue *gpu_queue_of(struct resources *resources, struct client *client, bool make);
/* The queues of all, as the open object's member gpu; at most limit items. */
void gpu_lists_write(struct resources *resources, uint32_t limit, struct ec_json_writer *writer);
void gpu_tick(struct resources *resources); /* read, choose, ask */
void gpu_ask(struct resources *resources, struct client *client, struct gpu_queue *queue);
void gpu_client_ended(struct resources *resources, const struct client *client);
void gpu_finish(struct resources *resources);

#endif
