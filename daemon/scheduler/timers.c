/* timers.c - heaps of timers.
 *
 *   slots   [ 0 ][ 1 ][ 2 ] …      what a timer is; a free one leads to the next free
 *   heap    [ due, slot ] …        one for each clock; slot->place leads back
 *   fired   [ slot ] …             one for each clock, as they fired: newest last
 *
 * One that is held is in neither, but in its owner's list.
 *
 * An id is generation and slot. A slot's generation is raised when it is freed, so that the id of a
 * timer that is gone finds nothing. Timers of one owner are linked, for the moment that it leaves. */
#include "scheduler/timers.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define SLOT_BITS 20
#define GENERATION_MASK 0xffffffffu
#define NONE UINT32_MAX
#define CHILDREN 4u
#define FIRED_MAX 65536u /* of a clock: those that roll-back can arm again */

enum slot_state { SLOT_FREE, SLOT_ARMED, SLOT_FIRED, SLOT_HELD };

struct slot {
    struct timer_desc desc;
    void *payload; /* owned */
    int64_t first; /* of a repeating one: the origin of its grid */
    int64_t fired; /* when it did for the last time, by its clock */
    uint64_t count;
    uint32_t generation;
    uint32_t place;                      /* in its heap; of a free one the next free */
    uint32_t owner_next, owner_previous; /* in the owner's list; NONE ends it */
    enum slot_state state;
};

struct entry {
    int64_t due;
    uint32_t slot;
};

struct heap {
    struct entry *entries;
    uint32_t count, capacity;
};

/* A ring that begins at first. Slots that were freed meanwhile are NONE. */
struct fired {
    uint32_t *slots;
    uint32_t first, count, capacity;
};

struct owner {
    uint32_t id;
    uint32_t head; /* slot */
};

struct timers {
    struct slot *slots;
    uint32_t slot_count, slot_capacity, free_slot, maximum;
    uint32_t armed, held;
    uint32_t unsettled; /* slot of the last firing; NONE */
    timers_note_fn *note;
    void *note_context;
    struct heap heap[ALARM_CLOCKS];
    struct fired fired[ALARM_CLOCKS];
    struct owner *owners; /* few: as many as there are clients with timers */
    uint32_t owner_count, owner_capacity;
    void *last_payload; /* of the last firing, when its slot is gone */
};

/* Make room for one more. */
static int grow(void **array, uint32_t *capacity, uint32_t count, size_t bytes)
{
    uint32_t larger = *capacity == 0 ? 64 : *capacity * 2;
    void *grown;

    if (count < *capacity)
        return EC_OK;
    grown = realloc(*array, larger * bytes);
    if (grown == NULL)
        return EC_ERR_MEMORY;
    *array = grown;
    *capacity = larger;
    return EC_OK;
}

/* ---- heap ------------------------------------------------------------------------------------ */

static inline void put(struct timers *timers, struct heap *heap, uint32_t at, struct entry entry)
{
    heap->entries[at] = entry;
    timers->slots[entry.slot].place = at;
}

static void sift_up(struct timers *timers, struct heap *heap, uint32_t at, struct entry entry)
{
    while (at > 0) {
        uint32_t parent = (at - 1) / CHILDREN;

        if (heap->entries[parent].due <= entry.due)
            break;
        put(timers, heap, at, heap->entries[parent]);
        at = parent;
    }
    put(timers, heap, at, entry);
}

static void sift_down(struct timers *timers, struct heap *heap, uint32_t at, struct entry entry)
{
    for (;;) {
        uint32_t child = at * CHILDREN + 1, least = child;

        if (child >= heap->count)
            break;
        for (uint32_t i = child + 1; i < heap->count && i < child + CHILDREN; i++)
            if (heap->entries[i].due < heap->entries[least].due)
                least = i;
        if (heap->entries[least].due >= entry.due)
            break;
        put(timers, heap, at, heap->entries[least]);
        at = least;
    }
    put(timers, heap, at, entry);
}

static void heap_remove(struct timers *timers, struct heap *heap, uint32_t at)
{
    struct entry last = heap->entries[--heap->count];

    timers->armed--;
    if (at == heap->count)
        return;
    if (at > 0 && heap->entries[(at - 1) / CHILDREN].due > last.due)
        sift_up(timers, heap, at, last);
    else
        sift_down(timers, heap, at, last);
}

