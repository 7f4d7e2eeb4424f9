/* gpu.c - the books of one game: what is resident, what may go. */
#include "resources/gpu.h"

#include <stdlib.h>
#include <string.h>

#include "proto/handle.h"

/* Nothing is larger; sums of GPU_ITEMS_MAX of them do not overflow. */
#define GPU_BYTES_MAX (UINT64_C(1) << 48)

static void item_end(struct gpu_queue *queue, struct gpu_item *item);
static void item_use(struct gpu_queue *queue, struct gpu_item *item, uint64_t fence);
static void item_state(struct gpu_queue *queue, struct gpu_item *item, enum gpu_state state);
static void row_read(struct gpu_queue *queue, uint32_t index, const struct ec_gpu_row *row);
static int compare_fences(const void *left, const void *right);

int gpu_queue_init(struct gpu_queue *queue, struct ec_error *why)
{
    *queue = (struct gpu_queue) { .items = calloc(GPU_ITEMS_MAX, sizeof *queue->items) };
    return queue->items != NULL ? EC_OK : ec_fail(why, EC_ERR_MEMORY, "no memory for a GPU queue");
}

void gpu_queue_finish(struct gpu_queue *queue)
{
    free(queue->items);
    queue->items = NULL;
}

void gpu_queue_read(struct gpu_queue *queue, const struct ec_gpu_table *table)
{
    uint32_t high = atomic_load_explicit(&table->high, memory_order_acquire);
    uint64_t budget = atomic_load_explicit(&table->budget_bytes, memory_order_relaxed);
    /* Acquire, and before the rows: a fence that is completed covers the uses that came before. */
    uint64_t completed = atomic_load_explicit(&table->completed_fence, memory_order_acquire);

    queue->budget_bytes = budget;
    if (completed > queue->completed_fence)
        queue->completed_fence = completed;
    for (uint32_t i = 0; i < high && i < EC_GPU_RESOURCES_MAX; i++)
        row_read(queue, i, &table->rows[i]);
}

/* life is read first and again last: in between lie fields of one life. */
static void row_read(struct gpu_queue *queue, uint32_t index, const struct ec_gpu_row *row)
{
    struct gpu_item *item = &queue->items[index];
    uint64_t life = atomic_load_explicit(&row->life, memory_order_acquire);
    uint64_t bytes = atomic_load_explicit(&row->bytes, memory_order_relaxed);
    uint64_t used = atomic_load_explicit(&row->used_fence, memory_order_acquire);
    uint32_t generation = (uint32_t)(life >> 32), state = (uint32_t)life;
    uint64_t name[EC_GPU_NAME_BYTES / 8];

    for (unsigned i = 0; i < EC_GPU_NAME_BYTES / 8; i++)
        name[i] = atomic_load_explicit(&row->name[i], memory_order_relaxed);
    atomic_thread_fence(memory_order_acquire);
    if ((uint32_t)(atomic_load_explicit(&row->life, memory_order_relaxed) >> 32) != generation)
        return; /* at the next tick */
    if (item->state != GPU_UNUSED &&
        (ec_handle_generation(item->id) != generation || state == EC_GPU_UNUSED))
        item_end(queue, item);
    if ((state != EC_GPU_RESIDENT && state != EC_GPU_EVICTED) || generation == 0 ||
        bytes > GPU_BYTES_MAX)
        return;
    if (item->state == GPU_UNUSED) {
        *item = (struct gpu_item) { .id = ec_handle_make(index, generation), .bytes = bytes };
        memcpy(item->name, name, sizeof item->name);
        item->name[sizeof item->name - 1] = '\0';
        queue->count++;
        if (queue->high < index + 1)
            queue->high = index + 1;
        item_state(queue, item, GPU_RESIDENT);
    }
    if (state == EC_GPU_EVICTED)
        item_state(queue, item, GPU_EVICTED);
    else if (item->state == GPU_EVICTED)
        item_state(queue, item, GPU_RESIDENT);
    item_use(queue, item, used);
}

bool gpu_item_is_possible(const char *name, uint64_t bytes)
{
    return name[0] != '\0' && strlen(name) < EC_GPU_NAME_BYTES && bytes > 0 &&
           bytes <= GPU_BYTES_MAX;
}

uint32_t gpu_queue_room(const struct gpu_queue *queue)
{
    uint32_t room = 0;

    for (uint32_t i = EC_GPU_RESOURCES_MAX; i < GPU_ITEMS_MAX; i++)
        room += queue->items[i].state == GPU_UNUSED;
    return room;
}

