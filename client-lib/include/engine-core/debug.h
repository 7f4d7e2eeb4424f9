/* engine-core/debug.h - an allocator that looks for everything that can be done wrong with memory.
 *
 *     struct ec_allocator under = ec_heap_allocator(heap, EC_TAG_AI);
 *
 *     ec_debug_create(&(struct ec_debug_desc){ .client = client, .name = "ai", .under = under,
 *                                              .abort_on_fault = true }, &debug, &why);
 *     struct path *path = ec_debug_alloc(debug, sizeof *path, 0); // a macro: file and line are kept
 *     …
 *     ec_debug_free(debug, path);
 *
 * It wraps any allocator. Each block gets guard bytes in front and behind, is filled with 0xCD when it is
 * handed out and with 0xDD when it comes back, is on a list of live blocks with file, line, thread and call
 * stack, and stays in quarantine for a while after it was freed. Found are
 *
 *   double free        the block is in quarantine
 *   foreign pointer    the address is no live block
 *   front guard        written in front of the block
 *   back guard         written behind it
 *   write after free   the fill of a block in quarantine was changed
 *   size mismatch      freed with another size than it was allocated with
 *   array mismatch     allocated as an array and freed as one block, or the other way round
 *
 * when a block is freed, resized or checked, when it leaves quarantine, and by the patrol: at each frame mark of
 * the client one in a hundred of all blocks is looked at, whoever made them.
 *
 * A fault is told in words: what, which block, allocated where, freed where, by which threads, with the call
 * stacks as module+offset, which addr2line and `engine-ctl symbolize` understand. Then the program goes on, or
 * aborts. A faulty block that is freed is taken out of use all the same, except where it is no block.
 *
 * When it is full: NULL, counted in `failed`, when the allocator underneath refuses or the request is none.
 *
 * Alignment: any power of two up to 4 KiB; default 16.
 * Thread:    any (one lock), whatever is underneath.
 * Ownership: destroy gives all blocks back to the allocator underneath.
 * Cost:      100 bytes or so for each block; a lock, a look-up and filling for each call, and a call stack,
 *            some ten nanoseconds a frame. For development; nothing of it is compiled into other
 *            allocators. */
#ifndef ENGINE_CORE_DEBUG_H
#define ENGINE_CORE_DEBUG_H

#include <engine-core/allocator.h>