/* Room was made before. */
static void heap_add(struct timers *timers, uint32_t slot)
{
    struct timer_desc *desc = &timers->slots[slot].desc;
    struct heap *heap = &timers->heap[desc->clock];

    timers->armed++;
    timers->slots[slot].state = SLOT_ARMED;
    sift_up(timers, heap, heap->count++, (struct entry) { desc->due, slot });
}

static int heap_reserve(struct heap *heap)
{
    void *entries = heap->entries;
    int rc = grow(&entries, &heap->capacity, heap->count, sizeof *heap->entries);

    heap->entries = entries;
    return rc;
}

/* ---- owners ---------------------------------------------------------------------------------- */

static struct owner *find_owner(struct timers *timers, uint32_t id)
{
    for (uint32_t i = 0; i < timers->owner_count; i++)
        if (timers->owners[i].id == id)
            return &timers->owners[i];
    return NULL;
}

static struct owner *make_owner(struct timers *timers, uint32_t id)
{
    struct owner *owner = find_owner(timers, id);
    void *owners = timers->owners;

    if (owner != NULL)
        return owner;
    if (grow(&owners, &timers->owner_capacity, timers->owner_count, sizeof *timers->owners) < 0)
        return NULL;
    timers->owners = owners;
    owner = &timers->owners[timers->owner_count++];
    *owner = (struct owner) { .id = id, .head = NONE };
    return owner;
}

static void link_to_owner(struct timers *timers, struct owner *owner, uint32_t at)
{
    struct slot *slot = &timers->slots[at];

    slot->owner_previous = NONE;
    slot->owner_next = owner->head;
    if (owner->head != NONE)
        timers->slots[owner->head].owner_previous = at;
    owner->head = at;
}

static void unlink_from_owner(struct timers *timers, uint32_t at)
{
    struct slot *slot = &timers->slots[at];

    if (slot->owner_next != NONE)
        timers->slots[slot->owner_next].owner_previous = slot->owner_previous;
    if (slot->owner_previous != NONE) {
        timers->slots[slot->owner_previous].owner_next = slot->owner_next;
    } else {
        struct owner *owner = find_owner(timers, slot->desc.owner);

        owner->head = slot->owner_next;
        if (owner->head == NONE)
            *owner = timers->owners[--timers->owner_count];
    }
}

/* ---- slots ----------------------------------------------------------------------------------- */

static void note(const struct timers *timers, uint32_t at)
{
    static const enum timer_life life_of[] = {
        [SLOT_FREE] = TIMER_FREE,
        [SLOT_ARMED] = TIMER_ARMED,
        [SLOT_FIRED] = TIMER_FIRED,
        [SLOT_HELD] = TIMER_ARMED,
    };
    const struct slot *slot = &timers->slots[at];

    if (timers->note != NULL)
        timers->note(timers->note_context, &(struct timer_kept) { .slot = at,
                                                                  .generation = slot->generation,
                                                                  .life = life_of[slot->state],
                                                                  .desc = slot->desc,
                                                                  .first = slot->first,
                                                                  .fired = slot->fired,
                                                                  .count = slot->count });
}

void timers_watch(struct timers *timers, timers_note_fn *note_fn, void *context)
{
    timers->note = note_fn;
    timers->note_context = context;
}

void timers_note_all(const struct timers *timers)
{
    for (uint32_t at = 0; at < timers->slot_count; at++)
        note(timers, at);
}

void timers_settle(struct timers *timers)
{
    if (timers->unsettled != NONE)
        note(timers, timers->unsettled);
    timers->unsettled = NONE;
}

static uint64_t id_of(const struct timers *timers, uint32_t at)
{
    return (uint64_t)timers->slots[at].generation << SLOT_BITS | at;
}

static int take_slot(struct timers *timers, uint32_t *at)
{
    void *slots = timers->slots;

    if (timers->free_slot != NONE) {
        *at = timers->free_slot;
        timers->free_slot = timers->slots[*at].place;
        return EC_OK;
    }
    if (timers->slot_count == timers->maximum)
        return EC_ERR_LIMIT;
    if (grow(&slots, &timers->slot_capacity, timers->slot_count, sizeof *timers->slots) < 0)
        return EC_ERR_MEMORY;
    timers->slots = slots;
    *at = timers->slot_count++;
    timers->slots[*at] = (struct slot) { .generation = 1 };
    return EC_OK;
}