int gpu_queue_declare(struct gpu_queue *queue, const char *name, uint64_t bytes, uint64_t *id)
{
    uint32_t index = EC_GPU_RESOURCES_MAX;
    struct gpu_item *item;

    if (!gpu_item_is_possible(name, bytes))
        return EC_ERR_PARAM;
    while (index < GPU_ITEMS_MAX && queue->items[index].state != GPU_UNUSED)
        index++;
    if (index == GPU_ITEMS_MAX)
        return EC_ERR_LIMIT;
    item = &queue->items[index];
    *id = ec_handle_make(index, ec_handle_generation(item->id) + 1);
    *item = (struct gpu_item) { .id = *id, .bytes = bytes };
    memcpy(item->name, name, strlen(name) + 1);
    queue->count++;
    if (queue->high < index + 1)
        queue->high = index + 1;
    item_state(queue, item, GPU_RESIDENT);
    return EC_OK;
}

static struct gpu_item *find(struct gpu_queue *queue, uint64_t id)
{
    uint32_t index = ec_handle_index(id);

    if (index < EC_GPU_RESOURCES_MAX || index >= GPU_ITEMS_MAX ||
        queue->items[index].state == GPU_UNUSED || queue->items[index].id != id)
        return NULL;
    return &queue->items[index];
}

int gpu_queue_use(struct gpu_queue *queue, uint64_t id, uint64_t fence)
{
    struct gpu_item *item = find(queue, id);

    if (item == NULL)
        return EC_ERR_STALE;
    item_use(queue, item, fence);
    return EC_OK;
}

/* A use since the request ends it, even if its work is done already: the game has passed over the request
 * then, and would be waited for in vain. It is asked again when its turn comes. */
static void item_use(struct gpu_queue *queue, struct gpu_item *item, uint64_t fence)
{
    if (fence <= item->used_fence)
        return;
    item->used_fence = fence;
    if (item->state == GPU_REQUESTED)
        item_state(queue, item, GPU_RESIDENT);
}

int gpu_queue_set_state(struct gpu_queue *queue, uint64_t id, enum gpu_state state)
{
    struct gpu_item *item = find(queue, id);

    if (item == NULL)
        return EC_ERR_STALE;
    if (state == GPU_UNUSED)
        item_end(queue, item);
    else if (state != GPU_KEEP)
        item_state(queue, item, state);
    return EC_OK;
}

uint32_t gpu_queue_choose(struct gpu_queue *queue, uint32_t chosen[GPU_ITEMS_MAX])
{
    const struct gpu_item **idle;
    uint32_t count = 0, kept = 0;

    if (queue->budget_bytes == 0 ||
        queue->resident_bytes - queue->requested_bytes <= queue->budget_bytes)
        return 0;
    idle = calloc(queue->high, sizeof(struct gpu_item *));
    if (idle == NULL)
        return 0; /* at the next tick */
    for (uint32_t i = 0; i < queue->high; i++)
        if (queue->items[i].state == GPU_RESIDENT &&
            queue->items[i].used_fence <= queue->completed_fence)
            idle[count++] = &queue->items[i];
    qsort(idle, count, sizeof(struct gpu_item *), compare_fences);
    for (uint32_t i = 0;
         i < count && queue->resident_bytes - queue->requested_bytes > queue->budget_bytes; i++) {
        chosen[kept] = ec_handle_index(idle[i]->id);
        item_state(queue, &queue->items[chosen[kept++]], GPU_REQUESTED);
    }
    free(idle);
    return kept;
}

void gpu_queue_withdraw(struct gpu_queue *queue, uint32_t index)
{
    item_state(queue, &queue->items[index], GPU_RESIDENT);
}

const char *gpu_state_name(enum gpu_state state)
{
    static const char *const names[] = { "unused", "resident", "requested", "evicted", "" };

    return names[state];
}

/* The generation stays, for the next life. */
static void item_end(struct gpu_queue *queue, struct gpu_item *item)
{
    item_state(queue, item, GPU_UNUSED);
    queue->count--;
}

static void item_state(struct gpu_queue *queue, struct gpu_item *item, enum gpu_state state)
{
    if (item->state == GPU_RESIDENT || item->state == GPU_REQUESTED)
        queue->resident_bytes -= item->bytes;
    if (item->state == GPU_REQUESTED)
        queue->requested_bytes -= item->bytes;
    if (state == GPU_RESIDENT || state == GPU_REQUESTED)
        queue->resident_bytes += item->bytes;
    if (state == GPU_REQUESTED)
        queue->requested_bytes += item->bytes;
    item->state = state;
}

/* Longest unused first; of those the largest, so that few are asked for. */
static int compare_fences(const void *left, const void *right)
{
    const struct gpu_item *a = *(const struct gpu_item *const *)left;
    const struct gpu_item *b = *(const struct gpu_item *const *)right;

    if (a->used_fence != b->used_fence)
        return a->used_fence < b->used_fence ? -1 : 1;
    if (a->bytes != b->bytes)
        return a->bytes > b->bytes ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}
