/* Debug allocator: blocks between guards, and a record of each outside of them.
 *
 *   under: | front: guards, at least 32 bytes | block | back guard |
 *
 *   records: live list  oldest … newest        quarantine  oldest … newest --> under
 *
 * Records lie apart, so that a program that writes around its blocks spoils guards and nothing else. The
 * table finds them from addresses; a pointer that is in no record is never followed. Everything is under one
 * lock. */
#include "foundation/memory/debug.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "foundation/memory/block_table.h"
#include "foundation/memory/debug_guard.h"
#include "foundation/memory/debug_text.h"
#include "foundation/memory/frame_list.h"
#include "foundation/memory/shared_row.h"
#include "foundation/memory/stack_trace.h"

#define ALIGN_DEFAULT 16
#define ALIGN_MAX 4096
#define BYTES_MAX ((size_t)1 << 40)
#define QUARANTINE_DEFAULT ((size_t)1 << 20)
#define STACK_DEFAULT 16
#define PATROL_DEFAULT 10
#define FRONT_MIN 32
#define TEXT_BYTES 8192

struct record {
    struct ec_debug_block block;
    struct record *older, *newer; /* in the live list, or in quarantine */
    char *room;                   /* from the allocator underneath */
    size_t room_bytes;
    size_t front_bytes;
    size_t align;
    bool told;         /* a fault of it, which is not told again by the patrol */
    uint64_t frames[]; /* stack_depth of the allocation, and as many of the free */
};

struct list {
    struct record *oldest, *newest;
    uint64_t count;
};

struct ec_debug {
    struct ec_shared_row row;
    struct ec_debug_desc desc;
    pthread_mutex_t lock;
    struct ec_block_table table; /* context: the record, live or in quarantine */
    struct list live, quarantine;
    size_t quarantine_bytes;
    uint64_t serial;
    struct record *next_live, *next_freed; /* of the patrol; NULL: the oldest */
    _Atomic uint64_t faults;
    struct ec_frame_link link;
};

/* What a call to free says of the block. */
struct claim {
    bool sized, any; /* any: array or not, whatever it is */
    size_t bytes;
    bool array;
};

static int check_desc(const struct ec_debug_desc *desc, struct ec_error *why);
static void *alloc(struct ec_debug *debug, uint64_t array_count, size_t bytes, size_t align,
                   const struct ec_debug_call *call);
static void keep_call(struct ec_debug_call *to, const struct ec_debug_call *call, uint64_t *frames);
static struct record *record_of(struct ec_debug *debug, const void *address);
static int free_block(struct ec_debug *debug, void *address, const struct claim *claim,
                      const struct ec_debug_call *call);
static void enter_quarantine(struct ec_debug *debug, struct record *record,
                             const struct ec_debug_call *call);
static void leave_quarantine(struct ec_debug *debug, const struct ec_debug_call *call);
static uint64_t check(struct ec_debug *debug, struct record *record,
                      const struct ec_debug_call *call);
static void tell(struct ec_debug *debug, struct ec_debug_fault *fault);
static uint64_t patrol_list(struct ec_debug *debug, const struct list *list, struct record **next,
                            const struct ec_debug_call *call);
static void append(struct list *list, struct record *record);
static void take_out(struct ec_debug *debug, struct list *list, struct record *record);
static void give_back(struct ec_debug *debug, struct record *record);
static void frame_begins(void *debug);

static _Thread_local int this_thread; /* its id; 0: not asked yet */

/* A forked child's one thread has another id. */
static void forget_thread(void)
{
    this_thread = 0;
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, forget_thread);
}

/* A call with room for its frames. */
struct call {
    struct ec_debug_call is;
    uint64_t frames[EC_DEBUG_STACK_MAX];
};

/* gettid is a system call, so each thread asks once. */
static int thread_id(void)
{
    if (this_thread == 0)
        this_thread = gettid();
    return this_thread;
}