static void give_slot(struct timers *timers, uint32_t at)
{
    struct slot *slot = &timers->slots[at];

    slot->state = SLOT_FREE;
    slot->payload = NULL;
    slot->generation = slot->generation == GENERATION_MASK ? 1 : slot->generation + 1;
    slot->place = timers->free_slot;
    timers->free_slot = at;
}

/* It is in no heap and not among those that fired. */
static void end_timer(struct timers *timers, uint32_t at)
{
    free(timers->slots[at].payload);
    unlink_from_owner(timers, at);
    give_slot(timers, at);
    note(timers, at);
}

/* ---- fired ones ------------------------------------------------------------------------------ */

static uint32_t *fired_at(struct fired *fired, uint32_t i)
{
    assert(fired->capacity > 0);
    return &fired->slots[(fired->first + i) % fired->capacity];
}

static bool fired_add(struct fired *fired, uint32_t slot)
{
    if (fired->count == fired->capacity) {
        uint32_t capacity = fired->capacity == 0 ? 64 : fired->capacity * 2;
        uint32_t *slots = malloc(capacity * sizeof *slots);

        if (slots == NULL)
            return false;
        for (uint32_t i = 0; i < fired->count; i++)
            slots[i] = *fired_at(fired, i);
        free(fired->slots);
        *fired = (struct fired) { slots, 0, fired->count, capacity };
    }
    *fired_at(fired, fired->count++) = slot;
    return true;
}

/* Free the oldest one that fired, to make room. */
static bool drop_fired(struct timers *timers, struct fired *fired)
{
    uint32_t at;

    if (fired->count == 0)
        return false;
    at = *fired_at(fired, 0);
    fired->first = (fired->first + 1) % fired->capacity;
    fired->count--;
    if (at != NONE)
        end_timer(timers, at);
    return true;
}

static bool drop_any_fired(struct timers *timers)
{
    for (unsigned i = 0; i < ALARM_CLOCKS; i++)
        if (drop_fired(timers, &timers->fired[i]))
            return true;
    return false;
}

/* ---- what others call ------------------------------------------------------------------------ */

int timers_create(uint32_t maximum, struct timers **timers, struct ec_error *why)
{
    struct timers *made = calloc(1, sizeof *made);

    assert(maximum > 0 && maximum <= TIMERS_MAX);
    if (made == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "timers: %zu bytes", sizeof *made);
    made->free_slot = NONE;
    made->unsettled = NONE;
    made->maximum = maximum;
    *timers = made;
    return EC_OK;
}

void timers_destroy(struct timers *timers)
{
    if (timers == NULL)
        return;
    for (uint32_t i = 0; i < timers->slot_count; i++)
        free(timers->slots[i].payload);
    for (unsigned i = 0; i < ALARM_CLOCKS; i++) {
        free(timers->heap[i].entries);
        free(timers->fired[i].slots);
    }
    free(timers->last_payload);
    free(timers->owners);
    free(timers->slots);
    free(timers);
}

int timers_arm(struct timers *timers, const struct timer_desc *desc, uint64_t *id,
               struct ec_error *why)
{
    struct owner *owner;
    void *payload = NULL;
    uint32_t at;
    int rc;

    assert(desc->clock < ALARM_CLOCKS && desc->every >= 0);
    if (heap_reserve(&timers->heap[desc->clock]) < 0)
        return ec_fail(why, EC_ERR_MEMORY, "no memory for another timer");
    if (desc->payload_bytes > 0 && (payload = malloc(desc->payload_bytes)) == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory for %u bytes of payload",
                       desc->payload_bytes);
    rc = take_slot(timers, &at);
    while (rc == EC_ERR_LIMIT && drop_any_fired(timers))
        rc = take_slot(timers, &at);
    owner = rc == EC_OK ? make_owner(timers, desc->owner) : NULL;
    if (owner == NULL) {
        if (rc == EC_OK)
            give_slot(timers, at);
        free(payload);
        return rc == EC_ERR_LIMIT ? ec_fail(why, rc, "%u timers are armed already", timers->maximum)
                                  : ec_fail(why, EC_ERR_MEMORY, "no memory for another timer");
    }
    if (payload != NULL)
        memcpy(payload, desc->payload, desc->payload_bytes);
    timers->slots[at].desc = *desc;
    timers->slots[at].desc.payload = payload;
    timers->slots[at].payload = payload;
    timers->slots[at].first = desc->due;
    timers->slots[at].fired = 0;
    timers->slots[at].count = 0;
    link_to_owner(timers, owner, at);
    heap_add(timers, at);
    *id = id_of(timers, at);
    note(timers, at);
    return EC_OK;
}

