#include "control/request_memory.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define KEPT_BYTES (256 * 1024) /* pages that a large request has touched beyond go back */

/* The memory that cJSON allocates from while a tree is built on this thread. */
static _Thread_local struct request_memory *tree_memory;

static void *tree_malloc(size_t bytes);
static void tree_free(void *block);
static bool has_escaped_nul(struct ec_json_span span);

int request_memory_init(struct request_memory *memory, struct ec_memory_sink *sink, uint32_t tag,
                        struct ec_error *why)
{
    const struct ec_arena_desc desc = { .name = "requests",
                                        .tag = tag,
                                        .bytes = REQUEST_MEMORY_BYTES };
    cJSON_Hooks hooks = { .malloc_fn = tree_malloc, .free_fn = tree_free };
    int rc;

    *memory = (struct request_memory) { 0 };
    rc = ec_arena_create_in(sink, &desc, &memory->arena, why);
    if (rc < 0)
        return ec_error_prefix(why, rc, "memory for requests");
    memory->base = ec_arena_alloc(memory->arena, 1, 0);
    ec_arena_reset(memory->arena);
    cJSON_InitHooks(&hooks);
    return EC_OK;
}

void request_memory_finish(struct request_memory *memory)
{
    ec_arena_destroy(memory->arena);
    *memory = (struct request_memory) { 0 };
}

void *request_memory_alloc(struct request_memory *memory, size_t bytes)
{
    unsigned char *block =
        ec_arena_alloc(memory->arena, bytes > 0 ? bytes : 1, _Alignof(max_align_t));

    if (block != NULL)
        memory->used = (size_t)(block - memory->base) + bytes;
    return block;
}

/* The arena keeps its pages; those that only a large request needs go back. */
void request_memory_reset(struct request_memory *memory)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t from = ((uintptr_t)memory->base + KEPT_BYTES + page - 1) & ~(page - 1);
    const uintptr_t end = ((uintptr_t)memory->base + REQUEST_MEMORY_BYTES) & ~(page - 1);

    ec_arena_reset(memory->arena);
    if (memory->used > KEPT_BYTES)
        madvise((void *)from, end - from, MADV_DONTNEED);
    memory->used = 0;
}

struct cJSON *request_memory_tree(struct request_memory *memory, struct ec_json_span span,
                                  struct ec_error *why)
{
    struct cJSON *tree;

    if (span.text == NULL || has_escaped_nul(span)) {
        ec_fail(why, EC_ERR_PARAM, "a string must not contain \\u0000");
        return NULL;
    }
    tree_memory = memory;
    tree = cJSON_ParseWithLength(span.text, span.bytes);
    tree_memory = NULL;
    if (tree == NULL)
        ec_fail(why, EC_ERR_MEMORY,
                "a value of %zu bytes needs more than the %d bytes of a request", span.bytes,
                REQUEST_MEMORY_BYTES);
    return tree;
}

/* The text was checked, so a backslash always has its successor. */
static bool has_escaped_nul(struct ec_json_span span)
{
    const char *end = span.text + span.bytes;
    const char *at = span.text;

    while ((at = memchr(at, '\\', (size_t)(end - at))) != NULL) {
        if (end - at >= 6 && memcmp(at, "\\u0000", 6) == 0)
            return true;
        at += 2;
    }
    return false;
}

/* Outside of request_memory_tree() cJSON gets nothing: nobody else is to use it in this process. */
static void *tree_malloc(size_t bytes)
{
    return tree_memory != NULL ? request_memory_alloc(tree_memory, bytes) : NULL;
}

static void tree_free(void *block)
{
    (void)block; /* goes with the request */
}