/* The call as it is, from the caller of a function of the public header on. */
static void note_call(const struct ec_debug *debug, const char *file, unsigned line,
                      const void *caller, struct call *call)
{
    call->is = (struct ec_debug_call) {
        .file = file, .line = line, .thread = thread_id(), .stack = call->frames
    };
    if (!debug->desc.no_stack)
        call->is.depth = ec_stack_unwind(call->frames, debug->desc.stack_depth, caller);
}

#define CALLER __builtin_return_address(0)

int ec_debug_create_in(struct ec_memory_sink *sink, const struct ec_debug_desc *desc,
                       struct ec_debug **debug, struct ec_error *why)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct ec_debug *made;
    int rc = check_desc(desc, why);

    *debug = NULL;
    if (rc < 0)
        return rc;
    made = calloc(1, sizeof *made);
    if (made == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "debug \"%s\": no memory", desc->name);
    made->desc = *desc;
    if (desc->under.methods == NULL)
        made->desc.under = ec_system_allocator();
    if (desc->quarantine_bytes == 0)
        made->desc.quarantine_bytes = QUARANTINE_DEFAULT;
    if (desc->stack_depth == 0)
        made->desc.stack_depth = STACK_DEFAULT;
    if (desc->patrol_permille == 0)
        made->desc.patrol_permille = PATROL_DEFAULT;
    pthread_once(&once, watch_forks);
    ec_stack_trace_prepare();
    pthread_mutex_init(&made->lock, NULL);
    ec_block_table_init(&made->table);
    ec_shared_row_init(&made->row, sink, desc->name, EC_ALLOCATOR_DEBUG, desc->tag);
    made->row.is_locked = true;
    made->link = (struct ec_frame_link) { .begins = frame_begins, .context = made };
    ec_frame_list_add(sink, &made->link);
    *debug = made;
    return EC_OK;
}

void ec_debug_destroy(struct ec_debug *debug)
{
    if (debug == NULL)
        return;
    ec_frame_list_remove(debug->row.sink, &debug->link);
    ec_debug_check_all(debug);
    while (debug->live.oldest != NULL) {
        struct record *record = debug->live.oldest;

        take_out(debug, &debug->live, record);
        give_back(debug, record);
    }
    while (debug->quarantine.oldest != NULL) {
        struct record *record = debug->quarantine.oldest;

        take_out(debug, &debug->quarantine, record);
        give_back(debug, record);
    }
    ec_block_table_finish(&debug->table);
    ec_shared_row_finish(&debug->row);
    pthread_mutex_destroy(&debug->lock);
    free(debug);
}

void *ec_debug_alloc_at(struct ec_debug *debug, size_t bytes, size_t align, const char *file,
                        unsigned line)
{
    struct call call;

    note_call(debug, file, line, CALLER, &call);
    return alloc(debug, 0, bytes, align, &call.is);
}

void *ec_debug_alloc_array_at(struct ec_debug *debug, size_t count, size_t bytes, size_t align,
                              const char *file, unsigned line)
{
    struct call call;
    size_t product;

    note_call(debug, file, line, CALLER, &call);
    if (__builtin_mul_overflow(count, bytes, &product))
        product = 0; /* refused and counted like it */
    return alloc(debug, count, product, align, &call.is);
}