static void cancel(struct timers *timers, uint32_t at)
{
    struct slot *slot = &timers->slots[at];

    if (slot->state == SLOT_ARMED) {
        heap_remove(timers, &timers->heap[slot->desc.clock], slot->place);
    } else if (slot->state == SLOT_HELD) {
        timers->held--;
    } else {
        struct fired *fired = &timers->fired[slot->desc.clock];

        for (uint32_t i = 0; i < fired->count; i++)
            if (*fired_at(fired, i) == at)
                *fired_at(fired, i) = NONE;
    }
    end_timer(timers, at);
}

uint32_t timers_owner(const struct timers *timers, uint64_t id)
{
    uint32_t at = (uint32_t)(id & ((1u << SLOT_BITS) - 1));

    return at < timers->slot_count &&
                   (timers->slots[at].state == SLOT_ARMED ||
                    timers->slots[at].state == SLOT_HELD) &&
                   id_of(timers, at) == id
               ? timers->slots[at].desc.owner
               : 0;
}

bool timers_is_armed(const struct timers *timers, uint64_t id, uint32_t owner)
{
    return owner != 0 && timers_owner(timers, id) == owner;
}

bool timers_cancel(struct timers *timers, uint64_t id, uint32_t owner)
{
    if (!timers_is_armed(timers, id, owner))
        return false;
    cancel(timers, (uint32_t)(id & ((1u << SLOT_BITS) - 1)));
    return true;
}

/* Forget those that fired first, in one walk: each of them by itself would walk over all. */
static void forget_fired_of(struct timers *timers, uint32_t owner)
{
    for (unsigned clock = 0; clock < ALARM_CLOCKS; clock++) {
        struct fired *fired = &timers->fired[clock];

        for (uint32_t i = 0; i < fired->count; i++) {
            uint32_t at = *fired_at(fired, i);

            if (at == NONE || timers->slots[at].desc.owner != owner)
                continue;
            *fired_at(fired, i) = NONE;
            end_timer(timers, at);
        }
    }
}

void timers_cancel_owner(struct timers *timers, uint32_t owner)
{
    struct owner *found;

    forget_fired_of(timers, owner);
    while ((found = find_owner(timers, owner)) != NULL)
        cancel(timers, found->head);
}

/* ---- owners that are away --------------------------------------------------------------------- */

void timers_hold(struct timers *timers, uint32_t owner_id)
{
    const struct owner *owner = find_owner(timers, owner_id);

    for (uint32_t at = owner != NULL ? owner->head : NONE; at != NONE;
         at = timers->slots[at].owner_next) {
        struct slot *slot = &timers->slots[at];

        if (slot->state != SLOT_ARMED)
            continue;
        heap_remove(timers, &timers->heap[slot->desc.clock], slot->place);
        slot->state = SLOT_HELD;
        timers->held++;
    }
}

uint32_t timers_release(struct timers *timers, uint32_t owner_id)
{
    const struct owner *owner = find_owner(timers, owner_id);
    uint32_t lost = 0;

    for (uint32_t at = owner != NULL ? owner->head : NONE, next; at != NONE; at = next) {
        struct slot *slot = &timers->slots[at];

        next = slot->owner_next;
        if (slot->state != SLOT_HELD)
            continue;
        if (heap_reserve(&timers->heap[slot->desc.clock]) < 0) {
            cancel(timers, at);
            lost++;
            continue;
        }
        timers->held--;
        heap_add(timers, at);
    }
    return lost;
}

uint32_t timers_held(const struct timers *timers)
{
    return timers->held;
}

/* ---- what an earlier run left ----------------------------------------------------------------- */