#ifdef __cplusplus
extern "C" {
#endif

#define EC_DEBUG_STACK_MAX 32

enum ec_fault_kind {
    EC_FAULT_DOUBLE_FREE = 1,
    EC_FAULT_FOREIGN_POINTER,
    EC_FAULT_FRONT_GUARD,
    EC_FAULT_BACK_GUARD,
    EC_FAULT_WRITE_AFTER_FREE,
    EC_FAULT_SIZE_MISMATCH,
    EC_FAULT_ARRAY_MISMATCH,
};

/* A call: where and by whom. */
struct ec_debug_call {
    const char *file; /* NULL: not known */
    unsigned line;
    int thread; /* as gettid says */
    unsigned depth;
    const uint64_t *stack; /* depth return addresses, the innermost first */
};

struct ec_debug_block {
    const void *address;
    size_t bytes;
    uint64_t serial;      /* of all allocations, from 1 */
    uint64_t array_count; /* 0: it is no array */
    bool is_freed;
    struct ec_debug_call allocated, freed;
};

struct ec_debug_fault {
    enum ec_fault_kind kind;
    const void *address; /* as it was given, or where the block is */
    ptrdiff_t offset;    /* of the first changed byte from the block's begin; or the wrong size */
    const struct ec_debug_block *block; /* NULL: it is none */
    const struct ec_debug_call *found;  /* the call that came upon it */
    const char *text;                   /* all of it in words, several lines */
};

/* Zero means the default; name is required. */
struct ec_debug_desc {
    struct ec_client
        *client;      /* whose frames it follows, and where it is published; NULL: nowhere */
    const char *name; /* shown to operators, 1..31 bytes */
    uint32_t tag;     /* what the memory is for; default EC_TAG_GENERAL */
    struct ec_allocator under; /* zero: ec_system_allocator */
    size_t quarantine_bytes;   /* of freed blocks, default 1 MiB */
    unsigned stack_depth;      /* frames that are kept, 1..32; default 16 */
    bool no_stack;             /* keep none */
    unsigned patrol_permille;  /* of the blocks at each frame, 1..1000; default 10 */
    bool abort_on_fault;       /* after it was told */
    void (*on_fault)(void *context, const struct ec_debug_fault *fault); /* default: text to stderr.
                                   Runs under the lock: it must not use this allocator */
    void *context;
};

struct ec_debug; /* opaque */

/* Returns EC_OK, EC_ERR_PARAM (name, tag, stack_depth, patrol_permille), EC_ERR_MEMORY. */
EC_API int ec_debug_create(const struct ec_debug_desc *desc, struct ec_debug **debug,
                           struct ec_error *why);

/* Looks at all blocks once more. Accepts NULL. */
EC_API void ec_debug_destroy(struct ec_debug *debug);

#define ec_debug_alloc(debug, bytes, align)                                                        \
    ec_debug_alloc_at(debug, bytes, align, __FILE__, __LINE__)
#define ec_debug_alloc_array(debug, count, bytes, align)                                           \
    ec_debug_alloc_array_at(debug, count, bytes, align, __FILE__, __LINE__)
#define ec_debug_resize(debug, block, bytes)                                                       \
    ec_debug_resize_at(debug, block, bytes, __FILE__, __LINE__)
#define ec_debug_free(debug, block) ec_debug_free_at(debug, block, __FILE__, __LINE__)
#define ec_debug_free_array(debug, block) ec_debug_free_array_at(debug, block, __FILE__, __LINE__)
#define ec_debug_free_sized(debug, block, bytes)                                                   \
    ec_debug_free_sized_at(debug, block, bytes, __FILE__, __LINE__)

/* file stays valid as long as the allocator, as a literal does; NULL: not known. */
EC_API void *ec_debug_alloc_at(struct ec_debug *debug, size_t bytes, size_t align, const char *file,
                               unsigned line) __attribute__((malloc, warn_unused_result));
EC_API void *ec_debug_alloc_array_at(struct ec_debug *debug, size_t count, size_t bytes,
                                     size_t align, const char *file, unsigned line)
    __attribute__((malloc, warn_unused_result));
/* Always moves, so that stale pointers are found. NULL: refused, and the block is as it was. */
EC_API void *ec_debug_resize_at(struct ec_debug *debug, void *block, size_t bytes, const char *file,
                                unsigned line) __attribute__((warn_unused_result));

/* NULL is accepted and does nothing.
 *
 * Returns EC_OK, or EC_ERR_STATE when there was a fault. */
EC_API int ec_debug_free_at(struct ec_debug *debug, void *block, const char *file, unsigned line);
EC_API int ec_debug_free_array_at(struct ec_debug *debug, void *block, const char *file,
                                  unsigned line);
EC_API int ec_debug_free_sized_at(struct ec_debug *debug, void *block, size_t bytes,
                                  const char *file, unsigned line);

/* As an allocator for containers; free checks the size. */
EC_API struct ec_allocator ec_debug_allocator(struct ec_debug *debug);

/* Look at one live block. Returns EC_OK or EC_ERR_STATE. */
EC_API int ec_debug_check(struct ec_debug *debug, const void *block);

/* Look at all blocks, quarantine too; returns how many faults there were. */
EC_API uint64_t ec_debug_check_all(struct ec_debug *debug);

/* The next patrol_permille of all blocks, at least one; returns how many were looked at. Frame marks do it. */
EC_API uint64_t ec_debug_patrol(struct ec_debug *debug);

/* Call visit for each live block, oldest first, until it answers otherwise than 0; returns that answer. Under
 * the lock: visit must not use this allocator. */
EC_API int ec_debug_visit(struct ec_debug *debug,
                          int (*visit)(void *context, const struct ec_debug_block *block),
                          void *context);

/* Write "N blocks, M bytes are live" and a line for each live block (at most `blocks`) to a descriptor; returns
 * how many are live. module: only those whose allocating call stack leads through a module with this in
 * its path, or whose file has it; NULL: all. */
EC_API uint64_t ec_debug_write_live(struct ec_debug *debug, int fd, uint64_t blocks,
                                    const char *module);

EC_API uint64_t ec_debug_faults(const struct ec_debug *debug); /* so far */

/* Without guards: bytes as they were asked for. Capacity counts what was taken underneath. */
EC_API void ec_debug_stats(const struct ec_debug *debug, struct ec_memory_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