void *ec_debug_resize_at(struct ec_debug *debug, void *block, size_t bytes, const char *file,
                         unsigned line)
{
    struct call call;
    const struct record *record;
    size_t old_bytes = 0, align = 0; /* 0 bytes: it is no live block */
    uint64_t array_count = 0;
    void *moved;

    note_call(debug, file, line, CALLER, &call);
    if (block == NULL)
        return alloc(debug, 0, bytes, 0, &call.is);
    pthread_mutex_lock(&debug->lock);
    record = record_of(debug, block);
    if (record != NULL && !record->block.is_freed) {
        old_bytes = record->block.bytes;
        align = record->align;
        array_count = record->block.array_count;
    }
    /* Another thread may free it from here on: a fault of its own. */
    pthread_mutex_unlock(&debug->lock);
    if (old_bytes == 0) {
        free_block(debug, block, &(struct claim) { .any = true },
                   &call.is); /* which tells the fault */
        return NULL;
    }
    moved = alloc(debug, array_count, bytes, align, &call.is);
    if (moved == NULL)
        return NULL;
    memcpy(moved, block, old_bytes < bytes ? old_bytes : bytes);
    free_block(debug, block, &(struct claim) { .any = true }, &call.is);
    return moved;
}

int ec_debug_free_at(struct ec_debug *debug, void *block, const char *file, unsigned line)
{
    struct call call;

    if (block == NULL)
        return EC_OK;
    note_call(debug, file, line, CALLER, &call);
    return free_block(debug, block, &(struct claim) { .array = false }, &call.is);
}

int ec_debug_free_array_at(struct ec_debug *debug, void *block, const char *file, unsigned line)
{
    struct call call;

    if (block == NULL)
        return EC_OK;
    note_call(debug, file, line, CALLER, &call);
    return free_block(debug, block, &(struct claim) { .array = true }, &call.is);
}

int ec_debug_free_sized_at(struct ec_debug *debug, void *block, size_t bytes, const char *file,
                           unsigned line)
{
    struct call call;

    if (block == NULL)
        return EC_OK;
    note_call(debug, file, line, CALLER, &call);
    return free_block(debug, block, &(struct claim) { .sized = true, .any = true, .bytes = bytes },
                      &call.is);
}

int ec_debug_check(struct ec_debug *debug, const void *block)
{
    struct ec_debug_fault fault = { .kind = EC_FAULT_FOREIGN_POINTER, .address = block };
    struct call call;
    struct record *record;
    uint64_t faults;

    note_call(debug, NULL, 0, CALLER, &call);
    fault.found = &call.is;
    pthread_mutex_lock(&debug->lock);
    record = record_of(debug, block);
    if (record == NULL || record->block.is_freed) {
        fault.block = record != NULL ? &record->block : NULL;
        tell(debug, &fault);
        faults = 1;
    } else {
        record->told = false;
        faults = check(debug, record, &call.is);
    }
    pthread_mutex_unlock(&debug->lock);
    return faults == 0 ? EC_OK : EC_ERR_STATE;
}

uint64_t ec_debug_check_all(struct ec_debug *debug)
{
    struct call call;
    uint64_t faults = 0;

    note_call(debug, NULL, 0, CALLER, &call);
    pthread_mutex_lock(&debug->lock);
    for (struct record *record = debug->live.oldest; record != NULL; record = record->newer)
        faults += check(debug, record, &call.is);
    for (struct record *record = debug->quarantine.oldest; record != NULL; record = record->newer)
        faults += check(debug, record, &call.is);
    pthread_mutex_unlock(&debug->lock);
    return faults;
}

uint64_t ec_debug_patrol(struct ec_debug *debug)
{
    struct call call;
    uint64_t count;

    note_call(debug, NULL, 0, CALLER, &call);
    pthread_mutex_lock(&debug->lock);
    count = patrol_list(debug, &debug->live, &debug->next_live, &call.is);
    count += patrol_list(debug, &debug->quarantine, &debug->next_freed, &call.is);
    pthread_mutex_unlock(&debug->lock);
    return count;
}

int ec_debug_visit(struct ec_debug *debug,
                   int (*visit)(void *context, const struct ec_debug_block *block), void *context)
{
    int answer = 0;

    pthread_mutex_lock(&debug->lock);
    for (struct record *record = debug->live.oldest; answer == 0 && record != NULL;
         record = record->newer)
        answer = visit(context, &record->block);
    pthread_mutex_unlock(&debug->lock);
    return answer;
}