static int restore(struct timers *timers, const struct timer_kept *kept, struct ec_error *why)
{
    struct slot *slot = &timers->slots[kept->slot];
    struct owner *owner = make_owner(timers, kept->desc.owner);
    void *payload = kept->desc.payload_bytes > 0 ? malloc(kept->desc.payload_bytes) : NULL;

    if (owner == NULL || (payload == NULL && kept->desc.payload_bytes > 0)) {
        free(payload);
        return ec_fail(why, EC_ERR_MEMORY, "no memory for the timers of the last run");
    }
    if (payload != NULL)
        memcpy(payload, kept->desc.payload, kept->desc.payload_bytes);
    *slot = (struct slot) { .desc = kept->desc,
                            .payload = payload,
                            .first = kept->first,
                            .fired = kept->fired,
                            .count = kept->count,
                            .generation = kept->generation };
    slot->desc.payload = payload;
    link_to_owner(timers, owner, kept->slot);
    slot->state = kept->life == TIMER_FIRED ? SLOT_FIRED : SLOT_HELD;
    timers->held += slot->state == SLOT_HELD;
    return EC_OK;
}

static int by_fired(const void *a, const void *b)
{
    const struct timer_kept *const *left = a, *const *right = b;

    return ((*left)->fired > (*right)->fired) - ((*left)->fired < (*right)->fired);
}

/* Those that fired, in their order. */
static int restore_fired(struct timers *timers, const struct timer_kept *rows, uint32_t count,
                         struct ec_error *why)
{
    const struct timer_kept **sorted = malloc((count + 1) * sizeof(struct timer_kept *));
    uint32_t found = 0;
    int rc = EC_OK;

    if (sorted == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory for the timers of the last run");
    for (uint32_t i = 0; i < count; i++)
        if (timers->slots[i].state == SLOT_FIRED)
            sorted[found++] = &rows[i];
    qsort(sorted, found, sizeof(struct timer_kept *), by_fired);
    for (uint32_t i = 0; i < found; i++) {
        if (rc == EC_OK && !fired_add(&timers->fired[sorted[i]->desc.clock], sorted[i]->slot))
            rc = ec_fail(why, EC_ERR_MEMORY, "no memory for the timers of the last run");
        if (rc < 0)
            cancel(timers, sorted[i]->slot);
    }
    free(sorted);
    return rc;
}

int timers_restore(struct timers *timers, const struct timer_kept *rows, uint32_t count,
                   struct ec_error *why)
{
    const uint32_t fitting = count < timers->maximum ? count : timers->maximum;
    int rc = count == fitting ? EC_OK
                              : ec_fail(why, EC_ERR_LIMIT, "more timers than scheduler.timers = %u",
                                        timers->maximum);