uint64_t ec_debug_write_live(struct ec_debug *debug, int fd, uint64_t blocks, const char *module)
{
    uint64_t count = 0, bytes = 0;
    char text[TEXT_BYTES];

    pthread_mutex_lock(&debug->lock);
    for (struct record *record = debug->live.oldest; record != NULL; record = record->newer) {
        if (module != NULL && !ec_debug_call_is_of(&record->block.allocated, module))
            continue;
        count++;
        bytes += record->block.bytes;
        if (count > blocks)
            continue;
        ec_debug_block_text(text, sizeof text, &record->block);
        dprintf(fd, "%s", text);
    }
    pthread_mutex_unlock(&debug->lock);
    dprintf(fd, "%s: %llu blocks, %llu bytes are live\n", debug->row.row->name,
            (unsigned long long)count, (unsigned long long)bytes);
    return count;
}

uint64_t ec_debug_faults(const struct ec_debug *debug)
{
    return atomic_load_explicit(&debug->faults, memory_order_relaxed);
}

void ec_debug_stats(const struct ec_debug *debug, struct ec_memory_stats *stats)
{
    ec_shared_row_stats(&debug->row, stats);
}

static void *allocator_alloc(void *debug, size_t bytes, size_t align, uint32_t tag)
{
    struct call call;

    (void)tag;
    note_call(debug, NULL, 0, CALLER, &call);
    return alloc(debug, 0, bytes, align, &call.is);
}

static int allocator_free(void *debug, void *block, size_t bytes)
{
    struct call call;

    note_call(debug, NULL, 0, CALLER, &call);
    return free_block(debug, block, &(struct claim) { .sized = true, .any = true, .bytes = bytes },
                      &call.is);
}

struct ec_allocator ec_debug_allocator(struct ec_debug *debug)
{
    static const struct ec_allocator_methods methods = { allocator_alloc, NULL, allocator_free };

    return (struct ec_allocator) { .methods = &methods, .context = debug };
}

static int check_desc(const struct ec_debug_desc *desc, struct ec_error *why)
{
    const int rc = ec_memory_check_name(desc->name, desc->tag, why);

    if (rc < 0)
        return ec_error_prefix(why, rc, "debug");
    if (desc->stack_depth > EC_DEBUG_STACK_MAX)
        return ec_fail(why, EC_ERR_PARAM, "debug \"%s\": stack_depth is %u, expected 1..%d",
                       desc->name, desc->stack_depth, EC_DEBUG_STACK_MAX);
    if (desc->patrol_permille > 1000)
        return ec_fail(why, EC_ERR_PARAM, "debug \"%s\": patrol_permille is %u, expected 1..1000",
                       desc->name, desc->patrol_permille);
    return EC_OK;
}

static void *alloc(struct ec_debug *debug, uint64_t array_count, size_t bytes, size_t align,
                   const struct ec_debug_call *call)
{
    const size_t depth = debug->desc.no_stack ? 0 : debug->desc.stack_depth;
    struct record *record = NULL;
    char *block;

    if (align == 0)
        align = ALIGN_DEFAULT;
    if (bytes == 0 || bytes > BYTES_MAX || (align & (align - 1)) != 0 || align > ALIGN_MAX)
        goto fail;
    if (align < ALIGN_DEFAULT)
        align = ALIGN_DEFAULT;
    record = malloc(sizeof *record + 2 * depth * sizeof record->frames[0]);
    if (record == NULL)
        goto fail;
    *record = (struct record) { .align = align };
    record->front_bytes = (FRONT_MIN + align - 1) & ~(align - 1);
    record->room_bytes = record->front_bytes + bytes + EC_DEBUG_GUARD_BYTES;
    pthread_mutex_lock(&debug->lock);
    record->room = ec_allocator_alloc(&debug->desc.under, record->room_bytes, align);
    if (record->room == NULL)
        goto fail_locked;
    block = record->room + record->front_bytes;
    record->block = (struct ec_debug_block) {
        .address = block, .bytes = bytes, .serial = ++debug->serial, .array_count = array_count
    };
    keep_call(&record->block.allocated, call, record->frames);
    if (!ec_block_table_add(&debug->table,
                            &(struct ec_block) { .address = block, .context = record })) {
        ec_allocator_free(&debug->desc.under, record->room, record->room_bytes);
        goto fail_locked;
    }
    ec_debug_guard_write(record->room, record->front_bytes);
    memset(block, EC_DEBUG_FILL_NEW, bytes);
    ec_debug_guard_write(block + bytes, EC_DEBUG_GUARD_BYTES);
    append(&debug->live, record);
    ec_shared_row_allocated(&debug->row, bytes, record->room_bytes);
    pthread_mutex_unlock(&debug->lock);
    return block;

fail_locked:
    pthread_mutex_unlock(&debug->lock);
fail:
    free(record);
    ec_shared_row_failed(&debug->row);
    return NULL;
}

/* Copy a call, with its frames to where they stay. */
static void keep_call(struct ec_debug_call *to, const struct ec_debug_call *call, uint64_t *frames)
{
    *to = *call;
    to->stack = frames;
    for (unsigned i = 0; i < call->depth; i++)
        frames[i] = call->stack[i];
}

static struct record *record_of(struct ec_debug *debug, const void *address)
{
    struct ec_block block;

    return ec_block_table_find(&debug->table, address, &block) ? block.context : NULL;
}

/* Whatever the fault, a live block goes into quarantine. */
static int free_block(struct ec_debug *debug, void *address, const struct claim *claim,
                      const struct ec_debug_call *call)
{
    struct ec_debug_fault fault = { .address = address, .found = call };
    uint64_t faults = 1;
    struct record *record;

    pthread_mutex_lock(&debug->lock);
    record = record_of(debug, address);
    if (record == NULL || record->block.is_freed) {
        fault.kind = record == NULL ? EC_FAULT_FOREIGN_POINTER : EC_FAULT_DOUBLE_FREE;
        fault.block = record != NULL ? &record->block : NULL;
        tell(debug, &fault);
    } else {
        record->told = false;
        faults = check(debug, record, call);
        fault.block = &record->block;
        if (claim->sized && claim->bytes != record->block.bytes) {
            fault.kind = EC_FAULT_SIZE_MISMATCH;
            fault.offset = (ptrdiff_t)claim->bytes;
            tell(debug, &fault);
            faults++;
        }
        if (!claim->any && claim->array != (record->block.array_count != 0)) {
            fault.kind = EC_FAULT_ARRAY_MISMATCH;
            fault.offset = 0;
            tell(debug, &fault);
            faults++;
        }
        ec_shared_row_freed(&debug->row, record->block.bytes, record->room_bytes);
        enter_quarantine(debug, record, call);
    }
    pthread_mutex_unlock(&debug->lock);
    return faults == 0 ? EC_OK : EC_ERR_STATE;
}

static void enter_quarantine(struct ec_debug *debug, struct record *record,
                             const struct ec_debug_call *call)
{
    take_out(debug, &debug->live, record);
    record->block.is_freed = true;
    keep_call(&record->block.freed, call,
              record->frames + (debug->desc.no_stack ? 0 : debug->desc.stack_depth));
    record->told = false;
    ec_debug_guard_write(record->room, record->front_bytes); /* what was told is not told again */
    memset(record->room + record->front_bytes, EC_DEBUG_FILL_FREED,
           record->block.bytes + EC_DEBUG_GUARD_BYTES);
    append(&debug->quarantine, record);
    debug->quarantine_bytes += record->block.bytes;
    while (debug->quarantine_bytes > debug->desc.quarantine_bytes &&
           debug->quarantine.oldest != NULL)
        leave_quarantine(debug, call);
}