    assert(timers->slot_count == 0);
    if (fitting == 0)
        return rc;
    timers->slots = calloc(fitting, sizeof *timers->slots);
    if (timers->slots == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory for the timers of the last run");
    timers->slot_count = timers->slot_capacity = fitting;
    for (uint32_t at = fitting; at-- > 0;) { /* the lowest is given out first */
        if (rows[at].life != TIMER_FREE && (restore(timers, &rows[at], why)) == EC_OK)
            continue;
        if (rows[at].life != TIMER_FREE)
            rc = EC_ERR_MEMORY;
        timers->slots[at].generation = rows[at].generation;
        give_slot(timers, at);
    }
    return restore_fired(timers, rows, fitting, why) < 0 ? EC_ERR_MEMORY : rc;
}

uint32_t timers_armed(const struct timers *timers)
{
    return timers->armed;
}

int64_t timers_first(const struct timers *timers, unsigned clock)
{
    const struct heap *heap = &timers->heap[clock];

    return heap->count > 0 ? heap->entries[0].due : ALARM_NEVER;
}

static void fill(const struct timers *timers, uint32_t at, struct timer_firing *firing)
{
    const struct slot *slot = &timers->slots[at];

    *firing =
        (struct timer_firing) { .id = id_of(timers, at), .desc = slot->desc, .count = slot->count };
}

/* It has fired for the last time: keep it for roll-back, or let it go. The payload is still to be read. */
static void retire(struct timers *timers, uint32_t at)
{
    struct slot *slot = &timers->slots[at];

    if (timers->fired[slot->desc.clock].count >= FIRED_MAX)
        drop_fired(timers, &timers->fired[slot->desc.clock]);
    slot->state = SLOT_FIRED;
    if (slot->desc.clock != ALARM_REAL && fired_add(&timers->fired[slot->desc.clock], at))
        return;
    free(timers->last_payload);
    timers->last_payload = slot->payload;
    unlink_from_owner(timers, at);
    give_slot(timers, at);
}

/* The first point of the grid after now, and how many passed since first, which is not after now. The
 * grid may begin at INT64_MIN. false: there is none before the end of time. */
static bool next_on_grid(int64_t first, int64_t every, int64_t now, uint64_t *passed, int64_t *next)
{
    uint64_t ahead;

    *passed = ((uint64_t)now - (uint64_t)first) / (uint64_t)every + 1;
    if (__builtin_mul_overflow(*passed, (uint64_t)every, &ahead) ||
        ahead > (uint64_t)INT64_MAX - (uint64_t)first)
        return false;
    *next = (int64_t)((uint64_t)first + ahead);
    return true;
}

bool timers_fire(struct timers *timers, unsigned clock, int64_t now, struct timer_firing *firing)
{
    struct heap *heap = &timers->heap[clock];
    struct slot *slot;
    uint32_t at;
    int64_t due, next;

    if (heap->count == 0 || heap->entries[0].due > now)
        return false;
    at = heap->entries[0].slot;
    slot = &timers->slots[at];
    due = slot->desc.due;
    timers_settle(timers);
    timers->unsettled = at;
    slot->count++;
    slot->fired = now;
    fill(timers, at, firing);
    firing->passed = 1;
    if (slot->desc.every > 0 && next_on_grid(due, slot->desc.every, now, &firing->passed, &next)) {
        slot->desc.due = next;
        sift_down(timers, heap, 0, (struct entry) { next, at });
    } else {
        heap_remove(timers, heap, 0);
        retire(timers, at);
    }
    return true;
}

/* The first point of the grid after now. */
static int64_t grid_after(const struct slot *slot, int64_t now)
{
    uint64_t passed;
    int64_t next;

    if (now < slot->first)
        return slot->first;
    return next_on_grid(slot->first, slot->desc.every, now, &passed, &next) ? next : INT64_MAX;
}

void timers_set_back(struct timers *timers, unsigned clock, int64_t now)
{
    struct fired *fired = &timers->fired[clock];
    struct heap *heap = &timers->heap[clock];

    timers_settle(timers);
    for (uint32_t i = 0; i < heap->count; i++) {
        struct slot *slot = &timers->slots[heap->entries[i].slot];

        if (slot->desc.every > 0) {
            slot->desc.due = heap->entries[i].due = grid_after(slot, now);
            note(timers, heap->entries[i].slot);
        }
    }
    for (uint32_t at = 0; at < timers->slot_count && timers->held > 0; at++) {
        struct slot *slot = &timers->slots[at];

        if (slot->state == SLOT_HELD && slot->desc.clock == clock && slot->desc.every > 0) {
            slot->desc.due = grid_after(slot, now);
            note(timers, at);
        }
    }
    for (uint32_t i = heap->count / CHILDREN + 1;
         i-- > 0;) /* an order of all, from the leaves up */
        if (i < heap->count)
            sift_down(timers, heap, i, heap->entries[i]);
    while (fired->count > 0) {
        uint32_t at = *fired_at(fired, fired->count - 1);

        if (at != NONE && timers->slots[at].fired <= now)
            break;
        fired->count--;
        if (at == NONE)
            continue;
        if (heap_reserve(heap) < 0) { /* it has fired, and stays so */
            end_timer(timers, at);
            continue;
        }
        heap_add(timers, at);
        note(timers, at);
    }
}

void timers_forget(struct timers *timers, unsigned clock, int64_t oldest)
{
    struct fired *fired = &timers->fired[clock];

    while (fired->count > 0) {
        uint32_t at = *fired_at(fired, 0);

        if (at != NONE && timers->slots[at].fired >= oldest)
            return;
        drop_fired(timers, fired);
    }
}

bool timers_next(const struct timers *timers, uint32_t *at, struct timer_firing *timer)
{
    while (*at < timers->slot_count) {
        uint32_t slot = (*at)++;

        if (timers->slots[slot].state != SLOT_ARMED && timers->slots[slot].state != SLOT_HELD)
            continue;
        fill(timers, slot, timer);
        return true;
    }
    return false;
}