static void leave_quarantine(struct ec_debug *debug, const struct ec_debug_call *call)
{
    struct record *record = debug->quarantine.oldest;

    check(debug, record, call);
    take_out(debug, &debug->quarantine, record);
    debug->quarantine_bytes -= record->block.bytes;
    give_back(debug, record);
}

/* Returns how many faults were told. */
static uint64_t check(struct ec_debug *debug, struct record *record,
                      const struct ec_debug_call *call)
{
    const char *const block = record->block.address;
    struct ec_debug_fault fault = { .address = block, .block = &record->block, .found = call };
    uint64_t faults = 0;
    size_t at;

    if (record->told)
        return 0;
    if (!ec_debug_guard_check(record->room, record->front_bytes, &at)) {
        fault.kind = EC_FAULT_FRONT_GUARD;
        fault.offset = (ptrdiff_t)at - (ptrdiff_t)record->front_bytes;
        tell(debug, &fault);
        faults++;
    }
    if (record->block.is_freed) {
        fault.kind = EC_FAULT_WRITE_AFTER_FREE;
        if (!ec_debug_fill_check(block, record->block.bytes + EC_DEBUG_GUARD_BYTES,
                                 EC_DEBUG_FILL_FREED, &at)) {
            fault.offset = (ptrdiff_t)at;
            tell(debug, &fault);
            faults++;
        }
    } else if (!ec_debug_guard_check(block + record->block.bytes, EC_DEBUG_GUARD_BYTES, &at)) {
        fault.kind = EC_FAULT_BACK_GUARD;
        fault.offset = (ptrdiff_t)(record->block.bytes + at);
        tell(debug, &fault);
        faults++;
    }
    record->told = faults != 0;
    return faults;
}

static void tell(struct ec_debug *debug, struct ec_debug_fault *fault)
{
    char text[TEXT_BYTES];

    ec_debug_fault_text(text, sizeof text, fault);
    fault->text = text;
    atomic_fetch_add_explicit(&debug->faults, 1, memory_order_relaxed);
    ec_shared_row_failed(&debug->row);
    if (debug->desc.on_fault != NULL)
        debug->desc.on_fault(debug->desc.context, fault);
    else
        fprintf(stderr, "engine-core: memory \"%s\": %s", debug->row.row->name, text);
    if (debug->desc.abort_on_fault)
        abort();
    fault->text = NULL; /* it was here on the stack */
}

/* So many of the list, from where the last patrol ended on. */
static uint64_t patrol_list(struct ec_debug *debug, const struct list *list, struct record **next,
                            const struct ec_debug_call *call)
{
    const uint64_t wanted = (list->count * debug->desc.patrol_permille + 999) / 1000;

    for (uint64_t i = 0; i < wanted; i++) {
        struct record *record = *next != NULL ? *next : list->oldest;

        check(debug, record, call);
        *next = record->newer;
    }
    return wanted;
}

static void append(struct list *list, struct record *record)
{
    record->newer = NULL;
    record->older = list->newest;
    if (list->newest != NULL)
        list->newest->newer = record;
    else
        list->oldest = record;
    list->newest = record;
    list->count++;
}

static void take_out(struct ec_debug *debug, struct list *list, struct record *record)
{
    if (debug->next_live == record)
        debug->next_live = record->newer;
    if (debug->next_freed == record)
        debug->next_freed = record->newer;
    if (record->older != NULL)
        record->older->newer = record->newer;
    else
        list->oldest = record->newer;
    if (record->newer != NULL)
        record->newer->older = record->older;
    else
        list->newest = record->older;
    list->count--;
}

static void give_back(struct ec_debug *debug, struct record *record)
{
    struct ec_block block;

    ec_block_table_take(&debug->table, record->block.address, &block);
    ec_allocator_free(&debug->desc.under, record->room, record->room_bytes);
    free(record);
}

static void frame_begins(void *debug)
{
    ec_debug_patrol(debug);
}
